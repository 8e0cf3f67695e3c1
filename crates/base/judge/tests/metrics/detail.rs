//! The distribution of errors.

use tensortap_abi::DType;
use tensortap_judge::{Comparison, MAX_AXIS_BINS, Rule, TensorType, WORST_ELEMENTS};

use crate::sample::encode;

/// The detail of a zero golden and a dump that differs in some elements.
fn detail(shape: &[u64], wrong: &[(u64, f64)]) -> tensortap_judge::Detail {
    let numel = shape.iter().product::<u64>();
    let golden = vec![0.0; usize::try_from(numel).unwrap()];
    let mut dump = golden.clone();
    for (index, value) in wrong {
        dump[usize::try_from(*index).unwrap()] = *value;
    }
    let tensor = TensorType::new(DType::Float32, shape);
    let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float32)).unwrap();
    comparison.detail(&encode(DType::Float32, &dump), &encode(DType::Float32, &golden), 2).unwrap()
}

#[test]
fn a_wrong_last_tile_is_visible_on_its_axis() {
    // Columns 992 to 999 of 1000 are wrong in every row.
    let wrong: Vec<(u64, f64)> =
        (0..50).flat_map(|row| (992..1000).map(move |column| (row * 1000 + column, 2.0))).collect();
    let found = detail(&[50, 1000], &wrong);
    let [rows, columns] = &found.axes[..] else { panic!("two axes") };
    assert_eq!((rows.bin_width, columns.bin_width), (1, 16), "powers of two, so that tiles fill whole bins");
    assert_eq!(rows.failing, vec![8; 50]);
    assert_eq!(columns.failing.len(), 63);
    assert_eq!((columns.failing[62], columns.failing[..62].iter().sum::<u64>()), (400, 0));
    assert_eq!((columns.first, columns.last), (Some(992), Some(999)));
    assert_eq!((columns.max_error[62], columns.max_error[0]), (2.0, 0.0));
}

#[test]
fn bins_are_bounded_for_every_extent() {
    for extent in [1, 63, 64, 65, 100_000] {
        let found = detail(&[extent], &[(extent - 1, 1.0)]);
        assert!(found.axes[0].failing.len() as u64 <= MAX_AXIS_BINS);
        assert_eq!(found.axes[0].failing.last(), Some(&1), "{extent}");
    }
}

#[test]
fn the_worst_elements_come_first_and_are_limited() {
    let wrong: Vec<(u64, f64)> =
        (0..30_u32).map(|index| (index.into(), f64::from(index % 15) + 1.0)).collect();
    let nan = [(40, f64::NAN)];
    let found = detail(&[100], &[&wrong[..], &nan].concat());
    assert_eq!(found.worst.len(), WORST_ELEMENTS);
    let indices: Vec<u64> = found.worst.iter().map(|worst| worst.index).collect();
    assert_eq!(indices, [40, 14, 29, 13, 28, 12, 27, 11, 26, 10], "of equal errors, the first element");
    assert!(found.worst.iter().all(|worst| worst.fails));
    assert_eq!((found.worst[0].error, found.worst[1].error), (None, Some(15.0)));
    assert_eq!((found.equal, found.unmeasured), (69, 1));
}

#[test]
fn a_failing_element_is_worse_than_a_passing_one_with_a_greater_error() {
    let tensor = TensorType::new(DType::Float32, &[3]);
    let comparison = Comparison::new(&tensor, &tensor, Rule::close(DType::Float32, 0.1, 0.0)).unwrap();
    let (dump, golden) = ([1050.0, 2.0, 5.0], [1000.0, 1.0, 5.0]);
    let found =
        comparison.detail(&encode(DType::Float32, &dump), &encode(DType::Float32, &golden), 1).unwrap();
    let worst: Vec<(u64, bool)> = found.worst.iter().map(|worst| (worst.index, worst.fails)).collect();
    assert_eq!(worst, [(1, true), (0, false)], "an element without an error is not listed");
}

#[test]
fn decades_end_where_the_next_one_begins() {
    let tensor = TensorType::new(DType::Float64, &[7]);
    let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float64)).unwrap();
    let below_hundred = 100_f64.next_down();
    let errors = [1.0, 9.99, 10.0, below_hundred, 100.0, 1e-3, 0.0];
    let (dump, golden) = (encode(DType::Float64, &errors), encode(DType::Float64, &[0.0; 7]));
    let found = comparison.detail(&dump, &golden, 1).unwrap();
    let counted: Vec<(i32, u64)> =
        found.decades.iter().map(|decade| (decade.exponent, decade.count)).collect();
    assert_eq!(counted, [(-3, 1), (-2, 0), (-1, 0), (0, 2), (1, 2), (2, 1)]);
    let ends = encode(DType::Float64, &[5e-324, 1e300, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let found = comparison.detail(&ends, &golden, 1).unwrap();
    let decades = &found.decades;
    assert_eq!((decades[0].exponent, decades[0].count), (-50, 1));
    assert_eq!((decades[decades.len() - 1].exponent, decades[decades.len() - 1].count), (50, 1));
}
