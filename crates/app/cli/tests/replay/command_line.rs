//! Tests the verbs on the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cases::task_of;
use crate::common;
use crate::common::count_call;
use crate::{capture, executable, small};

pub fn call(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let args: Vec<&str> = line.split_whitespace().collect();
    count_call(&args);
    let output = Command::new(executable()).args(args).current_dir(folder).output();
    let output = output.expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn verdicts_exit_codes_and_the_document_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("vector_example"), &dump);
    let (code, out, err) = call(folder.path(), "replay dump --all --json");
    let json: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, json["verdict"].as_str(), err.as_str()), (Some(0), Some("pass"), ""));
    assert_eq!((&json["tasks"], &json["bitexact"], &json["within_rule"]), (&5.into(), &5.into(), &0.into()));
    assert_eq!(json["failed"], Value::Array(vec![]));
    assert_eq!((&json["fidelity"]["exact"], &json["fidelity"]["zero"]), (&18.into(), &0.into()));
    let (code, out, _) = call(folder.path(), "replay dump --all --inject-fault mul=last --json");
    let json: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, json["verdict"].as_str(), &json["bitexact"]), (Some(1), Some("fail"), &4.into()));
    assert_eq!(json["failed"].as_array().map(Vec::len), Some(1));
    let named = |of: &Value| (of["scope"].clone(), of["task_name"].clone());
    assert_eq!(named(&json["failed"][0]), ("inner".into(), "t3".into()));
    assert_eq!(named(&json["results"][0]), (Value::Null, "t0".into()));
    let (_, out, _) = call(folder.path(), "replay dump --all --inject-fault mul=last");
    assert!(out.contains("mul (inner / t3)"), "the name of the task: {out}");
    let (_, out, _) = call(folder.path(), "replay dump --task t3");
    assert!(out.contains("name       inner / t3"), "{out}");
    assert!(
        json["failed"][0]["reason"].as_str().is_some_and(|r| r.contains("1 of 16384 elements differ")),
        "{json}"
    );
    let (code, out, _) = call(folder.path(), "replay dump --all");
    assert!(code == Some(0) && out.contains("PASS") && out.contains("5 bit-exact"), "{out}");
    let (code, _, err) = call(folder.path(), "replay dump");
    assert!(code == Some(2) && err.contains("use --all for every task"), "{err}");
    let (code, _, err) = call(folder.path(), "replay dump --task 77");
    assert!(code == Some(2) && err.contains("has no task"), "{err}");
    let (code, out, _) = call(folder.path(), "replay dump --func mul --task 0x0 --json");
    let json: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, json["verdict"].as_str()), (Some(0), Some("none")), "an empty selection: {out}");
}

#[test]
fn cases_are_extracted_and_replayed_as_tests() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("vector_example"), &dump);
    let id = task_of(&dump, "mul");
    let (code, out, err) = call(folder.path(), &format!("extract dump --task {id} --out cases/mul --json"));
    let json: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, json["kernels"][0].as_str(), err.as_str()), (Some(0), Some("mul"), ""));
    let (code, out, _) =
        call(folder.path(), &format!("extract dump --task {id} --out cases/shared --redact"));
    assert!(code == Some(0) && out.contains("the outputs cannot be checked"), "{out}");
    let (code, out, _) = call(folder.path(), "replay cases");
    assert!(code == Some(1) && out.contains("test cases/mul ... ok"), "{out}");
    assert!(out.contains("test result: FAILED. 1 passed; 0 failed; 1 refused"), "{out}");
    let (code, out, _) = call(folder.path(), "replay cases --allow-inexact");
    assert!(code == Some(0) && out.contains("1 passed; 0 failed; 0 refused; 1 not checked"), "{out}");
    let (code, _, err) = call(folder.path(), &format!("extract dump --task {id} --out cases/mul"));
    assert!(code == Some(2) && err.contains("already exists"), "{err}");
    let (code, _, err) = call(folder.path(), "replay cases --trust --debugger=no-such-debugger");
    assert!(code == Some(2) && err.contains("there is no program `no-such-debugger`"), "{err}");
}

