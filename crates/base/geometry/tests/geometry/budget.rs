//! The step budget: never reached for views of one tensor, and enforced for others.

use crate::reference::{derived, elem_bits, ops};
use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_geometry::{Footprint, Layout, Overlap};

fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(2..=9u64, 5..=8),
        // All sizes odd is the worst case for 4-bit elements: every stride is odd.
        prop::collection::vec((1..=4u64).prop_map(|half| 2 * half + 1), 5..=8),
        prop::collection::vec(2..=3_000u64, 2..=4),
        prop::collection::vec((1..=800u64).prop_map(|half| 2 * half + 1), 2..=4),
    ]
}

/// Slices every dimension with a step, so that as few dimensions as possible merge.
fn cut_everywhere(tensor: &Layout, cuts: &[(u64, u64, u64)]) -> Layout {
    (0..tensor.ndims()).fold(*tensor, |view, dim| {
        let size = view.shape()[dim];
        let (start, step, len) = cuts[dim];
        let start = start % size.min(3);
        let step = if step % 3 == 0 { 1 } else { 1 + step / 3 % size.div_ceil(3) };
        let room = (size - 1 - start) / step + 1;
        let len = if len % 4 == 0 { 1 + len / 4 % room } else { room };
        view.slice_step(dim, start, len, i64::try_from(step).unwrap()).unwrap()
    })
}

proptest! {
    #![proptest_config(Config { cases: 6_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn views_of_one_tensor_never_exhaust_the_budget(
        shape in shapes(),
        bits in elem_bits(),
        a_ops in ops(8),
        b_ops in ops(8),
    ) {
        let tensor = Layout::contiguous(&shape, bits).unwrap();
        let a = Footprint::new(&derived(&tensor, &a_ops), 0);
        let b = Footprint::new(&derived(&tensor, &b_ops), 0);
        prop_assert_ne!(a.overlap_exact(&b), Overlap::Assumed);
    }

    #[test]
    fn tensors_stepped_in_every_dimension_never_exhaust_the_budget(
        shape in shapes(),
        bits in elem_bits(),
        a_cuts in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40), 8),
        b_cuts in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40), 8),
    ) {
        let tensor = Layout::contiguous(&shape, bits).unwrap();
        let a = Footprint::new(&cut_everywhere(&tensor, &a_cuts), 0);
        let b = Footprint::new(&cut_everywhere(&tensor, &b_cuts), 0);
        prop_assert_ne!(a.overlap_exact(&b), Overlap::Assumed);
    }
}

#[test]
fn unrelated_strides_exhaust_the_budget_and_count_as_overlap() {
    let a = Layout::new(
        &[30; 8],
        &[100_003, 110_017, 120_011, 130_003, 140_009, 150_001, 160_001, 170_003],
        0,
        8,
    );
    let b = Layout::new(
        &[30; 8],
        &[100_019, 110_023, 120_017, 130_009, 140_053, 150_011, 160_009, 170_021],
        7_919,
        8,
    );
    let (a, b) = (Footprint::new(&a.unwrap(), 0), Footprint::new(&b.unwrap(), 0));
    assert_eq!(a.overlap_exact(&b), Overlap::Assumed);
    assert!(a.overlaps(&b));
}
