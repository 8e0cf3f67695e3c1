//! A bounded queue of record buffer numbers, with one producer and one consumer.
//!
//! `pushed` and `popped` count entries and never wrap; entry `n` is in cell `n % capacity`. Each side keeps
//! its own count in a plain field and stores it after every step. It remembers the other side's count and
//! reads it again only when the remembered value is not enough.
//!
//! The consumer reads the data that an entry names between [`Consumer::peek`] and [`Consumer::pop`]. After
//! the pop, the producer may overwrite that data.
//!
//! Either side may be the host, and either side may reach the queue through copies only; see [`Word`].
//!
//! ```
//! use tensortap_sync::spsc::{Consumer, Producer, PushError, QueueCells};
//! use tensortap_sync::{SharedU32, SharedU64};
//!
//! let (pushed, popped) = (SharedU64::new(0), SharedU64::new(0));
//! let cells = [SharedU32::new(0), SharedU32::new(0)];
//! let words = QueueCells { pushed: &pushed, popped: &popped, cells: &cells };
//! let (mut producer, mut consumer) = (Producer::new(words, 0, 0), Consumer::new(words, 0, 0));
//! producer.push(7)?;
//! producer.push(8)?;
//! assert_eq!(producer.push(9), Err(PushError::Full));
//! assert_eq!(consumer.peek(), Ok(Some(7)));
//! let Ok(()) = consumer.pop();
//! producer.push(9)?;
//! assert_eq!((consumer.take(), consumer.take(), consumer.take()), (Ok(Some(8)), Ok(Some(9)), Ok(None)));
//! # Ok::<(), PushError<core::convert::Infallible>>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::cursor::{CursorError, Follower, ReadError};
use crate::orderings::{ProvenOrderings, SpscOrderings};
use crate::{SharedU32, SharedU64, Word};

/// The words of a queue, and how one side reaches them. The two counts should be on different cache lines.
pub trait QueueWords {
    /// Why the queue cannot be reached.
    type Error;

    /// Number of entries ever pushed. Only the producer writes it.
    fn pushed(&self) -> impl Word<Error = Self::Error>;
    /// Number of entries ever popped. Only the consumer writes it.
    fn popped(&self) -> impl Word<Error = Self::Error>;
    /// Number of entries that fit. Constant and never zero.
    fn capacity(&self) -> u64;
    /// The entry in a cell, in one access. The counts order it.
    ///
    /// # Errors
    /// If it cannot be reached.
    fn entry(&self, cell: u64) -> Result<u32, Self::Error>;
    /// Replaces the entry in a cell, in one access.
    ///
    /// # Errors
    /// If it cannot be reached.
    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), Self::Error>;
}

impl<W: QueueWords + ?Sized> QueueWords for &W {
    type Error = W::Error;

    fn pushed(&self) -> impl Word<Error = W::Error> {
        (**self).pushed()
    }

    fn popped(&self) -> impl Word<Error = W::Error> {
        (**self).popped()
    }

    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn entry(&self, cell: u64) -> Result<u32, W::Error> {
        (**self).entry(cell)
    }

    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), W::Error> {
        (**self).set_entry(cell, entry)
    }
}

/// A queue in this side's memory.
#[derive(Clone, Copy, Debug)]
pub struct QueueCells<'m> {
    /// Entries ever pushed.
    pub pushed: &'m SharedU64,
    /// Entries ever popped.
    pub popped: &'m SharedU64,
    /// The cells; one entry fits in each. Not empty.
    pub cells: &'m [SharedU32],
}

impl QueueWords for QueueCells<'_> {
    type Error = Infallible;

    #[inline]
    fn pushed(&self) -> impl Word<Error = Infallible> {
        self.pushed
    }

    #[inline]
    fn popped(&self) -> impl Word<Error = Infallible> {
        self.popped
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.cells.len() as u64
    }

    #[inline]
    fn entry(&self, cell: u64) -> Result<u32, Infallible> {
        Ok(self.cell(cell).get())
    }

    #[inline]
    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), Infallible> {
        self.cell(cell).set(entry);
        Ok(())
    }
}

impl<'m> QueueCells<'m> {
    #[inline]
    fn cell(&self, cell: u64) -> &'m SharedU32 {
        #[expect(clippy::cast_possible_truncation, reason = "below the length of a slice, or it panics")]
        let index = cell as usize;
        &self.cells[index]
    }
}

/// Why an entry was not pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError<E> {
    /// Every cell is in use.
    #[error("the queue is full: wait until the consumer has popped")]
    Full,
    /// The consumer's count is impossible.
    #[error(transparent)]
    Damaged(#[from] CursorError),
    /// The queue cannot be reached.
    #[error(transparent)]
    Unreachable(E),
}

impl<E> From<ReadError<E>> for PushError<E> {
    fn from(error: ReadError<E>) -> Self {
        match error {
            ReadError::Damaged(error) => PushError::Damaged(error),
            ReadError::Unreachable(error) => PushError::Unreachable(error),
        }
    }
}

/// The side that pushes.
#[derive(Debug)]
pub struct Producer<W, O = ProvenOrderings> {
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
    pub(crate) fn with_orderings(words: W, pushed: u64, popped: u64) -> Self {
        Self { words, pushed, popped: Follower::new(popped), orderings: PhantomData }
    }

