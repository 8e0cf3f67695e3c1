//! Compares conversions with independent definitions.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the machine's casts are the reference"
)]

use std::vec::Vec;

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

/// The value of a float by its definition.
fn defined(bits: u64, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let sign = if bits >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::try_from(bits >> mantissa_bits & ((1 << exponent_bits) - 1)).unwrap();
    let mantissa = u32::try_from(bits & ((1 << mantissa_bits) - 1)).unwrap();
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let power = |exponent: i32| 2f64.powi(exponent);
    if exponent == 0 {
        sign * fraction * power(1 - bias)
    } else {
        sign * (1.0 + fraction) * power(exponent - bias)
    }
}

/// The value by the OCP 8-bit and microscaling specifications, and by IEEE for 16 bits.
fn expected(dtype: DType, bits: u64) -> f64 {
    let ieee = |exponent_bits: u32, mantissa_bits: u32| {
        let top = (1 << exponent_bits) - 1;
        let sign = if bits >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
        match (bits >> mantissa_bits & top == top, bits & ((1 << mantissa_bits) - 1)) {
            (true, 0) => sign * f64::INFINITY,
            (true, _) => f64::NAN,
            _ => defined(bits, exponent_bits, mantissa_bits),
        }
    };
    match dtype {
        DType::Float16 => ieee(5, 10),
        DType::BFloat16 => ieee(8, 7),
        DType::Float8E5M2 => ieee(5, 2),
        DType::Float8E4M3FN if bits & 0x7f == 0x7f => f64::NAN,
        DType::Float8E4M3FN => defined(bits, 4, 3),
        // NaN is where negative zero would be, and there are no infinities. The bias is one greater than in the
        // formats with infinities: 8 and 16.
        DType::Float8E4M3FNUZ | DType::Float8E5M2FNUZ if bits == 0x80 => f64::NAN,
        DType::Float8E4M3FNUZ => defined(bits, 4, 3) / 2.0,
        DType::Float8E5M2FNUZ => defined(bits, 5, 2) / 2.0,
        DType::Float8E8M0FNU if bits == 0xff => f64::NAN,
        DType::Float8E8M0FNU => 2f64.powi(i32::try_from(bits).unwrap() - 127),
        DType::Float4E2M1 => {
            [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
                [usize::try_from(bits).unwrap()]
        }
        _ => unreachable!("not a small float"),
    }
}

const SMALL: [DType; 8] = [
    DType::Float16,
    DType::BFloat16,
    DType::Float8E4M3FN,
    DType::Float8E5M2,
    DType::Float4E2M1,
    DType::Float8E4M3FNUZ,
    DType::Float8E5M2FNUZ,
    DType::Float8E8M0FNU,
];

#[test]
fn every_pattern_of_the_small_floats_has_its_defined_value() {
    for dtype in SMALL {
        for bits in 0..=mask(dtype) {
            let (got, expected) = (to_f64(dtype, bits), expected(dtype, bits));
            let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
            assert!(same, "{dtype} {bits:#x}: {got} instead of {expected}");
        }
    }
    for bits in 0..=u16::MAX {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same(to_f64(DType::Float16, bits.into()), f16::from_bits(bits).to_f64()));
        assert!(same(to_f64(DType::BFloat16, bits.into()), bf16::from_bits(bits).to_f64()));
    }
}

