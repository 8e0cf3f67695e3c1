//! What is reported about launches besides their memory: the program of a kernel, launch sizes, missing
//! captures, unfinished launches.

use std::path::{Path, PathBuf};

use tensortap::abi::MemorySpace;

use crate::common;
use crate::program::{Program, Range, on};
use crate::{call, document};

const SOURCE: &str = "__kernel void add(__global int *x) { x[get_global_id(0)] += N; }";

/// A launch of a program's kernel, and one that hangs.
fn run(folder: &Path) -> PathBuf {
    let mut program = Program::new(folder);
    let buffer = program.buffer(&[1; 16], MemorySpace::Host);
    program.kernel_of(SOURCE, "add", &["x"]);
    program.launch("add", on("one"), &[Range(buffer, 0, 16)], |memory| memory[buffer][0] = 4);
    program.hang("spin", on("one"), &[Range(buffer, 0, 16)]);
    program.end()
}

/// Output of a verb, on one line.
fn said(folder: &Path, line: &[&str]) -> String {
    common::unwrapped(&call(folder, line).1)
}

#[test]
fn a_launch_is_shown_with_its_program_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let dump = run(&dir.path().join("dump"));
    let dump = dump.to_str().unwrap();
    let page = document(dir.path(), &["show", dump, "add"]);
    let module = &page["module"];
    assert_eq!((&module["kind"], &module["bytes"]), (&"opencl_c".into(), &SOURCE.len().into()));
    assert_eq!(page["launch"]["grid"], serde_json::json!([4, 1, 1]));
    // The named file exists and contains the program.
    let file = module["file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(Path::new(dump).join(file)).unwrap(), SOURCE);
    let words = format!(
        "opencl_c, {} bytes, built with -DN=3 -cl-fast-relaxed-math, for a device, {file}",
        SOURCE.len()
    );
    let shown = said(dir.path(), &["show", dump, "add"]);
    assert!(shown.contains("launch grid 4 x 1 x 1, group 16 x 1 x 1"), "{shown}");
    assert!(shown.contains(&words), "{words}: {shown}");
    let summary = said(dir.path(), &["summary", dump]);
    assert!(summary.contains(&format!("{words}: 1 task runs it")), "{summary}");
    let listed = said(dir.path(), &["list", dump]);
    let foot = format!("The kernels are from 1 program with {} bytes (column `module`)", SOURCE.len());
    assert!(listed.contains(&foot), "{listed}");
    let records = document(dir.path(), &["list", dump, "--func", "add"])["records"].clone();
    assert!(records.as_array().unwrap().iter().all(|record| record["module"] == module["id"]), "{records}");
    let (_, table) = call(dir.path(), &["list", dump, "--columns", "kernel,module", "--csv"]);
    assert_eq!(table.lines().filter(|line| *line == format!("add,{}", module["id"])).count(), 2, "{table}");
}

#[test]
fn unfinished_launches_and_missing_captures_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (dump, golden) = (run(&dir.path().join("dump")), run(&dir.path().join("golden")));
    let (dump, golden) = (dump.to_str().unwrap(), golden.to_str().unwrap());
    let hung = "1 task had not completed when the run ended: task 0x2 (spin)";
    let reason = "it is a driver object (image, sampler or pipe), not memory";
    let summary = said(dir.path(), &["summary", dump]);
    assert!(summary.contains(hung), "{summary}");
    assert!(summary.contains(&format!("1 argument could not be captured: {reason}")), "{summary}");
    let summary = document(dir.path(), &["summary", dump]);
    assert_eq!(
        (&summary["in_flight_count"], &summary["in_flight"][0]["kernels"][0]),
        (&1.into(), &"spin".into())
    );
    assert_eq!(summary["uncaptured"][0]["arguments"], 1);
    let shown = said(dir.path(), &["show", dump, "spin"]);
    assert!(shown.contains(&format!("uncaptured argument 1: {reason}")), "{shown}");
    let listed = said(dir.path(), &["list", dump]);
    assert!(listed.contains(&format!("1 argument could not be captured: {reason}")), "{listed}");
    let blamed = said(dir.path(), &["blame", dump, "--golden", golden]);
    assert!(blamed.contains(hung), "{blamed}");
    let page = dir.path().join("report.html");
    call(dir.path(), &["report", dump, "-o", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(hung) && page.contains("built with -DN=3"), "the report lacks it");
}

#[test]
fn a_failing_report_has_the_exit_status_of_blame() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, value: u8| {
        let mut program = Program::new(&dir.path().join(name));
        let buffer = program.buffer(&[1; 16], MemorySpace::Host);
        program.write(on("one"), Range(buffer, 0, 16), &[1; 16]);
        program.launch("add", on("one"), &[Range(buffer, 0, 16)], |memory| memory[buffer][0] = value);
        program.end()
    };
    let (right, wrong) = (make("right", 4), make("wrong", 5));
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let status = |line: &[&str]| call(dir.path(), line).0;
    for (dump, expected) in [(right, 0), (wrong, 1)] {
        assert_eq!(status(&["blame", dump, "--golden", right]), expected);
        assert_eq!(status(&["report", dump, "--golden", right, "-o", "page.html"]), expected);
    }
    assert_eq!(status(&["report", wrong, "-o", "page.html"]), 0, "without a golden there is no verdict");
}
