//! Memory that no recorded task wrote is called that, and is not shown as a wrong value.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::program::{Program, Range, on};
use crate::{call, document};

const N: usize = 64;

/// How a run is made.
#[derive(Clone, Copy)]
struct Made {
    /// What lies in the buffers before anybody writes them.
    garbage: u8,
    /// How many elements the launch writes.
    written: usize,
    /// Whether one of them is wrong.
    wrong: bool,
    /// Whether the host writes the sums before the launch adds to them.
    is_filled: bool,
}

const RIGHT: Made = Made { garbage: 200, written: N / 2, wrong: false, is_filled: true };

/// One launch writes the first elements of one buffer and adds to all of another.
fn run(folder: &Path, made: Made) -> PathBuf {
    let mut program = Program::new(folder);
    let [x, y, sums] =
        [0, made.garbage, made.garbage].map(|content| program.buffer(&[content; N], MemorySpace::Host));
    let all = |buffer: usize| Range(buffer, 0, N);
    let contents: Vec<u8> = (0..64).collect();
    program.write(on("one"), all(x), &contents);
    if made.is_filled {
        program.write(on("one"), all(sums), &[0; N]);
    }
    program.launch("part", on("one"), &[all(x), all(y)], |memory| {
        let given = memory[x].clone();
        for (at, (to, from)) in memory[y].iter_mut().zip(&given).enumerate().take(made.written) {
            *to = from + u8::from(made.wrong && at == 5);
        }
    });
    program.launch("add", on("one"), &[all(x), all(sums)], |memory| {
        let given = memory[x].clone();
        memory[sums].iter_mut().zip(&given).for_each(|(to, from)| *to = to.wrapping_add(*from));
    });
    program.end()
}

fn blamed(made: Made, golden: Made) -> (Value, String) {
    blamed_runs(|dir| run(dir, made), |dir| run(dir, golden))
}

/// The record of the first culprit that says something of memory that nobody wrote.
fn never_written(document: &Value, stage: &str) -> Value {
    let records = document["culprits"][0]["records"].as_array().unwrap();
    let record = records.iter().find(|record| record["stage"] == stage);
    record.map_or(Value::Null, |record| record["never_written"].clone())
}

#[test]
fn the_rest_of_a_buffer_that_nobody_wrote_hides_no_element_that_is_wrong() {
    let (document, text) = blamed(Made { garbage: 77, wrong: true, ..RIGHT }, RIGHT);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("part", "wrong_here"));
    insta::assert_snapshot!("blame_of_a_buffer_that_was_written_in_part", text);
    assert!(!text.contains("77") && !text.contains("200"), "what lay there is shown: {text}");
    assert_eq!(never_written(&document, "before_dispatch")["in_both"], "all");
    assert_eq!(never_written(&document, "after_completion")["in_both"], "some");
    let wrong = &first(&document).2["outside"];
    let before = wrong.as_array().unwrap().iter().find(|one| one["stage"] == "before_dispatch").unwrap();
    assert_eq!(before["never_written"], true, "{wrong}");
}

#[test]
fn what_lay_in_memory_that_should_have_been_written_is_called_that() {
    let (document, text) = blamed(Made { is_filled: false, garbage: 77, ..RIGHT }, RIGHT);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("add", "fed"));
    let said = "memory that no recorded task wrote: what lay there, and no value that was made";
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(said), "{text}");
    assert_eq!(text.matches("[0]: 77").count(), 1, "what the launch made of it alone: {text}");
    assert_eq!(never_written(&document, "before_dispatch")["here"], true);
    // Where a launch writes less than in the golden, the rest is what lay there.
    let (document, text) = blamed(Made { written: N / 4, garbage: 77, ..RIGHT }, RIGHT);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("part", "wrong_here"));
    assert_eq!(never_written(&document, "after_completion")["here"], true, "{text}");
}

#[test]
fn a_golden_that_nobody_wrote_does_not_say_what_should_be() {
    let (document, text) = blamed(RIGHT, Made { is_filled: false, ..RIGHT });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("in the golden no recorded task wrote it: what it should be is not known"),
        "{text}"
    );
    assert_eq!(never_written(&document, "before_dispatch")["in_golden"], true);
}

#[test]
fn a_task_is_shown_with_the_same_words() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = run(&dir.path().join("wrong"), Made { garbage: 77, wrong: true, ..RIGHT });
    let golden = run(&dir.path().join("golden"), RIGHT);
    let line = ["show", wrong.to_str().unwrap(), "part", "--golden", golden.to_str().unwrap()];
    let (_, text) = call(dir.path(), &line);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = "not as in the golden: memory that no recorded task wrote, in either run";
    let after = "not as in the golden: 1 of 64 elements outside";
    assert!(text.contains(before) && text.contains(after), "{text}");
}

/// What `diff` says of a run beside another: the records that it lists outside their rules, and the text.
fn differing(made: Made, golden: Made) -> (Vec<Value>, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (run(&dir.path().join("one"), made), run(&dir.path().join("two"), golden));
    let line = ["diff", one.to_str().unwrap(), two.to_str().unwrap()];
    let (_, text) = call(dir.path(), &line);
    let document = document(dir.path(), &line);
    let rows = document["records"].as_array().unwrap().iter().filter(|row| row["verdict"] == "fail");
    (rows.cloned().collect(), document, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn diff_shows_the_element_that_is_wrong_and_not_what_lay_beside_it() {
    let (outside, document, text) = differing(Made { garbage: 77, wrong: true, ..RIGHT }, RIGHT);
    let [part] = &outside[..] else { panic!("one record is wrong: {text}") };
    assert_eq!((&part["failing"], &part["elements"]), (&1.into(), &64.into()), "{part:#}");
    assert_eq!(part["max_abs_err"], 1.0);
    assert_eq!(part["never_written"]["in_both"], "some", "{part:#}");
    let worst = part["detail"]["worst"].as_array().unwrap();
    let places = worst.iter().filter(|worst| worst["error"] != 0.0).map(|worst| &worst["coordinate"][0]);
    assert_eq!(places.collect::<Vec<_>>(), [5], "{part:#}");
    assert!(text.contains("left out: 32 elements that no recorded task wrote, in either run"), "{text}");
    assert_eq!(document["never_written"], 1, "before the launch: {text}");
}

#[test]
fn diff_says_of_what_should_have_been_written_or_not_that_it_was_not() {
    let here = "memory that no recorded task wrote: what lay there, and no value that was made";
    let (outside, _, text) = differing(Made { is_filled: false, garbage: 77, ..RIGHT }, RIGHT);
    let before = |rows: &[Value]| rows.iter().find(|row| row["stage"] == "before_dispatch").cloned().unwrap();
    assert_eq!(before(&outside)["never_written"]["here"], true, "{text}");
    assert_eq!(before(&outside)["detail"], Value::Null, "no value that lay there is shown");
    assert!(text.contains(here), "{text}");
    let there = "in the golden no recorded task wrote it: what it should be is not known";
    let (outside, _, text) = differing(RIGHT, Made { is_filled: false, ..RIGHT });
    assert_eq!(before(&outside)["never_written"]["in_golden"], true, "{text}");
    assert!(text.contains(there), "{text}");
}
