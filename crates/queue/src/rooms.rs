//! Room for content on its way from a device: pieces of a memory, given out and given back in any order. Whose memory it is does not matter here.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A call waits so long for room while none is given back. Commands may stand behind something that only the program sets free, so it never waits on.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Pieces begin at multiples of this many bytes, and are as long.
pub const GRAIN: u64 = 256;

/// A piece of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes before it.
    pub at: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Who has which piece of a memory.
#[derive(Debug)]
pub struct Rooms {
    bytes: u64,
    pieces: Mutex<Pieces>,
    given_back: Condvar,
}

#[derive(Debug)]
struct Pieces {
    /// Free pieces by where they begin; no two touch.
    free: BTreeMap<u64, u64>,
    /// How often one was given back.
    returns: u64,
    /// `returns` when somebody last waited in vain.
    in_vain: Option<u64>,
    /// Calls that wait for a piece: without any nobody is told of one that was given back, which is a call of the system.
    waiting: usize,
}

impl Pieces {
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

impl Rooms {
    /// All of a memory, which is free.
    pub fn new(bytes: u64) -> Rooms {
        let bytes = bytes / GRAIN * GRAIN;
        let free = if bytes > 0 { [(0, bytes)].into() } else { BTreeMap::new() };
        let pieces = Mutex::new(Pieces { free, returns: 0, in_vain: None, waiting: 0 });
        Rooms { bytes, pieces, given_back: Condvar::new() }
    }

    /// Bytes of the memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece, and waits for one while others are given back. None: there is none, and nothing suggests that there will be. `submit` is called
    /// before it waits: whatever gives pieces back must be on its way.
    pub fn take(&self, bytes: u64, submit: impl FnOnce()) -> Option<Room> {
        self.take_while(bytes, submit, || false)
    }

    /// The same, and waits on as long as `goes_on` says that some will be given back.
    pub fn take_while(&self, bytes: u64, submit: impl FnOnce(), goes_on: impl Fn() -> bool) -> Option<Room> {
        if bytes > self.bytes {
            return None;
        }
        let mut submit = Some(submit);
        let mut pieces = self.pieces();
        loop {
            if let Some(room) = pieces.take(bytes) {
                return Some(room);
            }
            let seen = pieces.returns;
            if pieces.in_vain == Some(seen) && !goes_on() {
                return None;
            }
            if let Some(submit) = submit.take() {
                drop(pieces);
                submit();
                pieces = self.pieces();
                continue;
            }
            pieces.waiting += 1;
            let waited = self.given_back.wait_timeout_while(pieces, PATIENCE, |now| now.returns == seen);
            pieces = waited.unwrap_or_else(PoisonError::into_inner).0;
            pieces.waiting -= 1;
            if pieces.returns == seen && !goes_on() {
                pieces.in_vain = Some(seen);
                return None;
            }
        }
    }

    /// Gives pieces back.
    pub fn give(&self, rooms: impl IntoIterator<Item = Room>) {
        let mut pieces = self.pieces();
        rooms.into_iter().for_each(|room| pieces.give(room));
        let is_waited_for = pieces.waiting > 0;
        drop(pieces);
        if is_waited_for {
            self.given_back.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_is_free_again_when_all_came_back() {
        let rooms = Rooms::new(GRAIN * 64);
        let mut held: Vec<Room> = Vec::new();
        for turn in 0_u64..2000 {
            let random = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let taken = rooms.pieces().take(1 + random % (GRAIN * 9));
            match taken {
                Some(room) if turn % 3 != 0 => {
                    let apart =
                        |other: &Room| room.at + room.bytes <= other.at || other.at + other.bytes <= room.at;
                    assert!(held.iter().all(apart), "{room:?} {held:?}");
                    held.push(room);
                }
                Some(room) => rooms.give([room]),
                None => (0..held.len().min(3)).for_each(|_| rooms.give([held.swap_remove(0)])),
            }
        }
        rooms.give(held);
        assert_eq!(rooms.pieces().free, [(0, GRAIN * 64)].into());
    }

    #[test]
    fn who_finds_no_room_waits_while_some_is_given_back_and_not_twice_in_vain() {
        let rooms = Rooms::new(GRAIN * 2);
        let (first, second) = (rooms.take(1, || {}).unwrap(), rooms.take(1, || {}).unwrap());
        assert_ne!(first.at, second.at);
        assert_eq!(rooms.take(GRAIN * 3, || panic!("nothing to wait for")), None, "more than there is");
        let mut submitted = 0;
        assert_eq!(rooms.take(1, || submitted += 1), None, "waited in vain");
        assert_eq!(rooms.take(1, || submitted += 1), None, "so the next does not wait");
        assert_eq!(submitted, 1);
        std::thread::scope(|scope| {
            rooms.give([first]);
            let waits = scope.spawn(|| rooms.take(GRAIN * 2, || {}));
            rooms.give([second]);
            assert_eq!(waits.join().unwrap(), Some(Room { at: 0, bytes: GRAIN * 2 }));
        });
    }
}
