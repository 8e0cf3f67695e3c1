//! Elements as `f64`, vectorised for the dtypes that tensors mostly have.

use std::marker::PhantomData;

use tensortap_abi::DType;
use tensortap_values::decode_block;

use tensortap_values::vector::{Level, Work};

/// A float that the loops decode themselves, without a branch.
pub(super) trait Hot {
    /// The bytes of an element.
    type Raw: Copy + PartialEq;
    /// Whole elements of a slice of bytes.
    fn split(bytes: &[u8]) -> &[Self::Raw];
    /// The number.
    fn value(raw: Self::Raw) -> f64;
    /// Place among the representable values, both zeros at 0.
    fn ordinal(raw: Self::Raw) -> i32;
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct Bf16;

impl Hot for F32 {
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

impl Hot for Bf16 {
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

impl Hot for F16 {
    type Raw = [u8; 2];

    #[inline(always)]
    fn split(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn value(raw: [u8; 2]) -> f64 {
        /// 2^112: the difference of the two exponent biases. The product is exact, and makes subnormals normal.
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

/// Decodes as many elements as `values` has room for; the bytes must hold them.
pub(super) fn decode(level: Level, dtype: DType, bytes: &[u8], values: &mut [f64]) {
    match dtype {
        DType::Float32 => level.run(Decode::<F32> { bytes, values, dtype: PhantomData }),
        DType::Float16 => level.run(Decode::<F16> { bytes, values, dtype: PhantomData }),
        DType::BFloat16 => level.run(Decode::<Bf16> { bytes, values, dtype: PhantomData }),
        _ => {
            let decoded = decode_block(dtype, bytes, values);
            debug_assert_eq!(decoded, values.len(), "the bytes hold the elements");
        }
    }
}

struct Decode<'a, H> {
    bytes: &'a [u8],
    values: &'a mut [f64],
    dtype: PhantomData<H>,
}

impl<H: Hot> Work for Decode<'_, H> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, raw) in self.values.iter_mut().zip(H::split(self.bytes)) {
            *value = H::value(*raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use tensortap_values::{ordinal, to_f64};

    use super::*;

    #[test]
    fn every_16_bit_float_decodes_as_defined_at_every_level() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (dtype, place) in [
            (DType::Float16, F16::ordinal as fn([u8; 2]) -> i32),
            (DType::BFloat16, Bf16::ordinal as fn([u8; 2]) -> i32),
        ] {
            for level in Level::available() {
                let mut values = vec![0.0; 1 << 16];
                decode(level, dtype, &bytes, &mut values);
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
