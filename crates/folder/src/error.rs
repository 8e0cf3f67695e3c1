use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder is no scene that can be run. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The description of the scene says something that cannot be.
    #[error(transparent)]
    Description(#[from] Mistake),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The compiler could not be started.
    #[error("cannot start the compiler `{compiler}`: {source}; install one, or name it in ${variable}")]
    NoCompiler {
        /// What was tried.
        compiler: String,
        /// The environment variable that names another.
        variable: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The compiler has no sanitizers that can be used.
    #[error("kernels cannot be compiled with sanitizers by `{compiler}`: {problem}")]
    Sanitizer {
        /// Its words.
        compiler: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// Nothing of a folder would be watched by a sanitizer.
    #[error("{} has no sources, only libraries, and sanitizers are compiled into kernels; build those with -fsanitize", folder.display())]
    NothingToSanitize {
        /// The folder.
        folder: PathBuf,
    },
    /// The compiler refused a source; its messages as it wrote them.
    #[error("{} does not compile\n{messages}(the command was: {command})", source_file.display())]
    Compile {
        /// The source.
        source_file: PathBuf,
        /// What was run.
        command: String,
        /// What it said, ending with a line end.
        messages: String,
    },
    /// A folder that is to be written holds something.
    #[error("{} is not empty; name a new folder", folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
    /// A library is none that kernels can be taken from.
    #[error("{}: {problem}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl FolderError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
        let path = path.to_owned();
        move |source| FolderError::Io { action, path, source }
    }
}

/// A mistake in `scene.toml`, with its line and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl std::error::Error for Mistake {}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { path, line, problem, remedy } = self;
        write!(f, "{}:{line}: {problem}; {remedy}", path.display())
    }
}
