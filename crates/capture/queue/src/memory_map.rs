//! The device memory that is allocated now.

use std::{collections::BTreeMap, ops::Range};

use tensortap_record::MemorySpace;

/// First address for memory whose driver reports no address. No process and no device uses addresses from here on.
pub const FIRST_ADDRESS: u64 = 1 << 56;
/// Assigned addresses are at least this far apart, so that no two ranges touch.
const PAGE: u64 = 4096;

/// A piece of memory, from its allocation until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Start address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Device memory, pinned host memory or managed memory.
    pub space: MemorySpace,
}

impl Memory {
    /// Whether an address is inside this memory. Empty memory contains its start address.
    pub fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.bytes.max(1)
    }
}

/// The memory that is allocated now, by address.
#[derive(Debug)]
pub struct MemoryMap {
    live: BTreeMap<u64, Memory>,
    next_address: u64,
}

impl Default for MemoryMap {
    fn default() -> MemoryMap {
        MemoryMap { live: BTreeMap::new(), next_address: FIRST_ADDRESS }
    }
}

impl MemoryMap {
    /// Adds memory at an address that the driver reports. Older memory that overlaps it was freed without notice
    /// and is removed. Returns it.
    pub fn add(&mut self, memory: Memory) -> Vec<Memory> {
        let end = memory.address.saturating_add(memory.bytes.max(1));
        let overlapping: Vec<u64> = self
            .live
            .range(..end)
            .rev()
            .take_while(|(_, known)| known.address.saturating_add(known.bytes.max(1)) > memory.address)
            .map(|(&address, _)| address)
            .collect();
        let gone = overlapping.iter().filter_map(|address| self.live.remove(address)).collect();
        self.live.insert(memory.address, memory);
        gone
    }

    /// Adds memory whose driver reports no address, at an address that was never assigned before.
    pub fn add_at_new_address(&mut self, bytes: u64, space: MemorySpace) -> Memory {
        let memory = Memory { address: self.next_address, bytes, space };
        self.next_address += bytes.div_ceil(PAGE).saturating_add(1).saturating_mul(PAGE);
        self.live.insert(memory.address, memory);
        memory
    }

    /// Removes the memory that starts at an address.
    pub fn remove(&mut self, address: u64) -> Option<Memory> {
        self.live.remove(&address)
    }

    /// The smallest address range that contains all memory.
    pub fn span(&self) -> Range<u64> {
        let first = self.live.keys().next().copied().unwrap_or(0);
        // No two pieces overlap, so the last one to start is also the last one to end.
        let end =
            self.live.values().next_back().map_or(0, |last| last.address.saturating_add(last.bytes.max(1)));
        first..end
    }

    /// The memory that contains an address.
    ///
    /// ```
    /// use tensortap_queue::{MemoryMap, Memory};
    /// use tensortap_record::MemorySpace;
    /// let mut memories = MemoryMap::default();
    /// memories.add(Memory { address: 4096, bytes: 100, space: MemorySpace::Device });
    /// assert_eq!(memories.find(4195).map(|memory| memory.address), Some(4096));
    /// assert_eq!(memories.find(4196), None);
    /// ```
    pub fn find(&self, address: u64) -> Option<Memory> {
        let (_, memory) = self.live.range(..=address).next_back()?;
        memory.contains(address).then_some(*memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_replaces_overlapping_memory_that_was_freed_without_notice() {
        let mut memories = MemoryMap::default();
        let at = |address, bytes| Memory { address, bytes, space: MemorySpace::Device };
        memories.add(at(100, 50));
        memories.add(at(150, 50));
        assert_eq!(memories.add(at(140, 20)), [at(150, 50), at(100, 50)]);
        assert_eq!(memories.find(120), None);
        assert_eq!(memories.find(145), Some(at(140, 20)));
        assert_eq!(memories.find(170), None);
        memories.add(at(0, 140));
        assert_eq!((memories.find(139), memories.find(140)), (Some(at(0, 140)), Some(at(140, 20))));
        assert_eq!(memories.span(), 0..160);
    }

    #[test]
    fn assigned_addresses_are_never_reused_and_never_touch() {
        let mut memories = MemoryMap::default();
        let first = memories.add_at_new_address(1, MemorySpace::Device);
        memories.remove(first.address);
        let second = memories.add_at_new_address(0, MemorySpace::Device);
        let third = memories.add_at_new_address(4097, MemorySpace::Device);
        assert!(first.address < second.address && second.address < third.address);
        assert_eq!(memories.find(third.address + 4096), Some(third));
        assert_eq!(memories.find(third.address + 4097), None);
        assert_eq!(memories.find(second.address), Some(second), "empty memory is found by its start address");
    }
}
