use tensortap_abi::{DType, DTypeKind};

use crate::convert::{mask, wide_mask};
use crate::small_float::SmallFloat;

/// The exact value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A float of any width, which `f64` represents exactly.
    Float(f64),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A boolean; any nonzero pattern is true.
    Bool(bool),
    /// A complex number of any width: real and imaginary part.
    Complex(f64, f64),
}

impl Value {
    /// Decodes an element.
    ///
    /// ```
    /// use tensortap_abi::DType;
    /// use tensortap_values::Value;
    /// assert_eq!(Value::decode(DType::Int4, 0xf), Value::Int(-1));
    /// assert_eq!(Value::decode(DType::UInt64, u64::MAX.into()), Value::UInt(u64::MAX));
    /// assert_eq!(Value::decode(DType::Float8E5M2, 0x7b), Value::Float(57_344.0));
    /// assert_eq!(Value::decode(DType::Complex64, 0xc000_0000_3f80_0000), Value::Complex(1.0, -2.0));
    /// ```
    #[must_use]
    pub fn decode(dtype: DType, bits: u128) -> Value {
        if let DTypeKind::Complex(part) = dtype.kind() {
            let [real, imaginary] = parts(dtype, bits).map(|bits| Value::decode(part, bits.into()).to_f64());
            return Value::Complex(real, imaginary);
        }
        #[expect(clippy::cast_possible_truncation, reason = "masked to the width of the dtype")]
        let low = bits as u64 & mask(dtype);
        #[expect(clippy::cast_possible_truncation, reason = "masked to the width of the dtype")]
        let (word, half) = (low as u32, low as u16);
        if let Some(small) = SmallFloat::of(dtype) {
            return Value::Float(small.decode(half).into());
        }
        match dtype {
            DType::Float64 => Value::Float(f64::from_bits(low)),
            DType::Float32 => Value::Float(f32::from_bits(word).into()),
            DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => Value::UInt(low),
            DType::Bool => Value::Bool(low != 0),
            _ => Value::Int(sign_extend(dtype, low)),
        }
    }

    /// The nearest `f64`, which is exact except for 64-bit integers beyond 2^53. A boolean is 0 or 1. A complex
    /// number that is not real has none: NaN.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Value::Float(value) => value,
            #[expect(clippy::cast_precision_loss, reason = "documented")]
            Value::Int(value) => value as f64,
            #[expect(clippy::cast_precision_loss, reason = "documented")]
            Value::UInt(value) => value as f64,
            Value::Bool(value) => u8::from(value).into(),
            Value::Complex(real, 0.0) => real,
            Value::Complex(..) => f64::NAN,
        }
    }
}

/// Bits of the real and the imaginary part of a complex number.
#[expect(clippy::cast_possible_truncation, reason = "the halves have at most 64 bits")]
pub(crate) const fn parts(dtype: DType, bits: u128) -> [u64; 2] {
    let low = bits & wide_mask(dtype);
    let part = dtype.part();
    [low as u64 & mask(part), (low >> part.bits()) as u64 & mask(part)]
}

/// The signed integer in the low bits.
pub(crate) const fn sign_extend(dtype: DType, low: u64) -> i64 {
    let shift = 64 - dtype.bits();
    (low << shift).cast_signed() >> shift
}
