//! Elements of every dtype as `f64`.

use tensortap_abi::DType;

/// Elements decoded at a time: 4 KiB of `f64`.
pub(super) const BLOCK: usize = 512;

/// Bytes that [`decode`] takes at a time.
pub(super) fn bytes_per_block(dtype: DType) -> usize {
    BLOCK * dtype.bits() as usize / 8
}

/// Decodes whole elements, at most [`BLOCK`]; how many.
pub(super) fn decode(dtype: DType, bytes: &[u8], values: &mut [f64; BLOCK]) -> usize {
    match dtype {
        DType::Float64 => each(bytes, values, f64::from_le_bytes),
        DType::Float32 => each(bytes, values, |b| f32::from_le_bytes(b).into()),
        DType::Float16 => each(bytes, values, |b| F16.value(u16::from_le_bytes(b))),
        DType::BFloat16 => each(bytes, values, |b| bfloat16(u16::from_le_bytes(b))),
        DType::Float8E4M3FN => each(bytes, values, |[b]| E4M3FN[usize::from(b)].into()),
        DType::Float8E5M2 => each(bytes, values, |[b]| E5M2[usize::from(b)].into()),
        DType::Float4E2M1 => nibbles(bytes, values, |n| E2M1[usize::from(n)].into()),
        #[expect(clippy::cast_precision_loss, reason = "statistics are in f64")]
        DType::Int64 => each(bytes, values, |b| i64::from_le_bytes(b) as f64),
        DType::Int32 => each(bytes, values, |b| i32::from_le_bytes(b).into()),
        DType::Int16 => each(bytes, values, |b| i16::from_le_bytes(b).into()),
        DType::Int8 => each(bytes, values, |b| i8::from_le_bytes(b).into()),
        DType::Int4 => nibbles(bytes, values, |n| (((n << 4).cast_signed()) >> 4).into()),
        #[expect(clippy::cast_precision_loss, reason = "statistics are in f64")]
        DType::UInt64 => each(bytes, values, |b| u64::from_le_bytes(b) as f64),
        DType::UInt32 => each(bytes, values, |b| u32::from_le_bytes(b).into()),
        DType::UInt16 => each(bytes, values, |b| u16::from_le_bytes(b).into()),
        DType::UInt8 => each(bytes, values, |[b]| b.into()),
        DType::Bool => each(bytes, values, |[b]| u8::from(b != 0).into()),
    }
}

fn each<const N: usize>(bytes: &[u8], values: &mut [f64; BLOCK], value: impl Fn([u8; N]) -> f64) -> usize {
    let (elems, rest) = bytes.as_chunks::<N>();
    debug_assert!(rest.is_empty(), "a chunk ends inside an element");
    for (slot, elem) in values.iter_mut().zip(elems) {
        *slot = value(*elem);
    }
    elems.len()
}

fn nibbles(bytes: &[u8], values: &mut [f64; BLOCK], value: impl Fn(u8) -> f64) -> usize {
    let (pairs, _) = values.as_chunks_mut::<2>();
    for ([low, high], byte) in pairs.iter_mut().zip(bytes) {
        *low = value(byte & 0xf);
        *high = value(byte >> 4);
    }
    bytes.len() * 2
}

fn bfloat16(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

/// A small binary float: sign, exponent, mantissa, from the top bit down.
struct SmallFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    specials: Specials,
}

/// What the largest exponent means.
#[derive(PartialEq, Eq)]
enum Specials {
    /// Infinity, and NaN above it.
    Ieee,
    /// Finite numbers, but NaN for the largest mantissa.
    OneNan,
    /// Finite numbers.
    None,
}

const F16: SmallFloat = SmallFloat { exponent_bits: 5, mantissa_bits: 10, specials: Specials::Ieee };
static E4M3FN: [f32; 256] =
    SmallFloat { exponent_bits: 4, mantissa_bits: 3, specials: Specials::OneNan }.table();
static E5M2: [f32; 256] = SmallFloat { exponent_bits: 5, mantissa_bits: 2, specials: Specials::Ieee }.table();
static E2M1: [f32; 16] = SmallFloat { exponent_bits: 2, mantissa_bits: 1, specials: Specials::None }.table();

impl SmallFloat {
    fn value(&self, bits: u16) -> f64 {
        self.decode(bits).into()
    }

    /// Every value of these formats is an `f32`, built from its bits.
    const fn decode(&self, bits: u16) -> f32 {
        const F32_MANTISSA_BITS: u32 = 23;
        const F32_BIAS: u32 = 127;
        let bits = bits as u32;
        let exponent_max = (1 << self.exponent_bits) - 1;
        let mantissa_max = (1 << self.mantissa_bits) - 1;
        let bias = exponent_max / 2;
        let sign = bits >> (self.exponent_bits + self.mantissa_bits) & 1;
        let exponent = bits >> self.mantissa_bits & exponent_max;
        let mantissa = bits & mantissa_max;
        let widened = mantissa << (F32_MANTISSA_BITS - self.mantissa_bits);
        let special = match self.specials {
            Specials::Ieee => exponent == exponent_max,
            Specials::OneNan => exponent == exponent_max && mantissa == mantissa_max,
            Specials::None => false,
        };
        let magnitude = if special {
            f32::from_bits(0xff << F32_MANTISSA_BITS | widened)
        } else if exponent == 0 {
            // The unit of the subnormal numbers, a power of two.
            let unit = F32_BIAS + 1 - bias - self.mantissa_bits;
            mantissa as f32 * f32::from_bits(unit << F32_MANTISSA_BITS)
        } else {
            f32::from_bits((exponent + F32_BIAS - bias) << F32_MANTISSA_BITS | widened)
        };
        if sign == 1 { -magnitude } else { magnitude }
    }

    /// The value of every bit pattern.
    const fn table<const N: usize>(&self) -> [f32; N] {
        let mut table = [0.0; N];
        let mut bits = 0;
        while bits < N {
            #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
            let pattern = bits as u16;
            table[bits] = self.decode(pattern);
            bits += 1;
        }
        table
    }
}
