//! A device that is a process of its own.

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
    link_page::Bell,
    listen::Listener,
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
    /// Hears what it writes, where it is watched by a sanitizer.
    listener: Option<Listener>,
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
    let ((to_host, from_device), (to_device, from_host)) = (Bell::pair()?, Bell::pair()?);
    let mut process = DeviceProcess::spawn(options, device_socket)?;
    let hello = Message::Hello {
        version: PROTOCOL_VERSION,
        layout: LAYOUT_VERSION,
        memory: memory.range(),
        confined: options.confined,
    };
    let given = file::of_bytes(&options.given)?;
    let files = [memory.file(), to_host.as_fd(), from_host.as_fd(), given.as_fd()];
    // A child that is gone already is found out by the handshake.
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
            let doing = "listening to the device process";
            let (ear, mouth) = Listener::start().map_err(os(doing))?;
            command.stdout(mouth.try_clone().map_err(os(doing))?).stderr(mouth);
            command.envs(sanitizer.environment.iter().map(|(name, value)| (name, value)));
            listener = Some(ear);
        }
        // The device's end is closed here with the command, so that the host sees the end of the device's.
        let spawned = spawn_from_a_thread_that_stays(command);
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

type Spawn = (Command, Sender<io::Result<Child>>);

/// A device asks to be killed when its parent ends, and to the system the parent is the thread that started it. So one thread,
/// which ends with the process, starts them all. A process that was forked from this one has a thread of its own.
fn spawn_from_a_thread_that_stays(command: Command) -> io::Result<Child> {
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
    let gone = || io::Error::other("the thread that starts devices is gone");
    sender.send((command, answer)).map_err(|_| gone())?;
    spawned.recv().map_err(|_| gone())?
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
