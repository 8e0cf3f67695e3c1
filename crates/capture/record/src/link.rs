//! A recording thread's link to the recorder.

use std::{
    cell::{Cell, OnceCell},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tensortap_platform::{HostEvent, attach::HostListener};
use tensortap_recorder::HostLink;

use crate::core::CoreRef;

/// Polling interval of a thread that cannot open an event file.
const WITHOUT_AN_EAR: Duration = Duration::from_millis(1);

/// Interval at which a lane with free space checks the recorder. Without space it always checks.
const LOOKS_EVERY_NS: u64 = 50_000_000;

/// The link of one lane to the recorder.
pub(crate) struct Link {
    core: CoreRef,
    /// Created on first use, because most threads never wait.
    ear: OnceCell<Option<HostListener>>,
    /// Wake-up count of the process when this lane last read the region.
    seen: Cell<u64>,
    /// When this lane last checked the recorder.
    looked_ns: Cell<u64>,
}

impl Link {
    pub fn new(core: CoreRef) -> Link {
        Link { core, ear: OnceCell::new(), seen: Cell::new(0), looked_ns: Cell::new(now_ns()) }
    }

    /// Checks whether the recorder is alive. If it is not, all lanes discard their records.
    #[cold]
    fn look(&self, now_ns: u64) {
        self.looked_ns.set(now_ns);
        if !self.core.gone.is_raised() && self.core.attachment.is_host_gone() {
            self.core.host_is_gone();
        }
    }

    fn listen(&self, limit: Duration) -> HostEvent {
        let attachment = &self.core.attachment;
        match self.ear.get_or_init(|| attachment.host_listener().ok()) {
            Some(ear) => attachment.wait(ear, self.seen.get(), limit),
            None => {
                std::thread::sleep(limit.min(WITHOUT_AN_EAR));
                if attachment.is_host_gone() { HostEvent::Gone } else { HostEvent::TimedOut }
            }
        }
    }
}

impl HostLink for Link {
    fn wake_host(&self) {
        self.core.attachment.wake_host();
    }

    fn pause(&self, limit: Duration) {
        if self.listen(limit) == HostEvent::Gone {
            self.core.host_is_gone();
        }
        // Read before the region is checked again, so that no wake-up is missed.
        self.seen.set(self.core.attachment.wakes());
    }

    /// Called at the start and end of each call, so it also checks the recorder from time to time.
    #[inline]
    fn now_ns(&self) -> u64 {
        let now = now_ns();
        if now.saturating_sub(self.looked_ns.get()) >= LOOKS_EVERY_NS {
            self.look(now);
        }
        now
    }

    fn waiting(&self, waiting: bool) {
        if waiting {
            self.seen.set(self.core.attachment.wakes());
        }
    }
}

/// The time of the clock that dumps use, in nanoseconds.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
