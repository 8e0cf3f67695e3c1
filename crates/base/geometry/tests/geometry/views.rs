//! Compares layouts, view operations and iterators with plain enumeration.

use crate::reference::{PlainView, ValidOp, elem_bits, ops, view_pairs};
use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_geometry::{GeometryError, Layout, MAX_DIMS, MAX_VIEW_BYTES, dense_bytes};

/// A view as the list of its offsets in logical order. Operations select and reorder entries.
#[derive(Clone, Debug)]
struct OffsetList {
    shape: Vec<u64>,
    offsets: Vec<u64>,
}

impl OffsetList {
    fn at(&self, coords: &[u64]) -> u64 {
        let linear = coords.iter().zip(&self.shape).fold(0, |linear, (coord, size)| linear * size + coord);
        self.offsets[usize::try_from(linear).unwrap()]
    }

    /// The list of a view with this shape; `source` maps its coordinates to those of `self`.
    fn mapped(&self, shape: Vec<u64>, source: impl Fn(&[u64]) -> Vec<u64>) -> Self {
        let offsets = coords_of(&shape).iter().map(|coords| self.at(&source(coords))).collect();
        Self { shape, offsets }
    }

    fn apply(&self, op: ValidOp) -> Self {
        let mut shape = self.shape.clone();
        match op {
            ValidOp::SliceStep { dim, start, len, step } => {
                shape[dim] = len;
                self.mapped(shape, |coords| {
                    let mut source = coords.to_vec();
                    source[dim] = start.checked_add_signed(coords[dim].cast_signed() * step).unwrap();
                    source
                })
            }
            ValidOp::Transpose { a, b } => {
                shape.swap(a, b);
                self.mapped(shape, |coords| {
                    let mut source = coords.to_vec();
                    source.swap(a, b);
                    source
                })
            }
            ValidOp::Select { dim, index } => {
                shape.remove(dim);
                self.mapped(shape, |coords| {
                    let mut source = coords.to_vec();
                    source.insert(dim, index);
                    source
                })
            }
            ValidOp::Broadcast { dim, len } => {
                shape[dim] = len;
                self.mapped(shape, |coords| {
                    let mut source = coords.to_vec();
                    source[dim] = 0;
                    source
                })
            }
        }
    }
}

/// All coordinates of a shape in row-major order.
fn coords_of(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |prefixes, &size| {
        let extend = |prefix: Vec<u64>| (0..size).map(move |coord| [&prefix[..], &[coord]].concat());
        prefixes.into_iter().flat_map(extend).collect()
    })
}

fn as_signed(offsets: impl Iterator<Item = u64>) -> Vec<i64> {
    offsets.map(|offset| i64::try_from(offset).unwrap()).collect()
}

