//! Decodes and encodes blocks of elements. The loops have no branches and no dependence between elements, so
//! that they compile to vector code.

use tensortap_abi::{DType, DTypeKind, FloatFormat, TopExponent};

use crate::convert::from_f64;
use crate::hot::{Bf16, F16, F32, HotFloat};
use crate::small_float::{
    E2M1_VALUES, E4M3FN_VALUES, E4M3FNUZ_VALUES, E5M2_VALUES, E5M2FNUZ_VALUES, E8M0FNU_VALUES,
};
use crate::vector::{Level, Work};

/// Number of whole elements in this many bytes; a byte has two 4-bit elements.
#[must_use]
pub const fn elements_in(dtype: DType, bytes: usize) -> usize {
    match dtype.bits() {
        4 => bytes * 2,
        bits => bytes / (bits as usize / 8),
    }
}

/// Decodes elements as `f64`, as many as fit in both slices, and returns their number. 64-bit integers are
/// rounded. A complex number becomes two numbers, its real and its imaginary part.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::decode_block;
/// let mut values = [0.0; 8];
/// assert_eq!(decode_block(DType::BFloat16, &[0x80, 0x3f, 0x00, 0xc0], &mut values), 2);
/// assert_eq!(values[..2], [1.0, -2.0]);
/// ```
pub fn decode_block(dtype: DType, bytes: &[u8], values: &mut [f64]) -> usize {
    each_decoded(dtype, bytes, Store { values })
}

/// The same with the vector instructions of a level. Values do not depend on the level.
pub fn decode_block_at(level: Level, dtype: DType, bytes: &[u8], values: &mut [f64]) -> usize {
    level.run(DecodeBlock { dtype, bytes, values })
}

struct DecodeBlock<'a> {
    dtype: DType,
    bytes: &'a [u8],
    values: &'a mut [f64],
}

impl Work for DecodeBlock<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        each_decoded(self.dtype, self.bytes, Store { values: self.values })
    }
}

/// Encodes numbers as packed elements, each the [nearest](from_f64), as many as fit in both slices, and
/// returns their number. A complex number is encoded from two numbers, its real and its imaginary part. After an odd number of 4-bit elements, the upper half of the last byte is zero.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::encode_block;
/// let mut bytes = [0xff; 2];
/// assert_eq!(encode_block(DType::Int4, &[1.0, -1.0, 7.4], &mut bytes), 3);
/// assert_eq!(bytes, [0xf1, 0x07]);
/// ```
pub fn encode_block(dtype: DType, values: &[f64], bytes: &mut [u8]) -> usize {
    let dtype = dtype.part();
    let count = values.len().min(elements_in(dtype, bytes.len()));
    if dtype.bits() == 4 {
        let nibble = |value: f64| from_f64(dtype, value).to_le_bytes()[0] & 0xf;
        for (byte, pair) in bytes.iter_mut().zip(values[..count].chunks(2)) {
            *byte = nibble(pair[0]) | pair.get(1).map_or(0, |&value| nibble(value) << 4);
        }
    } else {
        let width = dtype.bits() as usize / 8;
        for (element, &value) in bytes.chunks_exact_mut(width).zip(values) {
            element.copy_from_slice(&from_f64(dtype, value).to_le_bytes()[..width]);
        }
    }
    count
}

/// Work on elements that does not depend on how they are decoded.
pub(crate) trait ElementPass {
    type Output;

    fn over<const N: usize>(self, elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64) -> Self::Output;

    fn over_nibbles(self, bytes: &[u8], value: impl Fn(u8) -> f64) -> Self::Output;
}

