//! Worker processes for code of a scene folder: orchestrations of host-built graphs, references and goldens.
//! A worker is this same executable, started again. It loads the libraries, confines itself, and answers
//! requests until its host is gone.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_abi::DType;
use tensortap_platform::{
    WorkerExit, WorkerProcess, receive_message, send_message, worker_requests, worker_socket,
};
use tensortap_scene::Scene;

use crate::call::{Memory, call};
use crate::graph::Step;
use crate::scene::{FolderScene, OpenOptions};

/// The environment variable that makes a process a worker.
const WORKER_VARIABLE: &str = "TENSORTAP_WORKER";

/// Timeout for an orchestration or a reference. Neither computes much. A golden has no timeout.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request. Tensors follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Return the steps of the orchestration.
    Orchestrate { params: Vec<(String, String)> },
    /// Compute the reference of a kernel over tensors of f64.
    Reference { func_id: u32, shapes: Vec<Vec<u64>>, scalars: Vec<u64>, block_num: u32 },
    /// Compute the golden of the scene's tensors.
    Golden { tensors: Vec<(u8, Vec<u64>)>, params: Vec<u64> },
}

/// An answer. Tensors follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Steps(Vec<Step>),
    Tensors,
    Failed(String),
}

/// A worker. It is started at the first request, and again after it has died.
#[derive(Debug)]
pub(crate) struct Worker {
    plan: Vec<u8>,
    executable: Option<PathBuf>,
    environment: Vec<(String, OsString)>,
    running: Mutex<Option<WorkerProcess>>,
}

impl Worker {
    pub fn new(plan: Vec<u8>, options: &OpenOptions) -> Worker {
        let environment = options.sanitizer.as_ref().map(|sanitizer| sanitizer.environment.clone());
        let (executable, environment) = (options.executable.clone(), environment.unwrap_or_default());
        Worker { plan, executable, environment, running: Mutex::new(None) }
    }

    /// Sends a request and waits for the answer. The error is a message for the user. If the worker has died,
    /// it contains the reason.
    pub fn ask(&self, request: &Request, tensors: &[&[u8]]) -> Result<(Answer, Vec<Vec<u8>>), String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(self.start()?);
        }
        let worker = running.as_mut().expect("just started");
        match ask(worker, request, tensors) {
            Ok((Answer::Failed(why), _)) => Err(why),
            Ok(answer) => Ok(answer),
            Err(error) => {
                // The state of the worker is unknown, so it is ended.
                let why = running.take().map_or_else(String::new, |worker| exit_reason(worker, &error));
                Err(why)
            }
        }
    }

    fn start(&self) -> Result<WorkerProcess, String> {
        let started = WorkerProcess::start(WORKER_VARIABLE, self.executable.as_deref(), |command| {
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        });
        let mut running = started
            .map_err(|error| format!("starting the worker process for code of the folder failed: {error}"))?;
        match start_scene(&mut running, &self.plan) {
            Ok(()) => Ok(running),
            Err(StartError::Refused(why)) => Err(why),
            Err(StartError::NoAnswer(error)) => Err(exit_reason(running, &error)),
        }
    }
}

enum StartError {
    Refused(String),
    NoAnswer(std::io::Error),
}

fn start_scene(running: &mut WorkerProcess, plan: &[u8]) -> Result<(), StartError> {
    let mut talk = || {
        running.send(plan, &[], Some(TIMEOUT))?;
        receive(running, Some(TIMEOUT))
    };
    match talk().map_err(StartError::NoAnswer)? {
        (Answer::Failed(why), _) => Err(StartError::Refused(why)),
        _ => Ok(()),
    }
}

fn ask(
    running: &mut WorkerProcess,
    request: &Request,
    tensors: &[&[u8]],
) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let timeout = (!matches!(request, Request::Golden { .. })).then_some(TIMEOUT);
    running.send(&serde_json::to_vec(request)?, tensors, timeout)?;
    receive(running, timeout)
}

