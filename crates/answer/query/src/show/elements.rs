//! Random access to elements of a stored tensor. Only accessed windows are read.

use tensortap::format::{Dump, FormatError, PayloadState, Record};
use tensortap::values::element_bits;

/// Bytes of a window: a multiple of every element size, so that no element spans two windows.
const WINDOW_BYTES: u64 = 1 << 14;

/// Access to the elements of one record.
pub struct Elements<'d> {
    dump: &'d Dump,
    record: &'d Record,
    window: Vec<u8>,
    /// Offset of the window in the payload.
    window_at: u64,
}

impl<'d> Elements<'d> {
    /// Creates the accessor; nothing is read yet.
    pub fn new(dump: &'d Dump, record: &'d Record) -> Elements<'d> {
        Elements { dump, record, window: Vec::new(), window_at: 0 }
    }

    /// The bits of the element at a position of the contiguous content; `None` if it is not stored.
    pub fn bits(&mut self, position: u64) -> Result<Option<u128>, FormatError> {
        if let Some(bits) = self.record.scalar_bits {
            return Ok((position == 0).then_some(bits.into()));
        }
        let dtype = self.record.dtype;
        let width = u64::from(dtype.bits());
        let (first, bytes) = (position.saturating_mul(width) / 8, (width / 8).max(1));
        let in_byte = if width < 8 { position % (8 / width) } else { 0 };
        if position >= self.record.numel || first + bytes > self.stored_bytes() {
            return Ok(None);
        }
        self.load(first, bytes)?;
        let place = usize::try_from(first - self.window_at).unwrap_or(usize::MAX);
        let element = self.window.get(place..);
        Ok(element.and_then(|bytes| element_bits(dtype, bytes, usize::try_from(in_byte).unwrap_or(0))))
    }

    fn stored_bytes(&self) -> u64 {
        match self.record.payload {
            PayloadState::Stored | PayloadState::Truncated => self.record.bin_size,
            _ => 0,
        }
    }

    fn load(&mut self, first: u64, bytes: u64) -> Result<(), FormatError> {
        let window_end = self.window_at + self.window.len() as u64;
        if self.window_at <= first && first + bytes <= window_end {
            return Ok(());
        }
        let at = first - first % WINDOW_BYTES;
        let length = (self.record.bin_size - at).min(WINDOW_BYTES);
        self.window.resize(usize::try_from(length).unwrap_or(0), 0);
        self.window_at = at;
        self.dump.payload_part(self.record, at, &mut self.window)
    }
}
