//! Lanes that threads lease and return.
//!
//! Any thread may record, and over time there may be more threads than lanes. Each lane has a word that
//! counts how often the lane changed hands: even while the lane is free, odd while a thread holds it. A
//! thread takes a free lane by incrementing the word, then uses the lane's memory exclusively, and returns
//! the lane by incrementing the word again. The next holder sees everything that the previous one wrote. A
//! host that watches the word knows which lanes were ever used and which are at rest.
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
use crate::orderings::{LeaseOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

/// Exclusive use of a lane. If it is dropped without [`give_back`](Self::give_back), the lane stays leased
/// forever.
#[derive(Debug)]
#[must_use = "a lease that is dropped is never returned"]
pub struct Lease<'w, O = ProvenOrderings> {
    word: &'w SharedU64,
    count: u64,
    orderings: PhantomData<fn() -> O>,
}

impl<'w> Lease<'w> {
    /// Takes the lane of `word` if it is free. Everything that its last holder wrote is visible.
    pub fn take(word: &'w SharedU64) -> Option<Self> {
        Self::take_with(word)
    }

    /// Takes the first free lane and returns its position. Checks each lane once, so it may miss a lane
    /// that is returned meanwhile.
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
        // Pairs with the store in `give_back`: the last holder's writes are visible. A thread that loses
        // the race tries another lane.
        word.raw().compare_exchange(free, count, O::TAKE, Ordering::Relaxed).ok()?;
        Some(Self { word, count, orderings: PhantomData })
    }

    /// How often the lane was leased before.
    pub fn earlier(&self) -> u64 {
        self.count / 2
    }

    /// Returns the lane. Call it after the last use of the lane's memory.
    pub fn give_back(self) {
        // Pairs with the exchange in `take` and the load in `Watcher::look`. Saturates at the highest
        // count: a lane whose count cannot grow is never leased again.
        self.word.raw().store(self.count.saturating_add(1), O::GIVE_BACK);
    }
}

/// Whether a thread holds a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// No thread has held it so far.
    Never,
    /// A thread holds it.
    Leased,
    /// No thread holds it anymore. Everything that the last holder wrote is visible.
    Returned,
}

/// Watches a lane from the other side, which may reach the word through copies only.
#[derive(Debug)]
pub struct Watcher<W, O = ProvenOrderings> {
    word: W,
    seen: Follower,
    orderings: PhantomData<fn() -> O>,
}

impl<W: Word> Watcher<W> {
    /// Watches a lane that no thread has leased yet.
    pub fn new(word: W) -> Self {
        Self::with_orderings(word)
    }
}

impl<W: Word, O: LeaseOrderings> Watcher<W, O> {
    fn with_orderings(word: W) -> Self {
        Self { word, seen: Follower::new(0), orderings: PhantomData }
    }

    /// The current tenancy of the lane.
    ///
    /// # Errors
    /// If the count moved back or cannot be reached.
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

/// Whether a lane with this count is leased. A lane that was never leased is not.
const fn is_leased(count: u64) -> bool {
    count % 2 == 1
}
