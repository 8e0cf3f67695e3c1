//! Programs recorded by the `tensortap` binary, as a user meets it: what comes out of good runs, of deaths and of attacks.

#[path = "../common/mod.rs"]
mod common;
mod dying;
mod examples;
mod good;
mod hostile;
mod program;
mod replayed;
mod signals;
mod statuses;
mod told;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tensortap::format::{self, ArgumentKind, Dump};
use tensortap::{DumpStage, RunFile};

use crate::program::content;

/// Where a test records: the run folder, notes of the program, and a place for sockets that nobody else uses.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        ["notes", "sockets"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        Bench { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `tensortap record` with these options.
    fn recorder(&self, options: &str) -> Command {
        let mut command = Command::new(common::executable());
        for variable in ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"] {
            command.env_remove(variable);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.path("sockets"));
        command.args(["record", "--out", "run"]).args(options.split_whitespace()).arg("--");
        command
    }

    /// The same, of the program in this role.
    fn recorded(&self, options: &str, role: &str) -> Command {
        let mut command = self.recorder(options);
        command.args(program::words()).envs(program::command(role, &self.path("notes")));
        command
    }

    fn run_file(&self) -> RunFile {
        RunFile::read(&self.path("run")).expect("there is a run.json")
    }

    /// What each process of the program noted.
    fn notes(&self) -> BTreeMap<u32, Vec<String>> {
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        let entries = fs::read_dir(self.path("notes")).unwrap().flatten();
        let entries = entries.filter(|entry| entry.file_name() != "stop");
        entries
            .map(|entry| (entry.file_name().to_str().unwrap().parse().unwrap(), lines(&entry.path())))
            .collect()
    }

    /// Fails if a recorder left its socket, or memory.
    fn assert_no_socket(&self) {
        let left: Vec<_> = fs::read_dir(self.path("sockets")).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "{left:?}");
        // Memory has no name anywhere: nobody could forget to remove it.
        let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
        let shared: Vec<_> = shared.filter(|name| name.to_string_lossy().contains("tensortap")).collect();
        assert!(shared.is_empty(), "{shared:?}");
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks that every record of a dump is what the program made, and gives the arguments of each task by (task, argument).
fn check(dump: &Path) -> Dump {
    let dump = Dump::open(dump).unwrap_or_else(|error| panic!("it does not open: {error}"));
    assert!(dump.gaps().is_empty(), "{:?}", dump.gaps());
    for record in dump.records() {
        let record = record.unwrap();
        let what = format!("task {:#x}, argument {}", record.task_id, record.arg_index);
        match record.kind {
            ArgumentKind::Scalar => assert_eq!(record.scalar_bits, Some(record.task_id), "{what}"),
            ArgumentKind::Tensor => {
                let expected = content(record.task_id, record.arg_index);
                assert!(dump.payload(&record).unwrap() == expected, "{what}");
                let after = record.stage == DumpStage::AfterCompletion;
                assert_eq!(after, record.arg_index == 1, "{what}");
            }
        }
    }
    dump
}

/// The same of a dump that was closed; it verifies, too.
fn check_closed(dump: &Path) -> Dump {
    let dump = check(dump);
    let findings = format::verify(&dump).unwrap();
    assert!(findings.is_ok(), "{:?}", findings.problems.first());
    dump
}
