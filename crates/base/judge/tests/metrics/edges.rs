//! Special values, empty tensors, wide integers and rejected input.

use tensortap_abi::DType;
use tensortap_judge::{
    CompareError, Comparison, Metrics, MetricsPass, Predicate, QuickPass, Rule, SideName, TensorType,
};
use tensortap_values::Value;

use crate::flat;
use crate::sample::{encode, pack};

fn compare(dtype: DType, dump: &[f64], golden: &[f64], rule: Rule) -> Metrics {
    let comparison = flat(dtype, dump.len(), rule);
    let (dump, golden) = (encode(dtype, dump), encode(dtype, golden));
    let metrics = comparison.full(&dump, &golden, 1).unwrap();
    let quick = comparison.quick(&dump, &golden, 1).unwrap();
    assert_eq!(
        (quick.failing, quick.mismatched, quick.max_abs),
        (metrics.failing, metrics.mismatched, metrics.max_abs)
    );
    metrics
}

const IEEE: [DType; 4] = [DType::Float64, DType::Float32, DType::Float16, DType::BFloat16];

#[test]
fn equal_infinities_are_equal_and_all_other_pairs_with_one_are_mismatched() {
    let inf = f64::INFINITY;
    for dtype in IEEE {
        let rule = Rule::close(dtype, 0.5, 1.0);
        let equal = compare(dtype, &[inf, -inf, 1.0], &[inf, -inf, 1.0], rule);
        assert_eq!((equal.failing, equal.mismatched, equal.measured), (0, 0, 1), "{dtype}");
        // The relative tolerance of an infinite golden is infinite, but it allows nothing.
        let wrong = compare(dtype, &[-inf, 1.0, inf, f64::NAN], &[inf, inf, 1.0, -inf], rule);
        assert_eq!(
            (wrong.failing, wrong.mismatched, wrong.measured, wrong.max_abs),
            (4, 4, 0, 0.0),
            "{dtype}"
        );
        let first = wrong.first_mismatch.unwrap();
        assert_eq!((first.index, first.dump, first.golden), (0, Value::Float(-inf), Value::Float(inf)));
        assert_eq!((wrong.mean_abs, wrong.rmse, wrong.cosine, wrong.mean_ulps), (None, None, None, None));
        assert_eq!((wrong.dump.nan, wrong.dump.positive_infinity, wrong.dump.negative_infinity), (1, 1, 1));
        assert_eq!((wrong.golden.positive_infinity, wrong.golden.negative_infinity), (2, 1));
    }
}

#[test]
fn nan_equals_nan_unless_the_rule_says_otherwise() {
    let nan = f64::NAN;
    for dtype in IEEE {
        let rule = Rule::for_dtype(dtype);
        for (rule, failing) in [(rule, 1), (Rule { nan_equal: false, ..rule }, 2)] {
            let metrics = compare(dtype, &[nan, nan, 2.0], &[nan, 1.0, 2.0], rule);
            assert_eq!((metrics.failing, metrics.mismatched), (failing, 1), "{dtype} {rule:?}");
            assert_eq!(metrics.worst, None, "an unmeasured pair has no error");
        }
    }
    // The same if all bytes are equal.
    let refused = Rule { nan_equal: false, ..Rule::for_dtype(DType::Float32) };
    assert_eq!(compare(DType::Float32, &[nan], &[nan], refused).failing, 1);
}

#[test]
fn bitexact_distinguishes_only_zeros_and_nan_payloads() {
    let comparison = flat(DType::Float32, 3, Rule::bitexact(DType::Float32));
    let bits = |patterns: [u32; 3]| pack(DType::Float32, &patterns.map(u64::from));
    let golden = bits([0, 0x7fc0_0000, 0x3f80_0000]);
    let fails = |dump: &[u8]| comparison.full(dump, &golden, 1).unwrap().failing;
    assert_eq!(fails(&golden), 0, "NaN of the same bits is exact");
    assert_eq!(fails(&bits([1 << 31, 0x7fc0_0000, 0x3f80_0000])), 1);
    assert_eq!(fails(&bits([0, 0x7fc0_0001, 0x3f80_0000])), 1);
    assert_eq!(fails(&bits([1 << 31, 0xffc0_0000, 0x3f80_0001])), 3);
    let zeros = compare(DType::Float32, &[-0.0], &[0.0], Rule::for_dtype(DType::Float32));
    assert_eq!((zeros.failing, zeros.max_ulps, zeros.bit_exact()), (0, Some(0), Some(false)));
}

