//! Tracks the last writers of every byte.

use std::collections::BTreeMap;

use tensortap_geometry::Footprint;

use super::view::{Ranges, piece_count, pieces, steps_to_share};
use super::{OutputRef, TensorView};
use crate::steps::{Budget, QuerySteps};

/// The writes so far, by address. The address space is split into segments wherever a write begins or ends.
/// Each segment lists the writes that may hold its bytes, the newest last. A write that covers an older one
/// replaces it. A write of 4-bit elements that leaves half of a byte unchanged replaces only a write of the
/// same view.
///
/// For interleaved views with gaps, the work may grow with the square of their number. So steps and room are
/// limited. Beyond the limit, every query is undecided.
pub(crate) struct WriteMap {
    /// By write number. Separate from the views, which are larger and used less.
    outputs: Vec<OutputRef>,
    views: Vec<TensorView>,
    /// By first address.
    segments: BTreeMap<u64, Segment>,
    budget: Budget,
    /// How many more entries the segments may hold.
    room: usize,
    /// Steps or room ran out, so the segments are incomplete.
    is_lost: bool,
}

/// Cost of a check whether a write in a segment is covered.
const STEPS_OF_HOLDER: usize = 8;
/// Limit on the entries of all segments together.
const ROOM: usize = 1 << 24;

struct Segment {
    end: u64,
    holders: SegmentWriters,
}

/// The writes that may hold the bytes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SegmentWriters {
    /// One write, which wrote every byte of the segment.
    One(usize),
    /// Writes of some bytes, the newest last.
    Several(Vec<usize>),
}

impl SegmentWriters {
    fn as_slice(&self) -> &[usize] {
        match self {
            SegmentWriters::One(number) => std::slice::from_ref(number),
            SegmentWriters::Several(numbers) => numbers,
        }
    }
}

impl WriteMap {
    /// An empty map with a budget for about this many writes and queries.
    pub fn of(count: usize) -> WriteMap {
        WriteMap::within(Budget::of(count, u64::MAX))
    }

    fn within(budget: Budget) -> WriteMap {
        WriteMap {
            outputs: Vec::new(),
            views: Vec::new(),
            segments: BTreeMap::new(),
            budget,
            room: ROOM,
            is_lost: false,
        }
    }

    /// Adds a write.
    pub fn insert(&mut self, output: OutputRef, view: TensorView) {
        if self.is_lost {
            return;
        }
        if self.try_insert(output, view).is_none() {
            self.is_lost = true;
            self.segments.clear();
        }
    }

    fn try_insert(&mut self, output: OutputRef, view: TensorView) -> Option<()> {
        let footprint = view.footprint;
        let Some((start, end)) = span(&footprint) else { return Some(()) };
        let number = self.views.len();
        self.outputs.push(output);
        self.views.push(view);
        self.split(start)?;
        self.split(end)?;
        if footprint.is_dense() && view.fills_bytes() {
            // Amortized: each segment is removed once after it was inserted once.
            let within: Vec<u64> = self.segments.range(start..end).map(|(&at, _)| at).collect();
            within.iter().for_each(|at| self.remove(*at));
            self.insert_segment(start, Segment { end, holders: SegmentWriters::One(number) })?;
        } else {
            self.replace_covered(start, end, number)?;
            self.fill_gaps(start, end, number)?;
        }
        Some(())
    }

    /// Removes all writes from a range, because its memory was freed or reallocated.
    pub fn forget(&mut self, start: u64, bytes: u64) {
        let Some(end) = start.checked_add(bytes).filter(|&end| end > start) else { return };
        let is_split = self.split(start).and_then(|()| self.split(end)).is_some();
        self.is_lost |= !is_split;
        let within: Vec<u64> = self.segments.range(start..end).map(|(&at, _)| at).collect();
        within.iter().for_each(|at| self.remove(*at));
    }

    fn insert_segment(&mut self, start: u64, segment: Segment) -> Option<()> {
        self.room = self.room.checked_sub(segment.holders.as_slice().len())?;
        self.segments.insert(start, segment);
        Some(())
    }

    fn remove(&mut self, start: u64) {
        let removed = self.segments.remove(&start);
        self.room += removed.map_or(0, |segment| segment.holders.as_slice().len());
    }

