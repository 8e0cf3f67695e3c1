//! Memory that no recorded task wrote is reported as such and not shown as a wrong value.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::abi::MemorySpace;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Program, Range, on};
use crate::{call, document};

const N: usize = 64;

/// The setup of a run.
#[derive(Clone, Copy)]
struct RunSetup {
    /// Content of the buffers before the first write.
    garbage: u8,
    /// Number of elements that the launch writes.
    written: usize,
    /// Whether one of them is wrong.
    wrong: bool,
    /// Whether the host initializes the sums before the launch adds to them.
    is_filled: bool,
}

const RIGHT: RunSetup = RunSetup { garbage: 200, written: N / 2, wrong: false, is_filled: true };

/// One launch writes the first elements of one buffer and adds to all elements of another.
fn run(folder: &Path, made: RunSetup) -> PathBuf {
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

fn blamed(made: RunSetup, golden: RunSetup) -> (Value, String) {
    blamed_runs(|dir| run(dir, made), |dir| run(dir, golden))
}

/// The first culprit's record that reports unwritten memory.
fn never_written(document: &Value, stage: &str) -> Value {
    let records = document["culprits"][0]["records"].as_array().unwrap();
    let record = records.iter().find(|record| record["stage"] == stage);
    record.map_or(Value::Null, |record| record["never_written"].clone())
}

#[test]
fn unwritten_memory_does_not_hide_a_wrong_element() {
    let (document, text) = blamed(RunSetup { garbage: 77, wrong: true, ..RIGHT }, RIGHT);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("part", "wrong_here"));
    insta::assert_snapshot!("blame_of_a_buffer_that_was_written_in_part", text);
    assert!(!text.contains("77") && !text.contains("200"), "uninitialized content is shown: {text}");
    assert_eq!(never_written(&document, "before_dispatch")["in_both"], "all");
    assert_eq!(never_written(&document, "after_completion")["in_both"], "some");
    let wrong = &first(&document).2["outside"];
    let before = wrong.as_array().unwrap().iter().find(|one| one["stage"] == "before_dispatch").unwrap();
    assert_eq!(before["never_written"], true, "{wrong}");
}

#[test]
fn a_missing_write_is_reported_as_unwritten_memory() {
    let (document, text) = blamed(RunSetup { is_filled: false, garbage: 77, ..RIGHT }, RIGHT);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("add", "fed"));
    let said = "no recorded task wrote this memory: it holds whatever was there before";
    let text = common::unwrapped(&text);
    assert!(text.contains(said), "{text}");
    assert_eq!(text.matches("[0]: 77").count(), 1, "only the launch's output: {text}");
    assert_eq!(never_written(&document, "before_dispatch")["here"], true);
    // If a launch writes less than in the golden, the rest is uninitialized.
    let (document, text) = blamed(RunSetup { written: N / 4, garbage: 77, ..RIGHT }, RIGHT);
    let text = common::unwrapped(&text);
    assert_eq!((&first(&document).0[..], &first(&document).1[..]), ("part", "wrong_here"));
    assert_eq!(never_written(&document, "after_completion")["here"], true, "{text}");
}

#[test]
fn unwritten_memory_in_the_golden_gives_no_expected_value() {
    let (document, text) = blamed(RIGHT, RunSetup { is_filled: false, ..RIGHT });
    let text = common::unwrapped(&text);
    assert!(
        text.contains("in the golden, no recorded task wrote this memory: the expected value is unknown"),
        "{text}"
    );
    assert_eq!(never_written(&document, "before_dispatch")["in_golden"], true);
}

#[test]
fn show_reports_unwritten_memory_with_the_same_words() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = run(&dir.path().join("wrong"), RunSetup { garbage: 77, wrong: true, ..RIGHT });
    let golden = run(&dir.path().join("golden"), RIGHT);
    let line = ["show", wrong.to_str().unwrap(), "part", "--golden", golden.to_str().unwrap()];
    let (_, text) = call(dir.path(), &line);
    let text = common::unwrapped(&text);
    let before = "differs from the golden: memory that no recorded task wrote in either run";
    let after = "differs from the golden: 1 of 64 elements outside";
    assert!(text.contains(before) && text.contains(after), "{text}");
}