#[test]
fn subnormal_values_are_measured_exactly() {
    for (dtype, least) in
        [(DType::Float32, 2_f64.powi(-149)), (DType::Float16, 2_f64.powi(-24)), (DType::Float64, 5e-324)]
    {
        let rule = Rule { small: 0.0, ..Rule::close(dtype, 0.0, 0.0) };
        let metrics = compare(dtype, &[least, -least, 0.0], &[2.0 * least, least, least], rule);
        assert_eq!(
            (metrics.failing, metrics.max_ulps, metrics.max_abs),
            (3, Some(2), 2.0 * least),
            "{dtype}"
        );
        assert_eq!(
            (metrics.relative_count, metrics.max_relative, metrics.dump.zeros),
            (3, 2.0, 1),
            "{dtype}"
        );
    }
}

#[test]
fn small_floats_pass_within_one_representable_value() {
    for (dtype, greatest) in
        [(DType::Float8E4M3FN, 0x7e), (DType::Float8E5M2, 0x7b), (DType::Float4E2M1, 0x7)]
    {
        let comparison = flat(dtype, 4, Rule::for_dtype(dtype));
        let golden = pack(dtype, &[greatest, 1, 0, 3]);
        let failing = |dump: [u64; 4]| comparison.full(&pack(dtype, &dump), &golden, 1).unwrap().failing;
        let minus = 1 << (dtype.bits() - 1);
        assert_eq!(failing([greatest - 1, minus, minus | 1, 4]), 0, "{dtype}");
        assert_eq!(failing([greatest - 2, minus | 1, 2, 5]), 4, "{dtype}");
    }
    // Without a negative zero, the neighbors of zero are the least numbers.
    for dtype in [DType::Float8E4M3FNUZ, DType::Float8E5M2FNUZ] {
        let comparison = flat(dtype, 4, Rule::for_dtype(dtype));
        let failing = |dump: [u8; 4]| comparison.full(&dump, &[0x7f, 0, 0, 0xff], 1).unwrap().failing;
        assert_eq!(failing([0x7e, 0x01, 0x81, 0xfe]), 0, "{dtype}");
        assert_eq!(failing([0x7d, 0x02, 0x82, 0x80]), 4, "{dtype}: NaN is no neighbor");
    }
    let powers = flat(DType::Float8E8M0FNU, 3, Rule::for_dtype(DType::Float8E8M0FNU));
    let failing = |dump: [u8; 3]| powers.full(&dump, &[0x7f, 0x80, 0xfe], 1).unwrap().failing;
    assert_eq!(failing([0x80, 0x7f, 0xfd]), 0, "neighbors are twice and half");
    assert_eq!(failing([0x81, 0x82, 0xff]), 3, "NaN is no neighbor");
    let infinite = flat(DType::Float8E5M2, 1, Rule::for_dtype(DType::Float8E5M2));
    assert_eq!(infinite.full(&[0x7c], &[0x7b], 1).unwrap().failing, 1, "infinity is no neighbor of a number");
}

#[test]
fn complex_numbers_are_judged_by_part() {
    let bytes = |parts: [f32; 6]| parts.map(f32::to_le_bytes).concat();
    let golden = bytes([1.0, 2.0, 0.0, -1000.0, f32::NAN, 5.0]);
    // The imaginary part of the second number is within its tolerance, its real part is not: the tolerance of a
    // part does not depend on the other part.
    let dump = bytes([1.0, 2.0, 1e-3, -1000.001, f32::NAN, 5.0]);
    let tensor = TensorType::new(DType::Complex64, &[3]);
    let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Complex64)).unwrap();
    assert_eq!(*comparison.rule(), Rule::for_dtype(DType::Float32));
    let metrics = comparison.full(&dump, &golden, 1).unwrap();
    assert_eq!((metrics.elements, metrics.measured, metrics.failing, metrics.differing), (6, 5, 1, Some(2)));
    assert_eq!((metrics.dump.nan, metrics.mismatched), (1, 0));
    assert_eq!(metrics.max_abs, f64::from(1e-3_f32));
    let worst = comparison.detail(&dump, &golden, 1).unwrap().first_failing.unwrap();
    assert_eq!((worst.coordinate, worst.index), (vec![1, 0], 1), "the index counts complex numbers");
    assert_eq!(worst.dump, Value::Float(1e-3_f32.into()));
    let one = |range: std::ops::Range<u64>| Vec::from_iter([range]);
    assert_eq!(comparison.failing(&dump, &golden, 1).unwrap(), one(1..2), "elements, not parts");
    let all = bytes([9.0, 2.0, 0.0, -1000.0, 1.0, 9.0]);
    assert_eq!(comparison.failing(&all, &golden, 1).unwrap(), [0..1, 2..3]);
    let next = bytes([1.0, 9.0, 9.0, 9.0, f32::NAN, 5.0]);
    assert_eq!(comparison.failing(&next, &golden, 1).unwrap(), one(0..2));

    let wide = TensorType::new(DType::Complex128, &[3]);
    assert!(Comparison::new(&tensor, &wide, Rule::for_dtype(DType::Complex64)).is_err());
    let wide_golden = [1.0, 2.0, 0.0, -1000.0, f64::NAN, 5.0].map(f64::to_le_bytes).concat();
    let across = Comparison::across_dtypes(&tensor, &wide, Rule::for_dtype(DType::Complex64)).unwrap();
    assert_eq!(across.full(&dump, &wide_golden, 1).unwrap().failing, 1);
    let real = TensorType::new(DType::Float32, &[3]);
    assert!(Comparison::across_dtypes(&tensor, &real, Rule::for_dtype(DType::Float32)).is_err());
}

