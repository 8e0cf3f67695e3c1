use std::io;
use std::path::{Path, PathBuf};

use tensortap::format::FormatError;
use tensortap::judge::CompareError;
use tensortap::scene::GraphError;
use tensortap::{Error, RunFailure};

/// Why a benchmark failed. The times of a wrong run are not reported.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A run could not start.
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
    /// A dump could not be written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Tensors could not be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The action, such as "writing".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another program failed.
    #[error("{program}: {said}")]
    Program {
        /// The program.
        program: String,
        /// The problem, or the output of the program.
        said: String,
    },
    /// More tasks than a task array holds.
    #[error("{tasks} tasks are too many: a task array takes at most {limit}")]
    TooManyTasks {
        /// Requested.
        tasks: u64,
        /// The limit.
        limit: u64,
    },
    /// The disk has too little space.
    #[error("not enough disk space: {needed} bytes needed, but {} has {free} free", dir.display())]
    NoRoom {
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// The part of the needed bytes that is not for payloads.
        headroom: u64,
        /// The folder.
        dir: PathBuf,
    },
    /// A result is wrong, so its time is meaningless.
    #[error("{0}")]
    Wrong(String),
    /// The watcher stopped the benchmark.
    #[error("interrupted")]
    Interrupted,
}

/// For `map_err`.
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::Io { action, path: path.into(), source }
}