/// Runs a pass over the elements of a dtype, or over their parts. The only place that knows how each dtype is
/// decoded.
#[inline(always)]
pub(crate) fn each_decoded<P: ElementPass>(dtype: DType, bytes: &[u8], pass: P) -> P::Output {
    #[inline(always)]
    fn of<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
        bytes.as_chunks().0
    }
    match dtype {
        DType::Float64 | DType::Complex128 => pass.over(of(bytes), f64::from_le_bytes),
        DType::Float32 | DType::Complex64 => pass.over(of(bytes), F32::value),
        DType::Float16 => pass.over(of(bytes), F16::value),
        DType::BFloat16 => pass.over(of(bytes), Bf16::value),
        DType::Float8E4M3FN => pass.over(of(bytes), |[b]| E4M3FN_VALUES[usize::from(b)].into()),
        DType::Float8E5M2 => pass.over(of(bytes), |[b]| E5M2_VALUES[usize::from(b)].into()),
        DType::Float8E4M3FNUZ => pass.over(of(bytes), |[b]| E4M3FNUZ_VALUES[usize::from(b)].into()),
        DType::Float8E5M2FNUZ => pass.over(of(bytes), |[b]| E5M2FNUZ_VALUES[usize::from(b)].into()),
        DType::Float8E8M0FNU => pass.over(of(bytes), |[b]| E8M0FNU_VALUES[usize::from(b)].into()),
        DType::Float4E2M1 => pass.over_nibbles(bytes, |n| E2M1_VALUES[usize::from(n)].into()),
        #[expect(clippy::cast_precision_loss, reason = "documented")]
        DType::Int64 => pass.over(of(bytes), |b| i64::from_le_bytes(b) as f64),
        DType::Int32 => pass.over(of(bytes), |b| i32::from_le_bytes(b).into()),
        DType::Int16 => pass.over(of(bytes), |b| i16::from_le_bytes(b).into()),
        DType::Int8 => pass.over(of(bytes), |b| i8::from_le_bytes(b).into()),
        DType::Int4 => pass.over_nibbles(bytes, |n| signed_nibble(n).into()),
        #[expect(clippy::cast_precision_loss, reason = "documented")]
        DType::UInt64 => pass.over(of(bytes), |b| u64::from_le_bytes(b) as f64),
        DType::UInt32 => pass.over(of(bytes), |b| u32::from_le_bytes(b).into()),
        DType::UInt16 => pass.over(of(bytes), |b| u16::from_le_bytes(b).into()),
        DType::UInt8 => pass.over(of(bytes), |[b]| b.into()),
        DType::Bool => pass.over(of(bytes), |[b]| u8::from(b != 0).into()),
    }
}

/// Stores the decoded values and returns their number.
struct Store<'a> {
    values: &'a mut [f64],
}

impl ElementPass for Store<'_> {
    type Output = usize;

    #[inline(always)]
    fn over<const N: usize>(self, elements: &[[u8; N]], value: impl Fn([u8; N]) -> f64) -> usize {
        for (slot, element) in self.values.iter_mut().zip(elements) {
            *slot = value(*element);
        }
        elements.len().min(self.values.len())
    }

    #[inline(always)]
    fn over_nibbles(self, bytes: &[u8], value: impl Fn(u8) -> f64) -> usize {
        nibbles(bytes, self.values, value)
    }
}

/// Bit patterns of elements, or of the parts of complex numbers, as many as fit in both slices; returns their
/// number.
pub fn decode_bits(dtype: DType, bytes: &[u8], patterns: &mut [u64]) -> usize {
    match dtype.part().bits() {
        64 => each(bytes, patterns, u64::from_le_bytes),
        32 => each(bytes, patterns, |b| u32::from_le_bytes(b).into()),
        16 => each(bytes, patterns, |b| u16::from_le_bytes(b).into()),
        8 => each(bytes, patterns, |[b]| b.into()),
        _ => nibbles(bytes, patterns, u64::from),
    }
}

/// Exact values of signed integers; returns their number, or `None` for another dtype.
pub fn decode_signed(dtype: DType, bytes: &[u8], values: &mut [i64]) -> Option<usize> {
    match dtype {
        DType::Int64 => Some(each(bytes, values, i64::from_le_bytes)),
        DType::Int32 => Some(each(bytes, values, |b| i32::from_le_bytes(b).into())),
        DType::Int16 => Some(each(bytes, values, |b| i16::from_le_bytes(b).into())),
        DType::Int8 => Some(each(bytes, values, |b| i8::from_le_bytes(b).into())),
        DType::Int4 => Some(nibbles(bytes, values, |n| signed_nibble(n).into())),
        _ => None,
    }
}

