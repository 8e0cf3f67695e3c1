use std::io;
use std::path::{Path, PathBuf};

use tensortap::format::FormatError;
use tensortap::judge::CompareError;
use tensortap::scene::GraphError;
use tensortap::{Error, RunFailure};

/// Why something could not be measured. Figures of a run that was not right are not given.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A run could not begin.
    #[error(transparent)]
    Run(#[from] Error),
    /// A run failed.
    #[error(transparent)]
    Failed(#[from] Box<RunFailure>),
    /// The graph of the call loop could not be recorded.
    #[error("recording the graph: {0}")]
    Graph(#[from] GraphError),
    /// A kernel of the call loop failed.
    #[error("the call loop failed: {0}")]
    CallLoop(String),
    /// A dump could not be made.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Tensors could not be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A file could not be used.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done, such as "writing".
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another program could not be used.
    #[error("{program}: {said}")]
    Program {
        /// Which.
        program: String,
        /// What went wrong, or what it said itself.
        said: String,
    },
    /// More tasks than a task array holds.
    #[error("{tasks} tasks are more than a task array holds: {limit}")]
    TooManyTasks {
        /// Asked for.
        tasks: u64,
        /// Possible.
        limit: u64,
    },
    /// The disk is too small for what is to be written.
    #[error("this needs {needed} bytes of disk, and {} has {free} free", dir.display())]
    NoRoom {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        free: u64,
        /// Bytes of them that are not for payloads.
        headroom: u64,
        /// Where.
        dir: PathBuf,
    },
    /// A result is not what it should be, so that its time says nothing.
    #[error("{0}")]
    Wrong(String),
    /// The watcher ended it.
    #[error("interrupted")]
    Interrupted,
}

/// For `map_err`.
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::Io { action, path: path.into(), source }
}
