//! A link whose pauses let the test act as the host.

use core::time::Duration;
use std::cell::{Cell, RefCell};

use tensortap_abi::DeviceRange;
use tensortap_recorder::HostLink;

/// Called at each pause with the number of pauses so far.
type OnPause<'t> = Box<dyn FnMut(u64) + 't>;

/// A link with a clock that moves only with pauses and readings.
pub struct ScriptedLink<'t> {
    on_pause: RefCell<OnPause<'t>>,
    pub now_ns: Cell<u64>,
    /// By how much each reading moves the clock.
    pub tick_ns: Cell<u64>,
    pub pauses: Cell<u64>,
    pub wakes: Cell<u64>,
    /// Published waiting states, in order.
    pub waiting: RefCell<Vec<bool>>,
    /// Ranges that were announced as soon to be written.
    pub named: RefCell<Vec<DeviceRange>>,
}

impl<'t> ScriptedLink<'t> {
    pub fn new(on_pause: impl FnMut(u64) + 't) -> Self {
        ScriptedLink {
            on_pause: RefCell::new(Box::new(on_pause)),
            now_ns: Cell::new(0),
            tick_ns: Cell::new(0),
            pauses: Cell::new(0),
            wakes: Cell::new(0),
            waiting: RefCell::default(),
            named: RefCell::default(),
        }
    }

    /// For runs in which no thread may wait.
    pub fn never() -> Self {
        Self::new(|_| panic!("a thread paused although it must not wait"))
    }
}

impl HostLink for ScriptedLink<'_> {
    fn wake_host(&self) {
        self.wakes.set(self.wakes.get() + 1);
    }

    fn pause(&self, limit: Duration) {
        assert_eq!(self.waiting.borrow().last(), Some(&true), "a pause is published");
        self.now_ns.set(self.now_ns.get() + u64::try_from(limit.as_nanos()).unwrap());
        self.pauses.set(self.pauses.get() + 1);
        (self.on_pause.borrow_mut())(self.pauses.get());
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + self.tick_ns.get());
        self.now_ns.get()
    }

    fn waiting(&self, waiting: bool) {
        self.waiting.borrow_mut().push(waiting);
    }

    fn soon(&self, range: DeviceRange) {
        self.named.borrow_mut().push(range);
    }
}
