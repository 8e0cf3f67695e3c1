//! Walks over a stored payload for statistics and values.

use tensortap::DType;
use tensortap::format::{Dump, FormatError, PayloadState, Record};
use tensortap::values::ContentHasher;
use tensortap::values::{Statistics, Summary, decode_block, elements_in};

use crate::Progress;

/// Payloads are read in pieces of this many bytes: whole elements of every dtype.
const PIECE_BYTES: usize = 1 << 20;
/// Values decoded at a time; they fit in the L1 cache.
const BLOCK: usize = 1024;

/// The stored content of a tensor.
pub struct Content<'d> {
    dump: &'d Dump,
    record: &'d Record,
    /// Number of stored elements.
    pub stored: u64,
}

/// The result of measuring a content.
pub struct ContentStats {
    /// The statistics.
    pub summary: Summary,
    /// Whether the content differs from its captured hash.
    pub damaged: bool,
}

impl<'d> Content<'d> {
    /// The content of a record; `None` if none is stored.
    #[must_use]
    pub fn of(dump: &'d Dump, record: &'d Record) -> Option<Content<'d>> {
        let stored = match record.payload {
            PayloadState::Stored => record.numel,
            PayloadState::Truncated => {
                let bits = record.bin_size.saturating_mul(8);
                (bits / u64::from(record.dtype.bits())).min(record.numel)
            }
            _ => return None,
        };
        (record.scalar_bits.is_none()).then_some(Content { dump, record, stored })
    }

    /// Measures the stored content and checks its hash. `progress` counts bytes.
    pub fn statistics(&self, progress: &Progress<'_>) -> Result<ContentStats, FormatError> {
        let mut statistics = Statistics::new(self.record.dtype, self.stored);
        let mut hasher = ContentHasher::new(self.record.bin_size);
        self.walk(progress, |bytes| {
            statistics.update(bytes);
            hasher.update(bytes);
        })?;
        let whole = self.record.payload == PayloadState::Stored;
        let damaged = whole && self.record.hash.is_some_and(|captured| captured != hasher.finish());
        Ok(ContentStats { summary: statistics.summary(), damaged })
    }

    /// Calls `each` with every finite value; complex numbers have two, their parts.
    pub fn finite_values(
        &self,
        progress: &Progress<'_>,
        mut each: impl FnMut(f64),
    ) -> Result<(), FormatError> {
        // Of complex numbers, the parts.
        let dtype = self.record.dtype.part();
        let mut values = [0.0; BLOCK];
        let mut left = self.stored.saturating_mul(self.record.dtype.parts().into());
        self.walk(progress, |bytes| {
            for block in bytes.chunks(block_bytes(dtype)) {
                let decoded = decode_block(dtype, block, &mut values);
                // The padding after a last odd nibble is not an element.
                let count = usize::try_from(left).map_or(decoded, |left| left.min(decoded));
                left -= count as u64;
                values[..count].iter().filter(|value| value.is_finite()).for_each(|&value| each(value));
            }
        })
    }

    /// Number of payload bytes with elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let whole = self.record.dtype.packed_bytes(self.stored).unwrap_or(self.record.bin_size);
        whole.min(self.record.bin_size)
    }

    fn walk(&self, progress: &Progress<'_>, mut each: impl FnMut(&[u8])) -> Result<(), FormatError> {
        let bytes = self.bytes();
        let mut piece = Vec::new();
        let mut at = 0;
        while at < bytes {
            let length = usize::try_from(bytes - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            piece.resize(length, 0);
            self.dump.payload_part(self.record, at, &mut piece)?;
            each(&piece);
            at += length as u64;
            progress(at, bytes);
        }
        Ok(())
    }
}

/// Number of bytes for at most [`BLOCK`] elements.
fn block_bytes(dtype: DType) -> usize {
    BLOCK / elements_in(dtype, 8).max(1) * 8
}