#[test]
fn wide_integers_are_exact_beyond_the_precision_of_floats() {
    for dtype in [DType::Int64, DType::UInt64] {
        let golden = [1_u64 << 62, 5, 1 << 60, 7];
        let dump = [(1 << 62) + 1, 5, (1 << 60) + (1 << 54), 7 + (1 << 54) + 1];
        let (dump_bytes, golden_bytes) = (pack(dtype, &dump), pack(dtype, &golden));
        let exact = flat(dtype, 4, Rule::for_dtype(dtype)).full(&dump_bytes, &golden_bytes, 1).unwrap();
        assert_eq!((exact.failing, exact.max_ulps), (3, Some((1 << 54) + 1)), "{dtype}");
        // Both differences are equal in `f64`; the exact ones are not, and the greater is the worst.
        assert_eq!(exact.worst.unwrap().index, 3, "{dtype}");
        let within = Rule::close(dtype, 0.0, (1_u64 << 54) as f64);
        let metrics = flat(dtype, 4, within).full(&dump_bytes, &golden_bytes, 1).unwrap();
        assert_eq!(metrics.failing, 1, "{dtype}: one more than allowed is too much");
        let quick = flat(dtype, 4, within).quick(&dump_bytes, &golden_bytes, 1).unwrap();
        assert_eq!((quick.failing, quick.worst.unwrap().index), (1, 3), "{dtype}");
    }
}

#[test]
fn a_difference_beyond_the_range_of_f64_is_infinite_and_fails() {
    let metrics =
        compare(DType::Float64, &[f64::MAX, 1.0], &[-f64::MAX, 1.0], Rule::for_dtype(DType::Float64));
    assert_eq!((metrics.failing, metrics.mismatched, metrics.max_abs), (1, 0, f64::INFINITY));
    assert_eq!((metrics.worst.unwrap().index, metrics.cosine), (0, None));
}

#[test]
fn no_elements_are_well_defined() {
    for shape in [vec![0], vec![3, 0, 2], vec![0, 1 << 62, 1 << 62]] {
        for dtype in DType::ALL {
            let tensor = TensorType::new(dtype, &shape);
            let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(dtype)).unwrap();
            let metrics = comparison.full(&[], &[], 4).unwrap();
            assert_eq!((metrics.elements, metrics.measured, metrics.failing), (0, 0, 0));
            assert_eq!((metrics.max_abs, metrics.mean_abs, metrics.cosine), (0.0, None, None));
            assert_eq!((metrics.bit_exact(), metrics.failing_share()), (Some(true), 0.0));
            assert!(comparison.quick(&[], &[], 4).unwrap().passes());
            let detail = comparison.detail(&[], &[], 4).unwrap();
            assert!(detail.worst.is_empty() && detail.decades.is_empty() && detail.equal == 0);
        }
    }
}

#[test]
fn a_scalar_has_one_element_and_no_coordinate() {
    let tensor = TensorType::new(DType::Int8, &[]);
    let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Int8)).unwrap();
    let metrics = comparison.full(&[3], &[5], 1).unwrap();
    assert_eq!((metrics.elements, metrics.failing, metrics.worst.unwrap().coordinate), (1, 1, vec![]));
}

