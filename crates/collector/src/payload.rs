//! Puts payload bytes from the region into the payload file.
//!
//! Two ways, one trait: through the page cache, in pieces of at most 1 MiB and with small payloads collected into one
//! write; or past it, for what is large and aligned. Either with one thread or with several. A payload counts as written after
//! [`PayloadWriter::flush`].

mod buffered;
mod direct;
mod parallel;
mod window;

use std::{io, os::fd::BorrowedFd};

use tensortap_abi::LARGE_PAYLOAD_BYTES;
use tensortap_platform::PlatformError;

use crate::{RegionMemory, memory::SharedRegion};

pub(crate) use buffered::BufferedWriter;
pub(crate) use direct::DirectWriter;
pub(crate) use parallel::ParallelWriter;
pub(crate) use window::{Window, extents};

/// Larger writes were slower when measured.
const MAX_WRITE_BYTES: usize = 1 << 20;

/// Bytes of a payload in an arena; they do not meet the arena's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Lane whose arena it is.
    pub(crate) lane: u32,
    /// Position in the arena.
    pub(crate) position: u64,
    /// Offset of that position in the region.
    pub(crate) offset: u64,
    /// Size.
    pub(crate) bytes: u64,
    /// Bytes from `offset` on that hold this payload and small ones that follow it, all of them settled.
    pub(crate) run_bytes: u64,
}

impl Extent {
    fn is_large(&self) -> bool {
        self.bytes >= LARGE_PAYLOAD_BYTES
    }
}

/// A dump up to this size stays in the page cache, where the next command finds it. One that outgrows it would only
/// push other data out, and each byte would be copied once more on its way to the disk.
const CACHED_BYTES: u64 = 256 << 20;

/// Which way payloads take to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadPath {
    /// The first 256 MiB through the page cache, then large payloads past it.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Large payloads past the page cache, where the file system can.
    Direct,
}

impl PayloadPath {
    /// All, in the order in which help shows them.
    pub const ALL: [PayloadPath; 3] = [PayloadPath::Auto, PayloadPath::Buffered, PayloadPath::Direct];

    /// As spelled on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PayloadPath::Auto => "auto",
            PayloadPath::Buffered => "buffered",
            PayloadPath::Direct => "direct",
        }
    }

    /// A way with several threads, or with that of the caller alone.
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

/// A way to the payload file.
pub(crate) trait PayloadWriter {
    /// Takes over the bytes of `from`, to be at `at` in `file` after the next [`PayloadWriter::flush`].
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        file: BorrowedFd<'_>,
        from: Extent,
        at: u64,
    ) -> Result<(), PayloadError>;

    /// Takes over bytes of the host.
    fn put_bytes(&mut self, file: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), PayloadError>;

    /// Writes what was taken over and is not yet written.
    fn flush(&mut self, file: BorrowedFd<'_>) -> Result<(), PayloadError>;

    /// Forgets what is not yet written.
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
        // The range was checked, so this is what the file said.
        PlatformError::Os { source, .. } => PayloadError::File(source),
        error => PayloadError::Memory(error),
    })
}

/// Splits `bytes` into pieces that are written with one call each: where each starts, and its size.
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
