//! Other processes that tests need: this binary again, in another role.

use std::{
    fmt::Write,
    process::{Command, exit},
};

use tensortap_platform::{CrashTeller, DeviceMode, find, tell_crashes_in_this_process};

use crate::{
    harness::{Case, default_case, eventually, launch, result, run},
    program::{self, Op},
};

const ROLE_VARIABLE: &str = "PLATFORM_TEST_ROLE";

/// Opens a device whose program hangs, prints the device's process number and hangs itself.
pub const HANGING_HOST: &str = "hanging host";
/// Runs a device whose program prints, and prints one JSON document itself.
pub const PRINTING_HOST: &str = "printing host";
/// A program that opens a device and never calls `become_device_if_asked`.
pub const FORGETFUL_HOST: &str = "forgetful host";

/// Has crashes told, and crashes in a way that its argument names.
pub const CRASHING_HOST: &str = "crashing host";

/// Exit code of a crashing host whose crash was told.
pub const EXIT_TOLD: i32 = 78;

/// Exit code of a forgetful host that could not open its device.
pub const EXIT_REFUSED: i32 = 77;

/// This executable in a role.
pub fn command(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE_VARIABLE, role);
    command
}

fn role() -> String {
    std::env::var(ROLE_VARIABLE).unwrap_or_default()
}

/// Roles that forget to become a device.
pub fn play_before_becoming_device() {
    if role() != FORGETFUL_HOST {
        return;
    }
    let mode = std::env::args().nth(1).and_then(|name| DeviceMode::parse(&name));
    let case = Case { mode: mode.unwrap_or_default(), ..default_case() };
    if let Err(error) = case.open_with(&case.options()) {
        eprintln!("{error}");
        exit(EXIT_REFUSED);
    }
    exit(0);
}

/// Roles that do not.
pub fn play() {
    match role().as_str() {
        "" => {}
        HANGING_HOST => hanging_host(),
        PRINTING_HOST => printing_host(),
        CRASHING_HOST => crashing_host(),
        other => panic!("no role `{other}`"),
    }
}

fn case() -> Case {
    let name = std::env::args().nth(1).expect("a platform");
    Case { platform: find(&name).expect("a known platform"), mode: DeviceMode::Process }
}

fn hanging_host() -> ! {
    let mut device = case().open();
    let args = launch(&mut *device, Op::Hang, &[]);
    eventually("the program hangs", || result(&*device, args, 3) == 1);
    println!("{}", device.process_id().expect("a process"));
    loop {
        std::thread::park();
    }
}

fn printing_host() -> ! {
    let mut device = case().open();
    run(&mut *device, Op::Print, &[]);
    println!("{{}}");
    drop(device);
    exit(0);
}

fn crashing_host() -> ! {
    let way = std::env::args().nth(1).expect("a way to crash");
    if way != "untold" {
        let told: CrashTeller = |signal, _, text| writeln!(text, "told of {signal}").is_ok();
        let of_no_device: CrashTeller = |_, _, _| false;
        let teller = if way == "told" { told } else { of_no_device };
        // The second call changes nothing but teller and code.
        tell_crashes_in_this_process(of_no_device, 1).expect("handlers are installed");
        tell_crashes_in_this_process(teller, EXIT_TOLD).expect("handlers are installed");
    }
    if way == "overflow" {
        std::hint::black_box(program::recurse(std::hint::black_box(1)));
    }
    std::process::abort();
}
