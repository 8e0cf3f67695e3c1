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
//! With both fences sequentially consistent, at least one of the two sees what the other wrote: a wake-up is
//! never lost. When nobody sleeps, waking costs one fence and one load.
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
use crate::Line;
use crate::atomic::{self, Ordering};
use crate::orderings::{ParkOrderings, Proven};

/// Spins before yielding, when every runnable thread has a CPU. Each is one check and one pause. Kept short:
/// a hand-off to a spinning thread takes about 0.1 µs, and longer spins only take the CPU from others.
pub const SPINS: u32 = 64;
/// Yields before sleeping. A hand-off to a sleeping thread takes about 40 µs, so a sleep is worth avoiding.
pub const YIELDS: u32 = 64;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// How many spins suit a program: [`SPINS`], or none when there are more runnable threads than CPUs, because
/// a spinning thread then holds up the one it waits for.
pub const fn spins_for(runnable_threads: usize, cpus: usize) -> u32 {
    if runnable_threads > cpus { 0 } else { SPINS }
}

/// How a wait with a limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// There is something to do.
    Ready,
    /// The limit passed and there was still nothing to do.
    TimedOut,
}

/// Where one thread waits and any thread can wake it.
///
/// Only one thread waits at a time. The wake-up carries no data and orders none: `still_idle` must itself
/// read the published work with acquire ordering.
#[derive(Debug)]
pub struct Parker<O = Proven> {
    /// [`ASLEEP`] from before the sleeper's last look for work until a waker or the sleeper clears it.
    flag: Line<Futex>,
    spins: u32,
    yields: u32,
    orderings: PhantomData<fn() -> O>,
}

impl Parker {
    /// A parker whose waits check `spins` times with a pause and `yields` times with a yield before they
    /// sleep.
    pub fn new(spins: u32, yields: u32) -> Self {
        Self::with_orderings(spins, yields)
    }
}

impl<O: ParkOrderings> Parker<O> {
    fn with_orderings(spins: u32, yields: u32) -> Self {
        Self { flag: Line::new(Futex::new(AWAKE)), spins, yields, orderings: PhantomData }
    }

    /// Returns when `still_idle` is false. It is called often, and always once more before sleeping.
    pub fn wait(&self, mut still_idle: impl FnMut() -> bool) {
        if self.ends_before_sleep(&mut still_idle) {
            return;
        }
        while self.sleep_if(&mut still_idle, None) {}
    }

    /// As [`wait`](Self::wait), but gives up about `limit` after it began.
    pub fn wait_timeout(&self, limit: Duration, mut still_idle: impl FnMut() -> bool) -> Waited {
        let start = Instant::now();
        if self.ends_before_sleep(&mut still_idle) {
            return Waited::Ready;
        }
        loop {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return if still_idle() { Waited::TimedOut } else { Waited::Ready };
            }
            if !self.sleep_if(&mut still_idle, Some(left)) {
                return Waited::Ready;
            }
        }
    }

    /// Ends the sleep of the waiting thread, if it sleeps. To be called after the work was published.
    pub fn wake(&self) {
        // Pairs with the fence in `sleep_if`: either this thread sees the flag, or the sleeper sees the work.
        O::work_then_look();
        let word = self.flag.word();
        // The exchange lets one of several wakers make the system call; the load keeps the line shared when
        // nobody sleeps.
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

    /// Sleeps at most once. False when there is something to do; true when it must be asked again.
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
