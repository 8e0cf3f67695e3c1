//! Every memory ordering of the protocols, with its name and its partner.
//!
//! Protocol code is generic over these traits. [`ProvenOrderings`] keeps all the defaults and is the only
//! implementation outside the model checks. Each model check has variants that weaken one constant, and
//! these must fail.

use crate::atomic::Ordering;
#[cfg(feature = "std")]
use crate::atomic::fence;

/// The orderings that the model checks have proven. Every public constructor uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProvenOrderings;

/// Orderings of [`crate::mailbox`].
pub trait MailboxOrderings {
    /// Publishes the message. Pairs with `RECEIVE`.
    const POST: Ordering = Ordering::Release;
    /// Sees the message. Pairs with `POST`.
    const RECEIVE: Ordering = Ordering::Acquire;
    /// Publishes the kernel's writes and ends the core's reading of the message. Pairs with `SEE_DONE`.
    const FINISH: Ordering = Ordering::Release;
    /// Sees the kernel's writes; the poster may then overwrite the message. Pairs with `FINISH`.
    const SEE_DONE: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::ready`].
#[cfg(feature = "std")]
pub trait ReadyOrderings {
    /// Publishes a filled cell and all earlier writes of the pusher. Pairs with `SEE_FILLED`.
    const FILL: Ordering = Ordering::Release;
    /// Sees a filled cell. Pairs with `FILL`.
    const SEE_FILLED: Ordering = Ordering::Acquire;
    /// Frees an emptied cell after its value was read. Pairs with `SEE_FREE`.
    const EMPTY: Ordering = Ordering::Release;
    /// Sees that a cell is free. Pairs with `EMPTY`.
    const SEE_FREE: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::fanout`].
pub trait FanoutOrderings {
    /// Publishes a node: its link and everything that the pusher wrote for it. Pairs with `CLOSE`.
    const PUSH: Ordering = Ordering::Release;
    /// Sees that the list is closed, and the producer's outputs. Pairs with `CLOSE`.
    const SEE_CLOSED: Ordering = Ordering::Acquire;
    /// Sees all nodes and publishes the producer's outputs. Pairs with `PUSH` and `SEE_CLOSED`.
    const CLOSE: Ordering = Ordering::AcqRel;
}

/// Orderings of [`crate::pending`].
pub trait PendingOrderings {
    /// Publishes each caller's outputs to the last caller, which sees all of them. Pairs with itself.
    const SATISFY: Ordering = Ordering::AcqRel;
}

/// Orderings of [`crate::retire`].
#[cfg(feature = "std")]
pub trait RetireOrderings {
    /// Ends the retiring thread's use of the slot. Pairs with `SEE_RETIRED`.
    const RETIRE: Ordering = Ordering::Release;
    /// Sees a slot retired by any thread. Pairs with `RETIRE`.
    const SEE_RETIRED: Ordering = Ordering::Acquire;
    /// Publishes the reclaimed slots. Pairs with `SEE_TAIL`, also through the release sequence of later
    /// advances.
    const ADVANCE: Ordering = Ordering::Release;
    /// Sees which slots are free. Pairs with `ADVANCE`.
    const SEE_TAIL: Ordering = Ordering::Acquire;

    /// Between marking the own slot and reading the marks of others. Pairs with itself in every retiring
    /// thread.
    fn mark_then_look() {
        fence(Ordering::SeqCst);
    }
}

/// Orderings of [`crate::park`].
#[cfg(feature = "std")]
pub trait ParkOrderings {
    /// Between setting the sleeper's flag and its last look for work. Pairs with `work_then_look`.
    fn flag_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Between publishing work and reading the sleeper's flag. Pairs with `flag_then_look`.
    fn work_then_look() {
        fence(Ordering::SeqCst);
    }
}

/// Orderings of [`crate::spsc`].
pub trait SpscOrderings {
    /// Publishes an entry and all earlier writes of the producer. Pairs with `SEE_PUSHED`.
    const PUSH: Ordering = Ordering::Release;
    /// Sees the entries. Pairs with `PUSH`.
    const SEE_PUSHED: Ordering = Ordering::Acquire;
    /// Ends the consumer's reading of an entry and of the data it names. Pairs with `SEE_POPPED`.
    const POP: Ordering = Ordering::Release;
    /// Sees which cells are free again. Pairs with `POP`.
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
    /// Sees the last holder's writes. Pairs with `GIVE_BACK`.
    const TAKE: Ordering = Ordering::Acquire;
    /// Ends the holder's use of the lane. Pairs with `TAKE` and `WATCH`.
    const GIVE_BACK: Ordering = Ordering::Release;
    /// Sees the last holder's writes from the other side. Pairs with `GIVE_BACK`.
    const WATCH: Ordering = Ordering::Acquire;
}

/// Orderings of [`crate::link`].
#[cfg(feature = "std")]
pub trait LinkOrderings {
    /// Publishes the host's writes before it wakes the device. Pairs with `SEE_WAKE`.
    const WAKE: Ordering = Ordering::Release;
    /// Sees the host's writes before it woke the device. Pairs with `WAKE`.
    const SEE_WAKE: Ordering = Ordering::Acquire;

    /// Between announcing sleep and reading the wake word. Pairs with `wake_then_look`.
    fn sleep_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Between writing the wake word and reading the sleep word. Pairs with `sleep_then_look`.
    fn wake_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Between the waker's work and the check whether a wake-up is already pending. Pairs with
    /// `take_then_look`.
    fn work_then_look() {
        fence(Ordering::SeqCst);
    }

    /// Between clearing a wake-up and looking for work. Pairs with `work_then_look`.
    fn take_then_look() {
        fence(Ordering::SeqCst);
    }
}

/// Orderings of [`crate::enclosure`].
pub trait EnclosureOrderings {
    /// Gives back a place after its last write. Pairs with `TAKE`.
    const FREE: Ordering = Ordering::Release;
    /// Takes a free place: the writes of its last owner come before those of the new one. Pairs with `FREE`.
    const TAKE: Ordering = Ordering::Acquire;
}

impl EnclosureOrderings for ProvenOrderings {}
impl MailboxOrderings for ProvenOrderings {}
#[cfg(feature = "std")]
impl ReadyOrderings for ProvenOrderings {}
impl FanoutOrderings for ProvenOrderings {}
impl PendingOrderings for ProvenOrderings {}
#[cfg(feature = "std")]
impl RetireOrderings for ProvenOrderings {}
#[cfg(feature = "std")]
impl ParkOrderings for ProvenOrderings {}
impl SpscOrderings for ProvenOrderings {}
impl CommitOrderings for ProvenOrderings {}
impl ArenaOrderings for ProvenOrderings {}
impl LeaseOrderings for ProvenOrderings {}
#[cfg(feature = "std")]
impl LinkOrderings for ProvenOrderings {}
