use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tensortap_abi::DeviceAddr;

use super::DeviceLink;
use crate::{
    DeviceProgram,
    wire::{Message, Received, receive},
};

/// Starts the thread that listens to the host: it hands launches to the main thread, opens the gate for sleepers,
/// and calls `host_gone` when the host's end is closed.
pub(crate) fn start_link_thread(
    link: &DeviceLink,
    host_gone: fn(),
) -> io::Result<(Receiver<DeviceAddr>, JoinHandle<()>)> {
    let (launches, receiver) = channel();
    let link = link.clone();
    let listen = move || {
        listen_to_host(&link, &launches);
        link.gate().close();
        host_gone();
    };
    let thread = thread::Builder::new().name("tt-link".to_owned()).spawn(listen)?;
    Ok((receiver, thread))
}

/// Runs every launch on this thread, until the host is gone.
pub(crate) fn run_launches(link: &DeviceLink, program: &dyn DeviceProgram, launches: &Receiver<DeviceAddr>) {
    for args in launches {
        link.begin_launch();
        program.run(link, args);
        // A device process ends without running anything, so nothing may wait in a buffer.
        let _ = io::stdout().flush();
        link.finished();
    }
}

/// Returns when the host is gone, or talks nonsense, which is the same.
fn listen_to_host(link: &DeviceLink, launches: &Sender<DeviceAddr>) {
    loop {
        let (socket, bell) = match wait_for_either(link) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        if bell {
            link.host_bell().silence();
            link.gate().open();
        }
        if socket {
            match receive(link.socket()) {
                Ok(Received::Message(Message::Launch(args), _)) if launches.send(args).is_ok() => {}
                _ => return,
            }
        }
    }
}

fn wait_for_either(link: &DeviceLink) -> Result<(bool, bool), Errno> {
    let socket = link.socket();
    let mut files = [PollFd::new(&socket, PollFlags::IN), PollFd::new(link.host_bell(), PollFlags::IN)];
    poll(&mut files, None)?;
    let [socket, bell] = files;
    Ok((!socket.revents().is_empty(), !bell.revents().is_empty()))
}
