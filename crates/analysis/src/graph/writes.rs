//! Which task wrote a byte last.

use std::collections::{BTreeMap, BTreeSet};

use tensortap_geometry::Footprint;

use super::pieces::{pieces, ranges, without};
use super::{Place, Source};

/// Writes so far, by address. The address space is cut into segments at every place where a write began or ended, and each
/// segment lists the writes that may hold its bytes, the newest last. A write that covers an older one takes its place.
#[derive(Default)]
pub(super) struct WriteMap {
    writes: Vec<Write>,
    /// By first address.
    segments: BTreeMap<u64, Segment>,
}

struct Write {
    source: Source,
    place: Place,
}

struct Segment {
    end: u64,
    writes: Vec<usize>,
}

impl WriteMap {
    /// Notes a write.
    pub fn insert(&mut self, source: Source, place: Place) {
        let footprint = place.footprint;
        let Some((start, end)) = span(&footprint) else { return };
        let number = self.writes.len();
        self.writes.push(Write { source, place });
        self.split(start);
        self.split(end);
        if footprint.is_dense() {
            let within: Vec<u64> = self.segments.range(start..end).map(|(&at, _)| at).collect();
            within.iter().for_each(|at| drop(self.segments.remove(at)));
            self.segments.insert(start, Segment { end, writes: vec![number] });
        } else {
            self.replace_covered(start, end, number);
            self.fill_gaps(start, end, number);
        }
    }

    /// The writes that hold bytes of a view, the newest first.
    pub fn last(&self, view: &Place) -> Vec<Source> {
        let Some((start, end)) = span(&view.footprint) else { return Vec::new() };
        let found: BTreeSet<usize> =
            self.meeting(start, end).flat_map(|s| s.writes.iter().copied()).collect();
        let mut holding = Vec::new();
        for write in found.into_iter().rev().map(|n| &self.writes[n]) {
            if write.place.footprint.overlaps(&view.footprint) {
                holding.push(write);
                if write.place.footprint.covers(&view.footprint) {
                    break;
                }
            }
        }
        if holding.len() > 1 {
            drop_overwritten(&mut holding, view);
        }
        holding.iter().map(|write| write.source).collect()
    }

    /// Segments that share an address with a range.
    fn meeting(&self, start: u64, end: u64) -> impl Iterator<Item = &Segment> {
        let before = self.segments.range(..start).next_back().map(|(_, s)| s).filter(move |s| s.end > start);
        before.into_iter().chain(self.segments.range(start..end).map(|(_, s)| s))
    }

    fn split(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let rest = Segment { end: segment.end, writes: segment.writes.clone() };
            segment.end = at;
            self.segments.insert(at, rest);
        }
    }

    fn replace_covered(&mut self, start: u64, end: u64, number: usize) {
        let (writes, new) = (&self.writes, &self.writes[number].place.footprint);
        // The same write lies in many segments; whether it is covered is asked once.
        let mut covered: BTreeMap<usize, bool> = BTreeMap::new();
        for (_, segment) in self.segments.range_mut(start..end) {
            segment.writes.retain(|&old| {
                !*covered.entry(old).or_insert_with(|| new.covers(&writes[old].place.footprint))
            });
            segment.writes.push(number);
        }
    }

    fn fill_gaps(&mut self, start: u64, end: u64, number: usize) {
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
        for (first, end) in gaps {
            self.segments.insert(first, Segment { end, writes: vec![number] });
        }
    }
}

/// Leaves out writes of which newer ones, together, have overwritten all that the view shows. Views of too many pieces stay as
/// they are.
fn drop_overwritten(newest_first: &mut Vec<&Write>, view: &Place) {
    let Some(mut left) = pieces(view).map(|p| ranges(&p)) else { return };
    newest_first.retain(|write| match pieces(&write.place).map(|p| without(&left, &p)) {
        None => true,
        Some(None) => false,
        Some(Some(rest)) => {
            left = rest;
            true
        }
    });
}

