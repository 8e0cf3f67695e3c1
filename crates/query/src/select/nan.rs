//! Which records hold a NaN: from the recorded statistics, else by looking at the payload.

use std::collections::HashMap;

use tensortap::DType;
use tensortap::format::{Dump, FormatError, PayloadState, Record, ScalarValue};
use tensortap::values::any_nan;

use super::Progress;

/// Payloads are looked at in pieces of this many bytes: whole elements of every dtype.
const PIECE_BYTES: usize = 1 << 20;

/// What is known about the NaNs of a dump.
pub struct NanRecords {
    /// Positions of the records that hold one, in order.
    found: Vec<u64>,
    /// Records with neither a payload nor statistics, so nobody can tell.
    pub unknown: u64,
}

impl NanRecords {
    /// Looks at the records that `wanted` leaves.
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

    /// Whether the record holds a NaN.
    pub fn holds(&self, record: &Record) -> bool {
        self.found.binary_search(&record.index).is_ok()
    }
}

struct Scan<'d> {
    dump: &'d Dump,
    piece: Vec<u8>,
    /// Equal payloads lie in one place; each is looked at once.
    seen: HashMap<(u64, u64, DType), bool>,
}

impl Scan<'_> {
    /// `None` when nobody can tell.
    fn holds_nan(&mut self, record: &Record) -> Result<Option<bool>, FormatError> {
        if let Some(value) = record.value() {
            return Ok(Some(matches!(value, ScalarValue::Float(value) if value.is_nan())));
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
            // It left the dump of a run that goes on.
            Err(FormatError::RecordGone { .. }) => return Ok(None),
            found => found?,
        };
        if whole {
            self.seen.insert(place, found);
        }
        // What was cut off might hold one.
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
