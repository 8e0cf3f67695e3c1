//! Runs the tests and reports them, with helpers that tests share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use tensortap_platform::{
    Device, DeviceEvent, DeviceMode, DeviceOptions, PLATFORMS, Platform, PlatformError,
};

use crate::program::{self, Op, TestProgram};

/// Longer than any operation takes. Reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A platform in a device mode.
pub struct Case {
    pub platform: &'static dyn Platform,
    pub mode: DeviceMode,
}

pub type Test = (&'static str, fn(&Case));

pub fn cases() -> impl Iterator<Item = Case> {
    PLATFORMS
        .iter()
        .flat_map(|&platform| [DeviceMode::Process, DeviceMode::Thread].map(|mode| Case { platform, mode }))
}

pub fn default_case() -> Case {
    Case { platform: PLATFORMS[0], mode: DeviceMode::Process }
}

impl Case {
    pub fn is_process(&self) -> bool {
        self.mode == DeviceMode::Process
    }

    pub fn is_thread(&self) -> bool {
        self.mode == DeviceMode::Thread
    }

    pub fn options(&self) -> DeviceOptions {
        let mut options = DeviceOptions::new(Arc::new(TestProgram));
        options.mode = self.mode;
        options.memory_bytes = Some(4 << 20);
        options.handshake_timeout = PATIENCE;
        options
    }

    pub fn open(&self) -> Box<dyn Device> {
        self.open_with(&self.options()).expect("the device opens")
    }

    pub fn open_with(&self, options: &DeviceOptions) -> Result<Box<dyn Device>, PlatformError> {
        self.platform.open(options)
    }
}

/// Launches `op` with `params` and returns the address of its argument words.
pub fn launch(device: &mut dyn Device, op: Op, params: &[u64]) -> u64 {
    let args = device.allocate(8 * program::ARG_WORDS, 64, "arguments").expect("room for arguments");
    let words: Vec<u64> = std::iter::once(op as u64).chain(params.iter().copied()).collect();
    assert!(words.len() as u64 <= program::RESULTS);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    device.copy_to(args, &vec![0; 8 * program::ARG_WORDS as usize]).expect("arguments are inside");
    device.copy_to(args, &bytes).expect("arguments are inside");
    device.launch(args).expect("the device launches");
    args
}

/// Address of result word `index`.
pub fn result_addr(args: u64, index: u64) -> u64 {
    args + 8 * (program::RESULTS + index)
}

pub fn result(device: &dyn Device, args: u64, index: u64) -> u64 {
    device.read_u64(result_addr(args, index)).expect("results are inside")
}

/// Waits for the end of a launch, ignoring wakes.
pub fn wait_finished(device: &mut dyn Device) {
    assert_eq!(wait_past_wakes(device), DeviceEvent::Finished);
}

pub fn wait_past_wakes(device: &mut dyn Device) -> DeviceEvent {
    loop {
        match device.wait(PATIENCE).expect("waiting works") {
            DeviceEvent::Woken => {}
            event => return event,
        }
    }
}

pub fn run(device: &mut dyn Device, op: Op, params: &[u64]) -> u64 {
    let args = launch(device, op, params);
    wait_finished(device);
    args
}

/// Polls until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process exists and has not ended. A zombie counts as ended.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Whether a process is completely gone. A zombie is not.
pub fn is_reaped(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

pub struct Suite {
    filter: Option<String>,
    passed: u32,
    failed: Vec<String>,
}

impl Suite {
    /// The first argument that is not an option selects tests by a part of their name.
    pub fn from_args() -> Suite {
        let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
        Suite { filter, passed: 0, failed: Vec::new() }
    }

    pub fn run_all(&mut self, case: &Case, tests: &[Test]) {
        for (name, test) in tests {
            self.run(&format!("{}::{}::{name}", case.platform.name(), case.mode), || test(case));
        }
    }

    fn run(&mut self, name: &str, test: impl FnOnce()) {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        if catch_unwind(AssertUnwindSafe(test)).is_ok() {
            println!("test {name} ... ok");
            self.passed += 1;
        } else {
            println!("test {name} ... FAILED");
            self.failed.push(name.to_owned());
        }
    }

    pub fn finish(self) -> ExitCode {
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
