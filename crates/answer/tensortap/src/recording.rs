//! Records any program while it runs. The program is started with the path of a socket in its environment.
//! Every process of it that attaches to the socket is recorded into a dump of its own.
//!
//! ```
//! use tensortap::{RecordingConfig, Recording};
//!
//! let folder = tempfile::tempdir()?;
//! let mut config = RecordingConfig::new(["sh", "-c", "exit 3"]);
//! config.out = Some(folder.path().join("run"));
//! let report = Recording::start(config)?.run(|event| println!("{event:?}"));
//! assert_eq!(report.status(), 3, "that of the program");
//! assert!(report.run.processes.is_empty(), "the shell does not attach");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod command;
mod folder_names;
mod ledger;
mod recorded_processes;
mod run_file;
mod serve;
mod session;
mod socket_dir;
mod vendor_libraries;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::SystemTime;

use rustix::process::{Resource, getrlimit};
use tensortap_abi::DumpLevel;
use tensortap_format::{FormatError, choose_dir_named, timestamp};
use tensortap_platform::PlatformError;
use tensortap_platform::attach::AttachListener;

use self::command::{CommandExit, Libraries, ProcessSignaler};
use self::ledger::RunLedger;
use self::run_file::RUNNING;
use self::serve::{RunUpdate, SessionServer};
use self::session::RecordingPlan;
use self::socket_dir::SocketDir;
use crate::dump_plan::OUTPUTS;
use crate::{DiskGate, DumpConfig, Error};

pub use self::command::{NoDumpReason, RecordingLibrary};
pub use self::ledger::{RecordingEvent, RecordingReport};
pub use self::run_file::{ProcessEntry, RUN_FILE, RecorderInfo, RunFile};

/// The symbol that programs look up in the library.
const TABLE: &str = "tensortap_record_1";

/// Size of the arena of each recording thread at the start.
const ARENA_BYTES: u64 = 4 << 20;
/// Records per buffer. The recorder is woken when half of the buffers are full, so a thread writes to all
/// of them in turn. All eight must fit into a second-level cache next to the program's data. One step of a
/// CUDA program took 4.3 ms with this value, 5.2 ms with 4,096, and 6.6 ms with 128 records, which wake the
/// recorder constantly.
const RECORDS: u32 = 256;

/// Environment variables that show which part of a larger job a program is.
const ENVIRONMENT: [&str; 15] = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];

/// All options of `tensortap record`.
#[derive(Clone)]
pub struct RecordingConfig {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// What is recorded of every process, and how.
    pub dump: DumpConfig,
    /// Run folder, new or empty; `None` means a new one in `outputs/`.
    pub out: Option<PathBuf>,
    /// The library that programs record with; `None` means to search near this executable.
    pub library: Option<PathBuf>,
    /// Whether OpenCL commands are recorded. The OpenCL layer must be near this executable.
    pub opencl: bool,
    /// Whether CUDA launches and copies are recorded. The CUDA library must be near this executable.
    pub cuda: bool,
    /// Maximum number of captured bytes of a range with unknown end; `None` means 64 MiB.
    pub max_range: Option<u64>,
    /// Additional environment variables whose values are stored in `run.json`.
    pub environment: Vec<String>,
    /// Number of ranks of the program; `None` if its processes name it.
    pub ranks: Option<u32>,
    /// Identity of a run of several hosts; `None` for a run of this host only.
    pub run_id: Option<String>,
    /// Called before anything is written.
    pub disk: Option<Arc<dyn DiskGate>>,
}

impl RecordingConfig {
    /// Records everything of this command, with default options.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> RecordingConfig {
        RecordingConfig {
            command: command.into_iter().map(Into::into).collect(),
            dump: RecordingConfig::dump(DumpLevel::Full),
            out: None,
            library: None,
            opencl: true,
            cuda: true,
            max_range: None,
            environment: Vec::new(),
            ranks: None,
            run_id: None,
            disk: None,
        }
    }

    /// The default dump configuration of a recorded process.
    pub fn dump(level: DumpLevel) -> DumpConfig {
        DumpConfig { arena_bytes: ARENA_BYTES, arena_grows: true, records: RECORDS, ..DumpConfig::new(level) }
    }
}

