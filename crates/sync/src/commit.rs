//! How many records of a buffer may be read, and which buffer is being filled.
//!
//! The producer fills one buffer after another. Whichever it fills now is named by the word `current`; how far it is
//! filled, by the word `committed` in front of that buffer's records. A record, and the payload it points to, are
//! visible once `committed` counts it.
//!
//! A buffer is handed over when full, through a queue, and comes back through another. Before that the producer
//! [closes](Current::close) it: otherwise the consumer, having emptied and returned the buffer, could still find it
//! named as current, and read a header that the producer is writing anew.
//!
//! ```
//! use tensortap_sync::atomic::AtomicU64;
//! use tensortap_sync::commit::{self, Current, Observer, Publisher};
//!
//! let (current, committed) = (AtomicU64::new(0), AtomicU64::new(99));
//! let mut filling = Current::new(&current);
//! assert_eq!(commit::current(&current), None);
//! let mut publisher = Publisher::begin(&committed);
//! filling.open(4);
//! assert_eq!(commit::current(&current), Some(4));
//! let mut observer = Observer::new(&committed, 10);
//! assert_eq!(observer.poll()?, 0..0);
//! publisher.publish();
//! publisher.publish();
//! assert_eq!(observer.poll()?, 0..2);
//! assert_eq!(observer.poll()?, 2..2);
//! # Ok::<(), tensortap_sync::cursor::CursorError>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;
use core::ops::Range;

use crate::atomic::{AtomicU64, Ordering};
use crate::cursor::{CursorError, Follower};
use crate::orderings::{CommitOrderings, Proven};

/// Where a count of committed records lies.
pub trait CommitWord {
    /// Records that may be read. Written by the producer only.
    fn committed(&self) -> &AtomicU64;
}

impl CommitWord for AtomicU64 {
    fn committed(&self) -> &AtomicU64 {
        self
    }
}

impl<W: CommitWord + ?Sized> CommitWord for &W {
    fn committed(&self) -> &AtomicU64 {
        (**self).committed()
    }
}

/// The producer's side of one filling of a buffer.
#[derive(Debug)]
pub struct Publisher<W, O = Proven> {
    word: W,
    count: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<W: CommitWord> Publisher<W> {
    /// Starts at no record, whatever an earlier filling left. [`Current::open`] publishes it.
    pub fn begin(word: W) -> Self {
        Self::with_orderings(word)
    }
}

impl<W: CommitWord, O: CommitOrderings> Publisher<W, O> {
    fn with_orderings(word: W) -> Self {
        word.committed().store(0, Ordering::Relaxed);
        Self { word, count: 0, orderings: PhantomData }
    }

    /// Makes one more record visible, and returns how many are. To be called after the last write to it.
    pub fn publish(&mut self) -> u64 {
        self.count += 1;
        // Pairs with the load in `Observer::poll`: publishes the record and its payload.
        self.word.committed().store(self.count, O::PUBLISH);
        self.count
    }

    /// Records made visible.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The consumer's side of one filling of a buffer.
#[derive(Debug)]
pub struct Observer<W, O = Proven> {
    word: W,
    seen: Follower,
    limit: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<W: CommitWord> Observer<W> {
    /// Watches a buffer of `limit` records, of which none was taken.
    pub fn new(word: W, limit: u64) -> Self {
        Self::with_orderings(word, limit)
    }
}

impl<W: CommitWord, O: CommitOrderings> Observer<W, O> {
    fn with_orderings(word: W, limit: u64) -> Self {
        Self { word, seen: Follower::new(0), limit, orderings: PhantomData }
    }

    /// The records that became visible since the last call.
    ///
    /// # Errors
    /// When the count cannot be right.
    pub fn poll(&mut self) -> Result<Range<u64>, CursorError> {
        let from = self.seen.seen();
        // Pairs with the store in `Publisher::publish`: the records counted are visible.
        let to = self.seen.follow(self.word.committed().load(O::SEE), self.limit)?;
        Ok(from..to)
    }

    /// Whether every record of the buffer was seen.
    pub fn is_full(&self) -> bool {
        self.seen.seen() == self.limit
    }
}

/// The producer's side of the word that names the buffer being filled: its number plus one, or zero for none.
#[derive(Debug)]
pub struct Current<'w, O = Proven> {
    word: &'w AtomicU64,
    orderings: PhantomData<fn() -> O>,
}

impl<'w> Current<'w> {
    /// Takes the word over; it holds zero.
    pub fn new(word: &'w AtomicU64) -> Self {
        Self::with_orderings(word)
    }
}

impl<'w, O: CommitOrderings> Current<'w, O> {
    fn with_orderings(word: &'w AtomicU64) -> Self {
        Self { word, orderings: PhantomData }
    }

    /// Names the buffer being filled, after its header was written and its [`Publisher`] begun.
    pub fn open(&mut self, number: u32) {
        // Pairs with the load in `current`: publishes the header.
        self.word.store(u64::from(number) + 1, O::PUBLISH);
    }

    /// Names none. To be called before the buffer is handed over.
    pub fn close(&mut self) {
        // Relaxed: who is handed the buffer has acquired what was stored before.
        self.word.store(0, Ordering::Relaxed);
    }
}

/// Number of the buffer being filled, if any; its header is visible. The consumer's side of [`Current`].
pub fn current(word: &AtomicU64) -> Option<u64> {
    current_with::<Proven>(word)
}

fn current_with<O: CommitOrderings>(word: &AtomicU64) -> Option<u64> {
    // Pairs with the store in `Current::open`.
    word.load(O::SEE).checked_sub(1)
}