    /// The writes that hold bytes of a view, the newest first; `None` if undecided.
    pub fn last(&self, view: &TensorView) -> Option<Vec<OutputRef>> {
        if self.is_lost {
            return None;
        }
        let Some((start, end)) = span(&view.footprint) else { return Some(Vec::new()) };
        let mut query_steps = self.budget.query_steps();
        let numbers = match self.sole_holders(view, (start, end), &mut query_steps)? {
            Some(numbers) => numbers,
            None => self.holders(view, (start, end), &mut query_steps)?,
        };
        Some(numbers.into_iter().map(|number| self.outputs[number]).collect())
    }

    /// The same if each segment that the view may meet has a single writer: then the answer is the writers of
    /// the segments that it does meet. A tensor written row by row has thousands of them, so this walks once
    /// over rows and segments. The inner `None` means that several writes may hold a byte, or that the view
    /// has too many pieces.
    fn sole_holders(
        &self,
        view: &TensorView,
        (start, end): (u64, u64),
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<Option<Vec<usize>>> {
        let mut segments = self.meeting(start, end).peekable();
        if segments.peek().is_none() {
            return Some(Some(Vec::new()));
        }
        let pieces = match view.footprint.is_dense() {
            true => Some(Vec::new()),
            false => query_steps.take(piece_count(view)).and_then(|()| pieces(view)),
        };
        let Some(pieces) = pieces else { return Some(None) };
        let mut pieces = pieces.iter().map(|piece| (piece.start / 2, piece.end.div_ceil(2))).peekable();
        let is_dense = pieces.peek().is_none();
        let mut numbers = Vec::new();
        for (first, segment) in segments {
            query_steps.take(1)?;
            let SegmentWriters::One(number) = segment.holders else { return Some(None) };
            // The pieces of a view have equal length, so sorting them by start also sorts them by end.
            while pieces.next_if(|&(_, end)| end <= first.into()).is_some() {}
            let is_met = is_dense || pieces.peek().is_some_and(|&(start, _)| start < segment.end.into());
            if is_met && numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        Some(Some(numbers))
    }

    /// The general case.
    fn holders(
        &self,
        view: &TensorView,
        (start, end): (u64, u64),
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<Vec<usize>> {
        let mut found: Vec<usize> = Vec::new();
        for (_, segment) in self.meeting(start, end) {
            let holders = segment.holders.as_slice();
            query_steps.take(holders.len())?;
            found.extend(holders);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        let mut holding = Vec::new();
        for number in found {
            let written = &self.views[number];
            query_steps.take(steps_to_share(written, view))?;
            if written.footprint.overlaps(&view.footprint) {
                holding.push(number);
                if covers(written, view) {
                    break;
                }
            }
        }
        // Views that cover the same bytes may still cover different halves of them.
        let all_fill = holding.iter().all(|&number| self.views[number].fills_bytes());
        if holding.len() > 1 || !all_fill {
            self.drop_overwritten(&mut holding, view, query_steps)?;
        }
        Some(holding)
    }

    /// Removes writes whose part of the view was completely overwritten by newer ones together. Views with
    /// too many pieces are left as they are.
    fn drop_overwritten(
        &self,
        newest_first: &mut Vec<usize>,
        view: &TensorView,
        query_steps: &mut QuerySteps<'_>,
    ) -> Option<()> {
        let all = newest_first.iter().map(|&number| piece_count(&self.views[number]));
        query_steps.take(all.chain([piece_count(view)]).fold(0, usize::saturating_add))?;
        let Some(mut left) = pieces(view).map(|p| Ranges::of(&p)) else { return Some(()) };
        newest_first.retain(|&number| pieces(&self.views[number]).is_none_or(|p| left.take(&p)));
        Some(())
    }

    /// The segments that meet a range, with their first addresses.
    fn meeting(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Segment)> {
        let before = self.segments.range(..start).next_back().filter(move |(_, s)| s.end > start);
        before.into_iter().chain(self.segments.range(start..end)).map(|(first, segment)| (*first, segment))
    }

    fn split(&mut self, at: u64) -> Option<()> {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return Some(()) };
        if segment.end > at {
            let rest = Segment { end: segment.end, holders: segment.holders.clone() };
            segment.end = at;
            return self.insert_segment(at, rest);
        }
        Some(())
    }

    fn replace_covered(&mut self, start: u64, end: u64, number: usize) -> Option<()> {
        let mut query_steps = self.budget.query_steps();
        let (views, new) = (&self.views, &self.views[number]);
        // The same write may be in many segments, so the answer is cached.
        let mut covered: BTreeMap<usize, bool> = BTreeMap::new();
        for (_, segment) in self.segments.range_mut(start..end) {
            let mut numbers = match std::mem::replace(&mut segment.holders, SegmentWriters::One(number)) {
                SegmentWriters::One(old) => vec![old],
                SegmentWriters::Several(numbers) => numbers,
            };
            query_steps.take(STEPS_OF_HOLDER * numbers.len())?;
            self.room += numbers.len();
            numbers.retain(|&old| !*covered.entry(old).or_insert_with(|| covers(new, &views[old])));
            numbers.push(number);
            self.room = self.room.checked_sub(numbers.len())?;
            segment.holders = SegmentWriters::Several(numbers);
        }
        Some(())
    }

    fn fill_gaps(&mut self, start: u64, end: u64, number: usize) -> Option<()> {
        let mut at = start;
        let mut gaps = Vec::new();
        for (&first, segment) in self.segments.range(start..end) {
            if first > at {
                gaps.push((at, first));
            }
            at = segment.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps.into_iter().try_for_each(|(first, end)| {
            self.insert_segment(first, Segment { end, holders: SegmentWriters::Several(vec![number]) })
        })
    }
}

/// Whether a write overwrites all of a view.
fn covers(write: &TensorView, view: &TensorView) -> bool {
    write.is_same_view(view) || write.fills_bytes() && write.footprint.covers(&view.footprint)
}

/// First address and end of a footprint; `None` if it is empty or wraps around the address space.
fn span(footprint: &Footprint) -> Option<(u64, u64)> {
    let end = footprint.start().checked_add(footprint.span_bytes())?;
    (!footprint.is_empty()).then_some((footprint.start(), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tensortap_geometry::Layout;

    fn source(task: usize) -> OutputRef {
        OutputRef { task, arg_index: 0 }
    }

    fn tasks(map: &WriteMap, layout: &Layout, base: u64) -> Vec<usize> {
        map.last(&TensorView::new(*layout, base)).unwrap().iter().map(|s| s.task).collect()
    }

    #[test]
    fn a_write_replaces_only_what_it_covers() {
        let matrix = Layout::contiguous(&[8, 8], 32).unwrap();
        let left = matrix.slice(1, 0, 4).unwrap();
        let right = matrix.slice(1, 4, 4).unwrap();
        let mut map = WriteMap::of(0);
        map.insert(source(0), TensorView::new(matrix, 0x1000));
        map.insert(source(1), TensorView::new(left, 0x1000));
        assert_eq!(tasks(&map, &right, 0x1000), [0]);
        map.insert(source(2), TensorView::new(right, 0x1000));
        assert_eq!(tasks(&map, &left, 0x1000), [1]);
        assert_eq!(tasks(&map, &right, 0x1000), [2]);
        map.insert(source(3), TensorView::new(matrix, 0x1000));
        assert_eq!(tasks(&map, &right, 0x1000), [3]);
    }

    #[test]
    fn reused_memory_belongs_to_the_last_writer() {
        let (large, small) = (Layout::contiguous(&[64], 32).unwrap(), Layout::contiguous(&[16], 32).unwrap());
        let mut map = WriteMap::of(0);
        map.insert(source(0), TensorView::new(large, 0x1000));
        map.insert(source(1), TensorView::new(small, 0x1040));
        assert_eq!(tasks(&map, &small, 0x1040), [1]);
        assert_eq!(tasks(&map, &large, 0x1000), [1, 0]);
        assert_eq!(tasks(&map, &small, 0x1100), [0_usize; 0]);
    }

    #[test]
    fn a_strided_view_names_exactly_the_writes_that_it_meets() {
        let piece = Layout::contiguous(&[32], 8).unwrap();
        let mut map = WriteMap::of(0);
        // Rows of 64 bytes, each written in two halves, the last row first.
        for (task, at) in (0..8).rev().enumerate() {
            map.insert(source(task), TensorView::new(piece, 0x1000 + at * 32));
        }
        let left = Layout::new(&[4, 32], &[64, 1], 0, 8).unwrap();
        assert_eq!(tasks(&map, &left, 0x1000), [7, 5, 3, 1]);
        assert_eq!(tasks(&map, &left, 0x1020), [6, 4, 2, 0]);
        // Three of four rows, and part of a write into the last.
        let inner = Layout::new(&[3, 8], &[64, 1], 4, 8).unwrap();
        map.insert(source(8), TensorView::new(Layout::contiguous(&[2], 8).unwrap(), 0x1000 + 128 + 6));
        assert_eq!(tasks(&map, &inner, 0x1000), [8, 7, 5, 3]);
    }

    #[test]
    fn halves_of_a_byte_belong_to_their_own_writers() {
        let row = |from: u64, elements: u64| Layout::new(&[elements], &[1], from, 4).unwrap();
        let mut map = WriteMap::of(0);
        map.insert(source(0), TensorView::new(row(1, 2), 0x1000));
        map.insert(source(1), TensorView::new(row(3, 3), 0x1000));
        assert_eq!(tasks(&map, &row(2, 1), 0x1000), [0]);
        assert_eq!(tasks(&map, &row(3, 1), 0x1000), [1]);
        assert_eq!(tasks(&map, &row(2, 2), 0x1000), [1, 0]);
        assert_eq!(tasks(&map, &row(0, 1), 0x1000), [0_usize; 0]);
        let byte = Layout::contiguous(&[1], 8).unwrap();
        assert_eq!(tasks(&map, &byte, 0x1001), [1, 0]);
        map.insert(source(2), TensorView::new(byte, 0x1001));
        assert_eq!(tasks(&map, &row(1, 5), 0x1000), [2, 1, 0]);
    }

    #[test]
    fn rewriting_the_same_half_bytes_keeps_only_the_last_write() {
        let odd = TensorView::new(Layout::new(&[3], &[1], 1, 4).unwrap(), 0x1000);
        let mut map = WriteMap::of(0);
        (0..50).for_each(|task| map.insert(source(task), odd));
        assert!(map.segments.values().all(|s| s.holders.as_slice() == [49]));
    }

    /// Address, first element, rows, columns, gap between rows in elements, whether elements have four bits.
    type View = (u64, u64, u64, u64, i64, bool);

    fn views() -> impl Strategy<Value = View> {
        (0_u64..64, 0_u64..3, 1_u64..6, 1_u64..6, 0_i64..8, any::<bool>())
    }

    fn place((address, first, rows, columns, gap, half): View) -> TensorView {
        let stride = i64::try_from(columns).unwrap() + gap;
        let bits = if half { 4 } else { 8 };
        TensorView::new(Layout::new(&[rows, columns], &[stride, 1], first, bits).unwrap(), address)
    }

    /// The half-bytes of a view by definition.
    fn half_bytes(view: View) -> Vec<usize> {
        let (place, unit) = (place(view), if view.5 { 1 } else { 2 });
        let halves = |element: u64| (0..unit).map(move |half| view.0 * 2 + element * unit + half);
        place.layout.offsets().flat_map(halves).map(|h| usize::try_from(h).unwrap()).collect()
    }

    proptest! {
        /// Compared with a table that has the last writer of each half-byte.
        #[test]
        fn exactly_the_last_writers_of_a_view_are_named(
            writes in proptest::collection::vec(views(), 1..25),
            read in views(),
        ) {
            let mut map = WriteMap::of(0);
            let mut owner = [None; 512];
            for (task, &write) in writes.iter().enumerate() {
                map.insert(source(task), place(write));
                half_bytes(write).into_iter().for_each(|half| owner[half] = Some(task));
            }
            let read_place = place(read);
            let named: Vec<usize> = map.last(&read_place).unwrap().iter().map(|s| s.task).collect();
            prop_assert!(named.is_sorted_by(|a, b| a > b));
            let expected: BTreeSet<usize> = half_bytes(read).into_iter().filter_map(|half| owner[half]).collect();
            prop_assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        /// For any limit on steps and room, the answer is complete or undecided.
        #[test]
        fn with_any_limits_the_answer_is_complete_or_undecided(
            writes in proptest::collection::vec(views(), 1..25),
            read in views(),
            steps in 0_u64..600,
            room in 0_usize..200,
        ) {
            let (mut whole, mut map) = (WriteMap::of(0), WriteMap::within(Budget::new(steps, u64::MAX)));
            map.room = room;
            for (task, &write) in writes.iter().enumerate() {
                whole.insert(source(task), place(write));
                map.insert(source(task), place(write));
            }
            let found = map.last(&place(read));
            prop_assert!(found.is_none() || found == whole.last(&place(read)));
            let held: usize = map.segments.values().map(|segment| segment.holders.as_slice().len()).sum();
            prop_assert!(map.is_lost || held + map.room == room);
        }
    }
}
