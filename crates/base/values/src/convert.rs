//! Converts single elements to numbers and back.

use tensortap_abi::DType;

use crate::small_float::SmallFloat;
use crate::value::Value;

/// The element as `f64`: exact for every dtype but the 64-bit integers, which are rounded to nearest. The
/// parts of complex numbers are elements of [`DType::part`].
#[must_use]
pub fn to_f64(dtype: DType, bits: u64) -> f64 {
    Value::decode(dtype, bits.into()).to_f64()
}

/// Bits of the element nearest to a number, ties to even, in one rounding. A complex number gets the imaginary
/// part 0.
///
/// | dtype | beyond the greatest value | infinity | NaN |
/// | --- | --- | --- | --- |
/// | `float64` to `bfloat16`, `float8_e5m2` | infinity | infinity | quiet NaN, sign kept |
/// | `float8_e4m3fn` | greatest value (448) | NaN | NaN, sign kept |
/// | `float8_e4m3fnuz`, `float8_e5m2fnuz` | greatest value (240, 57344) | NaN | NaN, without a sign |
/// | `float8_e8m0fnu` | greatest value (2^127) | NaN | NaN |
/// | `float4_e2m1` | greatest value (6) | greatest value | greatest value |
/// | integers | greatest or least value | same | 0 |
/// | `bool` | true | true | true |
///
/// Negative zero becomes zero in `float8_e4m3fnuz` and `float8_e5m2fnuz`. In `float8_e8m0fnu`, zero becomes the
/// least value (2^-127) and a negative number becomes NaN.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::from_f64;
/// assert_eq!(from_f64(DType::BFloat16, 1.0 + 1.0 / 256.0), 0x3f80, "a tie goes to the even mantissa");
/// assert_eq!(from_f64(DType::Int8, 2.5), 2);
/// assert_eq!(from_f64(DType::Int8, -1000.0), 0x80);
/// ```
#[must_use]
pub fn from_f64(dtype: DType, value: f64) -> u64 {
    let dtype = dtype.part();
    if let Some(small) = SmallFloat::of(dtype) {
        return small.encode(value);
    }
    match dtype {
        DType::Float64 if value.is_nan() => f64::NAN.copysign(value).to_bits(),
        DType::Float64 => value.to_bits(),
        DType::Float32 if value.is_nan() => {
            u64::from(f32::NAN.copysign(if value.is_sign_negative() { -1.0 } else { 1.0 }).to_bits())
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
        DType::Float32 => u64::from((value as f32).to_bits()),
        DType::Bool => u64::from(value != 0.0),
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => unsigned(dtype, value),
        _ => signed(dtype, value),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
fn unsigned(dtype: DType, value: f64) -> u64 {
    (libm::rint(value) as u64).min(mask(dtype))
}

#[expect(clippy::cast_possible_truncation, reason = "a float cast saturates")]
fn signed(dtype: DType, value: f64) -> u64 {
    let greatest = (mask(dtype) >> 1).cast_signed();
    (libm::rint(value) as i64).clamp(-greatest - 1, greatest).cast_unsigned() & mask(dtype)
}

/// The bits that an element of a dtype of at most 64 bits uses.
pub(crate) const fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// The bits that an element of any dtype uses.
pub(crate) const fn wide_mask(dtype: DType) -> u128 {
    u128::MAX >> (128 - dtype.bits())
}

#[cfg(test)]
mod tests;
