//! Successors that wait for a task: a list that the orchestrator pushes to and that the completing
//! scheduler closes once.
//!
//! The list of a task is one shared word, its *head*: the newest node, [`OPEN_EMPTY`] or [`CLOSED`]. A node
//! represents one edge of the graph. The links between nodes are in the caller's [`EdgeTable`]. Closing
//! takes the whole list and makes later pushes fail, in one step. Each edge is therefore either handed to
//! the closer or refused to the pusher, never both and never neither.
//!
//! ```
//! use tensortap_sync::SharedU32;
//! use tensortap_sync::fanout::{self, ListClosed};
//!
//! let head = SharedU32::new(fanout::OPEN_EMPTY);
//! let links = [SharedU32::new(0), SharedU32::new(0), SharedU32::new(0)];
//! assert_eq!(fanout::push(&head, &links[..], 0), Ok(()));
//! assert_eq!(fanout::push(&head, &links[..], 2), Ok(()));
//! assert_eq!(fanout::close(&head, &links[..]).collect::<Vec<_>>(), [2, 0]);
//! assert_eq!(fanout::push(&head, &links[..], 1), Err(ListClosed));
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
use crate::orderings::{FanoutOrderings, ProvenOrderings};

/// Head of a list that accepts pushes and has no node. Also the link of the last node. Not a node number.
pub const OPEN_EMPTY: u32 = u32::MAX - 1;
/// Head of a list whose task is complete. Not a node number.
pub const CLOSED: u32 = u32::MAX;

/// The list is closed because the producer is already complete: no dependency is needed, and its outputs
/// are visible to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the producer has completed: its outputs are visible and no dependency is needed")]
pub struct ListClosed;

/// The links between nodes.
pub trait EdgeTable {
    /// The word that links `node` to the next older one. The protocol uses it only while `node` is in a
    /// list.
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

/// Makes `head` an open, empty list. Call it before the task becomes visible to other threads; the step
/// that makes the task visible publishes this.
pub fn open(head: &SharedU32) {
    head.raw().store(OPEN_EMPTY, Ordering::Relaxed);
}

/// Adds `node` to the list of a producer.
///
/// Writes that the caller made before (the node's successor) are visible to the thread that [closes](close)
/// the list. The node must be in no list, and must not be reused before the closer receives it.
///
/// # Errors
/// [`ListClosed`] if the producer is complete. The node is then unused.
pub fn push<T: EdgeTable + ?Sized>(head: &SharedU32, table: &T, node: u32) -> Result<(), ListClosed> {
    push_with::<ProvenOrderings, T>(head, table, node)
}

/// Closes the list and returns every node that was pushed, newest first, each exactly once.
///
/// The producer's earlier writes to its outputs are visible to every pusher that is refused from now on.
/// The iterator reads a node's link before it returns the node, so any thread may reuse the node at once.
/// Dropping the iterator early loses the remaining nodes.
#[must_use = "the nodes are given to this iterator only; if it is dropped, the successors never run"]
pub fn close<'t, T: EdgeTable + ?Sized>(head: &SharedU32, table: &'t T) -> Nodes<'t, T> {
    close_with::<ProvenOrderings, T>(head, table)
}

/// Whether the list is closed. If it is, the producer's outputs are visible to the caller.
pub fn is_closed(head: &SharedU32) -> bool {
    is_closed_with::<ProvenOrderings>(head)
}

pub(crate) fn push_with<O: FanoutOrderings, T: EdgeTable + ?Sized>(
    head: &SharedU32,
    table: &T,
    node: u32,
) -> Result<(), ListClosed> {
    debug_assert!(node < OPEN_EMPTY, "node {node} is a sentinel: nodes are below fanout::OPEN_EMPTY");
    // Pairs with the swap in `close`: a closed list shows the producer's outputs. The failure ordering
    // below does too.
    let mut newest = head.raw().load(O::SEE_CLOSED);
    loop {
        if newest == CLOSED {
            return Err(ListClosed);
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
        // Load the link before returning the node: the caller may overwrite the link as soon as it has the
        // node.
        self.next = self.table.next(node).raw().load(Ordering::Relaxed);
        Some(node)
    }
}

impl<T: EdgeTable + ?Sized> FusedIterator for Nodes<'_, T> {}
