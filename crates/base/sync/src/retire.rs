//! Task slots that may be reused: tasks retire in any order, and their slots are reclaimed in order.
//!
//! Tasks have numbers (`local`) that start at zero and never wrap; task `local` uses slot `local % slots`.
//! Each slot has a word that holds `local + 1` once that task has retired, so the word of an earlier task
//! in the slot is never mistaken for the current one. `tail` is the oldest task not yet reclaimed. The
//! thread that retires a task moves the tail over all consecutive retired tasks.
//!
//! Two threads that retire neighbors at the same time must not both stop in the belief that the other will
//! continue. Each thread marks its own slot, passes a sequentially consistent fence, then reads the marks
//! of others. The thread whose fence comes last sees every mark, so it does not stop before the first slot
//! that is really in use.
//!
//! ```
//! use core::num::NonZeroU32;
//! use tensortap_sync::retire::{RetireRing, SlotRing};
//!
//! let ring = RetireRing::new(NonZeroU32::new(2).unwrap());
//! let mut claims = SlotRing::new(&ring);
//! assert_eq!((claims.try_claim(), claims.try_claim(), claims.try_claim()), (Some(0), Some(1), None));
//! assert!(!ring.retire(1)); // task 0 still holds the tail
//! assert!(ring.retire(0));
//! assert_eq!((ring.tail(), claims.try_claim()), (2, Some(2)));
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::Deref;

use crate::CachePadded;
use crate::atomic::{AtomicU64, Ordering};
use crate::orderings::{ProvenOrderings, RetireOrderings};

/// The shared part: which tasks have retired, and up to which task the slots are reclaimed.
#[derive(Debug)]
pub struct RetireRing<O = ProvenOrderings> {
    tail: CachePadded<AtomicU64>,
    /// Per slot: `local + 1` of the newest retired task in it; zero before the first.
    retired: Box<[AtomicU64]>,
    orderings: PhantomData<fn() -> O>,
}

impl RetireRing {
    /// A ring without claimed tasks.
    pub fn new(slots: NonZeroU32) -> Self {
        Self::with_orderings(slots)
    }
}

impl<O: RetireOrderings> RetireRing<O> {
    fn with_orderings(slots: NonZeroU32) -> Self {
        Self {
            tail: CachePadded::new(AtomicU64::new(0)),
            retired: (0..slots.get()).map(|_| AtomicU64::new(0)).collect(),
            orderings: PhantomData,
        }
    }

    /// Number of slots: the maximum number of tasks that are claimed and not reclaimed.
    pub fn slots(&self) -> u64 {
        self.retired.len() as u64
    }

    /// The oldest task that is not reclaimed. Every use of the slots of older tasks happened before this
    /// call.
    pub fn tail(&self) -> u64 {
        // Pairs with the exchange in `advance`.
        self.tail.load(O::SEE_TAIL)
    }

    /// Marks task `local` as retired. Call it once, after the task's last use of its slot. Returns true if
    /// this call moved the tail.
    pub fn retire(&self, local: u64) -> bool {
        // Not under loom: a load before the store would narrow loom's search.
        debug_assert!(cfg!(loom) || self.is_claimed(local), "task {local} retired twice or never claimed");
        // Pairs with the load in `advance`, in the thread that passes over this slot.
        self.word(local).store(local + 1, O::RETIRE);
        // Pairs with itself in the thread that retires a neighbor: one of the two sees the other's mark.
        O::mark_then_look();
        self.advance()
    }

    fn advance(&self) -> bool {
        let mut tail = self.tail.load(Ordering::Relaxed);
        let mut moved = false;
        // Pairs with the store in `retire`.
        while self.word(tail).load(O::SEE_RETIRED) == tail + 1 {
            // Pairs with the load in `tail`. An exchange continues the release sequence of earlier ones, so
            // that load sees all slots below the tail.
            match self.tail.compare_exchange(tail, tail + 1, O::ADVANCE, Ordering::Relaxed) {
                Ok(_) => {
                    tail += 1;
                    moved = true;
                }
                Err(moved_to) => tail = moved_to,
            }
        }
        moved
    }

    fn is_claimed(&self, local: u64) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        let in_window = tail <= local && local - tail < self.slots();
        in_window && self.word(local).load(Ordering::Relaxed) <= local
    }

    fn word(&self, local: u64) -> &AtomicU64 {
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of the length of a slice")]
        let slot = (local % self.slots()) as usize;
        &self.retired[slot]
    }
}

/// The orchestrator's handle: claims slots in order. One per [`RetireRing`], made before the first claim.
#[derive(Debug)]
pub struct SlotRing<R> {
    ring: R,
    head: u64,
    /// The tail at the last read. The real tail is never lower.
    tail_seen: u64,
}

impl<R: Deref<Target = RetireRing<O>>, O: RetireOrderings> SlotRing<R> {
    /// Takes the claiming half of a new ring.
    pub fn new(ring: R) -> Self {
        Self { ring, head: 0, tail_seen: 0 }
    }

    /// Claims the next task number. Returns `None` if every slot is in use. Every earlier use of the slot
    /// happened before this call.
    pub fn try_claim(&mut self) -> Option<u64> {
        if self.free_seen() == 0 && self.free() == 0 {
            return None;
        }
        let local = self.head;
        self.head += 1;
        Some(local)
    }

    /// Number of free slots. Reads the tail, so it also makes the next claims cheap.
    pub fn free(&mut self) -> u64 {
        self.tail_seen = self.ring.tail();
        debug_assert!(self.tail_seen <= self.head, "tail {} has passed head {}", self.tail_seen, self.head);
        self.free_seen()
    }

    /// The number that the next claim will return.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The shared part.
    pub fn ring(&self) -> &RetireRing<O> {
        &self.ring
    }

    fn free_seen(&self) -> u64 {
        self.ring.slots() - (self.head - self.tail_seen)
    }
}
