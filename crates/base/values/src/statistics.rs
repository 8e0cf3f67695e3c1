//! Statistics of a tensor's content in one pass over its bytes.
//!
//! Content arrives in chunks and is processed in blocks. One pass over a block sums the distances from the
//! mean so far, and their squares. If that guess of the mean is too far off, or if values are huge, NaN or
//! infinite, the block is decoded and processed again with its own mean. That is accurate where plain sums of
//! squares are not, and the usual case is a single loop that compiles to vector code. Elements of a byte or
//! less are counted by pattern instead, because there are at most 256 patterns.
//!
//! Statistics of complex numbers are those of their parts: every real and every imaginary part is one number.
//! Minimum and maximum of the parts bound the tolerance of every part, as those of floats do; complex numbers
//! have no order.

mod block;
mod moments;
mod patterns;

use tensortap_abi::{DType, TensorStats};

use self::block::BLOCK;
use self::moments::Moments;
use crate::block::{decode_signed, decode_unsigned, elements_in};

/// The greatest `float16`. A value of this magnitude or more is out of range, or was clamped.
pub const F16_OVERFLOW: f64 = 65_504.0;

/// Chunks of at least this size are counted by pattern, for elements of a byte or less.
const PATTERN_BYTES: usize = 1024;

/// Computes statistics of content that arrives in chunks.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::Statistics;
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
    /// Number of elements that were not added yet.
    left: u64,
    zeros: u64,
    nan: u64,
    positive_inf: u64,
    negative_inf: u64,
    f16_overflow: u64,
    moments: Moments,
    /// Exact range of 64-bit integers, which `f64` rounds.
    range: Option<(i128, i128)>,
}

/// The results of [`Statistics`]: those that fit in a record, and more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Range, mean, deviation and counts.
    pub stats: TensorStats,
    /// Number of negative infinities.
    pub negative_inf: u64,
    /// Number of finite elements with a magnitude of at least [`F16_OVERFLOW`].
    pub f16_overflow: u64,
    /// Whether there are several elements and all are equal; NaN equals nothing.
    pub constant: bool,
    /// Exact minimum and maximum of 64-bit integers; `None` for other dtypes or without elements.
    pub exact_range: Option<(i128, i128)>,
}

impl Summary {
    /// Whether there are elements and every one is zero.
    #[must_use]
    pub fn all_zero(&self) -> bool {
        self.stats.numel > 0 && self.stats.zeros == self.stats.numel
    }
}

impl Statistics {
    /// Statistics for content of `numel` elements. Counts of complex numbers are counts of parts.
    #[must_use]
    pub fn new(dtype: DType, numel: u64) -> Self {
        let (dtype, numel) = (dtype.part(), numel.saturating_mul(dtype.parts().into()));
        Self {
            dtype,
            numel,
            left: numel,
            zeros: 0,
            nan: 0,
            positive_inf: 0,
            negative_inf: 0,
            f16_overflow: 0,
            moments: Moments::default(),
            range: None,
        }
    }

    /// Adds the next bytes of the content: whole elements, little endian; whole bytes of 4-bit elements.
    pub fn update(&mut self, chunk: &[u8]) {
        let chunk = self.take_patterns(chunk);
        for bytes in chunk.chunks(BLOCK * self.dtype.bits() as usize / 8) {
            let held = elements_in(self.dtype, bytes.len());
            // The byte of a last odd 4-bit element has an unused half.
            let count = usize::try_from(self.left).map_or(held, |left| left.min(held));
            self.left -= count as u64;
            self.take_bytes(bytes, count);
            self.take_range(bytes);
        }
    }

    /// Adds the statistics of another part of the same content.
    ///
    /// # Panics
    /// The dtypes differ.
    pub fn merge(&mut self, other: &Statistics) {
        assert_eq!(self.dtype, other.dtype, "parts of one tensor have one dtype");
        self.numel += other.numel;
        self.left += other.left;
        self.zeros += other.zeros;
        self.nan += other.nan;
        self.positive_inf += other.positive_inf;
        self.negative_inf += other.negative_inf;
        self.f16_overflow += other.f16_overflow;
        self.moments.merge(&other.moments);
        if let Some(range) = other.range {
            self.widen(range);
        }
    }

    /// The statistics for a record. All elements must have been added.
    #[must_use]
    pub fn finish(self) -> TensorStats {
        debug_assert_eq!(self.left, 0, "elements of the content are missing");
        let Self { zeros, nan, numel, .. } = self;
        let inf = self.positive_inf + self.negative_inf;
        let moments = &self.moments;
        if moments.count == 0 {
            return TensorStats { zeros, nan, inf, numel, ..TensorStats::default() }.over_values();
        }
        let (min, max) = (moments.min, moments.max);
        TensorStats { min, max, mean: moments.mean(), std: moments.std(), zeros, nan, inf, numel }
    }

    /// All statistics, including those that do not fit in a record.
    #[must_use]
    pub fn summary(self) -> Summary {
        let Self { numel, negative_inf, positive_inf, f16_overflow, range: exact_range, .. } = self;
        let finite_constant = self.moments.count == numel && self.moments.min == self.moments.max;
        let same = exact_range.map_or(finite_constant, |(min, max)| min == max);
        let constant = numel > 1 && (same || positive_inf == numel || negative_inf == numel);
        Summary { stats: self.finish(), negative_inf, f16_overflow, constant, exact_range }
    }

    fn take_range(&mut self, bytes: &[u8]) {
        match self.dtype {
            DType::Int64 => {
                let mut values = [0; BLOCK];
                let count = decode_signed(self.dtype, bytes, &mut values).unwrap_or(0);
                self.widen_to(&values[..count]);
            }
            DType::UInt64 => {
                let mut values = [0; BLOCK];
                let count = decode_unsigned(self.dtype, bytes, &mut values).unwrap_or(0);
                self.widen_to(&values[..count]);
            }
            _ => {}
        }
    }

    fn widen_to<T: Copy + Ord + Into<i128>>(&mut self, values: &[T]) {
        if let (Some(min), Some(max)) = (values.iter().min(), values.iter().max()) {
            self.widen(((*min).into(), (*max).into()));
        }
    }

    fn widen(&mut self, (min, max): (i128, i128)) {
        self.range = Some(self.range.map_or((min, max), |(low, high)| (low.min(min), high.max(max))));
    }
}

#[cfg(test)]
mod tests;
