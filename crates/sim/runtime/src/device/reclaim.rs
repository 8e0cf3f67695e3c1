//! Reuse of task slots: maps slot indices to rings.

use std::num::NonZeroU32;
use std::sync::Arc;

use tensortap_abi::{RING_COUNT, TaskId};
use tensortap_sync::retire::RetireRing;

/// The rings of a run. Ring `r` has the slot indices from `r * slots`.
#[derive(Clone)]
pub struct Rings {
    retire: [Arc<RetireRing>; RING_COUNT],
    slots: NonZeroU32,
}

impl Rings {
    /// Empty rings of this many slots each.
    pub fn new(slots: NonZeroU32) -> Rings {
        Rings { retire: std::array::from_fn(|_| Arc::new(RetireRing::new(slots))), slots }
    }

    /// The ring with this number.
    pub fn ring(&self, ring: usize) -> &Arc<RetireRing> {
        &self.retire[ring]
    }

    /// Slots of each ring.
    pub fn slots(&self) -> u32 {
        self.slots.get()
    }

    /// The slot index of a task.
    pub fn slot_of(&self, task: TaskId) -> u32 {
        task.ring() * self.slots.get() + task.local() % self.slots.get()
    }

    /// Marks the slot of a task as reusable. Returns true if the tail of the ring moved.
    pub fn retire(&self, task: TaskId) -> bool {
        self.retire[task.ring() as usize].retire(task.local().into())
    }
}
