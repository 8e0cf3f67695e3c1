//! One suite for every platform in every device mode, plus tests for features of a single mode.
//!
//! The binary has its own `main` because it becomes the device: a device process is this executable, started
//! again.
#![expect(clippy::cast_possible_truncation, reason = "numbers in these tests are small, or cut on purpose")]

#[path = "conformance/crash.rs"]
mod crash;
#[path = "conformance/generic.rs"]
mod generic;
#[path = "conformance/handshake.rs"]
mod handshake;
#[path = "conformance/harness.rs"]
mod harness;
#[path = "conformance/lifetime.rs"]
mod lifetime;
#[path = "conformance/memory.rs"]
mod memory;
#[path = "conformance/program.rs"]
mod program;
#[path = "conformance/roles.rs"]
mod roles;
#[path = "conformance/thread_mode.rs"]
mod thread_mode;

use std::process::ExitCode;

use harness::{Suite, cases};

fn main() -> ExitCode {
    roles::play_before_becoming_device();
    tensortap_platform::become_device_if_asked(&program::TestProgram);
    roles::play();

    let mut suite = Suite::from_args();
    for case in cases() {
        suite.run_all(&case, generic::TESTS);
        suite.run_all(&case, memory::TESTS);
    }
    for case in cases().filter(harness::Case::is_process) {
        suite.run_all(&case, crash::TESTS);
        suite.run_all(&case, lifetime::TESTS);
    }
    for case in cases().filter(harness::Case::is_thread) {
        suite.run_all(&case, thread_mode::TESTS);
    }
    suite.run_all(&harness::default_case(), handshake::TESTS);
    suite.finish()
}
