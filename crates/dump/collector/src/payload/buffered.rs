use std::os::fd::BorrowedFd;

use tensortap_abi::SMALL_PAYLOAD_ALIGN;
use tensortap_format::PayloadPlace;

use super::{
    Extent, MAX_WRITE_BYTES, PayloadError, PayloadWriter, Window, pieces, write_all_at, write_mapped,
};
use crate::RegionMemory;

/// Writes through the page cache.
#[derive(Debug, Default)]
pub(crate) struct BufferedWriter {
    staged: StagingBuffer,
    window: Window,
    scratch: Vec<u8>,
}

/// Small payloads that are adjacent in the file and will be written together.
#[derive(Debug, Default)]
struct StagingBuffer {
    bytes: Vec<u8>,
    at: u64,
}

impl PayloadWriter for BufferedWriter {
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        to: PayloadPlace<'_>,
        from: Extent,
    ) -> Result<(), PayloadError> {
        let PayloadPlace { number, file, offset: at } = to;
        if !from.is_large() && number == 0 {
            return self.put_small(memory, file, from, at);
        }
        for (start, len) in pieces(from.bytes) {
            if memory.is_mapped() {
                write_mapped(memory, from.offset + start, len, file, at + start)?;
            } else {
                self.scratch.resize(len, 0);
                memory.read(from.offset + start, &mut self.scratch).map_err(PayloadError::Memory)?;
                write_all_at(file, &self.scratch, at + start)?;
            }
        }
        Ok(())
    }

    fn put_bytes(&mut self, to: PayloadPlace<'_>, bytes: &[u8]) -> Result<(), PayloadError> {
        for (start, piece) in (0u64..).step_by(MAX_WRITE_BYTES).zip(bytes.chunks(MAX_WRITE_BYTES)) {
            write_all_at(to.file, piece, to.offset + start)?;
        }
        Ok(())
    }

    fn flush(&mut self, first: BorrowedFd<'_>) -> Result<(), PayloadError> {
        let StagingBuffer { bytes, at } = &mut self.staged;
        write_all_at(first, bytes, *at)?;
        bytes.clear();
        Ok(())
    }

    fn discard(&mut self) {
        self.staged.bytes.clear();
    }
}

impl BufferedWriter {
    fn put_small(
        &mut self,
        memory: &dyn RegionMemory,
        file: BorrowedFd<'_>,
        from: Extent,
        at: u64,
    ) -> Result<(), PayloadError> {
        let len = usize::try_from(from.bytes).unwrap_or(MAX_WRITE_BYTES);
        let room = match self.staged.make_room(len, at) {
            Some(room) => room,
            None => {
                self.flush(file)?;
                self.staged.start(len, at)
            }
        };
        self.window.copy(memory, from, room).map_err(PayloadError::Memory)
    }
}

impl StagingBuffer {
    /// Space for `len` bytes after the staged ones, if they are adjacent in the file.
    fn make_room(&mut self, len: usize, at: u64) -> Option<&mut [u8]> {
        let end = self.at + self.bytes.len() as u64;
        // The padding up to the alignment of small payloads belongs to no payload.
        let follows = at == end || at == end.next_multiple_of(SMALL_PAYLOAD_ALIGN);
        let start = usize::try_from(at.checked_sub(self.at)?).ok()?;
        if self.bytes.is_empty() || !follows || start + len > MAX_WRITE_BYTES {
            return None;
        }
        self.bytes.resize(start + len, 0);
        Some(&mut self.bytes[start..])
    }

    fn start(&mut self, len: usize, at: u64) -> &mut [u8] {
        self.at = at;
        self.bytes.clear();
        self.bytes.resize(len, 0);
        &mut self.bytes
    }
}
