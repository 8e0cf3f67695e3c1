//! Which task wrote a byte last.

use std::collections::BTreeMap;

use tensortap_geometry::Footprint;

use super::view::{Ranges, piece_count, pieces, steps_to_share};
use super::{OutputRef, TensorView};
use crate::steps::{Budget, Question};

/// Writes so far, by address. The address space is cut into segments at every place where a write began or ended, and each
/// segment lists the writes that may hold its bytes, the newest last. A write that covers an older one takes its place; one of
/// 4-bit elements that leaves half of a byte alone covers only the same view.
///
/// Views with gaps that lie in one another may be kept and looked at as often as the square of their number; steps and room
/// for that are limited, and behind the limit nothing is decided any more.
pub(crate) struct WriteMap {
    /// By the number of a write; apart from the views, which are large and asked for less.
    outputs: Vec<OutputRef>,
    views: Vec<TensorView>,
    /// By first address.
    segments: BTreeMap<u64, Segment>,
    budget: Budget,
    /// Writes noted in segments that may still be copied.
    room: usize,
    /// Steps or room have run out: the segments say nothing.
    is_lost: bool,
}

/// Steps that it takes to ask whether a write that a segment notes is covered.
const STEPS_OF_HOLDER: usize = 8;
/// Writes that all segments may note together.
const ROOM: usize = 1 << 24;

struct Segment {
    end: u64,
    holders: Holders,
}

/// The writes that may hold the bytes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holders {
    /// One that wrote every byte of it.
    One(usize),
    /// Those that wrote some, the newest last.
    Several(Vec<usize>),
}

impl Holders {
    fn as_slice(&self) -> &[usize] {
        match self {
            Holders::One(number) => std::slice::from_ref(number),
            Holders::Several(numbers) => numbers,
        }
    }
}

impl WriteMap {
    /// One for about so many writes and questions.
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

    /// Notes a write.
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
            // Each segment is taken away once for having been made once.
            let within: Vec<u64> = self.segments.range(start..end).map(|(&at, _)| at).collect();
            within.iter().for_each(|at| self.remove(*at));
            self.insert_segment(start, Segment { end, holders: Holders::One(number) })?;
        } else {
            self.replace_covered(start, end, number)?;
            self.fill_gaps(start, end, number)?;
        }
        Some(())
    }

    /// Notes that nobody's write is in a range any more.
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

    /// The writes that hold bytes of a view, the newest first; `None` where that is not decided.
    pub fn last(&self, view: &TensorView) -> Option<Vec<OutputRef>> {
        if self.is_lost {
            return None;
        }
        let Some((start, end)) = span(&view.footprint) else { return Some(Vec::new()) };
        let mut question = self.budget.question();
        let numbers = match self.sole_holders(view, (start, end), &mut question)? {
            Some(numbers) => numbers,
            None => self.holders(view, (start, end), &mut question)?,
        };
        Some(numbers.into_iter().map(|number| self.outputs[number]).collect())
    }

    /// The same where each segment that the view may meet has one holder: then those that it does meet are all there are. A
    /// tensor that was written row by row has thousands, so this walks once over rows and segments. None of them when several
    /// writes may hold a byte, or the view has too many pieces.
    fn sole_holders(
        &self,
        view: &TensorView,
        (start, end): (u64, u64),
        question: &mut Question<'_>,
    ) -> Option<Option<Vec<usize>>> {
        let mut segments = self.meeting(start, end).peekable();
        if segments.peek().is_none() {
            return Some(Some(Vec::new()));
        }
        let pieces = match view.footprint.is_dense() {
            true => Some(Vec::new()),
            false => question.take(piece_count(view)).and_then(|()| pieces(view)),
        };
        let Some(pieces) = pieces else { return Some(None) };
        let mut pieces = pieces.iter().map(|piece| (piece.start / 2, piece.end.div_ceil(2))).peekable();
        let is_dense = pieces.peek().is_none();
        let mut numbers = Vec::new();
        for (first, segment) in segments {
            question.take(1)?;
            let Holders::One(number) = segment.holders else { return Some(None) };
            // Pieces of a view are equally long: sorted by their starts they are by their ends.
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

    /// The same whatever there is.
    fn holders(
        &self,
        view: &TensorView,
        (start, end): (u64, u64),
        question: &mut Question<'_>,
    ) -> Option<Vec<usize>> {
        let mut found: Vec<usize> = Vec::new();
        for (_, segment) in self.meeting(start, end) {
            let holders = segment.holders.as_slice();
            question.take(holders.len())?;
            found.extend(holders);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        let mut holding = Vec::new();
        for number in found {
            let written = &self.views[number];
            question.take(steps_to_share(written, view))?;
            if written.footprint.overlaps(&view.footprint) {
                holding.push(number);
                if covers(written, view) {
                    break;
                }
            }
        }
        // Views that touch the same bytes may still touch different halves of them.
        let all_fill = holding.iter().all(|&number| self.views[number].fills_bytes());
        if holding.len() > 1 || !all_fill {
            self.drop_overwritten(&mut holding, view, question)?;
        }
        Some(holding)
    }

    /// Leaves out writes of which newer ones, together, have overwritten all that the view shows. Views of too many pieces
    /// stay as they are.
    fn drop_overwritten(
        &self,
        newest_first: &mut Vec<usize>,
        view: &TensorView,
        question: &mut Question<'_>,
    ) -> Option<()> {
        let all = newest_first.iter().map(|&number| piece_count(&self.views[number]));
        question.take(all.chain([piece_count(view)]).fold(0, usize::saturating_add))?;
        let Some(mut left) = pieces(view).map(|p| Ranges::of(&p)) else { return Some(()) };
        newest_first.retain(|&number| pieces(&self.views[number]).is_none_or(|p| left.take(&p)));
        Some(())
    }

    /// First address and segment of those that share an address with a range.
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
        let mut question = self.budget.question();
        let (views, new) = (&self.views, &self.views[number]);
        // The same write lies in many segments; whether it is covered is asked once.
        let mut covered: BTreeMap<usize, bool> = BTreeMap::new();
        for (_, segment) in self.segments.range_mut(start..end) {
            let mut numbers = match std::mem::replace(&mut segment.holders, Holders::One(number)) {
                Holders::One(old) => vec![old],
                Holders::Several(numbers) => numbers,
            };
            question.take(STEPS_OF_HOLDER * numbers.len())?;
            self.room += numbers.len();
            numbers.retain(|&old| !*covered.entry(old).or_insert_with(|| covers(new, &views[old])));
            numbers.push(number);
            self.room = self.room.checked_sub(numbers.len())?;
            segment.holders = Holders::Several(numbers);
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
            self.insert_segment(first, Segment { end, holders: Holders::Several(vec![number]) })
        })
    }
}

