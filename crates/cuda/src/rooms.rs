//! Memory of this process that the device writes and the host reads, given out in pieces.

use std::alloc::Layout;

use tensortap_queue::{GRAIN, Room, Rooms};

/// The memory, which is there until the process ends: whoever fills it may do so until then.
#[derive(Debug)]
pub struct Pool {
    start: usize,
    rooms: Rooms,
}

impl Pool {
    /// So much memory, none where that is not to be had.
    pub fn new(bytes: u64) -> Option<Pool> {
        let rooms = Rooms::new(bytes.max(GRAIN));
        let layout = Layout::from_size_align(usize::try_from(rooms.bytes()).ok()?, 4096).ok()?;
        // SAFETY: of a size that is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let pool = Pool { start: start.expose_provenance(), rooms };
        (!start.is_null()).then_some(pool)
    }

    /// Where it begins, and its bytes.
    pub fn memory(&self) -> (usize, u64) {
        (self.start, self.rooms.bytes())
    }

    /// Where a piece begins.
    pub fn start_of(&self, room: Room) -> usize {
        // Within the pool, so within what a process can address.
        self.start + usize::try_from(room.at).unwrap_or(0)
    }

    /// As [`Rooms::take`]: what gives pieces back is in its stream already.
    pub fn take(&self, bytes: u64) -> Option<Room> {
        self.rooms.take(bytes, || {})
    }

    /// As [`Rooms::take_while`].
    pub fn take_while(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Option<Room> {
        self.rooms.take_while(bytes, || {}, goes_on)
    }

    /// As [`Rooms::give`].
    pub fn give(&self, rooms: impl IntoIterator<Item = Room>) {
        self.rooms.give(rooms);
    }
}
