//! The memory that a program has, as far as its addresses say.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use tensortap_queue::{ByNumber, Memories, Memory};
use tensortap_record::MemorySpace;

/// A device, by its number.
pub type Device = i32;

/// Live memory. Pieces of virtual memory that touch one another are one to whoever points into them.
#[derive(Debug, Default)]
pub struct Allocations {
    memories: Memories,
    /// Virtual memory by where a piece begins, with the devices that may read it.
    mapped: ByNumber<u64, Vec<Device>>,
    /// Handles of what several devices write at once, and where such is mapped: nothing reads it as it does memory.
    multicast: HashSet<u64>,
    unreadable: HashSet<u64>,
    /// By where memory begins, the context that it goes with.
    contexts: HashMap<u64, usize>,
    /// What an allocator of the program's has made of its memory, by where each block begins. No two overlap; what was given back stays until its place is
    /// given out again, for graphs go on using it.
    blocks: BTreeMap<u64, Block>,
    /// How often memory has come or gone, or may be read by others.
    changes: u64,
}

/// Where the block of an address ends, and whether it is one that was not given back; where the next one begins, outside of all.
pub type BlockEnd = (u64, bool);

/// A piece that an allocator of the program's has given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    bytes: u64,
    /// Whether it was not given back.
    is_live: bool,
}

/// Memory from an address to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Bytes that follow the address.
    pub bytes: u64,
    /// Whose they are.
    pub space: MemorySpace,
    /// Whether the device may read them.
    pub is_readable: bool,
    /// Whether they end where what the pointer was given for does.
    pub is_exact: bool,
}

impl Allocations {
    /// Memory is there from now on, until it is freed or its context goes.
    pub fn add(&mut self, memory: Memory, context: Option<usize>) {
        self.changes += 1;
        self.mapped.remove(&memory.address);
        match context {
            Some(context) => _ = self.contexts.insert(memory.address, context),
            None => _ = self.contexts.remove(&memory.address),
        }
        self.forget_blocks(memory.address, memory.bytes);
        self.memories.add(memory);
    }

    /// The memory that begins at an address goes.
    pub fn remove(&mut self, address: u64) -> Option<Memory> {
        self.changes += 1;
        self.mapped.remove(&address);
        self.contexts.remove(&address);
        let gone = self.memories.remove(address)?;
        self.forget_blocks(gone.address, gone.bytes);
        Some(gone)
    }

    /// A context goes; the memory that goes with it.
    pub fn forget_context(&mut self, context: usize) -> Vec<Memory> {
        let of_it = self.contexts.iter().filter(|(_, own)| **own == context).map(|(&address, _)| address);
        let of_it: Vec<u64> = of_it.collect();
        of_it.into_iter().filter_map(|address| self.remove(address)).collect()
    }

    /// Whether memory of so many bytes begins at an address.
    pub fn has(&self, address: u64, bytes: u64) -> bool {
        let found = self.memories.find(address);
        found.is_some_and(|memory| (memory.address, memory.bytes) == (address, bytes))
    }

    /// Whether memory is known at an address.
    pub fn holds(&self, address: u64) -> bool {
        self.memories.find(address).is_some()
    }

    /// Addresses outside of which no memory is known.
    pub fn span(&self) -> Range<u64> {
        self.memories.span()
    }

    /// An allocator of the program's has given out a block.
    pub fn add_block(&mut self, address: u64, bytes: u64) {
        // Most are given out again as they were, and then no other shares a byte with them.
        if let Some(block) = self.blocks.get_mut(&address).filter(|block| block.bytes == bytes) {
            block.is_live = true;
            return;
        }
        self.forget_blocks(address, bytes);
        self.blocks.insert(address, Block { bytes, is_live: true });
    }

    /// And has it back; its bytes, if it was known.
    pub fn free_block(&mut self, address: u64) -> Option<u64> {
        let block = self.blocks.get_mut(&address).filter(|block| block.is_live)?;
        block.is_live = false;
        Some(block.bytes)
    }

    /// Whose memory lies at an address; the device's where none is known.
    pub fn space(&self, address: u64) -> MemorySpace {
        self.memories.find(address).map_or(MemorySpace::Device, |memory| memory.space)
    }

    /// Nothing is known any more of blocks that share bytes with a range.
    fn forget_blocks(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let before = self.blocks.range(..address).next_back();
        let first = match before {
            Some((&start, block)) if start.saturating_add(block.bytes) > address => start,
            _ => address,
        };
        while let Some((&gone, _)) = self.blocks.range(first..end).next() {
            self.blocks.remove(&gone);
        }
    }

