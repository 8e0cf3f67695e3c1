use std::io;

use tensortap_format::FormatError;
use tensortap_platform::PlatformError;

/// Why the files accept no more data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A payload could not be written.
    #[error("cannot write the payload file: {0}; free some space or choose another folder with --out")]
    Payload(#[source] io::Error),
    /// The index could not be written, or space could not be reserved.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Why collecting cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The region cannot be read or written.
    #[error("the dump region cannot be reached: {0}")]
    Memory(#[from] PlatformError),
    /// Invalid sizes of the region.
    #[error("invalid dump region: {what}; change --dump-buffers, --dump-records or --dump-arena")]
    Geometry {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The region is not in the memory of its device, or not page aligned.
    #[error("the dump region is outside device memory")]
    OutsideMemory,
    /// The collecting thread could not be started, or has panicked.
    #[error("the collecting thread {0}")]
    Thread(String),
}
