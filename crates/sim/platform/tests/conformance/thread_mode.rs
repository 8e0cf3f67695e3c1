//! Tests for devices in this process.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use tensortap_platform::{DeathCause, DeviceEvent, PlatformError, abandoned_devices};

use crate::{
    harness::{Case, PATIENCE, Test, eventually, launch, result, run, wait_past_wakes},
    program::{BEATS, Op, RELEASE},
    roles,
};

// The last test abandons devices, and with them address ranges.
pub const TESTS: &[Test] = &[
    ("simultaneous_devices_have_different_addresses", simultaneous_devices_have_different_addresses),
    (
        "a_program_that_ends_with_its_host_leaves_nothing_behind",
        a_program_that_ends_with_its_host_leaves_nothing_behind,
    ),
    ("crashes_are_reported_if_a_reporter_is_installed", crashes_are_reported_if_a_reporter_is_installed),
    (
        "a_crash_of_another_thread_goes_to_earlier_handlers",
        a_crash_of_another_thread_goes_to_earlier_handlers,
    ),
    ("a_panic_ends_the_device_and_not_the_host", a_panic_ends_the_device_and_not_the_host),
    ("a_program_that_runs_on_keeps_its_memory", a_program_that_runs_on_keeps_its_memory),
];

fn free_base(case: &Case) -> u64 {
    case.open().memory().addr
}

fn simultaneous_devices_have_different_addresses(case: &Case) {
    let first_free = free_base(case);
    let first = case.open();
    let mut second = case.open();
    assert_eq!(first.memory().addr, first_free);
    assert_ne!(second.memory().addr, first_free);
    run(&mut *second, Op::Describe, &[]);
    drop(first);
    assert_eq!(free_base(case), first_free, "a closed device gives its addresses back");
}

fn a_program_that_ends_with_its_host_leaves_nothing_behind(case: &Case) {
    let (before, base) = (abandoned_devices(), free_base(case));
    let mut device = case.open();
    let args = launch(&mut *device, Op::UntilGone, &[]);
    eventually("the program waits for the host", || result(&*device, args, 3) == 1);
    drop(device);
    assert_eq!(abandoned_devices(), before);
    assert_eq!(free_base(case), base);
}

fn crash(way: &str) -> (ExitStatus, String) {
    let output = roles::command(roles::CRASHING_HOST).arg(way).output().expect("a host process");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn crashes_are_reported_if_a_reporter_is_installed(_: &Case) {
    let (status, said) = crash("reported");
    assert_eq!((status.code(), said.as_str()), (Some(roles::EXIT_REPORTED), "reported 6\n"));
    let (status, said) = crash("unreported");
    assert_eq!((status.signal(), said.as_str()), (Some(6), ""));
}

fn a_crash_of_another_thread_goes_to_earlier_handlers(_: &Case) {
    let (status, said) = crash("abort");
    assert_eq!((status.signal(), said.as_str()), (Some(6), ""));
    // Only Rust's own handler reports the overflow.
    let (status, said) = crash("overflow");
    assert_eq!(status.signal(), Some(6));
    assert!(said.contains("overflowed its stack"), "{said}");
}

fn a_panic_ends_the_device_and_not_the_host(case: &Case) {
    let base = free_base(case);
    let mut device = case.open();
    let args = launch(&mut *device, Op::Panic, &[]);
    assert_eq!(wait_past_wakes(&mut *device), DeviceEvent::Died(DeathCause::default()));
    assert!(matches!(device.launch(args), Err(PlatformError::Dead { .. })));
    drop(device);
    assert_eq!(free_base(case), base);
}

fn a_program_that_runs_on_keeps_its_memory(case: &Case) {
    RELEASE.lower();
    let before = abandoned_devices();
    let mut dropped = case.open();
    let mut killed = case.open();
    let bases = [dropped.memory().addr, killed.memory().addr];
    for device in [&mut dropped, &mut killed] {
        let args = launch(&mut **device, Op::Linger, &[]);
        eventually("the program lingers", || result(&**device, args, 3) == 1);
    }
    killed.kill();
    assert_eq!(killed.wait(PATIENCE).unwrap(), DeviceEvent::Died(DeathCause::default()));
    assert!(killed.launch(bases[1]).is_err());
    drop(killed);
    drop(dropped);
    assert_eq!(abandoned_devices(), before + 2);
    let beats = BEATS.count();
    eventually("the programs read their memory", || BEATS.count() > beats + 20);
    RELEASE.raise();
    eventually("the threads end", || device_threads() == 0);
    assert!(!bases.contains(&free_base(case)), "the memory of an abandoned device was reused");
}

/// Threads of this process that belong to devices.
fn device_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    names.filter(|name| std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("tt-"))).count()
}
