//! Which records hold a NaN: from the recorded statistics, else by looking at the payload.

use std::collections::HashMap;

use tensortap::DType;
use tensortap::format::{Dump, FormatError, PayloadState, Record, ScalarValue};

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
        if !has_nans(record.dtype) || record.numel == 0 {
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
        let found = self.payload_holds_nan(record)?;
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

const fn has_nans(dtype: DType) -> bool {
    dtype.is_float() && !matches!(dtype, DType::Float4E2M1)
}

/// Whether any element is NaN. Without its sign, an IEEE NaN is a greater number than infinity.
fn any_nan(dtype: DType, bytes: &[u8]) -> bool {
    match dtype {
        DType::Float64 => any(bytes, |b| u64::from_le_bytes(b) << 1 > 0x7ff0_0000_0000_0000 << 1),
        DType::Float32 => any(bytes, |b| u32::from_le_bytes(b) << 1 > 0x7f80_0000 << 1),
        DType::Float16 => any(bytes, |b| u16::from_le_bytes(b) << 1 > 0x7c00 << 1),
        DType::BFloat16 => any(bytes, |b| u16::from_le_bytes(b) << 1 > 0x7f80 << 1),
        DType::Float8E5M2 => any(bytes, |[b]: [u8; 1]| b << 1 > 0x7c << 1),
        DType::Float8E4M3FN => any(bytes, |[b]: [u8; 1]| b << 1 == 0x7f << 1),
        _ => false,
    }
}

/// Block by block, without leaving a block early: such loops compile to vector code.
fn any<const N: usize>(bytes: &[u8], is_nan: impl Fn([u8; N]) -> bool) -> bool {
    bytes.chunks(4096).any(|block| {
        let (elements, _) = block.as_chunks::<N>();
        elements.iter().fold(false, |found, &element| found | is_nan(element))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_found_by_its_bits_wherever_it_is_and_whatever_its_sign() {
        for dtype in DType::ALL.into_iter().filter(|&dtype| has_nans(dtype)) {
            let width = usize::try_from(dtype.bits() / 8).unwrap();
            // Every pattern of the two highest bytes; the rest of the bits zero, then one.
            for high in 0..=u16::MAX {
                for low in [0, 1] {
                    let mut element = vec![0; width];
                    element[0] = low;
                    let top = high.to_le_bytes();
                    let shared = width.min(2);
                    element[width - shared..].copy_from_slice(&top[2 - shared..]);
                    let mut bits = [0; 8];
                    bits[..width].copy_from_slice(&element);
                    let value = ScalarValue::decode(dtype, u64::from_le_bytes(bits));
                    let expected = matches!(value, ScalarValue::Float(value) if value.is_nan());
                    assert_eq!(any_nan(dtype, &element), expected, "{dtype} {element:02x?}");
                }
            }
            let mut many = vec![0; 5000 * width];
            assert!(!any_nan(dtype, &many));
            many[4999 * width..].fill(0xff);
            assert!(any_nan(dtype, &many), "{dtype}");
        }
    }

    #[test]
    fn integers_hold_none() {
        assert!(!any_nan(DType::Int32, &[0xff; 16]) && !any_nan(DType::Float4E2M1, &[0xff; 16]));
    }
}
