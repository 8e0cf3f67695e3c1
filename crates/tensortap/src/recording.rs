//! Any program, recorded while it runs: it is started with the path of a socket in its environment, and every process of it that
//! attaches there is served at the same time, each with a dump of its own.
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

mod books;
mod command;
mod place;
mod roster;
mod run_file;
mod serve;
mod session;

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

use self::books::Books;
use self::command::{Ended, Libraries, Signaller};
use self::place::Place;
use self::run_file::RUNNING;
use self::serve::{News, Serving};
use self::session::Plan;
use crate::dump_plan::OUTPUTS;
use crate::{DiskGate, DumpConfig, Error};

pub use self::books::{RecordingEvent, RecordingReport};
pub use self::command::{RecordingLibrary, WhyNothing};
pub use self::run_file::{ProcessEntry, RUN_FILE, RecorderInfo, RunFile};

/// The symbol by which programs find the library's functions.
const TABLE: &str = "tensortap_record_1";

/// Content on its way to the recorder, per thread that records.
const ARENA_BYTES: u64 = 4 << 20;
/// Records of a buffer. The recorder is woken when half of the buffers are full, so that a thread writes to each of them in turn: all eight have to stay in a
/// second-level cache beside what the program has there. A step of a program of CUDA took 4.3 ms with these, 5.2 with 4,096 and 6.6 with 128 records, which wake it all the time.
const RECORDS: u32 = 256;

/// Variables that say which part of a larger run a program is.
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

/// All that `tensortap record` can be told.
#[derive(Clone)]
pub struct RecordingConfig {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// What is recorded of every process, and how.
    pub dump: DumpConfig,
    /// Run folder, new or empty; `None` for one in `outputs/`.
    pub out: Option<PathBuf>,
    /// The library that programs record with; `None`: looked for where this program is.
    pub library: Option<PathBuf>,
    /// Whether commands of OpenCL are recorded: the layer that does it is looked for where this program is.
    pub opencl: bool,
    /// Whether launches and copies of CUDA are recorded: the library that does it is looked for where this program is.
    pub cuda: bool,
    /// Bytes that are captured at most of a range whose end is not known; `None`: 64 MiB.
    pub max_range: Option<u64>,
    /// Further variables whose values are kept in `run.json`.
    pub environment: Vec<String>,
    /// Asked before anything is written.
    pub disk: Option<Arc<dyn DiskGate>>,
}

impl RecordingConfig {
    /// Records everything of this command, with everything at its default.
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
            disk: None,
        }
    }

    /// What is recorded of a process unless told otherwise.
    pub fn dump(level: DumpLevel) -> DumpConfig {
        DumpConfig { arena_bytes: ARENA_BYTES, records: RECORDS, ..DumpConfig::new(level) }
    }
}

