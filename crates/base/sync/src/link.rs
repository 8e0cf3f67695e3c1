//! Sleeping until the other side of a device sends a wake-up, over four words of device memory.
//!
//! Each direction has one word for "I sleep" and one word for "you were woken". The waker writes the second
//! word, then reads the first. The sleeper writes the first word, then reads the second. With a full fence
//! between the two steps on both sides, at least one side sees the other, so no wake-up is lost. The waker
//! makes a system call only if the other side sleeps. That call rings a bell, which the platform provides:
//! an event file.
//!
//! | | host sleeps | device threads sleep |
//! | --- | --- | --- |
//! | sleeper | [`HostEnd::fall_asleep`], waits for the bell, [`HostEnd::get_up`], silences the bell, [`HostEnd::take_wake`] | [`DeviceEnd::wakes`], looks at memory, [`DeviceEnd::sleep`] at the [`Gate`] |
//! | waker | [`DeviceEnd::wake_host`], rings if it returns true | [`HostEnd::wake_device`], rings if it returns true |
//! | between | nothing | a thread of the device that hears the bell silences it and [opens the gate](Gate::open) |
//!
//! A program that overwrites the words can delay wake-ups until a timeout. It can do no other harm.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;
use std::sync::PoisonError;
use std::time::Instant;

use crate::atomic::{Condvar, Mutex, MutexGuard, Ordering};
use crate::orderings::{LinkOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

/// The four words, and how one side reaches them. All are zero at first, each on its own cache line.
pub trait LinkWords {
    /// Why a word cannot be reached.
    type Error;

    /// 1 while the host sleeps. The host writes it.
    fn host_sleeps(&self) -> impl Word<Error = Self::Error>;
    /// 1 once the device has woken the host. The device sets it and the host clears it.
    fn host_woken(&self) -> impl Word<Error = Self::Error>;
    /// Number of sleeping device threads. The device writes it.
    fn device_sleepers(&self) -> impl Word<Error = Self::Error>;
    /// How often the host has woken the device. The host writes it.
    fn device_wakes(&self) -> impl Word<Error = Self::Error>;
}

/// The words in this side's memory.
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

/// How often a host has woken its device. Only one thread at a time may count: if two threads raised it to
/// the same number, one wake-up would be lost.
#[derive(Debug, Default)]
pub struct WakeCounter(u64);

/// The host's end. It may reach the words through copies only.
#[derive(Clone, Copy, Debug)]
pub struct HostEnd<L, O = ProvenOrderings> {
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

    /// Announces that the host sleeps. Returns whether the device has already woken it. Pairs with
    /// [`DeviceEnd::wake_host`].
    ///
    /// # Errors
    /// If a word cannot be reached.
    pub fn fall_asleep(&self) -> Result<bool, L::Error> {
        self.words.host_sleeps().store(1, Ordering::Relaxed)?;
        O::sleep_then_look();
        Ok(self.words.host_woken().load(Ordering::Relaxed)? != 0)
    }

    /// Announces that the host is awake.
    ///
    /// # Errors
    /// If the word cannot be reached.
    pub fn get_up(&self) -> Result<(), L::Error> {
        self.words.host_sleeps().store(0, Ordering::Relaxed)
    }

    /// Clears the wake-up. Even if this discards a newer wake-up, the device's writes before that one are
    /// visible afterwards.
    ///
    /// # Errors
    /// If the word cannot be reached.
    pub fn take_wake(&self) -> Result<(), L::Error> {
        self.words.host_woken().store(0, Ordering::Relaxed)?;
        // Pairs with the first fence in `wake_host`.
        O::take_then_look();
        Ok(())
    }

    /// Wakes the device. Returns whether the bell must ring. Pairs with [`DeviceEnd::sleep`].
    ///
    /// # Errors
    /// If a word cannot be reached.
    pub fn wake_device(&self, wakes: &mut WakeCounter) -> Result<bool, L::Error> {
        wakes.0 = wakes.0.wrapping_add(1);
        // Pairs with the load in `DeviceEnd::wakes`: the host's earlier writes are visible.
        self.words.device_wakes().store(wakes.0, O::WAKE)?;
        O::wake_then_look();
        Ok(self.words.device_sleepers().load(Ordering::Relaxed)? != 0)
    }
}

/// The device's end. Any device thread may have one.
#[derive(Clone, Copy, Debug)]
pub struct DeviceEnd<'m, O = ProvenOrderings> {
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

    /// Wakes the host. Returns whether the bell must ring. Pairs with [`HostEnd::fall_asleep`] and
    /// [`HostEnd::take_wake`].
    pub fn wake_host(&self) -> bool {
        // Orders the caller's writes before the wake-up, and before the check whether one is already
        // pending: the host clears it before it looks for work.
        O::work_then_look();
        if self.words.host_woken.get() != 0 {
            return false;
        }
        self.words.host_woken.set(1);
        O::wake_then_look();
        self.words.host_sleeps.get() != 0
    }

    /// How often the host has woken the device. The host's writes before the last wake-up are visible.
    pub fn wakes(&self) -> u64 {
        self.words.device_wakes.raw().load(O::SEE_WAKE)
    }

    /// Sleeps until the host's wake count exceeds `seen`, or until `deadline`. Read `seen` with
    /// [`wakes`](Self::wakes), then look at memory, then sleep: no wake-up is missed.
    pub fn sleep(&self, gate: &Gate, seen: u64, deadline: Option<Instant>) -> WakeReason {
        self.asleep(|| gate.pass(deadline, || self.wakes() != seen))
    }

    /// Calls `wait` while this thread counts as a sleeper, so that the host rings its bell with every
    /// wake-up. `wait` must first read [`wakes`](Self::wakes), and may wait for the bell only if that has
    /// not changed.
    pub fn asleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.words.device_sleepers.raw().fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake_device`: either the host sees the sleeper, or the sleeper sees the wake.
        O::sleep_then_look();
        let waited = wait();
        self.words.device_sleepers.raw().fetch_sub(1, Ordering::Relaxed);
        waited
    }
}

/// Where device threads sleep until the host wakes them. The host rings one bell for all of them. The
/// thread that hears it opens the gate for all.
#[derive(Debug)]
pub struct Gate {
    host_gone: Mutex<bool>,
    opened: Condvar,
}

/// Why a sleeper left the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The host woke the device.
    Woken,
    /// The deadline passed first.
    TimedOut,
    /// The host is gone and will never wake the device again.
    HostGone,
}

impl Default for Gate {
    fn default() -> Self {
        Self { host_gone: Mutex::new(false), opened: Condvar::new() }
    }
}

impl Gate {
    /// Lets every sleeper check its condition again.
    pub fn open(&self) {
        // Taking the lock orders this after a sleeper's last check: the sleeper either saw the reason or
        // already waits.
        drop(self.lock());
        self.opened.notify_all();
    }

    /// Announces that no more wake-ups will come.
    pub fn close(&self) {
        *self.lock() = true;
        self.opened.notify_all();
    }

    /// Sleeps until `woken` holds, which is evaluated under the lock. `deadline: None` means no limit.
    fn pass(&self, deadline: Option<Instant>, woken: impl Fn() -> bool) -> WakeReason {
        let mut host_gone = self.lock();
        loop {
            if woken() {
                return WakeReason::Woken;
            }
            if *host_gone {
                return WakeReason::HostGone;
            }
            host_gone = match deadline {
                None => self.opened.wait(host_gone).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return WakeReason::TimedOut;
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
