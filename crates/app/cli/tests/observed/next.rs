//! What `blame` reports in addition to the wrong launch: different code, how to replay it, uninitialized
//! memory, and missing evidence.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Program, Range, on};
use crate::{call, document};

const N: usize = 64;
const SOURCE: &str = "__kernel void fill(__global uchar *x, __global uchar *y) { y[0] = x[0]; }";

/// The setup of a run.
#[derive(Clone, Copy)]
struct RunSetup<'a> {
    source: Option<&'a str>,
    options: &'a str,
    /// Content of the output buffer before the launch.
    garbage: u8,
    /// Number of bytes that the launch writes.
    written: usize,
    /// Position of a wrong byte.
    wrong: Option<usize>,
}

const RIGHT: RunSetup<'_> =
    RunSetup { source: Some(SOURCE), options: "", garbage: 0, written: N, wrong: None };

/// One launch that copies a buffer that the host wrote.
fn run(folder: &Path, made: RunSetup<'_>) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y] = [0, made.garbage].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    if let Some(source) = made.source {
        program.kernel_built(source, made.options, "fill", &["x", "y"]);
    }
    let contents: Vec<u8> = (100..164).collect();
    program.write(on("one"), Range(x, 0, N), &contents);
    program.launch("fill", on("one"), &[Range(x, 0, N), Range(y, 0, N)], |memory| {
        let given = memory[x].clone();
        for (at, (to, from)) in memory[y].iter_mut().zip(&given).enumerate().take(made.written) {
            *to = from + u8::from(made.wrong == Some(at));
        }
    });
    program.read(on("one"), Range(y, 0, N));
    program.end()
}

fn blamed(made: RunSetup<'_>, golden: RunSetup<'_>) -> (Value, String) {
    let (document, text) = blamed_runs(|dir| run(dir, made), |dir| run(dir, golden));
    (document, common::unwrapped(&text))
}

#[test]
fn different_build_options_and_source_are_reported() {
    let wrong = RunSetup { wrong: Some(5), ..RIGHT };
    let (document, text) =
        blamed(RunSetup { options: "-DWRONG=1", ..wrong }, RunSetup { options: "-DWRONG=0", ..RIGHT });
    assert_eq!(&first(&document).0[..], "fill");
    let words = "built with -DWRONG=1, in the golden with -DWRONG=0";
    assert_eq!(document["culprits"][0]["other_program"], words);
    assert!(
        text.contains(&format!("kernel fill: {words}"))
            && text.contains(&format!("it was built from different code: {words}")),
        "{text}"
    );
    let other = format!("{SOURCE} ");
    let (document, _) = blamed(RunSetup { source: Some(&other), ..wrong }, RIGHT);
    let words = document["culprits"][0]["other_program"].as_str().unwrap();
    assert!(
        words.starts_with(
            "different source (opencl_c of 74 bytes, in the golden opencl_c of 73 bytes), first at line 1: "
        ),
        "{words}"
    );
    let other = SOURCE.replace("y[0]", "y[7]");
    let (document, _) = blamed(RunSetup { source: Some(&other), ..wrong }, RIGHT);
    let words = document["culprits"][0]["other_program"].as_str().unwrap();
    assert!(words.contains("y[7]") && words.ends_with("y[0] = x[0]; }`"), "{words}");
    let (document, text) = blamed(wrong, RIGHT);
    assert_eq!(document["culprits"][0]["other_program"], Value::Null);
    assert!(!text.contains("it was built from different code") && !text.contains("kernel fill:"), "{text}");
}

#[test]
fn the_replay_command_or_the_reason_against_it_is_reported() {
    let wrong = RunSetup { wrong: Some(5), ..RIGHT };
    let (document, text) = blamed(wrong, RIGHT);
    let again = document["culprits"][0]["replay"].as_str().unwrap();
    assert!(
        again.starts_with("tensortap replay ") && again.ends_with("/wrong --task 0x0000000000000002"),
        "{again}"
    );
    assert!(text.contains("run it again: tensortap replay DIR/wrong --task 0x2"), "{text}");
    let (document, text) = blamed(RunSetup { source: None, ..wrong }, RIGHT);
    assert_eq!(document["culprits"][0]["replay"], Value::Null);
    assert_eq!(document["culprits"][0]["no_replay"], "the dump does not contain the code of its kernel");
    let advice = "to run it again, put the kernel into a library: tensortap replay DIR/wrong --task 0x2 --kernel \
                  NAME=LIB:SYMBOL";
    assert!(text.contains(advice), "{text}");
}

