//! Follows a count that the other side writes, without trusting it.
//!
//! The counts of the dump's protocols only grow, and only by as much as fits into a queue, a buffer or an
//! arena. A stray write in the other side's process may have changed the word. A value outside these limits
//! is therefore rejected, and the last good value stays.

/// An impossible count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// The count is lower than before.
    #[error(
        "the count moved back from {from} to {to}: the other side's memory is damaged, stop following it"
    )]
    MovedBack {
        /// Last good value.
        from: u64,
        /// Value read.
        to: u64,
    },
    /// The count is higher than both sides together can have reached.
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

/// Why reading a word of the other side failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// Its value is impossible.
    #[error(transparent)]
    Damaged(#[from] CursorError),
    /// The word cannot be reached.
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
    /// Starts at a good value.
    pub const fn new(seen: u64) -> Self {
        Self { seen }
    }

    /// The last good value.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Accepts `now`, a value just read, if it is between the last good value and `most`.
    ///
    /// # Errors
    /// If `now` is outside these limits. The last good value then stays.
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
