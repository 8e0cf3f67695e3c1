//! Both ends of a worker: a process that runs launches, and whoever wants some.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use tensortap_platform::DeathCause;

use crate::host::Host;
use crate::library::LIBRARY_VARIABLE;
use crate::message::{Answer, Request, receive, send};
use crate::{DeviceName, Launch};

/// Set for a worker by whoever starts it.
const WORKER_VARIABLE: &str = "TENSORTAP_OPENCL_WORKER";
const THIS_EXECUTABLE: &str = "/proc/self/exe";
/// Where a loader looks for drivers, and where a system looks for their libraries.
const VENDORS_VARIABLE: &str = "OCL_ICD_VENDORS";
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";
/// The loader in the wheel of `pyopencl` reads this and takes it to be set.
const WHEEL_VARIABLE: &str = "PYOPENCL_HOME";
/// What would record the worker itself.
const RECORDING: [&str; 2] = ["OPENCL_LAYERS", "TENSORTAP_SOCKET"];
/// How long finding devices and building a program may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// How workers are started and waited for.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// Executable that becomes the worker; `None` for this one.
    pub executable: Option<PathBuf>,
    /// How long one launch may take; `None` for ever.
    pub launch_limit: Option<Duration>,
}

/// Why a launch did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// It was refused: its program cannot be built here, say.
    #[error("{0}")]
    Refused(String),
    /// It took the worker with it, or never ended.
    #[error("{0}")]
    Died(String),
}

/// A process that runs launches. It is ended when this is dropped.
#[derive(Debug)]
pub struct Worker {
    options: WorkerOptions,
    running: Option<Running>,
    devices: Vec<DeviceName>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    socket: UnixStream,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// Starts one, and asks for its devices.
    ///
    /// # Errors
    /// In words: there is no loader, no driver, or no process.
    pub fn start(options: WorkerOptions) -> Result<Worker, String> {
        let mut worker = Worker { options, running: None, devices: Vec::new() };
        worker.again().map_err(|error| error.to_string())?;
        Ok(worker)
    }

    /// The devices that launches can run on, in the order of the loader.
    #[must_use]
    pub fn devices(&self) -> &[DeviceName] {
        &self.devices
    }