/// Why a program is not being recorded. It has not been started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// No program was named.
    #[error("no program to record is named")]
    NoCommand,
    /// An option that cannot be.
    #[error(transparent)]
    Option(Error),
    /// The library that was named is not there.
    #[error("there is no library {}", .0.display())]
    NoLibrary(PathBuf),
    /// The library that was named is none that programs record with.
    #[error("{} is no library that programs record with: {why}", .path.display())]
    BadLibrary {
        /// What was named.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// CUDA's driver is to load another library already.
    #[error(
        "CUDA_INJECTION64_PATH is set already, to {}: CUDA loads one library alone; unset it, or record nothing of CUDA with --no-cuda",
        tensortap_format::quoted(.0)
    )]
    InjectionTaken(PathBuf),
    /// The run folder cannot be made.
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
    /// Files may not become as large as the memory that is shared with each process.
    #[error(
        "each process shares {needed} bytes of memory with the recorder, and files may have {limit} (ulimit -f); choose a smaller \
         --dump-arena or --dump-records"
    )]
    FileLimit {
        /// Bytes it takes.
        needed: u64,
        /// Bytes there may be.
        limit: u64,
    },
    /// There can be no socket for processes to attach to.
    #[error("there is no place for the socket that processes attach to: {0}")]
    Place(io::Error),
    /// The same.
    #[error(transparent)]
    Socket(#[from] PlatformError),
    /// A thread cannot be started.
    #[error("a thread of the recorder could not be started: {0}")]
    Thread(io::Error),
    /// The program cannot be started.
    #[error("cannot run {}: {error}", tensortap_format::quoted(.program))]
    Command {
        /// Its name.
        program: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RecordingError {
    /// The exit status that says this: 2 bad usage, 125 recording could not start, 126 not executable, 127 not found.
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

/// A program that runs and is recorded.
pub struct Recording {
    books: Books,
    news: Receiver<News>,
    control: RecordingControl,
}

/// Interferes with a recording, from any thread.
#[derive(Clone, Debug)]
pub struct RecordingControl(Sender<News>);

impl RecordingControl {
    /// Sends a signal to the program. One that has ended gets none.
    pub fn pass_on(&self, signal: i32) {
        // A recording that is over has nobody to pass it on to.
        let _ = self.0.send(News::PassOn(signal));
    }

    /// Closes every dump now and ends the recording; the program goes on alone.
    pub fn close(&self) {
        let _ = self.0.send(News::Close);
    }
}

impl RecordingConfig {
    /// Libraries that it would tell the program of, and that lie neither beside this executable nor in `../lib`: what they record is not recorded.
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
    /// Makes the run folder and the socket, then starts the program.
    ///
    /// # Errors
    /// When that cannot be done; nothing is left behind then.
    pub fn start(config: RecordingConfig) -> Result<Recording, RecordingError> {
        let RecordingConfig { command, dump, out, library, opencl, cuda, max_range, environment, disk } =
            config;
        let program = command.first().map(PathBuf::from).ok_or(RecordingError::NoCommand)?;
        let stores_all = !dump.dedup || dump.last.is_some();
        let mut plan = Plan::new(dump, disk).map_err(RecordingError::Option)?;
        check_file_limit(plan.memory_bytes())?;
        let library = chosen_library(library)?;
        let cuda = cuda_library(cuda)?;
        let place = Place::make().map_err(RecordingError::Place)?;
        let listener = AttachListener::bind(&place.socket())?;
        let started = SystemTime::now();
        let folder = Folder::make(out.as_deref(), started)?;
        plan.dir.clone_from(&folder.dir);
        let mut run = new_run_file(&command, &environment, started);
        folder.write(&run)?;

        // Whatever can fail comes before the program is started.
        let (to_books, news) = channel();
        let ended = Arc::new(Ended::default());
        let serving = Arc::new(Serving::new(plan, listener, ended.clone(), to_books.clone()));
        serving.start().map_err(RecordingError::Thread)?;
        let wait_for = start_waiting(ended, to_books.clone()).inspect_err(|_| serving.listener.close())?;
        let opencl = opencl.then(|| command::find_library(command::OPENCL_LAYER)).flatten();
        let libraries = Libraries { record: library.clone(), opencl, cuda, max_range, stores_all };
        let child = command::start(&command, &place.socket(), &libraries).map_err(|error| {
            serving.listener.close();
            RecordingError::Command { program, error }
        })?;
        folder.keep();
        run.pid = child.id();
        serving.command_is(child.id());
        let signaller = Signaller::new(&child).ok();
        let _ = wait_for.send(child);
        let books = Books::new(run, library, serving, signaller, place);
        Ok(Recording { books, news, control: RecordingControl(to_books) })
    }

    /// Interferes with this recording.
    pub fn control(&self) -> RecordingControl {
        self.control.clone()
    }

    /// Its run folder.
    pub fn dir(&self) -> &Path {
        self.books.dir()
    }

    /// The library that its processes are told of.
    pub fn library(&self) -> Option<&Path> {
        self.books.library()
    }

    /// Serves until the program and every process that attached have ended, telling `observe` what happens.
    pub fn run(self, observe: impl FnMut(&RecordingEvent<'_>)) -> RecordingReport {
        let Recording { books, news, control } = self;
        // Others hold on to theirs as long as there is news.
        drop(control);
        books.keep(&news, observe)
    }
}

/// The library that CUDA's driver is to load, if any.
fn cuda_library(wanted: bool) -> Result<Option<PathBuf>, RecordingError> {
    let library = wanted.then(|| command::find_library(command::CUDA_LIBRARY)).flatten();
    let taken = std::env::var_os(command::CUDA_INJECTION).filter(|path| !path.is_empty());
    match (library, taken) {
        (Some(_), Some(taken)) => Err(RecordingError::InjectionTaken(taken.into())),
        (library, _) => Ok(library),
    }
}

/// A thread that waits for the command it is given to end.
fn start_waiting(ended: Arc<Ended>, books: Sender<News>) -> Result<Sender<Child>, RecordingError> {
    let (wait_for, command) = channel::<Child>();
    let wait = move || {
        let Ok(mut command) = command.recv() else { return };
        if let Ok(status) = command.wait() {
            ended.tell(status);
            let _ = books.send(News::CommandEnded(status));
        }
    };
    Builder::new().name("tt-command".into()).spawn(wait).map_err(RecordingError::Thread)?;
    Ok(wait_for)
}

/// The run folder, which is taken back unless the program was started.
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

/// A memory file is a file to this limit, too. It is better heard before the program runs.
fn check_file_limit(needed: u64) -> Result<(), RecordingError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < needed => Err(RecordingError::FileLimit { needed, limit }),
        _ => Ok(()),
    }
}

fn chosen_library(named: Option<PathBuf>) -> Result<Option<PathBuf>, RecordingError> {
    match named {
        // Programs take it only by an absolute path.
        Some(path) => match std::fs::canonicalize(&path) {
            Ok(found) if found.is_file() => match tensortap_folder::exports_symbol(&found, TABLE) {
                Ok(true) => Ok(Some(found)),
                Ok(false) => {
                    let why = format!("it does not export `{TABLE}`; name libtensortap.so");
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
