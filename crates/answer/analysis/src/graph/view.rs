//! The memory of tensors: as views, and as contiguous pieces counted in half-bytes, because the smallest
//! element has four bits.

use std::collections::BTreeMap;

use tensortap_format::Argument;
use tensortap_geometry::{Footprint, Layout};

/// A tensor in device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorView {
    /// The view.
    pub layout: Layout,
    /// Device address of the buffer.
    pub address: u64,
    /// The bytes that the view covers.
    pub footprint: Footprint,
}

impl TensorView {
    /// A view of a buffer at an address.
    #[must_use]
    pub fn new(layout: Layout, address: u64) -> TensorView {
        TensorView { layout, address, footprint: Footprint::new(&layout, address) }
    }

    /// The view of an argument, if the dump has its address.
    #[must_use]
    pub fn of(arg: Argument<'_>) -> Option<TensorView> {
        let is_somewhere = arg.address != 0 && !arg.is_scalar();
        let layout = Layout::new(arg.shape(), arg.strides(), arg.start_offset, arg.dtype.bits()).ok();
        layout.filter(|_| is_somewhere).map(|layout| TensorView::new(layout, arg.address))
    }

    /// Whether two views share memory: a byte, or a half-byte if both have 4-bit elements.
    #[must_use]
    pub fn shares(&self, other: &TensorView) -> bool {
        let has_halves = |place: &TensorView| place.layout.elem_bits() < 8;
        let apart = || {
            let (own, theirs) = pieces(self).zip(pieces(other))?;
            Some(!Ranges::of(&own).meets(&theirs))
        };
        self.footprint.overlaps(&other.footprint)
            && !(has_halves(self) && has_halves(other) && apart().unwrap_or(false))
    }

    /// Whether the view is known to cover both halves of each of its bytes.
    #[must_use]
    pub(super) fn fills_bytes(&self) -> bool {
        let TensorView { layout, .. } = self;
        layout.elem_bits() >= 8
            || layout.is_contiguous() && layout.start_offset() % 2 == 0 && layout.numel() % 2 == 0
    }

    /// Whether two views have the same elements in the same order.
    #[must_use]
    pub fn is_same_view(&self, other: &TensorView) -> bool {
        let start = |p: &TensorView| {
            let bits = u128::from(p.layout.start_offset()) * u128::from(p.layout.elem_bits());
            u128::from(p.address) * 8 + bits
        };
        let TensorView { layout, .. } = self;
        start(self) == start(other)
            && layout.elem_bits() == other.layout.elem_bits()
            && layout.shape() == other.layout.shape()
            && layout.strides() == other.layout.strides()
            || self.footprint == other.footprint
                && layout.is_contiguous()
                && other.layout.is_contiguous()
                && layout.elem_bits() >= 8
                && other.layout.elem_bits() >= 8
    }
}

/// Views with more pieces are not split.
const MAX_PIECES: u64 = 1 << 22;

/// A contiguous part of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    /// First half-byte in memory.
    pub start: u128,
    /// The half-byte after the last.
    pub end: u128,
    /// Position in the logical content.
    pub at: u128,
}

/// An upper bound on the number of pieces of a view.
pub(crate) fn piece_count(place: &TensorView) -> usize {
    let pieces = place.layout.numel().checked_div(place.layout.dense_inner_len()).unwrap_or(0);
    usize::try_from(pieces).unwrap_or(usize::MAX)
}

/// Estimated cost of a check whether two views share memory. Two views with gaps need a search.
pub(crate) fn steps_to_share(one: &TensorView, other: &TensorView) -> usize {
    if one.footprint.is_dense() && other.footprint.is_dense() { 1 } else { STEPS_OF_SEARCH }
}

/// Most searches end early; the longest takes about this many times as long as looking at one task.
const STEPS_OF_SEARCH: usize = 64;

