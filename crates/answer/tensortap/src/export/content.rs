use std::io;
use std::sync::{Mutex, PoisonError};

use tensortap_format::{Dump, PayloadState, Record};
use tensortap_interchange::Content;
use tensortap_values::ContentHasher;

/// Whether the whole content of a record is stored.
pub fn is_whole(record: &Record) -> bool {
    record.scalar_bits.is_some() || record.payload == PayloadState::Stored
}

/// A record's bytes, read from the dump on demand. They are hashed while they are read in order, and the
/// last read fails if the hash does not match.
pub struct RecordContent<'a> {
    dump: &'a Dump,
    record: &'a Record,
    hashed: Mutex<RunningHash>,
}

/// The hash of the bytes read so far.
struct RunningHash {
    next: u64,
    hasher: ContentHasher,
}

impl<'a> RecordContent<'a> {
    /// The content of a record that is completely stored.
    pub fn new(dump: &'a Dump, record: &'a Record) -> RecordContent<'a> {
        RecordContent { dump, record, hashed: Mutex::new(RunningHash::new(record)) }
    }

    fn check(&self, offset: u64, piece: &[u8]) -> io::Result<()> {
        let Some(said) = self.record.hash else { return Ok(()) };
        let mut hashed = self.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            *hashed = RunningHash::new(self.record);
        }
        if offset != hashed.next {
            return Ok(());
        }
        hashed.hasher.update(piece);
        hashed.next += piece.len() as u64;
        if hashed.next < self.record.bin_size {
            return Ok(());
        }
        let done = std::mem::replace(&mut *hashed, RunningHash::new(self.record));
        let is_right = done.hasher.finish() == said;
        if is_right { Ok(()) } else { Err(io::Error::other(self.dump.damaged(self.record))) }
    }
}

impl RunningHash {
    fn new(record: &Record) -> RunningHash {
        RunningHash { next: 0, hasher: ContentHasher::new(record.bin_size) }
    }
}

impl Content for RecordContent<'_> {
    fn bytes(&self) -> u64 {
        match self.record.scalar_bits {
            Some(_) => self.record.content_bytes(),
            None => self.record.bin_size,
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match self.record.scalar_bits {
            Some(bits) => masked(self.record, bits).to_le_bytes().read_at(offset, into),
            None => {
                self.dump.payload_part(self.record, offset, into).map_err(io::Error::other)?;
                self.check(offset, into)
            }
        }
    }
}

/// Bits above the dtype's width are ignored. For 4-bit types they would look like a second element.
fn masked(record: &Record, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - record.dtype.bits()))
}
