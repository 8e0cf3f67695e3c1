//! Processes blocks of elements: one pass in the usual case, otherwise decoding and a second pass.

use tensortap_abi::DType;

use super::moments::HUGE;
use super::{F16_OVERFLOW, Statistics};
use crate::block::{ElementPass, decode_block, each_decoded};
use crate::vector::{Level, Work};

/// Elements of one pass.
pub(super) const BLOCK: usize = 2048;
/// Elements decoded at a time in the second pass.
const DECODED: usize = 512;
/// Number of parallel running sums, so that no step waits for the one before. As many as the registers of
/// AVX-512 hold together with their squares and the values; half as many were slower there.
const LANES: usize = 32;
/// Squares around a guess of the mean are exact enough if the squared distance of the guess is at most this
/// many variances.
const GUESS_LIMIT: f64 = 16.0;

/// The result of one pass over values. Sums are of distances from a guess of the mean.
struct Pass {
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
    zeros: u64,
}

impl Statistics {
    /// Adds the first `count` elements of whole bytes.
    pub(super) fn take_bytes(&mut self, bytes: &[u8], count: usize) {
        let guess = self.moments.guess();
        let pass = Pass::over(self.dtype, bytes, count, guess);
        // NaN and infinity stay in a sum. Values whose squares overflow become infinity there.
        let usual =
            pass.squares.is_finite() && pass.max <= HUGE && pass.min >= -HUGE && !self.moments.is_scaled();
        // If values are far from earlier ones, as on a slope, the first pass gives a better guess for a
        // second one.
        let is_taken = usual
            && (self.take_pass(&pass, count, guess) || {
                let nearer = pass.mean(count, guess);
                self.take_pass(&Pass::over(self.dtype, bytes, count, nearer), count, nearer)
            });
        if !is_taken {
            self.take_decoded(bytes, count);
        } else if pass.max >= F16_OVERFLOW || pass.min <= -F16_OVERFLOW {
            self.f16_overflow += each_decoded(self.dtype, bytes, CountOverflow { count });
        }
    }

    /// Adds a pass if it was exact enough; returns whether it was.
    fn take_pass(&mut self, pass: &Pass, count: usize, guess: f64) -> bool {
        let &Pass { sum, squares, min, max, zeros } = pass;
        if count == 0 {
            return true;
        }
        let distance = pass.mean(count, 0.0);
        let deviation = squares - sum * distance;
        // Without squares, every element equals the guess.
        if squares != 0.0 && sum * distance > GUESS_LIMIT * deviation {
            return false;
        }
        self.zeros += zeros;
        self.moments.widen(min, max);
        self.moments.add(count as u64, guess + distance, deviation);
        true
    }

    /// The exact case: excludes NaN and infinities, computes the exact mean, then the distances from it.
    fn take_decoded(&mut self, bytes: &[u8], count: usize) {
        let mut values = [0.0; DECODED];
        let mut left = count;
        for bytes in bytes.chunks(DECODED * self.dtype.bits() as usize / 8) {
            let decoded = decode_block(self.dtype, bytes, &mut values).min(left);
            left -= decoded;
            let finite = self.set_specials_aside(&mut values[..decoded]);
            self.take_finite(&mut values[..finite]);
        }
    }

    fn take_finite(&mut self, values: &mut [f64]) {
        if values.is_empty() {
            return;
        }
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for &value in values.iter() {
            min = min.min(value);
            max = max.max(value);
            self.zeros += u64::from(value == 0.0);
            self.f16_overflow += u64::from(value.abs() >= F16_OVERFLOW);
        }
        let scale = self.moments.widen(min, max);
        if scale != 1.0 {
            values.iter_mut().for_each(|value| *value *= scale);
        }
        #[expect(clippy::cast_precision_loss, reason = "a divisor")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        self.moments.add(values.len() as u64, mean, deviation);
    }

    /// Moves finite values to the front, counts the others, and returns the number of finite ones.
    fn set_specials_aside(&mut self, values: &mut [f64]) -> usize {
        let mut kept = 0;
        for at in 0..values.len() {
            let value = values[at];
            if value.is_finite() {
                values[kept] = value;
                kept += 1;
            }
            self.nan += u64::from(value.is_nan());
            self.positive_inf += u64::from(value == f64::INFINITY);
            self.negative_inf += u64::from(value == f64::NEG_INFINITY);
        }
        kept
    }
}

impl Pass {
    /// The mean of this many values, from a pass around a guess.
    fn mean(&self, count: usize, guess: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a divisor")]
        let distance = self.sum / count as f64;
        guess + distance
    }

    fn over(dtype: DType, bytes: &[u8], count: usize, guess: f64) -> Pass {
        Level::detect().run(HotPass { dtype, bytes, over: GenericPass { dtype, count, guess } })
    }
}

/// The pass compiled for one processor.
struct HotPass<'a> {
    dtype: DType,
    bytes: &'a [u8],
    over: GenericPass,
}

impl Work for HotPass<'_> {
    type Output = Pass;

    #[inline(always)]
    fn run(self) -> Pass {
        each_decoded(self.dtype, self.bytes, self.over)
    }
}

/// The pass for any decoder, compiled once per dtype.
struct GenericPass {
    dtype: DType,
    count: usize,
    guess: f64,
}

impl ElementPass for GenericPass {
    type Output = Pass;

