//! A naive version of the metrics: element by element, without blocks or vectors.

use tensortap_abi::DType;
use tensortap_judge::{Metrics, Predicate, Rule, SpecialCounts};
use tensortap_values::{Value, element_bits, ulp_distance};

use crate::flat;
use crate::sample::pair;

/// The metrics for equal dtypes.
#[derive(Debug, Default)]
pub struct Naive {
    pub measured: u64,
    pub dump: SpecialCounts,
    pub golden: SpecialCounts,
    pub mismatched: u64,
    pub failing: u64,
    pub differing: u64,
    pub max_abs: f64,
    pub worst: Option<u64>,
    pub mean_abs: f64,
    pub rmse: f64,
    pub relative_count: u64,
    pub max_relative: f64,
    pub mean_relative: f64,
    pub dump_norm: f64,
    pub golden_norm: f64,
    pub cosine: f64,
    pub max_ulps: u64,
    pub mean_ulps: f64,
}

fn number(value: Value) -> f64 {
    match value {
        Value::Float(value) => value,
        Value::Int(value) => value as f64,
        Value::UInt(value) => value as f64,
        Value::Bool(value) => u8::from(value).into(),
        Value::Complex(..) => panic!("complex numbers are compared by parts"),
    }
}

fn difference(dump: Value, golden: Value) -> f64 {
    match (dump, golden) {
        (Value::Int(dump), Value::Int(golden)) => dump.abs_diff(golden) as f64,
        (Value::UInt(dump), Value::UInt(golden)) => dump.abs_diff(golden) as f64,
        _ => (number(dump) - number(golden)).abs(),
    }
}

fn count(specials: &mut SpecialCounts, value: f64) {
    if value.is_nan() {
        specials.nan += 1;
    } else if value.is_infinite() && value > 0.0 {
        specials.positive_infinity += 1;
    } else if value.is_infinite() {
        specials.negative_infinity += 1;
    } else if value == 0.0 {
        specials.zeros += 1;
    }
}

pub fn naive(dtype: DType, dump: &[u8], golden: &[u8], numel: usize, rule: &Rule) -> Naive {
    // Complex numbers are compared by parts.
    let parts = dtype.parts() as usize;
    let (dtype, numel) = (dtype.part(), numel * parts);
    let mut m = Naive::default();
    let mut worst_exact = 0;
    let (mut ulps, mut relative_sum, mut product) = (0_u128, 0.0, 0.0);
    let (mut abs_sum, mut square_sum, mut dump_squares, mut golden_squares) = (0.0, 0.0, 0.0, 0.0);
    for at in 0..numel {
        let bits = |bytes| u64::try_from(element_bits(dtype, bytes, at).unwrap()).unwrap();
        let (dump_bits, golden_bits) = (bits(dump), bits(golden));
        let value = |bits: u64| Value::decode(dtype, bits.into());
        let (dump_value, golden_value) = (value(dump_bits), value(golden_bits));
        let (a, g) = (number(dump_value), number(golden_value));
        count(&mut m.dump, a);
        count(&mut m.golden, g);
        m.differing += u64::from(dump_bits != golden_bits);
        let fails_bits = rule.predicate == Predicate::BitExact && dump_bits != golden_bits;
        if !a.is_finite() || !g.is_finite() {
            let both_nan = a.is_nan() && g.is_nan();
            let mismatched = !both_nan && a != g;
            m.mismatched += u64::from(mismatched);
            let fails_value = mismatched || both_nan && !rule.nan_equal;
            m.failing +=
                u64::from(if rule.predicate == Predicate::BitExact { fails_bits } else { fails_value });
            continue;
        }
        m.measured += 1;
        let error = difference(dump_value, golden_value);
        let distance = ulp_distance(dtype, dump_bits, golden_bits).unwrap();
        let passes = match rule.predicate {
            Predicate::Close { rtol, atol } => error <= atol + rtol * g.abs(),
            Predicate::Ulps(most) => distance <= most,
            Predicate::BitExact => !fails_bits,
        };
        m.failing += u64::from(!passes);
        // Wide integers may have equal rounded differences.
        let exact = if dtype.is_float() { 0 } else { distance };
        if (error, exact) > (m.max_abs, worst_exact) {
            (m.max_abs, m.worst, worst_exact) = (error, Some((at / parts) as u64), exact);
        }
        abs_sum += error;
        square_sum += error * error;
        dump_squares += a * a;
        golden_squares += g * g;
        product += a * g;
        if g != 0.0 && g.abs() >= rule.small {
            m.relative_count += 1;
            relative_sum += error / g.abs();
            m.max_relative = m.max_relative.max(error / g.abs());
        }
        ulps += u128::from(distance);
        m.max_ulps = m.max_ulps.max(distance);
    }
    let measured = m.measured as f64;
    m.mean_abs = abs_sum / measured;
    m.rmse = (square_sum / measured).sqrt();
    m.mean_relative = relative_sum / m.relative_count as f64;
    (m.dump_norm, m.golden_norm) = (dump_squares.sqrt(), golden_squares.sqrt());
    m.cosine = product / (m.dump_norm * m.golden_norm);
    m.mean_ulps = ulps as f64 / measured;
    m
}