/// The pieces of a view in memory order; `None` if there are too many.
pub(crate) fn pieces(place: &TensorView) -> Option<Vec<Piece>> {
    let layout = &place.layout;
    let unit = u128::from(layout.elem_bits() / 4);
    let run = layout.dense_inner_len();
    if layout.numel().checked_div(run).unwrap_or(0) > MAX_PIECES {
        return None;
    }
    let base = u128::from(place.address) * 2;
    let mut pieces: Vec<Piece> = layout
        .runs()
        .zip((0_u128..).step_by(usize::try_from(run).ok()?.max(1)))
        .map(|(run, first)| {
            let start = base + u128::from(run.offset) * unit;
            Piece { start, end: start + u128::from(run.len) * unit, at: first * unit }
        })
        .collect();
    pieces.sort_unstable();
    Some(pieces)
}

/// A set of memory ranges from which parts are removed. Removing costs only what it meets, because a view may
/// have thousands of writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// End of each range by its start; ranges do not touch.
    ends: BTreeMap<u128, u128>,
}

impl Ranges {
    /// The memory that these sorted pieces cover.
    pub fn of(pieces: &[Piece]) -> Ranges {
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match merged.last_mut() {
                Some((_, end)) if *end >= piece.start => *end = (*end).max(piece.end),
                _ => merged.push((piece.start, piece.end)),
            }
        }
        Ranges { ends: merged.into_iter().collect() }
    }

    /// Total size.
    pub fn half_bytes(&self) -> u128 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// Removes pieces; returns whether anything was removed.
    pub fn take(&mut self, pieces: &[Piece]) -> bool {
        let mut taken = false;
        for piece in pieces {
            while let Some((start, end)) = self.last_meeting(piece) {
                taken = true;
                self.ends.remove(&start);
                if start < piece.start {
                    self.ends.insert(start, piece.start);
                }
                if piece.end < end {
                    self.ends.insert(piece.end, end);
                }
            }
        }
        taken
    }

    /// Whether any of the pieces shares memory with the set.
    pub fn meets(&self, pieces: &[Piece]) -> bool {
        pieces.iter().any(|piece| self.last_meeting(piece).is_some())
    }

    fn last_meeting(&self, piece: &Piece) -> Option<(u128, u128)> {
        let (&start, &end) = self.ends.range(..piece.end).next_back()?;
        (end > piece.start).then_some((start, end))
    }
}

/// Whether two arguments share memory.
pub(crate) fn share_memory(one: Argument<'_>, other: Argument<'_>) -> bool {
    TensorView::of(one).zip(TensorView::of(other)).is_some_and(|(one, other)| one.shares(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_piece_per_row_in_any_direction() {
        let matrix = Layout::contiguous(&[4, 8], 32).unwrap();
        let column = TensorView::new(matrix.slice_step(0, 3, 4, -1).unwrap().slice(1, 2, 1).unwrap(), 0x100);
        let pieces = pieces(&column).unwrap();
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], Piece { start: 0x210, end: 0x218, at: 24 });
        assert_eq!(pieces[3].at, 0);
    }

    #[test]
    fn removing_ranges_keeps_the_rest_and_reports_whether_anything_was_removed() {
        let piece = |start, end| Piece { start, end, at: 0 };
        let mut left = Ranges::of(&[piece(0, 10), piece(20, 30)]);
        assert!(!left.meets(&[piece(12, 18)]) && !left.take(&[piece(12, 18), piece(10, 20)]));
        assert!(left.meets(&[piece(12, 18), piece(29, 40)]));
        assert!(left.take(&[piece(4, 6), piece(8, 22), piece(29, 40)]));
        assert_eq!(left.ends.clone().into_iter().collect::<Vec<_>>(), [(0, 4), (6, 8), (22, 29)]);
        assert!(left.take(&[piece(0, 3), piece(0, 29)]) && left.ends.is_empty());
    }

    #[test]
    fn a_broadcast_view_covers_its_memory_once() {
        let row = Layout::contiguous(&[1, 6], 8).unwrap().broadcast(0, 3).unwrap();
        let pieces = pieces(&TensorView::new(row, 5)).unwrap();
        assert_eq!((pieces.len(), Ranges::of(&pieces).ends.into_iter().collect()), (3, vec![(10, 22)]));
    }
}
