//! How many producers a task still waits for; likewise how many dispatches of it are not finished, and who still holds
//! its slot: whoever takes off the last one goes on, and sees what all others did.
//!
//! The count starts at one, the *guard*, which stands for the orchestrator still adding dependencies:
//! producers that complete meanwhile cannot bring the count to zero. Building a task goes [`guard`]; for each
//! producer [`arm`], then [`fanout::push`](crate::fanout::push), and [`satisfy`] if that is refused; at the
//! end one [`satisfy`] for the guard. Each completing producer satisfies once per node. Whoever gets `true`
//! makes the task ready.
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
use crate::orderings::{PendingOrderings, Proven};

/// Sets the count to one, the guard. To be called before any node of the task is pushed, which publishes it.
pub fn guard(count: &SharedU32) {
    count.raw().store(1, Ordering::Relaxed);
}

/// Adds one producer to wait for. To be called while the guard is held and before the node is pushed.
pub fn arm(count: &SharedU32) {
    // Relaxed: the push that follows publishes it to the thread that will satisfy it.
    let before = count.raw().fetch_add(1, Ordering::Relaxed);
    debug_assert!(before > 0, "armed without the guard: call pending::guard first");
}

/// Takes one off the count. True for exactly the caller that brings it to zero; to that caller everything
/// that the others wrote before satisfying is visible.
#[must_use = "the caller that is told true must make the task ready, nobody else will"]
pub fn satisfy(count: &SharedU32) -> bool {
    satisfy_with::<Proven>(count)
}

fn satisfy_with<O: PendingOrderings>(count: &SharedU32) -> bool {
    // Pairs with itself: each caller publishes its producer's outputs, the last one sees them all.
    let before = count.raw().fetch_sub(1, O::SATISFY);
    debug_assert!(before > 0, "satisfied more often than armed");
    before == 1
}
