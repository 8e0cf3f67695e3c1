//! `blame` compares two recordings of a program whose structs have garbage in padding and a stale pointer, and whose memory is
//! not initialized.

use std::process::Command;

use serde_json::Value;

use crate::{Bench, built, common, succeeded};

impl Bench {
    /// Records the program of `blamed.c`.
    fn record_blamed(&self, run: &str, garbage: u8, fault: &str, options: &str) {
        let mut command = Command::new(common::executable());
        command.args(["record", "--out", run]).args(options.split_whitespace()).arg("--");
        command.arg(built().join("blamed")).args([&garbage.to_string(), fault]);
        command.current_dir(self.folder.path()).env("TENSORTAP_CUPTI", built().join("libcupti.so.13"));
        succeeded(command.env_remove("CUDA_INJECTION64_PATH").output().as_ref().unwrap());
    }

    /// The document and the text of `blame`.
    fn blamed(&self, run: &str, golden: &str) -> (Value, String) {
        let said = |options: &[&str]| {
            let mut command = Command::new(common::executable());
            command.args(["blame", run, "--golden", golden]).args(options);
            let output = command.current_dir(self.folder.path()).output().unwrap();
            assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        (serde_json::from_str(&said(&["--json"])).unwrap(), said(&[]))
    }
}

/// Kernel, number and label of each task that is named: its position among the tasks of its kernel.
fn named(document: &Value) -> Vec<(String, u64, String)> {
    let mut ids: Vec<(String, &Value)> = document["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["task_id"].as_str().unwrap().to_owned(), task))
        .collect();
    ids.sort_by_key(|(id, _)| id.clone());
    let mut counts = std::collections::HashMap::new();
    let mut named = Vec::new();
    for (_, task) in ids {
        let kernel = task["kernels"][0].as_str().unwrap_or_default().to_owned();
        let number: &mut u64 = counts.entry(kernel.clone()).or_default();
        let label = task["label"].as_str().unwrap();
        if ["wrong_here", "raced", "fed"].contains(&label) {
            named.push((kernel, *number, label.to_owned()));
        }
        *number += 1;
    }
    named
}

#[test]
fn right_runs_with_other_garbage_pass_and_a_wrong_launch_is_named() {
    for options in ["", "--dump-tensor=hash"] {
        let bench = Bench::new();
        bench.record_blamed("right", 7, "none", options);
        bench.record_blamed("again", 90, "none", options);
        for (run, golden) in [("again", "right"), ("right", "again")] {
            let (document, text) = bench.blamed(run, golden);
            assert_eq!(
                (&document["verdict"], named(&document)),
                (&"pass".into(), vec![]),
                "{options}: {text}"
            );
        }
        // By hash, it is not known which elements of a partly written buffer differ.
        let cases: &[(&str, u64, &str)] = match options {
            "" => &[
                ("scale", 0, "0"),
                ("scale", 1, "1"),
                ("fill", 0, "2"),
                ("part", 0, "3"),
                ("part", 1, "4"),
                ("part", 2, "5"),
            ],
            _ => &[("scale", 0, "0"), ("scale", 1, "1")],
        };
        for (kernel, number, fault) in cases {
            for garbage in [7, 90, 13] {
                let run = format!("wrong-{fault}-{garbage}");
                bench.record_blamed(&run, garbage, fault, options);
                let (document, text) = bench.blamed(&run, "right");
                let expected = [((*kernel).to_owned(), *number, "wrong_here".to_owned())];
                assert_eq!(named(&document), expected, "{options} {run}: {text}");
                let headline = text.lines().next().unwrap();
                assert!(headline.contains(&format!("({kernel}) is wrong here")), "{options} {run}: {text}");
            }
        }
    }
}

#[test]
fn a_launch_that_reads_uninitialized_memory_is_not_wrong() {
    for options in ["", "--dump-tensor=hash"] {
        let bench = Bench::new();
        bench.record_blamed("right", 7, "reads", options);
        bench.record_blamed("again", 90, "reads", options);
        for (run, golden) in [("again", "right"), ("right", "again")] {
            let (document, text) = bench.blamed(run, golden);
            let named = named(&document);
            assert!(named.iter().all(|(_, _, label)| label == "fed"), "{options}: {named:?} {text}");
            if options.is_empty() {
                let expected =
                    [("add", 0), ("scale", 2)].map(|(kernel, number)| (kernel.into(), number, "fed".into()));
                assert_eq!(named, expected, "{text}");
                assert!(text.contains("uninitialized memory"), "{text}");
            }
        }
    }
}
