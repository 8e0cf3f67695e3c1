//! What the suites share: which scenes there are, the venues each can run in, and whose turn a venue is.
//!
//! What may depend on the venue (a race, a failure, the bytes that are captured) is tried in every venue. What cannot, such
//! as a fault that damages a kernel's output wherever it runs, is tried in one venue each, and the venues take turns.
#![allow(dead_code, reason = "each suite uses its share")]

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::OpenOptions;
use std::hash::Hash;
use std::io::Write;
use std::path::PathBuf;

use tensortap::{DeviceMode, PLATFORMS, RunConfig};

/// The real executable: a test binary cannot become a device.
pub fn executable() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tensortap"))
}

/// Names of the scenes a user sees.
pub fn listed_scenes() -> Vec<&'static str> {
    tensortap_cli::scenes().scenes().iter().filter(|s| !s.hidden()).map(|s| s.name()).collect()
}

/// The scene of a configuration with parameters that keep it short and take no kernel, fault or kind of edge away.
pub fn smaller(config: RunConfig) -> RunConfig {
    let params: &[(&str, u64)] = match config.scene.as_str() {
        "stream" => &[("tasks", 12), ("bytes", 70_000)],
        "tiny_llm" => &[("tokens", 4), ("prompt", 2)],
        "bgemm" => &[("m", 64), ("n", 96), ("k", 96), ("batch", 2)],
        _ => &[],
    };
    params.iter().fold(config, |config, (name, value)| config.param(name, value))
}

/// Where a scene runs.
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

    /// A name for each of the three.
    fn parts(self) -> [&'static str; 3] {
        [self.platform, self.runtime, self.mode.name()]
    }
}

impl fmt::Display for Venue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} mode", self.platform, self.runtime, self.mode)
    }
}

/// Every combination of platform, runtime that the scene makes sense for, and device mode.
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

/// Hands out venues in turn, to cases of each kind on their own: a kind of which there are as many cases as venues meets all.
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

    /// Fails unless cases of every kind met every platform, every runtime and both modes.
    pub fn assert_complete(&self) {
        let everything = |scene| venues(scene).into_iter().flat_map(Venue::parts);
        let expected: BTreeSet<&str> = listed_scenes().into_iter().flat_map(everything).collect();
        assert!(!self.met.is_empty(), "nothing was tried");
        for (kind, met) in &self.met {
            assert_eq!(*met, expected, "where {kind:?} was tried");
        }
    }
}

/// Number `turn` of `all` venues, each once before the first comes again; neighbours differ in more than one respect.
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

/// Every `of`-th venue of a scene, beginning with number `turn`: scenes with different turns meet all of them.
pub fn share(scene: &str, turn: usize, of: usize) -> Vec<Venue> {
    venues(scene).into_iter().skip(turn % of).step_by(of).collect()
}

/// Notes a run of a scene or a replay in the file that `TENSORTAP_TEST_RUNS` names, a byte each, so that `scripts/test` can
/// say how many there were.
pub fn count_run() {
    if let Some(file) = std::env::var_os("TENSORTAP_TEST_RUNS") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(b".")).expect("the tally can be written");
    }
}

/// Notes a call of the command line, when it is one that runs something.
pub fn count_call(args: &[&str]) {
    if args.first().is_some_and(|verb| ["run", "replay"].contains(verb)) {
        count_run();
    }
}

/// The interpreter that `TENSORTAP_PYTHON` names, else `python3`, if this line runs in it. Else that `what` is skipped is said, or fails where nothing may be.
pub fn python(line: &str, what: &str) -> Option<std::ffi::OsString> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let tried =
        std::process::Command::new(&python).args(["-c", line]).stdin(std::process::Stdio::null()).output();
    if tried.is_ok_and(|said| said.status.success()) {
        return Some(python);
    }
    let notice = format!("there is no python3 here in which `{line}` runs; TENSORTAP_PYTHON names another");
    assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "{notice}");
    eprintln!("SKIPPED: {what}, as {notice}");
    None
}

/// What runs where OpenCL can be used from Python.
pub const OPENCL: &str = "import pyopencl; assert pyopencl.get_platforms()[0].get_devices()";