/// Exact values of unsigned integers and of `bool` (0 or 1); returns their number, or `None` for another
/// dtype.
pub fn decode_unsigned(dtype: DType, bytes: &[u8], values: &mut [u64]) -> Option<usize> {
    match dtype {
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => {
            Some(decode_bits(dtype, bytes, values))
        }
        DType::Bool => Some(each(bytes, values, |[b]| u64::from(b != 0))),
        _ => None,
    }
}

/// Bits of the element at a position; `None` past the end.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::element_bits;
/// assert_eq!(element_bits(DType::Int4, &[0x21, 0x43], 2), Some(3));
/// assert_eq!(element_bits(DType::UInt16, &[0x21, 0x43], 1), None);
/// ```
#[must_use]
pub fn element_bits(dtype: DType, bytes: &[u8], position: usize) -> Option<u128> {
    if dtype.bits() == 4 {
        let byte = bytes.get(position / 2)?;
        return Some(u128::from(byte >> (4 * (position % 2)) & 0xf));
    }
    let width = dtype.bits() as usize / 8;
    let element = bytes.get(position.checked_mul(width)?..)?.get(..width)?;
    let mut word = [0; 16];
    word[..width].copy_from_slice(element);
    Some(u128::from_le_bytes(word))
}

/// Replaces the element at a position; returns whether there is one.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::put_element_bits;
/// let mut bytes = [0x21, 0x43];
/// assert!(put_element_bits(DType::Int4, &mut bytes, 3, 0xf) && !put_element_bits(DType::Int4, &mut bytes, 4, 0));
/// assert_eq!(bytes, [0x21, 0xf3]);
/// ```
pub fn put_element_bits(dtype: DType, bytes: &mut [u8], position: usize, bits: u128) -> bool {
    let word = bits.to_le_bytes();
    if dtype.bits() == 4 {
        let Some(byte) = bytes.get_mut(position / 2) else { return false };
        let shift = 4 * (position % 2);
        *byte = *byte & !(0xf << shift) | (word[0] & 0xf) << shift;
        return true;
    }
    let width = dtype.bits() as usize / 8;
    let element = position.checked_mul(width).and_then(|at| bytes.get_mut(at..)?.get_mut(..width));
    element.map(|element| element.copy_from_slice(&word[..width])).is_some()
}

/// Whether any element is NaN.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_values::any_nan;
/// assert!(any_nan(DType::Float8E4M3FN, &[0x00, 0xff]) && !any_nan(DType::UInt8, &[0x00, 0xff]));
/// ```
#[must_use]
pub fn any_nan(dtype: DType, bytes: &[u8]) -> bool {
    /// Block by block without an early exit, so that the loops compile to vector code.
    fn any<const N: usize>(bytes: &[u8], is_nan: impl Fn([u8; N]) -> bool) -> bool {
        bytes.chunks(4096).any(|block| {
            let (elements, _) = block.as_chunks::<N>();
            elements.iter().fold(false, |found, &element| found | is_nan(element))
        })
    }
    let dtype = dtype.part();
    let DTypeKind::Float(FloatFormat { mantissa_bits, exponent_bits, top }) = dtype.kind() else {
        return false;
    };
    // Without its sign, the pattern of a NaN is greater than that of infinity, or of the greatest number.
    let mantissa_max = match top {
        TopExponent::Ieee => 0,
        TopExponent::OneNan => (1_u64 << mantissa_bits) - 2,
        TopExponent::NegativeZeroNan => return any(bytes, |[b]| b == 0x80),
        TopExponent::PowerOfTwo => return any(bytes, |[b]| b == 0xff),
        TopExponent::Finite => return false,
    };
    let greatest = ((1_u64 << exponent_bits) - 1) << mantissa_bits | mantissa_max;
    #[expect(clippy::cast_possible_truncation, reason = "of the width of the dtype")]
    match dtype.bits() {
        64 => any(bytes, |b| u64::from_le_bytes(b) << 1 > greatest << 1),
        32 => any(bytes, |b| u32::from_le_bytes(b) << 1 > (greatest as u32) << 1),
        16 => any(bytes, |b| u16::from_le_bytes(b) << 1 > (greatest as u16) << 1),
        _ => any(bytes, |[b]| b << 1 > (greatest as u8) << 1),
    }
}

