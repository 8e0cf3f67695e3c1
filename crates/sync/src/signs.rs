//! What one side of a dump tells the other by a word of its own: the host that it lives, that it takes no more; a device
//! thread that it has recorded all it will.
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::signs::{self, Heart};
//!
//! let (heartbeat, discard, flushed) = (SharedU64::new(0), SharedU64::new(0), SharedU64::new(0));
//! let mut host = Heart::new(&heartbeat);
//! host.beat()?;
//! assert_eq!(signs::pulse(&heartbeat), 1);
//! signs::order_discard(&discard)?;
//! assert!(signs::discards(&discard));
//! signs::flush(&flushed);
//! assert!(signs::is_flushed(&flushed)?);
//! # Ok::<(), core::convert::Infallible>(())
//! ```

#[cfg(all(test, loom))]
mod model;

use crate::atomic::Ordering;
use crate::orderings::{Proven, SignOrderings};
use crate::{SharedU64, Word};

/// The host's sign of life: a count that goes up while it lives.
#[derive(Debug)]
pub struct Heart<W> {
    word: W,
    beats: u64,
}

impl<W: Word> Heart<W> {
    /// A heart that has not beaten yet.
    pub fn new(word: W) -> Self {
        Self { word, beats: 0 }
    }

    /// Beats once. Whatever somebody else wrote there is gone with it.
    ///
    /// # Errors
    /// When the word cannot be reached.
    pub fn beat(&mut self) -> Result<(), W::Error> {
        self.beats = self.beats.wrapping_add(1);
        // Relaxed: that it changes is all that it says.
        self.word.store(self.beats, Ordering::Relaxed)
    }
}

/// What the host's heart says now. It lives if this changes.
#[inline]
pub fn pulse(word: &SharedU64) -> u64 {
    word.get()
}

/// The host takes no more: producers discard instead of waiting.
///
/// # Errors
/// When the word cannot be reached.
pub fn order_discard<W: Word>(word: W) -> Result<(), W::Error> {
    // Relaxed: nothing is read on the strength of it.
    word.store(1, Ordering::Relaxed)
}

/// Whether the host takes no more.
#[inline]
pub fn discards(word: &SharedU64) -> bool {
    word.get() != 0
}

/// Says that this thread has recorded all it will.
pub fn flush(word: &SharedU64) {
    flush_with::<Proven>(word);
}

fn flush_with<O: SignOrderings>(word: &SharedU64) {
    // Pairs with the load in `is_flushed`: the records committed before are visible.
    word.raw().store(1, O::FLUSH);
}

/// Whether a device thread has recorded all it will. If so, all of it is visible to reads that follow.
///
/// # Errors
/// When the word cannot be reached.
pub fn is_flushed<W: Word>(word: W) -> Result<bool, W::Error> {
    is_flushed_with::<Proven, W>(word)
}

fn is_flushed_with<O: SignOrderings, W: Word>(word: W) -> Result<bool, W::Error> {
    // Pairs with the store in `flush`.
    Ok(word.load(O::SEE_FLUSHED)? != 0)
}
