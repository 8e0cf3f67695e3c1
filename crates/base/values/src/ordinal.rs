//! The order of representable values.

use tensortap_abi::DType;

use crate::convert::mask;
use crate::value::{Value, sign_extend};

/// The position of an element among the values of its dtype. Greater values have greater positions, neighbors
/// differ by one, and both zeros of a float share a position. Infinity follows the greatest finite value.
/// `None` for NaN and for complex numbers, which have no order.
///
/// Positions are only comparable within a dtype. Those of `uint64` start at `i64::MIN`, and those of
/// `float8_e8m0fnu` at 0 for 2^-127; for all others, zero is at 0.
#[must_use]
pub fn ordinal(dtype: DType, bits: u64) -> Option<i64> {
    if dtype.is_complex() {
        return None;
    }
    let low = bits & mask(dtype);
    match Value::decode(dtype, bits.into()) {
        Value::Float(value) if value.is_nan() => None,
        Value::Float(_) if dtype == DType::Float8E8M0FNU => Some(low.cast_signed()),
        Value::Float(_) => {
            let magnitude = (low & (mask(dtype) >> 1)).cast_signed();
            Some(if low > mask(dtype) >> 1 { -magnitude } else { magnitude })
        }
        Value::Int(_) => Some(sign_extend(dtype, low)),
        Value::UInt(value) if dtype == DType::UInt64 => Some((value ^ 1 << 63).cast_signed()),
        Value::UInt(value) => Some(value.cast_signed()),
        Value::Bool(value) => Some(value.into()),
        Value::Complex(..) => None,
    }
}

/// The distance of two elements in representable values; `None` if one of them is NaN.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::ulp_distance;
/// let (least, zero) = (f32::from_bits(1), -0.0_f32);
/// assert_eq!(ulp_distance(DType::Float32, least.to_bits().into(), zero.to_bits().into()), Some(1));
/// ```
#[must_use]
pub fn ulp_distance(dtype: DType, one: u64, other: u64) -> Option<u64> {
    Some(ordinal(dtype, one)?.abs_diff(ordinal(dtype, other)?))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::to_f64;

    #[test]
    fn neighbours_of_every_narrow_dtype_are_one_apart_and_in_order() {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.bits() <= 16 && *dtype != DType::Bool) {
            let mut places: Vec<(i64, f64)> = (0..=mask(dtype))
                .filter_map(|bits| Some((ordinal(dtype, bits)?, to_f64(dtype, bits))))
                .collect();
            places.sort_by_key(|(place, _)| *place);
            places.dedup();
            for pair in places.windows(2) {
                let [(low, small), (high, large)] = pair else { unreachable!() };
                // Both zeros have one place, so only they may repeat.
                let zeros = *small == 0.0 && *large == 0.0 && low == high;
                assert!(zeros || (high - low == 1 && small < large), "{dtype}: {small} {large}");
            }
        }
    }

    #[test]
    fn distances_reach_over_the_whole_range_of_64_bits() {
        assert_eq!(ulp_distance(DType::UInt64, 0, u64::MAX), Some(u64::MAX));
        assert_eq!(
            ulp_distance(DType::Int64, i64::MIN.cast_unsigned(), i64::MAX.cast_unsigned()),
            Some(u64::MAX)
        );
        let ends = [f64::NEG_INFINITY, f64::INFINITY].map(f64::to_bits);
        assert_eq!(ulp_distance(DType::Float64, ends[0], ends[1]), Some(2 * (0x7ff << 52)));
        assert_eq!(ulp_distance(DType::Float32, 0, f32::NAN.to_bits().into()), None);
        assert_eq!(ulp_distance(DType::Bool, 2, 1), Some(0));
    }
}
