//! Binary floats of at most 16 bits, with bit arithmetic.

use tensortap_abi::{DType, DTypeKind, FloatFormat, TopExponent};

/// A float format without hardware support, as described in the table of dtypes.
#[derive(Clone, Copy)]
pub(crate) struct SmallFloat(FloatFormat);

pub(crate) static E4M3FN_VALUES: [f32; 256] = table(DType::Float8E4M3FN);
pub(crate) static E5M2_VALUES: [f32; 256] = table(DType::Float8E5M2);
pub(crate) static E4M3FNUZ_VALUES: [f32; 256] = table(DType::Float8E4M3FNUZ);
pub(crate) static E5M2FNUZ_VALUES: [f32; 256] = table(DType::Float8E5M2FNUZ);
pub(crate) static E8M0FNU_VALUES: [f32; 256] = table(DType::Float8E8M0FNU);
pub(crate) static E2M1_VALUES: [f32; 16] = table(DType::Float4E2M1);

const F32_MANTISSA_BITS: u32 = 23;
const F32_BIAS: u32 = 127;
const F64_MANTISSA_BITS: u32 = 52;
const F64_BIAS: i32 = 1023;

/// The value of every bit pattern of a dtype.
const fn table<const N: usize>(dtype: DType) -> [f32; N] {
    let Some(format) = SmallFloat::of(dtype) else { panic!("a small float") };
    let mut table = [0.0; N];
    let mut bits = 0;
    while bits < N {
        #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
        let pattern = bits as u16;
        table[bits] = format.decode(pattern);
        bits += 1;
    }
    table
}

impl SmallFloat {
    /// The format of a dtype; `None` for integers and for floats with hardware support.
    pub(crate) const fn of(dtype: DType) -> Option<SmallFloat> {
        match dtype.kind() {
            DTypeKind::Float(format) if dtype.bits() <= 16 => Some(SmallFloat(format)),
            _ => None,
        }
    }

    /// Decodes bits. Every value of these formats is also an `f32`.
    pub(crate) const fn decode(&self, bits: u16) -> f32 {
        let bits = bits as u32;
        if let TopExponent::PowerOfTwo = self.0.top {
            return power_of_two_f32(bits);
        }
        let exponent_max = (1 << self.0.exponent_bits) - 1;
        let mantissa_max = (1 << self.0.mantissa_bits) - 1;
        let bias = self.0.bias();
        let sign = bits >> (self.0.exponent_bits + self.0.mantissa_bits) & 1;
        let exponent = bits >> self.0.mantissa_bits & exponent_max;
        let mantissa = bits & mantissa_max;
        let widened = mantissa << (F32_MANTISSA_BITS - self.0.mantissa_bits);
        let special = match self.0.top {
            TopExponent::Ieee => exponent == exponent_max,
            TopExponent::OneNan => exponent == exponent_max && mantissa == mantissa_max,
            TopExponent::NegativeZeroNan if bits as u64 == self.sign() => return f32::NAN,
            TopExponent::Finite | TopExponent::NegativeZeroNan | TopExponent::PowerOfTwo => false,
        };
        let magnitude = if special {
            f32::from_bits(0xff << F32_MANTISSA_BITS | widened)
        } else if self.0.exponent_bits == 8 {
            // The exponent of an `f32`. The mantissa only gets longer, also for subnormal numbers.
            f32::from_bits(exponent << F32_MANTISSA_BITS | widened)
        } else if exponent == 0 {
            // The unit of the subnormal numbers, a power of two.
            let unit = F32_BIAS + 1 - bias - self.0.mantissa_bits;
            mantissa as f32 * f32::from_bits(unit << F32_MANTISSA_BITS)
        } else {
            f32::from_bits((exponent + F32_BIAS - bias) << F32_MANTISSA_BITS | widened)
        };
        if sign == 1 { -magnitude } else { magnitude }
    }

    /// Encodes the nearest value, ties to even, in one rounding.
    pub(crate) fn encode(&self, value: f64) -> u64 {
        match (self.magnitude(value), self.0.top) {
            // No negative number has a pattern, except for a zero that rounds to the least number.
            (_, TopExponent::PowerOfTwo) if value < 0.0 => self.nan_pattern(),
            (magnitude, TopExponent::PowerOfTwo) => magnitude,
            (0, TopExponent::NegativeZeroNan) => 0,
            (magnitude, _) => magnitude | if value.is_sign_negative() { self.sign() } else { 0 },
        }
    }

