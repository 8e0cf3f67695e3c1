//! One message at a time, from one scheduler to one core.
//!
//! Two shared words, each with one writer: `posted` counts the messages handed over, `done` counts the
//! finished ones. The mailbox is idle when they are equal. The message itself is in other memory, and the
//! words guard it:
//!
//! | step | scheduler ([`Poster`]) | core ([`Receiver`]) |
//! | --- | --- | --- |
//! | 1 | writes the message, [`Poster::post`] | |
//! | 2 | | [`Receiver::poll`] gives its number; reads the message, runs the kernel |
//! | 3 | | [`Receiver::finish`] after the kernel's last write |
//! | 4 | [`Poster::poll_done`] is true once; reads results, may write the next message | |
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::mailbox::{MailboxWords, Poster, Receiver};
//!
//! #[derive(Default)]
//! struct Words { posted: SharedU64, done: SharedU64 }
//! impl MailboxWords for Words {
//!     fn posted(&self) -> &SharedU64 { &self.posted }
//!     fn done(&self) -> &SharedU64 { &self.done }
//! }
//!
//! let words = Words::default();
//! let mut scheduler = Poster::new(&words, 0);
//! let mut core = Receiver::new(&words, 0);
//! assert_eq!(core.poll(), None);
//! assert_eq!(scheduler.post(), 1);
//! assert_eq!(core.poll(), Some(1));
//! assert!(!scheduler.poll_done());
//! core.finish();
//! assert!(scheduler.poll_done());
//! assert!(scheduler.is_idle());
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;
#[cfg(feature = "std")]
use std::sync::Arc;

use crate::SharedU64;
use crate::atomic::Ordering;
use crate::orderings::{MailboxOrderings, ProvenOrderings};

/// The two words of a mailbox. They should be on different cache lines.
pub trait MailboxWords {
    /// Number of messages handed over. Only the poster writes it.
    fn posted(&self) -> &SharedU64;
    /// Number of finished messages. Only the receiver writes it.
    fn done(&self) -> &SharedU64;
}

impl<W: MailboxWords + ?Sized> MailboxWords for &W {
    fn posted(&self) -> &SharedU64 {
        (**self).posted()
    }

    fn done(&self) -> &SharedU64 {
        (**self).done()
    }
}

#[cfg(feature = "std")]
impl<W: MailboxWords + ?Sized> MailboxWords for Arc<W> {
    fn posted(&self) -> &SharedU64 {
        (**self).posted()
    }

    fn done(&self) -> &SharedU64 {
        (**self).done()
    }
}

/// Makes the mailbox idle with both counts at `count`, whatever counts an earlier run left.
///
/// Call it while no thread uses the mailbox. Starting the threads publishes it.
pub fn reset(words: &impl MailboxWords, count: u64) {
    words.posted().raw().store(count, Ordering::Relaxed);
    words.done().raw().store(count, Ordering::Relaxed);
}

/// The scheduler's half of a mailbox.
#[derive(Debug)]
pub struct Poster<W, O = ProvenOrderings> {
    words: W,
    posted: u64,
    outstanding: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: MailboxWords> Poster<W> {
    /// Takes the scheduler's half of an idle mailbox whose words both hold `count` (see [`reset`]).
    pub fn new(words: W, count: u64) -> Self {
        Self::with_orderings(words, count)
    }
}

impl<W: MailboxWords, O: MailboxOrderings> Poster<W, O> {
    fn with_orderings(words: W, count: u64) -> Self {
        // Not under loom: if a side loads its own word before storing it, loom explores fewer
        // interleavings.
        debug_assert!(
            cfg!(loom) || words.posted().raw().load(Ordering::Relaxed) == count,
            "mailbox not idle at count {count}: call mailbox::reset before making handles"
        );
        Self { words, posted: count, outstanding: false, orderings: PhantomData }
    }

    /// Whether a message may be written and posted: none is outstanding.
    pub fn is_idle(&self) -> bool {
        !self.outstanding
    }

    /// Hands over the message that the caller has written, and returns its number. Call it only when the
    /// mailbox is [idle](Self::is_idle).
    pub fn post(&mut self) -> u64 {
        debug_assert!(
            !self.outstanding,
            "post while message {} is outstanding: wait for poll_done",
            self.posted
        );
        self.posted += 1;
        self.outstanding = true;
        // Pairs with the load in `Receiver::poll`: publishes the message.
        self.words.posted().raw().store(self.posted, O::POST);
        self.posted
    }

    /// Returns true exactly once per message, when it is finished. The kernel's writes are then visible,
    /// and the message may be overwritten.
    pub fn poll_done(&mut self) -> bool {
        if !self.outstanding {
            return false;
        }
        // Pairs with the store in `Receiver::finish`: the kernel's writes are visible once the count is
        // reached.
        let done = self.words.done().raw().load(O::SEE_DONE);
        debug_assert!(
            done == self.posted || done + 1 == self.posted,
            "mailbox done count is {done}, but {} messages were posted",
            self.posted
        );
        self.outstanding = done != self.posted;
        !self.outstanding
    }

    /// The words that the constructor received.
    pub fn words(&self) -> &W {
        &self.words
    }
}

/// The core's half of a mailbox.
#[derive(Debug)]
pub struct Receiver<W, O = ProvenOrderings> {
    words: W,
    done: u64,
    busy: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: MailboxWords> Receiver<W> {
    /// Takes the core's half of a mailbox whose words both held `count` when it was [`reset`]. The first
    /// message may already be posted.
    pub fn new(words: W, count: u64) -> Self {
        Self::with_orderings(words, count)
    }
}

impl<W: MailboxWords, O: MailboxOrderings> Receiver<W, O> {
    fn with_orderings(words: W, count: u64) -> Self {
        debug_assert!(
            cfg!(loom) || words.done().raw().load(Ordering::Relaxed) == count,
            "mailbox has not finished {count} messages: call mailbox::reset before making handles"
        );
        Self { words, done: count, busy: false, orderings: PhantomData }
    }

    /// The number of a newly posted message. The message may be read from now until
    /// [`finish`](Self::finish). Returned once per message.
    pub fn poll(&mut self) -> Option<u64> {
        debug_assert!(!self.busy, "poll while message {} is unfinished: call finish first", self.done + 1);
        // Pairs with the store in `Poster::post`: the message is visible once the count has moved.
        let posted = self.words.posted().raw().load(O::RECEIVE);
        debug_assert!(
            posted == self.done || posted == self.done + 1,
            "mailbox posted count is {posted}, but only {} messages are finished",
            self.done
        );
        self.busy = posted == self.done + 1;
        self.busy.then_some(posted)
    }

    /// Finishes the message that [`poll`](Self::poll) returned. Call it after the kernel's last write and
    /// the last read of the message.
    pub fn finish(&mut self) {
        debug_assert!(self.busy, "finish without a message: poll must return one first");
        self.done += 1;
        self.busy = false;
        // Pairs with the load in `Poster::poll_done`: publishes the kernel's writes.
        self.words.done().raw().store(self.done, O::FINISH);
    }

    /// Whether a message was taken and is not finished yet.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The words that the constructor received.
    pub fn words(&self) -> &W {
        &self.words
    }
}
