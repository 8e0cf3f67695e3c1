//! Programs recorded by the `tensortap` binary, as a user sees it: successful runs, deaths and attacks.

#[path = "../common/mod.rs"]
mod common;
mod dying;
mod examples;
mod facts;
mod good;
mod hostile;
mod program;
mod ranks;
mod replayed;
mod reports;
mod signals;
mod statuses;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tensortap::format::{self, ArgumentKind, Dump};
use tensortap::{DumpStage, RunFile};

use crate::program::content;

/// Folders of a test: the run folder, notes of the program, and a private folder for sockets.
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

    /// A `tensortap record` command with these options.
    fn recorder(&self, options: &str) -> Command {
        let mut command = Command::new(common::executable());
        let ranks = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
        let sizes = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];
        for variable in ranks.into_iter().chain(sizes) {
            command.env_remove(variable);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.path("sockets"));
        command.args(["record", "--out", "run"]).args(options.split_whitespace()).arg("--");
        command
    }

    /// As `recorder`, for the test program in this role.
    fn recorded(&self, options: &str, role: &str) -> Command {
        let mut command = self.recorder(options);
        command.args(program::words()).envs(program::command(role, &self.path("notes")));
        command
    }

    fn run_file(&self) -> RunFile {
        RunFile::read(&self.path("run")).expect("run.json can be read")
    }

    /// The notes of each process of the program.
    fn notes(&self) -> BTreeMap<u32, Vec<String>> {
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        let entries = fs::read_dir(self.path("notes")).unwrap().flatten();
        let entries = entries.filter(|entry| entry.file_name() != "stop");
        entries
            .map(|entry| (entry.file_name().to_str().unwrap().parse().unwrap(), lines(&entry.path())))
            .collect()
    }

    /// Fails if a recorder left its socket or memory.
    fn assert_no_socket(&self) {
        let left: Vec<_> = fs::read_dir(self.path("sockets")).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "{left:?}");
        // Memory files have no names, so none can be left over.
        let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
        let shared: Vec<_> = shared.filter(|name| name.to_string_lossy().contains("tensortap")).collect();
        assert!(shared.is_empty(), "{shared:?}");
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks that every record of a dump equals the program's data. Returns the dump.
fn check(dump: &Path) -> Dump {
    let dump = Dump::open(dump).unwrap_or_else(|error| panic!("the dump does not open: {error}"));
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

/// As `check`, for a closed dump, which must also verify.
fn check_closed(dump: &Path) -> Dump {
    let dump = check(dump);
    let findings = format::verify(&dump).unwrap();
    assert!(findings.is_ok(), "{:?}", findings.problems.first());
    dump
}
