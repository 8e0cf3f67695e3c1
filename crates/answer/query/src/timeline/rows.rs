//! Assigns slices of one track to rows, so that none overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Slice, UnplacedSlice};

/// Maximum rows per track. More are unreadable, and each is a track in a trace.
const MAX_ROWS: usize = 256;

/// Assigns slices to rows and appends them to `slices`, sorted by row and start. Returns the number of rows,
/// and whether the slices of each row are nested in those of the row above. Slices that do not overlap share
/// a row. If `calls` is set and all slices nest, the row is the nesting depth.
pub(super) fn lay(
    mut loose: Vec<UnplacedSlice>,
    track: usize,
    calls: bool,
    slices: &mut Vec<Slice>,
) -> (usize, bool) {
    loose.sort_by_key(|slice| (slice.start_ns, Reverse(slice.duration_ns), slice.what));
    let depths = if calls { depths(&loose) } else { None };
    let nests = depths.is_some();
    let rows = depths.unwrap_or_else(|| apart(&mut loose));
    let first = slices.len();
    slices.extend(loose.iter().zip(&rows).map(
        |(&UnplacedSlice { what, start_ns, duration_ns, sure }, &row)| Slice {
            what,
            track,
            row,
            start_ns,
            duration_ns,
            sure,
        },
    ));
    // The sort is stable, so slices stay sorted by start within a row.
    slices[first..].sort_by_key(|slice| slice.row);
    (rows.into_iter().max().map_or(1, |row| row + 1), nests)
}

fn end(slice: &UnplacedSlice) -> u64 {
    slice.start_ns.saturating_add(slice.duration_ns)
}

/// Nesting depth of each slice; `None` if slices overlap without nesting.
fn depths(loose: &[UnplacedSlice]) -> Option<Vec<usize>> {
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

/// Assigns each slice to the first free row. If all rows are used, the slice that ends first is cut where the
/// next one starts.
fn apart(loose: &mut [UnplacedSlice]) -> Vec<usize> {
    let mut rows = Vec::with_capacity(loose.len());
    // End, row and index of running slices. `free` has the unused rows.
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
