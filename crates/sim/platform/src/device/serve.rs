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
    wire::{Message, ReceivedPacket, receive},
};

/// Starts the thread that listens to the host. It passes launches to the main thread, wakes sleeping threads,
/// and calls `host_gone` when the host has closed its end.
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

/// Runs every launch on this thread until the host is gone.
pub(crate) fn run_launches(link: &DeviceLink, program: &dyn DeviceProgram, launches: &Receiver<DeviceAddr>) {
    for args in launches {
        link.begin_launch();
        program.run(link, args);
        // A device process ends without flushing buffers, so they are flushed here.
        let _ = io::stdout().flush();
        link.finished();
    }
}

/// Returns when the host is gone or sends an invalid packet.
fn listen_to_host(link: &DeviceLink, launches: &Sender<DeviceAddr>) {
    loop {
        let (socket, wake) = match wait_for_either(link) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        if wake {
            link.host_wake_socket().clear();
            link.gate().open();
        }
        if socket {
            match receive(link.socket()) {
                Ok(ReceivedPacket::Message(Message::Launch(args), _)) if launches.send(args).is_ok() => {}
                _ => return,
            }
        }
    }
}

fn wait_for_either(link: &DeviceLink) -> Result<(bool, bool), Errno> {
    let socket = link.socket();
    let mut files =
        [PollFd::new(&socket, PollFlags::IN), PollFd::new(link.host_wake_socket(), PollFlags::IN)];
    poll(&mut files, None)?;
    let [socket, wake] = files;
    Ok((!socket.revents().is_empty(), !wake.revents().is_empty()))
}
