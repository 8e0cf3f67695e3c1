//! Code of a folder that the host needs answers of runs in a process of its own: orchestrations where the host builds the graph,
//! references, and goldens. A worker is this very executable, started again; it loads the libraries, gives up what it does not need,
//! and answers until its host is gone.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_abi::DType;
use tensortap_platform::DeathCause;
use tensortap_scene::Scene;

use crate::call::{Memory, call};
use crate::graph::Step;
use crate::scene::{FolderScene, OpenOptions};

/// Set for a worker by its host.
const WORKER_VARIABLE: &str = "TENSORTAP_WORKER";
const THIS_EXECUTABLE: &str = "/proc/self/exe";

/// How long an orchestration or a reference may take: neither computes much, and nobody can be asked meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest message that is believed to be one.
const MAX_PART_BYTES: u64 = 1 << 40;

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
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    socket: UnixStream,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        match worker.ask(request, tensors) {
            Ok((Answer::Failed(why), _)) => Err(why),
            Ok(answer) => Ok(answer),
            Err(error) => {
                // It is in no state that anybody knows.
                let why = running.take().map_or_else(String::new, |worker| worker.fate(&error));
                Err(why)
            }
        }
    }

    fn start(&self) -> Result<Running, String> {
        let odd =
            |error: &dyn std::fmt::Display| format!("starting a process for code of the folder: {error}");
        let (socket, theirs) = UnixStream::pair().map_err(|error| odd(&error))?;
        let executable = self.executable.clone().unwrap_or_else(|| THIS_EXECUTABLE.into());
        let child = Command::new(&executable)
            .env(WORKER_VARIABLE, "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(std::io::stderr()))
            .spawn()
            .map_err(|error| odd(&error))?;
        let mut running = Running { child, socket };
        match running.greet(&self.plan) {
            Ok(()) => Ok(running),
            Err(Greeting::Refused(why)) => Err(why),
            Err(Greeting::Silence(error)) => Err(running.fate(&error)),
        }
    }
}

enum Greeting {
    Refused(String),
    Silence(std::io::Error),
}

impl Running {
    fn greet(&mut self, plan: &[u8]) -> Result<(), Greeting> {
        let mut talk = || -> std::io::Result<Answer> {
            self.socket.set_read_timeout(Some(PATIENCE))?;
            send(&mut self.socket, plan, &[])?;
            receive_as(&mut self.socket).map(|(answer, _)| answer)
        };
        match talk().map_err(Greeting::Silence)? {
            Answer::Failed(why) => Err(Greeting::Refused(why)),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, request: &Request, tensors: &[&[u8]]) -> std::io::Result<(Answer, Vec<Vec<u8>>)> {
        let patience = (!matches!(request, Request::Golden { .. })).then_some(PATIENCE);
        self.socket.set_read_timeout(patience)?;
        send(&mut self.socket, &serde_json::to_vec(request)?, tensors)?;
        receive_as(&mut self.socket)
    }

    /// What became of a worker that does not answer.
    fn fate(mut self, error: &std::io::Error) -> String {
        if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
            return format!("it did not return within {} seconds", PATIENCE.as_secs());
        }
        // The socket closes a moment before the process is gone.
        match self.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (None, Some(code)) => format!("it called exit, with code {code}"),
                (signal, code) => format!("it crashed: its process {}", DeathCause { signal, code }),
            },
            Err(error) => error.to_string(),
        }
    }
}

/// A message: its text, then tensors, each behind its length.
fn send(socket: &mut impl Write, text: &[u8], tensors: &[&[u8]]) -> std::io::Result<()> {
    socket.write_all(&(tensors.len() as u64).to_le_bytes())?;
    for part in std::iter::once(&text).chain(tensors) {
        socket.write_all(&(part.len() as u64).to_le_bytes())?;
        socket.write_all(part)?;
    }
    socket.flush()
}

fn receive(socket: &mut impl Read) -> std::io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut number = || -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        socket.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let count = number()?.min(1 << 16);
    let mut parts = Vec::new();
    for _ in 0..=count {
        let mut bytes = [0; 8];
        socket.read_exact(&mut bytes)?;
        let length = u64::from_le_bytes(bytes);
        if length > MAX_PART_BYTES {
            return Err(std::io::Error::other("a message that is too long"));
        }
        let mut part = Vec::new();
        socket.by_ref().take(length).read_to_end(&mut part)?;
        if part.len() as u64 != length {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        parts.push(part);
    }
    let text = parts.remove(0);
    Ok((text, parts))
}

fn receive_as<T: for<'d> Deserialize<'d>>(socket: &mut impl Read) -> std::io::Result<(T, Vec<Vec<u8>>)> {
    let (text, tensors) = receive(socket)?;
    Ok((serde_json::from_slice(&text)?, tensors))
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
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let mut socket = UnixStream::from(socket);
    let (plan, _) = receive(&mut socket)?;
    let scene = match FolderScene::load(&plan) {
        Ok(scene) => scene,
        Err(why) => return answer(&mut socket, &Answer::Failed(why), &[]),
    };
    // What it computes with may come out of a dump that nobody vouches for.
    tensortap_platform::confine_this_process();
    answer(&mut socket, &Answer::Tensors, &[])?;
    let mut ears = socket.try_clone()?;
    let (heard, requests) = channel();
    // A function that never returns must not outlive the host.
    std::thread::Builder::new().name("tt-ears".into()).spawn(move || {
        while let Ok(request) = receive_as::<Request>(&mut ears) {
            if heard.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0)
    })?;
    for (request, tensors) in requests {
        match serve(scene, request, &tensors) {
            Ok((said, tensors)) => answer(&mut socket, &said, &tensors)?,
            Err(why) => answer(&mut socket, &Answer::Failed(why), &[])?,
        }
    }
    Ok(())
}

fn answer(socket: &mut UnixStream, said: &Answer, tensors: &[Vec<u8>]) -> std::io::Result<()> {
    let tensors: Vec<&[u8]> = tensors.iter().map(Vec::as_slice).collect();
    send(socket, &serde_json::to_vec(said)?, &tensors)
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
