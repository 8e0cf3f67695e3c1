//! A device that is a process of its own.

use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tensortap_abi::LAYOUT_VERSION;

use crate::{
    Confinement, DeathCause, DeviceOptions, PlatformError,
    connection::{Connection, Runner, poll_until},
    environment::{DEVICE_VARIABLE, started_as_device},
    error::os,
    host_memory::HostMemory,
    link_page::Bell,
    wire::{self, Message, PROTOCOL_VERSION, Received},
};

const THIS_EXECUTABLE: &str = "/proc/self/exe";
/// How long a device that has closed its end may take to exit before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// The child. It never outlives this value, and is always reaped.
#[derive(Debug)]
pub(crate) struct DeviceProcess {
    child: Child,
    /// Readable once the child has ended.
    exited: OwnedFd,
    confinement: Confinement,
}

/// Starts a device process and gives it `memory`. The bell wakes the device.
pub(crate) fn start(
    options: &DeviceOptions,
    memory: &HostMemory,
) -> Result<(Connection, Bell), PlatformError> {
    if started_as_device() {
        return Err(PlatformError::StartedAsDevice { variable: DEVICE_VARIABLE });
    }
    let (socket, device_socket) = wire::pair().map_err(os("creating the socket to the device"))?;
    let (from_device, to_device) = (Bell::new()?, Bell::new()?);
    let mut process = DeviceProcess::spawn(options.executable.as_deref(), device_socket)?;
    let hello = Message::Hello {
        version: PROTOCOL_VERSION,
        layout: LAYOUT_VERSION,
        memory: memory.range(),
        confined: options.confined,
    };
    let files = [memory.file(), from_device.as_fd(), to_device.as_fd()];
    // A child that is gone already is found out by the handshake.
    let _ = wire::send(&socket, &hello, &files);
    process.shake_hands(options, &socket)?;
    Ok((Connection::new(socket, from_device, Runner::Process(process)), to_device))
}

impl DeviceProcess {
    fn spawn(executable: Option<&Path>, socket: OwnedFd) -> Result<DeviceProcess, PlatformError> {
        let mut command = Command::new(executable.unwrap_or(Path::new(THIS_EXECUTABLE)));
        if executable.is_none() {
            command.arg0("tensortap-device");
        }
        let version = PROTOCOL_VERSION.to_string();
        command
            .env(DEVICE_VARIABLE, version)
            .stdin(Stdio::from(socket))
            .stdout(Stdio::from(std::io::stderr()));
        let spawned = command.spawn();
        // Closes the device's end here, so that the host sees the end of the device's.
        drop(command);
        let mut child =
            spawned.map_err(|error| did_not_become(executable, format!("it did not start: {error}")))?;
        match watch(&child) {
            Ok(exited) => Ok(DeviceProcess { child, exited, confinement: Confinement::NONE }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn shake_hands(&mut self, options: &DeviceOptions, socket: &OwnedFd) -> Result<(), PlatformError> {
        let executable = options.executable.as_deref();
        let deadline = Instant::now().checked_add(options.handshake_timeout);
        let [spoke, exited] = poll_until(deadline, [Some(socket.as_fd()), Some(self.exited.as_fd())])
            .map_err(os("waiting for the device to answer"))?;
        if !spoke && !exited {
            let why = format!("no answer within {:?}", options.handshake_timeout);
            return Err(did_not_become(executable, why));
        }
        match wire::receive(socket).map_err(os("listening to the device"))? {
            Received::Message(Message::Ready(confinement), _) => {
                self.confinement = confinement;
                Ok(())
            }
            Received::Message(Message::Refused(reason), _) => {
                Err(PlatformError::RefusedByDevice { executable: shown(executable), reason })
            }
            Received::Closed => Err(did_not_become(executable, self.reap().to_string())),
            Received::Message(..) | Received::Garbage(_) => {
                Err(did_not_become(executable, "its answer makes no sense".to_owned()))
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn confinement(&self) -> Confinement {
        self.confinement
    }

    pub(crate) fn exited(&self) -> BorrowedFd<'_> {
        self.exited.as_fd()
    }

    /// Collects a child that has ended, or is about to.
    pub(crate) fn reap(&mut self) -> DeathCause {
        let deadline = Instant::now().checked_add(EXIT_GRACE);
        match poll_until(deadline, [Some(self.exited.as_fd())]) {
            Ok([true]) => cause_of(self.child.wait()),
            _ => self.kill(),
        }
    }

    /// Ends the child now. Harmless when it has ended already.
    pub(crate) fn kill(&mut self) -> DeathCause {
        let _ = self.child.kill();
        cause_of(self.child.wait())
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn watch(child: &Child) -> Result<OwnedFd, PlatformError> {
    let doing = "watching the device process";
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| os(doing)(std::io::Error::other("it has no number")))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(os(doing))
}

fn cause_of(status: std::io::Result<ExitStatus>) -> DeathCause {
    status.map_or(DeathCause::default(), |status| DeathCause { signal: status.signal(), code: status.code() })
}

fn did_not_become(executable: Option<&Path>, why: String) -> PlatformError {
    PlatformError::DidNotBecomeDevice { executable: shown(executable), why }
}

fn shown(executable: Option<&Path>) -> PathBuf {
    executable.map_or_else(
        || std::env::current_exe().unwrap_or_else(|_| PathBuf::from(THIS_EXECUTABLE)),
        Path::to_path_buf,
    )
}
