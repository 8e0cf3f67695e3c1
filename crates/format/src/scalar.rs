//! What a scalar's raw bits mean.

use serde::{Serialize, Serializer};
use tensortap_abi::DType;

use crate::json::{Decimal, Float};

/// The value of a scalar. In JSON, 64-bit integers are decimal strings and floats that are no numbers are
/// `"NaN"`, `"Infinity"` and `"-Infinity"`.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_format::ScalarValue;
/// assert_eq!(ScalarValue::decode(DType::Float32, 0x3f80_0000), ScalarValue::Float(1.0));
/// assert_eq!(ScalarValue::decode(DType::Int4, 0xf), ScalarValue::Int(-1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// A float of any width; every one of them is exact in 64 bits.
    Float(f64),
    /// A signed integer of up to 32 bits.
    Int(i64),
    /// An unsigned integer of up to 32 bits.
    UInt(u64),
    /// A signed integer of 64 bits.
    Int64(i64),
    /// An unsigned integer of 64 bits.
    UInt64(u64),
    /// A truth value; any bit set is true.
    Bool(bool),
}

impl ScalarValue {
    /// The value that the low bits hold; bits above the dtype's width do not count.
    #[must_use]
    pub fn decode(dtype: DType, bits: u64) -> ScalarValue {
        let width = dtype.bits();
        let low = bits & (u64::MAX >> (64 - width));
        match dtype {
            DType::Float64 => ScalarValue::Float(f64::from_bits(low)),
            DType::Float32 => ScalarValue::Float(Small::FLOAT32.decode(low)),
            DType::Float16 => ScalarValue::Float(Small::FLOAT16.decode(low)),
            DType::BFloat16 => ScalarValue::Float(Small::BFLOAT16.decode(low)),
            DType::Float8E4M3FN => ScalarValue::Float(Small::E4M3FN.decode(low)),
            DType::Float8E5M2 => ScalarValue::Float(Small::E5M2.decode(low)),
            DType::Float4E2M1 => ScalarValue::Float(Small::E2M1.decode(low)),
            DType::Int64 => ScalarValue::Int64(low.cast_signed()),
            DType::Int32 | DType::Int16 | DType::Int8 | DType::Int4 => {
                let shift = 64 - width;
                ScalarValue::Int((low << shift).cast_signed() >> shift)
            }
            DType::UInt64 => ScalarValue::UInt64(low),
            DType::UInt32 | DType::UInt16 | DType::UInt8 => ScalarValue::UInt(low),
            DType::Bool => ScalarValue::Bool(low != 0),
        }
    }

    /// The bits of the float nearest to `value`; for a float dtype only, else 0.
    pub(crate) fn float_bits(dtype: DType, value: f64) -> u64 {
        match dtype {
            DType::Float64 => value.to_bits(),
            #[expect(clippy::cast_possible_truncation, reason = "the nearest one is meant")]
            DType::Float32 => (value as f32).to_bits().into(),
            DType::Float16 => Small::FLOAT16.encode(value),
            DType::BFloat16 => Small::BFLOAT16.encode(value),
            DType::Float8E4M3FN => Small::E4M3FN.encode(value),
            DType::Float8E5M2 => Small::E5M2.encode(value),
            DType::Float4E2M1 => Small::E2M1.encode(value),
            _ => 0,
        }
    }
}

impl Serialize for ScalarValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ScalarValue::Float(value) => Float(value).serialize(serializer),
            ScalarValue::Int(value) => value.serialize(serializer),
            ScalarValue::UInt(value) => value.serialize(serializer),
            ScalarValue::Int64(value) => Decimal(value).serialize(serializer),
            ScalarValue::UInt64(value) => Decimal(value).serialize(serializer),
            ScalarValue::Bool(value) => value.serialize(serializer),
        }
    }
}

/// What the greatest exponent of a float means.
enum Top {
    /// Infinity, or NaN when the mantissa is not zero.
    Ieee,
    /// NaN when the mantissa is all ones, else a number.
    OneNan,
    /// A number.
    Finite,
}

