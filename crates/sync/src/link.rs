//! Sleeping until the other side of a device wakes one, over four words of device memory.
//!
//! Each direction has a word that says "I sleep" and a word that says "you were woken". The waker writes the second,
//! then reads the first; the sleeper writes the first, then reads the second. With a full fence between the two
//! steps on both sides at least one sees the other, so no wake is lost, and the waker makes a system call only when
//! the other side sleeps. The call rings a bell, which is the platform's: an event file.
//!
//! | | host sleeps | device threads sleep |
//! | --- | --- | --- |
//! | sleeper | [`HostEnd::fall_asleep`], waits for the bell, [`HostEnd::get_up`], silences the bell, [`HostEnd::take_wake`] | [`DeviceEnd::wakes`], looks at memory, [`DeviceEnd::sleep`] at the [`Gate`] |
//! | waker | [`DeviceEnd::wake_host`], rings if told | [`HostEnd::wake_device`], rings if told |
//! | between | nothing | a thread of the device that hears the bell silences it and [opens the gate](Gate::open) |
//!
//! A program that scribbles on the words delays wakes until a timeout and does nothing worse.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;
use std::sync::PoisonError;
use std::time::Instant;

use crate::atomic::{Condvar, Mutex, MutexGuard, Ordering};
use crate::orderings::{LinkOrderings, Proven};
use crate::{SharedU64, Word};

/// Where the words lie, and how one side reaches them. All are zero at first, each on a cache line of its own.
pub trait LinkWords {
    /// Why a word cannot be reached.
    type Error;

    /// 1 while the host sleeps. Written by the host.
    fn host_sleeps(&self) -> impl Word<Error = Self::Error>;
    /// 1 once the device has woken the host. Set by the device, cleared by the host.
    fn host_woken(&self) -> impl Word<Error = Self::Error>;
    /// Device threads that sleep. Written by the device.
    fn device_sleepers(&self) -> impl Word<Error = Self::Error>;
    /// How often the host has woken the device. Written by the host.
    fn device_wakes(&self) -> impl Word<Error = Self::Error>;
}

/// The words in memory that this side has.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as the methods of LinkWords")]
pub struct LinkCells<'m> {
    pub host_sleeps: &'m SharedU64,
    pub host_woken: &'m SharedU64,
    pub device_sleepers: &'m SharedU64,
    pub device_wakes: &'m SharedU64,
}

impl LinkWords for LinkCells<'_> {
    type Error = Infallible;

    fn host_sleeps(&self) -> impl Word<Error = Infallible> {
        self.host_sleeps
    }

    fn host_woken(&self) -> impl Word<Error = Infallible> {
        self.host_woken
    }

    fn device_sleepers(&self) -> impl Word<Error = Infallible> {
        self.device_sleepers
    }

    fn device_wakes(&self) -> impl Word<Error = Infallible> {
        self.device_wakes
    }
}

/// How often a host has woken its device. One thread at a time counts: two that raise it to the same number are one
/// wake lost.
#[derive(Debug, Default)]
pub struct Wakes(u64);

/// The host's end. It may reach the words by copies alone.
#[derive(Clone, Copy, Debug)]
pub struct HostEnd<L, O = Proven> {
    words: L,
    orderings: PhantomData<fn() -> O>,
}

impl<L: LinkWords> HostEnd<L> {
    /// The host's end of the link over `words`.
    pub fn new(words: L) -> Self {
        Self::with_orderings(words)
    }
}

impl<L: LinkWords, O: LinkOrderings> HostEnd<L, O> {
    fn with_orderings(words: L) -> Self {
        Self { words, orderings: PhantomData }
    }

    /// Says that the host sleeps; tells whether it was woken already. Pairs with [`DeviceEnd::wake_host`].
    ///
    /// # Errors
    /// When a word cannot be reached.
    pub fn fall_asleep(&self) -> Result<bool, L::Error> {
        self.words.host_sleeps().store(1, Ordering::Relaxed)?;
        O::sleep_then_look();
        Ok(self.words.host_woken().load(Ordering::Relaxed)? != 0)
    }

    /// Says that the host is up.
    ///
    /// # Errors
    /// When the word cannot be reached.
    pub fn get_up(&self) -> Result<(), L::Error> {
        self.words.host_sleeps().store(0, Ordering::Relaxed)
    }

    /// Clears the wake. What the device wrote before a wake that is lost by this is visible afterwards.
    ///
    /// # Errors
    /// When the word cannot be reached.
    pub fn take_wake(&self) -> Result<(), L::Error> {
        self.words.host_woken().store(0, Ordering::Relaxed)?;
        // Pairs with the first fence in `wake_host`.
        O::take_then_look();
        Ok(())
    }

