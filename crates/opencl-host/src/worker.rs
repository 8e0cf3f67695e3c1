//! Both ends of a worker: a process that runs launches, and whoever wants some.

use std::io::Error;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tensortap_platform::{WorkerFate, WorkerProcess, send_message, worker_requests, worker_socket};

use crate::host::Host;
use crate::library::LIBRARY_VARIABLE;
use crate::message::{Answer, Request};
use crate::{DeviceName, Launch};

/// Set for a worker by whoever starts it.
const WORKER_VARIABLE: &str = "TENSORTAP_OPENCL_WORKER";
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
    running: Option<WorkerProcess>,
    devices: Vec<DeviceName>,
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
        let parts: Vec<&[u8]> = std::iter::once(image).chain(memories.iter().map(Vec::as_slice)).collect();
        let mut patience = Some(PATIENCE);
        let mut talk = || {
            running.say(&serde_json::to_vec(&Request::Launch(launch.clone()))?, &parts, Some(PATIENCE))?;
            let first = hear(running, Some(PATIENCE))?;
            if !matches!(first.0, Answer::Built) {
                return Ok(first);
            }
            patience = limit;
            hear(running, limit)
        };
        match talk() {
            Ok((Answer::Ran, left)) if left.len() == memories.len() => Ok(left),
            Ok((Answer::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok(_) => Err(self.died(&Error::other("an answer to something else"), patience)),
            Err(error) => Err(self.died(&error, patience)),
        }
    }

    fn died(&mut self, error: &Error, patience: Option<Duration>) -> LaunchError {
        let fate = self.running.take().map_or_else(String::new, |running| told(running, error, patience));
        LaunchError::Died(fate)
    }

    fn again(&mut self) -> Result<(), LaunchError> {
        let started = WorkerProcess::start(WORKER_VARIABLE, self.options.executable.as_deref(), prepare);
        let mut running =
            started.map_err(|error| LaunchError::Died(format!("starting a process for OpenCL: {error}")))?;
        let mut talk = || {
            running.say(&serde_json::to_vec(&Request::Devices)?, &[], Some(PATIENCE))?;
            hear(&mut running, Some(PATIENCE))
        };
        match talk() {
            Ok((Answer::Devices(devices), _)) => {
                (self.running, self.devices) = (Some(running), devices);
                Ok(())
            }
            Ok((Answer::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok(_) => Err(LaunchError::Died("it answers something else".into())),
            Err(error) => Err(LaunchError::Died(told(running, &error, Some(PATIENCE)))),
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

/// What a worker is started with: it records nothing of itself, and finds drivers that lie beside a loader which is named.
fn prepare(command: &mut Command) {
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
}

fn hear(running: &mut WorkerProcess, patience: Option<Duration>) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let (text, parts) = running.hear(patience)?;
    Ok((serde_json::from_slice(&text)?, parts))
}

/// What became of a worker that does not answer, in words.
fn told(running: WorkerProcess, error: &Error, patience: Option<Duration>) -> String {
    match running.fate(error) {
        WorkerFate::Late => format!("it did not end within {} s", patience.unwrap_or_default().as_secs_f64()),
        WorkerFate::Exited(code) => format!("its process ended, with code {code}"),
        WorkerFate::Crashed(cause) => format!("it crashed: its process {cause}"),
        WorkerFate::Odd(why) => why,
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
    let mut socket = worker_socket()?;
    // Where a system cannot, the launch is no worse than any other program of the user.
    let _ = rustix::thread::set_no_new_privs(true);
    let mut host = None;
    for (text, parts) in worker_requests(&socket)? {
        let request = serde_json::from_slice(&text)?;
        let (answer, parts) = match serve(&mut host, request, parts, &mut socket) {
            Ok(answer) => answer,
            Err(why) => (Answer::Failed(why), Vec::new()),
        };
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        send_message(&mut socket, &serde_json::to_vec(&answer)?, &parts)?;
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
            let built = serde_json::to_vec(&Answer::Built).map_err(|error| error.to_string())?;
            send_message(socket, &built, &[]).map_err(|error| error.to_string())?;
            host.run(&program, &launch, &mut parts)?;
            Ok((Answer::Ran, parts))
        }
    }
}
