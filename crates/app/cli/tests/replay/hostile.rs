//! Tests damaged cases: a replay ends with a report or an error that names the case, whatever the files
//! contain.

use std::fs;

use std::process::Command;

use serde_json::{Value, json};
use tensortap::{DeviceMode, Outcome};

use crate::cases::{edit, extract, task_of, tiny_case};
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

#[test]
fn damaged_fields_of_a_description_are_harmless() {
    let (folder, case) = tiny_case();
    let original: Value =
        serde_json::from_slice(&fs::read(case.join("case.json")).expect("there")).expect("JSON");
    let mut all = Vec::new();
    places(&original, "", &mut all);
    assert!(all.len() > 60, "{}", all.len());
    // One replay runs many cases at once, in a process because some cases run.
    let mut written = 0;
    for (number, pointer) in all.iter().enumerate() {
        let cases = folder.path().join("hostile").join(number.to_string());
        for (i, value) in nonsense().into_iter().enumerate() {
            let mutant = cases.join(format!("{i}"));
            fs::create_dir_all(&mutant).expect("a folder");
            fs::copy(case.join("case.json"), mutant.join("case.json")).expect("copied");
            fs::hard_link(case.join("tensors.safetensors"), mutant.join("tensors.safetensors"))
                .expect("linked");
            edit(&mutant, |json| *json.pointer_mut(pointer).expect("there") = value);
            written += 1;
        }
        let mut config = replay_of(&cases);
        config.device_mode = DeviceMode::Process;
        config.allow_inexact = true;
        match tensortap::replay(&config) {
            Ok(report) => assert_eq!(report.tasks.len(), nonsense().len(), "{pointer}"),
            Err(error) => assert!(error.is_usage(), "{pointer}: {error}"),
        }
    }
    assert!(written > 500, "{written}");
}

#[test]
fn damaged_tensors_are_harmless() {
    let (_folder, case) = tiny_case();
    let path = case.join("tensors.safetensors");
    let original = fs::read(&path).expect("there");
    let header =
        usize::try_from(u64::from_le_bytes(original[..8].try_into().expect("eight"))).expect("small") + 8;
    for position in (0..header).step_by(5).chain([0, 1, 7, original.len() - 1]) {
        let mut damaged = original.clone();
        damaged[position] ^= 0x11;
        fs::write(&path, &damaged).expect("writable");
        if let Ok(report) = tensortap::replay(&replay_of(&case)) {
            assert!(!report.passed() || damaged[..header] != original[..header], "byte {position}");
        }
    }
    for length in (0..original.len()).step_by(37) {
        fs::write(&path, &original[..length]).expect("writable");
        let error = tensortap::replay(&replay_of(&case)).expect_err("it is cut");
        assert!(error.is_usage() && error.to_string().contains("case"), "{error}");
    }
    fs::remove_file(&path).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a pipe");
    let error = tensortap::replay(&replay_of(&case)).expect_err("a pipe");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_panicking_reference_is_an_error() {
    let (folder, case) = tiny_case();
    // More elements than the tensors have.
    edit(&case, |json| json["scalars"][0]["bits"] = "0x0000000000000064".into());
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
        fs::create_dir(&copy).expect("a folder");
        for file in fs::read_dir(&first).expect("there").flatten() {
            fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
        }
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
