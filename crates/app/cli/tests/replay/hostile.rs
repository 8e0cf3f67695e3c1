//! Tests damaged cases: a replay ends with a report or an error that names the case, whatever the files
//! contain.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tensortap::{DeviceMode, ExtractConfig, Outcome};

use crate::cases::{edit, extract, task_of, tiny_case};
use crate::old_cases::old_case;
use crate::{capture, executable, replay, replay_of, small};

/// Values that are invalid in most places.
fn nonsense() -> Vec<Value> {
    vec![
        Value::Null,
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!("0xffffffffffffffff"),
        json!("x"),
        json!([]),
        json!([u64::MAX, 4, 0, 1, 1, 1, 1, 1, 1]),
        json!({}),
    ]
}

/// JSON pointers to every place in a document.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, v)| {
            found.push(format!("{at}/{key}"));
            places(v, &format!("{at}/{key}"), found);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| {
            found.push(format!("{at}/{i}"));
            places(v, &format!("{at}/{i}"), found);
        }),
        _ => {}
    }
}

/// Replaces each value of a description below `root` by nonsense. Every case ends with a report or an error.
fn replay_damaged(case: &Path, description: &str, root: &str, least: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let original: Value =
        serde_json::from_slice(&fs::read(case.join(description)).expect("there")).expect("JSON");
    let mut all = Vec::new();
    places(original.pointer(root).expect("there"), root, &mut all);
    assert!(all.len() > least, "{}", all.len());
    // One replay runs many cases at once, in a process because some cases run.
    for (number, pointer) in all.iter().enumerate() {
        let cases = folder.path().join("hostile").join(number.to_string());
        for (i, value) in nonsense().into_iter().enumerate() {
            let mutant = cases.join(format!("{i}"));
            fs::create_dir_all(&mutant).expect("a folder");
            for file in fs::read_dir(case).expect("there").flatten().map(|file| file.file_name()) {
                if file != "tensor_dump.idx" && file != description {
                    fs::hard_link(case.join(&file), mutant.join(&file)).expect("linked");
                }
            }
            let mut json = original.clone();
            *json.pointer_mut(pointer).expect("there") = value;
            fs::write(mutant.join(description), json.to_string()).expect("writable");
        }
        let mut config = replay_of(&cases);
        config.device_mode = DeviceMode::Process;
        config.allow_inexact = true;
        match tensortap::replay(&config) {
            Ok(report) => assert_eq!(report.tasks.len(), nonsense().len(), "{pointer}"),
            Err(error) => assert!(error.is_usage(), "{pointer}: {error}"),
        }
    }
}

#[test]
fn damaged_fields_of_a_manifest_are_harmless() {
    let (folder, case) = tiny_case();
    let redacted = folder.path().join("redacted");
    let config = ExtractConfig { task: None, redact: Some(1), ..extract(&case, 0, &redacted) };
    tensortap::extract(&config).expect("extracted");
    replay_damaged(&case, "tensor_dump.json", "/tensors/2", 25);
    replay_damaged(&case, "tensor_dump.json", "/kernels", 10);
    replay_damaged(&redacted, "tensor_dump.json", "/case", 30);
    replay_damaged(&case, "graph.json", "", 20);
}

#[test]
fn damaged_fields_of_an_old_description_are_harmless() {
    let folder = old_case("plain");
    replay_damaged(folder.path(), "case.json", "", 60);
}

/// Damages the header of a safetensors file, cuts it, and replaces it by a pipe.
fn replay_damaged_tensors(case: &Path, path: &Path) {
    let original = fs::read(path).expect("there");
    let header =
        usize::try_from(u64::from_le_bytes(original[..8].try_into().expect("eight"))).expect("small") + 8;
    for position in (0..header).step_by(5).chain([0, 1, 7, original.len() - 1]) {
        let mut damaged = original.clone();
        damaged[position] ^= 0x11;
        fs::write(path, &damaged).expect("writable");
        if let Ok(report) = tensortap::replay(&replay_of(case)) {
            assert!(!report.passed() || damaged[..header] != original[..header], "byte {position}");
        }
    }
    for length in (0..original.len()).step_by(37) {
        fs::write(path, &original[..length]).expect("writable");
        let error = tensortap::replay(&replay_of(case)).expect_err("it is cut");
        assert!(error.is_usage() && error.to_string().contains("case"), "{error}");
    }
    fs::remove_file(path).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).expect("a pipe");
    let error = tensortap::replay(&replay_of(case)).expect_err("a pipe");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn damaged_tensors_are_harmless() {
    let folder = old_case("plain");
    replay_damaged_tensors(folder.path(), &folder.path().join("tensors.safetensors"));
    let (folder, case) = tiny_case();
    let file = folder.path().join("case.safetensors");
    tensortap::extract(&ExtractConfig { task: None, ..extract(&case, 0, &file) }).expect("one file");
    replay_damaged_tensors(&file, &file);
}

#[test]
fn a_panicking_reference_is_an_error() {
    let (folder, case) = tiny_case();
    // More elements than the tensors have.
    edit(&case, |json| {
        json["tensors"][3]["scalar_value"] = "0x0000000000000064".into();
        json["tensors"][3]["value"] = 100.into();
    });
    for expect in ["captured", "reference"] {
        let mut command = Command::new(executable());
        command.arg("extract").arg(&case).args(["--expect", expect, "--out"]).arg(folder.path().join(expect));
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expect}: {said}");
        assert!(
            said.contains("the reference of kernel `mul` rejected the captured arguments"),
            "{expect}: {said}"
        );
        assert!(said.contains("index out of bounds") && !said.contains("panicked"), "{expect}: {said}");
        assert!(!folder.path().join(expect).exists(), "nothing is written");
    }
}

#[test]
fn stops_after_the_limit_of_device_failures() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("crash_segv"), &dump);
    let (cases, first) = (folder.path().join("cases"), folder.path().join("cases/0"));
    fs::create_dir(&cases).expect("a folder");
    let mut cut = extract(&dump, task_of(&dump, "segv"), &first);
    cut.allow_inexact = true;
    tensortap::extract(&cut).expect("extracted");
    for number in 1..12 {
        let copy = cases.join(number.to_string());
        crate::cases::copy(&first, &copy);
    }
    let mut config = replay_of(&cases);
    config.device_mode = DeviceMode::Process;
    config.allow_inexact = true;
    config.jobs = Some(1);
    config.max_device_failures = Some(3);
    let mut seen = 0;
    let report = tensortap::replay_observed(&config, &mut |now| {
        seen = seen.max(now.device_failures);
        true
    })
    .expect("it ends");
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    assert_eq!((report.tasks.len(), report.count(failed), seen), (12, 3, 3));
    let refused: Vec<&str> =
        report.tasks.iter().filter(|t| !failed(&t.outcome)).filter_map(|t| t.outcome.reason()).collect();
    assert_eq!(refused.len(), 9);
    assert!(
        refused
            .iter()
            .all(|why| why.contains("limit of 3 device failures") && why.contains("--max-device-failures"))
    );
    config.max_device_failures = None;
    assert_eq!(replay(&config).count(failed), 12);
}
