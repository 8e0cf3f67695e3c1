//! OpenCL programs recorded by the `tensortap` binary through OpenCL's own loader, on whatever device it finds (in CI: PoCL on the CPU).

mod blamed;
#[path = "../common/mod.rs"]
mod common;
mod plan;
mod replayed;
mod transparency;
mod truth;
mod words;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use tensortap::{RunFile, format::Dump};

/// Where a test runs a program.
struct Bench {
    folder: TempDir,
    python: OsString,
    /// How content is seen.
    probes: &'static str,
}

/// The ways in which content is seen: by functions of the process that the device runs, by copies and code of ours on the device, or by copies alone. A device that knows the first
/// knows the others.
const WAYS: [&str; 3] = ["functions", "device", "copies"];

impl Bench {
    fn new() -> Option<Bench> {
        let python = common::python(common::OPENCL, "OpenCL programs")?;
        Some(Bench { python, folder: tempfile::tempdir().unwrap(), probes: WAYS[0] })
    }

    /// The same, where content is seen in another way.
    fn seeing_by(&mut self, probes: &'static str) -> &Bench {
        self.probes = probes;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program of this folder's, recorded or not.
    fn program(&self, recorded: Option<(&str, &str)>, script: &str) -> Command {
        let mut command = match recorded {
            Some((out, options)) => {
                let mut command = Command::new(common::executable());
                command
                    .args(["record", "--out", out])
                    .args(options.split_whitespace())
                    .arg("--")
                    .arg(&self.python);
                command
            }
            None => Command::new(&self.python),
        };
        command
            .args(["-W", "ignore"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencl").join(script));
        // What was built is kept apart from what the user builds.
        command.env("XDG_CACHE_HOME", self.path("cache")).env("PYOPENCL_NO_CACHE", "1");
        command.env("TENSORTAP_OPENCL_PROBES", self.probes);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// The dump of a run of one process.
    fn dump(&self, run: &str) -> Dump {
        let run_file = RunFile::read(&self.path(run)).expect("there is a run.json");
        assert_eq!(run_file.processes.len(), 1, "{:?}", run_file.processes);
        let dump = Dump::open(&self.path(run).join(&run_file.processes[0].folder)).unwrap();
        let findings = tensortap::format::verify(&dump).unwrap();
        assert!(findings.is_ok(), "{:?}", findings.problems.first());
        dump
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }
}

#[track_caller]
fn succeeded(output: &Output) {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
}
