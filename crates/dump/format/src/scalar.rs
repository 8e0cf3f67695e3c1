//! The meaning of a scalar's raw bits.

use serde::{Serialize, Serializer};
use tensortap_abi::DType;
use tensortap_values::{Element, Value};

use crate::json::{Decimal, Float};

/// The value of a scalar. In JSON, 64-bit integers are decimal strings, and non-finite floats are `"NaN"`,
/// `"Infinity"` and `"-Infinity"`. A complex number is a string such as `"1+2j"`.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_format::ScalarValue;
/// assert_eq!(ScalarValue::decode(DType::Float32, 0x3f80_0000), ScalarValue::Float(1.0));
/// assert_eq!(ScalarValue::decode(DType::Int4, 0xf), ScalarValue::Int(-1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// A float of any width. All of them are exact in 64 bits.
    Float(f64),
    /// A signed integer of up to 32 bits.
    Int(i64),
    /// An unsigned integer of up to 32 bits.
    UInt(u64),
    /// A signed integer of 64 bits.
    Int64(i64),
    /// An unsigned integer of 64 bits.
    UInt64(u64),
    /// A boolean; any set bit means true.
    Bool(bool),
    /// A complex number of any width.
    Complex(Element),
}

impl ScalarValue {
    /// The value in the low bits. Bits above the dtype's width are ignored.
    #[must_use]
    pub fn decode(dtype: DType, bits: u64) -> ScalarValue {
        ScalarValue::of(Element { dtype, bits: bits.into() })
    }

    /// The value of an element of any dtype.
    #[must_use]
    pub fn of(element: Element) -> ScalarValue {
        let Element { dtype, bits } = element;
        match (Value::decode(dtype, bits), dtype.bits()) {
            (Value::Float(value), _) => ScalarValue::Float(value),
            (Value::Int(value), 64) => ScalarValue::Int64(value),
            (Value::Int(value), _) => ScalarValue::Int(value),
            (Value::UInt(value), 64) => ScalarValue::UInt64(value),
            (Value::UInt(value), _) => ScalarValue::UInt(value),
            (Value::Bool(value), _) => ScalarValue::Bool(value),
            (Value::Complex(..), _) => ScalarValue::Complex(element),
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
            ScalarValue::Complex(element) => serializer.collect_str(&element),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_above_the_width_are_ignored_and_signs_extend() {
        assert_eq!(ScalarValue::decode(DType::Int8, 0xffff_ff80), ScalarValue::Int(-128));
        assert_eq!(ScalarValue::decode(DType::Int4, 0x28), ScalarValue::Int(-8));
        assert_eq!(ScalarValue::decode(DType::UInt16, 0xdead_beef), ScalarValue::UInt(0xbeef));
        assert_eq!(ScalarValue::decode(DType::Bool, 0x100), ScalarValue::Bool(false));
        assert_eq!(ScalarValue::decode(DType::Int64, u64::MAX), ScalarValue::Int64(-1));
    }

    #[test]
    fn json_keeps_values_that_a_number_would_lose() {
        let json = |dtype, bits| serde_json::to_string(&ScalarValue::decode(dtype, bits)).unwrap();
        assert_eq!(json(DType::UInt64, u64::MAX), "\"18446744073709551615\"");
        assert_eq!(json(DType::Int64, 1 << 63), "\"-9223372036854775808\"");
        assert_eq!(json(DType::Float32, 0x7fc0_0000), "\"NaN\"");
        assert_eq!(json(DType::Float16, 0xfc00), "\"-Infinity\"");
        assert_eq!(json(DType::Float64, f64::INFINITY.to_bits()), "\"Infinity\"");
        assert_eq!(json(DType::Float32, 0x3f80_0000), "1.0");
        assert_eq!(json(DType::Int32, 0xffff_fffe), "-2");
        assert_eq!(json(DType::Bool, 1), "true");
        assert_eq!(json(DType::Complex64, 0xc000_0000_3fc0_0000), "\"1.5-2j\"");
        assert_eq!(json(DType::Float8E4M3FNUZ, 0x80), "\"NaN\"");
    }
}
