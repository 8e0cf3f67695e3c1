//! The memory of a program, by address.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use tensortap_queue::{Memory, MemoryMap, NumberMap, Storages};
use tensortap_record::MemorySpace;

/// Number of a device.
pub type Device = i32;

/// Memory that is allocated now. Pointers treat adjacent pieces of virtual memory as one piece.
#[derive(Debug)]
pub struct Allocations {
    memories: MemoryMap,
    /// The devices that may read each piece of virtual memory, by the start of the piece.
    mapped: NumberMap<u64, Vec<Device>>,
    /// Handles of multicast memory, which several devices write at once. `unreadable` has the addresses where
    /// it is mapped: snapshots never read them.
    multicast: HashSet<u64>,
    unreadable: HashSet<u64>,
    /// The context that owns a piece of memory, by the start of the piece.
    contexts: HashMap<u64, usize>,
    /// Blocks of the program's own allocator (PyTorch), by address. No two overlap. A freed block stays until
    /// its memory is allocated again, because graphs continue to use it.
    blocks: BTreeMap<u64, Block>,
    /// How often memory was allocated or freed, or its access rights changed.
    changes: u64,
    /// Identities of the memory and of the blocks.
    pub storages: Storages,
    pub block_storages: Storages,
}

/// The identities of this library's storages are greater than this.
const FIRST_STORAGE: u64 = 1 << 40;
const FIRST_BLOCK: u64 = FIRST_STORAGE + (1 << 39);

impl Default for Allocations {
    fn default() -> Allocations {
        Allocations {
            memories: MemoryMap::default(),
            mapped: NumberMap::default(),
            multicast: HashSet::new(),
            unreadable: HashSet::new(),
            contexts: HashMap::new(),
            blocks: BTreeMap::new(),
            changes: 0,
            storages: Storages::after(FIRST_STORAGE),
            block_storages: Storages::after(FIRST_BLOCK),
        }
    }
}

/// The end of the block that contains an address, and whether the block is allocated. For an address outside
/// of all blocks: the start of the next block, and false.
pub type BlockEnd = (u64, bool);

/// A block of the program's own allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    bytes: u64,
    /// Whether the block is allocated now.
    is_live: bool,
}

/// The memory from an address to the end of its allocation or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressableRange {
    /// Number of bytes from the address on.
    pub bytes: u64,
    /// Device memory, pinned host memory or managed memory.
    pub space: MemorySpace,
    /// Whether the device may read it.
    pub is_readable: bool,
    /// Whether it is certain that the memory which the program means ends here.
    pub is_exact: bool,
}

impl Allocations {
    /// Memory was allocated. It lives until it is freed or its context is destroyed. Returns older memory that it overlaps,
    /// which was freed without notice.
    pub fn add(&mut self, memory: Memory, context: Option<usize>) -> Vec<Memory> {
        self.changes += 1;
        self.mapped.remove(&memory.address);
        match context {
            Some(context) => _ = self.contexts.insert(memory.address, context),
            None => _ = self.contexts.remove(&memory.address),
        }
        self.forget_blocks(memory.address, memory.bytes);
        self.memories.add(memory)
    }

    /// The memory that starts at an address was freed.
    pub fn remove(&mut self, address: u64) -> Option<Memory> {
        self.changes += 1;
        self.mapped.remove(&address);
        self.contexts.remove(&address);
        let gone = self.memories.remove(address)?;
        self.forget_blocks(gone.address, gone.bytes);
        Some(gone)
    }

    /// A context was destroyed. Returns its memory.
    pub fn forget_context(&mut self, context: usize) -> Vec<Memory> {
        let of_it = self.contexts.iter().filter(|(_, own)| **own == context).map(|(&address, _)| address);
        let of_it: Vec<u64> = of_it.collect();
        of_it.into_iter().filter_map(|address| self.remove(address)).collect()
    }

    /// Whether an allocation with this address and size is known.
    pub fn has(&self, address: u64, bytes: u64) -> bool {
        let found = self.memories.find(address);
        found.is_some_and(|memory| (memory.address, memory.bytes) == (address, bytes))
    }

    /// Whether an address is in known memory.
    pub fn holds(&self, address: u64) -> bool {
        self.memories.find(address).is_some()
    }

    /// The smallest address range that contains all known memory.
    pub fn span(&self) -> Range<u64> {
        self.memories.span()
    }

