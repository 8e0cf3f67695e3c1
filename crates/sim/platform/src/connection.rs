use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tensortap_abi::DeviceAddr;

use crate::{
    DeathCause, DeviceEvent, PlatformError,
    error::os,
    host_memory::HostMemory,
    link_page::{WakeSocket, host_end},
    process::DeviceProcess,
    thread::DeviceThread,
    wire::{self, Message, ReceivedPacket},
};

/// The host's end of the link to a device, with the process or thread that runs the device program.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) from_device: WakeSocket,
    pub(crate) runner: Runner,
    running: bool,
    fate: Option<DeathCause>,
}

/// The process or thread that runs the device program.
#[derive(Debug)]
pub(crate) enum Runner {
    Process(DeviceProcess),
    Thread(DeviceThread),
}

/// The files that poll reported as ready.
struct PollResult {
    socket: bool,
    wake: bool,
    exited: bool,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, from_device: WakeSocket, runner: Runner) -> Connection {
        Connection { socket, from_device, runner, running: false, fate: None }
    }

    pub(crate) fn launch(&mut self, args: DeviceAddr) -> Result<(), PlatformError> {
        if let Some(cause) = self.fate {
            return Err(PlatformError::Dead { cause });
        }
        if self.running {
            return Err(PlatformError::AlreadyRunning);
        }
        match wire::send(&self.socket, &Message::Launch(args), &[]) {
            Ok(()) => {
                self.running = true;
                Ok(())
            }
            Err(Errno::PIPE | Errno::CONNRESET) => Err(PlatformError::Dead { cause: self.record_death() }),
            Err(error) => Err(os("launching on the device")(error)),
        }
    }

    pub(crate) fn wait(
        &mut self,
        memory: &HostMemory,
        timeout: Duration,
    ) -> Result<DeviceEvent, PlatformError> {
        if let Some(cause) = self.fate {
            return Ok(DeviceEvent::Died(cause));
        }
        let page = host_end(memory);
        let woken = page.fall_asleep()?;
        let ready = self.sleep(if woken { Duration::ZERO } else { timeout });
        page.get_up()?;
        let ready = ready?;
        // A packet that the device sent before it died is returned before its death.
        if ready.socket {
            return self.receive();
        }
        if ready.exited {
            return Ok(DeviceEvent::Died(self.record_death()));
        }
        if ready.wake || woken {
            self.from_device.clear();
            page.take_wake()?;
            return Ok(DeviceEvent::Woken);
        }
        Ok(DeviceEvent::TimedOut)
    }

    pub(crate) fn kill(&mut self) {
        if self.fate.is_none() {
            self.fate = Some(match &mut self.runner {
                Runner::Process(process) => process.kill(),
                Runner::Thread(thread) => thread.abandon(),
            });
        }
    }

    fn receive(&mut self) -> Result<DeviceEvent, PlatformError> {
        match wire::receive(&self.socket).map_err(os("receiving from the device"))? {
            ReceivedPacket::Message(Message::Finished, _) => {
                self.running = false;
                Ok(DeviceEvent::Finished)
            }
            ReceivedPacket::Closed => Ok(DeviceEvent::Died(self.record_death())),
            ReceivedPacket::Message(message, _) => {
                Err(PlatformError::Protocol { what: format!("the packet {message:?}") })
            }
            ReceivedPacket::Garbage(bytes) => {
                Err(PlatformError::Protocol { what: format!("an unknown packet of {bytes} bytes") })
            }
        }
    }

    fn record_death(&mut self) -> DeathCause {
        let runner = &mut self.runner;
        *self.fate.get_or_insert_with(|| match runner {
            Runner::Process(process) => process.reap(),
            Runner::Thread(_) => DeathCause::default(),
        })
    }

    fn sleep(&self, timeout: Duration) -> Result<PollResult, PlatformError> {
        let exited = match &self.runner {
            Runner::Process(process) => Some(process.exited()),
            Runner::Thread(_) => None,
        };
        let [socket, wake, exited] = poll_until(
            Instant::now().checked_add(timeout),
            [Some(self.socket.as_fd()), Some(self.from_device.as_fd()), exited],
        )
        .map_err(os("waiting for the device"))?;
        Ok(PollResult { socket, wake, exited })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Device threads must see that the link is closed before the host waits for them.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        // A process is killed when its `DeviceProcess` is dropped.
        if let Runner::Thread(thread) = &mut self.runner {
            thread.end();
        }
    }
}

/// Waits until a file is readable, and returns which ones are. `deadline: None` waits without limit.
pub(crate) fn poll_until<const N: usize>(
    deadline: Option<Instant>,
    files: [Option<BorrowedFd<'_>>; N],
) -> Result<[bool; N], Errno> {
    let mut polled: Vec<PollFd<'_>> =
        files.iter().flatten().map(|&file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, left.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let mut answers = polled.iter().map(|file| !file.revents().is_empty());
    Ok(files.map(|file| file.is_some() && answers.next().unwrap_or(false)))
}