#[test]
fn the_8_bit_floats_without_infinities_have_the_published_values() {
    let value = |dtype, bits| to_f64(dtype, bits);
    for (dtype, bits, expected) in [
        (DType::Float8E4M3FNUZ, 0x7f, 240.0),
        (DType::Float8E4M3FNUZ, 0xff, -240.0),
        (DType::Float8E4M3FNUZ, 0x40, 1.0),
        (DType::Float8E4M3FNUZ, 0x08, 1.0 / 128.0),
        (DType::Float8E4M3FNUZ, 0x01, 1.0 / 1024.0),
        (DType::Float8E5M2FNUZ, 0x7f, 57_344.0),
        (DType::Float8E5M2FNUZ, 0x40, 1.0),
        (DType::Float8E5M2FNUZ, 0x01, 2f64.powi(-17)),
        (DType::Float8E8M0FNU, 0x00, 2f64.powi(-127)),
        (DType::Float8E8M0FNU, 0x7f, 1.0),
        (DType::Float8E8M0FNU, 0xfe, 2f64.powi(127)),
    ] {
        assert_eq!(value(dtype, bits), expected, "{dtype} {bits:#x}");
    }
    for (dtype, nan) in
        [(DType::Float8E4M3FNUZ, 0x80), (DType::Float8E5M2FNUZ, 0x80), (DType::Float8E8M0FNU, 0xff)]
    {
        for bits in 0..=0xff {
            assert_eq!(value(dtype, bits).is_nan(), bits == nan, "{dtype} {bits:#x}");
            assert!(!value(dtype, bits).is_infinite(), "{dtype} {bits:#x}");
        }
    }
}

#[test]
fn every_value_of_up_to_16_bits_converts_back_to_its_pattern() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.bits() <= 16) {
        for bits in 0..=mask(dtype) {
            let value = to_f64(dtype, bits);
            let expected = if dtype == DType::Bool { u64::from(bits != 0) } else { bits };
            if value.is_nan() {
                assert!(to_f64(dtype, from_f64(dtype, value)).is_nan(), "{dtype} {bits:#x}");
            } else {
                assert_eq!(from_f64(dtype, value), expected, "{dtype} {bits:#x}");
            }
        }
    }
}

/// The nearest finite value, by search over all values; of two equally near ones, the one with the even
/// pattern.
fn nearest(dtype: DType, value: f64) -> u64 {
    let finite = (0..=mask(dtype)).filter(|bits| to_f64(dtype, *bits).is_finite());
    let has_minus_zero = (0..=mask(dtype)).any(|bits| to_f64(dtype, bits).to_bits() == (-0.0_f64).to_bits());
    let is_mine =
        |found: f64| found.is_sign_negative() == value.is_sign_negative() || found == 0.0 && !has_minus_zero;
    let mine = finite.filter(|bits| is_mine(to_f64(dtype, *bits)));
    let key = |bits: &u64| ((to_f64(dtype, *bits) - value).abs(), bits % 2);
    mine.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap()).unwrap()
}

