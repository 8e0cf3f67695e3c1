//! Sets of positions in the packed content of a tensor. A position is a half-byte, the size of the smallest element.

use std::ops::Range;

/// Sorted ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<Range<u64>>);

impl Spans {
    /// One range from the start.
    pub fn up_to(end: u64) -> Spans {
        let mut spans = Spans::default();
        spans.push(0..end);
        spans
    }

    /// The union of ranges in any order.
    pub fn of_unsorted(mut ranges: Vec<Range<u64>>) -> Spans {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut spans = Spans::default();
        ranges.into_iter().for_each(|range| spans.push(range));
        spans
    }

    /// Adds a range that does not begin before the last one.
    pub fn push(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ if range.is_empty() => {}
            _ => self.0.push(range),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of positions.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    pub fn into_ranges(self) -> Vec<Range<u64>> {
        self.0
    }

    /// The parts of the set within a range.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.0.partition_point(|own| own.end <= range.start);
        let meeting = self.0[first..].iter().take_while(move |own| own.start < range.end);
        meeting.map(move |own| own.start.max(range.start)..own.end.min(range.end))
    }

    /// The positions in both sets.
    pub fn and(&self, other: &Spans) -> Spans {
        let mut found = Spans::default();
        let mut theirs = other.0.iter().peekable();
        for ours in &self.0 {
            while theirs.next_if(|range| range.end <= ours.start).is_some() {}
            let mut meeting = theirs.clone();
            while let Some(range) = meeting.next_if(|range| range.start < ours.end) {
                found.push(range.start.max(ours.start)..range.end.min(ours.end));
            }
        }
        found
    }

    /// The positions in this set but not in the other.
    pub fn without(&self, other: &Spans) -> Spans {
        let mut found = Spans::default();
        let mut theirs = other.0.iter().peekable();
        for ours in &self.0 {
            let mut at = ours.start;
            while theirs.next_if(|range| range.end <= ours.start).is_some() {}
            let mut meeting = theirs.clone();
            while let Some(range) = meeting.next_if(|range| range.start < ours.end) {
                if range.start > at {
                    found.push(at..range.start);
                }
                at = at.max(range.end);
            }
            if at < ours.end {
                found.push(at..ours.end);
            }
        }
        found
    }

    /// The positions in any of the two sets.
    pub fn or(&self, other: &Spans) -> Spans {
        Spans::of_unsorted(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The set, extended to whole elements of this many half-bytes.
    pub fn whole_elements(&self, width: u64) -> Spans {
        let mut found = Spans::default();
        for range in &self.0 {
            found.push(range.start / width * width..range.end.next_multiple_of(width));
        }
        found
    }
}

/// The positions at which two contents of equal size differ. Contents of 4-bit elements are compared by half-bytes.
pub(crate) fn differing(ours: &[u8], theirs: &[u8], halves: bool) -> Spans {
    /// Bytes that are compared at once, because most are equal.
    const CHUNK: usize = 256;
    let mut found = Spans::default();
    for (number, (ours, theirs)) in ours.chunks(CHUNK).zip(theirs.chunks(CHUNK)).enumerate() {
        if ours == theirs {
            continue;
        }
        for (at, (one, other)) in (number * CHUNK..).zip(ours.iter().zip(theirs)) {
            let at = at as u64 * 2;
            match (one ^ other, halves) {
                (0, _) => {}
                (bits, true) if bits & 0xf0 == 0 => found.push(at..at + 1),
                (bits, true) if bits & 0x0f == 0 => found.push(at + 1..at + 2),
                _ => found.push(at..at + 2),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn spans(ranges: &[(u64, u64)]) -> Spans {
        Spans::of_unsorted(ranges.iter().map(|&(start, len)| start..start + len).collect())
    }

    fn points(spans: &Spans) -> BTreeSet<u64> {
        spans.iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn operations_equal_those_of_sets_of_points(
            ours in proptest::collection::vec((0_u64..60, 0_u64..9), 0..12),
            theirs in proptest::collection::vec((0_u64..60, 0_u64..9), 0..12),
        ) {
            let (ours, theirs) = (spans(&ours), spans(&theirs));
            let (own, other) = (points(&ours), points(&theirs));
            prop_assert_eq!(points(&ours.and(&theirs)), own.intersection(&other).copied().collect());
            prop_assert_eq!(points(&ours.without(&theirs)), own.difference(&other).copied().collect());
            prop_assert_eq!(points(&ours.or(&theirs)), own.union(&other).copied().collect());
            let touching = |spans: &Spans| spans.0.windows(2).any(|pair| pair[0].end >= pair[1].start);
            prop_assert!(!touching(&ours.or(&theirs)) && !touching(&ours.and(&theirs)));
        }
    }

    #[test]
    fn contents_differ_by_bytes_or_half_bytes() {
        let (ours, theirs) = ([0x12, 0x34, 0x56], [0x13, 0x34, 0x46]);
        assert_eq!(differing(&ours, &theirs, false), spans(&[(0, 2), (4, 2)]));
        assert_eq!(differing(&ours, &theirs, true), spans(&[(0, 1), (5, 1)]));
        assert_eq!(spans(&[(3, 2), (9, 1)]).whole_elements(4), spans(&[(0, 12)]));
    }
}