    #[inline(always)]
    fn over<const N: usize>(self, elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64) -> Pass {
        let elements = &elements[..self.count.min(elements.len()).min(BLOCK)];
        let (sum, squares) = sums_of(elements, |element| value(*element) - self.guess);
        let Range { min, max, zeros } = match (self.dtype, N) {
            (DType::Float32, 4) => range32(elements, value),
            (DType::Float16 | DType::BFloat16, 2) => range16(elements, value),
            _ => range64(elements, |element| value(*element)),
        };
        Pass { sum, squares, min, max, zeros }
    }

    #[inline(always)]
    fn over_nibbles(self, bytes: &[u8], value: impl Fn(u8) -> f64) -> Pass {
        let mut values = [0.0; BLOCK];
        let count = self.count.min(bytes.len() * 2).min(BLOCK);
        for (place, slot) in values[..count].iter_mut().enumerate() {
            *slot = value(bytes[place / 2] >> (4 * (place % 2)) & 0xf);
        }
        let (sum, squares) = sums_of(&values[..count], |value| value - self.guess);
        let Range { min, max, zeros } = range64(&values[..count], |value| *value);
        Pass { sum, squares, min, max, zeros }
    }
}

/// Counts elements beyond the range of `float16`.
struct CountOverflow {
    count: usize,
}

impl ElementPass for CountOverflow {
    type Output = u64;

    #[inline(always)]
    fn over<const N: usize>(self, elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64) -> u64 {
        let elements = elements.iter().take(self.count);
        elements.map(|element| u64::from(value(*element).abs() >= F16_OVERFLOW)).sum()
    }

    fn over_nibbles(self, _: &[u8], _: impl Fn(u8) -> f64) -> u64 {
        // The greatest value of these dtypes is 7.
        0
    }
}

/// Sum and sum of squares of terms, in lanes. A group is decoded, added and squared while it is in registers.
/// Each step is a separate loop: if two are combined, the compiler uses pairs instead of whole vectors.
#[inline(always)]
fn sums_of<T>(elements: &[T], term: impl Fn(&T) -> f64) -> (f64, f64) {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (groups, rest) = elements.as_chunks::<LANES>();
    for group in groups {
        let mut terms = [0.0; LANES];
        for (slot, element) in terms.iter_mut().zip(group) {
            *slot = term(element);
        }
        for (sum, term) in sums.iter_mut().zip(&terms) {
            *sum += term;
        }
        for (sum, term) in squares.iter_mut().zip(&terms) {
            *sum += term * term;
        }
    }
    for ((sum, square), element) in sums.iter_mut().zip(&mut squares).zip(rest) {
        let term = term(element);
        *sum += term;
        *square += term * term;
    }
    (sums.iter().sum(), squares.iter().sum())
}

/// Minimum, maximum and number of zeros.
struct Range {
    min: f64,
    max: f64,
    zeros: u64,
}

impl Range {
    /// The range of no values.
    const EMPTY: Range = Range { min: f64::INFINITY, max: f64::NEG_INFINITY, zeros: 0 };
}

/// Minimum and maximum are found as integers, because a choice between two floats may become a store that
/// waits for the previous one.
#[inline(always)]
fn range64<T>(elements: &[T], value: impl Fn(&T) -> f64) -> Range {
    if elements.is_empty() {
        return Range::EMPTY;
    }
    let (mut least, mut greatest, mut zeros) = (i64::MAX, i64::MIN, 0);
    for element in elements {
        let value = value(element);
        let place = place_of(value);
        least = least.min(place);
        greatest = greatest.max(place);
        zeros += u64::from(value == 0.0);
    }
    // Adding zero makes both zeros equal.
    Range { min: value_at(least) + 0.0, max: value_at(greatest) + 0.0, zeros }
}

/// The same for floats in integers of their own width, of which a register holds more.
macro_rules! narrow_range {
    ($name:ident, $unsigned:ty, $signed:ty) => {
        #[inline(always)]
        fn $name<const N: usize>(elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64) -> Range {
            const BYTES: usize = size_of::<$unsigned>();
            let (elements, _) = elements.as_flattened().as_chunks::<BYTES>();
            if elements.is_empty() {
                return Range::EMPTY;
            }
            // The narrowest counter must not overflow within a block.
            const { assert!(BLOCK <= u16::MAX as usize) };
            let (mut least, mut greatest, mut zeros) = (<$signed>::MAX, <$signed>::MIN, 0 as $unsigned);
            for element in elements {
                let bits = <$unsigned>::from_le_bytes(*element).cast_signed();
                let place = bits ^ ((bits >> (<$signed>::BITS - 1)).cast_unsigned() >> 1).cast_signed();
                least = least.min(place);
                greatest = greatest.max(place);
                zeros += <$unsigned>::from(bits << 1 == 0);
            }
            let value_at = |place: $signed| {
                let bits = place ^ ((place >> (<$signed>::BITS - 1)).cast_unsigned() >> 1).cast_signed();
                let mut element = [0; N];
                element.copy_from_slice(&bits.to_le_bytes());
                value(element) + 0.0
            };
            Range { min: value_at(least), max: value_at(greatest), zeros: zeros.into() }
        }
    };
}

narrow_range!(range32, u32, i32);
narrow_range!(range16, u16, i16);

/// Maps floats to integers in the same order, with NaN at either end.
#[inline(always)]
fn place_of(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The float at a position; the mapping is its own inverse.
#[inline(always)]
fn value_at(place: i64) -> f64 {
    f64::from_bits((place ^ ((place >> 63).cast_unsigned() >> 1).cast_signed()).cast_unsigned())
}