    /// The pattern of the sign.
    const fn sign(&self) -> u64 {
        1 << (self.0.exponent_bits + self.0.mantissa_bits)
    }

    fn magnitude(&self, value: f64) -> u64 {
        if value.is_nan() {
            return self.nan_pattern();
        }
        if value.is_infinite() {
            return self.infinity().unwrap_or(self.nan_pattern());
        }
        let rounded = self.round(value.abs());
        if rounded <= self.greatest() { rounded } else { self.infinity().unwrap_or(self.greatest()) }
    }

    /// The nearest pattern of a finite magnitude, as if the largest exponent were an ordinary one.
    fn round(&self, magnitude: f64) -> u64 {
        if let TopExponent::PowerOfTwo = self.0.top {
            return nearest_power_of_two(magnitude);
        }
        let least_normal = 1 - self.0.bias().cast_signed();
        let exponent = exponent_of(magnitude).max(least_normal);
        let (exponent, mantissa_bits) = (exponent, self.0.mantissa_bits.cast_signed());
        // In units of the last place: below 2^(mantissa_bits + 1), scaled without rounding.
        let units = magnitude * power_of_two(mantissa_bits - exponent);
        // Adding 2^52 leaves no bits for a fraction, so the addition rounds it, ties to even.
        let whole = (units + power_of_two(52)) - power_of_two(52);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small whole number, not negative"
        )]
        let units = whole as u64;
        // A mantissa that rounds up to a power of two carries into the exponent.
        (u64::from((exponent - least_normal).cast_unsigned()) << self.0.mantissa_bits) + units
    }

    /// Pattern of the greatest finite value.
    const fn greatest(&self) -> u64 {
        let patterns = 1 << (self.0.exponent_bits + self.0.mantissa_bits);
        match self.0.top {
            TopExponent::Ieee => patterns - (1 << self.0.mantissa_bits) - 1,
            TopExponent::OneNan => patterns - 2,
            TopExponent::Finite | TopExponent::NegativeZeroNan => patterns - 1,
            TopExponent::PowerOfTwo => patterns - 2,
        }
    }

    const fn infinity(&self) -> Option<u64> {
        match self.0.top {
            TopExponent::Ieee => Some(self.greatest() + 1),
            _ => None,
        }
    }

    /// The pattern for NaN; the greatest number of a format without NaN.
    fn nan_pattern(&self) -> u64 {
        self.quiet_nan().unwrap_or(self.greatest())
    }

    /// Pattern of the NaN that arithmetic produces, without its sign.
    pub(crate) const fn quiet_nan(&self) -> Option<u64> {
        match self.0.top {
            TopExponent::Ieee => Some(self.greatest() + 1 + (1 << (self.0.mantissa_bits - 1))),
            TopExponent::OneNan | TopExponent::PowerOfTwo | TopExponent::NegativeZeroNan => {
                Some(self.greatest() + 1)
            }
            TopExponent::Finite => None,
        }
    }
}

/// The value of a pattern of `float8_e8m0fnu`.
const fn power_of_two_f32(bits: u32) -> f32 {
    match bits {
        0xff => f32::NAN,
        // 2^-127, below the normal numbers of `f32`.
        0 => f32::from_bits(1 << (F32_MANTISSA_BITS - 1)),
        _ => f32::from_bits(bits << F32_MANTISSA_BITS),
    }
}

/// The pattern of the power of two nearest to a finite magnitude, ties to the even pattern. It may be greater
/// than the greatest pattern.
fn nearest_power_of_two(magnitude: f64) -> u64 {
    const LEAST: i32 = -127;
    let exponent = exponent_of(magnitude);
    if exponent < LEAST {
        return 0;
    }
    // From 1 to 2.
    let units = magnitude / power_of_two(exponent);
    let lower = u64::from((exponent - LEAST).cast_unsigned());
    lower + u64::from(units > 1.5 || units == 1.5 && lower % 2 == 1)
}

/// Exponent of a magnitude; for subnormals, that of the least normal number or less.
fn exponent_of(magnitude: f64) -> i32 {
    let biased = (magnitude.to_bits() >> F64_MANTISSA_BITS) as i32;
    biased - F64_BIAS
}

/// A power of two within the range of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    let biased = u64::from((exponent + F64_BIAS).cast_unsigned());
    f64::from_bits(biased << F64_MANTISSA_BITS)
}