    /// Runs a launch with these memories, each of which is as the launch left it in the end.
    ///
    /// # Errors
    /// What went wrong; a worker that died is replaced by the next call.
    pub fn launch(
        &mut self,
        launch: &Launch,
        image: &[u8],
        memories: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, LaunchError> {
        if self.running.is_none() {
            self.again()?;
        }
        let limit = self.options.launch_limit;
        let Some(running) = self.running.as_mut() else {
            return Err(LaunchError::Died("there is no process to run it".into()));
        };
        let (result, patience) = running.launch(launch, image, memories, limit);
        match result {
            Ok((Answer::Ran, left)) if left.len() == memories.len() => Ok(left),
            Ok((Answer::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok(_) => Err(self.died(&Error::other("an answer to something else"), patience)),
            Err(error) => Err(self.died(&error, patience)),
        }
    }

    fn died(&mut self, error: &Error, patience: Option<Duration>) -> LaunchError {
        let fate = self.running.take().map_or_else(String::new, |running| running.fate(error, patience));
        LaunchError::Died(fate)
    }

    fn again(&mut self) -> Result<(), LaunchError> {
        let mut running = start(&self.options)
            .map_err(|error| LaunchError::Died(format!("starting a process for OpenCL: {error}")))?;
        match running.ask(&Request::Devices, Some(PATIENCE)) {
            Ok(Answer::Devices(devices)) => {
                (self.running, self.devices) = (Some(running), devices);
                Ok(())
            }
            Ok(Answer::Failed(why)) => Err(LaunchError::Refused(why)),
            Ok(_) => Err(LaunchError::Died("it answers something else".into())),
            Err(error) => Err(LaunchError::Died(running.fate(&error, Some(PATIENCE)))),
        }
    }
}

/// The folder of a loader that has drivers beside it, as wheels of Python bring them.
fn drivers_beside(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    let is_there = entries.any(|entry| entry.path().extension().is_some_and(|ending| ending == "icd"));
    is_there.then(|| folder.to_owned())
}

fn start(options: &WorkerOptions) -> std::io::Result<Running> {
    let (socket, theirs) = UnixStream::pair()?;
    let executable = options.executable.clone().unwrap_or_else(|| THIS_EXECUTABLE.into());
    let mut command = Command::new(executable);
    command.env(WORKER_VARIABLE, "1");
    RECORDING.iter().for_each(|name| _ = command.env_remove(name));
    let library = std::env::var_os(LIBRARY_VARIABLE);
    // The loader of a wheel does not run without it, wherever its drivers are.
    if std::env::var_os(WHEEL_VARIABLE).is_none()
        && let Some(wheel) = library.as_ref().and_then(|library| Path::new(library).parent()?.parent())
    {
        command.env(WHEEL_VARIABLE, wheel);
    }
    if std::env::var_os(VENDORS_VARIABLE).is_none()
        && let Some(folder) = library.as_ref().and_then(|library| drivers_beside(Path::new(library)))
    {
        let mut libraries = folder.clone().into_os_string();
        if let Some(others) = std::env::var_os(LIBRARIES_VARIABLE) {
            libraries.push(":");
            libraries.push(others);
        }
        command.env(LIBRARIES_VARIABLE, libraries);
        command.env(VENDORS_VARIABLE, folder);
    }
    let child =
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(std::io::stderr())).spawn()?;
    Ok(Running { child, socket })
}

impl Running {
    fn ask(&mut self, request: &Request, patience: Option<Duration>) -> std::io::Result<Answer> {
        self.socket.set_read_timeout(patience)?;
        send(&mut self.socket, request, &[] as &[Vec<u8>])?;
        receive(&mut self.socket).map(|(answer, _)| answer)
    }

    /// The answer, and how long it was waited for in the end.
    #[expect(clippy::type_complexity, reason = "said once")]
    fn launch(
        &mut self,
        launch: &Launch,
        image: &[u8],
        memories: &[Vec<u8>],
        limit: Option<Duration>,
    ) -> (std::io::Result<(Answer, Vec<Vec<u8>>)>, Option<Duration>) {
        let mut parts = vec![image];
        parts.extend(memories.iter().map(Vec::as_slice));
        let mut built = || {
            self.socket.set_read_timeout(Some(PATIENCE))?;
            self.socket.set_write_timeout(Some(PATIENCE))?;
            send(&mut self.socket, &Request::Launch(launch.clone()), &parts)?;
            receive::<Answer>(&mut self.socket)
        };
        match built() {
            Ok((Answer::Built, _)) => {
                let answer = self.socket.set_read_timeout(limit).and_then(|()| receive(&mut self.socket));
                (answer, limit)
            }
            other => (other, Some(PATIENCE)),
        }
    }

    /// What became of a worker that does not answer.
    fn fate(mut self, error: &Error, patience: Option<Duration>) -> String {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            let seconds = patience.unwrap_or_default().as_secs_f64();
            return format!("it did not end within {seconds} s");
        }
        if !matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
        ) {
            return format!("its process cannot be understood: {error}");
        }
        // The socket closes a moment before the process is gone.
        match self.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (None, Some(code)) => format!("its process ended, with code {code}"),
                (signal, code) => format!("it crashed: its process {}", DeathCause { signal, code }),
            },
            Err(error) => error.to_string(),
        }
    }
}

/// Becomes a worker when whoever started this process asked for it; then it never returns. Otherwise it returns at once.
pub fn become_opencl_worker_if_asked() {
    if std::env::var_os(WORKER_VARIABLE).is_none() {
        return;
    }
    let code = match work() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tensortap OpenCL worker: {error}");
            2
        }
    };
    std::process::exit(code)
}

fn work() -> std::io::Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    let mut socket = UnixStream::from(socket);
    // Where a system cannot, the launch is no worse than any other program of the user.
    let _ = rustix::thread::set_no_new_privs(true);
    let mut ears = socket.try_clone()?;
    let (heard, requests) = channel();
    // A kernel that never ends must not outlive whoever wanted it.
    std::thread::Builder::new().name("tt-ears".into()).spawn(move || {
        while let Ok(request) = receive::<Request>(&mut ears) {
            if heard.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0)
    })?;
    let mut host = None;
    for (request, parts) in requests {
        match serve(&mut host, request, parts, &mut socket) {
            Ok((answer, parts)) => send(&mut socket, &answer, &parts)?,
            Err(why) => send(&mut socket, &Answer::Failed(why), &[] as &[Vec<u8>])?,
        }
    }
    Ok(())
}

fn serve(
    host: &mut Option<Host>,
    request: Request,
    mut parts: Vec<Vec<u8>>,
    socket: &mut UnixStream,
) -> Result<(Answer, Vec<Vec<u8>>), String> {
    let host = match host {
        Some(host) => host,
        None => host.insert(Host::open()?),
    };
    match request {
        Request::Devices => Ok((Answer::Devices(host.names()), Vec::new())),
        Request::Launch(_) if parts.is_empty() => Err("a launch without a program".into()),
        Request::Launch(launch) => {
            let image = parts.remove(0);
            let program = host.build(&launch, image)?;
            send(socket, &Answer::Built, &[] as &[Vec<u8>]).map_err(|error| error.to_string())?;
            host.run(&program, &launch, &mut parts)?;
            Ok((Answer::Ran, parts))
        }
    }
}
