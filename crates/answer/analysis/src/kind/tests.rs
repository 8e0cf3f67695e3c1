use tensortap_abi::DType;
use tensortap_judge::{Rule, Side};
use tensortap_values::encode_block;

use super::{ComparedValues, ErrorRegion, Relation, relation};

/// Two tensors of a dtype: actual and expected values.
fn values_of(dtype: DType, shape: &[u64], dump: &[f64], golden: &[f64]) -> ComparedValues {
    let bytes = |values: &[f64]| {
        let mut bytes = vec![0; (values.len() * dtype.bits() as usize).div_ceil(8)];
        encode_block(dtype, values, &mut bytes);
        bytes
    };
    let (dump, golden) =
        (Side::of_bytes(dtype, shape, bytes(dump)), Side::of_bytes(dtype, shape, bytes(golden)));
    ComparedValues::read(&dump, &golden, Rule::for_dtype(dtype)).expect("in memory").expect("of one shape")
}

fn kind(dtype: DType, shape: &[u64], dump: &[f64], golden: &[f64]) -> (Relation, ErrorRegion) {
    let values = values_of(dtype, shape, dump, golden);
    let spot = ErrorRegion::of(&values.failing, values.dump.len(), &values.shape);
    (relation::of(&values), spot)
}

/// Values that are all different.
fn golden(count: usize) -> Vec<f64> {
    (0..count).map(|at| ((at * 37 + 11) % 101) as f64 / 8.0 - 6.0).collect()
}

#[test]
fn a_relation_that_holds_for_all_elements_is_found() {
    let right = golden(24);
    let made = |change: &dyn Fn(usize, f64) -> f64| -> Relation {
        let dump: Vec<f64> = right.iter().enumerate().map(|(at, &value)| change(at, value)).collect();
        kind(DType::Float32, &[4, 6], &dump, &right).0
    };
    assert_eq!(made(&|_, value| -value), Relation::Sign);
    assert_eq!(made(&|_, _| f64::NAN), Relation::Nan);
    assert_eq!(made(&|at, value| if at % 5 == 0 { f64::NAN } else { value }), Relation::Nan);
    assert_eq!(made(&|_, value| value.signum() * f64::INFINITY), Relation::Infinite);
    assert_eq!(
        made(&|at, value| [f64::NAN, f64::INFINITY, -value][at % 3]),
        Relation::NotFinite { nan: 8, infinite: 8 }
    );
    let (mut dump, mut right_and_infinite) =
        (right.iter().map(|value| -value).collect::<Vec<_>>(), right.clone());
    (dump[3], right_and_infinite[3]) = (f64::NEG_INFINITY, f64::INFINITY);
    assert_eq!(kind(DType::Float32, &[4, 6], &dump, &right_and_infinite).0, Relation::Sign);
    assert_eq!(made(&|_, _| 0.0), Relation::Zero);
    assert_eq!(made(&|_, _| 2.5), Relation::Constant(2.5));
    assert_eq!(made(&|_, value| value * 2.0), Relation::Scaled(2.0));
    assert_eq!(made(&|_, value| value + 0.5), Relation::Offset(0.5));
    assert_eq!(made(&|at, _| right[(at + 1).min(23)]), Relation::Shifted(1));
    assert_eq!(made(&|at, _| right[at.saturating_sub(3)]), Relation::Shifted(-3));
    assert_eq!(made(&|at, _| right[23 - at]), Relation::Moved);
    let near = made(&|at, value| value * (1.0 + (at % 3 + 1) as f64 * 1e-3));
    assert!(matches!(near, Relation::Near(share) if (share - 3e-3).abs() < 1e-6), "{near:?}");
    assert_eq!(made(&|at, value| value + (at * at % 7 + 1) as f64), Relation::Other);
    // Transposed: four columns of six.
    assert_eq!(made(&|at, _| right[at % 4 * 6 + at / 4]), Relation::Transposed);
}

