use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Where device threads sleep until the host wakes them. The host rings one bell for all of them; the link thread
/// hears it and opens the gate for everyone.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    host_gone: Mutex<bool>,
    opened: Condvar,
}

/// Why a sleeper passed the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Woken,
    TimedOut,
    HostGone,
}

impl Gate {
    /// Lets every sleeper look again.
    pub(crate) fn open(&self) {
        // Taking the lock orders this after a sleeper's last look: it either saw the reason or waits already.
        drop(self.lock());
        self.opened.notify_all();
    }

    /// Nobody will ever be woken again.
    pub(crate) fn close(&self) {
        *self.lock() = true;
        self.opened.notify_all();
    }

    /// Sleeps until `woken` holds. It is evaluated under the lock; `deadline: None` means no limit.
    pub(crate) fn pass(&self, deadline: Option<Instant>, woken: impl Fn() -> bool) -> Passed {
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
