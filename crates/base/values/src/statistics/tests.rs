//! Compares statistics with a version that decodes by definition and makes two passes over the values.

use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

/// A float by its definition, from sign, biased exponent and mantissa.
fn small_float(bits: u32, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let sign = if bits >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::try_from(bits >> mantissa_bits & ((1 << exponent_bits) - 1)).unwrap();
    let fraction = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    match exponent {
        0 => sign * fraction * 2f64.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2f64.powi(exponent - bias),
    }
}

fn ieee_float(bits: u32, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let magnitude = bits & ((1 << (exponent_bits + mantissa_bits)) - 1);
    let infinite = ((1 << exponent_bits) - 1) << mantissa_bits;
    match magnitude {
        m if m > infinite => f64::NAN,
        m if m == infinite && magnitude == bits => f64::INFINITY,
        m if m == infinite => f64::NEG_INFINITY,
        _ => small_float(bits, exponent_bits, mantissa_bits),
    }
}

fn values(dtype: DType, bytes: &[u8], numel: usize) -> Vec<f64> {
    let word = |width: usize| {
        bytes.chunks_exact(width).map(|b| b.iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b)))
    };
    let small = |width, value: fn(u32) -> f64| {
        word(width).map(|w| value(u32::try_from(w).unwrap())).collect::<Vec<_>>()
    };
    let nibbles = |value: fn(u32) -> f64| {
        bytes.iter().flat_map(|&b| [b & 0xf, b >> 4]).take(numel).map(|n| value(n.into())).collect::<Vec<_>>()
    };
    #[expect(clippy::cast_precision_loss, reason = "as the statistics do")]
    match dtype {
        DType::Float64 | DType::Complex128 => word(8).map(f64::from_bits).collect(),
        DType::Float32 | DType::Complex64 => small(4, |w| f64::from(f32::from_bits(w))),
        DType::Float16 => small(2, |w| ieee_float(w, 5, 10)),
        DType::BFloat16 => small(2, |w| ieee_float(w, 8, 7)),
        DType::Float8E4M3FN => small(1, |w| if w & 0x7f == 0x7f { f64::NAN } else { small_float(w, 4, 3) }),
        DType::Float8E5M2 => small(1, |w| ieee_float(w, 5, 2)),
        DType::Float8E4M3FNUZ => small(1, |w| if w == 0x80 { f64::NAN } else { small_float(w, 4, 3) / 2.0 }),
        DType::Float8E5M2FNUZ => small(1, |w| if w == 0x80 { f64::NAN } else { small_float(w, 5, 2) / 2.0 }),
        DType::Float8E8M0FNU => {
            small(1, |w| if w == 0xff { f64::NAN } else { 2f64.powi(i32::try_from(w).unwrap() - 127) })
        }
        DType::Float4E2M1 => nibbles(|n| small_float(n, 2, 1)),
        DType::Int64 => word(8).map(|w| w.cast_signed() as f64).collect(),
        DType::Int32 => small(4, |w| f64::from(w.cast_signed())),
        DType::Int16 => small(2, |w| f64::from(w) - if w >= 1 << 15 { 65_536.0 } else { 0.0 }),
        DType::Int8 => small(1, |w| f64::from(w) - if w >= 1 << 7 { 256.0 } else { 0.0 }),
        DType::Int4 => nibbles(|n| f64::from(n) - if n >= 8 { 16.0 } else { 0.0 }),
        DType::UInt64 => word(8).map(|w| w as f64).collect(),
        DType::UInt32 => small(4, f64::from),
        DType::UInt16 => small(2, f64::from),
        DType::UInt8 => small(1, f64::from),
        DType::Bool => small(1, |w| if w == 0 { 0.0 } else { 1.0 }),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn naive(values: &[f64]) -> TensorStats {
    let count = |test: fn(&f64) -> bool| values.iter().filter(|&value| test(value)).count() as u64;
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mut stats = TensorStats {
        zeros: count(|&value| value == 0.0),
        nan: count(|value| value.is_nan()),
        inf: count(|value| value.is_infinite()),
        numel: values.len() as u64,
        ..TensorStats::default()
    };
    if finite.is_empty() {
        (stats.min, stats.max, stats.mean, stats.std) = (f64::NAN, f64::NAN, f64::NAN, f64::NAN);
    } else {
        let n = finite.len() as f64;
        stats.min = finite.iter().copied().fold(f64::INFINITY, f64::min);
        stats.max = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Divided first, so that nothing overflows.
        stats.mean = finite.iter().map(|value| value / n).sum();
        let spread = stats.max / 2.0 - stats.min / 2.0;
        let relative = |value: f64| (value / 2.0 - stats.mean / 2.0) / spread;
        stats.std = if spread == 0.0 {
            0.0
        } else {
            (finite.iter().map(|&value| relative(value).powi(2)).sum::<f64>() / n).sqrt() * 2.0 * spread
        };
    }
    stats
}

fn taken(dtype: DType, bytes: &[u8], numel: usize, chunk_bytes: usize) -> TensorStats {
    let mut statistics = Statistics::new(dtype, numel as u64);
    bytes.chunks(chunk_bytes).for_each(|chunk| statistics.update(chunk));
    statistics.finish()
}

fn assert_close(dtype: DType, got: TensorStats, expected: TensorStats) {
    let ends = |stats: TensorStats| [stats.min, stats.max].map(|end| (end + 0.0).to_bits());
    let exact = |stats: TensorStats| (ends(stats), stats.zeros, stats.nan, stats.inf, stats.numel);
    assert_eq!(exact(got), exact(expected), "{dtype}");
    if expected.mean.is_nan() {
        assert!(got.mean.is_nan() && got.std.is_nan(), "{dtype}: {got:?}");
        return;
    }
    let scale = expected.max.abs().max(expected.min.abs());
    for (name, got, expected) in [("mean", got.mean, expected.mean), ("std", got.std, expected.std)] {
        let error = (got / 2.0 - expected / 2.0).abs();
        assert!(error <= 1e-12 * scale, "{name} of {dtype}: {got} instead of {expected}");
    }
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 4 } else { 400 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn statistics_equal_those_of_two_passes(
        dtype in prop::sample::select(&DType::ALL[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..6000),
        odd in any::<bool>(),
        chunk_words in prop_oneof![1..100usize, Just(512)],
    ) {
        let elems = bytes.len() * 8 / dtype.bits() as usize;
        let numel = if dtype.bits() == 4 { elems.saturating_sub(usize::from(odd)) } else { elems };
        let bytes = &bytes[..numel * dtype.bits() as usize / 8 + numel * dtype.bits() as usize % 8 / 4];
        assert_close(dtype, taken(dtype, bytes, numel, chunk_words * 8), naive(&values(dtype, bytes, numel)));
    }
}

#[test]
fn statistics_of_complex_numbers_are_those_of_their_parts() {
    // 1+2j, NaN-3j, 0+Infinity j, and 0+0j.
    let parts: [f32; 8] = [1.0, 2.0, f32::NAN, -3.0, 0.0, f32::INFINITY, 0.0, 0.0];
    let bytes = parts.map(|part| f64::from(part).to_le_bytes()).concat();
    let stats = taken(DType::Complex128, &bytes, 4, 16);
    assert_eq!((stats.min, stats.max, stats.mean), (-3.0, 2.0, 0.0));
    assert_eq!((stats.zeros, stats.nan, stats.inf, stats.numel), (3, 1, 1, 8));
    let bytes = parts.map(f32::to_le_bytes).concat();
    assert_eq!(taken(DType::Complex64, &bytes, 4, 8), stats);
}

#[test]
fn every_pattern_of_16_bits_has_the_statistics_of_two_passes() {
    // Miri is about a thousand times slower.
    let step = if cfg!(miri) { 64 } else { 1 };
    let every_half: Vec<u8> = (0..=u16::MAX).step_by(step).flat_map(u16::to_le_bytes).collect();
    let halves = every_half.len() / 2;
    for dtype in [DType::Float16, DType::BFloat16] {
        let expected = naive(&values(dtype, &every_half, halves));
        assert_close(dtype, taken(dtype, &every_half, halves, 4096), expected);
    }
}

#[test]
fn the_largest_values_are_those_of_the_formats() {
    let largest = |dtype, bytes: &[u8]| taken(dtype, bytes, bytes.len() * 8 / dtype.bits() as usize, 8).max;
    assert_eq!(largest(DType::Float8E4M3FN, &[0x7e]), 448.0);
    assert_eq!(largest(DType::Float8E5M2, &[0x7b]), 57_344.0);
    assert_eq!(largest(DType::Float4E2M1, &[0x70]), 6.0);
    assert_eq!(largest(DType::Float16, &[0xff, 0x7b]), 65_504.0);
}

#[test]
fn without_finite_values_the_results_are_nan() {
    let bytes = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
    let stats = taken(DType::Float32, &bytes, 3, 8);
    assert_eq!((stats.zeros, stats.nan, stats.inf, stats.numel), (0, 1, 2, 3));
    for stats in [stats, taken(DType::Int8, &[], 0, 8)] {
        assert!(
            [stats.min, stats.max, stats.mean, stats.std].iter().all(|value| value.is_nan()),
            "{stats:?}"
        );
    }
}

#[test]
fn a_large_mean_does_not_hide_a_small_deviation() {
    let bytes: Vec<u8> = (0..10_000).flat_map(|i| (1e9 + f64::from(i % 2)).to_le_bytes()).collect();
    let stats = taken(DType::Float64, &bytes, 10_000, 4096);
    assert_eq!(stats.mean, 1e9 + 0.5);
    assert!((stats.std - 0.5).abs() < 1e-9, "{}", stats.std);
}

#[test]
fn values_that_overflow_when_squared_are_still_measured() {
    let huge = f64::MAX;
    let values: Vec<f64> =
        [1.0, -2.0].into_iter().chain((0..2000).map(|i| if i % 2 == 0 { huge } else { -huge })).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let stats = taken(DType::Float64, &bytes, values.len(), 4096);
    assert_eq!((stats.min, stats.max), (-huge, huge));
    assert!((stats.std / huge - (2000.0_f64 / 2002.0).sqrt()).abs() < 1e-12, "{}", stats.std);
    assert!(stats.mean.abs() <= huge * 1e-12, "{}", stats.mean);
}

#[test]
fn values_before_the_first_huge_one_are_kept() {
    let limit = 2f64.powi(500);
    // Blocks of 512: one just below the limit, then one just above it.
    let swing = |size: f64| (0..512).map(move |i| if i % 2 == 0 { size } else { -size });
    let values: Vec<f64> = swing(limit * 0.75).chain(swing(limit * 1.25)).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let stats = taken(DType::Float64, &bytes, values.len(), 4096);
    let expected = (0.75_f64.powi(2) / 2.0 + 1.25_f64.powi(2) / 2.0).sqrt();
    assert!((stats.std / limit - expected).abs() < 1e-12, "{} instead of {expected}", stats.std / limit);
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 4 } else { 200 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn merged_parts_equal_the_whole(
        dtype in prop::sample::select(&DType::ALL[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..6000),
        cut in 0..6000usize,
    ) {
        let bytes = &bytes[..bytes.len() / 16 * 16];
        let numel = elements(dtype, bytes.len());
        let (first, second) = bytes.split_at(cut.min(bytes.len()) / 16 * 16);
        let mut merged = Statistics::new(dtype, elements(dtype, first.len()) as u64);
        merged.update(first);
        let mut other = Statistics::new(dtype, elements(dtype, second.len()) as u64);
        other.update(second);
        merged.merge(&other);
        let mut whole = Statistics::new(dtype, numel as u64);
        whole.update(bytes);
        let (merged, whole) = (merged.summary(), whole.summary());
        assert_close(dtype, merged.stats, naive(&values(dtype, bytes, numel)));
        prop_assert_eq!(merged.f16_overflow, whole.f16_overflow);
        prop_assert_eq!(merged.negative_inf, whole.negative_inf);
        prop_assert_eq!(merged.constant, whole.constant);
        prop_assert_eq!(merged.exact_range, whole.exact_range);
        let all = values(dtype, bytes, numel);
        let beyond = all.iter().filter(|v| v.is_finite() && v.abs() >= F16_OVERFLOW).count();
        prop_assert_eq!(whole.f16_overflow, beyond as u64);
        prop_assert_eq!(whole.negative_inf, all.iter().filter(|v| **v == f64::NEG_INFINITY).count() as u64);
    }
}

fn elements(dtype: DType, bytes: usize) -> usize {
    bytes * 8 / dtype.bits() as usize
}

fn summary<const N: usize>(dtype: DType, elements: &[[u8; N]]) -> Summary {
    let mut statistics = Statistics::new(dtype, elements.len() as u64);
    statistics.update(&elements.concat());
    statistics.summary()
}

#[test]
fn parts_with_and_without_huge_values_merge_in_either_order() {
    let part = |values: &[f64]| {
        let mut statistics = Statistics::new(DType::Float64, values.len() as u64);
        values.iter().for_each(|value| statistics.update(&value.to_le_bytes()));
        statistics
    };
    let (huge, small) = (part(&[1e200, -1e200]), part(&[1e140, -1e140]));
    for (mut first, second) in [(huge.clone(), small.clone()), (small, huge)] {
        first.merge(&second);
        let stats = first.finish();
        assert!((stats.std / 1e200 - 0.5_f64.sqrt()).abs() < 1e-12, "{}", stats.std);
        assert_eq!(stats.max, 1e200);
    }
}

#[test]
fn constant_content_is_detected_exactly_for_64_bit_integers() {
    let limit = (1_i64 << 53).to_le_bytes();
    assert!(summary(DType::Int64, &[limit, limit]).constant);
    let near = summary(DType::Int64, &[limit, ((1_i64 << 53) + 1).to_le_bytes()]);
    assert!(!near.constant && near.stats.min == near.stats.max);
    assert_eq!(near.exact_range, Some((1 << 53, (1 << 53) + 1)));
    let ends = summary(DType::UInt64, &[u64::MAX.to_le_bytes(), 0_u64.to_le_bytes()]);
    assert_eq!(ends.exact_range, Some((0, u64::MAX.into())));
    let inf = f32::INFINITY.to_le_bytes();
    assert!(summary(DType::Float32, &[inf, inf]).constant);
    assert!(!summary(DType::Float32, &[inf, f32::NEG_INFINITY.to_le_bytes()]).constant);
    assert!(!summary(DType::Float32, &[f32::NAN.to_le_bytes(); 2]).constant);
    assert!(!summary(DType::Float32, &[1_f32.to_le_bytes()]).constant, "one element is not constant content");
    assert!(summary(DType::UInt8, &[[0]; 5000]).all_zero());
    assert!(!summary(DType::UInt8, &[[0]; 0]).all_zero());
}

#[test]
fn magnitudes_beyond_float16_are_counted() {
    let values = [65_503.9_f32, 65_504.0, -70_000.0, f32::INFINITY, 1.0].map(f32::to_le_bytes);
    assert_eq!(summary(DType::Float32, &values).f16_overflow, 2);
}
