//! The client of a worker.

use std::io::Error;
use std::path::PathBuf;
use std::time::Duration;

use tensortap_platform::{WorkerExit, WorkerProcess};

use crate::{Driver, Request, Response};

/// Environment variable with the socket of a recorder.
const SOCKET_VARIABLE: &str = "TENSORTAP_SOCKET";
/// Limit on the time for opening devices and for building or loading code.
const SETUP_LIMIT: Duration = Duration::from_secs(300);

/// Options of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// Executable of the worker; `None` for this one.
    pub executable: Option<PathBuf>,
    /// Limit on the time of one launch; `None` for no limit.
    pub launch_limit: Option<Duration>,
}

/// Why a launch did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// It was refused, for example because its code cannot be built or loaded here.
    #[error("{0}")]
    Refused(String),
    /// It crashed the worker or exceeded the time limit.
    #[error("{0}")]
    Died(String),
}

/// A worker process. Dropping this value ends it.
#[derive(Debug)]
pub struct Worker<D: Driver> {
    options: WorkerOptions,
    running: Option<WorkerProcess>,
    devices: Vec<D::Device>,
}

type Reply<D> = (Response<<D as Driver>::Device, <D as Driver>::Outcome>, Vec<Vec<u8>>);

impl<D: Driver> Worker<D> {
    /// Starts a worker and gets its devices.
    ///
    /// # Errors
    /// A message for the user: no library, no device, or no process.
    pub fn start(options: WorkerOptions) -> Result<Worker<D>, String> {
        let mut worker = Worker { options, running: None, devices: Vec::new() };
        worker.start_worker().map_err(|error| error.to_string())?;
        Ok(worker)
    }

    /// The devices, in the driver's order.
    #[must_use]
    pub fn devices(&self) -> &[D::Device] {
        &self.devices
    }

    /// Runs a launch with this memory content. Returns the content after it, and facts about the run.
    ///
    /// # Errors
    /// Why it did not complete. The next call replaces a worker that died.
    pub fn launch(
        &mut self,
        launch: D::Launch,
        image: &[u8],
        contents: &[Vec<u8>],
    ) -> Result<(Vec<Vec<u8>>, D::Outcome), LaunchError> {
        if self.running.is_none() {
            self.start_worker()?;
        }
        let limit = self.options.launch_limit;
        let Some(running) = self.running.as_mut() else {
            return Err(LaunchError::Died("the worker is not running".into()));
        };
        let request = Request::Launch(launch);
        let parts: Vec<&[u8]> = std::iter::once(image).chain(contents.iter().map(Vec::as_slice)).collect();
        let mut patience = Some(SETUP_LIMIT);
        let mut talk = || {
            running.send(&serde_json::to_vec(&request)?, &parts, Some(SETUP_LIMIT))?;
            let first = receive::<D>(running, Some(SETUP_LIMIT))?;
            if !matches!(first.0, Response::Built) {
                return Ok(first);
            }
            patience = limit;
            receive::<D>(running, limit)
        };
        match talk() {
            Ok((Response::Ran(ran), left)) if left.len() == contents.len() => Ok((left, ran)),
            Ok((Response::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok((Response::Crashed(why), _)) => {
                self.running = None;
                Err(LaunchError::Died(why))
            }
            Ok(_) => Err(self.died(&Error::other("unexpected response"), patience)),
            Err(error) => Err(self.died(&error, patience)),
        }
    }

    fn died(&mut self, error: &Error, patience: Option<Duration>) -> LaunchError {
        let fate =
            self.running.take().map_or_else(String::new, |running| describe_fate(running, error, patience));
        LaunchError::Died(fate)
    }

    fn start_worker(&mut self) -> Result<(), LaunchError> {
        let executable = self.options.executable.as_deref();
        let started = WorkerProcess::start(D::WORKER_VARIABLE, executable, |command| {
            command.env_remove(D::INJECTING_VARIABLE).env_remove(SOCKET_VARIABLE);
            D::prepare(command);
        });
        let mut running = started
            .map_err(|error| LaunchError::Died(format!("cannot start a worker for {}: {error}", D::NAME)))?;
        let mut talk = || {
            let request: Request<D::Launch> = Request::Devices;
            running.send(&serde_json::to_vec(&request)?, &[], Some(SETUP_LIMIT))?;
            receive::<D>(&mut running, Some(SETUP_LIMIT))
        };
        match talk() {
            Ok((Response::Devices(devices), _)) => {
                (self.running, self.devices) = (Some(running), devices);
                Ok(())
            }
            Ok((Response::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok(_) => Err(LaunchError::Died("the worker sent an unexpected response".into())),
            Err(error) => Err(LaunchError::Died(describe_fate(running, &error, Some(SETUP_LIMIT)))),
        }
    }
}

fn receive<D: Driver>(running: &mut WorkerProcess, patience: Option<Duration>) -> std::io::Result<Reply<D>> {
    let (text, parts) = running.receive(patience)?;
    Ok((serde_json::from_slice(&text)?, parts))
}

/// Describes what happened to a worker that does not respond.
fn describe_fate(running: WorkerProcess, error: &Error, patience: Option<Duration>) -> String {
    match running.into_exit(error) {
        WorkerExit::TimedOut => {
            format!("it did not complete within {} s", patience.unwrap_or_default().as_secs_f64())
        }
        WorkerExit::Exited(code) => format!("its process exited with code {code}"),
        WorkerExit::Crashed(cause) => format!("it crashed: its process {cause}"),
        WorkerExit::ProtocolError(why) => why,
    }
}
