//! How an idle thread waits: it spins a little, yields a while, then sleeps until woken.
//!
//! The sleeper and the waker each write one word and then read the other's:
//!
//! | sleeper | waker |
//! | --- | --- |
//! | sets its flag | publishes work |
//! | fence | fence |
//! | looks for work, sleeps if there is none | looks at the flag, wakes if it is set |
//!
//! Both fences are sequentially consistent, so at least one of the two sees the other's write, and no
//! wake-up is lost. If no thread sleeps, waking costs one fence and one load.
//!
//! ```
//! use std::sync::Arc;
//! use tensortap_sync::Flag;
//! use tensortap_sync::park::{Parker, YIELDS};
//!
//! let shared = Arc::new((Parker::new(0, YIELDS), Flag::new()));
//! let idle = std::thread::spawn({
//!     let shared = Arc::clone(&shared);
//!     move || shared.0.wait(|| !shared.1.is_raised())
//! });
//! shared.1.raise();
//! shared.0.wake();
//! idle.join().unwrap();
//! ```

mod futex;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;
use std::time::{Duration, Instant};

use self::futex::Futex;
use crate::CachePadded;
use crate::atomic::{self, Ordering};
use crate::orderings::{ParkOrderings, ProvenOrderings};

/// Number of spins before yielding, if every runnable thread has a CPU. Each spin is one check and one
/// pause. The number is small: a handover to a spinning thread takes about 0.1 µs, and longer spins only
/// take the CPU from other threads.
pub const SPINS: u32 = 64;
/// Number of yields before sleeping. A handover to a sleeping thread takes about 40 µs, so avoiding the
/// sleep is worth some yields.
pub const YIELDS: u32 = 64;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The number of spins that suits a program: [`SPINS`], or none if there are more runnable threads than
/// CPUs, because a spinning thread then delays the thread it waits for.
pub const fn spins_for(runnable_threads: usize, cpus: usize) -> u32 {
    if runnable_threads > cpus { 0 } else { SPINS }
}

/// How a wait with a limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum WaitOutcome {
    /// There is work.
    Ready,
    /// The limit passed without work.
    TimedOut,
}

/// Where one thread waits and any thread can wake it.
///
/// Only one thread may wait at a time. The wake-up carries no data and orders nothing: `still_idle` must
/// itself read the published work with acquire ordering.
#[derive(Debug)]
pub struct Parker<O = ProvenOrderings> {
    /// [`ASLEEP`] from before the sleeper's last look for work until a waker or the sleeper clears it.
    flag: CachePadded<Futex>,
    spins: u32,
    yields: u32,
    orderings: PhantomData<fn() -> O>,
}

impl Parker {
    /// A parker whose waits check `spins` times with a pause, then `yields` times with a yield, before they
    /// sleep.
    pub fn new(spins: u32, yields: u32) -> Self {
        Self::with_orderings(spins, yields)
    }
}

impl<O: ParkOrderings> Parker<O> {
    fn with_orderings(spins: u32, yields: u32) -> Self {
        Self { flag: CachePadded::new(Futex::new(AWAKE)), spins, yields, orderings: PhantomData }
    }

    /// Returns when `still_idle` returns false. Calls `still_idle` often, and always once more before
    /// sleeping.
    pub fn wait(&self, mut still_idle: impl FnMut() -> bool) {
        if self.ends_before_sleep(&mut still_idle) {
            return;
        }
        while self.sleep_if(&mut still_idle, None) {}
    }

    /// As [`wait`](Self::wait), but returns about `limit` after it began at the latest.
    pub fn wait_timeout(&self, limit: Duration, mut still_idle: impl FnMut() -> bool) -> WaitOutcome {
        let start = Instant::now();
        if self.ends_before_sleep(&mut still_idle) {
            return WaitOutcome::Ready;
        }
        loop {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return if still_idle() { WaitOutcome::TimedOut } else { WaitOutcome::Ready };
            }
            if !self.sleep_if(&mut still_idle, Some(left)) {
                return WaitOutcome::Ready;
            }
        }
    }

    /// Ends the sleep of the waiting thread if it sleeps. Call it after publishing the work.
    pub fn wake(&self) {
        // Pairs with the fence in `sleep_if`: either this thread sees the flag, or the sleeper sees the work.
        O::work_then_look();
        let word = self.flag.word();
        // The exchange lets only one of several wakers make the system call. The load keeps the cache line
        // shared while no thread sleeps.
        if word.load(Ordering::Relaxed) == ASLEEP && word.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.flag.wake_one();
        }
    }

    fn ends_before_sleep(&self, still_idle: &mut impl FnMut() -> bool) -> bool {
        if !still_idle() {
            return true;
        }
        for _ in 0..self.spins {
            atomic::spin_loop();
            if !still_idle() {
                return true;
            }
        }
        for _ in 0..self.yields {
            atomic::yield_now();
            if !still_idle() {
                return true;
            }
        }
        false
    }

    /// Sleeps at most once. Returns false if there is work, true if the caller must check again.
    fn sleep_if(&self, still_idle: &mut impl FnMut() -> bool, limit: Option<Duration>) -> bool {
        let word = self.flag.word();
        let before = word.swap(ASLEEP, Ordering::Relaxed);
        debug_assert_eq!(before, AWAKE, "two threads wait at one parker: give each its own");
        // Pairs with the fence in `wake`: either the waker sees the flag, or this thread sees the work.
        O::flag_then_look();
        let idle = still_idle();
        if idle {
            self.flag.wait_while(ASLEEP, limit);
        }
        word.store(AWAKE, Ordering::Relaxed);
        idle
    }
}
