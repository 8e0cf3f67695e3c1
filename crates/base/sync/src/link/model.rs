//! Model checks of sleeping and waking across a link. Nothing here has a timeout, so a lost wake-up shows
//! as a deadlock.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{DeviceEnd, Gate, HostEnd, LinkCells, LinkWords, WakeCounter, WakeReason};
use crate::atomic::{Ordering, fence};
use crate::model::{CopiedWord, DEADLOCK, RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{LinkOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

macro_rules! with_weak_fence {
    ($($name:ident: $fence:ident)*) => {$(
        struct $name;
        impl LinkOrderings for $name {
            fn $fence() {
                fence(Ordering::AcqRel);
            }
        }
    )*};
}

with_weak_fence! {
    WeakSleeper: sleep_then_look
    WeakWaker: wake_then_look
    WeakTaker: take_then_look
    WeakWorker: work_then_look
}

weakened! {
    WakeRelaxed: LinkOrderings { WAKE = Relaxed }
    SeeWakeRelaxed: LinkOrderings { SEE_WAKE = Relaxed }
}

/// An event file, which the kernel synchronizes.
struct Bell {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self { state: Mutex::new((false, false)), changed: Condvar::new() }
    }

    fn ring(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn hang_up(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    /// Waits until the bell rings, and silences it. Returns false if the other side has hung up.
    fn hear(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        while !state.0 && !state.1 {
            state = self.changed.wait(state).unwrap();
        }
        std::mem::take(&mut state.0)
    }
}

struct Link {
    host_sleeps: SharedU64,
    host_woken: SharedU64,
    device_sleepers: SharedU64,
    device_wakes: SharedU64,
    bell: Bell,
    gate: Gate,
    /// Accessed with relaxed ordering, so that only the link can order it.
    work: SharedU64,
    content: RaceChecked<u64>,
    steps: Steps,
}

/// The words of a host that only copies.
struct CopyingWords<'m>(&'m Link);

impl LinkWords for CopyingWords<'_> {
    type Error = core::convert::Infallible;

    fn host_sleeps(&self) -> impl Word<Error = Self::Error> {
        CopiedWord(&self.0.host_sleeps)
    }

    fn host_woken(&self) -> impl Word<Error = Self::Error> {
        CopiedWord(&self.0.host_woken)
    }

    fn device_sleepers(&self) -> impl Word<Error = Self::Error> {
        CopiedWord(&self.0.device_sleepers)
    }

    fn device_wakes(&self) -> impl Word<Error = Self::Error> {
        CopiedWord(&self.0.device_wakes)
    }
}

impl Link {
    fn new() -> Arc<Self> {
        let word = || SharedU64::new(0);
        Arc::new(Self {
            host_sleeps: word(),
            host_woken: word(),
            device_sleepers: word(),
            device_wakes: word(),
            bell: Bell::new(),
            gate: Gate::default(),
            work: word(),
            content: RaceChecked::new(0),
            steps: Steps::new(),
        })
    }

    fn cells(&self) -> LinkCells<'_> {
        let Self { host_sleeps, host_woken, device_sleepers, device_wakes, .. } = self;
        LinkCells { host_sleeps, host_woken, device_sleepers, device_wakes }
    }

    fn device<O: LinkOrderings>(&self) -> DeviceEnd<'_, O> {
        DeviceEnd::with_orderings(self.cells())
    }

    /// How a host waits: announce sleep, wait for the bell unless already woken, announce that it is awake,
    /// take the wake-up, look at memory.
    fn wait_for_work<L: LinkWords, O: LinkOrderings>(&self, host: &HostEnd<L, O>, wanted: u64)
    where
        L::Error: std::fmt::Debug,
    {
        loop {
            self.steps.mark();
            let woken = host.fall_asleep().unwrap();
            if !woken {
                self.bell.hear();
            }
            host.get_up().unwrap();
            host.take_wake().unwrap();
            self.steps.mark();
            if self.work.get() == wanted {
                return;
            }
        }
    }
}