fn signed_nibble(nibble: u8) -> i8 {
    (nibble << 4).cast_signed() >> 4
}

fn each<const N: usize, T>(bytes: &[u8], values: &mut [T], value: impl Fn([u8; N]) -> T) -> usize {
    let (elements, _) = bytes.as_chunks::<N>();
    for (slot, element) in values.iter_mut().zip(elements) {
        *slot = value(*element);
    }
    elements.len().min(values.len())
}

#[inline(always)]
fn nibbles<T>(bytes: &[u8], values: &mut [T], value: impl Fn(u8) -> T) -> usize {
    let count = bytes.len().saturating_mul(2).min(values.len());
    let (pairs, last) = values[..count].as_chunks_mut::<2>();
    for ([low, high], byte) in pairs.iter_mut().zip(bytes) {
        *low = value(byte & 0xf);
        *high = value(byte >> 4);
    }
    if let ([slot], Some(byte)) = (last, bytes.get(count / 2)) {
        *slot = value(byte & 0xf);
    }
    count
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::convert::{mask, wide_mask};
    use crate::{Value, to_f64};

    #[test]
    fn every_pattern_of_16_bits_is_decoded_like_a_single_element() {
        let every: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.bits() == 16) {
            let mut values = vec![0.0; 1 << 16];
            assert_eq!(decode_block(dtype, &every, &mut values), 1 << 16);
            for (bits, value) in (0..).zip(values) {
                let expected = to_f64(dtype, bits);
                let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
                assert!(same, "{dtype} {bits:#x}: {value} instead of {expected}");
            }
        }
    }

    #[test]
    fn a_nan_is_found_at_any_position_with_any_sign() {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.bits() >= 8 && !dtype.is_complex()) {
            let width = dtype.bits() as usize / 8;
            // Every pattern of the two highest bytes, with all other bits zero and with the lowest bit set.
            for high in 0..=u16::MAX {
                for low in [0, 1] {
                    let mut element = vec![0; width];
                    element[0] = low;
                    let (top, shared) = (high.to_le_bytes(), width.min(2));
                    element[width - shared..].copy_from_slice(&top[2 - shared..]);
                    let bits = element_bits(dtype, &element, 0).unwrap();
                    let expected =
                        matches!(Value::decode(dtype, bits), Value::Float(value) if value.is_nan());
                    assert_eq!(any_nan(dtype, &element), expected, "{dtype} {element:02x?}");
                }
            }
            let mut many = vec![0_u8; 5000 * width];
            assert!(!any_nan(dtype, &many));
            let is_negative_zero = matches!(dtype.kind(), DTypeKind::Float(format) if format.top == TopExponent::NegativeZeroNan);
            many[4999 * width..].fill(if is_negative_zero { 0x80 } else { 0xff });
            assert_eq!(any_nan(dtype, &many), dtype.has_nan(), "{dtype}");
        }
        assert!(!any_nan(DType::Float4E2M1, &[0xff; 16]) && !any_nan(DType::Int4, &[0xff; 16]));
    }

    #[test]
    fn complex_numbers_are_two_floats_each() {
        let bytes: Vec<u8> = [1.0_f32, -2.0, f32::NAN, 0.5].map(f32::to_le_bytes).concat();
        let mut values = [9.0; 5];
        assert_eq!(decode_block(DType::Complex64, &bytes, &mut values), 4);
        assert!(values[..2] == [1.0, -2.0] && values[2].is_nan() && values[3..] == [0.5, 9.0]);
        assert_eq!(elements_in(DType::Complex64, 17), 2);
        assert_eq!(element_bits(DType::Complex64, &bytes, 0), Some(0xc000_0000_3f80_0000));
        assert_eq!(element_bits(DType::Complex64, &bytes, 2), None);
        assert!(any_nan(DType::Complex64, &bytes) && !any_nan(DType::Complex64, &bytes[..8]));
        let mut wide = [0; 32];
        assert_eq!(encode_block(DType::Complex128, &[1.5, -0.25, 3.0], &mut wide), 3);
        let expected = u128::from(1.5_f64.to_bits()) | u128::from((-0.25_f64).to_bits()) << 64;
        assert_eq!(element_bits(DType::Complex128, &wide, 0), Some(expected));
        assert_eq!(Value::decode(DType::Complex128, expected), Value::Complex(1.5, -0.25));
        assert!(Value::Complex(1.5, -0.25).to_f64().is_nan());
        let mut values = [0.0; 4];
        assert_eq!(decode_block(DType::Complex128, &wide, &mut values), 4);
        assert_eq!(values, [1.5, -0.25, 3.0, 0.0]);
    }

    proptest! {
        #[test]
        fn a_block_decodes_like_its_single_elements(
            dtype in prop::sample::select(&DType::ALL[..]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            room in 0..400usize,
        ) {
            // A complex number is decoded as two numbers.
            let part = dtype.part();
            let count = room.min(elements_in(part, bytes.len()));
            let pattern = |at| u64::try_from(element_bits(part, &bytes, at).unwrap()).unwrap();
            let patterns: Vec<u64> = (0..count).map(pattern).collect();
            let mut values = vec![0.0; room];
            prop_assert_eq!(decode_block(dtype, &bytes, &mut values), count);
            let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let all = values.iter().zip(&patterns).all(|(value, bits)| same(*value, to_f64(part, *bits)));
            prop_assert!(all, "{}: {:?}", dtype, values);
            let mut raw = vec![0; room];
            prop_assert_eq!(decode_bits(dtype, &bytes, &mut raw), count);
            prop_assert_eq!(&raw[..count], &patterns[..]);
            for (at, bits) in patterns.iter().enumerate() {
                let (mut signed, mut unsigned) = (vec![0; room], vec![0; room]);
                match Value::decode(part, u128::from(*bits)) {
                    Value::Int(value) => {
                        prop_assert_eq!(decode_signed(dtype, &bytes, &mut signed), Some(count));
                        prop_assert_eq!(signed[at], value);
                    }
                    Value::UInt(value) => {
                        prop_assert_eq!(decode_unsigned(dtype, &bytes, &mut unsigned), Some(count));
                        prop_assert_eq!(unsigned[at], value);
                    }
                    Value::Bool(value) => {
                        prop_assert_eq!(decode_unsigned(dtype, &bytes, &mut unsigned), Some(count));
                        prop_assert_eq!(unsigned[at], u64::from(value));
                    }
                    Value::Complex(..) => prop_assert!(false, "a part is not complex"),
                    Value::Float(_) => {
                        prop_assert_eq!(decode_signed(dtype, &bytes, &mut signed), None);
                        prop_assert_eq!(decode_unsigned(dtype, &bytes, &mut unsigned), None);
                    }
                }
            }
            prop_assert_eq!(element_bits(dtype, &bytes, elements_in(dtype, bytes.len())), None);
        }

        #[test]
        fn encoded_elements_decode_to_the_same_elements(
            dtype in prop::sample::select(&DType::ALL[..]),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            odd in any::<bool>(),
        ) {
            let part = dtype.part();
            let numel = elements_in(part, bytes.len()).saturating_sub(usize::from(odd));
            let mut values = vec![0.0; numel];
            decode_block(dtype, &bytes, &mut values);
            let mut again = vec![0xa5; (numel * part.bits() as usize).div_ceil(8)];
            prop_assert_eq!(encode_block(dtype, &values, &mut again), numel);
            for (position, value) in values.iter().enumerate() {
                let bits = element_bits(part, &again, position).unwrap();
                prop_assert_eq!(bits, u128::from(from_f64(part, *value) & mask(part)), "{} {}", dtype, position);
            }
            for position in 0..elements_in(dtype, again.len()).min(numel) {
                let bits = element_bits(dtype, &again, position).unwrap();
                let mut put = again.clone();
                prop_assert!(put_element_bits(dtype, &mut put, position, !bits));
                prop_assert_eq!(element_bits(dtype, &put, position), Some(!bits & wide_mask(dtype)));
                prop_assert!(put_element_bits(dtype, &mut put, position, bits));
                prop_assert_eq!(&put, &again, "the other elements are unchanged");
            }
            if dtype.bits() == 4 && numel % 2 == 1 {
                prop_assert_eq!(again[numel / 2] >> 4, 0, "a last odd nibble is zero");
            }
        }
    }
}