/// Why a program cannot be recorded. The program was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// No program was named.
    #[error("no program to record")]
    NoCommand,
    /// An invalid option.
    #[error(transparent)]
    Option(Error),
    /// The named library does not exist.
    #[error("library {} does not exist", .0.display())]
    NoLibrary(PathBuf),
    /// The named library is not a recording library.
    #[error("{} is not a recording library: {why}", .path.display())]
    BadLibrary {
        /// The named file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The CUDA driver is already configured to load a different library.
    #[error(
        "CUDA_INJECTION64_PATH is already set to {}, and CUDA loads only one such library; unset it, or turn CUDA recording off with --no-cuda",
        tensortap_format::quoted(.0)
    )]
    InjectionTaken(PathBuf),
    /// The run folder cannot be created.
    #[error(transparent)]
    Folder(#[from] FormatError),
    /// `run.json` cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    RunFile {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The limit on file sizes is below the size of the memory shared with each process.
    #[error(
        "each process shares {needed} bytes of memory with the recorder, but files may only have {limit} bytes (ulimit -f); choose a smaller \
         --dump-arena or --dump-records"
    )]
    FileLimit {
        /// Required size.
        needed: u64,
        /// Maximum size.
        limit: u64,
    },
    /// No socket can be created for processes to attach to.
    #[error("cannot create the socket that processes attach to: {0}")]
    SocketDir(io::Error),
    /// The socket cannot be created.
    #[error(transparent)]
    Socket(#[from] PlatformError),
    /// A thread cannot be started.
    #[error("cannot start a thread of the recorder: {0}")]
    Thread(io::Error),
    /// The program cannot be started.
    #[error("cannot run {}: {error}", tensortap_format::quoted(.program))]
    Command {
        /// Name of the program.
        program: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl RecordingError {
    /// The exit status for this error: 2 bad usage, 125 recording could not start, 126 not executable, 127
    /// not found.
    pub fn status(&self) -> u8 {
        match self {
            RecordingError::NoCommand
            | RecordingError::Option(_)
            | RecordingError::NoLibrary(_)
            | RecordingError::BadLibrary { .. }
            | RecordingError::InjectionTaken(_) => 2,
            RecordingError::Folder(error) if error.is_usage() => 2,
            RecordingError::Command { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            RecordingError::Command { .. } => 126,
            _ => 125,
        }
    }
}

/// A program that is running and being recorded.
pub struct Recording {
    ledger: RunLedger,
    news: Receiver<RunUpdate>,
    control: RecordingControl,
}

/// Controls a recording from any thread.
#[derive(Clone, Debug)]
pub struct RecordingControl(Sender<RunUpdate>);

impl RecordingControl {
    /// Sends a signal to the program. Has no effect after the program has ended.
    pub fn pass_on(&self, signal: i32) {
        // A recording that has ended needs no signals.
        let _ = self.0.send(RunUpdate::PassOn(signal));
    }

    /// Closes every dump now and ends the recording. The program continues without it.
    pub fn close(&self) {
        let _ = self.0.send(RunUpdate::Close);
    }
}

impl RecordingConfig {
    /// Libraries that the program would need but that are neither next to this executable nor in `../lib`.
    /// Their part is not recorded.
    pub fn missing_libraries(&self) -> Vec<RecordingLibrary> {
        let wanted = [
            (self.library.is_none(), RecordingLibrary::Program),
            (self.opencl, RecordingLibrary::OpenCl),
            (self.cuda, RecordingLibrary::Cuda),
        ];
        let is_missing = |library: &RecordingLibrary| command::find_library(library.file()).is_none();
        wanted
            .into_iter()
            .filter(|(is_wanted, _)| *is_wanted)
            .map(|(_, library)| library)
            .filter(is_missing)
            .collect()
    }
}

impl Recording {
    /// Creates the run folder and the socket, then starts the program.
    ///
    /// # Errors
    /// If any step fails. No files are left then.
    pub fn start(config: RecordingConfig) -> Result<Recording, RecordingError> {
        let RecordingConfig {
            command,
            dump,
            out,
            library,
            opencl,
            cuda,
            max_range,
            environment,
            ranks,
            run_id,
            disk,
        } = config;
        let program = command.first().map(PathBuf::from).ok_or(RecordingError::NoCommand)?;
        let stores_all = !dump.dedup || dump.last.is_some();
        let mut plan = RecordingPlan::new(dump, disk).map_err(RecordingError::Option)?;
        check_file_limit(plan.memory_bytes())?;
        let library = chosen_library(library)?;
        let cuda = cuda_library(cuda)?;
        let place = SocketDir::make().map_err(RecordingError::SocketDir)?;
        let listener = AttachListener::bind(&place.socket())?;
        let started = SystemTime::now();
        let folder = Folder::make(out.as_deref(), started)?;
        plan.dir.clone_from(&folder.dir);
        let mut run = new_run_file(&command, &environment, started);
        run.expected_ranks = ranks;
        run.run_id = run_id.filter(|id| !id.is_empty());
        folder.write(&run)?;

        // Every step that can fail comes before the start of the program.
        let (to_ledger, news) = channel();
        let ended = Arc::new(CommandExit::default());
        let serving = Arc::new(SessionServer::new(plan, listener, ended.clone(), to_ledger.clone()));
        serving.start().map_err(RecordingError::Thread)?;
        let wait_for = start_waiting(ended, to_ledger.clone()).inspect_err(|_| serving.listener.close())?;
        let opencl = opencl.then(|| command::find_library(command::OPENCL_LAYER)).flatten();
        let libraries = Libraries { record: library.clone(), opencl, cuda, max_range, stores_all };
        let child = command::start(&command, &place.socket(), &libraries).map_err(|error| {
            serving.listener.close();
            RecordingError::Command { program, error }
        })?;
        folder.keep();
        run.pid = child.id();
        serving.command_is(child.id());
        let signaller = ProcessSignaler::new(&child).ok();
        let _ = wait_for.send(child);
        let ledger = RunLedger::new(run, library, serving, signaller, place);
        Ok(Recording { ledger, news, control: RecordingControl(to_ledger) })
    }

    /// A handle to control this recording.
    pub fn control(&self) -> RecordingControl {
        self.control.clone()
    }

    /// Its run folder.
    pub fn dir(&self) -> &Path {
        self.ledger.dir()
    }

    /// The library that its processes load through their environment.
    pub fn library(&self) -> Option<&Path> {
        self.ledger.library()
    }

    /// Records until the program and every attached process have ended. Calls `observe` with every event.
    pub fn run(self, observe: impl FnMut(&RecordingEvent<'_>)) -> RecordingReport {
        let Recording { ledger, news, control } = self;
        // Other handles keep their senders as long as there are events.
        drop(control);
        ledger.keep(&news, observe)
    }
}

/// The library that the environment names for the CUDA driver, if any.
fn cuda_library(wanted: bool) -> Result<Option<PathBuf>, RecordingError> {
    let library = wanted.then(|| command::find_library(command::CUDA_LIBRARY)).flatten();
    let taken = std::env::var_os(command::CUDA_INJECTION).filter(|path| !path.is_empty());
    match (library, taken) {
        (Some(_), Some(taken)) => Err(RecordingError::InjectionTaken(taken.into())),
        (library, _) => Ok(library),
    }
}

/// Starts a thread that waits for the command to end.
fn start_waiting(
    ended: Arc<CommandExit>,
    ledger: Sender<RunUpdate>,
) -> Result<Sender<Child>, RecordingError> {
    let (wait_for, command) = channel::<Child>();
    let wait = move || {
        let Ok(mut command) = command.recv() else { return };
        if let Ok(status) = command.wait() {
            ended.tell(status);
            let _ = ledger.send(RunUpdate::CommandEnded(status));
        }
    };
    Builder::new().name("tt-command".into()).spawn(wait).map_err(RecordingError::Thread)?;
    Ok(wait_for)
}

/// The run folder. It is removed unless the program was started.
struct Folder {
    dir: PathBuf,
    kept: bool,
}

impl Folder {
    fn make(out: Option<&Path>, started: SystemTime) -> Result<Folder, RecordingError> {
        let dir = choose_dir_named(out, OUTPUTS.as_ref(), "record", started)?;
        Ok(Folder { dir, kept: false })
    }

    fn write(&self, run: &RunFile) -> Result<(), RecordingError> {
        let failed = |error| RecordingError::RunFile { path: self.dir.join(RUN_FILE), error };
        run.write(&self.dir).map_err(failed)
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(self.dir.join(RUN_FILE));
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}

/// A memory file counts as a file for this limit too. An error before the program starts is better than one
/// later.
fn check_file_limit(needed: u64) -> Result<(), RecordingError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < needed => Err(RecordingError::FileLimit { needed, limit }),
        _ => Ok(()),
    }
}

fn chosen_library(named: Option<PathBuf>) -> Result<Option<PathBuf>, RecordingError> {
    match named {
        // Programs only accept an absolute path.
        Some(path) => match std::fs::canonicalize(&path) {
            Ok(found) if found.is_file() => match tensortap_scene_folder::exports_symbol(&found, TABLE) {
                Ok(true) => Ok(Some(found)),
                Ok(false) => {
                    let why = format!("it does not export `{TABLE}`; use libtensortap.so");
                    Err(RecordingError::BadLibrary { path, why })
                }
                Err(error) => Err(RecordingError::BadLibrary { path, why: error.to_string() }),
            },
            _ => Err(RecordingError::NoLibrary(path)),
        },
        None => Ok(command::find_library(command::LIBRARY)),
    }
}

fn new_run_file(command: &[OsString], environment: &[String], started: SystemTime) -> RunFile {
    let names = ENVIRONMENT.into_iter().chain(environment.iter().map(String::as_str));
    let set = |name: &str| Some((name.to_owned(), std::env::var_os(name)?.to_string_lossy().into_owned()));
    let working_folder = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    RunFile {
        schema_version: 1,
        status: RUNNING.into(),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        working_folder,
        host: host.trim().into(),
        environment: names.filter_map(set).collect::<BTreeMap<_, _>>(),
        started_at: timestamp(started),
        recorder: RecorderInfo { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").into() },
        ..RunFile::default()
    }
}
