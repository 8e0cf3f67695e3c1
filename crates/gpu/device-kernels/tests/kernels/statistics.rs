//! Tests statistics of every dtype against the host.

use tensortap_abi::TensorStats;
use tensortap_device_kernels::measured_as;
use tensortap_values::{Statistics, content_hash, from_f64, put_element_bits};

use super::*;

/// The host's statistics of the same elements.
fn expected(content: &[u8], measured: RangeElements) -> TensorStats {
    let mut statistics = Statistics::new(measured.dtype, measured.elements);
    statistics.update(&content[..elements_bytes(measured)]);
    statistics.finish()
}

/// Number of bytes with elements. Trailing bytes have none.
fn elements_bytes(measured: RangeElements) -> usize {
    usize::try_from((measured.elements * u64::from(measured.dtype.bits())).div_ceil(8)).unwrap()
}

fn assert_same(got: TensorStats, expected: TensorStats, fp64: bool, what: &str) {
    let ends = |stats: TensorStats| [stats.min, stats.max].map(|end| (end + 0.0).to_bits());
    let exact = |stats: TensorStats| (ends(stats), stats.zeros, stats.nan, stats.inf, stats.numel);
    assert_eq!(exact(got), exact(expected), "{what}: {got:?} instead of {expected:?}");
    if expected.mean.is_nan() || !fp64 {
        assert!(got.mean.is_nan() && got.std.is_nan(), "{what}: {got:?}");
        return;
    }
    // The host's own error bound.
    let scale = expected.max.abs().max(expected.min.abs());
    for (name, got, expected) in [("mean", got.mean, expected.mean), ("std", got.std, expected.std)] {
        let error = (got / 2.0 - expected / 2.0).abs();
        // Plus a few subnormal steps.
        assert!(
            error <= 1e-12 * scale + 4.0 * f64::from_bits(1),
            "{name} of {what}: {got} instead of {expected}"
        );
    }
}

fn check(kernels: &Kernels, content: &[u8], asked: &[RangeCase]) {
    for (asked, outcome) in asked.iter().zip(outcomes(kernels, &[content], asked)) {
        let bytes = &content[asked.offset..][..asked.bytes];
        let measured = asked.measured.expect("a dtype");
        let what =
            format!("{} of {} bytes at {}, {:?}", measured.dtype, asked.bytes, asked.offset, kernels.build);
        assert_eq!(outcome.hash, content_hash(bytes), "{what}");
        let stats = outcome.stats.expect("statistics");
        assert_same(stats, expected(bytes, measured), kernels.build.has_fp64(), &what);
    }
}

/// Values of a dtype, from a function of their index.
fn values(dtype: DType, count: usize, value: impl Fn(usize) -> f64) -> Vec<u8> {
    let mut content = vec![0; (count * dtype.bits() as usize).div_ceil(8)];
    for place in 0..count {
        assert!(put_element_bits(dtype, &mut content, place, from_f64(dtype, value(place)).into()));
    }
    content
}

fn everywhere(dtype: DType) -> Vec<RangeCase> {
    let sizes =
        [0, 1, 2, 7, 8, 15, 16, 17, 100, 239, 240, 241, 1000, 4095, 4096, 4097, 8192, 20_000, 263_000];
    let at = |offset: usize| sizes.map(|bytes| RangeCase::of(0, offset, bytes, Some(dtype)));
    [0, 1, 8, 16, 21].into_iter().flat_map(at).collect()
}

/// The dtypes that the device measures.
fn measured() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|dtype| measured_as(*dtype).is_some())
}

#[test]
fn complex_numbers_are_measured_as_floats_and_other_8_bit_floats_are_only_hashed() {
    assert_eq!(measured().count(), DType::ALL.len() - 3);
    let content = noise(15, 4096);
    each_measuring(|kernels| {
        let asked = [DType::Complex64, DType::Float8E4M3FNUZ, DType::Float8E8M0FNU]
            .map(|dtype| RangeCase::of(0, 0, 4096, Some(dtype)));
        let outcomes = outcomes(kernels, &[&content], &asked);
        assert!(outcomes.iter().all(|outcome| outcome.hash == content_hash(&content)));
        let parts = RangeElements { dtype: DType::Float32, elements: 1024 };
        assert_same(
            outcomes[0].stats.unwrap(),
            expected(&content, parts),
            kernels.build.has_fp64(),
            "complex64",
        );
        let mut statistics = Statistics::new(DType::Complex64, 512);
        statistics.update(&content);
        assert_same(outcomes[0].stats.unwrap(), statistics.finish(), kernels.build.has_fp64(), "complex64");
        assert!(outcomes[1].stats.is_none() && outcomes[2].stats.is_none());
    });
}

#[test]
fn measures_random_bytes_like_the_host() {
    let content = noise(11, 263_100);
    each_measuring(|kernels| measured().for_each(|dtype| check(kernels, &content, &everywhere(dtype))));
}

