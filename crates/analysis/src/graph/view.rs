//! Where tensors lie in device memory: as views, and as pieces counted in half-bytes, because the smallest element has four bits.

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
    /// The bytes that it touches.
    pub footprint: Footprint,
}

impl TensorView {
    /// A view of a buffer at an address.
    #[must_use]
    pub fn new(layout: Layout, address: u64) -> TensorView {
        TensorView { layout, address, footprint: Footprint::new(&layout, address) }
    }

    /// The bytes that an argument stands for, where the dump says where they lie.
    #[must_use]
    pub fn of(arg: Argument<'_>) -> Option<TensorView> {
        let is_somewhere = arg.address != 0 && !arg.is_scalar();
        let layout = Layout::new(arg.shape(), arg.strides(), arg.start_offset, arg.dtype.bits()).ok();
        layout.filter(|_| is_somewhere).map(|layout| TensorView::new(layout, arg.address))
    }

    /// Whether both hold a part of the same element: a byte, or half a byte where both have such elements.
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

    /// Whether it is known to hold both halves of every byte that it touches.
    #[must_use]
    pub(super) fn fills_bytes(&self) -> bool {
        let TensorView { layout, .. } = self;
        layout.elem_bits() >= 8
            || layout.is_contiguous() && layout.start_offset() % 2 == 0 && layout.numel() % 2 == 0
    }

    /// Whether both are the same elements in the same order.
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

/// Views of more pieces are not taken apart.
const MAX_PIECES: u64 = 1 << 22;

/// Neighbouring bytes of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    /// First half-byte in memory.
    pub start: u128,
    /// Behind the last.
    pub end: u128,
    /// Where it lies in the logical content.
    pub at: u128,
}

/// How many pieces a view has, at most.
pub(crate) fn piece_count(place: &TensorView) -> usize {
    let pieces = place.layout.numel().checked_div(place.layout.dense_inner_len()).unwrap_or(0);
    usize::try_from(pieces).unwrap_or(usize::MAX)
}

/// Steps that it takes to see whether two views share memory, about: where both have gaps, that is searched for.
pub(crate) fn steps_to_share(one: &TensorView, other: &TensorView) -> usize {
    if one.footprint.is_dense() && other.footprint.is_dense() { 1 } else { STEPS_OF_SEARCH }
}

/// A search mostly ends early; the longest takes about this many times as long as a look at one task.
const STEPS_OF_SEARCH: usize = 64;

/// The pieces of a view, in the order of memory; `None` when there are too many.
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

/// Memory of which parts are taken away, each at the cost of what it meets: a view may have thousands of writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// End of each range by its start; none touch.
    ends: BTreeMap<u128, u128>,
}

impl Ranges {
    /// The memory that sorted pieces cover.
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

    /// How much there is.
    pub fn half_bytes(&self) -> u128 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// Takes pieces away; whether there was anything to take.
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

    /// Whether any of the pieces shares memory with it.
    pub fn meets(&self, pieces: &[Piece]) -> bool {
        pieces.iter().any(|piece| self.last_meeting(piece).is_some())
    }

    fn last_meeting(&self, piece: &Piece) -> Option<(u128, u128)> {
        let (&start, &end) = self.ends.range(..piece.end).next_back()?;
        (end > piece.start).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_many_pieces_as_rows_wherever_it_goes() {
        let matrix = Layout::contiguous(&[4, 8], 32).unwrap();
        let column = TensorView::new(matrix.slice_step(0, 3, 4, -1).unwrap().slice(1, 2, 1).unwrap(), 0x100);
        let pieces = pieces(&column).unwrap();
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], Piece { start: 0x210, end: 0x218, at: 24 });
        assert_eq!(pieces[3].at, 0);
    }

    #[test]
    fn taking_away_leaves_the_rest_and_says_when_there_was_nothing_to_take() {
        let piece = |start, end| Piece { start, end, at: 0 };
        let mut left = Ranges::of(&[piece(0, 10), piece(20, 30)]);
        assert!(!left.meets(&[piece(12, 18)]) && !left.take(&[piece(12, 18), piece(10, 20)]));
        assert!(left.meets(&[piece(12, 18), piece(29, 40)]));
        assert!(left.take(&[piece(4, 6), piece(8, 22), piece(29, 40)]));
        assert_eq!(left.ends.clone().into_iter().collect::<Vec<_>>(), [(0, 4), (6, 8), (22, 29)]);
        assert!(left.take(&[piece(0, 3), piece(0, 29)]) && left.ends.is_empty());
    }

    #[test]
    fn elements_read_again_and_again_cover_their_memory_once() {
        let row = Layout::contiguous(&[1, 6], 8).unwrap().broadcast(0, 3).unwrap();
        let pieces = pieces(&TensorView::new(row, 5)).unwrap();
        assert_eq!((pieces.len(), Ranges::of(&pieces).ends.into_iter().collect()), (3, vec![(10, 22)]));
    }
}
