//! Other processes that tests need: this binary, started with the name of a role.

use std::{
    fmt::Write,
    process::{Command, exit},
};

use tensortap_platform::{CrashReporter, DeviceMode, find, report_crashes_in_this_process};

use crate::{
    harness::{Case, default_case, eventually, launch, result, run},
    program::{self, Op},
};

const ROLE_VARIABLE: &str = "PLATFORM_TEST_ROLE";

/// Opens a device whose program hangs, prints the device's process id, and hangs itself.
pub const HANGING_HOST: &str = "hanging host";
/// Runs a device whose program prints, and prints one JSON document itself.
pub const PRINTING_HOST: &str = "printing host";
/// Opens a device and never calls `become_device_if_asked`.
pub const FORGETFUL_HOST: &str = "forgetful host";

/// Installs a crash reporter and crashes. The argument selects how.
pub const CRASHING_HOST: &str = "crashing host";

/// Exit code of a crashing host after its reporter ran.
pub const EXIT_REPORTED: i32 = 78;

/// Exit code of a forgetful host that could not open its device.
pub const EXIT_REFUSED: i32 = 77;

/// The command that starts this executable in a role.
pub fn command(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE_VARIABLE, role);
    command
}

fn role() -> String {
    std::env::var(ROLE_VARIABLE).unwrap_or_default()
}

/// Roles that do not call `become_device_if_asked`.
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

/// Roles that call it.
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
    if way != "unreported" {
        let of_device: CrashReporter = |signal, _, text| writeln!(text, "reported {signal}").is_ok();
        let of_no_device: CrashReporter = |_, _, _| false;
        let reporter = if way == "reported" { of_device } else { of_no_device };
        // The second call only changes reporter and exit code.
        report_crashes_in_this_process(of_no_device, 1).expect("handlers are installed");
        report_crashes_in_this_process(reporter, EXIT_REPORTED).expect("handlers are installed");
    }
    if way == "overflow" {
        std::hint::black_box(program::recurse(std::hint::black_box(1)));
    }
    std::process::abort();
}
