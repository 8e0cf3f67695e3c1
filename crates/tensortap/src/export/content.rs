use std::io;
use std::sync::{Mutex, PoisonError};

use tensortap_format::{Dump, PayloadState, Record};
use tensortap_interchange::Content;
use tensortap_values::ContentHasher;

/// Whether a record has all of its content.
pub fn is_whole(record: &Record) -> bool {
    record.scalar_bits.is_some() || record.payload == PayloadState::Stored
}

/// A record's bytes, read from the dump when asked for, and hashed as they are read from the first to the last: with the last
/// comes an error when they are not what was captured.
pub struct RecordContent<'a> {
    dump: &'a Dump,
    record: &'a Record,
    hashed: Mutex<Hashed>,
}

/// What was read in order.
struct Hashed {
    next: u64,
    hasher: ContentHasher,
}

impl<'a> RecordContent<'a> {
    /// Of a record that is whole.
    pub fn new(dump: &'a Dump, record: &'a Record) -> RecordContent<'a> {
        RecordContent { dump, record, hashed: Mutex::new(Hashed::new(record)) }
    }

    fn check(&self, offset: u64, piece: &[u8]) -> io::Result<()> {
        let Some(said) = self.record.hash else { return Ok(()) };
        let mut hashed = self.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            *hashed = Hashed::new(self.record);
        }
        if offset != hashed.next {
            return Ok(());
        }
        hashed.hasher.update(piece);
        hashed.next += piece.len() as u64;
        if hashed.next < self.record.bin_size {
            return Ok(());
        }
        let done = std::mem::replace(&mut *hashed, Hashed::new(self.record));
        let is_right = done.hasher.finish() == said;
        if is_right { Ok(()) } else { Err(io::Error::other(self.dump.damaged(self.record))) }
    }
}

impl Hashed {
    fn new(record: &Record) -> Hashed {
        Hashed { next: 0, hasher: ContentHasher::new(record.bin_size) }
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

/// Bits above the dtype's width do not count; of 4 bits, they would pass for a second element.
fn masked(record: &Record, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - record.dtype.bits()))
}
