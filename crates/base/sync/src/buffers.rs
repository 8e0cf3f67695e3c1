//! Record buffers that circulate between a producer and a consumer: free, filled, read, free again.
//!
//! The producer takes a buffer number from the free queue, [begins](Filler::begin) that buffer and makes
//! its records visible one by one. When the buffer is full, the producer hands its number over through the
//! ready queue. The consumer may take committed records at any time, even before the handover. It returns
//! the buffer once it has taken all records and the producer has handed the buffer over.
//!
//! Buffers are returned in the order in which they were filled. Entry `n` of the free queue is therefore
//! always buffer `n % buffers`, and the consumer knows the next buffer in advance: it only checks the
//! producer's words against that. Each queue has room for every buffer, so a push never waits.
//!
//! The consumer may read the header of a buffer once one of two words shows that it is written: the ready
//! queue holds the buffer, or `current` names it. The producer clears `current` before it hands a buffer
//! over. A stale name is therefore never visible after the buffer was returned.
//!
//! The two halves are [`Filler`] and [`Drainer`]. [`arena`](crate::arena) carries the payloads.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::ops::Range;

use crate::Word;
use crate::atomic::Ordering;
use crate::commit::{Current, Observer, Publisher, current_with};
use crate::cursor::{CursorError, ReadError};
use crate::orderings::{CommitOrderings, ProvenOrderings, SpscOrderings};
use crate::spsc::{Consumer, Producer, PushError, QueueWords};

/// The words of a lane's buffers, and how one side reaches them.
pub trait BufferWords {
    /// Why a word cannot be reached.
    type Error;
    /// A reference to one of the words.
    type Word: Word<Error = Self::Error>;
    /// One of the queues, with room for every buffer.
    type Queue: QueueWords<Error = Self::Error>;

    /// Numbers of buffers that may be filled. At first it holds all of them, in order.
    fn free(&self) -> Self::Queue;
    /// Numbers of full buffers. Empty at first.
    fn ready(&self) -> Self::Queue;
    /// The buffer being filled; zero at first.
    fn current(&self) -> Self::Word;
    /// How many records of a buffer may be read.
    fn committed(&self, number: u32) -> Self::Word;
    /// How many buffers there are, at least one.
    fn buffers(&self) -> u32;
    /// How many records a buffer has, at least one.
    fn records(&self) -> u32;
}

/// The memory orderings that both halves need.
pub trait BufferOrderings: SpscOrderings + CommitOrderings {}
impl<O: SpscOrderings + CommitOrderings> BufferOrderings for O {}

/// The producer's half. The buffers are in its memory.
#[derive(Debug)]
pub struct Filler<W: BufferWords, O = ProvenOrderings> {
    words: W,
    free: Consumer<W::Queue, O>,
    ready: Producer<W::Queue, O>,
    current: Current<W::Word, O>,
    filling: Option<FillingBuffer<W::Word, O>>,
}

#[derive(Debug)]
struct FillingBuffer<W, O> {
    number: u32,
    publisher: Publisher<W, O>,
}

impl<W: BufferWords<Error = Infallible>> Filler<W> {
    /// Takes the producing half and continues where its last holder stopped. If there was none, all buffers
    /// are free.
    pub fn new(words: W) -> Self {
        Self::with_orderings(words)
    }
}

impl<W: BufferWords<Error = Infallible>, O: BufferOrderings> Filler<W, O> {
    fn with_orderings(words: W) -> Self {
        // Relaxed: the previous holder of this half, if any, handed it over with its own synchronization.
        let Ok(popped) = words.free().popped().load(Ordering::Relaxed);
        let Ok(pushed) = words.ready().pushed().load(Ordering::Relaxed);
        let buffers = u64::from(words.buffers());
        Self {
            // Assumes the least that the other half's counts must be. The words themselves are read only
            // when that is not enough.
            free: Consumer::with_orderings(words.free(), popped.max(buffers), popped),
            ready: Producer::with_orderings(words.ready(), pushed, pushed.saturating_sub(buffers)),
            current: Current::with_orderings(words.current()),
            filling: left_unfilled(&words),
            words,
        }
    }

    /// Number of visible records in the buffer being filled.
    pub fn published(&self) -> u64 {
        self.filling.as_ref().map_or(0, |filling| filling.publisher.count())
    }

