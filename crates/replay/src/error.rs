use std::path::PathBuf;

use tensortap_abi::TaskId;
use tensortap_format::FormatError;
use tensortap_platform::PlatformError;
use tensortap_runtime::RunError;
use tensortap_scene::FaultKind;

/// Why nothing could be replayed or extracted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device could not be opened, or its memory not be used.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The launch could not be prepared.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A case cannot be read.
    #[error("{} is not a case that can be replayed: {reason}; extract it again", path.display())]
    BadCase {
        /// The case.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Neither a dump nor a case.
    #[error("{} is neither a dump nor a case, nor a folder of cases ({why}); name a dump's folder, or what `tensortap extract` wrote", path.display())]
    NothingToReplay {
        /// What was named.
        path: PathBuf,
        /// Why it is no dump.
        why: String,
    },
    /// A name nobody knows.
    #[error("there is no {what} `{name}`; there are: {}", valid.join(", "))]
    Unknown {
        /// What was named.
        what: &'static str,
        /// The name.
        name: String,
        /// What there is.
        valid: Vec<String>,
    },
    /// The scene is not built in here.
    #[error("{from} cannot be replayed: {}", no_scene(.scene, *.is_program))]
    NoScene {
        /// The dump or case.
        from: String,
        /// The scene.
        scene: String,
        /// It is no scene but a program that was recorded.
        is_program: bool,
    },
    /// The scene folder that a capture names cannot be had.
    #[error("{from} is of the scene in {}: {reason}", .folder.display())]
    Folder {
        /// The dump or case.
        from: String,
        /// The folder.
        folder: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A library that kernels cannot be taken from.
    #[error("--kernel: {reason}")]
    Library {
        /// The library, what is wrong with it, and what to do.
        reason: String,
    },
    /// No such task.
    #[error("{from} has no task {}; it has {tasks} tasks{}", TaskId(*task), first_of(.first))]
    NoTask {
        /// The dump or case.
        from: String,
        /// The task asked for.
        task: u64,
        /// Tasks there are.
        tasks: usize,
        /// The first of them.
        first: Option<u64>,
    },
    /// No such dispatch.
    #[error("task {} has no dispatch {dispatch:#x}: {reason}", TaskId(*task))]
    NoDispatch {
        /// The task it would belong to.
        task: u64,
        /// The dispatch asked for.
        dispatch: u64,
        /// What is wrong.
        reason: String,
    },
    /// An argument cannot be set.
    #[error("--set-arg {slot}={value}: {reason}")]
    SetArg {
        /// Position among the task's arguments.
        slot: u16,
        /// What was given.
        value: String,
        /// Why not.
        reason: String,
    },
    /// A fault that cannot show in a kernel.
    #[error("fault `{kind}` cannot show in kernel `{kernel}` of scene `{scene}`; it shows: {}", .shows.join(", "))]
    Fault {
        /// The scene.
        scene: String,
        /// The kernel.
        kernel: String,
        /// What was asked for.
        kind: FaultKind,
        /// What can show.
        shows: Vec<&'static str>,
    },
    /// A race needs another task.
    #[error(
        "fault `race` cannot show in a replay: a race needs a successor, and here every task runs alone; use `tensortap run --inject-fault`"
    )]
    RaceAlone,
    /// An option that makes no sense here.
    #[error("{option}: {reason}")]
    Option {
        /// As on the command line.
        option: &'static str,
        /// Why not.
        reason: String,
    },
    /// A task that cannot be cut out.
    #[error("task {} cannot be extracted: {reason}", TaskId(*task))]
    NotExtracted {
        /// The task.
        task: u64,
        /// Why not.
        reason: String,
    },
    /// A case could not be written, and nothing of it is left.
    #[error("cannot write {}: {source}; nothing of the case is left there, name another place with --out or make room", path.display())]
    NotWritten {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

fn no_scene(scene: &str, is_program: bool) -> String {
    if is_program {
        return format!(
            "it was recorded of the program `{scene}`, and what its kernels do is not known here; --kernel NAME=LIB[:SYMBOL] takes \
             one from a library of yours, and `blame --golden` compares two recordings"
        );
    }
    if scene.is_empty() {
        return "it does not say which scene it was captured from, so its kernels are not known; for a dump of `simpler`, --abi simpler --kernel \
                NAME=LIB takes them from your libraries".into();
    }
    format!(
        "it was captured from scene `{scene}`, which this executable does not have; use the one that captured it"
    )
}

fn first_of(first: &Option<u64>) -> String {
    first.map_or_else(String::new, |id| format!(", such as {}", TaskId(id)))
}

impl ReplayError {
    /// Whether the request itself was wrong, or what it named cannot be read, as opposed to what came of it.
    pub fn is_usage(&self) -> bool {
        match self {
            ReplayError::Platform(error) => error.is_usage(),
            ReplayError::NotWritten { .. } => false,
            ReplayError::Run(error) => matches!(error, RunError::BadOption { .. }),
            _ => true,
        }
    }
}
