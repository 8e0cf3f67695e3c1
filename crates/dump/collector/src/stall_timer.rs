//! Detects a device thread that waits for something that will never happen.
//!
//! A thread that waits for the host increments a word. If it does so and the host can neither take nor
//! release anything of its lane, host and device wait for each other: a stray write has changed a word. The
//! timer adds up the intervals between checks that found the collector idle, so a long write does not
//! count. Each interval counts for at most 100 ms, so that time in which the host was stopped does not
//! count either.

use std::time::Duration;

/// The longest interval between two checks that counts in full.
const MAX_INTERVAL: Duration = Duration::from_millis(100);
/// A thread that has not incremented its word for this long does not wait, or is itself stopped.
const QUIET: Duration = Duration::from_secs(1);

/// How long one thread has waited in vain.
#[derive(Debug, Default)]
pub(crate) struct StallTimer {
    waits: u64,
    still: Duration,
    quiet: Duration,
}

impl StallTimer {
    /// Performs one check, `interval` after the last. `waits` is the thread's word. Returns how long the
    /// thread has waited in vain.
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

    /// Resets the timer, because something of the thread's lane was taken.
    pub(crate) fn moved(&mut self) {
        self.still = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(50);

    #[test]
    fn time_adds_up_while_a_thread_waits_without_progress() {
        let mut standstill = StallTimer::default();
        for look in 1..=10 {
            assert_eq!(standstill.look(look.into(), LOOK), LOOK * look);
        }
        assert_eq!(standstill.look(11, Duration::from_secs(3600)), LOOK * 12, "the host was stopped");
        standstill.moved();
        assert_eq!(standstill.look(12, LOOK), LOOK);
    }

    #[test]
    fn a_thread_that_stops_counting_does_not_wait() {
        let mut standstill = StallTimer::default();
        standstill.look(1, LOOK);
        assert_eq!(standstill.look(2, LOOK), LOOK * 2);
        for _ in 0..19 {
            assert_eq!(standstill.look(2, LOOK), LOOK * 2, "it may be late");
        }
        assert_eq!(standstill.look(2, LOOK), Duration::ZERO);
    }
}
