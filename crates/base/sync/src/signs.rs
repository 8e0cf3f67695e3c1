//! What the host of a dump signals to the device: that the host is alive (a heartbeat), and that the device
//! must discard new data. A device thread signals that it has recorded everything by returning its lane
//! ([`lease`](crate::lease)).
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::signs::{self, Heartbeat};
//!
//! let (heartbeat, discard) = (SharedU64::new(0), SharedU64::new(0));
//! let mut host = Heartbeat::new(&heartbeat);
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

/// The host's heartbeat: a count that grows while the host is alive.
#[derive(Debug)]
pub struct Heartbeat<W> {
    word: W,
    beats: u64,
}

impl<W: Word> Heartbeat<W> {
    /// A heartbeat at zero.
    pub fn new(word: W) -> Self {
        Self { word, beats: 0 }
    }

    /// Beats once. Overwrites any value that a stray write left in the word.
    ///
    /// # Errors
    /// If the word cannot be reached.
    pub fn beat(&mut self) -> Result<(), W::Error> {
        self.beats = self.beats.wrapping_add(1);
        // Relaxed: only the change of the value matters.
        self.word.store(self.beats, Ordering::Relaxed)
    }
}

/// The current value of the heartbeat. The host is alive if this value changes.
#[inline]
pub fn pulse(word: &SharedU64) -> u64 {
    word.get()
}

/// Orders producers to discard data instead of waiting, because the host takes no more.
///
/// # Errors
/// If the word cannot be reached.
pub fn order_discard<W: Word>(word: W) -> Result<(), W::Error> {
    // Relaxed: no reader relies on other writes because of it.
    word.store(1, Ordering::Relaxed)
}

/// Whether the host has ordered producers to discard data.
#[inline]
pub fn discards(word: &SharedU64) -> bool {
    word.get() != 0
}
