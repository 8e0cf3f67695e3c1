//! Two recordings with racing launches: nothing orders them, and one of them changed the bytes that differ.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Launch, Program, Range, on};

const N: usize = 64;

/// The setup of a run.
#[derive(Clone, Copy)]
struct RunSetup {
    /// `gather` waits for `scale`.
    is_ordered: bool,
    /// `gather` runs before `scale`, even if it should wait.
    is_early: bool,
}

const RIGHT: RunSetup = RunSetup { is_ordered: true, is_early: false };

/// `scale` in one queue changes a buffer that `gather` in another queue reads and adds to.
fn run(folder: &Path, made: RunSetup) -> PathBuf {
    let mut program = Program::new(folder);
    let [y, sums] = [0; 2].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    let contents: Vec<u8> = (1..65).collect();
    let written = [program.write(on("one"), all(y), &contents), program.write(on("one"), all(sums), &[0; N])];
    let scale = |program: &mut Program| {
        program.launch("scale", on("one"), &[all(y)], |memory| {
            memory[y].iter_mut().for_each(|value| *value += 100);
        })
    };
    let gather = |program: &mut Program, waits: &[u64]| {
        program.launch("gather", Launch { waits, ..on("two") }, &[all(y), all(sums)], |memory| {
            let given = memory[y].clone();
            memory[sums].iter_mut().zip(&given).for_each(|(sum, value)| *sum += value);
        })
    };
    let gathered = if made.is_early {
        let gathered = gather(&mut program, &written);
        scale(&mut program);
        gathered
    } else {
        let scaled = scale(&mut program);
        let waits = [written[0], written[1], if made.is_ordered { scaled } else { written[1] }];
        gather(&mut program, &waits)
    };
    program.read(Launch { waits: &[gathered], ..on("three") }, all(sums));
    program.end()
}

fn blamed(made: RunSetup, golden: RunSetup) -> (Value, String, String) {
    let (document, text) = blamed_runs(|dir| run(dir, made), |dir| run(dir, golden));
    let line = common::unwrapped(&text);
    (document, text, line)
}

fn task<'d>(document: &'d Value, kernel: &str) -> &'d Value {
    let mut tasks = document["tasks"].as_array().unwrap().iter();
    tasks.find(|task| task["kernels"][0] == kernel).unwrap()
}

#[test]
fn launches_without_an_order_in_both_runs_likely_race() {
    let unordered = RunSetup { is_ordered: false, ..RIGHT };
    let (document, text, _) = blamed(RunSetup { is_early: true, ..unordered }, unordered);
    insta::assert_snapshot!("blame_of_a_likely_race", text);
    let gather = task(&document, "gather");
    assert_eq!((&gather["label"], &gather["arg_index"]), (&"unknown".into(), &0.into()));
    let race = &gather["likely_race"];
    assert_eq!((&race["side"], &race["in_both"]), (&"dump".into(), &true.into()), "{race}");
    assert_eq!((&race["task_id"], &race["arg_index"]), (&task(&document, "scale")["task_id"], &0.into()));
    assert_eq!(document["first_wrong"], serde_json::json!([]));
}

#[test]
fn a_race_in_the_golden_blames_no_launch() {
    // The dump waits for `scale`, as it should; in the golden, `gather` ran early.
    let raced = RunSetup { is_ordered: false, is_early: true };
    let (document, _, line) = blamed(RIGHT, raced);
    let gather = task(&document, "gather");
    assert_eq!((&gather["label"], &document["first_wrong"]), (&"unknown".into(), &serde_json::json!([])));
    assert_eq!(gather["likely_race"]["side"], "golden", "{gather:#}");
    let first = "(gather) cannot be judged: in the golden, nothing orders its task ";
    assert!(line.starts_with("FAIL: task ") && line.contains(first), "{line}");
    assert!(line.contains("Record a golden in which an event or a barrier orders them"), "{line}");
}

#[test]
fn an_order_that_only_the_golden_has_is_a_race() {
    let (document, ..) = blamed(RunSetup { is_ordered: false, is_early: true }, RIGHT);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("gather", "raced"));
    assert_eq!(task(&document, "gather")["likely_race"], Value::Null);
}

/// Two launches in two unordered queues, on parts of one buffer. Each adds to its own part. `wrong` damages
/// an element in `one`. With `is_meanwhile`, `two` runs while `one` runs.
fn in_parts(folder: &Path, parts: [(usize, usize); 2], wrong: Option<usize>, is_meanwhile: bool) -> PathBuf {
    let mut program = Program::new(folder);
    let shared = program.buffer(&[0; N], MemorySpace::Host);
    let all = Range(shared, 0, N);
    let waits = &[program.write(on("one"), all, &[0; N])];
    let work = |memory: &mut [Box<[u8]>], (from, to): (usize, usize), factor: u8| {
        memory[shared][from..to].iter_mut().for_each(|value| *value = value.wrapping_mul(factor) + factor);
    };
    program.launch("one", Launch { waits, ..on("one") }, &[all], |memory| {
        work(memory, parts[0], 3);
        wrong.into_iter().for_each(|at| memory[shared][at] ^= 1);
        if is_meanwhile {
            work(memory, parts[1], 5);
        }
    });
    program.launch("two", Launch { waits, ..on("two") }, &[all], |memory| {
        if !is_meanwhile {
            work(memory, parts[1], 5);
        }
    });
    program.end()
}

#[test]
fn a_change_by_an_unordered_launch_is_no_evidence() {
    let same = [(0, N), (0, N)];
    let (document, text) =
        blamed_runs(|dir| in_parts(dir, same, None, true), |dir| in_parts(dir, same, None, false));
    let one = task(&document, "one");
    assert_eq!((&one["label"], &one["likely_race"]["side"]), (&"unknown".into(), &"dump".into()), "{text}");
    assert_eq!(one["likely_race"]["task_id"], task(&document, "two")["task_id"]);
}

#[test]
fn launches_on_separate_parts_of_a_buffer_do_not_race() {
    let halves = [(0, N / 2), (N / 2, N)];
    let (document, text) =
        blamed_runs(|dir| in_parts(dir, halves, Some(3), false), |dir| in_parts(dir, halves, None, false));
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("one", "wrong_here"), "{text}");
    let one = task(&document, "one");
    assert_eq!(one["likely_race"], Value::Null, "{text}");
    assert!(one["reason"].as_str().is_some_and(|reason| reason.contains("is ambiguous")), "{one}");
}
