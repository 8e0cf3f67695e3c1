//! Behavior of the link.

use std::thread;
use std::time::{Duration, Instant};

use super::{DeviceEnd, Gate, HostEnd, LinkCells, WakeCounter, WakeReason};
use crate::SharedU64;

#[derive(Default)]
struct Page([SharedU64; 4]);

impl Page {
    fn ends(&self) -> (HostEnd<LinkCells<'_>>, DeviceEnd<'_>) {
        let [host_sleeps, host_woken, device_sleepers, device_wakes] = &self.0;
        let cells = LinkCells { host_sleeps, host_woken, device_sleepers, device_wakes };
        (HostEnd::new(cells), DeviceEnd::new(cells))
    }
}

#[test]
fn the_bell_rings_for_a_sleeping_host_only_and_once() {
    let page = Page::default();
    let (host, device) = page.ends();
    assert!(!device.wake_host(), "the host does not sleep");
    assert_eq!(host.fall_asleep(), Ok(true), "the wake was kept");
    let Ok(()) = host.take_wake();
    assert_eq!(host.fall_asleep(), Ok(false), "the wake was taken");
    assert!(device.wake_host());
    assert!(!device.wake_host(), "the bell already rings");
    let Ok(()) = host.get_up();
    let Ok(()) = host.take_wake();
    assert!(!device.wake_host(), "the host is awake");
}

#[test]
fn the_bell_rings_for_sleeping_device_threads_only() {
    let (page, gate) = (Page::default(), Gate::default());
    let (host, device) = page.ends();
    let mut wakes = WakeCounter::default();
    assert_eq!((host.wake_device(&mut wakes), device.wakes()), (Ok(false), 1), "the wake was kept");
    assert_eq!(device.sleep(&gate, 0, None), WakeReason::Woken);
    thread::scope(|scope| {
        let sleepers = [(); 2].map(|()| scope.spawn(|| device.sleep(&gate, 1, None)));
        while page.0[2].get() != 2 {
            thread::yield_now();
        }
        assert_eq!(host.wake_device(&mut wakes), Ok(true));
        gate.open();
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), WakeReason::Woken);
        }
    });
    assert_eq!(host.wake_device(&mut wakes), Ok(false), "all threads are awake");
}

#[test]
fn a_sleep_ends_at_its_deadline_or_when_the_host_goes_away() {
    let (page, gate) = (Page::default(), Gate::default());
    let (_, device) = page.ends();
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(device.sleep(&gate, 0, Some(soon)), WakeReason::TimedOut);
    assert!(Instant::now() >= soon);
    gate.close();
    assert_eq!(device.sleep(&gate, 0, None), WakeReason::HostGone);
}

#[test]
fn an_overwritten_wake_count_is_restored() {
    let page = Page::default();
    let (host, device) = page.ends();
    let mut wakes = WakeCounter::default();
    page.0[3].set(u64::MAX);
    host.wake_device(&mut wakes).unwrap();
    assert_eq!(device.wakes(), 1);
}
