//! A device in its own process.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::Builder,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tensortap_abi::LAYOUT_VERSION;

use crate::{
    Confinement, DeathCause, DeviceOptions, PlatformError, SanitizerReport,
    connection::{Connection, Runner, poll_until},
    environment::{DEVICE_VARIABLE, started_as_device},
    error::os,
    file,
    host_memory::HostMemory,
    link_page::WakeSocket,
    listen::Listener,
    wire::{self, Message, PROTOCOL_VERSION, ReceivedPacket},
};

const THIS_EXECUTABLE: &str = "/proc/self/exe";
/// How long a device that has closed its socket may take to exit before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// The child process. It is killed and reaped when this value is dropped.
#[derive(Debug)]
pub(crate) struct DeviceProcess {
    child: Child,
    /// Readable once the child has ended.
    exited: OwnedFd,
    confinement: Confinement,
    /// Reads the output of the child, if a sanitizer watches it.
    listener: Option<Listener>,
}

/// Starts a device process, gives it `memory`, and waits until it is ready. Also returns the socket that
/// wakes the device.
pub(crate) fn start(
    options: &DeviceOptions,
    memory: &HostMemory,
) -> Result<(Connection, WakeSocket), PlatformError> {
    if started_as_device() {
        return Err(PlatformError::StartedAsDevice { variable: DEVICE_VARIABLE });
    }
    let (socket, device_socket) = wire::pair().map_err(os("creating the socket to the device"))?;
    let ((to_host, from_device), (to_device, from_host)) = (WakeSocket::pair()?, WakeSocket::pair()?);
    let mut process = DeviceProcess::spawn(options, device_socket)?;
    let hello = Message::Hello {
        version: PROTOCOL_VERSION,
        layout: LAYOUT_VERSION,
        memory: memory.range(),
        confined: options.confined,
    };
    let program_data = file::of_bytes(&options.program_data)?;
    let files = [memory.file(), to_host.as_fd(), from_host.as_fd(), program_data.as_fd()];
    // If the child is already gone, the handshake notices.
    let _ = wire::send(&socket, &hello, &files);
    process.shake_hands(options, &socket)?;
    Ok((Connection::new(socket, from_device, Runner::Process(process)), to_device))
}

impl DeviceProcess {
    fn spawn(options: &DeviceOptions, socket: OwnedFd) -> Result<DeviceProcess, PlatformError> {
        let executable = options.executable.as_deref();
        let mut command = Command::new(executable.unwrap_or(Path::new(THIS_EXECUTABLE)));
        if executable.is_none() {
            command.arg0("tensortap-device");
        }
        let version = PROTOCOL_VERSION.to_string();
        command
            .env(DEVICE_VARIABLE, version)
            .stdin(Stdio::from(socket))
            .stdout(Stdio::from(std::io::stderr()));
        let mut listener = None;
        if let Some(sanitizer) = &options.sanitizer {
            let doing = "reading the output of the device process";
            let (reader, writer) = Listener::start().map_err(os(doing))?;
            command.stdout(writer.try_clone().map_err(os(doing))?).stderr(writer);
            command.envs(sanitizer.environment.iter().map(|(name, value)| (name, value)));
            listener = Some(reader);
        }
        // The command owns the device's end of the socket. Dropping it here lets the host notice when the
        // device closes its own copy.
        let spawned = spawn_from_lasting_thread(command);
        let mut child =
            spawned.map_err(|error| did_not_become(executable, format!("it did not start: {error}")))?;
        match watch(&child) {
            Ok(exited) => Ok(DeviceProcess { child, exited, confinement: Confinement::NONE, listener }),
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
        let [answered, exited] = poll_until(deadline, [Some(socket.as_fd()), Some(self.exited.as_fd())])
            .map_err(os("waiting for the device to answer"))?;
        if !answered && !exited {
            let why = format!("no answer within {:?}", options.handshake_timeout);
            return Err(did_not_become(executable, why));
        }
        match wire::receive(socket).map_err(os("receiving from the device"))? {
            ReceivedPacket::Message(Message::Ready(confinement), _) => {
                self.confinement = confinement;
                Ok(())
            }
            ReceivedPacket::Message(Message::Refused(reason), _) => {
                Err(PlatformError::RefusedByDevice { executable: executable_path(executable), reason })
            }
            ReceivedPacket::Closed => Err(did_not_become(executable, self.reap().to_string())),
            ReceivedPacket::Message(..) | ReceivedPacket::Garbage(_) => {
                Err(did_not_become(executable, "it sent an unknown answer".to_owned()))
            }
        }
    }

    pub(crate) fn take_report(&mut self) -> Option<SanitizerReport> {
        self.listener.take().and_then(Listener::take).map(SanitizerReport::new)
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

    /// Reaps a child that has ended or is about to end.
    pub(crate) fn reap(&mut self) -> DeathCause {
        let deadline = Instant::now().checked_add(EXIT_GRACE);
        match poll_until(deadline, [Some(self.exited.as_fd())]) {
            Ok([true]) => cause_of(self.child.wait()),
            _ => self.kill(),
        }
    }

    /// Kills and reaps the child. Harmless if it has already ended.
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

type Spawn = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that lives as long as this process. A device asks the system to kill it
/// when its parent ends, and for Linux the parent is the thread that started it. A forked child of this
/// process starts its own thread.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: Mutex<Option<(u32, Sender<Spawn>)>> = Mutex::new(None);
    let here = std::process::id();
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match spawner.as_ref() {
        Some((process, sender)) if *process == here => sender.clone(),
        _ => {
            let (sender, commands) = channel::<Spawn>();
            Builder::new().name("device-spawner".to_owned()).spawn(move || {
                for (mut command, answer) in commands {
                    let spawned = command.spawn();
                    drop(command);
                    let _ = answer.send(spawned);
                }
            })?;
            *spawner = Some((here, sender.clone()));
            sender
        }
    };
    drop(spawner);
    let (answer, spawned) = channel();
    let gone = || io::Error::other("the thread that starts device processes has ended");
    sender.send((command, answer)).map_err(|_| gone())?;
    spawned.recv().map_err(|_| gone())?
}

fn watch(child: &Child) -> Result<OwnedFd, PlatformError> {
    let doing = "watching the device process";
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| os(doing)(std::io::Error::other("it has no process id")))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(os(doing))
}

fn cause_of(status: std::io::Result<ExitStatus>) -> DeathCause {
    status.map_or(DeathCause::default(), |status| DeathCause { signal: status.signal(), code: status.code() })
}

fn did_not_become(executable: Option<&Path>, why: String) -> PlatformError {
    PlatformError::DidNotBecomeDevice { executable: executable_path(executable), why }
}

fn executable_path(executable: Option<&Path>) -> PathBuf {
    executable.map_or_else(
        || std::env::current_exe().unwrap_or_else(|_| PathBuf::from(THIS_EXECUTABLE)),
        Path::to_path_buf,
    )
}
