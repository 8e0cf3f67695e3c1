//! Interprets the results of the device.

use tensortap_abi::{DType, DTypeKind, TensorStats};
use tensortap_values::to_f64;
use xxhash_rust::xxh3::Xxh3;

use crate::layout::{Part, RangeResult};
use crate::plan::measured_as;

/// Bit of [`Part::finite`]: mean and squares are scaled down.
const SCALED: u64 = 1 << 63;
/// The scale factor, 2^-600. Squares are multiplied by it twice.
const DOWN: f64 = f64::from_bits((1023 - 600) << 52);

/// Result for a range, as a record stores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The content hash.
    pub hash: u128,
    /// Statistics, if the range has a dtype that the device can measure. Minimum, maximum and counts are exact. Mean and deviation are as
    /// accurate as the host's, but summed in a different order. A device without 64-bit floats reports NaN
    /// for both.
    pub stats: Option<TensorStats>,
}

impl RangeResult {
    /// Converts the result for a record.
    #[must_use]
    pub fn outcome(&self, dtype: Option<DType>) -> Outcome {
        let [low, high] = self.hash.map(u128::from);
        let measured = dtype.and_then(measured_as);
        Outcome { hash: low | high << 64, stats: measured.map(|dtype| self.part.stats(dtype)) }
    }
}

/// Combines the hashes of leaves into the content hash of a range.
pub(crate) fn root(bytes: u64, leaves: &[[u64; 2]]) -> [u64; 2] {
    if let [only] = leaves {
        return *only;
    }
    let mut root = Xxh3::with_seed(bytes);
    for [low, high] in leaves {
        let hash = u128::from(*low) | u128::from(*high) << 64;
        root.update(&hash.to_le_bytes());
    }
    let hash = root.digest128();
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the hash")]
    [hash as u64, (hash >> 64) as u64]
}

impl Part {
    /// Statistics of no elements.
    pub const NOTHING: Part = Part {
        min: i64::MAX,
        max: i64::MIN,
        mean: f64::NAN.to_bits(),
        squares: f64::NAN.to_bits(),
        zeros: 0,
        nan: 0,
        inf: 0,
        finite: 0,
    };

    /// Merges another part of the same range.
    #[expect(clippy::cast_precision_loss, reason = "weights")]
    pub fn merge(&mut self, other: &Part) {
        let (before, added) = (self.finite & !SCALED, other.finite & !SCALED);
        let scaled = (self.finite | other.finite) & SCALED;
        self.zeros += other.zeros;
        self.nan += other.nan;
        self.inf += other.inf;
        if added == 0 {
            return;
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if before == 0 {
            (self.mean, self.squares, self.finite) = (other.mean, other.squares, other.finite);
            return;
        }
        let ((mean, squares), (other_mean, other_squares)) = (self.moments(scaled), other.moments(scaled));
        let apart = other_mean - mean;
        let share = added as f64 / (before + added) as f64;
        self.mean = (mean + apart * share).to_bits();
        self.squares = (squares + other_squares + apart * apart * (before as f64 * share)).to_bits();
        self.finite = (before + added) | scaled;
    }

    /// Mean and squares, scaled down if requested.
    fn moments(&self, scaled: u64) -> (f64, f64) {
        let (mean, squares) = (f64::from_bits(self.mean), f64::from_bits(self.squares));
        // Multiply twice: the square of the scale underflows to zero.
        if scaled & !self.finite == 0 { (mean, squares) } else { (mean * DOWN, squares * DOWN * DOWN) }
    }

    /// Converts the statistics for a record.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a divisor")]
    pub fn stats(&self, dtype: DType) -> TensorStats {
        let &Part { zeros, nan, inf, .. } = self;
        let finite = self.finite & !SCALED;
        let numel = finite.saturating_add(nan).saturating_add(inf);
        if finite == 0 {
            return TensorStats { zeros, nan, inf, numel, ..TensorStats::default() }.over_values();
        }
        let scale = if self.finite & SCALED == 0 { 1.0 } else { DOWN };
        let (min, max) = (value_of(dtype, self.min), value_of(dtype, self.max));
        let (mean, squares) = (f64::from_bits(self.mean), f64::from_bits(self.squares));
        // Not `clamp`, which panics on invalid values from a device. A NaN mean stays NaN.
        let mean = if mean.is_nan() { mean } else { (mean / scale).max(min).min(max) };
        // A deviation is at most half the range. Rounding could make it infinite.
        let (std, most) = ((squares / finite as f64).sqrt() / scale, max / 2.0 - min / 2.0);
        let std = if std > most { most } else { std };
        TensorStats { min, max, mean, std, zeros, nan, inf, numel }
    }
}

/// Decodes a key; see `tt_element` in `source/measure.c`.
fn value_of(dtype: DType, key: i64) -> f64 {
    let top = 1_u64 << (dtype.bits() - 1);
    let bits = match dtype.kind() {
        DTypeKind::Float(_) if key < 0 => key.unsigned_abs() | top,
        DTypeKind::Unsigned if dtype.bits() == 64 => key.cast_unsigned() ^ top,
        // A 32-bit key, sign-extended.
        DTypeKind::Unsigned if dtype.bits() == 32 => (key.cast_unsigned() ^ top) & u64::from(u32::MAX),
        _ => key.cast_unsigned(),
    };
    to_f64(dtype, bits)
}
