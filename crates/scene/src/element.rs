use half::{bf16, f16};
use tensortap_abi::DType;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A Rust type that stands for one dtype, in kernels and in scalar arguments.
pub trait Element:
    Copy + Default + PartialEq + FromBytes + FromZeros + IntoBytes + Immutable + KnownLayout + 'static
{
    /// The dtype this type stands for.
    const DTYPE: DType;
    /// Raw 64 bits of a scalar argument, zero-extended from the value's own bits.
    fn to_bits(self) -> u64;
    /// The value whose low bits these are.
    fn from_bits(bits: u64) -> Self;
    /// Nearest f64; exact except for 64-bit integers beyond 2^53.
    fn to_f64(self) -> f64;
    /// Nearest value; integers are cut toward zero and saturate.
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
            #[allow(clippy::cast_sign_loss, clippy::cast_lossless, reason = "the bits, not the value, are kept")]
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
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "documented: cut and saturate")]
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

#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest f32 is asked for")]
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

/// Calls `$body` with `$ty` bound to the Rust type of a dtype; `None` for dtypes without one.
macro_rules! with_element {
    ($dtype:expr, $ty:ident => $body:expr) => {{
        use half::{bf16, f16};
        use tensortap_abi::DType;
        macro_rules! bind {
            ($t:ty) => {{
                type $ty = $t;
                Some($body)
            }};
        }
        match $dtype {
            DType::Float64 => bind!(f64),
            DType::Float32 => bind!(f32),
            DType::Float16 => bind!(f16),
            DType::BFloat16 => bind!(bf16),
            DType::Int64 => bind!(i64),
            DType::Int32 => bind!(i32),
            DType::Int16 => bind!(i16),
            DType::Int8 => bind!(i8),
            DType::UInt64 => bind!(u64),
            DType::UInt32 => bind!(u32),
            DType::UInt16 => bind!(u16),
            DType::UInt8 | DType::Bool => bind!(u8),
            DType::Float8E4M3FN | DType::Float8E5M2 | DType::Float4E2M1 | DType::Int4 => None,
        }
    }};
}

fn decode<T: Element>(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(size_of::<T>()).filter_map(|c| T::read_from_bytes(c).ok()).map(T::to_f64).collect()
}

fn encode<T: Element>(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|&v| T::from_f64(v).as_bytes().to_vec()).collect()
}

/// Packed little-endian elements as f64; `None` for dtypes that have no Rust type yet (8- and 4-bit floats, int4).
pub fn decode_f64(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    with_element!(dtype, T => decode::<T>(bytes))
}

/// The nearest elements of a dtype, packed; the inverse of [`decode_f64`].
pub fn encode_f64(dtype: DType, values: &[f64]) -> Option<Vec<u8>> {
    with_element!(dtype, T => encode::<T>(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_bits_survive_at_the_extremes() {
        assert_eq!(i64::from_bits(Element::to_bits(-2_i64)), -2);
        assert_eq!(Element::to_bits(-1_i8), 0xff);
        assert_eq!(u64::from_bits(Element::to_bits(u64::MAX)), u64::MAX);
        assert_eq!(Element::to_bits(1.0_f32), 0x3f80_0000);
        assert_eq!(<f64 as Element>::from_bits(Element::to_bits(-0.0_f64)).to_bits(), (-0.0_f64).to_bits());
    }

    #[test]
    fn decoding_is_little_endian_and_encoding_inverts_it() {
        assert_eq!(decode_f64(DType::Int16, &[0xfe, 0xff, 0x02, 0x00]), Some(vec![-2.0, 2.0]));
        assert_eq!(decode_f64(DType::BFloat16, &[0x80, 0x3f]), Some(vec![1.0]));
        for dtype in DType::ALL {
            if let Some(bytes) = encode_f64(dtype, &[1.0, 0.0, 3.0]) {
                assert_eq!(decode_f64(dtype, &bytes), Some(vec![1.0, 0.0, 3.0]), "{dtype}");
            }
        }
    }
}