#[test]
fn rounding_goes_to_the_nearest_value_near_every_pair_of_values() {
    for dtype in SMALL.into_iter().filter(|dtype| dtype.bits() <= 8) {
        let mut values: Vec<f64> =
            (0..=mask(dtype)).map(|bits| to_f64(dtype, bits)).filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        for pair in values.windows(2) {
            let middle = f64::midpoint(pair[0], pair[1]);
            for value in [pair[0], middle, middle.next_up(), middle.next_down(), pair[1]] {
                assert_eq!(from_f64(dtype, value), nearest(dtype, value), "{dtype} {value:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn wider_floats_round_once(mantissa in 0..1u64 << 52, exponent in 0x3ffu64 - 30..0x3ff + 20, negative: bool) {
        let value = f64::from_bits(u64::from(negative) << 63 | exponent << 52 | mantissa);
        for dtype in [DType::Float16, DType::BFloat16] {
            let bits = from_f64(dtype, value);
            let got = to_f64(dtype, bits);
            if got.is_infinite() {
                // Half a unit above the greatest finite value.
                prop_assert!(dtype == DType::Float16 && value.abs() >= 65_520.0);
                continue;
            }
            let error = (got - value).abs();
            for neighbour in [bits.wrapping_sub(1), bits + 1].map(|bits| to_f64(dtype, bits & mask(dtype))) {
                let further = (neighbour - value).abs();
                let tie_to_even = further == error && bits.is_multiple_of(2);
                let beyond = neighbour.is_nan() || neighbour.is_sign_negative() != got.is_sign_negative();
                prop_assert!(error < further || tie_to_even || beyond, "{} {:?} became {}", dtype, value, got);
            }
        }
    }

    #[test]
    fn integers_round_half_to_even_and_saturate(value in -1e20f64..1e20, small in -300.0f64..300.0) {
        for value in [value, small, (small * 2.0).round() / 2.0] {
            let whole = value.round_ties_even();
            prop_assert_eq!(from_f64(DType::Int8, value), u64::from((whole.clamp(-128.0, 127.0) as i8).cast_unsigned()));
            prop_assert_eq!(from_f64(DType::UInt16, value), u64::from(whole.clamp(0.0, 65_535.0) as u16));
            prop_assert_eq!(from_f64(DType::Int64, value), (whole as i64).cast_unsigned());
            prop_assert_eq!(from_f64(DType::UInt64, value), whole as u64);
            let nibble = from_f64(DType::Int4, value);
            prop_assert_eq!(to_f64(DType::Int4, nibble), whole.clamp(-8.0, 7.0));
        }
    }
}

#[test]
fn a_tie_in_the_high_bits_is_decided_by_the_lowest_bit() {
    // A conversion through f32, or through the upper half of the bits, loses the lowest bit and sees a tie.
    let above_tie = (1.0 + 2f64.powi(-11)).next_up();
    assert_eq!(from_f64(DType::Float16, above_tie), 0x3c01);
    assert_eq!(from_f64(DType::Float16, above_tie.next_down()), 0x3c00);
    let above_tie = (1.0 + 2f64.powi(-8)).next_up();
    assert_eq!(from_f64(DType::BFloat16, above_tie), 0x3f81);
}

#[test]
fn out_of_range_values_follow_the_table() {
    let bits =
        |dtype| [1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|value| from_f64(dtype, value));
    assert_eq!(bits(DType::Float32), [0x7f80_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000]);
    assert_eq!(bits(DType::Float16), [0x7c00, 0x7c00, 0xfc00, 0x7e00]);
    assert_eq!(bits(DType::BFloat16), [0x7f80, 0x7f80, 0xff80, 0x7fc0]);
    assert_eq!(bits(DType::Float8E5M2), [0x7c, 0x7c, 0xfc, 0x7e]);
    assert_eq!(bits(DType::Float8E4M3FN), [0x7e, 0x7f, 0xff, 0x7f]);
    assert_eq!(bits(DType::Float4E2M1), [0x7, 0x7, 0xf, 0x7]);
    assert_eq!(bits(DType::Float8E4M3FNUZ), [0x7f, 0x80, 0x80, 0x80]);
    assert_eq!(bits(DType::Float8E5M2FNUZ), [0x7f, 0x80, 0x80, 0x80]);
    assert_eq!(bits(DType::Float8E8M0FNU), [0xfe, 0xff, 0xff, 0xff]);
    let near_zero = |dtype| [0.0, -0.0, 1e-300, -1e-300].map(|value| from_f64(dtype, value));
    assert_eq!(near_zero(DType::Float8E4M3FN), [0, 0x80, 0, 0x80]);
    assert_eq!(near_zero(DType::Float8E4M3FNUZ), [0, 0, 0, 0]);
    assert_eq!(near_zero(DType::Float8E5M2FNUZ), [0, 0, 0, 0]);
    assert_eq!(near_zero(DType::Float8E8M0FNU), [0, 0, 0, 0xff]);
    assert_eq!(bits(DType::Int32), [0x7fff_ffff, 0x7fff_ffff, 0x8000_0000, 0]);
    assert_eq!(bits(DType::UInt8), [0xff, 0xff, 0, 0]);
    assert_eq!(bits(DType::Bool), [1, 1, 1, 1]);
    assert_eq!(from_f64(DType::Float64, -f64::NAN), (-f64::NAN).to_bits());
    assert_eq!(from_f64(DType::Float32, -f64::NAN), 0xffc0_0000);
}
