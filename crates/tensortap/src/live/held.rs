//! The payload file as scratch space: payloads and who needs them, and the room of those that nobody does.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tensortap_abi::SMALL_PAYLOAD_ALIGN;
use tensortap_format::{DumpWriter, FormatError};

/// Bytes that nobody refers to which are gathered before they are worth giving back.
const MUCH: u64 = 16 << 20;

/// Payloads of the file and who needs them. Equal payloads are stored once, so a payload goes only when nobody who waits
/// refers to it and nobody was entered with it.
#[derive(Debug, Default)]
pub(super) struct HeldPayloads {
    held: HashMap<u64, Held>,
    /// Offsets that were not needed when they were put here; a record that came since may have taken them up again.
    idle: Vec<u64>,
    idle_bytes: u64,
    waiting_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    /// Records that wait for their verdict.
    waiting: u32,
    /// A record in the index refers to it.
    kept: bool,
}

impl HeldPayloads {
    /// Bytes in the file that are there for records that wait only.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// A record that refers to a payload begins to wait.
    pub(super) fn wait(&mut self, (offset, bytes): (u64, u64)) {
        let held = self.held.entry(offset).or_insert(Held { bytes, ..Held::default() });
        if held.waiting == 0 && !held.kept {
            self.waiting_bytes += held.bytes;
        }
        held.waiting += 1;
    }

    /// A record that waits is about to be entered, or dropped.
    pub(super) fn end_wait(&mut self, (offset, _): (u64, u64)) {
        let Some(held) = self.held.get_mut(&offset) else { return };
        held.waiting = held.waiting.saturating_sub(1);
        if held.waiting == 0 && !held.kept {
            self.waiting_bytes -= held.bytes;
            self.idle.push(offset);
            self.idle_bytes += held.bytes;
        }
    }

    /// A record is entered with its payload; whether it is the first.
    pub(super) fn keep(&mut self, (offset, bytes): (u64, u64)) -> bool {
        let held = self.held.entry(offset).or_insert(Held { bytes, ..Held::default() });
        if held.waiting > 0 && !held.kept {
            self.waiting_bytes -= held.bytes;
        }
        !std::mem::replace(&mut held.kept, true)
    }

    /// Whether giving back is worth a call.
    pub(super) fn is_much_idle(&self) -> bool {
        self.idle_bytes >= MUCH
    }

    /// Forgets the payloads that nobody needs, and says where they are, in order. Nothing may refer to them from now on.
    pub(super) fn take_idle(&mut self) -> Vec<Range<u64>> {
        self.idle_bytes = 0;
        let mut ranges = Vec::new();
        for offset in std::mem::take(&mut self.idle) {
            if let Some(Held { bytes, waiting: 0, kept: false }) = self.held.get(&offset).copied() {
                self.held.remove(&offset);
                ranges.push(offset..offset + bytes);
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

/// Ranges of the payload file that nothing refers to. Neighbours become one, so that small payloads add up to pages.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    /// End of each range by its start, and whether it has grown since it was given back.
    ranges: BTreeMap<u64, (u64, bool)>,
}

impl FreeSpace {
    /// Adds a range; no two ranges overlap.
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

    /// Gives back all that was added.
    pub(super) fn give_back(&mut self, writer: &mut DumpWriter) -> Result<(), FormatError> {
        for (&start, (end, new)) in self.ranges.iter_mut().filter(|(_, (_, new))| *new) {
            writer.free(start..*end)?;
            *new = false;
        }
        Ok(())
    }
}

/// Whether nothing lies between: payloads start on multiples of the alignment.
fn touch(end: u64, start: u64) -> bool {
    end.next_multiple_of(SMALL_PAYLOAD_ALIGN) >= start
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (u64, u64) = (0, 100);
    const B: (u64, u64) = (128, 50);

    #[test]
    fn a_payload_that_somebody_waits_for_or_keeps_stays() {
        let mut held = HeldPayloads::default();
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
        // Kept by one, it outlives all who come later.
        held.wait(A);
        held.end_wait(A);
        assert_eq!((held.waiting_bytes(), held.take_idle()), (0, vec![]));
    }

    #[test]
    fn a_payload_that_is_taken_up_again_before_it_went_stays_and_goes_once() {
        let mut held = HeldPayloads::default();
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
    fn neighbours_become_one_range_and_a_payload_between_keeps_them_apart() {
        let mut free = FreeSpace::default();
        free.add(0..100);
        free.add(256..300);
        assert_eq!(free.ranges.len(), 2);
        free.add(128..200);
        assert_eq!(free.ranges.into_iter().collect::<Vec<_>>(), [(0, (300, true))]);
    }
}
