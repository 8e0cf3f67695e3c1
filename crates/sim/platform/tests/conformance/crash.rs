//! A device process dies: the host survives, learns the cause, and can still read device memory.

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use tensortap_platform::{DeathCause, Device, DeviceEvent, PlatformError};

use crate::{
    harness::{Case, PATIENCE, Test, eventually, is_reaped, launch, result, run, wait_past_wakes},
    program::{BAD_ADDRESS, Op},
};

pub const TESTS: &[Test] = &[
    ("a_fault_is_recorded_with_its_address", a_fault_is_recorded_with_its_address),
    ("an_abort_is_recorded", an_abort_is_recorded),
    ("a_stack_overflow_is_recorded", a_stack_overflow_is_recorded),
    (
        "a_fault_signal_from_another_process_has_no_address",
        a_fault_signal_from_another_process_has_no_address,
    ),
    ("sigkill_is_reported", sigkill_is_reported),
    ("an_exit_is_reported_with_its_code", an_exit_is_reported_with_its_code),
    ("a_panic_is_reported_with_its_code", a_panic_is_reported_with_its_code),
    ("a_dead_device_stays_dead_and_readable", a_dead_device_stays_dead_and_readable),
    ("launching_on_a_dead_idle_device_fails", launching_on_a_dead_idle_device_fails),
    ("an_interrupt_leaves_the_device_running", an_interrupt_leaves_the_device_running),
];

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;

fn by_signal(signal: i32) -> DeviceEvent {
    DeviceEvent::Died(DeathCause { signal: Some(signal), code: None })
}

fn by_code(code: i32) -> DeviceEvent {
    DeviceEvent::Died(DeathCause { signal: None, code: Some(code) })
}

fn process(device: &dyn Device) -> Pid {
    let pid = i32::try_from(device.process_id().expect("a process")).unwrap();
    Pid::from_raw(pid).unwrap()
}

fn send(device: &dyn Device, signal: Signal) {
    kill_process(process(device), signal).unwrap();
}

/// The signal, address and count that the crash recorder stored.
fn recorded(device: &dyn Device, args: u64) -> [u64; 3] {
    [0, 1, 2].map(|index| result(device, args, index))
}

fn a_fault_is_recorded_with_its_address(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Segv, &[]);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGSEGV));
    assert_eq!(recorded(&*device, args), [11, BAD_ADDRESS, 1]);
}

fn an_abort_is_recorded(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Abort, &[]);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGABRT));
    assert_eq!(recorded(&*device, args), [6, 0, 1]);
}

fn a_stack_overflow_is_recorded(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Overflow, &[]);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGSEGV));
    let [signal, address, count] = recorded(&*device, args);
    assert_eq!((signal, count), (11, 1));
    assert_ne!(address, 0);
}

fn a_fault_signal_from_another_process_has_no_address(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Hang, &[]);
    eventually("the program hangs", || result(&*device, args, 3) == 1);
    send(&*device, Signal::SEGV);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGSEGV));
    assert_eq!(recorded(&*device, args), [11, 0, 1]);
}

fn sigkill_is_reported(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Hang, &[]);
    eventually("the program hangs", || result(&*device, args, 3) == 1);
    send(&*device, Signal::KILL);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGKILL));
    assert_eq!(recorded(&*device, args), [0, 0, 0]);
}

fn an_exit_is_reported_with_its_code(case: &Case) {
    let mut device = case.open();
    launch(&mut *device, Op::Exit, &[7]);
    assert_eq!(wait_past_wakes(&mut *device), by_code(7));
}

fn a_panic_is_reported_with_its_code(case: &Case) {
    let mut device = case.open();
    launch(&mut *device, Op::Panic, &[]);
    assert_eq!(wait_past_wakes(&mut *device), by_code(101));
}

fn a_dead_device_stays_dead_and_readable(case: &Case) {
    let mut device = case.open();
    let pid = device.process_id().unwrap();
    let addr = device.allocate(64, 64, "kept").unwrap();
    device.copy_to(addr, b"still here").unwrap();
    let args = launch(&mut *device, Op::Segv, &[]);
    assert_eq!(wait_past_wakes(&mut *device), by_signal(SIGSEGV));
    assert!(is_reaped(pid));
    assert_eq!(device.wait(PATIENCE).unwrap(), by_signal(SIGSEGV));
    let message = device.launch(args).unwrap_err().to_string();
    assert!(message.contains("SIGSEGV"), "{message}");
    device.wake();
    device.kill();
    assert_eq!(device.wait(PATIENCE).unwrap(), by_signal(SIGSEGV));
    let mut kept = [0; 10];
    device.copy_from(addr, &mut kept).unwrap();
    assert_eq!(&kept, b"still here");
}

fn launching_on_a_dead_idle_device_fails(case: &Case) {
    let mut device = case.open();
    let pid = device.process_id().unwrap();
    let args = device.allocate(64, 64, "arguments").unwrap();
    let exited = pidfd_open(process(&*device), PidfdFlags::empty()).unwrap();
    send(&*device, Signal::KILL);
    // Wait for the last thread: after its first thread has ended, a process can still read its socket.
    poll(&mut [PollFd::new(&exited, PollFlags::IN)], None).unwrap();
    assert!(matches!(
        device.launch(args),
        Err(PlatformError::Dead { cause: DeathCause { signal: Some(SIGKILL), code: None } })
    ));
    assert!(is_reaped(pid));
}

fn an_interrupt_leaves_the_device_running(case: &Case) {
    let mut device = case.open();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        send(&*device, signal);
    }
    run(&mut *device, Op::Describe, &[]);
}
