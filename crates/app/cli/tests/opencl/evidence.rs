//! Which launch `blame` names if memory is not initialized, if a kernel writes past the end of its argument, and if an argument
//! is const.

use serde_json::{Value, json};

use crate::{Bench, succeeded};

impl Bench {
    /// Records `evidence.py`. `garbage` is what uninitialized memory holds.
    fn record_evidence(&self, run: &str, [how, fault]: [&str; 2], garbage: u8, options: &str) {
        let mut program = self.program(Some((run, options)), "evidence.py");
        program.args([how, fault]).env("MALLOC_PERTURB_", garbage.to_string());
        succeeded(&program.output().unwrap());
    }

    fn blame_golden(&self, run: &str) -> Value {
        let (code, document, stderr) = self.call(&["blame", run, "--golden", "right"]);
        let expected = if document["verdict"] == "pass" { 0 } else { 1 };
        assert_eq!((code, &*stderr), (Some(expected), ""), "{document}");
        document
    }
}

/// Kernel, position among all launches, and label of each task with one of these labels.
fn labeled(document: &Value, labels: &[&str]) -> Vec<(String, usize, String)> {
    let tasks = document["tasks"].as_array().unwrap();
    let mut ids: Vec<(&str, &Value)> =
        tasks.iter().map(|task| (task["task_id"].as_str().unwrap(), task)).collect();
    ids.sort_by_key(|(id, _)| *id);
    let launches =
        ids.iter().filter(|(_, task)| task["kernels"].as_array().is_some_and(|one| !one.is_empty()));
    let facts = launches.enumerate().map(|(number, (_, task))| {
        (task["kernels"][0].as_str().unwrap().to_owned(), number, task["label"].as_str().unwrap().to_owned())
    });
    facts.filter(|(_, _, label)| labels.contains(&&**label)).collect()
}

const NAMED: [&str; 3] = ["wrong_here", "raced", "fed"];

#[test]
fn a_partly_written_uninitialized_buffer_accuses_only_a_wrong_launch() {
    let Some(bench) = Bench::new() else { return };
    bench.record_evidence("right", ["partial", ""], 7, "");
    bench.record_evidence("again", ["partial", ""], 90, "");
    let document = bench.blame_golden("again");
    assert_eq!((&document["verdict"], labeled(&document, &NAMED)), (&"pass".into(), vec![]), "{document}");
    for number in 0..3 {
        for garbage in [7, 90] {
            let run = format!("wrong-{number}-{garbage}");
            bench.record_evidence(&run, ["partial", &number.to_string()], garbage, "");
            let document = bench.blame_golden(&run);
            // Nothing shows that the first launch does not use the few elements that it overwrites.
            let (label, words) = match (number, garbage) {
                (0, 90) => ("fed", "(part) was fed a wrong input"),
                _ => ("wrong_here", "(part) is wrong here"),
            };
            let expected = [("part".to_owned(), number, label.to_owned())];
            assert_eq!(labeled(&document, &NAMED), expected, "{run}: {document}");
            let headline = document["headline"].as_str().unwrap();
            assert!(headline.contains(words), "{run}: {headline}");
        }
    }
}

#[test]
fn a_launch_that_reads_or_adds_to_uninitialized_memory_is_not_wrong() {
    let Some(bench) = Bench::new() else { return };
    bench.record_evidence("right", ["reads", ""], 7, "");
    bench.record_evidence("again", ["reads", ""], 90, "");
    let document = bench.blame_golden("again");
    let expected = [("add", 0), ("twice", 1)].map(|(kernel, number)| (kernel.into(), number, "fed".into()));
    assert_eq!(labeled(&document, &NAMED), expected, "{document}");
    for kernel in ["add", "twice"] {
        let task =
            document["tasks"].as_array().unwrap().iter().find(|task| task["kernels"][0] == kernel).unwrap();
        assert!(task["reason"].as_str().unwrap().contains("uninitialized buffer"), "{task}");
    }
}

#[test]
fn a_write_past_the_end_of_an_argument_is_no_race_of_those_who_use_the_memory() {
    let Some(bench) = Bench::new() else { return };
    bench.record_evidence("right", ["bounds", ""], 7, "");
    bench.record_evidence("wrong", ["bounds", "yes"], 7, "");
    let document = bench.blame_golden("wrong");
    assert_eq!(document["verdict"], "fail", "{document}");
    assert_eq!(labeled(&document, &["wrong_here", "raced"]), [], "{document}");
    assert_eq!(labeled(&document, &["ok"])[0], ("a".into(), 0, "ok".into()), "{document}");
    let used = document["tasks"].as_array().unwrap().iter().find(|task| task["kernels"][0] == "use").unwrap();
    let reason = used["reason"].as_str().unwrap();
    assert!(reason.contains("unattributed change"), "{used}");
    let words = "Task 0x4, which ran in between, used the memory right next to it";
    assert!(reason.contains(words), "{used}");
    bench.record_evidence("again", ["bounds", ""], 7, "");
    assert_eq!(bench.blame_golden("again")["verdict"], "pass");
}

#[test]
fn an_unordered_launch_with_a_const_argument_has_not_written_it() {
    let Some(bench) = Bench::new() else { return };
    bench.record_evidence("right", ["const", ""], 7, "");
    bench.record_evidence("wrong", ["const", "yes"], 7, "");
    let document = bench.blame_golden("wrong");
    assert_eq!(labeled(&document, &NAMED), [("scale".into(), 1, "wrong_here".into())], "{document}");
    // The arguments of `look` and of `scale`. Threads of the device record them in any order.
    let (_, list, _) = bench.call(&["list", "wrong"]);
    let records = list["records"].as_array().unwrap().iter();
    let launched =
        records.filter(|record| record["stage"] == "after_completion" && record["kernels"] != json!([]));
    let mut roles: Vec<_> = launched
        .map(|record| {
            let text = |key: &str| record[key].as_str().unwrap();
            (
                record["kernels"][0].as_str().unwrap(),
                record["arg_index"].as_u64(),
                text("role"),
                text("observed"),
            )
        })
        .collect();
    roles.sort_unstable();
    let expected = [
        ("look", Some(0), "input", "same"),
        ("look", Some(1), "inout", "changed"),
        ("scale", Some(0), "inout", "changed"),
    ];
    assert_eq!(roles, expected, "{list}");
}
