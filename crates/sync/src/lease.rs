//! Lanes that threads lease and return.
//!
//! Any thread may record, and there may be more of them over time than there are lanes. Each lane has a word that
//! counts how often it changed hands: even while it is free, odd while a thread has it. A thread takes a free lane by
//! counting it up, uses what lies behind it alone, and returns it by counting it up again; the next one sees all that
//! it left there. A host that watches the word knows which lanes were ever used, and which are at rest.
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::lease::{Lease, Tenancy, Watcher};
//!
//! let lanes = [SharedU64::new(0), SharedU64::new(0)];
//! let mut host = Watcher::new(&lanes[0]);
//! assert_eq!(host.look(), Ok(Tenancy::Never));
//! let (first, lease) = Lease::take_first(&lanes).unwrap();
//! let (second, _) = Lease::take_first(&lanes).unwrap();
//! assert_eq!((first, second, Lease::take_first(&lanes).is_none()), (0, 1, true));
//! assert_eq!(host.look(), Ok(Tenancy::Leased));
//! lease.give_back();
//! assert_eq!(host.look(), Ok(Tenancy::Returned));
//! let (again, lease) = Lease::take_first(&lanes).unwrap();
//! assert_eq!((again, lease.earlier()), (0, 1));
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::cursor::{Follower, ReadError};
use crate::orderings::{LeaseOrderings, Proven};
use crate::{SharedU64, Word};

/// A lane that the holder has to itself. Dropping it without [`give_back`](Self::give_back) keeps the lane for good.
#[derive(Debug)]
#[must_use = "a lease that is dropped is never returned"]
pub struct Lease<'w, O = Proven> {
    word: &'w SharedU64,
    count: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<'w> Lease<'w> {
    /// Takes the lane behind `word` if it is free. What its last holder left there is visible.
    pub fn take(word: &'w SharedU64) -> Option<Self> {
        Self::take_with(word)
    }

    /// Takes the first lane that is free, and tells which. Looks at each once: one that is returned meanwhile may be
    /// missed.
    pub fn take_first(words: impl IntoIterator<Item = &'w SharedU64>) -> Option<(usize, Self)> {
        words.into_iter().enumerate().find_map(|(place, word)| Some((place, Self::take(word)?)))
    }
}

impl<'w, O: LeaseOrderings> Lease<'w, O> {
    pub(crate) fn take_with(word: &'w SharedU64) -> Option<Self> {
        let free = word.get();
        if is_leased(free) {
            return None;
        }
        let count = free.checked_add(1)?;
        // Pairs with the store in `give_back`: what the last holder left is visible. Whoever loses goes elsewhere.
        word.raw().compare_exchange(free, count, O::TAKE, Ordering::Relaxed).ok()?;
        Some(Self { word, count, orderings: PhantomData })
    }

    /// How often the lane was leased before.
    pub fn earlier(&self) -> u64 {
        self.count / 2
    }

    /// Returns the lane, after the last use of what lies behind it.
    pub fn give_back(self) {
        // Pairs with the exchange in `take` and the load in `Watcher::look`. Never past the last number: a count that
        // cannot go up is never leased.
        self.word.raw().store(self.count.saturating_add(1), O::GIVE_BACK);
    }
}

/// Who has a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Nobody so far.
    Never,
    /// A thread.
    Leased,
    /// Nobody any more. What the last holder left is visible.
    Returned,
}

/// Watches a lane from the other side, which may reach the word by copies alone.
#[derive(Debug)]
pub struct Watcher<W, O = Proven> {
    word: W,
    seen: Follower,
    orderings: PhantomData<fn() -> O>,
}

impl<W: Word> Watcher<W> {
    /// Watches a lane that nobody has leased yet.
    pub fn new(word: W) -> Self {
        Self::with_orderings(word)
    }
}

impl<W: Word, O: LeaseOrderings> Watcher<W, O> {
    fn with_orderings(word: W) -> Self {
        Self { word, seen: Follower::new(0), orderings: PhantomData }
    }

    /// Who has the lane now.
    ///
    /// # Errors
    /// When the count moved back or cannot be reached.
    pub fn look(&mut self) -> Result<Tenancy, ReadError<W::Error>> {
        // Pairs with the store in `Lease::give_back`.
        let count = self.word.load(O::WATCH).map_err(ReadError::Unreachable)?;
        Ok(match self.seen.follow(count, u64::MAX)? {
            0 => Tenancy::Never,
            count if is_leased(count) => Tenancy::Leased,
            _ => Tenancy::Returned,
        })
    }
}

/// Whether a lane whose lease word holds this count is somebody's. A lane that nobody ever leased is not.
const fn is_leased(count: u64) -> bool {
    count % 2 == 1
}
