//! Shared parts of the ordinary tests: how many rounds they run, normally and under Miri.

use proptest::test_runner::Config;

use crate::atomic::{AtomicU32, Ordering::Relaxed};

/// Rounds of a test with threads. Miri is about a thousand times slower.
pub(crate) const ROUNDS: u32 = if cfg!(miri) { 30 } else { 20_000 };

/// Cases of a property test. Without files, which Miri does not allow.
pub(crate) fn cases() -> Config {
    Config { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Config::default() }
}

/// Calls `look` again and again, yielding in between, until it returns a value.
///
/// Panics after so many calls that the awaited thread must have failed: a test then fails instead of
/// hanging.
pub(crate) fn insist<T>(mut look: impl FnMut() -> Option<T>) -> T {
    const LOOKS: u32 = 20_000_000;
    for _ in 0..LOOKS {
        if let Some(value) = look() {
            return value;
        }
        std::thread::yield_now();
    }
    panic!("another thread did not do its step in time");
}

/// Lets threads start each round at the same moment, so that even a step of a few instructions is
/// contended.
#[derive(Debug, Default)]
pub(crate) struct Lockstep(AtomicU32);

impl Lockstep {
    /// Returns when all `threads` have called it for this round. Rounds count from zero.
    pub(crate) fn begin(&self, round: u32, threads: u32) {
        const SPINS: u32 = 1000;
        self.0.fetch_add(1, Relaxed);
        let all_here = || (self.0.load(Relaxed) >= (round + 1) * threads).then_some(());
        for _ in 0..SPINS {
            if all_here().is_some() {
                return;
            }
            std::hint::spin_loop();
        }
        insist(all_here);
    }
}
