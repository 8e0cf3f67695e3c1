//! Following a count that another side writes, without trusting it.
//!
//! The counts of the dump's protocols only grow, and only so far: by what fits into a queue, a buffer or an arena.
//! The other side may be a process in which a stray write has hit the word, so a value outside these limits is
//! refused, and the last good one stays.

/// A count that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// It is lower than before.
    #[error(
        "the count moved back from {from} to {to}: the other side's memory is damaged, stop following it"
    )]
    MovedBack {
        /// Last good value.
        from: u64,
        /// Value read.
        to: u64,
    },
    /// It is higher than what both sides together can have reached.
    #[error(
        "the count moved from {from} to {to}, past {most}: the other side's memory is damaged, stop following it"
    )]
    TooFar {
        /// Last good value.
        from: u64,
        /// Value read.
        to: u64,
        /// Highest value possible now.
        most: u64,
    },
}

/// Why a word of the other side gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// What it holds cannot be right.
    #[error(transparent)]
    Damaged(#[from] CursorError),
    /// It cannot be reached.
    #[error(transparent)]
    Unreachable(E),
}

/// The last good value of a count.
///
/// ```
/// use tensortap_sync::cursor::{CursorError, Follower};
/// let mut count = Follower::new(3);
/// assert_eq!(count.follow(5, 7), Ok(5));
/// assert_eq!(count.follow(4, 7), Err(CursorError::MovedBack { from: 5, to: 4 }));
/// assert_eq!(count.follow(8, 7), Err(CursorError::TooFar { from: 5, to: 8, most: 7 }));
/// assert_eq!(count.seen(), 5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follower {
    seen: u64,
}

impl Follower {
    /// Starts at a value known to be good.
    pub const fn new(seen: u64) -> Self {
        Self { seen }
    }

    /// The last good value.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes over `now`, which was just read, if it lies between the last good value and `most`.
    ///
    /// # Errors
    /// Otherwise; the last good value stays.
    pub const fn follow(&mut self, now: u64, most: u64) -> Result<u64, CursorError> {
        if now < self.seen {
            return Err(CursorError::MovedBack { from: self.seen, to: now });
        }
        if now > most {
            return Err(CursorError::TooFar { from: self.seen, to: now, most });
        }
        self.seen = now;
        Ok(now)
    }
}
