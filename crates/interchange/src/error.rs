use std::io;
use std::path::{Path, PathBuf};

/// Why a file of arrays could not be written or read. Every message names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterchangeError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The bytes to be written could not be had.
    #[error("cannot read the content of {name}: {source}")]
    Content {
        /// The array.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// There are more or fewer bytes to be written than the shape asks for.
    #[error(
        "{name} has {have} bytes and its shape asks for {need}; export it from a dump that `tensortap verify` accepts"
    )]
    ContentSize {
        /// The array.
        name: String,
        /// Bytes that the shape asks for.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// The file is damaged, or something else.
    #[error("{} cannot be read as {format}: {reason}; write it again with the tool that made it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should be.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The elements are of a kind that we do not have.
    #[error("{name} in {} has elements of type {dtype}, which is none of ours; convert it to a float or integer type of up to 64 bits", path.display())]
    UnknownDType {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// Its type, as the file spells it.
        dtype: String,
    },
    /// The file is shorter than it says.
    #[error("{name} in {} should have {need} bytes, the file has {have} for it; copy the file again, it was cut", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// Bytes that its shape asks for.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// Two arrays have one name.
    #[error("two arrays are named {name}: in {} and in {}; rename or remove one", one.display(), other.display())]
    Duplicate {
        /// The name.
        name: String,
        /// One file.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// There is nothing to read.
    #[error("there are no arrays in {}; name a .npy, .npz or .safetensors file, or a folder of them", path.display())]
    NoArrays {
        /// The file or folder.
        path: PathBuf,
    },
    /// An array does not fit.
    #[error("{name} in {} needs {bytes} bytes of memory, which there are not; compare a part of it", path.display())]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// Bytes that were asked for.
        bytes: u64,
    },
}

impl InterchangeError {
    pub(crate) fn damaged(path: &Path, format: &'static str, reason: impl Into<String>) -> InterchangeError {
        InterchangeError::Damaged { path: path.into(), format, reason: reason.into() }
    }
}

/// Adds what was done to which file.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, InterchangeError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, InterchangeError> {
        self.map_err(|source| InterchangeError::Io { action, path: path.into(), source })
    }
}
