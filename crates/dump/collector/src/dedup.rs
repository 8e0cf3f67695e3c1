//! Finds payloads that are already stored.

use std::{collections::HashMap, ops::Range};

use tensortap_abi::{RECORD_HAS_HASH, TensorRecord};

use crate::check::content_bytes;

/// Content of a payload, by hash and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContentKey {
    pub(crate) hash: [u8; 16],
    pub(crate) bytes: u64,
}

impl ContentKey {
    /// The key of a payload with this many bytes; `None` if the payload is not the whole content, because
    /// it is then unique.
    pub(crate) fn of(record: &TensorRecord, bytes: u64) -> Option<ContentKey> {
        let whole = content_bytes(record) == Some(bytes);
        (whole && record.flags & RECORD_HAS_HASH != 0).then_some(ContentKey { hash: record.hash, bytes })
    }

    /// Half of the hash: enough to guess a duplicate, too short to prove one.
    fn fingerprint(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.hash;
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ self.bytes.rotate_left(32)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: ContentKey,
    offset: u64,
    /// Whether it was found since the clock's hand passed.
    used: bool,
    /// Whether the stored bytes were hashed again and have this hash.
    proven: bool,
}

/// A stored payload with equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredPayload {
    pub(crate) offset: u64,
    /// Whether the stored bytes were hashed again and have the expected hash.
    pub(crate) proven: bool,
}

/// Offsets of stored payloads, at most `capacity` of them. A clock algorithm decides which to forget.
/// Memory grows with use.
#[derive(Debug)]
pub(crate) struct DedupTable {
    capacity: usize,
    places: HashMap<ContentKey, usize>,
    slots: Vec<Slot>,
    hand: usize,
    /// Fingerprints of forgotten payloads, each at the position that its value determines; 0 for none.
    forgotten: Vec<u64>,
    missed: u64,
}

impl DedupTable {
    /// A table for `capacity` payloads; with 0 it never finds anything.
    pub(crate) fn new(capacity: usize) -> DedupTable {
        DedupTable {
            capacity,
            places: HashMap::new(),
            slots: Vec::new(),
            hand: 0,
            forgotten: Vec::new(),
            missed: 0,
        }
    }

    /// Where equal content is stored. Counts content that was known once and has been forgotten.
    pub(crate) fn find(&mut self, key: ContentKey) -> Option<StoredPayload> {
        if let Some(&place) = self.places.get(&key) {
            let slot = &mut self.slots[place];
            slot.used = true;
            return Some(StoredPayload { offset: slot.offset, proven: slot.proven });
        }
        let fingerprint = key.fingerprint();
        if self.forgotten_place(fingerprint).is_some_and(|place| *place == fingerprint) {
            self.missed += 1;
        }
        None
    }

    /// Records that the stored bytes have the expected hash.
    pub(crate) fn prove(&mut self, key: ContentKey) {
        if let Some(&place) = self.places.get(&key) {
            self.slots[place].proven = true;
        }
    }

