//! Pinned memory of this process. The device writes it and the host reads it.

use std::alloc::Layout;

use tensortap_queue::{GRANULARITY, RingAllocator, RingSlice};

/// The memory. It lives until the process ends, so the device may write it at any time.
#[derive(Debug)]
pub struct PinnedPool {
    start: usize,
    rooms: RingAllocator,
}

impl PinnedPool {
    /// Allocates the memory. None if there is not enough.
    pub fn new(bytes: u64) -> Option<PinnedPool> {
        let rooms = RingAllocator::new(bytes.max(GRANULARITY));
        let layout = Layout::from_size_align(usize::try_from(rooms.bytes()).ok()?, 4096).ok()?;
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let pool = PinnedPool { start: start.expose_provenance(), rooms };
        (!start.is_null()).then_some(pool)
    }

    /// Start address and size in bytes.
    pub fn memory(&self) -> (usize, u64) {
        (self.start, self.rooms.bytes())
    }

    /// Start address of a slice.
    pub fn start_of(&self, room: RingSlice) -> usize {
        // The slice is inside of the pool, so the address fits.
        self.start + usize::try_from(room.offset).unwrap_or(0)
    }

    /// As [`RingAllocator::allocate`]. The commands that free slices were submitted already.
    pub fn allocate(&self, bytes: u64) -> Option<RingSlice> {
        self.rooms.allocate(bytes, || {})
    }

    /// As [`RingAllocator::allocate_while`].
    pub fn allocate_while(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Option<RingSlice> {
        self.rooms.allocate_while(bytes, || {}, goes_on)
    }

    /// As [`RingAllocator::free`].
    pub fn free(&self, rooms: impl IntoIterator<Item = RingSlice>) {
        self.rooms.free(rooms);
    }
}