fn receive(
    running: &mut WorkerProcess,
    timeout: Option<Duration>,
) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let (text, tensors) = running.receive(timeout)?;
    Ok((serde_json::from_slice(&text)?, tensors))
}

/// The reason why a worker does not answer, as text.
fn exit_reason(running: WorkerProcess, error: &std::io::Error) -> String {
    match running.into_exit(error) {
        WorkerExit::TimedOut => format!("it did not return within {} seconds", TIMEOUT.as_secs()),
        WorkerExit::Exited(code) => format!("it called exit, with code {code}"),
        WorkerExit::Crashed(cause) => format!("it crashed: its process {cause}"),
        WorkerExit::ProtocolError(why) => why,
    }
}

/// Turns this process into a worker if a host started it as one. Then it never returns. Otherwise it returns
/// at once.
pub fn become_worker_if_asked() {
    if std::env::var_os(WORKER_VARIABLE).is_none() {
        return;
    }
    let code = match work() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tensortap worker: {error}");
            2
        }
    };
    std::process::exit(code)
}

fn work() -> std::io::Result<()> {
    let _ = rustix::thread::set_name(c"tt-worker");
    let mut socket = worker_socket()?;
    let (plan, _) = receive_message(&mut socket)?;
    let scene = match FolderScene::load(&plan) {
        Ok(scene) => scene,
        Err(why) => return answer(&mut socket, &Answer::Failed(why), &[]),
    };
    // The tensors may come from an untrusted dump.
    tensortap_platform::confine_this_process();
    answer(&mut socket, &Answer::Tensors, &[])?;
    for (text, tensors) in worker_requests(&socket)? {
        match serve(scene, serde_json::from_slice(&text)?, &tensors) {
            Ok((said, tensors)) => answer(&mut socket, &said, &tensors)?,
            Err(why) => answer(&mut socket, &Answer::Failed(why), &[])?,
        }
    }
    Ok(())
}

fn answer(socket: &mut UnixStream, said: &Answer, tensors: &[Vec<u8>]) -> std::io::Result<()> {
    let tensors: Vec<&[u8]> = tensors.iter().map(Vec::as_slice).collect();
    send_message(socket, &serde_json::to_vec(said)?, &tensors)
}

fn serve(
    scene: &'static FolderScene,
    request: Request,
    content: &[Vec<u8>],
) -> Result<(Answer, Vec<Vec<u8>>), String> {
    match request {
        Request::Orchestrate { params } => {
            let pairs = params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let params = tensortap_scene::Params::resolve(scene.name(), scene.params(), pairs);
            let params = params.map_err(|error| error.to_string())?;
            scene.record_steps(&params).map(|steps| (Answer::Steps(steps), Vec::new()))
        }
        Request::Reference { func_id, shapes, scalars, block_num } => {
            let entry = scene.reference_entry(func_id).ok_or("the kernel has no reference")?;
            let tensors = shapes.into_iter().map(|shape| (DType::Float64.tag(), shape)).collect::<Vec<_>>();
            run(entry, &tensors, content, &scalars, block_num)
        }
        Request::Golden { tensors, params } => {
            let entry = scene.golden_entry().ok_or("the scene has no golden function")?;
            run(entry, &tensors, content, &params, 1)
        }
    }
}

fn run(
    entry: tensortap_abi::KernelEntry,
    tensors: &[(u8, Vec<u64>)],
    content: &[Vec<u8>],
    words: &[u64],
    block_num: u32,
) -> Result<(Answer, Vec<Vec<u8>>), String> {
    let memory = tensors.iter().zip(content).map(|((tag, shape), bytes)| {
        let dtype = DType::from_tag(*tag).ok_or("an unknown dtype")?;
        Memory::new(dtype, shape, bytes)
    });
    let mut memory: Vec<Memory> = memory.collect::<Result<_, String>>()?;
    call(entry, &mut memory, words, block_num)?;
    Ok((Answer::Tensors, memory.iter().map(Memory::content).collect()))
}
