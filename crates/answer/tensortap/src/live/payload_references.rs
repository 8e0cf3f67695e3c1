//! The payload file as scratch space: reference counts of payloads, and the space of unused ones.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tensortap_abi::SMALL_PAYLOAD_ALIGN;
use tensortap_format::{DumpWriter, FormatError};

/// Number of unused bytes that are worth freeing.
const MUCH: u64 = 16 << 20;

/// Reference counts of the payloads in the file. Equal payloads are stored once, so a payload is freed only
/// if no waiting and no stored record refers to it.
#[derive(Debug, Default)]
pub(super) struct PayloadReferences {
    held: HashMap<u64, ReferenceCount>,
    /// Offsets that were unused when they were added. A later record may refer to them again.
    idle: Vec<u64>,
    idle_bytes: u64,
    waiting_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReferenceCount {
    bytes: u64,
    /// Number of waiting records.
    waiting: u32,
    /// Whether a record in the index refers to it.
    kept: bool,
}

impl PayloadReferences {
    /// Bytes in the file that only waiting records refer to.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// A record that refers to a payload starts to wait.
    pub(super) fn wait(&mut self, (offset, bytes): (u64, u64)) {
        let held = self.held.entry(offset).or_insert(ReferenceCount { bytes, ..ReferenceCount::default() });
        if held.waiting == 0 && !held.kept {
            self.waiting_bytes += held.bytes;
        }
        held.waiting += 1;
    }

    /// A waiting record is about to be stored or dropped.
    pub(super) fn end_wait(&mut self, (offset, _): (u64, u64)) {
        let Some(held) = self.held.get_mut(&offset) else { return };
        held.waiting = held.waiting.saturating_sub(1);
        if held.waiting == 0 && !held.kept {
            self.waiting_bytes -= held.bytes;
            self.idle.push(offset);
            self.idle_bytes += held.bytes;
        }
    }

    /// A record is stored with its payload. Returns whether it is the first one.
    pub(super) fn keep(&mut self, (offset, bytes): (u64, u64)) -> bool {
        let held = self.held.entry(offset).or_insert(ReferenceCount { bytes, ..ReferenceCount::default() });
        if held.waiting > 0 && !held.kept {
            self.waiting_bytes -= held.bytes;
        }
        !std::mem::replace(&mut held.kept, true)
    }

    /// Whether enough bytes are unused to free them.
    pub(super) fn is_much_idle(&self) -> bool {
        self.idle_bytes >= MUCH
    }

    /// Removes the unused payloads and returns their ranges, sorted. Nothing may refer to them from now on.
    pub(super) fn take_idle(&mut self) -> Vec<Range<u64>> {
        self.idle_bytes = 0;
        let mut ranges = Vec::new();
        for offset in std::mem::take(&mut self.idle) {
            if let Some(ReferenceCount { bytes, waiting: 0, kept: false }) = self.held.get(&offset).copied() {
                self.held.remove(&offset);
                ranges.push(offset..offset + bytes);
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

/// Unreferenced ranges of the payload file. Adjacent ranges are merged, so that small payloads add up to
/// pages.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    /// End of each range by its start, and whether it has grown since it was freed.
    ranges: BTreeMap<u64, (u64, bool)>,
}

impl FreeSpace {
    /// Adds a range. Ranges never overlap.
    pub(super) fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &(before_end, _))) = self.ranges.range(..start).next_back()
            && touch(before_end, start)
        {
            self.ranges.remove(&before);
            start = before;
        }
        if let Some((&after, &(after_end, _))) = self.ranges.range(end..).next()
            && touch(end, after)
        {
            self.ranges.remove(&after);
            end = after_end;
        }
        self.ranges.insert(start, (end, true));
    }

    /// Frees all added ranges.
    pub(super) fn give_back(&mut self, writer: &mut DumpWriter) -> Result<(), FormatError> {
        for (&start, (end, new)) in self.ranges.iter_mut().filter(|(_, (_, new))| *new) {
            writer.free(&(start..*end))?;
            *new = false;
        }
        Ok(())
    }
}

/// Whether only padding is between them: payloads start at multiples of the alignment.
fn touch(end: u64, start: u64) -> bool {
    end.next_multiple_of(SMALL_PAYLOAD_ALIGN) >= start
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (u64, u64) = (0, 100);
    const B: (u64, u64) = (128, 50);

    #[test]
    fn a_payload_with_waiting_or_stored_records_stays() {
        let mut held = PayloadReferences::default();
        held.wait(A);
        held.wait(A);
        held.wait(B);
        assert_eq!(held.waiting_bytes(), 150);
        held.end_wait(A);
        held.end_wait(B);
        assert_eq!((held.waiting_bytes(), held.take_idle()), (100, vec![Range { start: 128, end: 178 }]));
        held.end_wait(A);
        assert!(held.keep(A) && !held.keep(A), "stored once");
        assert_eq!((held.waiting_bytes(), held.take_idle()), (0, vec![]));
        // A payload that one record keeps outlives all later records.
        held.wait(A);
        held.end_wait(A);
        assert_eq!((held.waiting_bytes(), held.take_idle()), (0, vec![]));
    }

    #[test]
    fn a_payload_that_is_reused_before_it_is_freed_stays_and_is_freed_once() {
        let mut held = PayloadReferences::default();
        held.wait(A);
        held.end_wait(A);
        held.wait(A);
        assert_eq!((held.waiting_bytes(), held.take_idle()), (100, vec![]));
        held.end_wait(A);
        held.wait(A);
        held.end_wait(A);
        assert_eq!(
            (held.waiting_bytes(), held.take_idle(), held.take_idle()),
            (0, vec![Range { start: 0, end: 100 }], vec![])
        );
    }

    #[test]
    fn adjacent_ranges_merge_unless_a_payload_is_between_them() {
        let mut free = FreeSpace::default();
        free.add(0..100);
        free.add(256..300);
        assert_eq!(free.ranges.len(), 2);
        free.add(128..200);
        assert_eq!(free.ranges.into_iter().collect::<Vec<_>>(), [(0, (300, true))]);
    }
}
