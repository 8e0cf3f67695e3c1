//! Distances between the elements of a block in representable values (ULPs); for integers, exact differences.

use std::marker::PhantomData;

use tensortap_abi::DType;
use tensortap_values::{decode_bits, decode_signed};

use super::block::BLOCK;
use tensortap_values::vector::{Level, Work};
use tensortap_values::{Bf16, F16, F32, HotFloat};

/// Fills in the distances and returns how many elements have different bits. The distance of a NaN or an
/// infinity is meaningless.
pub(super) fn distances(level: Level, dtype: DType, dump: &[u8], golden: &[u8], out: &mut [u64]) -> u64 {
    match dtype {
        DType::Float32 => level.run(HotDistances::<F32> { dump, golden, out, dtype: PhantomData }),
        DType::Float16 => level.run(HotDistances::<F16> { dump, golden, out, dtype: PhantomData }),
        DType::BFloat16 => level.run(HotDistances::<Bf16> { dump, golden, out, dtype: PhantomData }),
        _ => level.run(PatternDistances { dtype, dump, golden, out }),
    }
}

struct HotDistances<'a, H> {
    dump: &'a [u8],
    golden: &'a [u8],
    out: &'a mut [u64],
    dtype: PhantomData<H>,
}

impl<H: HotFloat> Work for HotDistances<'_, H> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let mut differing = 0;
        let pairs = H::split(self.dump).iter().zip(H::split(self.golden));
        for (distance, (dump, golden)) in self.out.iter_mut().zip(pairs) {
            *distance = u64::from(H::ordinal(*dump).abs_diff(H::ordinal(*golden)));
            differing += u64::from(dump != golden);
        }
        differing
    }
}

struct PatternDistances<'a> {
    dtype: DType,
    dump: &'a [u8],
    golden: &'a [u8],
    out: &'a mut [u64],
}

impl Work for PatternDistances<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let Self { dtype, dump, golden, out } = self;
        let (mut one, mut other) = ([0; BLOCK], [0; BLOCK]);
        let (one, other) = (&mut one[..out.len()], &mut other[..out.len()]);
        decode_bits(dtype, dump, one);
        decode_bits(dtype, golden, other);
        let differing = one.iter().zip(other.iter()).map(|(one, other)| u64::from(one != other)).sum();
        match dtype {
            // Powers of two have no sign.
            DType::Float8E8M0FNU => fill(one, other, out, u64::abs_diff),
            _ if dtype.is_float() => float_distances(dtype, one, other, out),
            DType::Bool => {
                fill(one, other, out, |one, other| u64::from(one != 0).abs_diff((other != 0).into()))
            }
            DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 | DType::Int4 => {
                signed_distances(dtype, dump, golden, out);
            }
            _ => fill(one, other, out, u64::abs_diff),
        }
        differing
    }
}

#[inline(always)]
fn fill(one: &[u64], other: &[u64], out: &mut [u64], distance: impl Fn(u64, u64) -> u64) {
    for (out, (one, other)) in out.iter_mut().zip(one.iter().zip(other)) {
        *out = distance(*one, *other);
    }
}

#[inline(always)]
fn float_distances(dtype: DType, one: &[u64], other: &[u64], out: &mut [u64]) {
    let greatest = u64::MAX >> (65 - dtype.bits());
    let place = |bits: u64| {
        let magnitude = (bits & greatest).cast_signed();
        if bits > greatest { -magnitude } else { magnitude }
    };
    fill(one, other, out, |one, other| place(one).abs_diff(place(other)));
}

#[inline(always)]
fn signed_distances(dtype: DType, dump: &[u8], golden: &[u8], out: &mut [u64]) {
    let (mut one, mut other) = ([0; BLOCK], [0; BLOCK]);
    let (one, other) = (&mut one[..out.len()], &mut other[..out.len()]);
    decode_signed(dtype, dump, one);
    decode_signed(dtype, golden, other);
    for (out, (one, other)) in out.iter_mut().zip(one.iter().zip(other.iter())) {
        *out = one.abs_diff(*other);
    }
}

/// Sums over distances.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DistanceSums {
    pub max: u64,
    pub sum: u128,
    /// Number of distances above the limit.
    pub over: u64,
}

/// Sums the distances of at most 2^32 elements.
pub(super) struct SumDistances<'a> {
    pub distances: &'a [u64],
    pub allowed: u64,
}

impl Work for SumDistances<'_> {
    type Output = DistanceSums;

    #[inline(always)]
    fn run(self) -> DistanceSums {
        // The halves are summed separately, so that neither sum can overflow and both stay in vectors.
        let (mut low, mut high, mut max, mut over) = (0_u64, 0_u64, 0_u64, 0_u64);
        for distance in self.distances {
            low += distance & u64::from(u32::MAX);
            high += distance >> 32;
            max = if *distance > max { *distance } else { max };
            over += u64::from(*distance > self.allowed);
        }
        DistanceSums { max, sum: u128::from(low) + (u128::from(high) << 32), over }
    }
}

#[cfg(test)]
mod tests;
