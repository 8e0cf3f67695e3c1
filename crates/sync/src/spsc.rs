//! Numbers of record buffers: a bounded queue with one producer and one consumer.
//!
//! `pushed` and `popped` count entries and never wrap; entry `n` lies in cell `n % capacity`. Each side keeps its
//! own count in a plain field, stores it after every step, and remembers the other's, which it reads only when the
//! remembered one does not suffice.
//!
//! The consumer reads what an entry stands for between [`Consumer::peek`] and [`Consumer::pop`]; from then on the
//! producer may write there.
//!
//! ```
//! use tensortap_sync::atomic::{AtomicU32, AtomicU64};
//! use tensortap_sync::spsc::{Consumer, Producer, PushError, QueueWords};
//!
//! #[derive(Default)]
//! struct Words { pushed: AtomicU64, popped: AtomicU64, cells: [AtomicU32; 2] }
//! impl QueueWords for Words {
//!     fn pushed(&self) -> &AtomicU64 { &self.pushed }
//!     fn popped(&self) -> &AtomicU64 { &self.popped }
//!     fn cells(&self) -> &[AtomicU32] { &self.cells }
//! }
//!
//! let words = Words::default();
//! let (mut producer, mut consumer) = (Producer::new(&words, 0, 0), Consumer::new(&words, 0, 0));
//! producer.push(7)?;
//! producer.push(8)?;
//! assert_eq!(producer.push(9), Err(PushError::Full));
//! assert_eq!(consumer.peek()?, Some(7));
//! consumer.pop();
//! producer.push(9)?;
//! assert_eq!((consumer.take()?, consumer.take()?, consumer.take()?), (Some(8), Some(9), None));
//! # Ok::<(), PushError>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::cursor::{CursorError, Follower};
use crate::orderings::{Proven, SpscOrderings};

/// Where a queue lies. The two counts should be on different cache lines.
pub trait QueueWords {
    /// Entries ever pushed. Written by the producer only.
    fn pushed(&self) -> &AtomicU64;
    /// Entries ever popped. Written by the consumer only.
    fn popped(&self) -> &AtomicU64;
    /// The entries; as many fit. Always the same, and never empty.
    fn cells(&self) -> &[AtomicU32];
}

impl<W: QueueWords + ?Sized> QueueWords for &W {
    fn pushed(&self) -> &AtomicU64 {
        (**self).pushed()
    }

    fn popped(&self) -> &AtomicU64 {
        (**self).popped()
    }

    fn cells(&self) -> &[AtomicU32] {
        (**self).cells()
    }
}

/// Why an entry was not pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Every cell is in use.
    #[error("the queue is full: wait until the consumer has popped")]
    Full,
    /// The consumer's count cannot be right.
    #[error(transparent)]
    Damaged(#[from] CursorError),
}

/// The side that pushes.
#[derive(Debug)]
pub struct Producer<W, O = Proven> {
    words: W,
    pushed: u64,
    popped: Follower,
    orderings: PhantomData<fn() -> O>,
}

impl<W: QueueWords> Producer<W> {
    /// Takes the producing side of a queue whose words hold these counts.
    pub fn new(words: W, pushed: u64, popped: u64) -> Self {
        Self::with_orderings(words, pushed, popped)
    }
}

impl<W: QueueWords, O: SpscOrderings> Producer<W, O> {
    fn with_orderings(words: W, pushed: u64, popped: u64) -> Self {
        Self { words, pushed, popped: Follower::new(popped), orderings: PhantomData }
    }

    /// Appends an entry. What the caller wrote before is visible to the consumer that peeks it.
    ///
    /// # Errors
    /// [`PushError::Full`] when no cell is free, [`PushError::Damaged`] when the consumer's count cannot be right.
    pub fn push(&mut self, value: u32) -> Result<(), PushError> {
        if !self.has_room()? {
            return Err(PushError::Full);
        }
        cell(&self.words, self.pushed).store(value, Ordering::Relaxed);
        self.pushed += 1;
        // Pairs with the load in `Consumer::peek`: publishes the entry and what the caller wrote before.
        self.words.pushed().store(self.pushed, O::PUSH);
        Ok(())
    }

    /// Whether an entry could be pushed. If so, what the entry popped from that place stood for was read.
    ///
    /// # Errors
    /// When the consumer's count cannot be right.
    pub fn has_room(&mut self) -> Result<bool, CursorError> {
        let capacity = self.words.cells().len() as u64;
        if self.pushed - self.popped.seen() < capacity {
            return Ok(true);
        }
        // Pairs with the store in `Consumer::pop`: the entry and what it stands for were read.
        let popped = self.popped.follow(self.words.popped().load(O::SEE_POPPED), self.pushed)?;
        Ok(self.pushed - popped < capacity)
    }

    /// Entries ever pushed.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}

/// The side that pops.
#[derive(Debug)]
pub struct Consumer<W, O = Proven> {
    words: W,
    popped: u64,
    pushed: Follower,
    orderings: PhantomData<fn() -> O>,
}

impl<W: QueueWords> Consumer<W> {
    /// Takes the consuming side of a queue that started with these counts. Entries pushed before count.
    pub fn new(words: W, pushed: u64, popped: u64) -> Self {
        Self::with_orderings(words, pushed, popped)
    }
}

impl<W: QueueWords, O: SpscOrderings> Consumer<W, O> {
    fn with_orderings(words: W, pushed: u64, popped: u64) -> Self {
        Self { words, popped, pushed: Follower::new(pushed), orderings: PhantomData }
    }

    /// The oldest entry, which stays in the queue. What its producer wrote before is visible.
    ///
    /// # Errors
    /// When the producer's count cannot be right.
    pub fn peek(&mut self) -> Result<Option<u32>, CursorError> {
        if self.pushed.seen() == self.popped && self.waiting()? == 0 {
            return Ok(None);
        }
        Ok(Some(cell(&self.words, self.popped).load(Ordering::Relaxed)))
    }

    /// Removes the entry that [`peek`](Self::peek) gave, after the last reading of what it stands for.
    pub fn pop(&mut self) {
        debug_assert!(self.pushed.seen() > self.popped, "pop of nothing: peek must give an entry first");
        self.popped += 1;
        // Pairs with the load in `Producer::has_room`: the entry and what it stands for may be overwritten.
        self.words.popped().store(self.popped, O::POP);
    }

    /// Removes and gives the oldest entry.
    ///
    /// # Errors
    /// When the producer's count cannot be right.
    pub fn take(&mut self) -> Result<Option<u32>, CursorError> {
        let value = self.peek()?;
        if value.is_some() {
            self.pop();
        }
        Ok(value)
    }

    /// How many entries wait. Looks at the producer's count.
    ///
    /// # Errors
    /// When that count cannot be right.
    pub fn waiting(&mut self) -> Result<u64, CursorError> {
        let most = self.popped + self.words.cells().len() as u64;
        // Pairs with the store in `Producer::push`: the entries are visible.
        let pushed = self.pushed.follow(self.words.pushed().load(O::SEE_PUSHED), most)?;
        Ok(pushed - self.popped)
    }

    /// Entries ever popped.
    pub fn popped(&self) -> u64 {
        self.popped
    }
}

fn cell(words: &impl QueueWords, count: u64) -> &AtomicU32 {
    let cells = words.cells();
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of the length of a slice")]
    let index = (count % cells.len() as u64) as usize;
    &cells[index]
}
