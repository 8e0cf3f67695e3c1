//! What the host of a dump tells the device by a word of its own: that it lives, that it takes no more. That a device thread
//! has recorded all it will, it says by giving back its lane ([`lease`](crate::lease)).
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::signs::{self, Heart};
//!
//! let (heartbeat, discard) = (SharedU64::new(0), SharedU64::new(0));
//! let mut host = Heart::new(&heartbeat);
//! host.beat()?;
//! assert_eq!(signs::pulse(&heartbeat), 1);
//! signs::order_discard(&discard)?;
//! assert!(signs::discards(&discard));
//! # Ok::<(), core::convert::Infallible>(())
//! ```

#[cfg(all(test, loom))]
mod model;

use crate::atomic::Ordering;
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
