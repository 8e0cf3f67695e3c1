//! Task slots that may be dispatched: a bounded queue with any number of pushing and popping threads.
//!
//! Each cell has a sequence number that decides whose turn it is. For the queue position `p` that maps to a
//! cell, `2p` means free for the push at `p`, and `2p + 1` means filled for the pop at `p`. The pop stores
//! `2(p + capacity)`. A thread claims a position by moving a cursor, then has the cell to itself until it
//! stores the next sequence number. Positions are 64-bit and never wrap.
//!
//! ```
//! use tensortap_sync::ready::ReadyQueue;
//! let queue = ReadyQueue::new(3);
//! assert_eq!(queue.capacity(), 4);
//! assert_eq!(queue.push(7), Ok(()));
//! assert_eq!(queue.push(8), Ok(()));
//! assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(7), Some(8), None));
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::cmp::Ordering::{Equal, Greater, Less};
use core::marker::PhantomData;

use crate::CachePadded;
use crate::atomic::{self, AtomicU32, AtomicU64, Ordering};
use crate::orderings::{ProvenOrderings, ReadyOrderings};

/// A bounded first-in first-out queue of task slots.
///
/// Writes that a thread made before `push(slot)` are visible to the thread whose `pop` returns that `slot`.
#[derive(Debug)]
pub struct ReadyQueue<O = ProvenOrderings> {
    next_push: CachePadded<AtomicU64>,
    next_pop: CachePadded<AtomicU64>,
    cells: Box<[Cell]>,
    /// The capacity minus one. The capacity is a power of two.
    mask: u64,
    orderings: PhantomData<fn() -> O>,
}

#[derive(Debug)]
struct Cell {
    sequence: AtomicU64,
    slot: AtomicU32,
}

impl Cell {
    /// Compares the cell's state with "filled for the pop at this position": less means not yet, greater
    /// means already popped.
    #[inline]
    fn filling(&self, position: u64, see_filled: Ordering) -> core::cmp::Ordering {
        // Pairs with the store in `push`: the slot and its pusher's earlier writes are visible.
        self.sequence.load(see_filled).cmp(&filled_at(position))
    }

    /// Takes the slot out of a cell that the caller has claimed, and frees the cell for the push at `next`.
    #[inline]
    fn empty(&self, next: u64, empty: Ordering) -> u32 {
        let slot = self.slot.load(Ordering::Relaxed);
        // Pairs with the load in `push`: the value is read and may be overwritten.
        self.sequence.store(free_for(next), empty);
        slot
    }
}

impl ReadyQueue {
    /// An empty queue for at least `capacity` slots, rounded up to a power of two.
    pub fn new(capacity: u32) -> Self {
        Self::with_orderings(capacity)
    }
}

impl<O: ReadyOrderings> ReadyQueue<O> {
    fn with_orderings(capacity: u32) -> Self {
        let capacity = u64::from(capacity).max(1).next_power_of_two();
        let free = |position| Cell { sequence: AtomicU64::new(free_for(position)), slot: AtomicU32::new(0) };
        Self {
            next_push: CachePadded::new(AtomicU64::new(0)),
            next_pop: CachePadded::new(AtomicU64::new(0)),
            cells: (0..capacity).map(free).collect(),
            mask: capacity - 1,
            orderings: PhantomData,
        }
    }

