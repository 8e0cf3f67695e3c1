//! No device process is orphaned, and no zombie remains.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use tensortap_platform::{DeathCause, DeviceEvent};

use crate::{
    harness::{Case, PATIENCE, Test, eventually, is_alive, is_reaped, launch, result},
    program::{Op, PRINTED},
    roles,
};

pub const TESTS: &[Test] = &[
    ("kill_ends_and_reaps", kill_ends_and_reaps),
    ("drop_ends_and_reaps_a_hung_device", drop_ends_and_reaps_a_hung_device),
    ("a_device_ends_with_its_host", a_device_ends_with_its_host),
    ("device_output_goes_to_standard_error", device_output_goes_to_standard_error),
];

fn kill_ends_and_reaps(case: &Case) {
    let mut device = case.open();
    let pid = device.process_id().unwrap();
    launch(&mut *device, Op::Hang, &[]);
    assert!(is_alive(pid));
    device.kill();
    assert!(is_reaped(pid));
    let killed = DeviceEvent::Died(DeathCause { signal: Some(9), code: None });
    assert_eq!(device.wait(PATIENCE).unwrap(), killed);
}

fn drop_ends_and_reaps_a_hung_device(case: &Case) {
    let mut device = case.open();
    let pid = device.process_id().unwrap();
    let args = launch(&mut *device, Op::Hang, &[]);
    eventually("the program hangs", || result(&*device, args, 3) == 1);
    assert!(is_alive(pid));
    drop(device);
    assert!(is_reaped(pid));
}

fn a_device_ends_with_its_host(case: &Case) {
    let mut host = roles::command(roles::HANGING_HOST)
        .arg(case.platform.name())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a host process");
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().expect("the number of the device process");
    assert!(is_alive(pid), "the device runs while its host does");
    host.kill().unwrap();
    host.wait().unwrap();
    eventually("the device ends", || !is_alive(pid));
}

fn device_output_goes_to_standard_error(case: &Case) {
    let output =
        roles::command(roles::PRINTING_HOST).arg(case.platform.name()).output().expect("a host process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{}\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains(PRINTED));
}