    /// Removes content whose stored bytes do not have the expected hash.
    pub(crate) fn discard(&mut self, key: ContentKey) {
        let Some(place) = self.places.remove(&key) else { return };
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.key, place);
        }
        self.hand = 0;
    }

    /// Adds stored content.
    pub(crate) fn insert(&mut self, key: ContentKey, offset: u64) {
        if self.capacity == 0 || self.places.contains_key(&key) {
            return;
        }
        let slot = Slot { key, offset, used: false, proven: false };
        let place = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let place = self.choose_victim();
            self.forget(self.slots[place].key);
            self.slots[place] = slot;
            place
        };
        self.places.insert(key, place);
    }

    /// Removes every payload in `dead`, sorted ranges whose bytes are gone.
    pub(crate) fn remove(&mut self, dead: &[Range<u64>]) {
        let is_dead = |offset| {
            let first = dead.partition_point(|range| range.end <= offset);
            dead.get(first).is_some_and(|range| range.start <= offset)
        };
        self.slots.retain(|slot| !is_dead(slot.offset));
        self.hand = 0;
        self.places = self.slots.iter().enumerate().map(|(place, slot)| (slot.key, place)).collect();
    }

    /// Number of payloads stored again because their first copy was forgotten; a lower bound.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    fn choose_victim(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[place].used) {
                return place;
            }
        }
    }

    fn forget(&mut self, key: ContentKey) {
        self.places.remove(&key);
        if self.forgotten.is_empty() {
            self.forgotten = vec![0; self.capacity.saturating_mul(4)];
        }
        let fingerprint = key.fingerprint();
        if let Some(place) = self.forgotten_place(fingerprint) {
            *place = fingerprint;
        }
    }

    fn forgotten_place(&mut self, fingerprint: u64) -> Option<&mut u64> {
        let len = self.forgotten.len() as u64;
        let place = usize::try_from(fingerprint.checked_rem(len)?).ok()?;
        self.forgotten.get_mut(place).filter(|_| fingerprint != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> ContentKey {
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        ContentKey { hash, bytes: 256 }
    }

    fn offset(table: &mut DedupTable, key: ContentKey) -> Option<u64> {
        table.find(key).map(|found| found.offset)
    }

    #[test]
    fn equal_content_is_found_but_not_with_a_different_size() {
        let mut table = DedupTable::new(8);
        table.insert(key(1), 4096);
        assert_eq!(offset(&mut table, key(1)), Some(4096));
        assert_eq!(offset(&mut table, ContentKey { bytes: 255, ..key(1) }), None);
        assert_eq!(offset(&mut table, key(2)), None);
        assert_eq!(table.missed(), 0);
    }

    #[test]
    fn a_full_table_forgets_unused_content_and_counts_misses() {
        let mut table = DedupTable::new(4);
        for number in 1..=4 {
            table.insert(key(number), number * 64);
        }
        assert_eq!(offset(&mut table, key(1)), Some(64));
        for number in 5..=7 {
            table.insert(key(number), number * 64);
        }
        assert_eq!(table.slots.len(), 4);
        assert_eq!(offset(&mut table, key(1)), Some(64), "in use");
        for number in 2..=4 {
            assert_eq!(offset(&mut table, key(number)), None);
        }
        assert!((1..=3).contains(&table.missed()), "{}", table.missed());
        for number in 5..=7 {
            assert_eq!(offset(&mut table, key(number)), Some(number * 64));
        }
    }

    #[test]
    fn nothing_is_found_in_freed_ranges() {
        let mut table = DedupTable::new(4);
        for number in 1..=4 {
            table.insert(key(number), number * 64);
        }
        table.remove(&[0..128, 256..300]);
        assert_eq!([1, 2, 3, 4].map(|n| offset(&mut table, key(n))), [None, Some(128), Some(192), None]);
        table.insert(key(1), 640);
        assert_eq!(offset(&mut table, key(1)), Some(640));
    }

    #[test]
    fn without_capacity_nothing_is_found() {
        let mut table = DedupTable::new(0);
        table.insert(key(1), 64);
        assert_eq!(offset(&mut table, key(1)), None);
    }

    #[test]
    fn discarded_content_is_removed_and_other_content_stays() {
        let mut table = DedupTable::new(4);
        for number in 1..=4 {
            table.insert(key(number), number * 64);
        }
        table.prove(key(4));
        table.discard(key(1));
        table.discard(key(1));
        assert_eq!([1, 2, 3].map(|n| offset(&mut table, key(n))), [None, Some(128), Some(192)]);
        assert_eq!(
            table.find(key(4)),
            Some(StoredPayload { offset: 256, proven: true }),
            "the entry was moved"
        );
        table.insert(key(1), 640);
        assert_eq!(table.find(key(1)), Some(StoredPayload { offset: 640, proven: false }));
    }
}
