//! The task that each thread is inside of, for all libraries that record the thread.
//!
//! A program opens a task that contains others, through one library. A launch that the same thread makes
//! inside of it is recorded by another library, which has nothing in common with the first one but the
//! memory of the dump. That memory has places, each for one thread: the number of the thread, and its
//! innermost open task.
//!
//! A thread takes a free place when it opens its first task, and gives it back when it closes the last one.
//! Only the thread itself takes, looks up and gives back its place, through whichever library runs in it.
//! While it has the place, its accesses are in program order, and no access publishes other memory. Only two
//! threads that take the same free place compete, and an exchange decides. Taking a place synchronizes with
//! giving it back: otherwise the last write of the previous owner could replace the first of the new one.
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::enclosure::{EnclosureCells, Enclosures};
//!
//! let used = SharedU64::new(0);
//! let places: [[SharedU64; 2]; 3] = Default::default();
//! let cells = |place: usize| places.get(place).map(|[thread, task]| EnclosureCells { thread, task });
//! let enclosures = Enclosures::new(&used, cells);
//! assert_eq!(enclosures.enclosing(7), 0);
//! assert_eq!(enclosures.enter(7, 100), Some(0));
//! assert_eq!(enclosures.enter(7, 101), Some(100), "inside of task 100");
//! assert_eq!((enclosures.enclosing(7), enclosures.enclosing(8)), (101, 0));
//! enclosures.leave(7, 101, 100);
//! assert_eq!(enclosures.enclosing(7), 100);
//! enclosures.leave(7, 100, 0);
//! assert_eq!((enclosures.enclosing(7), enclosures.enter(8, 5)), (0, Some(0)));
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::SharedU64;
use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::orderings::{EnclosureOrderings, ProvenOrderings};

/// The two words of one place.
#[derive(Clone, Copy, Debug)]
pub struct EnclosureCells<'m> {
    /// The thread that has the place; 0 if it is free.
    pub thread: &'m SharedU64,
    /// Its innermost open task; 0 for none.
    pub task: &'m SharedU64,
}

/// The places of all threads of a process.
#[derive(Clone, Copy, Debug)]
pub struct Enclosures<'m, F, O = ProvenOrderings> {
    /// Number of places up to the last one that was ever taken. While it is 0, a lookup reads nothing else.
    used: &'m SharedU64,
    place: F,
    orderings: PhantomData<fn() -> O>,
}

impl<'m, F: Fn(usize) -> Option<EnclosureCells<'m>>> Enclosures<'m, F> {
    /// The places that `place` returns by their position, from 0 until it returns `None`.
    pub fn new(used: &'m SharedU64, place: F) -> Self {
        Self::with_orderings(used, place)
    }
}

impl<'m, F: Fn(usize) -> Option<EnclosureCells<'m>>, O: EnclosureOrderings> Enclosures<'m, F, O> {
    fn with_orderings(used: &'m SharedU64, place: F) -> Self {
        Self { used, place, orderings: PhantomData }
    }

    /// The innermost open task of a thread; 0 for none. The caller runs in this thread.
    #[inline]
    pub fn enclosing(&self, thread: u64) -> u64 {
        if self.is_unused() { 0 } else { self.find(thread).map_or(0, |cells| cells.task.get()) }
    }

    /// Whether no thread has ever opened a task.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.used.get() == 0
    }

    /// Notes that a thread opened a task, and returns the task around it; 0 for none. `None` if every place is
    /// taken by another thread: the task is then not noted. The caller runs in this thread.
    pub fn enter(&self, thread: u64, task: u64) -> Option<u64> {
        let cells = match self.find(thread) {
            Some(cells) => cells,
            None => self.take(thread)?,
        };
        let around = cells.task.get();
        cells.task.set(task);
        Some(around)
    }

    /// Notes that the innermost open task of a thread was closed. `around` is the task around it; 0 for none.
    /// The caller runs in this thread. Without effect if another task is the innermost one.
    pub fn leave(&self, thread: u64, task: u64, around: u64) {
        let Some(cells) = self.find(thread).filter(|cells| cells.task.get() == task) else { return };
        cells.task.set(around);
        if around == 0 {
            cells.thread.raw().store(0, O::FREE);
        }
    }

    /// As [`leave`](Self::leave), in another thread. The thread keeps its place.
    pub fn leave_from_outside(&self, thread: u64, task: u64, around: u64) {
        if let Some(cells) = self.find(thread) {
            // Without effect if the thread itself has opened or closed a task meanwhile.
            let _ = cells.task.raw().compare_exchange(task, around, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn find(&self, thread: u64) -> Option<EnclosureCells<'m>> {
        let used = usize::try_from(self.used.get()).unwrap_or(usize::MAX);
        (0..used).map_while(&self.place).find(|cells| cells.thread.get() == thread)
    }

    fn take(&self, thread: u64) -> Option<EnclosureCells<'m>> {
        let take = |cells: &EnclosureCells<'m>| {
            // Two threads may find the same place free.
            let taken = cells.thread.raw().compare_exchange(0, thread, O::TAKE, Ordering::Relaxed);
            taken.is_ok()
        };
        let mut places = (0..).map_while(&self.place).enumerate();
        let (at, cells) = places.find(|(_, cells)| take(cells))?;
        cells.task.set(0);
        self.used.raise_to(at as u64 + 1);
        Some(cells)
    }
}
