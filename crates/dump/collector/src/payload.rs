//! Writes payload bytes from the region to the payload files.
//!
//! One trait with two paths: through the page cache, in pieces of at most 1 MiB and with small payloads
//! combined into one write; or direct I/O for large, aligned data. Each path works with one thread or
//! several. A payload counts as written after [`PayloadWriter::flush`].

mod buffered;
mod direct;
mod parallel;
mod plan;
mod window;

use std::{io, os::fd::BorrowedFd};

use tensortap_abi::LARGE_PAYLOAD_BYTES;
use tensortap_format::PayloadPlace;
use tensortap_platform::PlatformError;

use crate::{RegionMemory, memory::SharedRegion};

pub(crate) use buffered::BufferedWriter;
pub(crate) use direct::DirectWriter;
pub(crate) use parallel::ParallelWriter;
pub(crate) use plan::WriterPlan;
pub(crate) use window::{Window, extents};

/// Larger writes were slower when measured.
const MAX_WRITE_BYTES: usize = 1 << 20;

/// Bytes of a payload in an arena. They do not straddle the arena's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Lane of the arena.
    pub(crate) lane: u32,
    /// Position in the arena.
    pub(crate) position: u64,
    /// Offset of that position in the region.
    pub(crate) offset: u64,
    /// Size.
    pub(crate) bytes: u64,
    /// Bytes from `offset` on that hold this payload and the small ones after it, none of which changes
    /// anymore.
    pub(crate) run_bytes: u64,
}

impl Extent {
    fn is_large(&self) -> bool {
        self.bytes >= LARGE_PAYLOAD_BYTES
    }
}

/// A dump up to this size stays in the page cache, where the next command finds it. A larger dump would
/// only push other data out of the cache, and each byte would be copied once more on its way to the disk.
const CACHED_BYTES: u64 = 256 << 20;

/// Path of payloads to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadPath {
    /// The first 256 MiB through the page cache, then direct I/O for large payloads.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Direct I/O for large payloads, if the file system supports it.
    Direct,
}

impl PayloadPath {
    /// All paths, in the order of the help text.
    pub const ALL: [PayloadPath; 3] = [PayloadPath::Auto, PayloadPath::Buffered, PayloadPath::Direct];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PayloadPath::Auto => "auto",
            PayloadPath::Buffered => "buffered",
            PayloadPath::Direct => "direct",
        }
    }

    /// A writer for this path, with several threads or only the caller's.
    pub(crate) fn writer_with(
        self,
        writers: usize,
        memory: &SharedRegion,
    ) -> io::Result<Box<dyn PayloadWriter + Send>> {
        if writers < 2 {
            return Ok(self.writer());
        }
        Ok(Box::new(ParallelWriter::start(memory.clone(), self, writers)?))
    }

    pub(crate) fn writer(self) -> Box<dyn PayloadWriter + Send> {
        match self {
            PayloadPath::Auto => Box::new(DirectWriter::from_offset(CACHED_BYTES)),
            PayloadPath::Buffered => Box::new(BufferedWriter::default()),
            PayloadPath::Direct => Box::new(DirectWriter::from_offset(0)),
        }
    }
}

/// Why a payload is not in the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error(transparent)]
    Memory(PlatformError),
    #[error("writing payloads: {0}")]
    File(#[from] io::Error),
}

/// A path to the payload files.
pub(crate) trait PayloadWriter {
    /// Accepts the bytes of `from`. They are at `to` after the next [`PayloadWriter::flush`].
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        to: PayloadPlace<'_>,
        from: Extent,
    ) -> Result<(), PayloadError>;

    /// Accepts bytes from host memory.
    fn put_bytes(&mut self, to: PayloadPlace<'_>, bytes: &[u8]) -> Result<(), PayloadError>;

    /// Writes everything that was accepted and is not written yet. `first` is the first payload file, the only one
    /// for which payloads are combined.
    fn flush(&mut self, first: BorrowedFd<'_>) -> Result<(), PayloadError>;

    /// Forgets everything that is not written yet.
    fn discard(&mut self);
}

fn write_all_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut at: u64) -> Result<(), PayloadError> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(count) => (bytes, at) = (&bytes[count..], at + count as u64),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Ok(())
}

fn write_mapped(
    memory: &dyn RegionMemory,
    offset: u64,
    len: usize,
    file: BorrowedFd<'_>,
    at: u64,
) -> Result<(), PayloadError> {
    memory.write_to(offset, len, file, at).map_err(|error| match error {
        // The range was checked before, so this error comes from the file.
        PlatformError::Os { source, .. } => PayloadError::File(source),
        error => PayloadError::Memory(error),
    })
}

/// Splits `bytes` into pieces that one call each writes: start and size.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let whole = MAX_WRITE_BYTES as u64;
    (0..bytes.div_ceil(whole)).map(move |index| {
        let start = index * whole;
        let len = usize::try_from((bytes - start).min(whole)).unwrap_or(MAX_WRITE_BYTES);
        (start, len)
    })
}

#[cfg(test)]
mod tests;
