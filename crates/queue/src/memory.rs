//! The memory that lives on a device.

use std::{collections::BTreeMap, ops::Range};

use tensortap_record::MemorySpace;

/// Memory whose driver tells no address is given one from here on, where no process and no device has any.
pub const FIRST_ADDRESS: u64 = 1 << 56;
/// Addresses that are given are as far apart at least, so that no two ranges touch.
const PAGE: u64 = 4096;

/// A piece of memory, from when it was allocated until it was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Whose it is.
    pub space: MemorySpace,
}

impl Memory {
    /// Whether an address lies in it.
    pub fn holds(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.bytes.max(1)
    }
}

/// The memory that lives, by its address.
#[derive(Debug)]
pub struct Memories {
    live: BTreeMap<u64, Memory>,
    next_address: u64,
}

impl Default for Memories {
    fn default() -> Memories {
        Memories { live: BTreeMap::new(), next_address: FIRST_ADDRESS }
    }
}

impl Memories {
    /// Memory at an address that the driver tells. What the table still has there was freed without a word.
    pub fn add(&mut self, memory: Memory) {
        let end = memory.address.saturating_add(memory.bytes.max(1));
        let gone: Vec<u64> = self
            .live
            .range(..end)
            .rev()
            .take_while(|(_, known)| known.address.saturating_add(known.bytes.max(1)) > memory.address)
            .map(|(&address, _)| address)
            .collect();
        for address in gone {
            self.live.remove(&address);
        }
        self.live.insert(memory.address, memory);
    }

    /// Memory whose driver tells no address: one that nothing else has had.
    pub fn place(&mut self, bytes: u64, space: MemorySpace) -> Memory {
        let memory = Memory { address: self.next_address, bytes, space };
        self.next_address += bytes.div_ceil(PAGE).saturating_add(1).saturating_mul(PAGE);
        self.live.insert(memory.address, memory);
        memory
    }

    /// The memory that begins at an address is freed.
    pub fn remove(&mut self, address: u64) -> Option<Memory> {
        self.live.remove(&address)
    }

    /// Addresses outside of which no memory lives.
    pub fn span(&self) -> Range<u64> {
        let first = self.live.keys().next().copied().unwrap_or(0);
        // No two overlap, so the last to begin is the last to end.
        let end =
            self.live.values().next_back().map_or(0, |last| last.address.saturating_add(last.bytes.max(1)));
        first..end
    }

    /// The memory that an address lies in.
    ///
    /// ```
    /// use tensortap_queue::{Memories, Memory};
    /// use tensortap_record::MemorySpace;
    /// let mut memories = Memories::default();
    /// memories.add(Memory { address: 4096, bytes: 100, space: MemorySpace::Device });
    /// assert_eq!(memories.find(4195).map(|memory| memory.address), Some(4096));
    /// assert_eq!(memories.find(4196), None);
    /// ```
    pub fn find(&self, address: u64) -> Option<Memory> {
        let (_, memory) = self.live.range(..=address).next_back()?;
        memory.holds(address).then_some(*memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_freed_without_a_word_gives_way_to_what_is_there_now() {
        let mut memories = Memories::default();
        let at = |address, bytes| Memory { address, bytes, space: MemorySpace::Device };
        memories.add(at(100, 50));
        memories.add(at(150, 50));
        memories.add(at(140, 20));
        assert_eq!(memories.find(120), None);
        assert_eq!(memories.find(145), Some(at(140, 20)));
        assert_eq!(memories.find(170), None);
        memories.add(at(0, 140));
        assert_eq!((memories.find(139), memories.find(140)), (Some(at(0, 140)), Some(at(140, 20))));
        assert_eq!(memories.span(), 0..160);
    }

    #[test]
    fn given_addresses_are_used_once_and_lie_apart() {
        let mut memories = Memories::default();
        let first = memories.place(1, MemorySpace::Device);
        memories.remove(first.address);
        let second = memories.place(0, MemorySpace::Device);
        let third = memories.place(4097, MemorySpace::Device);
        assert!(first.address < second.address && second.address < third.address);
        assert_eq!(memories.find(third.address + 4096), Some(third));
        assert_eq!(memories.find(third.address + 4097), None);
        assert_eq!(memories.find(second.address), Some(second), "an empty one is found by where it begins");
    }
}
