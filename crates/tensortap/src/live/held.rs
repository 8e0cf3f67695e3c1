use std::collections::HashMap;
use std::ops::Range;

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
}
