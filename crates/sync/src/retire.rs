//! Task slots that may be used again: slots retire in any order, and are reclaimed in order.
//!
//! Tasks are numbered by `local`, from zero, without end; task `local` uses slot `local % slots`. Each slot
//! has a word that holds `local + 1` once that task has retired, so a word of an earlier generation is never
//! mistaken for the current one. `tail` is the oldest task not yet reclaimed. Whoever retires a task moves
//! the tail over all consecutive retired ones.
//!
//! Two threads that retire neighbours at the same time must not both stop in the belief that the other will
//! go on. Each marks its own slot, passes a sequentially consistent fence, then looks at the others'. Of all
//! threads that retired, the one whose fence comes last sees every mark, so it does not stop before the first
//! slot that is truly in use.
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

use crate::Line;
use crate::atomic::{AtomicU64, Ordering};
use crate::orderings::{Proven, RetireOrderings};

/// The shared part: what has retired, and how far it has been reclaimed.
#[derive(Debug)]
pub struct RetireRing<O = Proven> {
    tail: Line<AtomicU64>,
    /// Per slot, `local + 1` of the newest task in it that has retired; zero before the first.
    retired: Box<[AtomicU64]>,
    orderings: PhantomData<fn() -> O>,
}

impl RetireRing {
    /// A ring in which no task was claimed yet.
    pub fn new(slots: NonZeroU32) -> Self {
        Self::with_orderings(slots)
    }
}

impl<O: RetireOrderings> RetireRing<O> {
    fn with_orderings(slots: NonZeroU32) -> Self {
        Self {
            tail: Line::new(AtomicU64::new(0)),
            retired: (0..slots.get()).map(|_| AtomicU64::new(0)).collect(),
            orderings: PhantomData,
        }
    }

    /// How many slots there are, so how many tasks may be claimed and not reclaimed.
    pub fn slots(&self) -> u64 {
        self.retired.len() as u64
    }

    /// The oldest task that is not reclaimed. Every use of the slots of older tasks happened before.
    pub fn tail(&self) -> u64 {
        // Pairs with the exchange in `advance`.
        self.tail.load(O::SEE_TAIL)
    }

    /// Marks task `local` as retired, once, after its last use of the slot. True if this call moved the tail.
    pub fn retire(&self, local: u64) -> bool {
        // Not under loom: loads before the store would narrow what it explores.
        debug_assert!(cfg!(loom) || self.is_claimed(local), "task {local} retired twice or never claimed");
        // Pairs with the load in `advance`, in whichever thread passes over this slot.
        self.word(local).store(local + 1, O::RETIRE);
        // Pairs with itself in the thread that retires a neighbour: one of the two sees the other's mark.
        O::mark_then_look();
        self.advance()
    }

    fn advance(&self) -> bool {
        let mut tail = self.tail.load(Ordering::Relaxed);
        let mut moved = false;
        // Pairs with the store in `retire`.
        while self.word(tail).load(O::SEE_RETIRED) == tail + 1 {
            // Pairs with the load in `tail`. An exchange continues the release sequence of earlier ones, so
            // that load sees all slots below.
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
    /// The tail when it was last looked at; the true one is never lower.
    tail_seen: u64,
}

impl<R: Deref<Target = RetireRing<O>>, O: RetireOrderings> SlotRing<R> {
    /// Takes the producing side of a new ring.
    pub fn new(ring: R) -> Self {
        Self { ring, head: 0, tail_seen: 0 }
    }

    /// Claims the next task number, or none when every slot is in use. Every earlier use of its slot happened
    /// before.
    pub fn try_claim(&mut self) -> Option<u64> {
        if self.free_seen() == 0 && self.free() == 0 {
            return None;
        }
        let local = self.head;
        self.head += 1;
        Some(local)
    }

    /// How many slots are free. Looks at the tail, so it also makes the next claims cheap.
    pub fn free(&mut self) -> u64 {
        self.tail_seen = self.ring.tail();
        debug_assert!(self.tail_seen <= self.head, "tail {} has passed head {}", self.tail_seen, self.head);
        self.free_seen()
    }

    /// The number the next claim will give.
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