    /// What a pointer is given for, `most` bytes at most: up to the end of its block where an allocator of the program's has made one, otherwise of its memory.
    pub fn extent(&self, address: u64, device: Device, most: u64) -> Option<Reach> {
        let reach = self.reach(address, device, most)?;
        let (end, is_exact) = self.block_end(address);
        let bytes = reach.bytes.min(end - address);
        Some(Reach { bytes, is_exact: is_exact && bytes == end - address, ..reach })
    }

    /// Where the block of an address ends.
    pub fn block_end(&self, address: u64) -> BlockEnd {
        match self.blocks.range(..=address).next_back() {
            Some((start, block)) if start + block.bytes > address => (start + block.bytes, block.is_live),
            // Between blocks: what the next one has is not meant.
            _ => (self.blocks.range(address..).next().map_or(u64::MAX, |(&next, _)| next), false),
        }
    }

    /// How often memory has come or gone, or may be read by others: as long as this stays, only [blocks](Allocations::block_end) tell what a pointer reaches.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// There is a handle of what several devices write at once.
    pub fn add_multicast(&mut self, handle: u64) {
        self.multicast.insert(handle);
    }

    /// Memory of a handle was mapped at an address; nobody may touch it yet.
    pub fn map(&mut self, address: u64, bytes: u64, handle: u64) -> Memory {
        self.changes += 1;
        if self.multicast.contains(&handle) {
            self.unreadable.insert(address);
        } else {
            self.unreadable.remove(&address);
        }
        let memory = Memory { address, bytes, space: MemorySpace::Device };
        self.memories.add(memory);
        self.mapped.insert(address, Vec::new());
        memory
    }

    /// What was mapped between two addresses is so no more.
    pub fn unmap(&mut self, address: u64, bytes: u64) -> Vec<Memory> {
        let pieces = self.pieces(address, bytes);
        pieces.into_iter().filter_map(|piece| self.remove(piece)).collect()
    }

    /// A device may read what is mapped between two addresses, or may not any more.
    pub fn set_access(&mut self, address: u64, bytes: u64, device: Device, may_read: bool) {
        self.changes += 1;
        for piece in self.pieces(address, bytes) {
            if let Some(devices) = self.mapped.get_mut(&piece).filter(|_| !self.unreadable.contains(&piece)) {
                devices.retain(|known| *known != device);
                if may_read {
                    devices.push(device);
                }
            }
        }
    }

    /// Where mapped pieces begin that lie between two addresses.
    fn pieces(&self, address: u64, bytes: u64) -> Vec<u64> {
        let end = address.saturating_add(bytes);
        let inside = self.mapped.keys().filter(|piece| (address..end).contains(*piece));
        inside.copied().collect()
    }

