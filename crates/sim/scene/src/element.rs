use half::{bf16, f16};
use tensortap_abi::DType;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A Rust type that represents one dtype in kernels and scalar arguments.
pub trait Element:
    Copy + Default + PartialEq + FromBytes + FromZeros + IntoBytes + Immutable + KnownLayout + 'static
{
    /// The dtype.
    const DTYPE: DType;
    /// The bits of a scalar argument, zero-extended to 64.
    fn to_bits(self) -> u64;
    /// The value with these low bits.
    fn from_bits(bits: u64) -> Self;
    /// The nearest f64. Exact except for 64-bit integers beyond 2^53.
    fn to_f64(self) -> f64;
    /// The nearest value. Integers are truncated toward zero and saturate.
    fn from_f64(value: f64) -> Self;
}

macro_rules! float_element {
    ($ty:ty, $bits:ty, $dtype:expr, $to:expr, $from:expr) => {
        impl Element for $ty {
            const DTYPE: DType = $dtype;
            fn to_bits(self) -> u64 {
                <$ty>::to_bits(self).into()
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::allow_attributes,
                reason = "only the low bits are the value"
            )]
            #[allow(clippy::unnecessary_cast, reason = "no cast for f64")]
            fn from_bits(bits: u64) -> Self {
                <$ty>::from_bits(bits as $bits)
            }
            fn to_f64(self) -> f64 {
                $to(self)
            }
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
        }
    };
}

macro_rules! int_element {
    ($($ty:ty, $unsigned:ty, $dtype:expr;)+) => {$(
        impl Element for $ty {
            const DTYPE: DType = $dtype;
            #[allow(clippy::cast_sign_loss, clippy::cast_lossless, reason = "the bits are converted, not the value")]
            fn to_bits(self) -> u64 {
                (self as $unsigned) as u64
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "only the low bits are the value")]
            fn from_bits(bits: u64) -> Self {
                bits as $ty
            }
            #[allow(clippy::cast_precision_loss, reason = "documented: exact up to 2^53")]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "documented: truncates and saturates")]
            fn from_f64(value: f64) -> Self {
                value as $ty
            }
        }
    )+};
}

impl Element for f64 {
    const DTYPE: DType = DType::Float64;
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn from_f64(value: f64) -> Self {
        value
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the conversion rounds to the nearest f32")]
fn round_to_f32(value: f64) -> f32 {
    value as f32
}

float_element!(f32, u32, DType::Float32, f64::from, round_to_f32);
float_element!(f16, u16, DType::Float16, f16::to_f64, f16::from_f64);
float_element!(bf16, u16, DType::BFloat16, bf16::to_f64, bf16::from_f64);
int_element! {
    i64, u64, DType::Int64;
    i32, u32, DType::Int32;
    i16, u16, DType::Int16;
    i8, u8, DType::Int8;
    u64, u64, DType::UInt64;
    u32, u32, DType::UInt32;
    u16, u16, DType::UInt16;
    u8, u8, DType::UInt8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_bits_round_trip_at_the_extremes() {
        assert_eq!(i64::from_bits(Element::to_bits(-2_i64)), -2);
        assert_eq!(Element::to_bits(-1_i8), 0xff);
        assert_eq!(u64::from_bits(Element::to_bits(u64::MAX)), u64::MAX);
        assert_eq!(Element::to_bits(1.0_f32), 0x3f80_0000);
        assert_eq!(<f64 as Element>::from_bits(Element::to_bits(-0.0_f64)).to_bits(), (-0.0_f64).to_bits());
    }
}