#[test]
fn a_report_ignores_unwritten_memory_as_blame_does() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = run(&dir.path().join("wrong"), RunSetup { garbage: 77, wrong: true, ..RIGHT });
    let golden = run(&dir.path().join("golden"), RIGHT);
    let line = ["report", wrong.to_str().unwrap(), "--golden", golden.to_str().unwrap(), "-o", "page.html"];
    assert_eq!(call(dir.path(), &line).0, 1);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let report: Value = serde_json::from_str(data).unwrap();
    let member = &report["members"][0];
    let columns = member["records"]["columns"].as_array().unwrap();
    let text = |row: usize, key: &str| {
        let column = columns.iter().find(|column| column["key"] == key).unwrap();
        let word = usize::try_from(column["at"][row].as_u64().unwrap()).unwrap();
        column["words"][word].as_str().unwrap().to_owned()
    };
    let rows = 0..usize::try_from(member["records"]["rows"].as_u64().unwrap()).unwrap();
    let ignored: Vec<usize> = rows.clone().filter(|&row| text(row, "verdict") == "ignored").collect();
    let [before] = ignored[..] else { panic!("one record is ignored: {columns:#?}") };
    let cells = ["kernels", "stage", "outside", "error"].map(|key| text(before, key));
    assert_eq!(cells, ["part", "before", "", ""]);
    let failing: Vec<String> =
        rows.filter(|&row| text(row, "verdict") == "fail").map(|row| text(row, "stage")).collect();
    assert_eq!(failing, ["after"]);
    let records = member["culprits"][0]["records"].as_array().unwrap();
    assert_eq!(records[0]["when"], "after the task", "records that count come first");
    assert_eq!(records[1]["evidence"], "memory that no recorded task wrote in either run: ignored");
    assert_eq!((&records[1]["difference"], &records[1]["rule"]), (&Value::Null, &Value::Null));
}

/// Runs `diff`; returns the records outside their rules, the document and the text.
fn differing(made: RunSetup, golden: RunSetup) -> (Vec<Value>, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (run(&dir.path().join("one"), made), run(&dir.path().join("two"), golden));
    let line = ["diff", one.to_str().unwrap(), two.to_str().unwrap()];
    let (_, text) = call(dir.path(), &line);
    let document = document(dir.path(), &line);
    let rows = document["records"].as_array().unwrap().iter().filter(|row| row["verdict"] == "fail");
    (rows.cloned().collect(), document, common::unwrapped(&text))
}

#[test]
fn diff_shows_the_wrong_element_and_not_the_unwritten_ones() {
    let (outside, document, text) = differing(RunSetup { garbage: 77, wrong: true, ..RIGHT }, RIGHT);
    let [part] = &outside[..] else { panic!("one record is wrong: {text}") };
    assert_eq!((&part["failing"], &part["elements"]), (&1.into(), &64.into()), "{part:#}");
    assert_eq!(part["max_abs_err"], 1.0);
    assert_eq!(part["never_written"]["in_both"], "some", "{part:#}");
    let worst = part["detail"]["worst"].as_array().unwrap();
    let places = worst.iter().filter(|worst| worst["error"] != 0.0).map(|worst| &worst["coordinate"][0]);
    assert_eq!(places.collect::<Vec<_>>(), [5], "{part:#}");
    assert!(text.contains("ignored: 32 elements that no recorded task wrote in either run"), "{text}");
    assert_eq!(document["never_written"], 1, "before the launch: {text}");
}

#[test]
fn diff_reports_a_missing_write_in_either_run() {
    let here = "no recorded task wrote this memory: it holds whatever was there before";
    let (outside, _, text) = differing(RunSetup { is_filled: false, garbage: 77, ..RIGHT }, RIGHT);
    let before = |rows: &[Value]| rows.iter().find(|row| row["stage"] == "before_dispatch").cloned().unwrap();
    assert_eq!(before(&outside)["never_written"]["here"], true, "{text}");
    assert_eq!(before(&outside)["detail"], Value::Null, "no uninitialized value is shown");
    assert!(text.contains(here), "{text}");
    let there = "in the golden, no recorded task wrote this memory: the expected value is unknown";
    let (outside, _, text) = differing(RIGHT, RunSetup { is_filled: false, ..RIGHT });
    assert_eq!(before(&outside)["never_written"]["in_golden"], true, "{text}");
    assert!(text.contains(there), "{text}");
}
