//! Counts elements of a byte or less by pattern.

use tensortap_abi::DType;

use super::{F16_OVERFLOW, PATTERN_BYTES, Statistics};
use crate::convert::to_f64;

const PATTERNS: usize = 256;
/// Number of parallel count tables: with one, equal consecutive bytes would wait for each other's count.
const TABLES: usize = 4;

impl Statistics {
    /// Counts the whole bytes of a chunk if it is large enough; returns the rest.
    pub(super) fn take_patterns<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let per_byte = 8 / u64::from(self.dtype.bits().min(8));
        if self.dtype.bits() > 8 || chunk.len() < PATTERN_BYTES {
            return chunk;
        }
        let whole = usize::try_from(self.left / per_byte).unwrap_or(usize::MAX).min(chunk.len());
        let (bytes, rest) = chunk.split_at(whole);
        // A 32-bit counter does not overflow within a chunk of this size.
        for bytes in bytes.chunks(1 << 30) {
            self.take_counts(&element_counts(self.dtype, &count(bytes)));
        }
        self.left -= whole as u64 * per_byte;
        rest
    }

    #[expect(clippy::cast_precision_loss, reason = "weights")]
    fn take_counts(&mut self, counts: &[u64; PATTERNS]) {
        let present = || (0u64..).zip(counts).filter(|(_, count)| **count > 0);
        let (mut finite, mut sum) = (0, 0.0);
        for (bits, &count) in present() {
            let value = to_f64(self.dtype, bits);
            match value {
                value if value.is_nan() => self.nan += count,
                f64::INFINITY => self.positive_inf += count,
                f64::NEG_INFINITY => self.negative_inf += count,
                value => {
                    self.zeros += if value == 0.0 { count } else { 0 };
                    self.f16_overflow += if value.abs() >= F16_OVERFLOW { count } else { 0 };
                    self.moments.widen(value, value);
                    finite += count;
                    sum += value * count as f64;
                }
            }
        }
        if finite == 0 {
            return;
        }
        let mean = sum / finite as f64;
        let values = present().map(|(bits, count)| (to_f64(self.dtype, bits), *count as f64));
        let distances = values.filter(|(value, _)| value.is_finite());
        let deviation = distances.map(|(value, count)| (value - mean) * (value - mean) * count).sum();
        self.moments.add(finite, mean, deviation);
    }
}

fn count(bytes: &[u8]) -> [u32; PATTERNS] {
    let mut tables = [[0; PATTERNS]; TABLES];
    let (groups, rest) = bytes.as_chunks::<TABLES>();
    for group in groups {
        for (table, byte) in tables.iter_mut().zip(group) {
            table[usize::from(*byte)] += 1;
        }
    }
    for byte in rest {
        tables[0][usize::from(*byte)] += 1;
    }
    core::array::from_fn(|pattern| tables.iter().map(|table| table[pattern]).sum())
}

/// Counts per element pattern from counts per byte.
fn element_counts(dtype: DType, bytes: &[u32; PATTERNS]) -> [u64; PATTERNS] {
    if dtype.bits() == 8 {
        return bytes.map(u64::from);
    }
    let mut counts = [0; PATTERNS];
    for (byte, count) in bytes.iter().enumerate() {
        counts[byte & 0xf] += u64::from(*count);
        counts[byte >> 4] += u64::from(*count);
    }
    counts
}
