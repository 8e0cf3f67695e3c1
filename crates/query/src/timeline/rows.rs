//! Slices of one track in rows, so that none covers another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Loose, Slice};

/// More rows than that nobody looks at, and every one is a track in a trace.
const MAX_ROWS: usize = 256;

/// Puts slices into rows behind `slices`, by row and start; how many rows there are, and whether the slices of each lie within those of
/// the row above. Slices that come after one another share a row. Where all `calls` lie in one another, a row is a depth.
pub(super) fn lay(
    mut loose: Vec<Loose>,
    track: usize,
    calls: bool,
    slices: &mut Vec<Slice>,
) -> (usize, bool) {
    loose.sort_by_key(|slice| (slice.start_ns, Reverse(slice.duration_ns), slice.what));
    let depths = if calls { depths(&loose) } else { None };
    let nests = depths.is_some();
    let rows = depths.unwrap_or_else(|| apart(&mut loose));
    let first = slices.len();
    slices.extend(loose.iter().zip(&rows).map(|(&Loose { what, start_ns, duration_ns, sure }, &row)| {
        Slice { what, track, row, start_ns, duration_ns, sure }
    }));
    // Stable: by start within a row.
    slices[first..].sort_by_key(|slice| slice.row);
    (rows.into_iter().max().map_or(1, |row| row + 1), nests)
}

fn end(slice: &Loose) -> u64 {
    slice.start_ns.saturating_add(slice.duration_ns)
}

/// How deep each lies in others, if all do and none reaches out of one.
fn depths(loose: &[Loose]) -> Option<Vec<usize>> {
    let mut around: Vec<u64> = Vec::new();
    loose
        .iter()
        .map(|slice| {
            while around.last().is_some_and(|&until| until <= slice.start_ns) {
                around.pop();
            }
            let depth = around.len();
            let fits = depth < MAX_ROWS && around.last().is_none_or(|&until| end(slice) <= until);
            around.push(end(slice));
            fits.then_some(depth)
        })
        .collect()
}

/// The first row that is free for each. Where all are taken, the slice that would end first ends where the next begins.
fn apart(loose: &mut [Loose]) -> Vec<usize> {
    let mut rows = Vec::with_capacity(loose.len());
    // Ends, rows and places of what goes on; rows that are free.
    let mut busy: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut used = 0;
    for place in 0..loose.len() {
        let start = loose[place].start_ns;
        while busy.peek().is_some_and(|Reverse((until, ..))| *until <= start) {
            free.extend(busy.pop().map(|Reverse((_, row, _))| Reverse(row)));
        }
        let row = match free.pop() {
            Some(Reverse(row)) => row,
            None if used < MAX_ROWS => {
                used += 1;
                used - 1
            }
            None => busy.pop().map_or(0, |Reverse((_, row, before))| {
                loose[before].duration_ns = start - loose[before].start_ns;
                row
            }),
        };
        busy.push(Reverse((end(&loose[place]), row, place)));
        rows.push(row);
    }
    rows
}
