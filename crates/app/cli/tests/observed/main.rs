//! Programs recorded with unknown roles: how every verb reports observations, and which task `blame` names.

mod blame;
mod candidates;
#[path = "../common/mod.rs"]
mod common;
mod hashes;
mod next;
mod passed_on;
mod program;
mod programs;
mod races;
mod regions;
mod right_runs;
mod sources;
mod stages;
mod stopped;
mod types;
mod unrecorded;
mod unwritten;
mod wide;
mod words;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Calls the binary; returns its exit status and its output.
fn call(folder: &Path, line: &[&str]) -> (i32, String) {
    let output = Command::new(common::executable()).current_dir(folder).args(line).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status.code().unwrap();
    assert!(status < 2, "{line:?}: {said}");
    (status, String::from_utf8(output.stdout).unwrap())
}

/// Calls the binary and parses its output as JSON.
fn document(folder: &Path, line: &[&str]) -> Value {
    let line: Vec<&str> = line.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&call(folder, &line).1).unwrap()
}
