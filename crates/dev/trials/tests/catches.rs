//! The program catches answers that are always the same: each of them is wrong about some trial.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Runs trials against a program that gives this answer. Returns the exit status and the output.
fn judge(name: &str, answer: &str) -> (Option<i32>, String) {
    let dir = std::env::temp_dir().join(format!("trials-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder");
    let program = dir.join("answers");
    fs::write(&program, format!("#!/bin/sh\necho '{answer}'\n")).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("an executable program");
    let mut trials = Command::new(env!("CARGO_BIN_EXE_trials"));
    trials.arg("--tensortap").arg(&program).arg("--dir").arg(&dir);
    let output = trials.args(["--seed", "1", "--trials", "40", "--backend", "api"]).output().expect("a run");
    fs::remove_dir_all(&dir).expect("the folder");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_program_that_always_accuses_the_first_task() {
    let accuses =
        r#"{"verdict":"fail","tasks":[{"task_id":"0x1","label":"wrong_here"}],"first_wrong":["0x1"]}"#;
    let (status, output) = judge("accuses", accuses);
    assert!(status == Some(1) && output.contains("innocent task 0x1 is wrong_here"), "{output}");
}

#[test]
fn a_program_that_always_passes() {
    let (status, output) = judge("passes", r#"{"verdict":"pass","tasks":[],"first_wrong":[]}"#);
    assert!(status == Some(1) && output.contains("a wrong run passed"), "{output}");
    assert!(!output.contains("innocent") && !output.contains("a right run failed"), "{output}");
}

#[test]
fn a_program_that_always_fails() {
    let (status, output) = judge("fails", r#"{"verdict":"fail","tasks":[],"first_wrong":[]}"#);
    assert!(status == Some(1) && output.contains("a right run failed"), "{output}");
    assert!(!output.contains("innocent") && !output.contains("a wrong run passed"), "{output}");
}

#[test]
fn a_program_without_an_answer() {
    let (status, output) = judge("says-nothing", "");
    assert!(
        status == Some(1) && output.contains("no answer") && output.contains("40 without an answer"),
        "{output}"
    );
}
