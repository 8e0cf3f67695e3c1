//! Branch-free decoding of the most common float dtypes, for loops that compile to vector code.

/// A float dtype that loops decode without a branch.
pub trait HotFloat {
    /// The bytes of an element.
    type Raw: Copy + PartialEq;
    /// The whole elements of a slice of bytes.
    fn split(bytes: &[u8]) -> &[Self::Raw];
    /// The value of an element.
    fn value(raw: Self::Raw) -> f64;
    /// Position among the representable values; both zeros are at 0.
    fn ordinal(raw: Self::Raw) -> i32;
}

/// `float32`.
pub struct F32;
/// `float16`.
pub struct F16;
/// `bfloat16`.
pub struct Bf16;

impl HotFloat for F32 {
    type Raw = [u8; 4];

    #[inline(always)]
    fn split(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn value(raw: [u8; 4]) -> f64 {
        f32::from_le_bytes(raw).into()
    }

    #[inline(always)]
    fn ordinal(raw: [u8; 4]) -> i32 {
        signed_magnitude(i32::from_le_bytes(raw))
    }
}

impl HotFloat for Bf16 {
    type Raw = [u8; 2];

    #[inline(always)]
    fn split(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn value(raw: [u8; 2]) -> f64 {
        f32::from_bits(u32::from(u16::from_le_bytes(raw)) << 16).into()
    }

    #[inline(always)]
    fn ordinal(raw: [u8; 2]) -> i32 {
        small_ordinal(raw)
    }
}

impl HotFloat for F16 {
    type Raw = [u8; 2];

    #[inline(always)]
    fn split(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn value(raw: [u8; 2]) -> f64 {
        /// 2^112, the difference of the exponent biases. The product is exact and makes subnormals normal.
        const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
        let bits = u32::from(u16::from_le_bytes(raw));
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
        let special = if bits & 0x7c00 == 0x7c00 { 0xff << 23 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16).into()
    }

    #[inline(always)]
    fn ordinal(raw: [u8; 2]) -> i32 {
        small_ordinal(raw)
    }
}

#[inline(always)]
fn signed_magnitude(bits: i32) -> i32 {
    let magnitude = bits & i32::MAX;
    if bits < 0 { -magnitude } else { magnitude }
}

#[inline(always)]
fn small_ordinal(raw: [u8; 2]) -> i32 {
    let bits = i32::from(i16::from_le_bytes(raw));
    let magnitude = bits & 0x7fff;
    if bits < 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use tensortap_abi::DType;

    use super::*;
    use crate::vector::Level;
    use crate::{decode_block_at, ordinal, to_f64};

    #[test]
    fn every_16_bit_float_decodes_as_defined_at_every_level() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (dtype, place) in [
            (DType::Float16, F16::ordinal as fn([u8; 2]) -> i32),
            (DType::BFloat16, Bf16::ordinal as fn([u8; 2]) -> i32),
        ] {
            for level in Level::available() {
                let mut values = vec![0.0; 1 << 16];
                decode_block_at(level, dtype, &bytes, &mut values);
                for bits in 0..=u16::MAX {
                    let (ours, defined) = (values[usize::from(bits)], to_f64(dtype, bits.into()));
                    let same = ours.to_bits() == defined.to_bits() || ours.is_nan() && defined.is_nan();
                    assert!(same, "{dtype} {bits:#x} {}: {ours} {defined}", level.name());
                    let defined = ordinal(dtype, bits.into());
                    assert!(defined.is_none_or(|defined| defined == i64::from(place(bits.to_le_bytes()))));
                }
            }
        }
    }
}
