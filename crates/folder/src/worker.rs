//! Code of a folder that the host needs answers of runs in a process of its own: orchestrations where the host builds the graph,
//! references, and goldens. A worker is this very executable, started again; it loads the libraries, gives up what it does not need,
//! and answers until its host is gone.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_abi::DType;
use tensortap_platform::{
    WorkerFate, WorkerProcess, receive_message, send_message, worker_requests, worker_socket,
};
use tensortap_scene::Scene;

use crate::call::{Memory, call};
use crate::graph::Step;
use crate::scene::{FolderScene, OpenOptions};

/// Set for a worker by its host.
const WORKER_VARIABLE: &str = "TENSORTAP_WORKER";

/// How long an orchestration or a reference may take: neither computes much, and nobody can be asked meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked; tensors follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The steps of the orchestration.
    Orchestrate { params: Vec<(String, String)> },
    /// What a kernel should compute, over tensors of f64.
    Reference { func_id: u32, shapes: Vec<Vec<u64>>, scalars: Vec<u64>, block_num: u32 },
    /// What the scene's tensors should hold in the end.
    Golden { tensors: Vec<(u8, Vec<u64>)>, params: Vec<u64> },
}

/// What is answered; tensors follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Steps(Vec<Step>),
    Tensors,
    Failed(String),
}

/// A worker that is started when it is first needed, and again when it has died.
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

    /// Asks for something; the error is for people, and ends with what became of the worker.
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
                // It is in no state that anybody knows.
                let why = running.take().map_or_else(String::new, |worker| told(worker, &error));
                Err(why)
            }
        }
    }

    fn start(&self) -> Result<WorkerProcess, String> {
        let started = WorkerProcess::start(WORKER_VARIABLE, self.executable.as_deref(), |command| {
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        });
        let mut running =
            started.map_err(|error| format!("starting a process for code of the folder: {error}"))?;
        match greet(&mut running, &self.plan) {
            Ok(()) => Ok(running),
            Err(Greeting::Refused(why)) => Err(why),
            Err(Greeting::Silence(error)) => Err(told(running, &error)),
        }
    }
}

enum Greeting {
    Refused(String),
    Silence(std::io::Error),
}

fn greet(running: &mut WorkerProcess, plan: &[u8]) -> Result<(), Greeting> {
    let mut talk = || {
        running.say(plan, &[], Some(PATIENCE))?;
        hear(running, Some(PATIENCE))
    };
    match talk().map_err(Greeting::Silence)? {
        (Answer::Failed(why), _) => Err(Greeting::Refused(why)),
        _ => Ok(()),
    }
}

fn ask(
    running: &mut WorkerProcess,
    request: &Request,
    tensors: &[&[u8]],
) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let patience = (!matches!(request, Request::Golden { .. })).then_some(PATIENCE);
    running.say(&serde_json::to_vec(request)?, tensors, patience)?;
    hear(running, patience)
}

fn hear(running: &mut WorkerProcess, patience: Option<Duration>) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
    let (text, tensors) = running.hear(patience)?;
    Ok((serde_json::from_slice(&text)?, tensors))
}

/// What became of a worker that does not answer, in words.
fn told(running: WorkerProcess, error: &std::io::Error) -> String {
    match running.fate(error) {
        WorkerFate::Late => format!("it did not return within {} seconds", PATIENCE.as_secs()),
        WorkerFate::Exited(code) => format!("it called exit, with code {code}"),
        WorkerFate::Crashed(cause) => format!("it crashed: its process {cause}"),
        WorkerFate::Odd(why) => why,
    }
}

/// Becomes a worker when the host that started this process asked for it; then it never returns. Otherwise it returns at once.
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
    // What it computes with may come out of a dump that nobody vouches for.
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
        let dtype = DType::from_tag(*tag).ok_or("a dtype that nobody knows")?;
        Memory::new(dtype, shape, bytes)
    });
    let mut memory: Vec<Memory> = memory.collect::<Result<_, String>>()?;
    call(entry, &mut memory, words, block_num)?;
    Ok((Answer::Tensors, memory.iter().map(Memory::content).collect()))
}