proptest! {
    #![proptest_config(Config { cases: 3_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn view_operations_select_the_right_elements(
        shape in prop::collection::vec(1..=6u64, 0..=4),
        steps in ops(6),
    ) {
        let mut layout = Layout::contiguous(&shape, 16).unwrap();
        let mut listed = OffsetList { shape: shape.clone(), offsets: (0..shape.iter().product()).collect() };
        for op in &steps {
            let Some(valid) = op.for_shape(layout.shape()) else { continue };
            layout = valid.apply(&layout);
            listed = listed.apply(valid);
            prop_assert_eq!(layout.shape(), &listed.shape[..]);
            prop_assert!(layout.offsets().eq(listed.offsets.iter().copied()), "{:?} of {:?}", valid, layout);
        }
    }

    #[test]
    fn offsets_follow_logical_order((view, _) in view_pairs()) {
        let layout = view.layout();
        let expected = view.offsets();
        prop_assert_eq!(layout.numel(), expected.len() as u64);
        prop_assert_eq!(layout.offsets().size_hint(), (expected.len(), Some(expected.len())));
        prop_assert_eq!(&as_signed(layout.offsets()), &expected);
        let by_coords = coords_of(&view.shape).into_iter().map(|coords| layout.offset_of(&coords));
        prop_assert_eq!(&as_signed(by_coords), &expected);
    }

    #[test]
    fn runs_are_the_offsets_in_the_longest_equal_pieces(
        (any, _) in view_pairs(),
        shape in prop::collection::vec(1..=5u64, 1..=4),
        cuts in ops(3),
    ) {
        let tensor = Layout::contiguous(&shape, 8).unwrap();
        for layout in [any.layout(), crate::reference::derived(&tensor, &cuts)] {
            let joined = layout.runs().flat_map(|run| run.offset..run.offset + run.len);
            prop_assert!(joined.eq(layout.offsets()));
            prop_assert!(layout.runs().all(|run| run.len == layout.dense_inner_len()));
            prop_assert_eq!(layout.dense_inner_len(), longest_inner_block(&layout));
            prop_assert_eq!(layout.is_dense_inner(), layout.dense_inner_len() > 1);
            prop_assert_eq!(layout.is_contiguous(), layout.runs().count() <= 1);
        }
    }

    #[test]
    fn element_and_byte_ranges_are_those_of_the_touched_elements((view, _) in view_pairs()) {
        let view = PlainView { base: 0, ..view };
        let layout = view.layout();
        let offsets = as_signed(layout.offsets());
        let extremes = offsets.iter().min().zip(offsets.iter().max());
        let range = layout.element_range().map(|(low, high)| (low.cast_signed(), high.cast_signed()));
        prop_assert_eq!(range, extremes.map(|(low, high)| (*low, *high)));

        let bytes = view.bytes();
        let end = bytes.iter().max().map_or(0, |last| last + 1);
        prop_assert_eq!(layout.byte_range(), bytes.iter().min().copied().unwrap_or(0)..end);
        prop_assert_eq!(layout.fits(end), Ok(()));
        if end > 0 {
            let refusal = GeometryError::PastBuffer { needed_bytes: end, buffer_bytes: end - 1 };
            prop_assert_eq!(layout.fits(end - 1), Err(refusal));
        }
    }

    #[test]
    fn dense_bytes_exist_exactly_for_views_without_gaps((view, _) in view_pairs()) {
        let layout = PlainView { base: 0, ..view }.layout();
        let dense = dense_bytes(layout.shape(), layout.strides(), layout.start_offset(), layout.elem_bits());
        let has_any = layout.is_contiguous() && layout.numel() > 0 && layout.elem_bits() >= 8;
        prop_assert_eq!(dense, has_any.then(|| layout.byte_range()));
    }

    #[test]
    fn reshape_keeps_the_logical_order(sizes in prop::collection::vec(1..=4u64, 1..=4), from in 0..5u64, bits in elem_bits()) {
        let numel: u64 = sizes.iter().product();
        let flat = Layout::contiguous(&[numel + from], bits).unwrap().slice(0, from, numel).unwrap();
        let shaped = flat.reshape(&sizes).unwrap();
        prop_assert_eq!(shaped.shape(), &sizes[..]);
        prop_assert!(shaped.offsets().eq(flat.offsets()));
        prop_assert_eq!(shaped.reshape(&[numel]).unwrap(), flat);
    }
}

/// The largest product of trailing sizes for which every block of that many elements is contiguous.
fn longest_inner_block(layout: &Layout) -> u64 {
    let offsets: Vec<u64> = layout.offsets().collect();
    let blocks = (0..=layout.ndims()).map(|dim| layout.shape()[dim..].iter().product::<u64>());
    let consecutive = |len: u64| {
        offsets
            .chunks(usize::try_from(len.max(1)).unwrap())
            .all(|block| block.windows(2).all(|w| w[1] == w[0] + 1))
    };
    if offsets.is_empty() { 0 } else { blocks.filter(|&len| consecutive(len)).max().unwrap() }
}

#[test]
fn a_view_without_dimensions_is_one_element() {
    let scalar = Layout::new(&[], &[], 7, 64).unwrap();
    assert_eq!((scalar.numel(), scalar.byte_range()), (1, 56..64));
    assert!(scalar.is_contiguous() && scalar.offsets().eq([7]));
}

#[test]
fn an_empty_view_touches_nothing_at_any_offset() {
    let empty = Layout::new(&[u64::MAX, 0, 3], &[i64::MIN, 1, i64::MAX], u64::MAX, 32).unwrap();
    assert_eq!((empty.numel(), empty.element_range(), empty.offsets().next()), (0, None, None));
    assert_eq!((empty.fits(0), empty.dense_inner_len(), empty.runs().next()), (Ok(()), 0, None));
    assert!(empty.slice(0, 5, 1).is_ok() && empty.select(0, 5).is_ok() && empty.reshape(&[0]).is_ok());
}

