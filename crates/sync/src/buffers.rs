//! Record buffers going round between a producer and a consumer: free, filled, read, free again.
//!
//! The producer takes a number from the free queue, [begins](Filler::begin) the buffer and makes its records visible one
//! by one; when it is full it hands the number over through the ready queue. The consumer takes committed records of
//! the buffer at any time, before it was handed over too, and gives it back once it has all of them and the producer
//! has let go.
//!
//! Buffers are given back in the order in which they were filled. Number `n` of the free queue is therefore always
//! buffer `n % buffers`, and the consumer knows which comes next without being told: what the producer says is only
//! checked against that. Each queue has room for every buffer, so a push never waits.
//!
//! The header of a buffer may be read once one of two words has said that it is written: the ready queue holds the
//! buffer, or `current` names it. The producer names no buffer before it hands one over, so that a name left over from
//! the last filling is never seen once the buffer was given back.
//!
//! The two halves are [`Filler`] and [`Drainer`]; [`arena`](crate::arena) is about the payloads beside the records.

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
use crate::orderings::{CommitOrderings, Proven, SpscOrderings};
use crate::spsc::{Consumer, Producer, PushError, QueueWords};

/// Where the words of a lane's buffers lie, and how one side reaches them.
pub trait BufferWords {
    /// Why a word cannot be reached.
    type Error;
    /// One of the words.
    type Word: Word<Error = Self::Error>;
    /// One of the queues, with room for every buffer.
    type Queue: QueueWords<Error = Self::Error>;

    /// Numbers that may be filled. All of them at first, in order.
    fn free(&self) -> Self::Queue;
    /// Numbers that are full. None at first.
    fn ready(&self) -> Self::Queue;
    /// Which buffer is being filled; zero at first.
    fn current(&self) -> Self::Word;
    /// How many records of a buffer may be read.
    fn committed(&self, number: u32) -> Self::Word;
    /// How many buffers there are, at least one.
    fn buffers(&self) -> u32;
    /// How many records a buffer has, at least one.
    fn records(&self) -> u32;
}

/// What both halves need of the memory orderings.
pub trait BufferOrderings: SpscOrderings + CommitOrderings {}
impl<O: SpscOrderings + CommitOrderings> BufferOrderings for O {}

/// The producer's half. It has the buffers in memory.
#[derive(Debug)]
pub struct Filler<W: BufferWords, O = Proven> {
    words: W,
    free: Consumer<W::Queue, O>,
    ready: Producer<W::Queue, O>,
    current: Current<W::Word, O>,
    filling: Option<Filling<W::Word, O>>,
}

#[derive(Debug)]
struct Filling<W, O> {
    number: u32,
    publisher: Publisher<W, O>,
}

impl<W: BufferWords<Error = Infallible>> Filler<W> {
    /// Takes the producing half, and goes on where its last holder left off; if there was none, all buffers are free.
    pub fn new(words: W) -> Self {
        Self::with_orderings(words)
    }
}

impl<W: BufferWords<Error = Infallible>, O: BufferOrderings> Filler<W, O> {
    fn with_orderings(words: W) -> Self {
        // Relaxed: who had this half before has handed it over, or there was nobody.
        let Ok(popped) = words.free().popped().load(Ordering::Relaxed);
        let Ok(pushed) = words.ready().pushed().load(Ordering::Relaxed);
        let buffers = u64::from(words.buffers());
        Self {
            // Of the other half's counts as much as must be so: it is looked at when that does not suffice.
            free: Consumer::with_orderings(words.free(), popped.max(buffers), popped),
            ready: Producer::with_orderings(words.ready(), pushed, pushed.saturating_sub(buffers)),
            current: Current::with_orderings(words.current()),
            filling: left_unfilled(&words),
            words,
        }
    }

    /// Records of the buffer being filled that are visible.
    pub fn published(&self) -> u64 {
        self.filling.as_ref().map_or(0, |filling| filling.publisher.count())
    }

    /// Takes the next free buffer and lets the caller write its header; false when there is none now. To be called
    /// when none is being filled.
    ///
    /// Which buffer it is follows from how many were taken, whatever the queue's cell says; a damaged count gives nothing
    /// more.
    pub fn begin(&mut self, write_header: impl FnOnce(u32)) -> bool {
        debug_assert!(self.filling.is_none(), "a buffer is being filled: hand it over first");
        let Some(number) = self.take_free() else { return false };
        write_header(number);
        let publisher = Publisher::with_orderings(self.words.committed(number));
        self.current.open(number);
        self.filling = Some(Filling { number, publisher });
        true
    }

    /// The buffer being filled.
    pub fn filling(&self) -> Option<u32> {
        self.filling.as_ref().map(|filling| filling.number)
    }

    /// Makes the next record of the buffer being filled visible, after the last write to it and to its payload. A
    /// buffer that is full with it is handed over; whether that was so.
    ///
    /// # Panics
    /// When no buffer is being filled.
    pub fn publish(&mut self) -> bool {
        let filling = self.filling.as_mut().expect("a record is committed to the buffer being filled");
        let full = filling.publisher.publish() == u64::from(self.words.records());
        if full {
            self.hand_over();
        }
        full
    }

    /// Free buffers that wait, not counting the one being filled.
    pub fn free(&mut self) -> u64 {
        self.free.waiting().unwrap_or(0)
    }

