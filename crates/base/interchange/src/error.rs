use std::io;
use std::path::{Path, PathBuf};

/// Why a file of arrays could not be read or written. Every message names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterchangeError {
    /// An error of the operating system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content to write could not be read.
    #[error("cannot read the content of {name}: {source}")]
    Content {
        /// The array.
        name: String,
        /// The read error.
        source: io::Error,
    },
    /// The content does not have the size of the shape.
    #[error(
        "{name} has {have} bytes but its shape needs {need}; export it from a dump that `tensortap verify` \
         accepts"
    )]
    ContentSize {
        /// The array.
        name: String,
        /// Bytes that the shape needs.
        need: u64,
        /// Bytes of content.
        have: u64,
    },
    /// The file is damaged or has another format.
    #[error("{} cannot be read as {format}: {reason}; write it again with the tool that made it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The expected format.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The elements have an unsupported type.
    #[error("{name} in {} has elements of type {dtype}, which is not supported; convert it to a float or \
     integer type of up to 64 bits", path.display())]
    UnknownDType {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// The type as spelled in the file.
        dtype: String,
    },
    /// The file is shorter than its header promises.
    #[error("{name} in {} should have {need} bytes, but the file has only {have} for it; the file is \
     truncated, copy it again", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// Bytes that the shape needs.
        need: u64,
        /// Bytes in the file.
        have: u64,
    },
    /// Two arrays have the same name.
    #[error("two arrays are named {name}: in {} and in {}; rename or remove one", one.display(), other.display())]
    Duplicate {
        /// The name.
        name: String,
        /// One file.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// There are no arrays to read.
    #[error("there are no arrays in {}; name a .npy, .npz or .safetensors file, or a folder of them", path.display())]
    NoArrays {
        /// The file or folder.
        path: PathBuf,
    },
    /// An array does not fit in memory.
    #[error("{name} in {} needs {bytes} bytes of memory, more than available; compare only a part of it", path.display())]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// Requested bytes.
        bytes: u64,
    },
}

impl InterchangeError {
    pub(crate) fn damaged(path: &Path, format: &'static str, reason: impl Into<String>) -> InterchangeError {
        InterchangeError::Damaged { path: path.into(), format, reason: reason.into() }
    }
}

/// Adds the operation and the file to an I/O error.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, InterchangeError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, InterchangeError> {
        self.map_err(|source| InterchangeError::Io { action, path: path.into(), source })
    }
}
