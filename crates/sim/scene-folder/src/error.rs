use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder cannot be run as a scene. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The description contains a mistake.
    #[error(transparent)]
    Description(#[from] Mistake),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The compiler could not be started.
    #[error(
        "cannot start the compiler `{compiler}`: {source}; install it, or set ${variable} to another compiler"
    )]
    NoCompiler {
        /// The command.
        compiler: String,
        /// The environment variable that selects the compiler.
        variable: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The compiler has no usable sanitizers.
    #[error("`{compiler}` cannot compile kernels with sanitizers: {problem}")]
    Sanitizer {
        /// The command.
        compiler: String,
        /// The reason, and what to do.
        problem: String,
    },
    /// The folder has no code that a sanitizer could watch.
    #[error("{} has no sources, only libraries, and a sanitizer only watches code that was compiled with it; build the libraries with -fsanitize", folder.display())]
    NothingToSanitize {
        /// The folder.
        folder: PathBuf,
    },
    /// A source does not compile.
    #[error("{} does not compile\n{messages}(the command was: {command})", source_file.display())]
    Compile {
        /// The source.
        source_file: PathBuf,
        /// The compiler command.
        command: String,
        /// The compiler's output, ending with a newline.
        messages: String,
    },
    /// The folder for a new scene is not empty.
    #[error("{} is not empty; name a new folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// A library cannot be used.
    #[error("{}: {problem}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// The reason, and what to do.
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
    /// The line, starting at 1.
    pub line: usize,
    /// The problem.
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