    /// Stores all of this side's words again. Somebody may have written over them, and a consumer that waits for one of
    /// them to change would wait for ever. To be called while this side waits itself.
    pub fn restate(&self) {
        if let Some(Filling { number, publisher }) = &self.filling {
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
        // It has room for every buffer; and the other side took this one's last number off before it gave the buffer back.
        let Ok(()) = self.ready.push_to_room(filling.number);
    }
}

/// The buffer that the last holder was filling.
fn left_unfilled<W: BufferWords<Error = Infallible>, O: BufferOrderings>(
    words: &W,
) -> Option<Filling<W::Word, O>> {
    let Ok(current) = words.current().load(Ordering::Relaxed);
    let number = u32::try_from(current.checked_sub(1)?).ok().filter(|&number| number < words.buffers())?;
    let committed = words.committed(number);
    let Ok(count) = committed.load(Ordering::Relaxed);
    let publisher = Publisher::go_on(committed, count);
    (count < u64::from(words.records())).then_some(Filling { number, publisher })
}

/// What the other half's words say and cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The count of the ready queue.
    #[error("ready queue: {0}")]
    Ready(CursorError),
    /// The producer's count of the free queue.
    #[error("free queue: {0}")]
    Free(CursorError),
    /// The producer has handed over a buffer that it has not taken.
    #[error("free queue: a buffer came back that was never taken")]
    NeverTaken,
    /// The count of committed records.
    #[error("count of committed records: {0}")]
    Committed(CursorError),
    /// The ready queue holds another buffer than the one that is due.
    #[error("ready queue: it holds buffer {found} where {due} is due")]
    Entry {
        /// Buffer in the queue.
        found: u32,
        /// Buffer that is due.
        due: u32,
    },
}

/// Why the consumer's half cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DrainError<E> {
    /// The words are damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// They cannot be reached.
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

/// Records of one buffer that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The buffer.
    pub number: u32,
    /// Their places in it. Not empty.
    pub places: Range<u64>,
}

/// The consumer's half. It may reach the words by copies alone.
#[derive(Debug)]
pub struct Drainer<W: BufferWords, O = Proven> {
    words: W,
    free: Producer<W::Queue, O>,
    ready: Consumer<W::Queue, O>,
    in_hand: Option<InHand<W::Word, O>>,
}

#[derive(Debug)]
struct InHand<W, O> {
    number: u32,
    records: Observer<W, O>,
}

impl<W: BufferWords> Drainer<W> {
    /// Takes the consuming half of buffers that were all free when the producer began.
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

    /// Takes up the buffer that is due, when none is in hand and its header may be read now. Gives its number then; the
    /// header is for the caller to read, and to check.
    ///
    /// # Errors
    /// When the words are damaged or cannot be reached.
    pub fn open(&mut self) -> Result<Option<u32>, DrainError<W::Error>> {
        if self.in_hand.is_some() {
            return Ok(None);
        }
        let number = self.due();
        // Not yet begun, or the producer went on between the two looks: the next look finds it in the queue.
        if !self.is_handed_over()? && self.named()? != Some(u64::from(number)) {
            return Ok(None);
        }
        let records = Observer::with_orderings(self.words.committed(number), self.words.records().into());
        self.in_hand = Some(InHand { number, records });
        Ok(Some(number))
    }

    /// Takes records of the buffer in hand, at most so many. They and their payloads may be read by calls that follow.
    ///
    /// # Errors
    /// When the count is damaged or cannot be reached.
    pub fn poll(&mut self, most: u64) -> Result<Option<Taken>, DrainError<W::Error>> {
        let Some(InHand { number, records }) = &mut self.in_hand else { return Ok(None) };
        let places = records.poll(most).map_err(|error| DrainError::of(error, Damage::Committed))?;
        Ok((!places.is_empty()).then_some(Taken { number: *number, places }))
    }

    /// Gives the buffer in hand back when all its records were taken, and read, and the producer has let go of it;
    /// whether it did.
    ///
    /// # Errors
    /// When the words are damaged or cannot be reached.
    pub fn give_back(&mut self) -> Result<bool, DrainError<W::Error>> {
        let is_taken = self.in_hand.as_ref().is_some_and(|in_hand| in_hand.records.is_taken());
        if !is_taken || !self.is_handed_over()? {
            return Ok(false);
        }
        self.in_hand = None;
        self.pass_on()?;
        Ok(true)
    }

    /// Gives every buffer back that was handed over, whatever the queue says they are, without reading them. For
    /// words that can be followed no more, so that the producer does not wait for ever.
    ///
    /// # Errors
    /// When not even the counts make sense, or the words cannot be reached.
    pub fn give_back_unread(&mut self) -> Result<(), DrainError<W::Error>> {
        self.in_hand = None;
        self.ready.forget_seen();
        let waiting = self.ready.waiting().map_err(|error| DrainError::of(error, Damage::Ready))?;
        for _ in 0..waiting {
            self.pass_on()?;
        }
        Ok(())
    }

    /// Stores this side's counts again. The entries of the free queue never change once they were set up.
    ///
    /// # Errors
    /// When the words cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.free.restate()?;
        self.ready.restate()
    }

    /// Pops the ready queue and pushes the same buffer to the free queue; neither when the latter is damaged, so that
    /// no buffer is lost between the two.
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

/// Which buffer is the one taken, filled and given back after so many others.
fn nth(others: u64, buffers: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a u32")]
    let number = (others % u64::from(buffers)) as u32;
    number
}
