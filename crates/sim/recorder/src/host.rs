//! The host as a device thread sees it: it can be woken, and it can be waited for while it is alive.

use core::time::Duration;

use tensortap_abi::DeviceRange;

/// How a device thread reaches the host. One per thread, or shared by reference.
pub trait HostLink {
    /// Wakes the host if it sleeps.
    fn wake_host(&self);

    /// Sleeps until the host may have drained something, or until `limit` has passed. May return early. A
    /// wake-up between the recorder's last check and this call may be lost; the recorder checks again after
    /// `limit`.
    fn pause(&self, limit: Duration);

    /// Nanoseconds of a monotonic clock.
    fn now_ns(&self) -> u64;

    /// Publishes whether this thread waits for the dump. No stall clock runs while it does.
    fn waiting(&self, waiting: bool);

    /// Announces that this thread will soon write a range of device memory for the first time, so that its
    /// pages can be made present meanwhile. This is only a hint.
    fn soon(&self, _range: DeviceRange) {}
}

impl<H: HostLink + ?Sized> HostLink for &H {
    fn wake_host(&self) {
        (**self).wake_host();
    }

    fn pause(&self, limit: Duration) {
        (**self).pause(limit);
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn waiting(&self, waiting: bool) {
        (**self).waiting(waiting);
    }

    fn soon(&self, range: DeviceRange) {
        (**self).soon(range);
    }
}

/// The longest interval between two checks of the heartbeat that counts in full. In a longer interval this
/// thread itself was stopped, by a debugger or together with the whole machine.
const MAX_INTERVAL_NS: u64 = 100_000_000;
/// The first pause. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Watches the host's heartbeat during a wait.
#[derive(Debug)]
pub(crate) struct HostWatch {
    /// Silence after which the host counts as gone; 0 means never.
    limit_ns: u64,
    heartbeat: u64,
    silent_ns: u64,
    looked_ns: u64,
    /// The longest duration of one wait; `None` means as long as the host is alive.
    most_ns: Option<u64>,
    /// Duration of the current wait so far.
    waited_ns: u64,
    pause: Duration,
    gone: bool,
}

impl HostWatch {
    pub fn new(liveness_ms: u64, heartbeat: u64) -> Self {
        Self {
            limit_ns: liveness_ms.saturating_mul(1_000_000),
            heartbeat,
            silent_ns: 0,
            looked_ns: 0,
            most_ns: None,
            waited_ns: 0,
            pause: FIRST_PAUSE,
            gone: false,
        }
    }

    /// Starts a wait. The time since the last wait was not observed and does not count.
    pub fn begin(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        self.waited_ns = 0;
        self.pause = FIRST_PAUSE;
    }

    /// Limits the duration of each wait.
    pub fn set_most(&mut self, most: Option<Duration>) {
        self.most_ns = most.map(|most| u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Whether the current wait has reached its limit. As for silence, time in which this thread was
    /// stopped does not count in full.
    pub fn is_over(&self) -> bool {
        self.most_ns.is_some_and(|most| self.waited_ns >= most)
    }

    /// Checks the heartbeat and returns whether the host counts as alive. Once it does not, it never does
    /// again.
    pub fn look(&mut self, heartbeat: u64, now_ns: u64) -> bool {
        let interval_ns = now_ns.saturating_sub(self.looked_ns).min(MAX_INTERVAL_NS);
        self.looked_ns = now_ns;
        self.waited_ns = self.waited_ns.saturating_add(interval_ns);
        if heartbeat == self.heartbeat {
            self.silent_ns = self.silent_ns.saturating_add(interval_ns);
        } else {
            self.heartbeat = heartbeat;
            self.silent_ns = 0;
        }
        self.gone |= self.limit_ns != 0 && self.silent_ns >= self.limit_ns;
        !self.gone
    }

    /// Duration of the pause before the next check. It starts short, so that a lost wake-up costs at most
    /// about the time already waited.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        let left = self.most_ns.map(|most| Duration::from_nanos(most.saturating_sub(self.waited_ns)));
        left.map_or(pause, |left| pause.min(left))
    }

    pub fn is_gone(&self) -> bool {
        self.gone
    }
}

#[cfg(test)]
mod tests;
