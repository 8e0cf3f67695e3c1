//! Code that the suites share: the scenes, the venues each scene can run in, and the rotation over venues.
//!
//! A **venue** is a platform, a runtime and a device mode. A property that may depend on the venue is tested
//! in every venue: each scene's golden, captured bytes, races and failures. Other properties are tested in one
//! venue per case, and the cases rotate over the venues. Examples are faults that damage a kernel's output,
//! the verdicts of `blame` and `replay` about them, and the distribution of work over schedulers and blocks.
//!
//! A rotation ends with [`Rotation::assert_complete`], which checks that every kind met every platform,
//! runtime and mode. A new case takes its venue from [`Rotation::next`]. A scene that needs only some venues
//! takes its [`share`].
//!
//! `count_run` lets `scripts/test` report how many runs and replays the suites made.
#![allow(dead_code, reason = "each suite uses only a part of it")]

pub mod regions;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::OpenOptions;
use std::hash::Hash;
use std::io::Write;
use std::path::PathBuf;

use tensortap::{DeviceMode, PLATFORMS, RunConfig};

/// Text without line breaks and indentation, so that a test does not depend on where output is wrapped.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The `tensortap` executable. Tests need it because a test binary cannot become a device.
pub fn executable() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tensortap"))
}

/// Names of the scenes that are not hidden.
pub fn listed_scenes() -> Vec<&'static str> {
    tensortap_cli::scenes().scenes().iter().filter(|s| !s.hidden()).map(|s| s.name()).collect()
}

/// Gives a scene parameters that shorten the run, without losing a kernel, a fault or a kind of edge.
pub fn smaller(config: RunConfig) -> RunConfig {
    let params: &[(&str, u64)] = match config.scene.as_str() {
        "stream" => &[("tasks", 12), ("bytes", 70_000)],
        "tiny_llm" => &[("tokens", 4), ("prompt", 2)],
        "bgemm" => &[("m", 64), ("n", 96), ("k", 96), ("batch", 2)],
        _ => &[],
    };
    params.iter().fold(config, |config, (name, value)| config.param(name, value))
}

/// A platform, a runtime and a device mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Venue {
    pub platform: &'static str,
    pub runtime: &'static str,
    pub mode: DeviceMode,
}

impl Venue {
    pub fn set(self, config: &mut RunConfig) {
        config.platform = self.platform.into();
        config.runtime = Some(self.runtime.into());
        config.device_mode = self.mode;
    }

    /// The names of platform, runtime and mode.
    fn parts(self) -> [&'static str; 3] {
        [self.platform, self.runtime, self.mode.name()]
    }
}

impl fmt::Display for Venue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} mode", self.platform, self.runtime, self.mode)
    }
}

/// Every venue of a scene: all combinations of platform, supported runtime, and device mode.
pub fn venues(scene: &str) -> Vec<Venue> {
    let runtimes = tensortap::runtimes_of(tensortap_cli::scenes().find(scene).expect("a built-in scene"));
    let mut all = Vec::new();
    for platform in PLATFORMS {
        for &runtime in &runtimes {
            for mode in [DeviceMode::Process, DeviceMode::Thread] {
                all.push(Venue { platform: platform.name(), runtime, mode });
            }
        }
    }
    assert!(all.len() >= 2 * PLATFORMS.len(), "{scene} runs on every platform in both modes");
    all
}

/// Assigns venues to cases in rotation, separately for each kind. A kind with at least as many cases as
/// venues meets all of them.
pub struct Rotation<K> {
    turns: HashMap<K, usize>,
    met: HashMap<K, BTreeSet<&'static str>>,
}

impl<K: Copy + Eq + Hash + fmt::Debug> Rotation<K> {
    pub fn new() -> Rotation<K> {
        Rotation { turns: HashMap::new(), met: HashMap::new() }
    }

    /// The venue of the next case of a kind.
    pub fn next(&mut self, scene: &str, kind: K) -> Venue {
        let first = self.turns.len();
        let turn = self.turns.entry(kind).or_insert(first);
        let venue = in_turn(&venues(scene), *turn);
        *turn += 1;
        self.met.entry(kind).or_default().extend(venue.parts());
        venue
    }

    /// Fails unless the cases of every kind met every platform, every runtime and both modes.
    pub fn assert_complete(&self) {
        let everything = |scene| venues(scene).into_iter().flat_map(Venue::parts);
        let expected: BTreeSet<&str> = listed_scenes().into_iter().flat_map(everything).collect();
        assert!(!self.met.is_empty(), "no case was tested");
        for (kind, met) in &self.met {
            assert_eq!(*met, expected, "platforms, runtimes and modes where {kind:?} was tested");
        }
    }
}

/// The venue with number `turn` in the rotation. Each venue occurs once before the first repeats. Consecutive
/// venues differ in more than one part.
fn in_turn(all: &[Venue], turn: usize) -> Venue {
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let step = (1..all.len().div_ceil(2)).rev().find(|&step| divisor(step, all.len()) == 1).unwrap_or(1);
    all[turn * step % all.len()]
}

/// Every `of`-th venue of a scene, starting with number `turn`. The shares of all turns cover all venues.
pub fn share(scene: &str, turn: usize, of: usize) -> Vec<Venue> {
    venues(scene).into_iter().skip(turn % of).step_by(of).collect()
}

/// Counts a run of a scene or a replay: appends a byte to the file in `TENSORTAP_TEST_RUNS`. `scripts/test`
/// reports the count.
pub fn count_run() {
    if let Some(file) = std::env::var_os("TENSORTAP_TEST_RUNS") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(b".")).expect("the count can be written");
    }
}

/// Counts a call of the command line if it runs something.
pub fn count_call(args: &[&str]) {
    if args.first().is_some_and(|verb| ["run", "replay"].contains(verb)) {
        count_run();
    }
}

/// A Python interpreter that can run `line`: the one in `TENSORTAP_PYTHON`, or `python3`. Otherwise reports
/// that `what` is skipped, or fails if `TENSORTAP_SKIP_NOTHING` is set.
pub fn python(line: &str, what: &str) -> Option<std::ffi::OsString> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let tried =
        std::process::Command::new(&python).args(["-c", line]).stdin(std::process::Stdio::null()).output();
    if tried.is_ok_and(|said| said.status.success()) {
        return Some(python);
    }
    let notice = format!("no python3 that can run `{line}`; set TENSORTAP_PYTHON to another interpreter");
    assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "{notice}");
    eprintln!("SKIPPED: {what}: {notice}");
    None
}

/// A line that runs only if OpenCL works from Python.
pub const OPENCL: &str = "import pyopencl; assert pyopencl.get_platforms()[0].get_devices()";