#[test]
fn the_nibble_after_a_last_odd_element_is_not_compared() {
    for dtype in [DType::Int4, DType::Float4E2M1] {
        let metrics = flat(dtype, 3, Rule::bitexact(dtype)).full(&[0x21, 0xf3], &[0x21, 0x03], 1).unwrap();
        assert_eq!((metrics.elements, metrics.failing, metrics.bit_exact()), (3, 0, Some(true)), "{dtype}");
    }
}

#[test]
fn different_shapes_dtypes_and_sizes_are_named_errors() {
    let tensor = |dtype, shape: &[u64]| TensorType::new(dtype, shape);
    let rule = Rule::for_dtype(DType::Float32);
    let refused = |dump: &TensorType, golden: &TensorType| Comparison::new(dump, golden, rule).unwrap_err();
    let ours = tensor(DType::Float32, &[2, 3]);
    let (row, flat_shape) = (tensor(DType::Float32, &[1, 3]), tensor(DType::Float32, &[6]));
    assert_eq!(refused(&ours, &row), CompareError::Shape { dump: vec![2, 3], golden: vec![1, 3] });
    assert!(matches!(refused(&ours, &flat_shape), CompareError::Shape { .. }));
    let half = tensor(DType::Float16, &[2, 3]);
    assert_eq!(refused(&ours, &half), CompareError::DType { dump: DType::Float32, golden: DType::Float16 });
    let whole = tensor(DType::Int32, &[2, 3]);
    assert!(matches!(Comparison::across_dtypes(&ours, &whole, rule), Err(CompareError::NotFloats { .. })));
    let huge = tensor(DType::Float32, &[1 << 40, 1 << 40]);
    assert!(matches!(refused(&huge, &huge), CompareError::TooLarge { .. }));

    let comparison = Comparison::new(&ours, &ours, rule).unwrap();
    let short = comparison.full(&[0; 24], &[0; 20], 1).unwrap_err();
    assert_eq!(short, CompareError::Size { side: SideName::Golden, expected: 24, actual: 20 });
    assert!(comparison.quick(&[0; 25], &[0; 24], 1).is_err());
}

#[test]
fn tolerances_must_be_nonnegative_numbers() {
    let tensor = TensorType::new(DType::Float32, &[1]);
    for (name, rule) in [
        ("rtol", Rule::close(DType::Float32, -1.0, 0.0)),
        ("atol", Rule::close(DType::Float32, 0.0, f64::NAN)),
        ("small", Rule { small: -0.5, ..Rule::bitexact(DType::Float32) }),
    ] {
        let refused = Comparison::new(&tensor, &tensor, rule).unwrap_err();
        assert!(matches!(refused, CompareError::Tolerance { name: named, .. } if named == name), "{refused}");
    }
    let anything = Rule {
        predicate: Predicate::Close { rtol: 0.0, atol: f64::INFINITY },
        ..Rule::for_dtype(DType::Float32)
    };
    assert!(compare(DType::Float32, &[1e30], &[-1e30], anything).passes());
}

#[test]
fn streams_reject_chunks_of_wrong_size_and_early_ends() {
    let comparison = flat(DType::Float32, 2000, Rule::for_dtype(DType::Float32));
    let mut stream = comparison.stream::<MetricsPass>();
    let chunk = |bytes| CompareError::Chunk { dump: bytes, golden: 8 };
    assert_eq!(stream.update(&[0; 12], &[0; 8]), Err(chunk(12)));
    assert_eq!(stream.update(&[0; 6], &[0; 8]), Err(chunk(6)));
    assert!(stream.update(&[0; 8004], &[0; 8004]).is_err(), "more than the tensor has");
    stream.update(&[0; 4000], &[0; 4000]).unwrap();
    assert_eq!(stream.finish(), Err(CompareError::Incomplete { first: 0, end: 1000, numel: 2000 }));

    assert!(matches!(comparison.part::<MetricsPass>(1000), Err(CompareError::PartStart { .. })));
    assert!(matches!(comparison.part::<MetricsPass>(2048), Err(CompareError::PartStart { .. })));
    let mut head = comparison.stream::<QuickPass>();
    head.update(&[0; 4000], &[0; 4000]).unwrap();
    let tail = comparison.part(1024).unwrap();
    assert_eq!(head.join(tail), Err(CompareError::NotAdjacent { end: 1000, first: 1024 }));

    let packed = flat(DType::Int4, 9, Rule::for_dtype(DType::Int4));
    let mut stream = packed.stream::<MetricsPass>();
    stream.update(&[0; 3], &[0; 3]).unwrap();
    stream.update(&[0; 2], &[0; 2]).unwrap();
    assert_eq!(stream.finish().unwrap().elements, 9);
}