/// A device that sends two wake-ups. The host may be taking the first when the second arrives.
fn the_host_sleeps<O: LinkOrderings + 'static>(copies: bool) {
    let link = Link::new();
    let device = thread::spawn({
        let link = Arc::clone(&link);
        move || {
            for work in 1..=2 {
                link.work.set(work);
                link.steps.mark();
                if link.device::<O>().wake_host() {
                    link.bell.ring();
                }
            }
        }
    });
    if copies {
        link.wait_for_work(&HostEnd::<_, O>::with_orderings(CopyingWords(&link)), 2);
    } else {
        link.wait_for_work(&HostEnd::<_, O>::with_orderings(link.cells()), 2);
    }
    device.join().unwrap();
}

/// A device thread looks at memory, finds nothing and sleeps. Another thread hears the bell for it.
fn a_device_thread_sleeps<O: LinkOrderings + 'static>(copies: bool) {
    let link = Link::new();
    let sleeper = thread::spawn({
        let link = Arc::clone(&link);
        move || {
            let device = link.device::<O>();
            let seen = device.wakes();
            link.steps.mark();
            if seen == 0 {
                assert_eq!(device.sleep(&link.gate, seen, None), WakeReason::Woken);
            }
            assert_eq!(link.content.read(), 7);
            link.bell.hang_up();
        }
    });
    let listener = thread::spawn({
        let link = Arc::clone(&link);
        move || {
            while link.bell.hear() {
                link.gate.open();
            }
        }
    });
    link.content.write(7);
    link.steps.mark();
    let mut wakes = WakeCounter::default();
    let rings = if copies {
        HostEnd::<_, O>::with_orderings(CopyingWords(&link)).wake_device(&mut wakes)
    } else {
        HostEnd::<_, O>::with_orderings(link.cells()).wake_device(&mut wakes)
    };
    if rings.unwrap() {
        link.bell.ring();
    }
    sleeper.join().unwrap();
    listener.join().unwrap();
}

#[test]
fn a_host_misses_no_wake() {
    holds(|| the_host_sleeps::<ProvenOrderings>(false));
}

#[test]
fn a_copying_host_misses_no_wake() {
    holds(|| the_host_sleeps::<ProvenOrderings>(true));
}

#[test]
fn a_device_thread_misses_no_wake_and_sees_earlier_writes() {
    holds(|| a_device_thread_sleeps::<ProvenOrderings>(false));
    holds(|| a_device_thread_sleeps::<ProvenOrderings>(true));
}

#[test]
fn sleeping_without_the_fence_is_refuted() {
    refuted(DEADLOCK, || the_host_sleeps::<WeakSleeper>(false));
    refuted(DEADLOCK, || the_host_sleeps::<WeakSleeper>(true));
    refuted(DEADLOCK, || a_device_thread_sleeps::<WeakSleeper>(false));
}

#[test]
fn waking_without_the_fence_is_refuted() {
    refuted(DEADLOCK, || the_host_sleeps::<WeakWaker>(false));
    refuted(DEADLOCK, || a_device_thread_sleeps::<WeakWaker>(false));
    refuted(DEADLOCK, || a_device_thread_sleeps::<WeakWaker>(true));
}

#[test]
fn taking_a_wake_without_the_fence_is_refuted() {
    refuted(DEADLOCK, || the_host_sleeps::<WeakTaker>(false));
}

#[test]
fn seeing_a_pending_wake_without_the_fence_is_refuted() {
    refuted(DEADLOCK, || the_host_sleeps::<WeakWorker>(false));
}

#[test]
fn a_wake_without_release_is_refuted() {
    refuted(RACE, || a_device_thread_sleeps::<WakeRelaxed>(false));
}

#[test]
fn seeing_a_wake_without_acquire_is_refuted() {
    refuted(RACE, || a_device_thread_sleeps::<SeeWakeRelaxed>(false));
}