    /// The program's own allocator has allocated a block.
    pub fn add_block(&mut self, address: u64, bytes: u64) {
        // Most blocks are allocated again with the same address and size. Then they overlap no other block.
        if let Some(block) = self.blocks.get_mut(&address).filter(|block| block.bytes == bytes) {
            block.is_live = true;
            return;
        }
        self.forget_blocks(address, bytes);
        self.blocks.insert(address, Block { bytes, is_live: true });
    }

    /// The program's own allocator has freed a block. Returns its size if it is known.
    pub fn free_block(&mut self, address: u64) -> Option<u64> {
        let block = self.blocks.get_mut(&address).filter(|block| block.is_live)?;
        block.is_live = false;
        Some(block.bytes)
    }

    /// The kind of memory at an address: device memory if unknown.
    pub fn space(&self, address: u64) -> MemorySpace {
        self.memories.find(address).map_or(MemorySpace::Device, |memory| memory.space)
    }

    /// Forgets all blocks that overlap a range.
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

    /// The memory that a pointer gives access to, at most `most` bytes. It ends with the block of the program's own
    /// allocator. Without such a block, it ends with the allocation.
    pub fn extent(&self, address: u64, device: Device, most: u64) -> Option<AddressableRange> {
        let reach = self.reach(address, device, most)?;
        let (end, is_exact) = self.block_end(address);
        let bytes = reach.bytes.min(end - address);
        Some(AddressableRange { bytes, is_exact: is_exact && bytes == end - address, ..reach })
    }

    /// The end of the block that contains an address.
    pub fn block_end(&self, address: u64) -> BlockEnd {
        match self.blocks.range(..=address).next_back() {
            Some((start, block)) if start + block.bytes > address => (start + block.bytes, block.is_live),
            // Between blocks. The pointer does not mean the next block.
            _ => (self.blocks.range(address..).next().map_or(u64::MAX, |(&next, _)| next), false),
        }
    }

    /// A number that changes when memory is allocated or freed, or its access rights change. While it stays
    /// the same, only [blocks](Allocations::block_end) can change what a pointer reaches.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The program has created multicast memory.
    pub fn add_multicast(&mut self, handle: u64) {
        self.multicast.insert(handle);
    }

    /// Memory of a handle was mapped at an address. No device may access it yet. Returns it, and older memory that it
    /// overlaps, which was unmapped without notice.
    pub fn map(&mut self, address: u64, bytes: u64, handle: u64) -> (Memory, Vec<Memory>) {
        self.changes += 1;
        if self.multicast.contains(&handle) {
            self.unreadable.insert(address);
        } else {
            self.unreadable.remove(&address);
        }
        let memory = Memory { address, bytes, space: MemorySpace::Device };
        let gone = self.memories.add(memory);
        self.mapped.insert(address, Vec::new());
        (memory, gone)
    }

    /// An address range was unmapped. Returns its memory.
    pub fn unmap(&mut self, address: u64, bytes: u64) -> Vec<Memory> {
        let pieces = self.pieces(address, bytes);
        pieces.into_iter().filter_map(|piece| self.remove(piece)).collect()
    }

    /// A device may, or may no longer, read an address range.
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

    /// The starts of mapped pieces in an address range.
    fn pieces(&self, address: u64, bytes: u64) -> Vec<u64> {
        let end = address.saturating_add(bytes);
        let inside = self.mapped.keys().filter(|piece| (address..end).contains(*piece));
        inside.copied().collect()
    }

