//! What is said of a wrong launch beside its name: other code, how it is run again, memory that nobody wrote, and what is not known.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::program::{Program, Range, on};
use crate::{call, document};

const N: usize = 64;
const SOURCE: &str = "__kernel void fill(__global uchar *x, __global uchar *y) { y[0] = x[0]; }";

/// How a run is made.
#[derive(Clone, Copy)]
struct Made<'a> {
    source: Option<&'a str>,
    options: &'a str,
    /// What lies in the memory that it writes to.
    garbage: u8,
    /// How many bytes it writes.
    written: usize,
    /// It makes something else of this byte.
    wrong: Option<usize>,
}

const RIGHT: Made<'_> = Made { source: Some(SOURCE), options: "", garbage: 0, written: N, wrong: None };

/// One launch that writes another buffer from one that the host wrote.
fn run(folder: &Path, made: Made<'_>) -> PathBuf {
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

fn blamed(made: Made<'_>, golden: Made<'_>) -> (Value, String) {
    let (document, text) = blamed_runs(|dir| run(dir, made), |dir| run(dir, golden));
    (document, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn other_options_and_other_source_are_said_with_the_kernel() {
    let wrong = Made { wrong: Some(5), ..RIGHT };
    let (document, text) =
        blamed(Made { options: "-DWRONG=1", ..wrong }, Made { options: "-DWRONG=0", ..RIGHT });
    assert_eq!(&first(&document).0[..], "fill");
    let words = "built with -DWRONG=1, in the golden with -DWRONG=0";
    assert_eq!(document["culprits"][0]["other_program"], words);
    assert!(
        text.contains(&format!("kernel fill: {words}"))
            && text.contains(&format!("its code is another: {words}")),
        "{text}"
    );
    let other = format!("{SOURCE} ");
    let (document, _) = blamed(Made { source: Some(&other), ..wrong }, RIGHT);
    let words = document["culprits"][0]["other_program"].as_str().unwrap();
    assert!(
        words.starts_with(
            "other source (opencl_c of 74 bytes, in the golden opencl_c of 73 bytes), first in line 1: "
        ),
        "{words}"
    );
    let other = SOURCE.replace("y[0]", "y[7]");
    let (document, _) = blamed(Made { source: Some(&other), ..wrong }, RIGHT);
    let words = document["culprits"][0]["other_program"].as_str().unwrap();
    assert!(words.contains("y[7]") && words.ends_with("y[0] = x[0]; }`"), "{words}");
    let (document, text) = blamed(wrong, RIGHT);
    assert_eq!(document["culprits"][0]["other_program"], Value::Null);
    assert!(!text.contains("its code is another") && !text.contains("kernel fill:"), "{text}");
}

#[test]
fn how_a_launch_is_run_again_is_said_or_why_it_cannot_be() {
    let wrong = Made { wrong: Some(5), ..RIGHT };
    let (document, text) = blamed(wrong, RIGHT);
    let again = document["culprits"][0]["replay"].as_str().unwrap();
    assert!(
        again.starts_with("tensortap replay ") && again.ends_with("/wrong --task 0x0000000000000002"),
        "{again}"
    );
    assert!(text.contains("run it again: tensortap replay DIR/wrong --task 0x2"), "{text}");
    let (document, text) = blamed(Made { source: None, ..wrong }, RIGHT);
    assert_eq!(document["culprits"][0]["replay"], Value::Null);
    assert_eq!(document["culprits"][0]["no_replay"], "the dump does not keep the code of its kernel");
    assert!(text.contains("it cannot be run again from this dump: the dump does not keep"), "{text}");
}

/// Whether `diff` passes, how many records it did not judge, and how many it found wrong.
fn differ(made: Made<'_>, golden: Made<'_>) -> (bool, u64, usize, String) {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (run(&dir.path().join("one"), made), run(&dir.path().join("two"), golden));
    let line = ["diff", one.to_str().unwrap(), two.to_str().unwrap()];
    let (status, text) = call(dir.path(), &line);
    let document = document(dir.path(), &line);
    let outside = document["records"].as_array().unwrap().iter().filter(|row| row["verdict"] == "fail");
    (status == 0, document["never_written"].as_u64().unwrap(), outside.count(), text)
}

#[test]
fn two_right_runs_do_not_differ_in_memory_that_nobody_wrote() {
    let other = Made { garbage: 9, ..RIGHT };
    let (passes, never, outside, text) = differ(other, RIGHT);
    assert_eq!((passes, never, outside), (true, 1, 0), "{text}");
    assert!(text.contains("1 record holds memory that no task of either run ever wrote"), "{text}");
    // The rest of the buffer is left as it was: before, behind, and where the host reads it.
    let part = |garbage| Made { garbage, written: N / 2, ..RIGHT };
    let (passes, never, outside, text) = differ(part(9), part(0));
    assert_eq!((passes, never, outside), (true, 3, 0), "{text}");
    // What was written is judged all the same.
    let wrong = Made { wrong: Some(5), ..part(9) };
    let (passes, never, outside, text) = differ(wrong, part(0));
    assert_eq!((passes, never, outside), (false, 1, 2), "{text}");
    let (passes, never, ..) = differ(RIGHT, RIGHT);
    assert_eq!((passes, never), (true, 0));
}

#[test]
fn what_lay_in_memory_is_no_excuse_where_the_launch_wrote_all_of_it() {
    let wrong = Made { wrong: Some(5), garbage: 9, ..RIGHT };
    let (document, text) = blamed(wrong, RIGHT);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["reason"]), ("fill", "wrong_here", &Value::Null), "{task:#}");
    assert!(!text.contains("uninitialised"), "{text}");
    let part = Made { written: N / 2, ..wrong };
    let (document, _) = blamed(part, Made { written: N / 2, ..RIGHT });
    let reason = first(&document).2["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("an uninitialised buffer")), "{reason}");
}

/// A launch of which not all is captured, between two that are whole.
fn with_gap(folder: &Path, is_wrong: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y, z] = [0; 3].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer| Range(buffer, 0, N);
    _ = [x, y, z].map(|buffer| program.write(on("one"), all(buffer), &[3; N]));
    program.launch_in_part("opaque", on("one"), &[all(x), all(y)], |memory| {
        (0..N).for_each(|at| memory[y][at] = memory[x][at] + u8::from(is_wrong && at == 7));
    });
    program.launch("behind", on("one"), &[all(y), all(z)], |memory| {
        (0..N).for_each(|at| memory[z][at] = memory[y][at] * 2);
    });
    program.end()
}

#[test]
fn a_launch_of_which_not_all_is_known_is_still_named() {
    let (document, text) = blamed_runs(|dir| with_gap(dir, true), |dir| with_gap(dir, false));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "{document:#}");
    let suspect = document["suspect"].as_str().unwrap();
    let tasks = document["tasks"].as_array().unwrap();
    let named = tasks.iter().find(|task| task["task_id"] == suspect).unwrap();
    assert_eq!((&named["kernels"][0], &named["label"]), (&"opaque".into(), &"unknown".into()));
    let headline =
        "(opaque) may be wrong: what is known of what it was given is right, and what it left is not";
    assert!(text.contains(headline), "{text}");
    assert!(text.contains("(opaque) cannot be judged: not all of its inputs were captured"), "{text}");
    let (document, _) = blamed_runs(|dir| with_gap(dir, false), |dir| with_gap(dir, false));
    assert_eq!(document["suspect"], Value::Null);
}

#[test]
fn a_report_speaks_of_the_output_although_what_was_left_alone_differs_before_it() {
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
    assert!(
        first.starts_with("FAIL: Kernel fill went wrong first (task 0x3): its output argument 2 shows"),
        "{said}"
    );
}