    /// Wakes the device; tells whether the bell has to ring. Pairs with [`DeviceEnd::sleep`].
    ///
    /// # Errors
    /// When a word cannot be reached.
    pub fn wake_device(&self, wakes: &mut Wakes) -> Result<bool, L::Error> {
        wakes.0 = wakes.0.wrapping_add(1);
        // Pairs with the load in `DeviceEnd::wakes`: what the host wrote before is visible.
        self.words.device_wakes().store(wakes.0, O::WAKE)?;
        O::wake_then_look();
        Ok(self.words.device_sleepers().load(Ordering::Relaxed)? != 0)
    }
}

/// The device's end. Any thread of it may have one.
#[derive(Clone, Copy, Debug)]
pub struct DeviceEnd<'m, O = Proven> {
    words: LinkCells<'m>,
    orderings: PhantomData<fn() -> O>,
}

impl<'m> DeviceEnd<'m> {
    /// The device's end of the link over `words`.
    pub fn new(words: LinkCells<'m>) -> Self {
        Self::with_orderings(words)
    }
}

impl<'m, O: LinkOrderings> DeviceEnd<'m, O> {
    fn with_orderings(words: LinkCells<'m>) -> Self {
        Self { words, orderings: PhantomData }
    }

    /// Wakes the host; tells whether the bell has to ring. Pairs with [`HostEnd::fall_asleep`] and
    /// [`HostEnd::take_wake`].
    pub fn wake_host(&self) -> bool {
        // What the caller wrote comes before the wake, and before finding that one is under way: the host clears
        // it before it looks.
        O::work_then_look();
        if self.words.host_woken.get() != 0 {
            return false;
        }
        self.words.host_woken.set(1);
        O::wake_then_look();
        self.words.host_sleeps.get() != 0
    }

    /// How often the host has woken the device. What it wrote before the last wake is visible.
    pub fn wakes(&self) -> u64 {
        self.words.device_wakes.raw().load(O::SEE_WAKE)
    }

    /// Sleeps until the host has woken the device more often than `seen` says, or else until `deadline`. Take `seen`
    /// from [`wakes`](Self::wakes), then look at memory, then sleep: no wake is missed.
    pub fn sleep(&self, gate: &Gate, seen: u64, deadline: Option<Instant>) -> Passed {
        self.asleep(|| gate.pass(deadline, || self.wakes() != seen))
    }

    /// Calls `wait` while the host knows of a sleeper, and so rings its bell with every wake. `wait` looks at
    /// [`wakes`](Self::wakes) first, and listens to the bell only if no wake has come since it was last looked at.
    pub fn asleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.words.device_sleepers.raw().fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake_device`: either the host sees the sleeper, or the sleeper sees the wake.
        O::sleep_then_look();
        let waited = wait();
        self.words.device_sleepers.raw().fetch_sub(1, Ordering::Relaxed);
        waited
    }
}

/// Where device threads sleep until the host wakes them. The host rings one bell for all of them; the thread that
/// hears it opens the gate for everyone.
#[derive(Debug)]
pub struct Gate {
    host_gone: Mutex<bool>,
    opened: Condvar,
}

/// Why a sleeper passed the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The host woke the device.
    Woken,
    /// It did not, in time.
    TimedOut,
    /// It never will again.
    HostGone,
}

impl Default for Gate {
    fn default() -> Self {
        Self { host_gone: Mutex::new(false), opened: Condvar::new() }
    }
}

impl Gate {
    /// Lets every sleeper look again.
    pub fn open(&self) {
        // Taking the lock orders this after a sleeper's last look: it either saw the reason or waits already.
        drop(self.lock());
        self.opened.notify_all();
    }

    /// Nobody will ever be woken again.
    pub fn close(&self) {
        *self.lock() = true;
        self.opened.notify_all();
    }

    /// Sleeps until `woken` holds. It is evaluated under the lock; `deadline: None` means no limit.
    fn pass(&self, deadline: Option<Instant>, woken: impl Fn() -> bool) -> Passed {
        let mut host_gone = self.lock();
        loop {
            if woken() {
                return Passed::Woken;
            }
            if *host_gone {
                return Passed::HostGone;
            }
            host_gone = match deadline {
                None => self.opened.wait(host_gone).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Passed::TimedOut;
                    }
                    self.opened.wait_timeout(host_gone, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.host_gone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