    /// What lies behind an address, `most` bytes at most; none where no memory is known.
    pub fn reach(&self, address: u64, device: Device, most: u64) -> Option<Reach> {
        let memory = self.memories.find(address)?;
        let mut bytes = memory.address + memory.bytes - address;
        let Some(devices) = self.mapped.get(&memory.address) else {
            return Some(Reach {
                bytes: bytes.min(most),
                space: memory.space,
                is_readable: true,
                is_exact: false,
            });
        };
        let is_readable = devices.contains(&device);
        // A program that maps piece by piece uses them as one.
        while bytes < most
            && let Some(next) = self.memories.find(address + bytes)
            && self.mapped.get(&next.address).is_some_and(|devices| devices.contains(&device) == is_readable)
            && next.bytes > 0
        {
            bytes += next.bytes;
        }
        Some(Reach { bytes: bytes.min(most), space: memory.space, is_readable, is_exact: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: MemorySpace = MemorySpace::Device;

    #[test]
    fn a_pointer_reaches_to_the_end_of_its_allocation_and_no_farther_than_is_wanted() {
        let mut live = Allocations::default();
        live.add(Memory { address: 1000, bytes: 100, space: DEVICE }, None);
        live.add(Memory { address: 1100, bytes: 100, space: MemorySpace::Managed }, None);
        let reach = |live: &Allocations, address, most| live.reach(address, 0, most);
        assert_eq!(reach(&live, 1010, 1 << 20).unwrap().bytes, 90, "what touches it is not its own");
        assert_eq!(reach(&live, 1010, 7).unwrap().bytes, 7);
        assert_eq!(reach(&live, 1100, 1000).unwrap().space, MemorySpace::Managed);
        assert_eq!(reach(&live, 1200, 1), None);
        live.remove(1000);
        assert_eq!(reach(&live, 1010, 1), None);
    }

    #[test]
    fn virtual_memory_is_read_where_its_device_may_and_as_far_as_it_is_mapped() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.map(8192, 4096, 1);
        live.map(16384, 4096, 1);
        assert!(!live.reach(5000, 0, 9000).unwrap().is_readable, "nobody may, yet");
        live.set_access(4096, 8192, 0, true);
        live.set_access(16384, 4096, 0, true);
        let reach = live.reach(5000, 0, 1 << 20).unwrap();
        assert_eq!((reach.bytes, reach.is_readable), (12288 - 5000, true), "up to the hole");
        assert!(!live.reach(5000, 1, 1).unwrap().is_readable, "another device");
        live.set_access(8192, 4096, 0, false);
        assert_eq!(live.reach(5000, 0, 1 << 20).unwrap().bytes, 8192 - 5000);
        assert_eq!(live.unmap(4096, 8192).len(), 2);
        assert_eq!(live.reach(5000, 0, 1), None);
        assert!(live.reach(16384, 0, 1).unwrap().is_readable);
    }

    #[test]
    fn a_pointer_reaches_to_the_end_of_its_block_where_an_allocator_has_made_one() {
        let mut live = Allocations::default();
        live.add(Memory { address: 1 << 20, bytes: 1 << 20, space: DEVICE }, None);
        let extent = |live: &Allocations, into: u64| {
            live.extent((1 << 20) + into, 0, 1 << 30).map(|reach| (reach.bytes, reach.is_exact)).unwrap()
        };
        assert_eq!(extent(&live, 512), ((1 << 20) - 512, false), "no allocator is known");
        live.add_block((1 << 20) + 512, 1024);
        live.add_block((1 << 20) + 1536, 512);
        assert_eq!((extent(&live, 512), extent(&live, 700)), ((1024, true), (836, true)));
        assert_eq!(extent(&live, 0), (512, false), "before the first");
        assert_eq!(extent(&live, 2048), ((1 << 20) - 2048, false), "behind the last");
        let short = live.extent((1 << 20) + 512, 0, 100).unwrap();
        assert_eq!((short.bytes, short.is_exact), (100, false), "not all of it");
        assert_eq!(live.free_block((1 << 20) + 512), Some(1024));
        assert_eq!((live.free_block((1 << 20) + 512), live.free_block(7)), (None, None));
        assert_eq!(extent(&live, 600), (936, false), "it was given back");
        live.add_block((1 << 20) + 1000, 100);
        assert_eq!(extent(&live, 1000), (100, true), "and out again");
        assert_eq!(extent(&live, 600), (400, false), "what the old one had is nobody's");
        assert_eq!(extent(&live, 1536), (512, true));
        live.remove(1 << 20);
        live.add(Memory { address: 1 << 20, bytes: 1 << 20, space: DEVICE }, None);
        assert_eq!(extent(&live, 1536), ((1 << 20) - 1536, false), "blocks go with their memory");
    }

    #[test]
    fn blocks_lie_over_pieces_of_virtual_memory() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.map(8192, 4096, 1);
        live.set_access(4096, 8192, 0, true);
        live.add_block(6000, 4000);
        let reach = live.extent(6100, 0, 1 << 20).unwrap();
        assert_eq!((reach.bytes, reach.is_exact, reach.is_readable), (3900, true, true));
        live.unmap(8192, 4096);
        assert!(!live.extent(6100, 0, 1 << 20).unwrap().is_exact, "a part of it is gone");
    }

    #[test]
    fn what_several_devices_write_at_once_is_never_read() {
        let mut live = Allocations::default();
        live.add_multicast(7);
        live.map(4096, 4096, 7);
        live.map(8192, 4096, 8);
        live.set_access(4096, 8192, 0, true);
        let is_readable = |live: &Allocations, address| live.reach(address, 0, 1 << 20).unwrap().is_readable;
        assert!(!is_readable(&live, 5000) && is_readable(&live, 9000));
        live.unmap(4096, 4096);
        live.map(4096, 4096, 8);
        live.set_access(4096, 4096, 0, true);
        assert!(is_readable(&live, 5000), "something else is there");
    }

    #[test]
    fn what_a_context_has_had_goes_with_it() {
        let mut live = Allocations::default();
        let memory = |address| Memory { address, bytes: 10, space: DEVICE };
        live.add(memory(100), Some(1));
        live.add(memory(200), Some(2));
        live.add(memory(300), None);
        live.add(memory(400), Some(1));
        live.remove(400);
        live.add(memory(400), Some(2));
        assert_eq!(live.forget_context(1), [memory(100)]);
        assert!(live.forget_context(1).is_empty());
        assert_eq!([100, 200, 300, 400].map(|at| live.has(at, 10)), [false, true, true, true]);
    }

    #[test]
    fn memory_that_takes_the_place_of_mapped_memory_is_not_mapped() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.add(Memory { address: 4096, bytes: 10, space: DEVICE }, None);
        assert_eq!(live.reach(4096, 0, 100).map(|reach| (reach.bytes, reach.is_readable)), Some((10, true)));
    }
}
