//! Two recordings of one program with correct launches; in one of them, launches or their inputs differ.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first, wiring};
use crate::call;
use crate::common;
use crate::program::{Program, Range, on};

const N: usize = 64;

/// The fault of a run with correct kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunFault {
    Nothing,
    /// The second launch of `accum` is missing.
    Skipped,
    /// There is a third launch of `accum`.
    Twice,
    /// The last launch writes into another buffer than the one that is read.
    Output,
    /// The host writes another byte.
    HostData,
    /// The host writes back wrong data that it read.
    ReadBack,
    /// A kernel is wrong and also gets a different input.
    Kernel,
}

/// s += x, twice; y = 2 * s, which the host reads and writes back into `x`.
fn run(folder: &Path, wrong: RunFault) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, s, y, other] = [0; 4].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    let mut contents: Vec<u8> = (1..65).collect();
    contents[28] += u8::from(wrong == RunFault::HostData);
    program.write(on("one"), all(x), &contents);
    for (buffer, content) in [(s, 1), (y, 2), (other, 3)] {
        program.write(on("one"), all(buffer), &[content; N]);
    }
    let launches = match wrong {
        RunFault::Skipped => 1,
        RunFault::Twice => 3,
        _ => 2,
    };
    for _ in 0..launches {
        program.launch("accum", on("one"), &[all(s), all(x)], |memory| {
            (0..N).for_each(|at| memory[s][at] = memory[s][at].wrapping_add(memory[x][at]));
        });
    }
    let out = if wrong == RunFault::Output { other } else { y };
    program.launch("scale", on("one"), &[all(s), all(out)], |memory| {
        let off = u8::from(wrong == RunFault::ReadBack || wrong == RunFault::Kernel);
        (0..N).for_each(|at| memory[out][at] = memory[s][at].wrapping_mul(2).wrapping_add(off));
    });
    program.read(on("one"), all(y));
    if wrong == RunFault::ReadBack {
        let read = program.memory[y].to_vec();
        program.write(on("one"), all(x), &read);
    } else {
        let right: Vec<u8> =
            contents.iter().map(|x| x.wrapping_mul(2).wrapping_add(1).wrapping_mul(2)).collect();
        program.write(on("one"), all(x), &right);
    }
    program.end()
}

fn blamed(wrong: RunFault) -> (Value, String) {
    let (document, text) = blamed_runs(|dir| run(dir, wrong), |dir| run(dir, RunFault::Nothing));
    (document, common::unwrapped(&text))
}

/// The document of the host's read.
fn read(document: &Value) -> &Value {
    let tasks = document["tasks"].as_array().unwrap();
    let of_host = tasks.iter().filter(|task| task["kernels"].as_array().unwrap().is_empty());
    // After the four writes.
    let later = of_host.filter(|task| task["task_id"].as_str().unwrap() > "0x0000000000000004");
    later.min_by_key(|task| task["task_id"].as_str()).unwrap()
}

#[test]
fn correct_runs_agree_and_host_reads_are_judged() {
    let (document, _) = blamed(RunFault::Nothing);
    assert_eq!((&document["verdict"], &document["wiring"]), (&"pass".into(), &Value::Array(vec![])));
    assert_eq!(read(&document)["label"], "ok", "{document:#}");
}

#[test]
fn a_missing_launch_is_reported_and_the_next_one_is_not_wrong() {
    let (document, text) = blamed(RunFault::Skipped);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("scale", "fed", &0.into()), "{task:#}");
    let reason = "argument 0 is what task 0x5 (accum) left; in the golden it comes from task 0x6 (accum), \
     which is missing here";
    assert_eq!(task["reason"], reason);
    assert!(
        text.contains("(scale) was fed a wrong input: task 0x6 (accum) of the golden is missing before it"),
        "{text}"
    );
    assert_eq!(wiring(&document, "source").len(), 1, "{document:#}");
    assert_eq!(read(&document)["label"], "inherited");
}

#[test]
fn an_additional_launch_is_reported() {
    let (document, text) = blamed(RunFault::Twice);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("scale", "fed", &0.into()), "{task:#}");
    assert!(
        text.contains("(scale) was fed a wrong input: task 0x7 (accum) before it is not in the golden"),
        "{text}"
    );
}

#[test]
fn a_launch_that_writes_into_another_buffer_is_the_culprit() {
    let (document, text) = blamed(RunFault::Output);
    let (kernel, label, task) = first(&document);
    assert_eq!((&kernel[..], &label[..], &task["arg_index"]), ("scale", "fed", &1.into()), "{task:#}");
    assert!(
        text.contains(
            "argument 1 is a different buffer than in the golden; task 0x8 misses the content that was written \
             there"
        ),
        "{text}"
    );
    assert_eq!(read(&document)["label"], "inherited", "{document:#}");
}

#[test]
fn different_host_data_is_reported() {
    let (document, text) = blamed(RunFault::HostData);
    let first = &document["first_wrong"].as_array().unwrap()[0];
    assert_eq!(first, "0x0000000000000001", "{document:#}");
    assert!(
        text.contains("task 0x1 (-) was fed a wrong input: the host wrote other data than in the golden"),
        "{text}"
    );
    assert!(text.contains("1 of 64 elements outside"), "{text}");
    assert_eq!(document["labels"]["wrong_here"], 0);
}

#[test]
fn host_data_computed_from_wrong_data_is_inherited() {
    let (document, text) = blamed(RunFault::ReadBack);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("scale", "wrong_here"));
    assert_eq!(read(&document)["label"], "inherited");
    assert!(
        text.contains("the host wrote other data than in the golden, after it read wrong data in task 0x8"),
        "{text}"
    );
}

#[test]
fn a_report_names_the_output_and_not_an_unchanged_argument() {
    let dir = tempfile::tempdir().unwrap();
    let [wrong, golden] = [("wrong", RunFault::Kernel), ("golden", RunFault::Nothing)]
        .map(|(name, wrong)| run(&dir.path().join(name), wrong));
    let line = ["report", wrong.to_str().unwrap(), "--golden", golden.to_str().unwrap(), "-o", "page.html"];
    assert_eq!(call(dir.path(), &line).0, 1);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("its output argument 1"), "the page does not name the output");
}
