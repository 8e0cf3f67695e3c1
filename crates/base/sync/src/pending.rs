//! Counts down to the last caller. The count is the number of producers that a task still waits for, of its
//! unfinished dispatches, or of holders of its slot. The caller that takes off the last one continues, and
//! sees the writes of all the others.
//!
//! The count starts at one, the *guard*, which represents the orchestrator while it adds dependencies:
//! producers that complete meanwhile cannot bring the count to zero. To build a task, call [`guard`]. For
//! each producer call [`arm`], then [`fanout::push`](crate::fanout::push), and [`satisfy`] if the push is
//! refused. At the end call [`satisfy`] once for the guard. Each completing producer calls [`satisfy`] once
//! per node. The caller that gets `true` makes the task ready.
//!
//! ```
//! use tensortap_sync::SharedU32;
//! use tensortap_sync::pending;
//!
//! let count = SharedU32::new(0);
//! pending::guard(&count);
//! pending::arm(&count);
//! assert!(!pending::satisfy(&count)); // the producer completed while the task was being built
//! assert!(pending::satisfy(&count)); // the guard was last
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::SharedU32;
use crate::atomic::Ordering;
use crate::orderings::{PendingOrderings, ProvenOrderings};

/// Sets the count to one, the guard. Call it before any node of the task is pushed; the push publishes it.
pub fn guard(count: &SharedU32) {
    count.raw().store(1, Ordering::Relaxed);
}

/// Adds one producer to wait for. Call it while the guard is held and before the node is pushed.
pub fn arm(count: &SharedU32) {
    // Relaxed: the following push publishes it to the thread that will call `satisfy`.
    let before = count.raw().fetch_add(1, Ordering::Relaxed);
    debug_assert!(before > 0, "armed without the guard: call pending::guard first");
}

/// Takes one off the count. Returns true to exactly the caller that brings it to zero. All writes that the
/// other callers made before `satisfy` are visible to that caller.
#[must_use = "the caller that gets true must make the task ready; no other caller will"]
pub fn satisfy(count: &SharedU32) -> bool {
    satisfy_with::<ProvenOrderings>(count)
}

fn satisfy_with<O: PendingOrderings>(count: &SharedU32) -> bool {
    // Pairs with itself: each caller publishes its producer's outputs, and the last caller sees all of
    // them.
    let before = count.raw().fetch_sub(1, O::SATISFY);
    debug_assert!(before > 0, "satisfied more often than armed");
    before == 1
}