#[test]
fn measures_typical_values_like_the_host() {
    each_measuring(|kernels| {
        for dtype in measured() {
            let wave = |place: usize| ((place * 7919 % 1000) as f64 / 1000.0 - 0.3) * 5.0;
            let zeros = |place: usize| if place.is_multiple_of(3) { 0.0 } else { wave(place).max(0.0) };
            let far = |place: usize| 1000.0 + (place % 2) as f64;
            let minus = |place: usize| if place.is_multiple_of(5) { -0.0 } else { -1.0 };
            for content in [
                values(dtype, 70_001, wave),
                values(dtype, 70_001, zeros),
                values(dtype, 70_001, far),
                values(dtype, 70_001, minus),
                values(dtype, 70_001, |_| 2.0),
                values(dtype, 70_001, |_| 0.0),
            ] {
                check(kernels, &content, &[RangeCase::of(0, 0, content.len(), Some(dtype))]);
            }
        }
    });
}

#[test]
fn an_odd_number_of_nibbles_ends_the_range() {
    let content = noise(12, 9000);
    each_measuring(|kernels| {
        for dtype in [DType::Int4, DType::Float4E2M1] {
            let lengths = [1, 2, 16, 17, 240, 241, 4095, 4096, 4097, 8192];
            let odd = |bytes: usize| RangeElements { dtype, elements: bytes as u64 * 2 - 1 };
            let of = |bytes| RangeCase { buffer: 0, offset: 3, bytes, measured: Some(odd(bytes)) };
            check(kernels, &content, &lengths.map(of));
            check(kernels, &content, &lengths.map(|bytes| RangeCase { offset: 16, ..of(bytes) }));
        }
    });
}

#[test]
fn counts_nan_and_infinity_at_every_position() {
    each_measuring(|kernels| {
        for dtype in [DType::Float64, DType::Float32, DType::Float16, DType::BFloat16, DType::Float8E5M2] {
            let nans_first = |place: usize| if place < 3000 { f64::NAN } else { 1e4 + (place % 7) as f64 };
            let mixed =
                |place: usize| [f64::INFINITY, 1.0, f64::NEG_INFINITY, f64::NAN, -2.0][place * 31 % 5];
            let none = |place: usize| [f64::INFINITY, f64::NAN][place % 2];
            for content in
                [values(dtype, 9001, nans_first), values(dtype, 9001, mixed), values(dtype, 9001, none)]
            {
                let wanted =
                    [RangeCase::of(0, 0, content.len(), Some(dtype)), RangeCase::of(0, 8, 600, Some(dtype))];
                check(kernels, &content, &wanted);
            }
        }
    });
}

#[test]
fn statistics_are_accurate_for_large_means_and_huge_values() {
    each_measuring(|kernels| {
        let far = values(DType::Float64, 100_000, |place| 1e9 + (place % 2) as f64);
        let stats = outcomes(kernels, &[&far], &[RangeCase::of(0, 0, far.len(), Some(DType::Float64))])[0]
            .stats
            .unwrap();
        assert!((stats.std - 0.5).abs() < 1e-9 && stats.mean == 1e9 + 0.5, "{stats:?}");
        let huge = [1e300, -1e300, 3.0, 1e200, -5e299];
        // Only some leaves have huge values.
        let mixed = |place: usize| if place % 4096 < 2048 { place as f64 } else { huge[place % 5] };
        for content in [
            values(DType::Float64, 50_000, |place| huge[place % 5]),
            values(DType::Float64, 50_000, mixed),
            values(DType::Float64, 50_000, |place| if place % 2 == 0 { f64::MAX } else { -f64::MAX }),
            values(DType::Float32, 50_000, |place| if place % 2 == 0 { f64::from(f32::MAX) } else { -1e38 }),
            values(DType::Float64, 50_000, |place| (place % 9) as f64 * f64::MIN_POSITIVE / 1e9),
            values(DType::Float32, 50_000, |place| (place % 9) as f64 * 1e-44),
        ] {
            let dtype = if content.len() == 400_000 { DType::Float64 } else { DType::Float32 };
            check(kernels, &content, &[RangeCase::of(0, 0, content.len(), Some(dtype))]);
        }
    });
}

#[test]
fn ranges_of_one_launch_may_have_different_dtypes() {
    let content = noise(13, 700_000);
    each_measuring(|kernels| {
        let asked: Vec<RangeCase> = (0..40)
            .map(|place: usize| {
                RangeCase::of(0, 16 * place, 15_000 * (place + 1), DType::ALL.get(place % 24).copied())
            })
            .collect();
        for (asked, outcome) in asked.iter().zip(outcomes(kernels, &[&content], &asked)) {
            let bytes = &content[asked.offset..][..asked.bytes];
            assert_eq!(outcome.hash, content_hash(bytes));
            assert_eq!(outcome.stats.is_some(), asked.measured.is_some());
            if let (Some(stats), Some(measured)) = (outcome.stats, asked.measured) {
                assert_same(stats, expected(bytes, measured), true, &format!("{}", measured.dtype));
            }
        }
    });
}

#[test]
fn without_64_bit_floats_only_mean_and_deviation_are_missing() {
    let content = noise(14, 20_100);
    let Some(kernels) = kernels_of(Build::processor(false)) else { return };
    for dtype in measured() {
        let asked =
            [(0, 20_000), (3, 9001), (16, 200)].map(|(at, bytes)| RangeCase::of(0, at, bytes, Some(dtype)));
        check(&kernels, &content, &asked);
    }
}
