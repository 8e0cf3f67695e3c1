use std::io;

use tensortap_format::{Dump, PayloadState, Record};
use tensortap_interchange::Content;

/// Whether a record has all of its content.
pub fn is_whole(record: &Record) -> bool {
    record.scalar_bits.is_some() || record.payload == PayloadState::Stored
}

/// A record's bytes, read from the dump when asked for.
pub struct RecordContent<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// The record.
    pub record: &'a Record,
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
            None => self.dump.payload_part(self.record, offset, into).map_err(io::Error::other),
        }
    }
}

/// Bits above the dtype's width do not count; of 4 bits, they would pass for a second element.
fn masked(record: &Record, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - record.dtype.bits()))
}
