//! Compares overlap and cover with sets of bytes.

use crate::reference::{PlainView, derived, elem_bits, ops, view_pairs};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use tensortap_geometry::{Footprint, Layout, Overlap, covers, overlap_exact, overlaps};

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

fn footprints(a: &PlainView, b: &PlainView) -> (Footprint, Footprint) {
    (Footprint::new(&a.layout(), a.base), Footprint::new(&b.layout(), b.base))
}

/// Checks every answer about a pair, in both directions.
fn check_pair(a: &PlainView, b: &PlainView) -> Result<(), TestCaseError> {
    let (a_bytes, b_bytes) = (a.bytes(), b.bytes());
    let shared = !a_bytes.is_disjoint(&b_bytes);
    let expected = if shared { Overlap::Yes } else { Overlap::No };
    prop_assert_eq!(overlap_exact(&a.layout(), a.base, &b.layout(), b.base), expected);
    prop_assert_eq!(overlap_exact(&b.layout(), b.base, &a.layout(), a.base), expected);
    prop_assert_eq!(overlaps(&a.layout(), a.base, &b.layout(), b.base), shared);

    let (outer, inner) = footprints(a, b);
    let contained = b_bytes.is_subset(&a_bytes);
    prop_assert!(!outer.covers(&inner) || contained, "claims to cover bytes it does not touch");
    if outer.is_dense() && !outer.is_empty() {
        prop_assert_eq!(outer.covers(&inner), contained, "a dense footprint knows exactly what it covers");
    }
    prop_assert!(outer.covers(&outer));
    Ok(())
}

