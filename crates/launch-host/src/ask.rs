//! Whoever wants launches.

use std::io::Error;
use std::path::PathBuf;
use std::time::Duration;

use tensortap_platform::{WorkerFate, WorkerProcess};

use crate::{Answer, Driver, Request};

/// By which a recorder is found.
const SOCKET_VARIABLE: &str = "TENSORTAP_SOCKET";
/// How long finding devices and building or loading code may take.
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
    /// It was refused: its code cannot be built or loaded here, say.
    #[error("{0}")]
    Refused(String),
    /// It took the worker with it, or never ended.
    #[error("{0}")]
    Died(String),
}

/// A process that runs launches. It is ended when this is dropped.
#[derive(Debug)]
pub struct Worker<D: Driver> {
    options: WorkerOptions,
    running: Option<WorkerProcess>,
    devices: Vec<D::Device>,
}

type Heard<D> = (Answer<<D as Driver>::Device, <D as Driver>::Ran>, Vec<Vec<u8>>);

impl<D: Driver> Worker<D> {
    /// Starts one, and asks for its devices.
    ///
    /// # Errors
    /// In words: there is no library, no device, or no process.
    pub fn start(options: WorkerOptions) -> Result<Worker<D>, String> {
        let mut worker = Worker { options, running: None, devices: Vec::new() };
        worker.again().map_err(|error| error.to_string())?;
        Ok(worker)
    }

    /// The devices that launches can run on, in the order of the driver.
    #[must_use]
    pub fn devices(&self) -> &[D::Device] {
        &self.devices
    }

    /// Runs a launch with these contents; answers as many as it left, and what is known of how it ran.
    ///
    /// # Errors
    /// What went wrong; a worker that died is replaced by the next call.
    pub fn launch(
        &mut self,
        launch: D::Launch,
        image: &[u8],
        contents: &[Vec<u8>],
    ) -> Result<(Vec<Vec<u8>>, D::Ran), LaunchError> {
        if self.running.is_none() {
            self.again()?;
        }
        let limit = self.options.launch_limit;
        let Some(running) = self.running.as_mut() else {
            return Err(LaunchError::Died("there is no process to run it".into()));
        };
        let request = Request::Launch(launch);
        let parts: Vec<&[u8]> = std::iter::once(image).chain(contents.iter().map(Vec::as_slice)).collect();
        let mut patience = Some(PATIENCE);
        let mut talk = || {
            running.say(&serde_json::to_vec(&request)?, &parts, Some(PATIENCE))?;
            let first = hear::<D>(running, Some(PATIENCE))?;
            if !matches!(first.0, Answer::Built) {
                return Ok(first);
            }
            patience = limit;
            hear::<D>(running, limit)
        };
        match talk() {
            Ok((Answer::Ran(ran), left)) if left.len() == contents.len() => Ok((left, ran)),
            Ok((Answer::Failed(why), _)) => Err(LaunchError::Refused(why)),
            Ok((Answer::Crashed(why), _)) => {
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
        let started = WorkerProcess::start(D::WORKER_VARIABLE, executable, |command| {
            command.env_remove(D::INJECTING_VARIABLE).env_remove(SOCKET_VARIABLE);
            D::prepare(command);
        });
        let mut running = started
            .map_err(|error| LaunchError::Died(format!("starting a process for {}: {error}", D::NAME)))?;
        let mut talk = || {
            let request: Request<D::Launch> = Request::Devices;
            running.say(&serde_json::to_vec(&request)?, &[], Some(PATIENCE))?;
            hear::<D>(&mut running, Some(PATIENCE))
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

fn hear<D: Driver>(running: &mut WorkerProcess, patience: Option<Duration>) -> std::io::Result<Heard<D>> {
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
