//! A word on which a thread can sleep while the word holds a given value.

use core::time::Duration;

use crate::atomic::AtomicU32;

/// The kernel's futex, private to the process.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct Futex {
    word: AtomicU32,
}

#[cfg(not(loom))]
impl Futex {
    pub(super) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps if the word holds `value`, until another thread wakes this one or `limit` has passed. May
    /// return early without a reason.
    pub(super) fn wait_while(&self, value: u32, limit: Option<Duration>) {
        use rustix::thread::futex;
        // A limit that the kernel cannot express (292 billion years) means no limit.
        let limit = limit.and_then(|limit| futex::Timespec::try_from(limit).ok());
        // Every failure (a changed word, a signal, the limit) means: check again. The caller does that in
        // any case.
        let _ = futex::wait(&self.word, futex::Flags::PRIVATE, value, limit.as_ref());
    }

    /// Wakes one thread that sleeps on the word.
    pub(super) fn wake_one(&self) {
        use rustix::thread::futex;
        let woken = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        debug_assert!(woken.is_ok(), "futex wake failed: {woken:?}");
    }
}

/// A model of a futex. The mutex represents the kernel's lock around comparing and queueing.
///
/// It has no spurious wake-ups and no limit, so a lost wake-up shows as a deadlock.
#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Futex {
    word: AtomicU32,
    queue: loom::sync::Mutex<()>,
    woken: loom::sync::Condvar,
}

#[cfg(loom)]
impl Futex {
    pub(super) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            queue: loom::sync::Mutex::new(()),
            woken: loom::sync::Condvar::new(),
        }
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    pub(super) fn wait_while(&self, value: u32, _limit: Option<Duration>) {
        let queue = self.queue.lock().expect("no thread panics while it holds the queue");
        if self.word.load(crate::atomic::Ordering::Relaxed) == value {
            drop(self.woken.wait(queue));
        }
    }

    pub(super) fn wake_one(&self) {
        let _queue = self.queue.lock();
        self.woken.notify_one();
    }
}
