//! A device in threads of this process.

use std::{
    mem,
    os::fd::AsFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crate::{
    DeathCause, DeviceLink, DeviceMode, DeviceOptions, PlatformError,
    address::{RankLease, count_abandoned},
    connection::{Connection, Runner},
    device::{LinkParts, run_launches, start_link_thread},
    environment::{DEVICE_VARIABLE, started_as_device},
    error::os,
    host_memory::HostMemory,
    link_page::WakeSocket,
    wire,
};

/// How long a program may take to return after it knows that the host is gone.
const END_GRACE: Duration = Duration::from_millis(500);

/// The threads of a device. A thread cannot be killed. If the program does not return, its memory stays
/// mapped until the process ends.
#[derive(Debug)]
pub(crate) struct DeviceThread {
    main: Option<JoinHandle<()>>,
    /// Disconnected when the main thread of the device ends.
    ended: Receiver<()>,
    /// Keeps the memory mapped. `None` once the program was abandoned.
    link: Option<DeviceLink>,
}

/// Starts a device in this process. `lease` holds the address range of `memory`. Also returns the socket that
/// wakes the device.
pub(crate) fn start(
    options: &DeviceOptions,
    memory: &HostMemory,
    lease: RankLease,
) -> Result<(Connection, WakeSocket), PlatformError> {
    if started_as_device() {
        return Err(PlatformError::StartedAsDevice { variable: DEVICE_VARIABLE });
    }
    let (socket, device_socket) = wire::pair().map_err(os("creating the socket to the device"))?;
    let ((to_host, from_device), (to_device, from_host)) = (WakeSocket::pair()?, WakeSocket::pair()?);
    let link = DeviceLink::new(LinkParts {
        mode: DeviceMode::Thread,
        memory: memory.range(),
        file: memory.file().as_fd().try_clone_to_owned().map_err(os("duplicating device memory"))?,
        socket: device_socket,
        to_host,
        from_host,
        lease: Some(lease),
    })?;
    if !options.program_data.is_empty() {
        options
            .program
            .prepare(&options.program_data)
            .map_err(|reason| PlatformError::NotPrepared { reason })?;
    }
    let thread = DeviceThread::spawn(options, link)?;
    Ok((Connection::new(socket, from_device, Runner::Thread(thread)), to_device))
}

impl DeviceThread {
    fn spawn(options: &DeviceOptions, link: DeviceLink) -> Result<DeviceThread, PlatformError> {
        let (launches, link_thread) =
            start_link_thread(&link, || {}).map_err(os("starting the link thread"))?;
        let (alive, ended) = channel();
        let program = options.program.clone();
        let device_link = link.clone();
        let run = move || {
            let _alive = alive;
            // A panic ends the device and not the host. The panic hook has already printed the message.
            let _ = catch_unwind(AssertUnwindSafe(|| run_launches(&device_link, &*program, &launches)));
            device_link.hang_up();
            let _ = link_thread.join();
        };
        let main = Builder::new().name("tt-device".to_owned()).spawn(run).inspect_err(|_| link.hang_up());
        let main = main.map_err(os("starting the device thread"))?;
        Ok(DeviceThread { main: Some(main), ended, link: Some(link) })
    }

    /// Waits for a short time for the program to return, then abandons it. The socket is already shut down.
    pub(crate) fn end(&mut self) {
        if self.link.is_none() {
            return;
        }
        match self.ended.recv_timeout(END_GRACE) {
            Err(RecvTimeoutError::Disconnected) => {
                if let Some(main) = self.main.take() {
                    let _ = main.join();
                }
            }
            _ => {
                self.abandon();
            }
        }
    }

    /// Abandons the threads and never unmaps their memory.
    pub(crate) fn abandon(&mut self) -> DeathCause {
        if let Some(link) = self.link.take() {
            mem::forget(link);
            count_abandoned();
        }
        DeathCause::default()
    }
}
