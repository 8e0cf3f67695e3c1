//! Time that recording takes, and when the host is woken.

use std::cell::RefCell;

use tensortap_abi::*;

use crate::host::{FakeHost, state_offset};
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

#[test]
fn held_up_time_includes_all_calls_and_their_waits() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|_| host.borrow_mut().drain());
    let mut recorder = region.recorder(0, &link).unwrap();
    let desc = rig.tensor(2048);
    for task in 0..4 {
        recorder.tensor(&input(task, &desc));
    }
    assert_eq!(recorder.counters().held_up_ns, 0, "the script's clock did not move");
    link.now_ns.set(5_000_000_000);
    recorder.tensor(&input(4, &desc));
    assert_eq!(link.pauses.get(), 1);
    assert_eq!(recorder.counters().held_up_ns, 1_000_000, "one pause, without the time outside the calls");
    assert_eq!(host.borrow().state(state_offset!(held_up_ns)), 1_000_000);
}

#[test]
fn several_calls_can_share_one_reading_of_the_clock() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::never();
    link.tick_ns.set(100);
    let mut recorder = region.recorder(0, &link).unwrap();
    let task = TaskRecord::default();
    recorder.task(&task);
    assert_eq!(recorder.counters().held_up_ns, 100);
    recorder.timed(|recorder| {
        for _ in 0..5 {
            recorder.task(&task);
        }
    });
    assert_eq!((recorder.counters().held_up_ns, recorder.counters().records), (200, 6));
}

#[test]
fn the_host_is_woken_when_a_quarter_of_the_arena_is_in_use_and_not_for_every_record() {
    let rig = Rig::new(DumpGeometry { records: 400, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut host = FakeHost::new(&rig, 0);
    let link = ScriptedLink::never();
    let mut recorder = region.recorder(0, &link).unwrap();
    let desc = rig.tensor(64);
    let mut wakes_after = |records: u64| {
        for _ in 0..records {
            recorder.tensor(&input(0, &desc));
        }
        link.wakes.get()
    };
    assert_eq!(wakes_after(31), 0);
    assert_eq!(wakes_after(1), 1);
    assert_eq!(wakes_after(31), 1);
    assert_eq!(wakes_after(1), 2);
    host.drain();
    assert_eq!(wakes_after(31), 2, "less than a quarter since the host has drained");
    assert_eq!(wakes_after(1), 3);

    // Drained in between: the quarter counts from that point, not from the last wake-up.
    assert_eq!(wakes_after(20), 3);
    host.drain();
    assert_eq!(wakes_after(31), 3);
    assert_eq!(wakes_after(1), 4);
}

#[test]
fn the_host_is_woken_when_half_of_the_buffers_are_in_use() {
    let rig = Rig::new(DumpGeometry { buffers: 4, records: 2, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut host = FakeHost::new(&rig, 0);
    let link = ScriptedLink::never();
    let mut recorder = region.recorder(0, &link).unwrap();
    let mut wakes_after = |records: u32| {
        for _ in 0..records {
            recorder.task(&TaskRecord::default());
        }
        link.wakes.get()
    };
    assert_eq!(wakes_after(3), 0);
    assert_eq!(wakes_after(1), 1, "two of four are full");
    host.drain();
    assert_eq!(wakes_after(2), 1);
    assert_eq!(wakes_after(2), 2);
}

#[test]
fn flushing_and_waiting_wake_the_host() {
    let rig = Rig::new(DumpGeometry { buffers: 1, records: 1, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|_| host.borrow_mut().drain());
    let mut recorder = region.recorder(0, &link).unwrap();
    recorder.task(&TaskRecord::default());
    let before = link.wakes.get();
    recorder.task(&TaskRecord::default());
    assert_eq!(
        (link.pauses.get(), link.wakes.get()),
        (1, before + 2),
        "before the pause, and for a full buffer"
    );
    recorder.flush();
    assert_eq!(link.wakes.get(), before + 3);
}
