//! How many records of a buffer may be read, and which buffer is being filled.
//!
//! The producer fills one buffer after another. The word `current` names the buffer being filled. The word
//! `committed`, in the header of each buffer, counts its visible records. A record and its payload are
//! visible once `committed` counts the record.
//!
//! A full buffer goes to the consumer through one queue and returns through another. Before the handover
//! the producer [closes](Current::close) the buffer. Otherwise the consumer could return the buffer, still
//! find it named as current, and read a header while the producer rewrites it.
//!
//! The records are in the producer's memory. The consumer may be a host that only copies; see [`Word`].
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::commit::{self, Current, Observer, Publisher};
//!
//! let (current, committed) = (SharedU64::new(0), SharedU64::new(99));
//! let mut filling = Current::new(&current);
//! assert_eq!(commit::current(&current)?, None);
//! let mut publisher = Publisher::begin(&committed);
//! filling.open(4);
//! assert_eq!(commit::current(&current)?, Some(4));
//! let mut observer = Observer::new(&committed, 10);
//! assert!(observer.poll(10).unwrap().is_empty());
//! for _ in 0..3 {
//!     publisher.publish();
//! }
//! assert_eq!(observer.poll(2), Ok(0..2));
//! assert_eq!(observer.poll(2), Ok(2..3));
//! # Ok::<(), core::convert::Infallible>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;
use core::ops::Range;

use crate::Word;
use crate::atomic::Ordering;
use crate::cursor::{Follower, ReadError};
use crate::orderings::{CommitOrderings, ProvenOrderings};

/// The producer's half, for one filling of a buffer.
#[derive(Debug)]
pub struct Publisher<W, O = ProvenOrderings> {
    word: W,
    count: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<W: Word<Error = Infallible>> Publisher<W> {
    /// Starts with no record, whatever count an earlier filling left. [`Current::open`] publishes it.
    pub fn begin(word: W) -> Self {
        Self::with_orderings(word)
    }
}

impl<W: Word<Error = Infallible>, O: CommitOrderings> Publisher<W, O> {
    pub(crate) fn with_orderings(word: W) -> Self {
        let Ok(()) = word.store(0, Ordering::Relaxed);
        Self { word, count: 0, orderings: PhantomData }
    }

    /// Continues a filling that has `count` visible records.
    pub(crate) fn go_on(word: W, count: u64) -> Self {
        Self { word, count, orderings: PhantomData }
    }

    /// Makes one more record visible and returns the number of visible records. Call it after the last
    /// write to the record.
    pub fn publish(&mut self) -> u64 {
        self.count += 1;
        // Pairs with the load in `Observer::poll`: publishes the record and its payload.
        let Ok(()) = self.word.store(self.count, O::PUBLISH);
        self.count
    }

    /// Stores the count again, in case another writer has overwritten it.
    pub fn restate(&self) {
        let Ok(()) = self.word.store(self.count, O::PUBLISH);
    }

    /// Number of visible records.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The consumer's half, for one filling of a buffer.
#[derive(Debug)]
pub struct Observer<W, O = ProvenOrderings> {
    word: W,
    seen: Follower,
    taken: u64,
    limit: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<W: Word> Observer<W> {
    /// Watches a buffer of `limit` records, none of which is taken yet.
    pub fn new(word: W, limit: u64) -> Self {
        Self::with_orderings(word, limit)
    }
}

impl<W: Word, O: CommitOrderings> Observer<W, O> {
    pub(crate) fn with_orderings(word: W, limit: u64) -> Self {
        Self { word, seen: Follower::new(0), taken: 0, limit, orderings: PhantomData }
    }

    /// Takes at most `most` visible records and returns their positions.
    ///
    /// # Errors
    /// If the count is impossible or cannot be reached.
    pub fn poll(&mut self, most: u64) -> Result<Range<u64>, ReadError<W::Error>> {
        if self.taken == self.seen.seen() && !self.is_taken() {
            // Pairs with the store in `Publisher::publish`: the records counted are visible.
            let committed = self.word.load(O::SEE).map_err(ReadError::Unreachable)?;
            self.seen.follow(committed, self.limit)?;
        }
        let from = self.taken;
        self.taken += (self.seen.seen() - from).min(most);
        Ok(from..self.taken)
    }

    /// Whether every record of the buffer was taken.
    pub fn is_taken(&self) -> bool {
        self.taken == self.limit
    }
}

/// The producer's side of the word that names the buffer being filled. The word holds the buffer's number
/// plus one, or zero for none.
#[derive(Debug)]
pub struct Current<W, O = ProvenOrderings> {
    word: W,
    orderings: PhantomData<fn() -> O>,
}

impl<W: Word<Error = Infallible>> Current<W> {
    /// Takes over the word, which holds zero.
    pub fn new(word: W) -> Self {
        Self::with_orderings(word)
    }
}

impl<W: Word<Error = Infallible>, O: CommitOrderings> Current<W, O> {
    pub(crate) fn with_orderings(word: W) -> Self {
        Self { word, orderings: PhantomData }
    }

    /// Names the buffer being filled. Call it after its header is written and its [`Publisher`] exists.
    pub fn open(&mut self, number: u32) {
        // Pairs with the load in `current`: publishes the header.
        let Ok(()) = self.word.store(u64::from(number) + 1, O::PUBLISH);
    }

    /// Stores the buffer's name again, in case another writer has overwritten the word.
    pub fn restate(&self, number: u32) {
        let Ok(()) = self.word.store(u64::from(number) + 1, O::PUBLISH);
    }

    /// Clears the name. Call it before the buffer is handed over.
    pub fn close(&mut self) {
        // Relaxed: the handover of the buffer publishes this store.
        let Ok(()) = self.word.store(0, Ordering::Relaxed);
    }
}

/// Number of the buffer being filled, if any. Its header is visible. This is the consumer's side of
/// [`Current`].
///
/// # Errors
/// If the word cannot be reached.
pub fn current<W: Word>(word: W) -> Result<Option<u64>, W::Error> {
    current_with::<ProvenOrderings, W>(word)
}

pub(crate) fn current_with<O: CommitOrderings, W: Word>(word: W) -> Result<Option<u64>, W::Error> {
    // Pairs with the store in `Current::open`.
    Ok(word.load(O::SEE)?.checked_sub(1))
}