/// A float of at most 32 bits: sign, exponent, mantissa.
struct Small {
    exponent_bits: u32,
    mantissa_bits: u32,
    top: Top,
}

impl Small {
    const FLOAT32: Small = Small { exponent_bits: 8, mantissa_bits: 23, top: Top::Ieee };
    const FLOAT16: Small = Small { exponent_bits: 5, mantissa_bits: 10, top: Top::Ieee };
    const BFLOAT16: Small = Small { exponent_bits: 8, mantissa_bits: 7, top: Top::Ieee };
    const E4M3FN: Small = Small { exponent_bits: 4, mantissa_bits: 3, top: Top::OneNan };
    const E5M2: Small = Small { exponent_bits: 5, mantissa_bits: 2, top: Top::Ieee };
    const E2M1: Small = Small { exponent_bits: 2, mantissa_bits: 1, top: Top::Finite };

    fn decode(&self, bits: u64) -> f64 {
        let mantissa_top = (1u64 << self.mantissa_bits) - 1;
        let exponent_top = (1u64 << self.exponent_bits) - 1;
        let mantissa = bits & mantissa_top;
        let exponent = bits >> self.mantissa_bits & exponent_top;
        let negative = bits >> (self.mantissa_bits + self.exponent_bits) & 1 == 1;
        let magnitude = match self.top {
            Top::Ieee if exponent == exponent_top && mantissa == 0 => f64::INFINITY,
            Top::Ieee if exponent == exponent_top => f64::NAN,
            Top::OneNan if exponent == exponent_top && mantissa == mantissa_top => f64::NAN,
            _ => self.finite(exponent, mantissa),
        };
        if negative { -magnitude } else { magnitude }
    }

    /// The pattern whose value is nearest. Positive patterns up to the greatest number, or infinity, are in the order of
    /// their values, so it is searched for.
    fn encode(&self, value: f64) -> u64 {
        let sign = u64::from(value.is_sign_negative()) << (self.mantissa_bits + self.exponent_bits);
        let patterns = 1u64 << (self.mantissa_bits + self.exponent_bits);
        // Of all patterns those that are no NaN come first.
        let numbers = match self.top {
            Top::Ieee => patterns - (1 << self.mantissa_bits) + 1,
            Top::OneNan => patterns - 1,
            Top::Finite => patterns,
        };
        if value.is_nan() {
            return sign | (patterns - 1);
        }
        let magnitude = value.abs();
        let (mut low, mut high) = (0, numbers - 1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.decode(middle) <= magnitude { low = middle } else { high = middle - 1 }
        }
        let above = (low + 1).min(numbers - 1);
        let nearer_above = self.decode(above) - magnitude < magnitude - self.decode(low);
        sign | if nearer_above { above } else { low }
    }