/// First address and the one behind the last; `None` of an empty view, or one that goes round the address space.
fn span(footprint: &Footprint) -> Option<(u64, u64)> {
    let end = footprint.start().checked_add(footprint.span_bytes())?;
    (!footprint.is_empty()).then_some((footprint.start(), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tensortap_geometry::Layout;

    fn source(task: usize) -> Source {
        Source { task, arg_index: 0 }
    }

    fn tasks(map: &WriteMap, layout: &Layout, base: u64) -> Vec<usize> {
        map.last(&Place::new(*layout, base)).iter().map(|s| s.task).collect()
    }

    #[test]
    fn a_write_hides_what_it_covers_and_nothing_else() {
        let matrix = Layout::contiguous(&[8, 8], 32).unwrap();
        let left = matrix.slice(1, 0, 4).unwrap();
        let right = matrix.slice(1, 4, 4).unwrap();
        let mut map = WriteMap::default();
        map.insert(source(0), Place::new(matrix, 0x1000));
        map.insert(source(1), Place::new(left, 0x1000));
        assert_eq!(tasks(&map, &right, 0x1000), [0]);
        map.insert(source(2), Place::new(right, 0x1000));
        assert_eq!(tasks(&map, &left, 0x1000), [1]);
        assert_eq!(tasks(&map, &right, 0x1000), [2]);
        map.insert(source(3), Place::new(matrix, 0x1000));
        assert_eq!(tasks(&map, &right, 0x1000), [3]);
    }

    #[test]
    fn memory_used_again_belongs_to_who_wrote_last() {
        let (large, small) = (Layout::contiguous(&[64], 32).unwrap(), Layout::contiguous(&[16], 32).unwrap());
        let mut map = WriteMap::default();
        map.insert(source(0), Place::new(large, 0x1000));
        map.insert(source(1), Place::new(small, 0x1040));
        assert_eq!(tasks(&map, &small, 0x1040), [1]);
        assert_eq!(tasks(&map, &large, 0x1000), [1, 0]);
        assert_eq!(tasks(&map, &small, 0x1100), [0_usize; 0]);
    }

    proptest! {
        /// Against a table of bytes.
        #[test]
        fn exactly_the_last_writers_of_a_views_bytes_are_named(
            writes in proptest::collection::vec((0_u64..64, 1_u64..6, 1_u64..6, 1_i64..9), 1..25),
            read in (0_u64..64, 1_u64..6, 1_u64..6, 1_i64..9),
        ) {
            let layout = |rows: u64, columns: u64, extra: i64| {
                let stride = i64::try_from(columns).unwrap() + extra - 1;
                Layout::new(&[rows, columns], &[stride, 1], 0, 8).unwrap()
            };
            let bytes = |(base, rows, columns, extra): (u64, u64, u64, i64)| -> Vec<u64> {
                layout(rows, columns, extra).offsets().map(|o| base + o).collect()
            };
            let mut map = WriteMap::default();
            let mut owner = [None; 256];
            for (task, &(base, rows, columns, extra)) in writes.iter().enumerate() {
                map.insert(source(task), Place::new(layout(rows, columns, extra), base));
                for byte in bytes((base, rows, columns, extra)) {
                    owner[usize::try_from(byte).unwrap()] = Some(task);
                }
            }
            let named = tasks(&map, &layout(read.1, read.2, read.3), read.0);
            prop_assert!(named.is_sorted_by(|a, b| a > b));
            for byte in bytes(read) {
                if let Some(task) = owner[usize::try_from(byte).unwrap()] {
                    prop_assert!(named.contains(&task), "byte {byte} is of {task}, not of {named:?}");
                }
            }
            for task in named {
                let held = bytes(read).iter().any(|&b| owner[usize::try_from(b).unwrap()] == Some(task));
                prop_assert!(held, "{task} was overwritten");
            }
        }
    }
}
