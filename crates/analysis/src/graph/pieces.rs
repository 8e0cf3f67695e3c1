//! Views as pieces of memory, counted in half-bytes: the smallest element has four bits.

use super::Place;

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

/// The pieces of a view, in the order of memory; `None` when there are too many.
pub(crate) fn pieces(place: &Place) -> Option<Vec<Piece>> {
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

/// What is left of sorted ranges without the pieces of a view; `None` when nothing was taken away.
pub(crate) fn without(ranges: &[(u128, u128)], pieces: &[Piece]) -> Option<Vec<(u128, u128)>> {
    let mut left = Vec::with_capacity(ranges.len());
    let mut taken = false;
    let mut next = 0;
    for &(mut start, end) in ranges {
        while next < pieces.len() && pieces[next].end <= start {
            next += 1;
        }
        let mut at = next;
        while at < pieces.len() && pieces[at].start < end {
            let piece = &pieces[at];
            if piece.end > start {
                taken = true;
                if piece.start > start {
                    left.push((start, piece.start));
                }
                start = start.max(piece.end);
            }
            at += 1;
        }
        if start < end {
            left.push((start, end));
        }
    }
    taken.then_some(left)
}

/// The memory that pieces cover, without overlaps.
pub(crate) fn ranges(pieces: &[Piece]) -> Vec<(u128, u128)> {
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match merged.last_mut() {
            Some((_, end)) if *end >= piece.start => *end = (*end).max(piece.end),
            _ => merged.push((piece.start, piece.end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_geometry::Layout;

    #[test]
    fn a_column_is_as_many_pieces_as_rows_wherever_it_goes() {
        let matrix = Layout::contiguous(&[4, 8], 32).unwrap();
        let column = Place::new(matrix.slice_step(0, 3, 4, -1).unwrap().slice(1, 2, 1).unwrap(), 0x100);
        let pieces = pieces(&column).unwrap();
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], Piece { start: 0x210, end: 0x218, at: 24 });
        assert_eq!(pieces[3].at, 0);
    }

    #[test]
    fn taking_away_leaves_the_rest_and_says_when_there_was_nothing_to_take() {
        let piece = |start, end| Piece { start, end, at: 0 };
        assert_eq!(without(&[(0, 10), (20, 30)], &[piece(12, 18)]), None);
        assert_eq!(
            without(&[(0, 10), (20, 30)], &[piece(4, 6), piece(8, 22), piece(29, 40)]),
            Some(vec![(0, 4), (6, 8), (22, 29)])
        );
        assert_eq!(without(&[(0, 10)], &[piece(0, 3), piece(0, 10)]), Some(vec![]));
    }

    #[test]
    fn elements_read_again_and_again_cover_their_memory_once() {
        let row = Layout::contiguous(&[1, 6], 8).unwrap().broadcast(0, 3).unwrap();
        let pieces = pieces(&Place::new(row, 5)).unwrap();
        assert_eq!((pieces.len(), ranges(&pieces)), (3, vec![(10, 22)]));
    }
}
