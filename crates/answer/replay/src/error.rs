use std::path::PathBuf;

use tensortap_abi::TaskId;
use tensortap_format::FormatError;
use tensortap_platform::PlatformError;
use tensortap_runtime::RunError;
use tensortap_scene::FaultKind;

/// Why a replay or an extraction failed as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device could not be opened, or its memory could not be used.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The launch could not be prepared.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The path is neither a dump nor a case.
    #[error(
        "{} is not a dump, a case or a folder of cases ({why}); pass the folder of a dump, or a case that `tensortap \
         extract` wrote",
        path.display()
    )]
    NothingToReplay {
        /// The path or name in the request.
        path: PathBuf,
        /// Why it is not a dump.
        why: String,
    },
    /// An unknown name.
    #[error("there is no {what} `{name}`; there are: {}", valid.join(", "))]
    Unknown {
        /// The path or name in the request.
        what: &'static str,
        /// The name.
        name: String,
        /// The valid names.
        valid: Vec<String>,
    },
    /// This executable does not have the scene.
    #[error("cannot replay {from}: {}", no_scene(.scene, *.is_program))]
    NoScene {
        /// The dump or case.
        from: String,
        /// The scene.
        scene: String,
        /// Whether the dump is a recording of a program, which has no scene.
        is_program: bool,
    },
    /// The scene folder of a capture cannot be used.
    #[error("{from} needs the scene in {}: {reason}", .folder.display())]
    Folder {
        /// The dump or case.
        from: String,
        /// The folder.
        folder: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A kernel library cannot be used.
    #[error("--kernel: {reason}")]
    Library {
        /// The library, what is wrong with it, and what to do.
        reason: String,
    },
    /// The capture has no such task.
    #[error("{from} has no task {task:#x}; it has {tasks} tasks{}; `tensortap list` shows them", first_of(.first))]
    NoTask {
        /// The dump or case.
        from: String,
        /// The requested task.
        task: u64,
        /// Number of tasks in the capture.
        tasks: usize,
        /// The first task, as an example.
        first: Option<u64>,
    },
    /// The task has no such dispatch.
    #[error("task {} has no dispatch {dispatch:#x}: {reason}", TaskId(*task))]
    NoDispatch {
        /// The task that the dispatch id names.
        task: u64,
        /// The requested dispatch.
        dispatch: u64,
        /// What is wrong.
        reason: String,
    },
    /// An argument cannot be set.
    #[error("--set-arg {slot}={value}: {reason}")]
    SetArg {
        /// Position among the task's arguments.
        slot: u16,
        /// The value, as text.
        value: String,
        /// Why not.
        reason: String,
    },
    /// The kernel cannot show this fault.
    #[error("fault `{kind}` has no effect in kernel `{kernel}` of scene `{scene}`; use one of: {}", .shows.join(", "))]
    Fault {
        /// The scene.
        scene: String,
        /// The kernel.
        kernel: String,
        /// The requested fault.
        kind: FaultKind,
        /// The faults that the kernel can show.
        shows: Vec<&'static str>,
    },
    /// Fault `race` was requested: it needs a second task.
    #[error(
        "fault `race` has no effect in a replay: a race needs a second task, and a replay runs each task by itself; use `tensortap run --inject-fault`"
    )]
    RaceInReplay,
    /// An option cannot be used here.
    #[error("{option}: {reason}")]
    Option {
        /// The option, as on the command line.
        option: &'static str,
        /// Why not.
        reason: String,
    },
    /// A task cannot be extracted.
    #[error("cannot extract task {}: {reason}", TaskId(*task))]
    NotExtracted {
        /// The task.
        task: u64,
        /// Why not.
        reason: String,
    },
    /// A case could not be written; its partial files were removed.
    #[error(
        "cannot write {}: {source}; partial files were removed; choose another place with --out or free some space",
        path.display()
    )]
    NotWritten {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// An operation on a file failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

fn no_scene(scene: &str, is_program: bool) -> String {
    if is_program {
        return format!(
            "it is a recording of the program `{scene}`, and tensortap does not have the code of its kernels; \
              pass a kernel of your own with --kernel NAME=LIB[:SYMBOL], or compare two recordings with `blame --golden`"
        );
    }
    if scene.is_empty() {
        return "it does not name its scene, so its kernels are unknown; for a dump of `simpler`, pass them with \
          --abi simpler --kernel NAME=LIB".into();
    }
    format!("its scene `{scene}` is not in this executable; use the executable that captured it")
}

fn first_of(first: &Option<u64>) -> String {
    first.map_or_else(String::new, |id| format!(", such as {id:#x}"))
}

impl ReplayError {
    /// Whether the request was wrong or its input unreadable, as opposed to a failure of the replay.
    pub fn is_usage(&self) -> bool {
        match self {
            ReplayError::Platform(error) => error.is_usage(),
            ReplayError::Format(error) => error.is_usage(),
            ReplayError::NotWritten { .. } => false,
            ReplayError::Run(error) => matches!(error, RunError::BadOption { .. }),
            _ => true,
        }
    }
}
