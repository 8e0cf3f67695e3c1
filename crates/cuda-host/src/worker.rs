//! Both ends of a worker: a process that runs launches, and whoever wants some.

use std::io::Error;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_platform::{WorkerFate, WorkerProcess, send_message, worker_requests, worker_socket};

use crate::host::{Failure, Host};
use crate::message::{Answer, Request};
use crate::{DeviceName, Launch};

/// Set for a worker by whoever starts it.
const WORKER_VARIABLE: &str = "TENSORTAP_CUDA_WORKER";
/// What would record the worker itself.
const RECORDING: [&str; 2] = ["CUDA_INJECTION64_PATH", "TENSORTAP_SOCKET"];
/// How long finding devices and loading code may take.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// It was refused: its code cannot be loaded here, say.
    Refused(String),
    /// It took the worker with it, or never ended.
    Died(String),
}

/// What a launch leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// In each memory.
    pub memories: Vec<Vec<u8>>,
    /// In each variable.
    pub variables: Vec<Vec<u8>>,
    /// Whether memory lay elsewhere than it did.
    pub is_moved: bool,
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
    /// In words: there is no driver, no device, or no process.
    pub fn start(options: WorkerOptions) -> Result<Worker, String> {
        let mut worker = Worker { options, running: None, devices: Vec::new() };
        match worker.again() {
            Ok(()) => Ok(worker),
            Err(LaunchError::Refused(why) | LaunchError::Died(why)) => Err(why),
        }
    }

    /// The devices that launches can run on, in the order of the driver.
    #[must_use]
    pub fn devices(&self) -> &[DeviceName] {
        &self.devices
    }

    /// Runs a launch with these contents of its memories and variables.
    ///
    /// # Errors
    /// What went wrong; a worker that died is replaced by the next call.
    pub fn launch(
        &mut self,
        launch: &Launch,
        image: &[u8],
        memories: &[Vec<u8>],
        variables: &[Vec<u8>],
    ) -> Result<Left, LaunchError> {
        if self.running.is_none() {
            self.again()?;
        }
        let limit = self.options.launch_limit;
        let Some(running) = self.running.as_mut() else {
            return Err(LaunchError::Died("there is no process to run it".into()));
        };
        let contents = memories.iter().chain(variables).map(Vec::as_slice);
        let parts: Vec<&[u8]> = std::iter::once(image).chain(contents).collect();
        let mut patience = Some(PATIENCE);
        let mut talk = || {
            let request = Request::Launch(Box::new(launch.clone()));
            running.say(&serde_json::to_vec(&request)?, &parts, Some(PATIENCE))?;
            let first = hear(running, Some(PATIENCE))?;
            if !matches!(first.0, Answer::Built) {
                return Ok(first);
            }
            patience = limit;
            hear(running, limit)
        };
        match talk() {
            Ok((Answer::Ran { is_moved }, mut left)) if left.len() == memories.len() + variables.len() => {
                let variables = left.split_off(memories.len());
                Ok(Left { memories: left, variables, is_moved })
            }
            Ok((Answer::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok((Answer::Crashed(why), _)) => {
                // Nothing can be done with its context any more.
                self.running = None;
                Err(LaunchError::Died(why))
            }
            Ok(_) => Err(self.died(&Error::other("an answer to something else"), patience)),
            Err(error) => Err(self.died(&error, patience)),
        }
    }

    fn died(&mut self, error: &Error, patience: Option<Duration>) -> LaunchError {
        let fate = self.running.take().map_or_else(String::new, |running| told(running, error, patience));
        LaunchError::Died(fate)
    }

    fn again(&mut self) -> Result<(), LaunchError> {
        let executable = self.options.executable.as_deref();
        let started = WorkerProcess::start(WORKER_VARIABLE, executable, |command| {
            RECORDING.iter().for_each(|name| _ = command.env_remove(name));
        });
        let mut running =
            started.map_err(|error| LaunchError::Died(format!("starting a process for CUDA: {error}")))?;
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

fn hear(running: &mut WorkerProcess, patience: Option<Duration>) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let (text, parts) = running.hear(patience)?;
    Ok((parse(&text)?, parts))
}

fn parse<T: for<'d> Deserialize<'d>>(text: &[u8]) -> std::io::Result<T> {
    Ok(serde_json::from_slice(text)?)
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
pub fn become_cuda_worker_if_asked() {
    if std::env::var_os(WORKER_VARIABLE).is_none() {
        return;
    }
    let code = match work() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tensortap CUDA worker: {error}");
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
        let (answer, parts) = match serve(&mut host, parse(&text)?, parts, &mut socket) {
            Ok(answer) => answer,
            Err(Failure::NotRun(why)) => (Answer::Failed(why), Vec::new()),
            Err(Failure::Crashed(why)) => (Answer::Crashed(why), Vec::new()),
        };
        answer_with(&mut socket, &answer, &parts)?;
    }
    Ok(())
}

fn answer_with(socket: &mut UnixStream, answer: &impl Serialize, parts: &[Vec<u8>]) -> std::io::Result<()> {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    send_message(socket, &serde_json::to_vec(answer)?, &parts)
}

fn serve(
    host: &mut Option<Host>,
    request: Request,
    mut parts: Vec<Vec<u8>>,
    socket: &mut UnixStream,
) -> Result<(Answer, Vec<Vec<u8>>), Failure> {
    let host = match host {
        Some(host) => host,
        None => host.insert(Host::open()?),
    };
    match request {
        Request::Devices => Ok((Answer::Devices(host.names()), Vec::new())),
        Request::Launch(launch) => {
            let (memories, variables) = (launch.memories.len(), launch.variables.len());
            if parts.len() != 1 + memories + variables {
                return Err("a launch with other contents than it says".into());
            }
            let image = parts.remove(0);
            let mut of_variables = parts.split_off(memories);
            let module = host.load(&launch, image)?;
            answer_with(socket, &Answer::Built, &[]).map_err(|error| error.to_string())?;
            let is_moved = module.run(&launch, &mut parts, &mut of_variables)?;
            parts.append(&mut of_variables);
            Ok((Answer::Ran { is_moved }, parts))
        }
    }
}
