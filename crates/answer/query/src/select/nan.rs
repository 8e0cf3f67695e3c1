//! Finds records with a NaN: from the recorded statistics or else from the payload.

use std::collections::HashMap;

use tensortap::DType;
use tensortap::format::{Dump, FormatError, PayloadState, Record, ScalarValue};
use tensortap::values::{Element, Value, any_nan};

use super::Progress;

/// Payloads are read in pieces of this many bytes: whole elements of every dtype.
const PIECE_BYTES: usize = 1 << 20;

/// Whether a part of a complex number is NaN.
fn has_nan_part(value: Element) -> bool {
    let decoded = Value::decode(value.dtype, value.bits);
    matches!(decoded, Value::Complex(real, imaginary) if real.is_nan() || imaginary.is_nan())
}

/// The records of a dump with NaNs.
pub struct NanRecords {
    /// Indexes of the records with a NaN, sorted.
    found: Vec<u64>,
    /// Number of records with neither payload nor statistics.
    pub unknown: u64,
}

impl NanRecords {
    /// Checks the records for which `wanted` holds.
    pub fn find(
        dump: &Dump,
        progress: &Progress<'_>,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<NanRecords, FormatError> {
        let mut records = NanRecords { found: Vec::new(), unknown: 0 };
        let mut scan = Scan { dump, piece: Vec::new(), seen: HashMap::new() };
        for record in dump.records() {
            let record = record?;
            progress(record.index + 1, dump.len());
            if !wanted(&record) {
                continue;
            }
            match scan.holds_nan(&record)? {
                Some(true) => records.found.push(record.index),
                Some(false) => {}
                None => records.unknown += 1,
            }
        }
        Ok(records)
    }

    /// Whether the record has a NaN.
    pub fn holds(&self, record: &Record) -> bool {
        self.found.binary_search(&record.index).is_ok()
    }
}

struct Scan<'d> {
    dump: &'d Dump,
    piece: Vec<u8>,
    /// Results by payload location: equal payloads share one and are read once.
    seen: HashMap<(u64, u64, DType), bool>,
}

impl Scan<'_> {
    /// Whether the record has a NaN; `None` if that is unknown.
    fn holds_nan(&mut self, record: &Record) -> Result<Option<bool>, FormatError> {
        if let Some(value) = record.value() {
            let is_nan = match value {
                ScalarValue::Float(value) => value.is_nan(),
                ScalarValue::Complex(value) => has_nan_part(value),
                _ => false,
            };
            return Ok(Some(is_nan));
        }
        if !record.dtype.has_nan() || record.numel == 0 {
            return Ok(Some(false));
        }
        if let Some(stats) = record.stats {
            return Ok(Some(stats.nan > 0));
        }
        let place = (record.bin_offset, record.bin_size, record.dtype);
        if let Some(&known) = self.seen.get(&place) {
            return Ok(Some(known));
        }
        let whole = match record.payload {
            PayloadState::Stored => true,
            PayloadState::Truncated => false,
            _ => return Ok(None),
        };
        let found = match self.payload_holds_nan(record) {
            // The record left the dump of a running program.
            Err(FormatError::RecordGone { .. }) => return Ok(None),
            found => found?,
        };
        if whole {
            self.seen.insert(place, found);
        }
        // The part that is not stored may have one.
        Ok((found || whole).then_some(found))
    }

    fn payload_holds_nan(&mut self, record: &Record) -> Result<bool, FormatError> {
        let mut offset = 0;
        while offset < record.bin_size {
            let bytes =
                usize::try_from(record.bin_size - offset).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            self.piece.resize(bytes, 0);
            self.dump.payload_part(record, offset, &mut self.piece)?;
            if any_nan(record.dtype, &self.piece) {
                return Ok(true);
            }
            offset += bytes as u64;
        }
        Ok(false)
    }
}
