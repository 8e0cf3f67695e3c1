//! Launches that the driver refused or that never ended, in one of two recordings.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tensortap::abi::MemorySpace;

use crate::blame::blamed_runs;
use crate::call;
use crate::common;
use crate::program::{Program, Range, on};

const N: usize = 64;

/// What happens to the second launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecondLaunch {
    Ends,
    Refused,
    Hangs,
}

/// One launch fills a buffer, the second adds to it, the third reads it.
fn run(folder: &Path, second: SecondLaunch) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y] = [0; 2].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    _ = [x, y].map(|buffer| program.write(on("one"), all(buffer), &[1; N]));
    program.launch("first", on("one"), &[all(x)], |memory| memory[x].fill(2));
    match second {
        SecondLaunch::Ends => _ = program.launch("second", on("one"), &[all(x)], |memory| memory[x].fill(3)),
        SecondLaunch::Refused => program.refuse("second", on("one"), -5),
        SecondLaunch::Hangs => program.hang("second", on("one"), &[all(x)]),
    }
    if second != SecondLaunch::Hangs {
        program.launch("third", on("one"), &[all(x), all(y)], |memory| memory[y] = memory[x].clone());
    }
    program.end()
}

fn blamed(wrong: SecondLaunch, golden: SecondLaunch) -> (Value, String) {
    let (document, text) = blamed_runs(|dir| run(dir, wrong), |dir| run(dir, golden));
    (document["stopped"].clone(), text)
}

#[test]
fn a_refused_launch_is_reported_before_its_consequences() {
    let (stopped, text) = blamed(SecondLaunch::Refused, SecondLaunch::Ends);
    let [one] = stopped.as_array().unwrap().as_slice() else { panic!("{stopped}") };
    assert_eq!((&one["how"], &one["status"]), (&"refused".into(), &(-5).into()), "{one}");
    assert_eq!(one["task_id"], "0x0000000000000004");
    insta::assert_snapshot!("blame_of_a_launch_that_was_refused", text);
    // In the other direction, the golden has the refused launch.
    assert_eq!(blamed(SecondLaunch::Ends, SecondLaunch::Refused).0, json!([]));
    assert_eq!(blamed(SecondLaunch::Refused, SecondLaunch::Refused).0, json!([]));
}

#[test]
fn an_unfinished_launch_is_the_headline() {
    let (stopped, text) = blamed(SecondLaunch::Hangs, SecondLaunch::Ends);
    assert_eq!((&stopped[0]["how"], &stopped[0]["status"]), (&"never_ended".into(), &Value::Null));
    let text = common::unwrapped(&text);
    let first =
        "FAIL: task 0x4 (second) never ended: it was running when the run ended, but ended in the golden";
    assert!(text.starts_with(first), "{text}");
    let (stopped, text) = blamed(SecondLaunch::Hangs, SecondLaunch::Hangs);
    assert_eq!(stopped, json!([]), "{text}");
}

#[test]
fn a_report_begins_with_the_refused_launch() {
    let dir = tempfile::tempdir().unwrap();
    let [wrong, right] = [("wrong", SecondLaunch::Refused), ("right", SecondLaunch::Ends)]
        .map(|(name, second)| run(&dir.path().join(name), second));
    let line = ["report", wrong.to_str().unwrap(), "--golden", right.to_str().unwrap(), "-o", "page.html"];
    let (status, said) = call(dir.path(), &line);
    let first = "FAIL: task 0x4 (second) was refused by the driver with status -5, but ran in the golden";
    assert!(status == 1 && said.starts_with(first), "{said}");
}
