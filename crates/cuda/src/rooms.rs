//! Room for content on its way from a device: memory that the device writes and the host reads, given out in pieces and given back in any order.

use std::{
    alloc::Layout,
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A call waits so long for room while none is given back. Launches may stand behind something that only the program sets free, so it never waits on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Pieces begin at multiples of this, and are as long.
pub const GRAIN: u64 = 256;

/// A piece of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes before it.
    pub at: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Who has which piece.
#[derive(Debug)]
struct Rooms {
    /// Free pieces by where they begin; no two touch.
    free: BTreeMap<u64, u64>,
    /// How often one was given back.
    returns: u64,
    /// `returns` when somebody last waited in vain.
    in_vain: Option<u64>,
}

impl Rooms {
    fn new(bytes: u64) -> Rooms {
        Rooms { free: [(0, bytes)].into(), returns: 0, in_vain: None }
    }

    /// The first piece that is large enough.
    fn take(&mut self, bytes: u64) -> Option<Room> {
        let bytes = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let (&at, &size) = self.free.iter().find(|&(_, &size)| size >= bytes)?;
        self.free.remove(&at);
        if size > bytes {
            self.free.insert(at + bytes, size - bytes);
        }
        Some(Room { at, bytes })
    }

    fn give(&mut self, room: Room) {
        let (mut at, mut bytes) = (room.at, room.bytes);
        if let Some(behind) = self.free.remove(&(at + bytes)) {
            bytes += behind;
        }
        let before = self.free.range(..at).next_back().map(|(&at, &size)| (at, size));
        if let Some((start, size)) = before.filter(|(start, size)| start + size == at) {
            self.free.remove(&start);
            (at, bytes) = (start, size + bytes);
        }
        self.free.insert(at, bytes);
        self.returns += 1;
    }
}

/// Memory of some kind, given out in pieces.
#[derive(Debug)]
pub struct Space {
    bytes: u64,
    rooms: Mutex<Rooms>,
    given_back: Condvar,
}

impl Space {
    /// So much of it, all free.
    pub fn new(bytes: u64) -> Space {
        let bytes = (bytes / GRAIN * GRAIN).max(GRAIN);
        Space { bytes, rooms: Mutex::new(Rooms::new(bytes)), given_back: Condvar::new() }
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece, and waits for one while others are given back. None: there is none, and nothing suggests that there will be.
    pub fn take(&self, bytes: u64) -> Option<Room> {
        self.take_while(bytes, || false)
    }

    /// The same, and waits on as long as `goes_on` says that some will be.
    pub fn take_while(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Option<Room> {
        if bytes > self.bytes {
            return None;
        }
        let mut rooms = self.rooms();
        loop {
            if let Some(room) = rooms.take(bytes) {
                return Some(room);
            }
            let seen = rooms.returns;
            if rooms.in_vain == Some(seen) && !goes_on() {
                return None;
            }
            let waited = self.given_back.wait_timeout_while(rooms, PATIENCE, |rooms| rooms.returns == seen);
            rooms = waited.unwrap_or_else(PoisonError::into_inner).0;
            if rooms.returns == seen && !goes_on() {
                rooms.in_vain = Some(seen);
                return None;
            }
        }
    }

    /// Gives pieces back.
    pub fn give(&self, rooms: impl IntoIterator<Item = Room>) {
        let mut known = self.rooms();
        rooms.into_iter().for_each(|room| known.give(room));
        drop(known);
        self.given_back.notify_all();
    }
}

/// The memory, which is there until the process ends: whoever fills it may do so until then.
#[derive(Debug)]
pub struct Pool {
    start: usize,
    space: Space,
}

impl Pool {
    /// So much memory, none where that is not to be had.
    pub fn new(bytes: u64) -> Option<Pool> {
        let space = Space::new(bytes);
        let layout = Layout::from_size_align(usize::try_from(space.bytes).ok()?, 4096).ok()?;
        // SAFETY: of a size that is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let pool = Pool { start: start.expose_provenance(), space };
        (!start.is_null()).then_some(pool)
    }

    /// Where it begins, and its bytes.
    pub fn memory(&self) -> (usize, u64) {
        (self.start, self.space.bytes)
    }

    /// Where a piece begins.
    pub fn start_of(&self, room: Room) -> usize {
        // Within the pool, so within what a process can address.
        self.start + usize::try_from(room.at).unwrap_or(0)
    }

    /// As [`Space::take`].
    pub fn take(&self, bytes: u64) -> Option<Room> {
        self.space.take(bytes)
    }

    /// As [`Space::take_while`].
    pub fn take_while(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Option<Room> {
        self.space.take_while(bytes, goes_on)
    }

    /// As [`Space::give`].
    pub fn give(&self, rooms: impl IntoIterator<Item = Room>) {
        self.space.give(rooms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_is_free_again_when_all_came_back() {
        let mut rooms = Rooms::new(GRAIN * 64);
        let mut held: Vec<Room> = Vec::new();
        for turn in 0_u64..2000 {
            let random = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            match rooms.take(1 + random % (GRAIN * 9)) {
                Some(room) if turn % 3 != 0 => {
                    let apart =
                        |other: &Room| room.at + room.bytes <= other.at || other.at + other.bytes <= room.at;
                    assert!(held.iter().all(apart), "{room:?} {held:?}");
                    held.push(room);
                }
                Some(room) => rooms.give(room),
                None => (0..held.len().min(3)).for_each(|_| rooms.give(held.swap_remove(0))),
            }
        }
        held.into_iter().for_each(|room| rooms.give(room));
        assert_eq!(rooms.free, [(0, GRAIN * 64)].into());
    }

    #[test]
    fn who_finds_no_room_waits_while_some_is_given_back_and_not_twice_in_vain() {
        let pool = Pool::new(GRAIN * 2).unwrap();
        let (first, second) = (pool.take(1).unwrap(), pool.take(1).unwrap());
        assert_ne!(pool.start_of(first), pool.start_of(second));
        assert_eq!(pool.take(GRAIN * 3), None, "more than there is");
        assert_eq!(pool.take(1), None, "waited in vain");
        assert_eq!(pool.space.rooms().in_vain, Some(0), "so the next does not wait");
        std::thread::scope(|scope| {
            pool.give([first]);
            let waits = scope.spawn(|| pool.take(GRAIN * 2));
            pool.give([second]);
            assert_eq!(waits.join().unwrap(), Some(Room { at: 0, bytes: GRAIN * 2 }));
        });
    }
}