/// Equal to 1e-12, or both NaN.
#[track_caller]
pub fn near(what: &str, ours: f64, theirs: f64) {
    let equal = ours == theirs || ours.is_nan() && theirs.is_nan();
    assert!(equal || (ours - theirs).abs() <= 1e-12 * theirs.abs(), "{what}: {ours:e}, expected {theirs:e}");
}

#[track_caller]
pub fn agree(ours: &Metrics, naive: &Naive, what: &str) {
    let counts = (ours.measured, ours.dump, ours.golden, ours.mismatched, ours.failing, ours.relative_count);
    let expected =
        (naive.measured, naive.dump, naive.golden, naive.mismatched, naive.failing, naive.relative_count);
    assert_eq!(counts, expected, "{what}");
    assert_eq!((ours.differing, ours.max_ulps), (Some(naive.differing), Some(naive.max_ulps)), "{what}");
    assert_eq!(ours.worst.as_ref().map(|worst| worst.index), naive.worst, "{what}");
    assert_eq!(ours.max_abs, naive.max_abs, "{what}");
    let nan = f64::NAN;
    near(what, ours.max_relative, naive.max_relative);
    near(what, ours.mean_abs.unwrap_or(nan), naive.mean_abs);
    near(what, ours.rmse.unwrap_or(nan), naive.rmse);
    near(what, ours.mean_relative.unwrap_or(nan), naive.mean_relative);
    near(what, ours.dump_norm, naive.dump_norm);
    near(what, ours.golden_norm, naive.golden_norm);
    near(what, ours.cosine.unwrap_or(nan), naive.cosine);
    near(what, ours.mean_ulps.unwrap_or(nan), naive.mean_ulps);
}

fn rules(dtype: DType) -> Vec<Rule> {
    let default = Rule::for_dtype(dtype);
    vec![
        default,
        Rule { nan_equal: false, ..default },
        Rule::bitexact(dtype),
        Rule { predicate: Predicate::Ulps(3), ..default },
        Rule::close(dtype, 1e-2, 0.5),
        Rule { small: 0.0, ..Rule::close(dtype, 0.0, 2.0) },
    ]
}

#[test]
fn every_dtype_and_rule_agrees_with_the_naive_version() {
    const NUMEL: usize = 5003;
    for (seed, dtype) in (1..).zip(DType::ALL) {
        let (dump, golden) = pair(dtype, NUMEL, seed);
        for rule in rules(dtype) {
            let what = format!("{dtype} {rule:?}");
            let comparison = flat(dtype, NUMEL, rule);
            let expected = naive(dtype, &dump, &golden, NUMEL, &rule);
            let metrics = comparison.full(&dump, &golden, 1).unwrap();
            agree(&metrics, &expected, &what);
            assert!(metrics.differing > Some(0), "{what}: the sample differs");
            let quick = comparison.quick(&dump, &golden, 1).unwrap();
            let numbers = NUMEL as u64 * u64::from(dtype.parts());
            assert_eq!((quick.elements, quick.failing), (numbers, expected.failing), "{what}");
            assert_eq!((quick.mismatched, quick.max_abs), (expected.mismatched, expected.max_abs), "{what}");
            assert_eq!(quick.worst, metrics.worst, "{what}");
        }
    }
}
