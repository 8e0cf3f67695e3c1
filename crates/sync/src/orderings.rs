//! Every memory ordering of the protocols, by name, with its partner.
//!
//! Protocol code is generic over these traits. [`Proven`] takes all the defaults and is the only
//! implementation outside the model checks; each model check has twins that weaken one constant and must
//! fail.

use crate::atomic::Ordering;
#[cfg(feature = "std")]
use crate::atomic::fence;

/// The orderings as declared. What every public constructor uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proven;

/// Orderings of [`crate::mailbox`].
pub trait MailboxOrderings {
    /// Publishes the message. Pairs with `RECEIVE`.
    const POST: Ordering = Ordering::Release;
    /// Sees the message. Pairs with `POST`.
    const RECEIVE: Ordering = Ordering::Acquire;
    /// Publishes the kernel's writes, and ends its reading of the message. Pairs with `SEE_DONE`.
    const FINISH: Ordering = Ordering::Release;
    /// Sees the kernel's writes; the message may be overwritten after it. Pairs with `FINISH`.
    const SEE_DONE: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::ready`].
#[cfg(feature = "std")]
pub trait ReadyOrderings {
    /// Publishes a filled cell and all that the pusher wrote before. Pairs with `SEE_FILLED`.
    const FILL: Ordering = Ordering::Release;
    /// Sees a filled cell. Pairs with `FILL`.
    const SEE_FILLED: Ordering = Ordering::Acquire;
    /// Gives an emptied cell back, after its value was read. Pairs with `SEE_FREE`.
    const EMPTY: Ordering = Ordering::Release;
    /// Sees a cell given back. Pairs with `EMPTY`.
    const SEE_FREE: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::fanout`].
pub trait FanoutOrderings {
    /// Publishes a node: its link and all that the pusher wrote about it. Pairs with `CLOSE`.
    const PUSH: Ordering = Ordering::Release;
    /// Sees that the list is closed, and the producer's outputs. Pairs with `CLOSE`.
    const SEE_CLOSED: Ordering = Ordering::Acquire;
    /// Sees all nodes and publishes the producer's outputs. Pairs with `PUSH` and `SEE_CLOSED`.
    const CLOSE: Ordering = Ordering::AcqRel;
}

/// Orderings of [`crate::pending`].
pub trait PendingOrderings {
    /// Publishes the caller's outputs to the last caller, and shows the last caller everybody's. Pairs with
    /// itself.
    const SATISFY: Ordering = Ordering::AcqRel;
}

/// Orderings of [`crate::retire`].
#[cfg(feature = "std")]
pub trait RetireOrderings {
    /// Ends the retiring thread's use of the slot. Pairs with `SEE_RETIRED`.
    const RETIRE: Ordering = Ordering::Release;
    /// Sees a slot retired by any thread. Pairs with `RETIRE`.
    const SEE_RETIRED: Ordering = Ordering::Acquire;
    /// Publishes the slots passed over. Pairs with `SEE_TAIL`, through the release sequence of later advances
    /// too.
    const ADVANCE: Ordering = Ordering::Release;
    /// Sees which slots are free. Pairs with `ADVANCE`.
    const SEE_TAIL: Ordering = Ordering::Acquire;

    /// Stands between the mark of an own slot and the look at the others'. Pairs with itself in every
    /// retiring thread.
    fn mark_then_look() {
        fence(Ordering::SeqCst);
    }
}

/// Orderings of [`crate::park`].
#[cfg(feature = "std")]
pub trait ParkOrderings {
    /// Stands between the sleeper's flag and its last look for work. Pairs with `work_then_look`.
    fn flag_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Stands between the publishing of work and the look at the sleeper's flag. Pairs with `flag_then_look`.
    fn work_then_look() {
        fence(Ordering::SeqCst);
    }
}

/// Orderings of [`crate::spsc`].
pub trait SpscOrderings {
    /// Publishes an entry and all that the producer wrote before. Pairs with `SEE_PUSHED`.
    const PUSH: Ordering = Ordering::Release;
    /// Sees the entries. Pairs with `PUSH`.
    const SEE_PUSHED: Ordering = Ordering::Acquire;
    /// Ends the consumer's reading of an entry and of what it stands for. Pairs with `SEE_POPPED`.
    const POP: Ordering = Ordering::Release;
    /// Sees which places are free again. Pairs with `POP`.
    const SEE_POPPED: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::commit`].
pub trait CommitOrderings {
    /// Publishes a record and its payload. Pairs with `SEE`.
    const PUBLISH: Ordering = Ordering::Release;
    /// Sees the records counted. Pairs with `PUBLISH`.
    const SEE: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::arena`].
pub trait ArenaOrderings {
    /// Ends the consumer's reading of the bytes below. Pairs with `SEE_RELEASED`.
    const RELEASE: Ordering = Ordering::Release;
    /// Sees which bytes may be overwritten. Pairs with `RELEASE`.
    const SEE_RELEASED: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::lease`].
pub trait LeaseOrderings {
    /// Sees what the last holder left. Pairs with `GIVE_BACK`.
    const TAKE: Ordering = Ordering::Acquire;
    /// Ends the holder's use of the lane. Pairs with `TAKE` and `WATCH`.
    const GIVE_BACK: Ordering = Ordering::Release;
    /// Sees what the last holder left, from the other side. Pairs with `GIVE_BACK`.
    const WATCH: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::link`].
#[cfg(feature = "std")]
pub trait LinkOrderings {
    /// Publishes what the host wrote before it woke the device. Pairs with `SEE_WAKE`.
    const WAKE: Ordering = Ordering::Release;
    /// Sees what the host wrote before it woke the device. Pairs with `WAKE`.
    const SEE_WAKE: Ordering = Ordering::Acquire;

    /// Stands between "I sleep" and the look at the wake. Pairs with `wake_then_look`.
    fn sleep_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Stands between the wake and the look at who sleeps. Pairs with `sleep_then_look`.
    fn wake_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Stands between the waker's work and the look whether a wake is under way. Pairs with `take_then_look`.
    fn work_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Stands between the clearing of a wake and the look for work. Pairs with `work_then_look`.
    fn take_then_look() {
        fence(Ordering::SeqCst);
    }
}

impl MailboxOrderings for Proven {}
#[cfg(feature = "std")]
impl ReadyOrderings for Proven {}
impl FanoutOrderings for Proven {}
impl PendingOrderings for Proven {}
#[cfg(feature = "std")]
impl RetireOrderings for Proven {}
#[cfg(feature = "std")]
impl ParkOrderings for Proven {}
impl SpscOrderings for Proven {}
impl CommitOrderings for Proven {}
impl ArenaOrderings for Proven {}
impl LeaseOrderings for Proven {}
#[cfg(feature = "std")]
impl LinkOrderings for Proven {}
