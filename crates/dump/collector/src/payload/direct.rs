use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags, open};
use tensortap_abi::LARGE_PAYLOAD_ALIGN;
use tensortap_format::PayloadPlace;

use super::{BufferedWriter, Extent, PayloadError, PayloadWriter, pieces, write_all_at, write_mapped};
use crate::RegionMemory;

/// Alignment that direct I/O requires of addresses, offsets and sizes.
const BLOCK: u64 = LARGE_PAYLOAD_ALIGN;

/// Writes the whole blocks of large payloads with direct I/O and everything else through the page cache. If
/// the file system does not support direct I/O, everything goes through the page cache.
#[derive(Debug)]
pub(crate) struct DirectWriter {
    /// Payloads before this offset in the first file go through the page cache.
    first: u64,
    buffered: BufferedWriter,
    /// Each payload file, by number.
    targets: Vec<Target>,
    scratch: Vec<u8>,
}

#[derive(Debug, Default)]
enum Target {
    /// The file was not passed yet.
    #[default]
    Unknown,
    /// The same file, opened for direct I/O.
    Open(OwnedFd),
    /// The file system does not support direct I/O.
    Refused,
}

impl PayloadWriter for DirectWriter {
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        to: PayloadPlace<'_>,
        from: Extent,
    ) -> Result<(), PayloadError> {
        let at = to.offset;
        let aligned = from.offset.is_multiple_of(BLOCK) && at.is_multiple_of(BLOCK);
        let is_late = to.number > 0 || at >= self.first;
        let direct = if from.is_large() && aligned && is_late { from.bytes / BLOCK * BLOCK } else { 0 };
        let written = if direct > 0 { self.put_blocks(memory, to, from, direct)? } else { 0 };
        if written == from.bytes {
            return Ok(());
        }
        let rest = Extent {
            position: from.position + written,
            offset: from.offset + written,
            bytes: from.bytes - written,
            run_bytes: 0,
            ..from
        };
        let to = PayloadPlace { offset: at + written, ..to };
        self.buffered.put(memory, to, if written == 0 { from } else { rest })
    }

    fn put_bytes(&mut self, to: PayloadPlace<'_>, bytes: &[u8]) -> Result<(), PayloadError> {
        self.buffered.put_bytes(to, bytes)
    }

    fn flush(&mut self, first: BorrowedFd<'_>) -> Result<(), PayloadError> {
        self.buffered.flush(first)
    }

    fn discard(&mut self) {
        self.buffered.discard();
    }
}

impl DirectWriter {
    /// Uses direct I/O from this offset in the first file on, and for all of the other files.
    pub(crate) fn from_offset(first: u64) -> DirectWriter {
        let (buffered, targets, scratch) = Default::default();
        DirectWriter { first, buffered, targets, scratch }
    }

    /// Writes whole blocks. Returns the number of bytes: all, or none if the file system does not support
    /// direct I/O.
    fn put_blocks(
        &mut self,
        memory: &dyn RegionMemory,
        to: PayloadPlace<'_>,
        from: Extent,
        bytes: u64,
    ) -> Result<u64, PayloadError> {
        let PayloadPlace { number, file, offset: at } = to;
        if self.targets.len() <= number {
            self.targets.resize_with(number + 1, Target::default);
        }
        let target = &mut self.targets[number];
        if matches!(target, Target::Unknown) {
            *target = Target::open(file);
        }
        let Target::Open(direct) = &*target else { return Ok(0) };
        let direct = direct.as_fd();
        let scratch = &mut self.scratch;
        let written = pieces(bytes).try_for_each(|(start, len)| {
            put_piece(memory, direct, from.offset + start, len, at + start, scratch)
        });
        match written {
            Ok(()) => Ok(bytes),
            Err(PayloadError::File(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                *target = Target::Refused;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}

fn put_piece(
    memory: &dyn RegionMemory,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    at: u64,
    scratch: &mut Vec<u8>,
) -> Result<(), PayloadError> {
    if memory.is_mapped() {
        return write_mapped(memory, offset, len, file, at);
    }
    let block = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    scratch.resize(len + block, 0);
    let start = scratch.as_ptr().align_offset(block).min(block);
    let aligned = &mut scratch[start..start + len];
    memory.read(offset, aligned).map_err(PayloadError::Memory)?;
    write_all_at(file, aligned, at)
}

impl Target {
    /// Opens the file of `file` a second time, so that the flag does not affect other writers of `file`.
    fn open(file: BorrowedFd<'_>) -> Target {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        open(path, flags, Mode::empty()).map_or(Target::Refused, Target::Open)
    }
}
