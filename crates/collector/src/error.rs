use std::io;

use tensortap_format::FormatError;
use tensortap_platform::PlatformError;

/// Why the files take no more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A payload could not be written.
    #[error("the payload file takes no more: {0}; free space or choose another folder with --out")]
    Payload(#[source] io::Error),
    /// The index could not be written, or space not be reserved.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Why collecting cannot go on at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The region cannot be read or written.
    #[error("the dump region cannot be reached: {0}")]
    Memory(#[from] PlatformError),
    /// A region of these sizes makes no sense.
    #[error("a dump region with {what} cannot be; change --dump-buffers, --dump-records or --dump-arena")]
    Geometry {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The thread that collects could not be started, or has panicked.
    #[error("the collecting thread {0}")]
    Thread(String),
}