#[test]
fn a_relation_that_may_hold_by_chance_is_not_reported() {
    let (one, same) = (golden(24), [3.0; 8]);
    let two = |dump: [f64; 2], golden: [f64; 2]| kind(DType::Float32, &[2], &dump, &golden).0;
    assert_eq!(two([4.0, 6.0], [2.0, 3.0]), Relation::Other);
    assert_eq!(two([-2.0, -3.0], [2.0, 3.0]), Relation::Sign);
    assert_eq!(kind(DType::Float32, &[8], &[6.0; 8], &same).0, Relation::Other);
    // One exception is enough.
    let mut dump: Vec<f64> = one.iter().map(|value| value * 2.0).collect();
    dump[7] += 0.25;
    assert_eq!(kind(DType::Float32, &[24], &dump, &one).0, Relation::Other);
}

#[test]
fn integer_overflow_is_distinguished_from_other_errors() {
    let right: Vec<f64> = (0..16).map(f64::from).collect();
    let wrapped: Vec<f64> = right.iter().map(|value| value - 32_768.0).collect();
    assert_eq!(kind(DType::Int16, &[16], &wrapped, &right).0, Relation::Wrapped);
    let unsigned: Vec<f64> = right.iter().map(|value| value + 128.0).collect();
    assert_eq!(kind(DType::UInt8, &[16], &unsigned, &right).0, Relation::Wrapped);
    assert_eq!(kind(DType::Int32, &[16], &wrapped, &right).0, Relation::Offset(-32_768.0));
}

#[test]
fn the_region_of_wrong_elements_is_described() {
    let right = golden(24);
    let spot = |shape: &[u64], wrong: &dyn Fn(usize) -> bool| {
        let damaged = |(at, &value): (usize, &f64)| if wrong(at) { value + 1.0 + at as f64 } else { value };
        let dump: Vec<f64> = right.iter().enumerate().map(damaged).collect();
        kind(DType::Float32, shape, &dump, &right).1
    };
    let axis =
        |axis, extent, first, last, step| ErrorRegion::Axis { axis, axes: 2, extent, first, last, step };
    assert_eq!(spot(&[4, 6], &|_| true), ErrorRegion::Everywhere);
    assert_eq!(spot(&[4, 6], &|at| at == 23), ErrorRegion::One { coordinate: vec![3, 5], is_last: true });
    assert_eq!(spot(&[4, 6], &|at| at == 8), ErrorRegion::One { coordinate: vec![1, 2], is_last: false });
    assert_eq!(spot(&[4, 6], &|at| at >= 18), axis(0, 4, 3, 3, 1));
    assert_eq!(spot(&[4, 6], &|at| at / 6 == 1 || at / 6 == 2), axis(0, 4, 1, 2, 1));
    assert_eq!(spot(&[4, 6], &|at| at % 6 == 0), axis(1, 6, 0, 0, 1));
    assert_eq!(spot(&[4, 6], &|at| at % 2 == 1), axis(1, 6, 1, 5, 2));
    assert_eq!(spot(&[24], &|at| at >= 20), ErrorRegion::Range { first: 20, last: 23, to_end: true });
    assert_eq!(
        spot(&[24], &|at| (3..9).contains(&at)),
        ErrorRegion::Range { first: 3, last: 8, to_end: false }
    );
    assert_eq!(spot(&[24], &|at| at % 8 == 5), ErrorRegion::Every { step: 8, first: 5 });
    let in_box = |at: usize| (1..3).contains(&(at / 6)) && (2..5).contains(&(at % 6));
    assert_eq!(spot(&[4, 6], &in_box), ErrorRegion::Block(vec![(1, 2), (2, 4)]));
    assert_eq!(spot(&[4, 6], &|at| [0, 9, 14].contains(&at)), ErrorRegion::Scattered(vec![(0, 2), (0, 3)]));
}

#[test]
fn hostile_shapes_are_rejected() {
    let side = |shape: &[u64]| Side::of_bytes(DType::Float32, shape, vec![0; 8]);
    let read =
        |shape: &[u64]| ComparedValues::read(&side(shape), &side(shape), Rule::for_dtype(DType::Float32));
    assert!(read(&[u64::MAX, 3]).expect("no file").is_none());
    assert!(read(&[u64::MAX]).expect("no file").is_none());
    assert!(read(&[0]).expect("no file").is_some_and(|values| values.failing.is_empty()));
}
