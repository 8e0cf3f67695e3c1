//! OpenCL programs recorded by the `tensortap` binary through OpenCL's own loader, on any device that it
//! finds (in CI: PoCL on the CPU).

mod blamed;
#[path = "../common/mod.rs"]
mod common;
mod evidence;
mod memory;
mod plan;
mod regions;
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

/// The folder in which a test runs programs.
struct Bench {
    folder: TempDir,
    python: OsString,
    /// How snapshots are taken.
    method: &'static str,
}

/// The ways to take snapshots: native kernels, copies and device code, or only copies. A device that supports
/// the first supports all of them.
const WAYS: [&str; 3] = ["functions", "device", "copies"];

impl Bench {
    fn new() -> Option<Bench> {
        let python = common::python(common::OPENCL, "OpenCL programs")?;
        Some(Bench { python, folder: tempfile::tempdir().unwrap(), method: WAYS[0] })
    }

    /// The same bench, with another way to take snapshots.
    fn with_snapshots_by(&mut self, method: &'static str) -> &Bench {
        self.method = method;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A Python program of this folder, recorded or not.
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
        // Keeps compiled programs apart from the user's.
        command.env("XDG_CACHE_HOME", self.path("cache")).env("PYOPENCL_NO_CACHE", "1");
        command.env("TENSORTAP_OPENCL_PROBES", self.method);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// The dump of a run with one process.
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
