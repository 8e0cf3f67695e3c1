//! The recorder, as a thread that records knows it.

use std::{
    cell::{Cell, OnceCell},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tensortap_platform::attach::{Ear, HostNews};
use tensortap_recorder::HostLink;

use crate::core::CoreRef;

/// How a thread that may open no more files looks for the recorder.
const WITHOUT_AN_EAR: Duration = Duration::from_millis(1);

/// How long a lane with room may not have looked for the recorder: without room it looks anyway.
const LOOKS_EVERY_NS: u64 = 50_000_000;

/// The way of one lane to the recorder.
pub(crate) struct Link {
    core: CoreRef,
    /// Made when first needed: most threads never wait.
    ear: OnceCell<Option<Ear>>,
    /// How often the recorder had woken this process when this lane last looked at the region.
    seen: Cell<u64>,
    /// When this lane last looked whether the recorder is there.
    looked_ns: Cell<u64>,
}

impl Link {
    pub fn new(core: CoreRef) -> Link {
        Link { core, ear: OnceCell::new(), seen: Cell::new(0), looked_ns: Cell::new(now_ns()) }
    }

    /// Looks whether the recorder is there, and lets every lane discard if it is not.
    #[cold]
    fn look(&self, now_ns: u64) {
        self.looked_ns.set(now_ns);
        if !self.core.gone.is_raised() && self.core.attachment.is_host_gone() {
            self.core.host_is_gone();
        }
    }

    fn listen(&self, limit: Duration) -> HostNews {
        let attachment = &self.core.attachment;
        match self.ear.get_or_init(|| attachment.ear().ok()) {
            Some(ear) => attachment.wait(ear, self.seen.get(), limit),
            None => {
                std::thread::sleep(limit.min(WITHOUT_AN_EAR));
                if attachment.is_host_gone() { HostNews::Gone } else { HostNews::Nothing }
            }
        }
    }
}

impl HostLink for Link {
    fn wake_host(&self) {
        self.core.attachment.wake_host();
    }

    fn pause(&self, limit: Duration) {
        if self.listen(limit) == HostNews::Gone {
            self.core.host_is_gone();
        }
        // Counted before the region is looked at again, so that no wake in between is missed.
        self.seen.set(self.core.attachment.wakes());
    }

    /// Read when a call begins and ends, which is the moment to look for the recorder now and then.
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

/// Nanoseconds of the clock that dumps use.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
