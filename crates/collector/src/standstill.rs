//! Whether a device thread waits for something that will never come.
//!
//! A thread that waits for the host counts a word up. While it does, and nothing of it can be taken or given back, host and
//! device wait for one another: a stray write has hit a word between them. The time of that is added up from looks that
//! found the collector idle, so a write that takes long is none of it; and each look counts for no more than 100 ms, so that
//! a host that was stopped meanwhile does not count either.

use std::time::Duration;

/// The longest interval between two looks that counts in full.
const MAX_INTERVAL: Duration = Duration::from_millis(100);
/// A thread that has not counted up for so long does not wait, or is itself stopped.
const QUIET: Duration = Duration::from_secs(1);

/// How long one thread has stood still.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    waits: u64,
    still: Duration,
    quiet: Duration,
}

impl Standstill {
    /// Takes one look, `interval` after the last: how often the thread has looked for the host by now. How long it has
    /// waited in vain.
    pub(crate) fn look(&mut self, waits: u64, interval: Duration) -> Duration {
        let interval = interval.min(MAX_INTERVAL);
        if waits == self.waits {
            self.quiet += interval;
            if self.quiet >= QUIET {
                self.still = Duration::ZERO;
            }
        } else {
            (self.waits, self.quiet) = (waits, Duration::ZERO);
            self.still += interval;
        }
        self.still
    }

    /// Something of the thread was taken.
    pub(crate) fn moved(&mut self) {
        self.still = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(50);

    #[test]
    fn time_adds_up_while_a_thread_waits_in_vain() {
        let mut standstill = Standstill::default();
        for look in 1..=10 {
            assert_eq!(standstill.look(look.into(), LOOK), LOOK * look);
        }
        assert_eq!(standstill.look(11, Duration::from_secs(3600)), LOOK * 12, "the host was stopped");
        standstill.moved();
        assert_eq!(standstill.look(12, LOOK), LOOK);
    }

    #[test]
    fn a_thread_that_stops_counting_does_not_wait() {
        let mut standstill = Standstill::default();
        standstill.look(1, LOOK);
        assert_eq!(standstill.look(2, LOOK), LOOK * 2);
        for _ in 0..19 {
            assert_eq!(standstill.look(2, LOOK), LOOK * 2, "it may be late");
        }
        assert_eq!(standstill.look(2, LOOK), Duration::ZERO);
    }
}