/// Whether a write leaves nothing of a view as it was.
fn covers(write: &TensorView, view: &TensorView) -> bool {
    write.is_same_view(view) || write.fills_bytes() && write.footprint.covers(&view.footprint)
}

/// First address and the one behind the last; `None` of an empty view, or one that goes round the address space.
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
    fn a_write_hides_what_it_covers_and_nothing_else() {
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
    fn memory_used_again_belongs_to_who_wrote_last() {
        let (large, small) = (Layout::contiguous(&[64], 32).unwrap(), Layout::contiguous(&[16], 32).unwrap());
        let mut map = WriteMap::of(0);
        map.insert(source(0), TensorView::new(large, 0x1000));
        map.insert(source(1), TensorView::new(small, 0x1040));
        assert_eq!(tasks(&map, &small, 0x1040), [1]);
        assert_eq!(tasks(&map, &large, 0x1000), [1, 0]);
        assert_eq!(tasks(&map, &small, 0x1100), [0_usize; 0]);
    }

    #[test]
    fn a_view_of_rows_names_the_writes_that_it_meets_and_no_other() {
        let piece = Layout::contiguous(&[32], 8).unwrap();
        let mut map = WriteMap::of(0);
        // Rows of 64 bytes, each written in two halves, the last row first.
        for (task, at) in (0..8).rev().enumerate() {
            map.insert(source(task), TensorView::new(piece, 0x1000 + at * 32));
        }
        let left = Layout::new(&[4, 32], &[64, 1], 0, 8).unwrap();
        assert_eq!(tasks(&map, &left, 0x1000), [7, 5, 3, 1]);
        assert_eq!(tasks(&map, &left, 0x1020), [6, 4, 2, 0]);
        // Three of four rows, and a piece of what was written into the last.
        let inner = Layout::new(&[3, 8], &[64, 1], 4, 8).unwrap();
        map.insert(source(8), TensorView::new(Layout::contiguous(&[2], 8).unwrap(), 0x1000 + 128 + 6));
        assert_eq!(tasks(&map, &inner, 0x1000), [8, 7, 5, 3]);
    }

    #[test]
    fn halves_of_a_byte_belong_to_who_wrote_them() {
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
    fn writing_the_same_half_bytes_again_keeps_the_last_write_only() {
        let odd = TensorView::new(Layout::new(&[3], &[1], 1, 4).unwrap(), 0x1000);
        let mut map = WriteMap::of(0);
        (0..50).for_each(|task| map.insert(source(task), odd));
        assert!(map.segments.values().all(|s| s.holders.as_slice() == [49]));
    }

    /// Address, first element, rows, columns, elements between rows, whether elements have four bits.
    type View = (u64, u64, u64, u64, i64, bool);

    fn views() -> impl Strategy<Value = View> {
        (0_u64..64, 0_u64..3, 1_u64..6, 1_u64..6, 0_i64..8, any::<bool>())
    }

    fn place((address, first, rows, columns, gap, half): View) -> TensorView {
        let stride = i64::try_from(columns).unwrap() + gap;
        let bits = if half { 4 } else { 8 };
        TensorView::new(Layout::new(&[rows, columns], &[stride, 1], first, bits).unwrap(), address)
    }

    /// Against the definition.
    fn half_bytes(view: View) -> Vec<usize> {
        let (place, unit) = (place(view), if view.5 { 1 } else { 2 });
        let halves = |element: u64| (0..unit).map(move |half| view.0 * 2 + element * unit + half);
        place.layout.offsets().flat_map(halves).map(|h| usize::try_from(h).unwrap()).collect()
    }

    proptest! {
        /// Against a table of half-bytes.
        #[test]
        fn exactly_the_last_writers_of_a_views_half_bytes_are_named(
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

        /// However few steps and however little room there is: all of them are named, or it is not decided.
        #[test]
        fn what_is_not_decided_is_not_said(
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