    /// A mantissa of at most 24 bits times a power of two: exact.
    fn finite(&self, exponent: u64, mantissa: u64) -> f64 {
        let small = |value: u64| i32::try_from(value).expect("fields have at most 24 bits");
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let significand = if exponent == 0 { mantissa } else { mantissa | 1 << self.mantissa_bits };
        let power = small(exponent.max(1)) - bias - small(u64::from(self.mantissa_bits));
        f64::from(small(significand)) * 2f64.powi(power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(dtype: DType, bits: u64) -> f64 {
        match ScalarValue::decode(dtype, bits) {
            ScalarValue::Float(value) => value,
            other => panic!("{dtype} decodes to {other:?}"),
        }
    }

    #[test]
    fn every_float32_pattern_class_means_what_the_processor_says() {
        for bits in
            (0..=u32::MAX).step_by(65_521).chain([1, 0x007f_ffff, 0x0080_0000, 0x7f7f_ffff, 0xff80_0000])
        {
            let (ours, theirs) = (float(DType::Float32, bits.into()), f64::from(f32::from_bits(bits)));
            assert!(
                ours == theirs && ours.is_sign_negative() == theirs.is_sign_negative()
                    || ours.is_nan() && theirs.is_nan(),
                "{bits:#x}: {ours} {theirs}"
            );
        }
    }

    #[test]
    fn every_small_float_is_found_again_from_its_value() {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_float() && dtype.bits() <= 16) {
            for bits in 0..1u64 << dtype.bits() {
                let value = float(dtype, bits);
                let again = ScalarValue::float_bits(dtype, value);
                let same = if value.is_nan() { float(dtype, again).is_nan() } else { again == bits };
                assert!(same, "{dtype} {bits:#x} is {value}, encoded {again:#x}");
            }
        }
        assert_eq!(ScalarValue::float_bits(DType::BFloat16, 1.003), 0x3f80, "the nearest one");
        assert_eq!(ScalarValue::float_bits(DType::BFloat16, 1.005), 0x3f81, "the nearest one");
        assert_eq!(ScalarValue::float_bits(DType::Float8E4M3FN, 1e9), 0x7e, "the greatest one");
    }

    #[test]
    fn small_floats_have_their_published_values() {
        let cases = [
            (DType::Float16, 0x3c00, 1.0),
            (DType::Float16, 0x7bff, 65504.0),
            (DType::Float16, 0x0001, 2f64.powi(-24)),
            (DType::Float16, 0xfc00, f64::NEG_INFINITY),
            (DType::BFloat16, 0xc049, -3.140625),
            (DType::Float8E4M3FN, 0x7e, 448.0),
            (DType::Float8E4M3FN, 0x01, 2f64.powi(-9)),
            (DType::Float8E5M2, 0x7b, 57344.0),
            (DType::Float8E5M2, 0x7c, f64::INFINITY),
            (DType::Float8E5M2, 0x01, 2f64.powi(-16)),
        ];
        for (dtype, bits, value) in cases {
            assert_eq!(float(dtype, bits), value, "{dtype} {bits:#x}");
        }
        assert!(float(DType::Float8E4M3FN, 0xff).is_nan());
        assert!(float(DType::Float8E5M2, 0x7d).is_nan());
        let fp4: Vec<f64> = (0..16).map(|bits| float(DType::Float4E2M1, bits)).collect();
        assert_eq!(
            fp4,
            [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
        );
    }

    #[test]
    fn bits_above_the_width_do_not_count_and_signs_extend() {
        assert_eq!(ScalarValue::decode(DType::Int8, 0xffff_ff80), ScalarValue::Int(-128));
        assert_eq!(ScalarValue::decode(DType::Int4, 0x28), ScalarValue::Int(-8));
        assert_eq!(ScalarValue::decode(DType::UInt16, 0xdead_beef), ScalarValue::UInt(0xbeef));
        assert_eq!(ScalarValue::decode(DType::Bool, 0x100), ScalarValue::Bool(false));
        assert_eq!(ScalarValue::decode(DType::Int64, u64::MAX), ScalarValue::Int64(-1));
    }

    #[test]
    fn json_keeps_what_a_number_would_lose() {
        let json = |dtype, bits| serde_json::to_string(&ScalarValue::decode(dtype, bits)).unwrap();
        assert_eq!(json(DType::UInt64, u64::MAX), "\"18446744073709551615\"");
        assert_eq!(json(DType::Int64, 1 << 63), "\"-9223372036854775808\"");
        assert_eq!(json(DType::Float32, 0x7fc0_0000), "\"NaN\"");
        assert_eq!(json(DType::Float16, 0xfc00), "\"-Infinity\"");
        assert_eq!(json(DType::Float64, f64::INFINITY.to_bits()), "\"Infinity\"");
        assert_eq!(json(DType::Float32, 0x3f80_0000), "1.0");
        assert_eq!(json(DType::Int32, 0xffff_fffe), "-2");
        assert_eq!(json(DType::Bool, 1), "true");
    }
}
