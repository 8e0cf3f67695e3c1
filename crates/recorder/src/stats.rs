//! Statistics of a tensor's content, in one pass over its bytes.
//!
//! The content arrives in chunks. Each is decoded in blocks that stay in the first-level cache; a block's mean and
//! squared deviations are taken exactly as one would by hand, then merged with those of the blocks before. That is
//! accurate where plain sums of squares are not, and leaves loops that compile to vector code.

mod decode;

use tensortap_abi::{DType, TensorStats};

use self::decode::{BLOCK, decode};

/// Above this magnitude squares could overflow, so values are scaled down first.
const HUGE: f64 = f64::from_bits((1023 + 500) << 52);
/// 2^-600: the largest finite value, scaled, can be squared and summed up.
const DOWN: f64 = f64::from_bits((1023 - 600) << 52);

/// Takes the statistics of content that arrives in chunks.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_recorder::Statistics;
///
/// let mut statistics = Statistics::new(DType::Float32, 4);
/// for value in [1.0_f32, f32::NAN, 0.0, 5.0] {
///     statistics.update(&value.to_le_bytes());
/// }
/// let stats = statistics.finish();
/// assert_eq!((stats.min, stats.max, stats.mean), (0.0, 5.0, 2.0));
/// assert_eq!((stats.zeros, stats.nan, stats.inf, stats.numel), (1, 1, 0, 4));
/// ```
#[derive(Clone, Debug)]
pub struct Statistics {
    dtype: DType,
    numel: u64,
    /// Elements not seen yet.
    left: u64,
    zeros: u64,
    nan: u64,
    inf: u64,
    finite: u64,
    min: f64,
    max: f64,
    /// 1, or [`DOWN`] once a huge value was seen: what `mean` and `deviation` are multiplied by.
    scale: f64,
    mean: f64,
    /// Sum of squared distances from the mean.
    deviation: f64,
}

impl Statistics {
    /// For content of `numel` elements.
    pub fn new(dtype: DType, numel: u64) -> Self {
        Self {
            dtype,
            numel,
            left: numel,
            zeros: 0,
            nan: 0,
            inf: 0,
            finite: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            scale: 1.0,
            mean: 0.0,
            deviation: 0.0,
        }
    }

    /// Takes the next bytes of the content: whole elements, little endian; of 4-bit elements whole bytes.
    pub fn update(&mut self, chunk: &[u8]) {
        let mut values = [0.0; BLOCK];
        for bytes in chunk.chunks(decode::bytes_per_block(self.dtype)) {
            let decoded = decode(self.dtype, bytes, &mut values);
            // A last odd nibble has a neighbour that is none.
            let count = usize::try_from(self.left).map_or(decoded, |left| left.min(decoded));
            self.left -= count as u64;
            self.take_block(&mut values[..count]);
        }
    }

    /// The statistics. All elements must have been taken.
    pub fn finish(self) -> TensorStats {
        debug_assert_eq!(self.left, 0, "elements of the content are missing");
        let Self { zeros, nan, inf, numel, .. } = self;
        if self.finite == 0 {
            return TensorStats { zeros, nan, inf, numel, ..TensorStats::default() };
        }
        #[expect(clippy::cast_precision_loss, reason = "a divisor")]
        let variance = self.deviation / self.finite as f64;
        TensorStats {
            min: self.min,
            max: self.max,
            mean: (self.mean / self.scale).clamp(self.min, self.max),
            std: libm::sqrt(variance) / self.scale,
            zeros,
            nan,
            inf,
            numel,
        }
    }

    fn take_block(&mut self, values: &mut [f64]) {
        let finite = if self.dtype.is_float() { self.set_specials_aside(values) } else { values.len() };
        let finite = &mut values[..finite];
        if finite.is_empty() {
            return;
        }
        let (mut min, mut max, mut zeros) = (self.min, self.max, 0_u64);
        for &value in finite.iter() {
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            zeros += u64::from(value == 0.0);
        }
        (self.min, self.max) = (min, max);
        self.zeros += zeros;
        self.scale_down_if_huge();
        if self.scale != 1.0 {
            finite.iter_mut().for_each(|value| *value *= self.scale);
        }
        self.merge(finite);
    }

    /// Moves finite values to the front and counts the others; how many are finite.
    fn set_specials_aside(&mut self, values: &mut [f64]) -> usize {
        if values.iter().all(|value| value.is_finite()) {
            return values.len();
        }
        let mut kept = 0;
        for at in 0..values.len() {
            let value = values[at];
            if value.is_finite() {
                values[kept] = value;
                kept += 1;
            }
            self.nan += u64::from(value.is_nan());
            self.inf += u64::from(value.is_infinite());
        }
        kept
    }

    fn scale_down_if_huge(&mut self) {
        let huge = self.max > HUGE || self.min < -HUGE;
        if huge && self.scale == 1.0 {
            self.scale = DOWN;
            self.mean *= DOWN;
            // One after the other: the square of the scale underflows to zero.
            self.deviation = self.deviation * DOWN * DOWN;
        }
    }

    /// Merges the mean and squared deviations of a block with those so far.
    #[expect(clippy::cast_precision_loss, reason = "weights")]
    fn merge(&mut self, block: &[f64]) {
        let count = block.len() as f64;
        let mean = sum(block.iter().copied()) / count;
        let deviation = sum(block.iter().map(|value| (value - mean) * (value - mean)));
        let before = self.finite as f64;
        let total = before + count;
        let apart = mean - self.mean;
        self.mean += apart * (count / total);
        self.deviation += deviation + apart * apart * (before * count / total);
        self.finite += block.len() as u64;
    }
}

/// Sum in several lanes, so that it can be a vector sum.
fn sum(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let mut lanes = [0.0; 8];
    for (at, value) in values.enumerate() {
        lanes[at % 8] += value;
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests;