    /// Takes the next free buffer and lets the caller write its header. Returns false if no buffer is free
    /// now. Call it only while no buffer is being filled.
    ///
    /// The buffer number follows from how many buffers were taken, whatever value the queue's cell has. A
    /// damaged count yields no more buffers.
    pub fn begin(&mut self, write_header: impl FnOnce(u32)) -> bool {
        debug_assert!(self.filling.is_none(), "a buffer is still being filled: hand it over first");
        let Some(number) = self.take_free() else { return false };
        write_header(number);
        let publisher = Publisher::with_orderings(self.words.committed(number));
        self.current.open(number);
        self.filling = Some(FillingBuffer { number, publisher });
        true
    }

    /// Number of the buffer being filled.
    pub fn filling(&self) -> Option<u32> {
        self.filling.as_ref().map(|filling| filling.number)
    }

    /// Makes the next record of the buffer being filled visible. Call it after the last write to the record
    /// and its payload. Hands a full buffer over and returns whether it did.
    ///
    /// # Panics
    /// If no buffer is being filled.
    pub fn publish(&mut self) -> bool {
        let filling = self.filling.as_mut().expect("a record is committed to the buffer being filled");
        let full = filling.publisher.publish() == u64::from(self.words.records());
        if full {
            self.hand_over();
        }
        full
    }

    /// Number of free buffers, without the one being filled.
    pub fn free(&mut self) -> u64 {
        self.free.waiting().unwrap_or(0)
    }

    /// Stores all words of this side again. A stray write may have changed them, and a consumer that waits
    /// for one of them would wait forever. Call it while this side itself waits.
    pub fn restate(&self) {
        if let Some(FillingBuffer { number, publisher }) = &self.filling {
            publisher.restate();
            self.current.restate(*number);
        }
        let Ok(()) = self.free.restate();
        let Ok(()) = self.ready.restate();
    }

    fn take_free(&mut self) -> Option<u32> {
        let number = nth(self.free.popped(), self.words.buffers());
        self.free.take().ok()??;
        Some(number)
    }

    fn hand_over(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        self.current.close();
        // The queue has room for every buffer, and the consumer took the last number off before it returned
        // the buffer.
        let Ok(()) = self.ready.push_to_room(filling.number);
    }
}

/// The buffer that the last holder was filling.
fn left_unfilled<W: BufferWords<Error = Infallible>, O: BufferOrderings>(
    words: &W,
) -> Option<FillingBuffer<W::Word, O>> {
    let Ok(current) = words.current().load(Ordering::Relaxed);
    let number = u32::try_from(current.checked_sub(1)?).ok().filter(|&number| number < words.buffers())?;
    let committed = words.committed(number);
    let Ok(count) = committed.load(Ordering::Relaxed);
    let publisher = Publisher::go_on(committed, count);
    (count < u64::from(words.records())).then_some(FillingBuffer { number, publisher })
}

/// What is wrong with the other half's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The count of the ready queue.
    #[error("ready queue: {0}")]
    Ready(CursorError),
    /// The producer's count of the free queue.
    #[error("free queue: {0}")]
    Free(CursorError),
    /// The producer handed over a buffer that it never took.
    #[error("free queue: the producer returned a buffer that it never took")]
    NeverTaken,
    /// The count of committed records.
    #[error("count of committed records: {0}")]
    Committed(CursorError),
    /// The ready queue holds a different buffer than the one that is due.
    #[error("ready queue: found buffer {found}, expected {due}")]
    Entry {
        /// Buffer number in the queue.
        found: u32,
        /// Buffer number that is due.
        due: u32,
    },
}

/// Why the consumer's half cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DrainError<E> {
    /// The words are damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The words cannot be reached.
    #[error(transparent)]
    Unreachable(E),
}

impl<E> DrainError<E> {
    fn of(error: ReadError<E>, damage: fn(CursorError) -> Damage) -> Self {
        match error {
            ReadError::Damaged(error) => DrainError::Damaged(damage(error)),
            ReadError::Unreachable(error) => DrainError::Unreachable(error),
        }
    }
}

/// Records of one buffer that may now be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRange {
    /// Number of the buffer.
    pub number: u32,
    /// Positions of the records in the buffer. Never empty.
    pub places: Range<u64>,
}

/// The consumer's half. It may reach the words through copies only.
#[derive(Debug)]
pub struct Drainer<W: BufferWords, O = ProvenOrderings> {
    words: W,
    free: Producer<W::Queue, O>,
    ready: Consumer<W::Queue, O>,
    in_hand: Option<OpenBuffer<W::Word, O>>,
}

#[derive(Debug)]
struct OpenBuffer<W, O> {
    number: u32,
    records: Observer<W, O>,
}

impl<W: BufferWords> Drainer<W> {
    /// Takes the consuming half of buffers that were all free when the producer started.
    pub fn new(words: W) -> Self {
        Self::with_orderings(words)
    }
}