    /// Appends an entry. The caller's earlier writes are visible to the consumer that peeks it.
    ///
    /// # Errors
    /// [`PushError::Full`] if no cell is free, [`PushError::Damaged`] if the consumer's count is
    /// impossible, and [`PushError::Unreachable`] if the queue cannot be reached.
    pub fn push(&mut self, value: u32) -> Result<(), PushError<W::Error>> {
        if !self.has_room()? {
            return Err(PushError::Full);
        }
        self.push_to_room(value).map_err(PushError::Unreachable)
    }

    /// Appends an entry to a queue that has a free cell. The caller must know from other state that a cell
    /// is free and that the consumer has read the data of the entry popped from it. No word of the other
    /// side can then delay the entry.
    ///
    /// # Errors
    /// If the queue cannot be reached.
    pub fn push_to_room(&mut self, value: u32) -> Result<(), W::Error> {
        let cell = self.pushed % self.words.capacity();
        self.words.set_entry(cell, value)?;
        // Pairs with the load in `Consumer::waiting`: publishes the entry and the caller's earlier writes.
        self.words.pushed().store(self.pushed + 1, O::PUSH)?;
        self.pushed += 1;
        Ok(())
    }

    /// Whether an entry could be pushed. If so, the consumer has read the data of the entry that was popped
    /// from that cell.
    ///
    /// # Errors
    /// If the consumer's count is impossible or cannot be reached.
    pub fn has_room(&mut self) -> Result<bool, ReadError<W::Error>> {
        let capacity = self.words.capacity();
        if self.pushed - self.popped.seen() < capacity {
            return Ok(true);
        }
        // Pairs with the store in `Consumer::pop`: the consumer has read the entry and its data.
        let popped = self.words.popped().load(O::SEE_POPPED).map_err(ReadError::Unreachable)?;
        let popped = self.popped.follow(popped, self.pushed)?;
        Ok(self.pushed - popped < capacity)
    }

    /// Number of entries ever pushed.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Stores this side's count again, in case another writer has overwritten it.
    ///
    /// # Errors
    /// If the queue cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.words.pushed().store(self.pushed, O::PUSH)
    }
}

/// The side that pops.
#[derive(Debug)]
pub struct Consumer<W, O = ProvenOrderings> {
    words: W,
    popped: u64,
    pushed: Follower,
    orderings: PhantomData<fn() -> O>,
}

impl<W: QueueWords> Consumer<W> {
    /// Takes the consuming half of a queue that started with these counts. Entries that were pushed before
    /// are included.
    pub fn new(words: W, pushed: u64, popped: u64) -> Self {
        Self::with_orderings(words, pushed, popped)
    }
}

impl<W: QueueWords, O: SpscOrderings> Consumer<W, O> {
    pub(crate) fn with_orderings(words: W, pushed: u64, popped: u64) -> Self {
        Self { words, popped, pushed: Follower::new(pushed), orderings: PhantomData }
    }

    /// The oldest entry, which stays in the queue. Its producer's earlier writes are visible.
    ///
    /// # Errors
    /// If the producer's count is impossible or the queue cannot be reached.
    pub fn peek(&mut self) -> Result<Option<u32>, ReadError<W::Error>> {
        if self.pushed.seen() == self.popped && self.waiting()? == 0 {
            return Ok(None);
        }
        let cell = self.popped % self.words.capacity();
        self.words.entry(cell).map(Some).map_err(ReadError::Unreachable)
    }

    /// Removes the entry that [`peek`](Self::peek) returned. Call it after the last read of the entry's
    /// data.
    ///
    /// # Errors
    /// If the queue cannot be reached.
    pub fn pop(&mut self) -> Result<(), W::Error> {
        debug_assert!(self.pushed.seen() > self.popped, "pop without an entry: peek must return one first");
        // Pairs with the load in `Producer::has_room`: the producer may overwrite the entry and its data.
        self.words.popped().store(self.popped + 1, O::POP)?;
        self.popped += 1;
        Ok(())
    }

    /// Removes and returns the oldest entry.
    ///
    /// # Errors
    /// Those of [`peek`](Self::peek).
    pub fn take(&mut self) -> Result<Option<u32>, ReadError<W::Error>> {
        let value = self.peek()?;
        if value.is_some() {
            self.pop().map_err(ReadError::Unreachable)?;
        }
        Ok(value)
    }

    /// Number of waiting entries. Reads the producer's count.
    ///
    /// # Errors
    /// If that count is impossible or cannot be reached.
    pub fn waiting(&mut self) -> Result<u64, ReadError<W::Error>> {
        let most = self.popped.saturating_add(self.words.capacity());
        // Pairs with the store in `Producer::push`: the entries are visible.
        let pushed = self.words.pushed().load(O::SEE_PUSHED).map_err(ReadError::Unreachable)?;
        Ok(self.pushed.follow(pushed, most)? - self.popped)
    }

    /// Number of entries ever popped.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// Forgets the last known value of the producer's count, which a damaged word may have moved.
    pub fn forget_seen(&mut self) {
        self.pushed = Follower::new(self.popped);
    }

    /// Stores this side's count again, in case another writer has overwritten it.
    ///
    /// # Errors
    /// If the queue cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.words.popped().store(self.popped, O::POP)
    }
}
