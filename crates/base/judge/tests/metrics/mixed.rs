//! Goldens of another float dtype.

use tensortap_abi::DType;
use tensortap_judge::{Comparison, Predicate, Rule, TensorType};
use tensortap_values::{Value, from_f64, to_f64};

use crate::sample::encode;

fn across(dump: DType, golden: DType, numel: u64, rule: Rule) -> Comparison {
    let tensor = |dtype| TensorType::new(dtype, &[numel]);
    Comparison::across_dtypes(&tensor(dump), &tensor(golden), rule).unwrap()
}

const FLOATS: [DType; 7] = [
    DType::Float64,
    DType::Float32,
    DType::Float16,
    DType::BFloat16,
    DType::Float8E4M3FN,
    DType::Float8E5M2,
    DType::Float4E2M1,
];

#[test]
fn the_golden_is_compared_unrounded_and_rounded() {
    let golden = [1.0 / 3.0, 2.0, -0.7, 3.1, 5.0];
    for dump in FLOATS {
        for wanted in FLOATS.into_iter().filter(|wanted| *wanted != dump && wanted.bits() >= dump.bits()) {
            let comparison = across(dump, wanted, 5, Rule::close(dump, 0.6, 0.0));
            let stored = golden.map(|value| to_f64(wanted, from_f64(wanted, value)));
            // The output of a perfect kernel: the golden, rounded.
            let (dump_bytes, golden_bytes) = (encode(dump, &stored), encode(wanted, &stored));
            let metrics = comparison.full(&dump_bytes, &golden_bytes, 1).unwrap();
            let what = format!("{dump} {wanted}");
            assert_eq!((metrics.max_ulps, metrics.differing, metrics.failing), (None, None, 0), "{what}");
            let rounded = metrics.rounded.unwrap();
            assert_eq!((rounded.bit_exact(), rounded.max_ulps), (Some(true), Some(0)), "{what}");
            assert!(metrics.max_abs > 0.0 || dump.bits() == wanted.bits(), "{what}");
            let quick = comparison.quick(&dump_bytes, &golden_bytes, 1).unwrap();
            assert_eq!(
                (quick.failing, quick.max_abs, quick.worst),
                (0, metrics.max_abs, metrics.worst),
                "{what}"
            );
        }
    }
}

#[test]
fn tolerances_judge_the_unrounded_golden_and_other_predicates_the_rounded_one() {
    let golden = encode(DType::Float64, &[1.001, 1.0]);
    let dump = encode(DType::BFloat16, &[1.0, 1.0]);
    let failing = |predicate| {
        let rule = Rule { predicate, ..Rule::for_dtype(DType::BFloat16) };
        let comparison = across(DType::BFloat16, DType::Float64, 2, rule);
        let metrics = comparison.full(&dump, &golden, 1).unwrap();
        assert_eq!(comparison.quick(&dump, &golden, 1).unwrap().failing, metrics.failing);
        let located = comparison.detail(&dump, &golden, 1).unwrap().axes[0].failing.iter().sum::<u64>();
        assert_eq!(located, metrics.failing);
        (metrics.failing, metrics.rounded.unwrap().failing)
    };
    assert_eq!(failing(Predicate::BitExact), (0, 0), "1.001 rounds to 1");
    assert_eq!(failing(Predicate::Ulps(0)), (0, 0));
    assert_eq!(failing(Predicate::Close { rtol: 1e-4, atol: 0.0 }), (1, 0));
}

#[test]
fn an_overflow_is_found_with_the_unrounded_golden() {
    let comparison = across(DType::Float16, DType::Float32, 1, Rule::for_dtype(DType::Float16));
    let dump = encode(DType::Float16, &[f64::INFINITY]);
    let golden = encode(DType::Float32, &[1e6]);
    let metrics = comparison.full(&dump, &golden, 1).unwrap();
    assert_eq!((metrics.failing, metrics.mismatched), (1, 1));
    assert_eq!(metrics.first_mismatch.unwrap().golden, Value::Float(1e6));
    assert_eq!(metrics.rounded.unwrap().failing, 0);
}