impl<W: BufferWords, O: BufferOrderings> Drainer<W, O> {
    fn with_orderings(words: W) -> Self {
        Self {
            free: Producer::with_orderings(words.free(), words.buffers().into(), 0),
            ready: Consumer::with_orderings(words.ready(), 0, 0),
            words,
            in_hand: None,
        }
    }

    /// Opens the due buffer if none is open and its header may be read now. Returns its number. The caller
    /// must read and check the header.
    ///
    /// # Errors
    /// If the words are damaged or cannot be reached.
    pub fn open(&mut self) -> Result<Option<u32>, DrainError<W::Error>> {
        if self.in_hand.is_some() {
            return Ok(None);
        }
        let number = self.due();
        // Not begun yet, or the producer handed it over between the two reads. In that case the next call
        // finds it in the queue.
        if !self.is_handed_over()? && self.named()? != Some(u64::from(number)) {
            return Ok(None);
        }
        let records = Observer::with_orderings(self.words.committed(number), self.words.records().into());
        self.in_hand = Some(OpenBuffer { number, records });
        Ok(Some(number))
    }

    /// Takes at most `most` records of the open buffer. The caller may read them and their payloads
    /// afterwards.
    ///
    /// # Errors
    /// If the count is damaged or cannot be reached.
    pub fn poll(&mut self, most: u64) -> Result<Option<RecordRange>, DrainError<W::Error>> {
        let Some(OpenBuffer { number, records }) = &mut self.in_hand else { return Ok(None) };
        let places = records.poll(most).map_err(|error| DrainError::of(error, Damage::Committed))?;
        Ok((!places.is_empty()).then_some(RecordRange { number: *number, places }))
    }

    /// Returns the open buffer if all its records were taken and read and the producer has handed it over.
    /// Returns whether it did.
    ///
    /// # Errors
    /// If the words are damaged or cannot be reached.
    pub fn give_back(&mut self) -> Result<bool, DrainError<W::Error>> {
        let is_taken = self.in_hand.as_ref().is_some_and(|in_hand| in_hand.records.is_taken());
        if !is_taken || !self.is_handed_over()? {
            return Ok(false);
        }
        self.in_hand = None;
        self.pass_on()?;
        Ok(true)
    }

    /// Returns every buffer that was handed over, without reading it and whatever number the queue holds.
    /// For a lane that can no longer be followed, so that the producer does not wait forever.
    ///
    /// # Errors
    /// If the counts are impossible or the words cannot be reached.
    pub fn give_back_unread(&mut self) -> Result<(), DrainError<W::Error>> {
        self.in_hand = None;
        self.ready.forget_seen();
        let waiting = self.ready.waiting().map_err(|error| DrainError::of(error, Damage::Ready))?;
        for _ in 0..waiting {
            self.pass_on()?;
        }
        Ok(())
    }

    /// Stores this side's counts again. The entries of the free queue never change after setup.
    ///
    /// # Errors
    /// If the words cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.free.restate()?;
        self.ready.restate()
    }

    /// Pops the ready queue and pushes the same buffer to the free queue. Does neither if the free queue is
    /// damaged, so that no buffer is lost between the two.
    fn pass_on(&mut self) -> Result<(), DrainError<W::Error>> {
        let number = self.due();
        if !self.free.has_room().map_err(|error| DrainError::of(error, Damage::Free))? {
            return Err(Damage::NeverTaken.into());
        }
        self.ready.pop().map_err(DrainError::Unreachable)?;
        self.free.push(number).map_err(|error| match error {
            PushError::Full => DrainError::Damaged(Damage::NeverTaken),
            PushError::Damaged(error) => DrainError::Damaged(Damage::Free(error)),
            PushError::Unreachable(error) => DrainError::Unreachable(error),
        })
    }

    /// Whether the ready queue holds the buffer that is due.
    fn is_handed_over(&mut self) -> Result<bool, DrainError<W::Error>> {
        let due = self.due();
        match self.ready.peek().map_err(|error| DrainError::of(error, Damage::Ready))? {
            None => Ok(false),
            Some(found) if found == due => Ok(true),
            Some(found) => Err(Damage::Entry { found, due }.into()),
        }
    }

    fn named(&self) -> Result<Option<u64>, DrainError<W::Error>> {
        current_with::<O, _>(self.words.current()).map_err(DrainError::Unreachable)
    }

    fn due(&self) -> u32 {
        nth(self.ready.popped(), self.words.buffers())
    }
}

/// The buffer that is taken, filled and returned after `others` others.
fn nth(others: u64, buffers: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a u32")]
    let number = (others % u64::from(buffers)) as u32;
    number
}