#[test]
fn constructors_reject_views_that_cannot_be_addressed() {
    use GeometryError as E;
    let ones = [1u64; MAX_DIMS + 1];
    assert_eq!(Layout::contiguous(&ones, 8), Err(E::TooManyDims { ndims: 9 }));
    assert_eq!(Layout::new(&[2], &[], 0, 8), Err(E::RankMismatch { shape_len: 1, strides_len: 0 }));
    assert_eq!(Layout::contiguous(&[2], 12), Err(E::UnsupportedElemBits { elem_bits: 12 }));
    assert_eq!(Layout::contiguous(&[1 << 32, 1 << 32], 8), Err(E::NumelOverflow));
    assert_eq!(Layout::new(&[3], &[-2], 3, 8), Err(E::BelowBuffer { lowest: -1 }));
    let largest = Layout::contiguous(&[MAX_VIEW_BYTES / 8], 64).unwrap();
    assert_eq!(largest.byte_range().end, MAX_VIEW_BYTES);
    let highest = i128::from(MAX_VIEW_BYTES / 8);
    assert_eq!(
        Layout::contiguous(&[MAX_VIEW_BYTES / 8 + 1], 64),
        Err(E::TooLarge { highest, elem_bits: 64 })
    );
    let extreme = Layout::new(&[u64::MAX], &[i64::MIN], u64::MAX, 64);
    assert!(matches!(extreme, Err(E::BelowBuffer { .. })));
    let extreme = Layout::new(&[u64::MAX], &[i64::MAX], u64::MAX, 64);
    assert!(matches!(extreme, Err(E::TooLarge { .. })));
}

#[test]
fn dense_bytes_are_none_for_invalid_layouts() {
    assert_eq!(dense_bytes(&[1 << 40, 1 << 40], &[1 << 40, 1], 0, 8), None, "too many elements");
    assert_eq!(dense_bytes(&[2], &[1], MAX_VIEW_BYTES - 1, 8), None, "past every buffer");
    assert_eq!(dense_bytes(&[1], &[1], u64::MAX, 64), None, "past every address");
    assert_eq!(dense_bytes(&[1; MAX_DIMS + 1], &[1; MAX_DIMS + 1], 0, 8), None, "too many dimensions");
    assert_eq!(dense_bytes(&[2], &[1], 0, 24), None, "an unsupported width");
    assert_eq!(dense_bytes(&[2, 2], &[2], 0, 8), None, "a missing stride");
}

#[test]
fn view_operations_name_what_they_reject() {
    use GeometryError as E;
    let matrix = Layout::contiguous(&[4, 6], 32).unwrap();
    let past = |dim, size, start, len, step| Err(E::SliceOutOfRange { dim, size, start, len, step });
    assert_eq!(matrix.slice(1, 4, 3), past(1, 6, 4, 3, 1));
    assert_eq!(matrix.slice(1, 7, 0), past(1, 6, 7, 0, 1));
    assert_eq!(matrix.slice_step(0, 2, 3, -2), past(0, 4, 2, 3, -2));
    assert_eq!(matrix.slice_step(0, 4, 1, -1), past(0, 4, 4, 1, -1));
    assert_eq!(matrix.slice_step(0, 0, 1, 0), Err(E::ZeroStep { dim: 0 }));
    let overflow = E::StrideOverflow { dim: 0, stride: 6, step: i64::MAX };
    assert_eq!(matrix.slice_step(0, 0, 1, i64::MAX), Err(overflow));
    assert_eq!(matrix.transpose(0, 2), Err(E::NoSuchDim { dim: 2, ndims: 2 }));
    assert_eq!(matrix.select(1, 6), Err(E::IndexOutOfRange { dim: 1, size: 6, index: 6 }));
    assert_eq!(matrix.broadcast(0, 2), Err(E::NotBroadcastable { dim: 0, size: 4 }));
    assert_eq!(matrix.reshape(&[5, 5]), Err(E::NumelMismatch { numel: 24, wanted: 25 }));
    assert_eq!(matrix.transpose(0, 1).unwrap().reshape(&[24]), Err(E::NotContiguous));
    let repeated = matrix.slice(0, 0, 1).unwrap().broadcast(0, u64::MAX);
    assert_eq!(repeated, Err(E::NumelOverflow));
    assert!(matrix.slice(1, 6, 0).is_ok());
    assert_eq!(
        matrix.slice(1, 4, 3).unwrap_err().to_string(),
        "slice of 3 from 4 by 1 leaves dimension 1 of size 6: shorten it"
    );
}

#[test]
#[should_panic(expected = "coordinate 6 is outside dimension 1 of size 6")]
fn a_coordinate_outside_its_dimension_panics() {
    let _ = Layout::contiguous(&[4, 6], 32).unwrap().offset_of(&[0, 6]);
}