    /// The memory from an address on, at most `most` bytes. None if no memory is known there.
    pub fn reach(&self, address: u64, device: Device, most: u64) -> Option<AddressableRange> {
        let memory = self.memories.find(address)?;
        let mut bytes = memory.address + memory.bytes - address;
        let Some(devices) = self.mapped.get(&memory.address) else {
            return Some(AddressableRange {
                bytes: bytes.min(most),
                space: memory.space,
                is_readable: true,
                is_exact: false,
            });
        };
        let is_readable = devices.contains(&device);
        // A program that maps memory piece by piece uses the pieces as one.
        while bytes < most
            && let Some(next) = self.memories.find(address + bytes)
            && self.mapped.get(&next.address).is_some_and(|devices| devices.contains(&device) == is_readable)
            && next.bytes > 0
        {
            bytes += next.bytes;
        }
        Some(AddressableRange { bytes: bytes.min(most), space: memory.space, is_readable, is_exact: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: MemorySpace = MemorySpace::Device;

    #[test]
    fn a_pointer_reaches_to_the_end_of_its_allocation_or_to_the_limit() {
        let mut live = Allocations::default();
        live.add(Memory { address: 1000, bytes: 100, space: DEVICE }, None);
        live.add(Memory { address: 1100, bytes: 100, space: MemorySpace::Managed }, None);
        let reach = |live: &Allocations, address, most| live.reach(address, 0, most);
        assert_eq!(reach(&live, 1010, 1 << 20).unwrap().bytes, 90, "adjacent allocations are separate");
        assert_eq!(reach(&live, 1010, 7).unwrap().bytes, 7);
        assert_eq!(reach(&live, 1100, 1000).unwrap().space, MemorySpace::Managed);
        assert_eq!(reach(&live, 1200, 1), None);
        live.remove(1000);
        assert_eq!(reach(&live, 1010, 1), None);
    }

    #[test]
    fn virtual_memory_is_readable_with_access_rights_up_to_the_next_hole() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.map(8192, 4096, 1);
        live.map(16384, 4096, 1);
        assert!(!live.reach(5000, 0, 9000).unwrap().is_readable, "no device has access yet");
        live.set_access(4096, 8192, 0, true);
        live.set_access(16384, 4096, 0, true);
        let reach = live.reach(5000, 0, 1 << 20).unwrap();
        assert_eq!((reach.bytes, reach.is_readable), (12288 - 5000, true), "up to the hole");
        assert!(!live.reach(5000, 1, 1).unwrap().is_readable, "another device has no access");
        live.set_access(8192, 4096, 0, false);
        assert_eq!(live.reach(5000, 0, 1 << 20).unwrap().bytes, 8192 - 5000);
        assert_eq!(live.unmap(4096, 8192).len(), 2);
        assert_eq!(live.reach(5000, 0, 1), None);
        assert!(live.reach(16384, 0, 1).unwrap().is_readable);
    }

    #[test]
    fn a_pointer_reaches_to_the_end_of_its_block() {
        let mut live = Allocations::default();
        live.add(Memory { address: 1 << 20, bytes: 1 << 20, space: DEVICE }, None);
        let extent = |live: &Allocations, into: u64| {
            live.extent((1 << 20) + into, 0, 1 << 30).map(|reach| (reach.bytes, reach.is_exact)).unwrap()
        };
        assert_eq!(extent(&live, 512), ((1 << 20) - 512, false), "there are no blocks");
        live.add_block((1 << 20) + 512, 1024);
        live.add_block((1 << 20) + 1536, 512);
        assert_eq!((extent(&live, 512), extent(&live, 700)), ((1024, true), (836, true)));
        assert_eq!(extent(&live, 0), (512, false), "before the first block");
        assert_eq!(extent(&live, 2048), ((1 << 20) - 2048, false), "after the last block");
        let short = live.extent((1 << 20) + 512, 0, 100).unwrap();
        assert_eq!((short.bytes, short.is_exact), (100, false), "less than the whole block");
        assert_eq!(live.free_block((1 << 20) + 512), Some(1024));
        assert_eq!((live.free_block((1 << 20) + 512), live.free_block(7)), (None, None));
        assert_eq!(extent(&live, 600), (936, false), "the block was freed");
        live.add_block((1 << 20) + 1000, 100);
        assert_eq!(extent(&live, 1000), (100, true), "the block was allocated again");
        assert_eq!(extent(&live, 600), (400, false), "the rest of the old block belongs to no block");
        assert_eq!(extent(&live, 1536), (512, true));
        live.remove(1 << 20);
        live.add(Memory { address: 1 << 20, bytes: 1 << 20, space: DEVICE }, None);
        assert_eq!(extent(&live, 1536), ((1 << 20) - 1536, false), "blocks are forgotten with their memory");
    }

    #[test]
    fn blocks_may_span_pieces_of_virtual_memory() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.map(8192, 4096, 1);
        live.set_access(4096, 8192, 0, true);
        live.add_block(6000, 4000);
        let reach = live.extent(6100, 0, 1 << 20).unwrap();
        assert_eq!((reach.bytes, reach.is_exact, reach.is_readable), (3900, true, true));
        live.unmap(8192, 4096);
        assert!(!live.extent(6100, 0, 1 << 20).unwrap().is_exact, "a part of the block was unmapped");
    }

    #[test]
    fn multicast_memory_is_never_read() {
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
        assert!(is_readable(&live, 5000), "other memory is mapped there");
    }

    #[test]
    fn memory_of_a_destroyed_context_is_freed() {
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
    fn memory_that_replaces_mapped_memory_is_readable() {
        let mut live = Allocations::default();
        live.map(4096, 4096, 1);
        live.add(Memory { address: 4096, bytes: 10, space: DEVICE }, None);
        assert_eq!(live.reach(4096, 0, 100).map(|reach| (reach.bytes, reach.is_readable)), Some((10, true)));
    }
}