    /// Number of slots that fit.
    pub fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// Appends `slot`, or returns it if no cell is free.
    ///
    /// A cell is free again only when the pop that took its value has returned. A push may therefore fail
    /// for a moment although fewer than `capacity` slots wait: another thread is inside `pop`. The caller
    /// keeps the slot and tries again.
    ///
    /// # Errors
    /// The `slot`, if no cell is free.
    pub fn push(&self, slot: u32) -> Result<(), u32> {
        let mut position = self.next_push.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(position);
            // Pairs with the store in `pop`: the value that was read there is no longer needed.
            match cell.sequence.load(O::SEE_FREE).cmp(&free_for(position)) {
                Equal => match claim(&self.next_push, position, 1) {
                    Ok(()) => {
                        cell.slot.store(slot, Ordering::Relaxed);
                        // Pairs with the load in `pop`: publishes the slot and the caller's earlier writes.
                        cell.sequence.store(filled_at(position), O::FILL);
                        return Ok(());
                    }
                    Err(moved_to) => position = moved_to,
                },
                Less => return Err(slot),
                Greater => position = reload(&self.next_push),
            }
        }
    }

    /// Takes the oldest slot, if there is one.
    ///
    /// A push that has claimed its position but not yet returned hides the slots pushed after it until it
    /// returns. Every pusher must therefore call [`wake`](crate::park::Parker::wake) after its own push has
    /// returned.
    #[inline]
    pub fn pop(&self) -> Option<u32> {
        let mut position = self.next_pop.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(position);
            match cell.filling(position, O::SEE_FILLED) {
                Equal => match claim(&self.next_pop, position, 1) {
                    Ok(()) => return Some(cell.empty(position + self.capacity(), O::EMPTY)),
                    Err(moved_to) => position = moved_to,
                },
                Less => return None,
                Greater => position = reload(&self.next_pop),
            }
        }
    }

    /// Takes the oldest slots in one claim, at most as many as `room` has places. Returns how many it took.
    ///
    /// Threads that pop single slots pass a cache line to each other for every slot, which costs more than
    /// their other work on the slot. A claim of several slots costs as much as a claim of one.
    ///
    /// ```
    /// use tensortap_sync::ready::ReadyQueue;
    /// let queue = ReadyQueue::new(4);
    /// for slot in [7, 8, 9] {
    ///     queue.push(slot).unwrap();
    /// }
    /// let mut room = [0; 2];
    /// assert_eq!((queue.pop_into(&mut room), room), (2, [7, 8]));
    /// assert_eq!((queue.pop_into(&mut room), room[0]), (1, 9));
    /// ```
    #[inline]
    pub fn pop_into(&self, room: &mut [u32]) -> usize {
        if room.is_empty() {
            return 0;
        }
        let mut position = self.next_pop.load(Ordering::Relaxed);
        let filling = |at: u64| self.cell(at).filling(at, O::SEE_FILLED);
        loop {
            match filling(position) {
                Equal => {
                    let more = (position + 1..).take(room.len() - 1);
                    let filled = 1 + more.take_while(|&later| filling(later) == Equal).count();
                    match claim(&self.next_pop, position, filled as u64) {
                        Ok(()) => {
                            for (at, slot) in (position..).zip(&mut room[..filled]) {
                                *slot = self.cell(at).empty(at + self.capacity(), O::EMPTY);
                            }
                            return filled;
                        }
                        Err(moved_to) => position = moved_to,
                    }
                }
                Less => return 0,
                Greater => position = reload(&self.next_pop),
            }
        }
    }

    /// Number of waiting slots, as far as this thread can see. Out of date as soon as it returns.
    pub fn len_hint(&self) -> u64 {
        let popped = self.next_pop.load(Ordering::Relaxed);
        self.next_push.load(Ordering::Relaxed).saturating_sub(popped)
    }

    /// Whether the queue looks empty: no push has claimed a position that no pop has claimed.
    ///
    /// Out of date as soon as it returns, and orders nothing. It is suitable for
    /// [`Parker::wait`](crate::park::Parker::wait), whose fence makes every push before the matching wake
    /// count.
    pub fn is_empty_hint(&self) -> bool {
        self.len_hint() == 0
    }

    fn cell(&self, position: u64) -> &Cell {
        #[expect(clippy::cast_possible_truncation, reason = "masked below the length of a slice")]
        let index = (position & self.mask) as usize;
        &self.cells[index]
    }
}

const fn free_for(position: u64) -> u64 {
    2 * position
}

const fn filled_at(position: u64) -> u64 {
    2 * position + 1
}

/// Moves `cursor` from `position` forward by `count`, or returns where it is now. Relaxed: the cells'
/// sequence numbers do the ordering.
fn claim(cursor: &AtomicU64, position: u64, count: u64) -> Result<(), u64> {
    cursor.compare_exchange_weak(position, position + count, Ordering::Relaxed, Ordering::Relaxed).map(drop)
}

/// The position of `cursor` after another thread moved it.
fn reload(cursor: &AtomicU64) -> u64 {
    atomic::spin_loop();
    cursor.load(Ordering::Relaxed)
}
