//! An allocator for staging memory: slices are allocated and freed in any order. The allocator does not touch the
//! memory itself.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::WAIT_LIMIT;

/// Slices start at multiples of this number of bytes, and their size is a multiple of it.
pub const GRANULARITY: u64 = 256;

/// A slice of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSlice {
    /// Distance from the start of the memory in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Records which slices of a memory are free.
#[derive(Debug)]
pub struct RingAllocator {
    bytes: u64,
    state: Mutex<FreeList>,
    freed: Condvar,
}

#[derive(Debug)]
struct FreeList {
    /// Size of each free piece by its offset. No two pieces touch.
    pieces: BTreeMap<u64, u64>,
    /// Number of slices that were freed so far.
    frees: u64,
    /// `frees` when a call last timed out. Until another slice is freed, waiting again is useless.
    timed_out_at: Option<u64>,
    /// Calls that wait for a slice. Without waiters `free` skips the notification, which is a system call.
    waiters: usize,
}

impl FreeList {
    /// The first piece that is large enough.
    fn allocate(&mut self, bytes: u64) -> Option<RingSlice> {
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULARITY)?;
        let (&offset, &size) = self.pieces.iter().find(|&(_, &size)| size >= bytes)?;
        self.pieces.remove(&offset);
        if size > bytes {
            self.pieces.insert(offset + bytes, size - bytes);
        }
        Some(RingSlice { offset, bytes })
    }

    fn free(&mut self, slice: RingSlice) {
        let (mut offset, mut bytes) = (slice.offset, slice.bytes);
        if let Some(next) = self.pieces.remove(&(offset + bytes)) {
            bytes += next;
        }
        let before = self.pieces.range(..offset).next_back().map(|(&start, &size)| (start, size));
        if let Some((start, size)) = before.filter(|(start, size)| start + size == offset) {
            self.pieces.remove(&start);
            (offset, bytes) = (start, size + bytes);
        }
        self.pieces.insert(offset, bytes);
        self.frees += 1;
    }
}

impl RingAllocator {
    /// An allocator for a memory of this size. All of it is free.
    pub fn new(bytes: u64) -> RingAllocator {
        let bytes = bytes / GRANULARITY * GRANULARITY;
        let pieces = if bytes > 0 { [(0, bytes)].into() } else { BTreeMap::new() };
        let state = Mutex::new(FreeList { pieces, frees: 0, timed_out_at: None, waiters: 0 });
        RingAllocator { bytes, state, freed: Condvar::new() }
    }

    /// Size of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn state(&self) -> MutexGuard<'_, FreeList> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a slice. If none is free, waits as long as other slices are being freed, at most [`WAIT_LIMIT`] from
    /// one to the next. Returns none when it has waited in vain. `submit` runs before the call waits: it must
    /// submit the commands that free slices to the device.
    pub fn allocate(&self, bytes: u64, submit: impl FnOnce()) -> Option<RingSlice> {
        self.allocate_while(bytes, submit, || false)
    }

    /// As [`RingAllocator::allocate`], but waits longer than [`WAIT_LIMIT`] while `will_free` returns true.
    pub fn allocate_while(
        &self,
        bytes: u64,
        submit: impl FnOnce(),
        will_free: impl Fn() -> bool,
    ) -> Option<RingSlice> {
        if bytes > self.bytes {
            return None;
        }
        let mut submit = Some(submit);
        let mut state = self.state();
        loop {
            if let Some(slice) = state.allocate(bytes) {
                return Some(slice);
            }
            let seen = state.frees;
            if state.timed_out_at == Some(seen) && !will_free() {
                return None;
            }
            if let Some(submit) = submit.take() {
                drop(state);
                submit();
                state = self.state();
                continue;
            }
            state.waiters += 1;
            let waited = self.freed.wait_timeout_while(state, WAIT_LIMIT, |now| now.frees == seen);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiters -= 1;
            if state.frees == seen && !will_free() {
                state.timed_out_at = Some(seen);
                return None;
            }
        }
    }

    /// Frees slices.
    pub fn free(&self, slices: impl IntoIterator<Item = RingSlice>) {
        let mut state = self.state();
        slices.into_iter().for_each(|slice| state.free(slice));
        let has_waiters = state.waiters > 0;
        drop(state);
        if has_waiters {
            self.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_never_overlap_and_all_memory_is_free_again_at_the_end() {
        let ring = RingAllocator::new(GRANULARITY * 64);
        let mut held: Vec<RingSlice> = Vec::new();
        for turn in 0_u64..2000 {
            let random = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let slice = ring.state().allocate(1 + random % (GRANULARITY * 9));
            match slice {
                Some(slice) if turn % 3 != 0 => {
                    let is_apart = |other: &RingSlice| {
                        slice.offset + slice.bytes <= other.offset
                            || other.offset + other.bytes <= slice.offset
                    };
                    assert!(held.iter().all(is_apart), "{slice:?} overlaps one of {held:?}");
                    held.push(slice);
                }
                Some(slice) => ring.free([slice]),
                None => (0..held.len().min(3)).for_each(|_| ring.free([held.swap_remove(0)])),
            }
        }
        ring.free(held);
        assert_eq!(ring.state().pieces, [(0, GRANULARITY * 64)].into());
    }

    #[test]
    fn a_call_waits_while_slices_are_freed_and_times_out_only_once() {
        let ring = RingAllocator::new(GRANULARITY * 2);
        let (first, second) = (ring.allocate(1, || {}).unwrap(), ring.allocate(1, || {}).unwrap());
        assert_ne!(first.offset, second.offset);
        let none = ring.allocate(GRANULARITY * 3, || panic!("waiting cannot help"));
        assert_eq!(none, None, "more than the memory has");
        let mut submitted = 0;
        assert_eq!(ring.allocate(1, || submitted += 1), None, "the first call times out");
        assert_eq!(ring.allocate(1, || submitted += 1), None, "the second call does not wait");
        assert_eq!(submitted, 1);
        std::thread::scope(|scope| {
            ring.free([first]);
            let waits = scope.spawn(|| ring.allocate(GRANULARITY * 2, || {}));
            ring.free([second]);
            assert_eq!(waits.join().unwrap(), Some(RingSlice { offset: 0, bytes: GRANULARITY * 2 }));
        });
    }
}