/// Whether `diff` passes, the number of records it did not judge, the number outside their rules, and the
/// text.
fn differ(made: RunSetup<'_>, golden: RunSetup<'_>) -> (bool, u64, usize, String) {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (run(&dir.path().join("one"), made), run(&dir.path().join("two"), golden));
    let line = ["diff", one.to_str().unwrap(), two.to_str().unwrap()];
    let (status, text) = call(dir.path(), &line);
    let document = document(dir.path(), &line);
    let outside = document["records"].as_array().unwrap().iter().filter(|row| row["verdict"] == "fail");
    (status == 0, document["never_written"].as_u64().unwrap(), outside.count(), text)
}

#[test]
fn uninitialized_memory_does_not_make_correct_runs_differ() {
    let other = RunSetup { garbage: 9, ..RIGHT };
    let (passes, never, outside, text) = differ(other, RIGHT);
    assert_eq!((passes, never, outside), (true, 1, 0), "{text}");
    assert!(
        text.contains("1 record contains uninitialized memory, which no task of either run wrote"),
        "{text}"
    );
    // The rest of the buffer stays unchanged before and after the launch, and when the host reads it.
    let part = |garbage| RunSetup { garbage, written: N / 2, ..RIGHT };
    let (passes, never, outside, text) = differ(part(9), part(0));
    assert_eq!((passes, never, outside), (true, 3, 0), "{text}");
    // Written bytes are still judged.
    let wrong = RunSetup { wrong: Some(5), ..part(9) };
    let (passes, never, outside, text) = differ(wrong, part(0));
    assert_eq!((passes, never, outside), (false, 1, 2), "{text}");
    let (passes, never, ..) = differ(RIGHT, RIGHT);
    assert_eq!((passes, never), (true, 0));
}

#[test]
fn uninitialized_memory_is_no_excuse_if_the_launch_overwrote_it() {
    let wrong = RunSetup { wrong: Some(5), garbage: 9, ..RIGHT };
    let (document, text) = blamed(wrong, RIGHT);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["reason"]), ("fill", "wrong_here", &Value::Null), "{task:#}");
    assert!(!text.contains("uninitialized"), "{text}");
    let part = RunSetup { written: N / 2, ..wrong };
    let (document, _) = blamed(part, RunSetup { written: N / 2, ..RIGHT });
    let reason = first(&document).2["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("an uninitialized buffer")), "{reason}");
}

/// An incompletely captured launch between two complete ones.
fn with_gap(folder: &Path, is_wrong: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y, z] = [0; 3].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer| Range(buffer, 0, N);
    _ = [x, y, z].map(|buffer| program.write(on("one"), all(buffer), &[3; N]));
    program.launch_in_part("opaque", on("one"), &[all(x), all(y)], |memory| {
        (0..N).for_each(|at| memory[y][at] = memory[x][at] + u8::from(is_wrong && at == 7));
    });
    program.launch("last", on("one"), &[all(y), all(z)], |memory| {
        (0..N).for_each(|at| memory[z][at] = memory[y][at] * 2);
    });
    program.end()
}

#[test]
fn an_incompletely_captured_launch_is_still_named_as_suspect() {
    let (document, text) = blamed_runs(|dir| with_gap(dir, true), |dir| with_gap(dir, false));
    let text = common::unwrapped(&text);
    assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "{document:#}");
    let suspect = document["suspect"].as_str().unwrap();
    let tasks = document["tasks"].as_array().unwrap();
    let named = tasks.iter().find(|task| task["task_id"] == suspect).unwrap();
    assert_eq!((&named["kernels"][0], &named["label"]), (&"opaque".into(), &"unknown".into()));
    let headline =
        "(opaque) is outside its rule after the task, but no task can be named as the cause: not all inputs";
    assert!(text.contains(headline), "{text}");
    assert!(text.contains("(opaque) cannot be judged: not all inputs of the task were captured"), "{text}");
    let (document, _) = blamed_runs(|dir| with_gap(dir, false), |dir| with_gap(dir, false));
    assert_eq!(document["suspect"], Value::Null);
}

#[test]
fn a_report_names_uninitialized_memory_that_a_wrong_task_may_have_read() {
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str, garbage: u8| {
        let mut program = Program::new(&dir.path().join(name));
        let [noise, x, y] = [garbage, 0, 0].map(|content| program.buffer(&[content; N], MemorySpace::Host));
        let all = |buffer| Range(buffer, 0, N);
        _ = [x, y].map(|buffer| program.write(on("one"), all(buffer), &[3; N]));
        program.launch("fill", on("one"), &[all(noise), all(x), all(y)], |memory| memory[y][5] = 1 + garbage);
        program.end()
    };
    let (wrong, right) = (made("wrong", 9), made("right", 0));
    let line = ["report", wrong.to_str().unwrap(), "--golden", right.to_str().unwrap(), "-o", "page.html"];
    let (status, said) = call(dir.path(), &line);
    let first = said.lines().next().unwrap();
    assert_eq!(status, 1);
    assert!(first.starts_with("FAIL: task 0x3 (fill) was fed a wrong input"), "{said}");
}