proptest! {
    #![proptest_config(config(12_000))]

    #[test]
    fn two_views_overlap_exactly_if_they_share_a_byte((a, b) in view_pairs()) {
        check_pair(&a, &b)?;
    }

    #[test]
    fn footprint_bounds_and_density_describe_the_bytes((a, _) in view_pairs()) {
        let bytes = a.bytes();
        let footprint = Footprint::new(&a.layout(), a.base);
        prop_assert_eq!(footprint.is_empty(), bytes.is_empty());
        if let (Some(first), Some(last)) = (bytes.iter().min(), bytes.iter().max()) {
            prop_assert_eq!((footprint.start(), footprint.span_bytes()), (*first, last - first + 1));
            // Dense is exact, sparse is not: dimensions may fill each other's gaps in undetected ways.
            prop_assert!(!footprint.is_dense() || bytes.len() as u64 == footprint.span_bytes());
        }
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn views_of_one_tensor_overlap_exactly_if_they_share_a_byte(
        shape in prop::collection::vec(1..=7u64, 1..=4),
        bits in elem_bits(),
        a_ops in ops(6),
        b_ops in ops(6),
    ) {
        let tensor = Layout::contiguous(&shape, bits).unwrap();
        let a = PlainView::of(&derived(&tensor, &a_ops), 0x1000);
        let b = PlainView::of(&derived(&tensor, &b_ops), 0x1000);
        check_pair(&a, &b)?;
    }

    #[test]
    fn equal_layouts_cover_each_other_only_at_the_same_address((a, _) in view_pairs(), shift in 0..3u64) {
        let layout = a.layout();
        let expected = shift == 0 || layout.numel() == 0;
        prop_assert_eq!(covers(&layout, 100, &layout, 100 + shift), expected);
        prop_assert_eq!(covers(&layout, 100 + shift, &layout, 100), expected);
    }

    #[test]
    fn blocks_of_one_tensor_cover_exactly_the_blocks_inside_them(
        shape in prop::array::uniform3(1..=7u64),
        // 4-bit rows that end inside a byte are the documented exception.
        bits in prop::sample::select(vec![8u32, 16, 32, 64]),
        outer_cuts in prop::array::uniform3((0..3u64, 0..3u64)),
        inner_cuts in prop::array::uniform3((0..4u64, 0..4u64)),
    ) {
        let tensor = Layout::contiguous(&shape, bits).unwrap();
        let outer = PlainView::of(&block(&tensor, &outer_cuts), 64);
        let inner = PlainView::of(&block(&tensor, &inner_cuts), 64);
        let contained = inner.bytes().is_subset(&outer.bytes());
        prop_assert_eq!(covers(&outer.layout(), 64, &inner.layout(), 64), contained);
    }
}

/// The tensor without some first and last indices of each dimension; at least one index remains.
fn block(tensor: &Layout, cuts: &[(u64, u64)]) -> Layout {
    cuts.iter().enumerate().fold(*tensor, |view, (dim, &(before, after))| {
        let size = view.shape()[dim];
        let before = before.min(size - 1);
        view.slice(dim, before, (size - before).saturating_sub(after).max(1)).unwrap()
    })
}

/// Percentage of generated pairs for which `holds` is true.
fn percent_of_pairs(holds: impl Fn(&PlainView, &PlainView) -> bool) -> u32 {
    let mut runner = TestRunner::deterministic();
    let draws = 2_000;
    let hits = (0..draws).filter(|_| {
        let (a, b) = view_pairs().new_tree(&mut runner).unwrap().current();
        holds(&a, &b)
    });
    u32::try_from(hits.count()).unwrap() * 100 / draws
}

#[test]
fn generated_pairs_have_both_outcomes_often() {
    let yes = percent_of_pairs(|a, b| !a.bytes().is_disjoint(&b.bytes()));
    assert!((11..=89).contains(&yes), "{yes} % of pairs overlap");
}

#[test]
fn generated_pairs_are_often_disjoint_although_their_spans_meet() {
    let interleaved = percent_of_pairs(|a, b| {
        let (a_bytes, b_bytes) = (a.bytes(), b.bytes());
        let spans_meet =
            a_bytes.iter().min() <= b_bytes.iter().max() && b_bytes.iter().min() <= a_bytes.iter().max();
        !a_bytes.is_empty() && !b_bytes.is_empty() && spans_meet && a_bytes.is_disjoint(&b_bytes)
    });
    assert!(interleaved > 10, "{interleaved} % of pairs interleave");
}

#[test]
fn halves_of_one_byte_overlap_and_neighboring_bytes_do_not() {
    let elem = |index| Layout::new(&[], &[], index, 4).unwrap();
    assert!(overlaps(&elem(2), 0, &elem(3), 0));
    assert!(!overlaps(&elem(3), 0, &elem(4), 0));
}

#[test]
fn four_bit_columns_of_an_odd_row_share_bytes_across_rows() {
    // Row 1 starts in the high half of byte 2, whose low half is the last column of row 0.
    let matrix = Layout::contiguous(&[3, 5], 4).unwrap();
    let column = |index| matrix.select(1, index).unwrap();
    assert!(overlaps(&column(0), 0, &column(4), 0));
    assert!(!overlaps(&column(1), 0, &column(3), 0));
}

#[test]
fn unaligned_bases_meet_inside_an_element() {
    let column = Layout::new(&[4], &[4], 0, 32).unwrap();
    assert!(overlaps(&column, 0, &column, 3));
    assert!(!overlaps(&column, 0, &column, 4));
}

#[test]
fn a_view_whose_dimensions_fuse_out_of_order_covers_itself() {
    let view = Layout::new(&[2, 4, 2], &[4, -3, -12], 21, 4).unwrap();
    assert!(covers(&view, 0, &view, 0));
}

#[test]
fn empty_views_overlap_nothing_and_are_covered_by_anything() {
    let empty = Layout::contiguous(&[3, 0], 32).unwrap();
    let full = Layout::contiguous(&[9], 32).unwrap();
    assert!(
        !overlaps(&empty, 4, &full, 0) && !overlaps(&full, 0, &empty, 4) && !overlaps(&empty, 0, &empty, 0)
    );
    assert!(covers(&full, 0, &empty, 1 << 40) && !covers(&empty, 0, &full, 0));
}

#[test]
fn buffers_at_the_top_of_the_address_space_are_compared_without_overflow() {
    let row = Layout::contiguous(&[8], 64).unwrap();
    let low_half = row.slice(0, 0, 4).unwrap();
    let base = u64::MAX - 63;
    assert!(overlaps(&row, base, &low_half, base) && covers(&row, base, &low_half, base));
    assert!(!overlaps(&row, base, &row, 0) && !overlaps(&row, base, &row, 1 << 63));
}
