//! Successors that wait for a task: a list the orchestrator pushes to and the completing scheduler closes,
//! once.
//!
//! The list of a task is one shared word, its *head*: the newest node, or [`OPEN_EMPTY`], or [`CLOSED`]. A
//! node stands for one edge of the graph; the links between nodes lie in the caller's [`EdgeTable`]. Closing
//! takes the whole list and refuses later pushes in one step, so an edge is either handed to the closer or
//! refused to the pusher, never both and never neither.
//!
//! ```
//! use tensortap_sync::SharedU32;
//! use tensortap_sync::fanout::{self, Closed};
//!
//! let head = SharedU32::new(fanout::OPEN_EMPTY);
//! let links = [SharedU32::new(0), SharedU32::new(0), SharedU32::new(0)];
//! assert_eq!(fanout::push(&head, &links[..], 0), Ok(()));
//! assert_eq!(fanout::push(&head, &links[..], 2), Ok(()));
//! assert_eq!(fanout::close(&head, &links[..]).collect::<Vec<_>>(), [2, 0]);
//! assert_eq!(fanout::push(&head, &links[..], 1), Err(Closed));
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::iter::FusedIterator;
#[cfg(feature = "std")]
use std::sync::Arc;

use crate::SharedU32;
use crate::atomic::Ordering;
use crate::orderings::{FanoutOrderings, Proven};

/// Head of a list that accepts pushes and has no node. Also the link of the last node. Not a node.
pub const OPEN_EMPTY: u32 = u32::MAX - 1;
/// Head of a list whose task is complete. Not a node.
pub const CLOSED: u32 = u32::MAX;

/// The producer is already complete: no dependency is needed, and its outputs are visible to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the producer has completed: its outputs are visible and no dependency is needed")]
pub struct Closed;

/// Where the links between nodes lie.
pub trait EdgeTable {
    /// The word that links `node` to the next older one. Used by the protocol only while `node` is in a list.
    fn next(&self, node: u32) -> &SharedU32;
}

impl EdgeTable for [SharedU32] {
    fn next(&self, node: u32) -> &SharedU32 {
        &self[node as usize]
    }
}

impl<T: EdgeTable + ?Sized> EdgeTable for &T {
    fn next(&self, node: u32) -> &SharedU32 {
        (**self).next(node)
    }
}

#[cfg(feature = "std")]
impl<T: EdgeTable + ?Sized> EdgeTable for Arc<T> {
    fn next(&self, node: u32) -> &SharedU32 {
        (**self).next(node)
    }
}

/// Makes `head` an open, empty list. To be called before the task is visible to other threads; what makes it
/// visible publishes this.
pub fn open(head: &SharedU32) {
    head.raw().store(OPEN_EMPTY, Ordering::Relaxed);
}

/// Adds `node` to the list of a producer.
///
/// What the caller wrote before (the successor the node stands for) is visible to the thread that
/// [closes](close) the list. The node must be in no list, and must not be reused before the closer has been
/// given it.
///
/// # Errors
/// [`Closed`] when the producer is complete. The node is then unused.
pub fn push<T: EdgeTable + ?Sized>(head: &SharedU32, table: &T, node: u32) -> Result<(), Closed> {
    push_with::<Proven, T>(head, table, node)
}

/// Closes the list and gives every node that was pushed, newest first, each exactly once.
///
/// The producer's outputs, written before, are visible to every pusher that is refused from now on. The
/// iterator reads the link of a node before it gives the node, so the node may be reused at once, by any
/// thread. Dropping it early loses the rest.
#[must_use = "the nodes are given to this iterator only; dropping it strands the successors"]
pub fn close<'t, T: EdgeTable + ?Sized>(head: &SharedU32, table: &'t T) -> Nodes<'t, T> {
    close_with::<Proven, T>(head, table)
}

/// Whether the list is closed. If so, the producer's outputs are visible to the caller.
pub fn is_closed(head: &SharedU32) -> bool {
    is_closed_with::<Proven>(head)
}

pub(crate) fn push_with<O: FanoutOrderings, T: EdgeTable + ?Sized>(
    head: &SharedU32,
    table: &T,
    node: u32,
) -> Result<(), Closed> {
    debug_assert!(node < OPEN_EMPTY, "node {node} is a sentinel: nodes are below fanout::OPEN_EMPTY");
    // Pairs with the swap in `close`: a closed list shows the producer's outputs. So does the failure
    // ordering below.
    let mut newest = head.raw().load(O::SEE_CLOSED);
    loop {
        if newest == CLOSED {
            return Err(Closed);
        }
        table.next(node).raw().store(newest, Ordering::Relaxed);
        // Pairs with the swap in `close`: publishes the link and the caller's writes. Later pushes continue
        // the release sequence.
        match head.raw().compare_exchange_weak(newest, node, O::PUSH, O::SEE_CLOSED) {
            Ok(_) => return Ok(()),
            Err(moved_to) => newest = moved_to,
        }
    }
}

pub(crate) fn close_with<'t, O: FanoutOrderings, T: EdgeTable + ?Sized>(
    head: &SharedU32,
    table: &'t T,
) -> Nodes<'t, T> {
    // Pairs with the exchange in `push` (sees the nodes) and with its loads (publishes the producer's
    // outputs).
    let newest = head.raw().swap(CLOSED, O::CLOSE);
    debug_assert!(newest != CLOSED, "list closed twice: a task completes once");
    Nodes { table, next: newest }
}

fn is_closed_with<O: FanoutOrderings>(head: &SharedU32) -> bool {
    // Pairs with the swap in `close`.
    head.raw().load(O::SEE_CLOSED) == CLOSED
}

/// The nodes of a closed list. Made by [`close`].
#[derive(Debug)]
pub struct Nodes<'t, T: ?Sized> {
    table: &'t T,
    next: u32,
}

impl<T: EdgeTable + ?Sized> Iterator for Nodes<'_, T> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.next >= OPEN_EMPTY {
            return None;
        }
        let node = self.next;
        // Before giving the node away: its link may be overwritten as soon as the caller has it.
        self.next = self.table.next(node).raw().load(Ordering::Relaxed);
        Some(node)
    }
}

impl<T: EdgeTable + ?Sized> FusedIterator for Nodes<'_, T> {}