#[test]
fn selectors_work_as_in_other_verbs() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let tasks = |selector: &str| {
        let (code, out, err) = call(folder.path(), &format!("replay dump {selector} --json"));
        assert_eq!(code, Some(0), "{selector}: {err}");
        let json: Value = serde_json::from_str(&out).expect("one document");
        json["tasks"].as_u64().expect("a number")
    };
    for (selector, count) in [
        ("--task add_scalar", 2),
        ("--task mul,0", 2),
        ("--task add*", 4),
        ("--func add*", 4),
        ("--func func_2,0x0", 3),
        ("--task 1:0-1:9 --func ?ul", 1),
    ] {
        assert_eq!(tasks(selector), count, "{selector}");
    }
    let (code, _, err) = call(folder.path(), "replay dump --task mull");
    assert!(
        code == Some(2) && err.contains("no task or kernel `mull`; there are: add, add_scalar, mul, t0"),
        "{err}"
    );
    let (code, _, err) = call(folder.path(), "extract dump --task add_scalar --out cases/which");
    assert!(code == Some(2) && err.contains("2 tasks with the kernel `add_scalar`"), "{err}");
    assert!(err.contains("select one with --task: 0x100000000, 0x100000001"), "{err}");
    let (code, _, err) = call(folder.path(), "extract dump --task mull --out cases/which");
    assert!(code == Some(2) && err.contains("kernel `mull`"), "{err}");
    let (code, _, err) = call(folder.path(), "extract dump --task 1:0-1:9 --out cases/which");
    assert!(code == Some(2) && err.contains("has 4 tasks in that range"), "{err}");
    let (code, _, err) = call(folder.path(), "extract dump --task mul --out cases/mul");
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = call(folder.path(), "extract dump --task 0 --out cases/add");
    assert_eq!(code, Some(0), "{err}");
    // A case of another kernel is skipped, not refused.
    let (code, out, err) = call(folder.path(), "replay cases --func mul");
    assert!(code == Some(0) && out.contains("1 passed"), "{out}{err}");
}

#[test]
fn a_full_disk_fails_the_extraction_and_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    std::fs::create_dir(folder.path().join("there")).expect("a folder");
    for out in ["new/deep/mul", "there", "there/mul.safetensors", "fresh/mul.safetensors"] {
        // The shell's program inherits the ignored signal. The limit of 64 blocks is smaller than the
        // content.
        let script = format!(
            "trap '' XFSZ; ulimit -f 64; exec '{}' extract dump --task mul --out {out}",
            executable().display()
        );
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
        let output = output.expect("it starts");
        let err = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(3), "{out}: {err}");
        assert!(err.contains("cannot write") && err.contains(out), "{err}");
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        left.retain(|entry| entry.file_name() != "dump");
        assert_eq!(left.iter().map(|e| e.file_name()).collect::<Vec<_>>(), ["there"], "{out}");
        assert_eq!(std::fs::read_dir(folder.path().join("there")).expect("a folder").count(), 0, "{out}");
    }
}

#[test]
fn failures_name_coordinates_in_short_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("paged_attention"), &folder.path().join("dump"));
    for line in [
        "replay dump --all --inject-fault softmax=last",
        "replay dump --all --inject-fault softmax=last --reference",
        "replay dump --task 0x100000001 --inject-fault softmax=last",
        "replay dump --func softmax --set-arg 0=1",
    ] {
        let (code, out, err) = call(folder.path(), line);
        assert_eq!(code, Some(1), "{line}: {err}");
        let widest = out.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|columns| columns <= 100), "{widest:?} columns: {out}");
        let words = common::unwrapped(&out);
        if line.contains("--set-arg") {
            assert!(words.contains("argument 0 is overridden: --set-arg changed it"), "{out}");
        } else {
            assert!(words.contains("first at [") || words.contains("worst at ["), "{out}");
            // Two dimensions instead of a flat index.
            let (_, place) = words.split_once(" at [").expect("a place");
            let (place, _) = place.split_once(']').expect("closed");
            assert!(place.contains(", "), "{place}");
        }
    }
}
