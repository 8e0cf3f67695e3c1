//! `blame` compares two recordings of a program whose structs have garbage in padding and a stale pointer, and whose memory is
//! not initialized.

use std::process::Command;

use serde_json::Value;

use crate::{Bench, built, common, succeeded};

impl Bench {
    /// Records the program of `blamed.c`.
    fn record_blamed(&self, run: &str, (garbage, stale): (u8, &str), fault: &str, options: &str) {
        let mut command = Command::new(common::executable());
        command.args(["record", "--out", run]).args(options.split_whitespace()).arg("--");
        command.arg(built().join("blamed")).args([&garbage.to_string(), stale, fault]);
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

/// Memory that no launch uses, the input of the first launches, and a pointer to no memory.
const STALE: [&str; 3] = ["8", "0", "none"];

#[test]
fn right_runs_with_other_garbage_and_stale_pointers_pass() {
    for options in ["", "--dump-tensor=hash"] {
        let bench = Bench::new();
        for stale in STALE {
            bench.record_blamed(&format!("right-{stale}"), (7, stale), "none", options);
            bench.record_blamed(&format!("again-{stale}"), (90, stale), "none", options);
        }
        for (run, golden) in STALE.into_iter().flat_map(|run| STALE.map(|golden| (run, golden))) {
            let (document, text) = bench.blamed(&format!("again-{run}"), &format!("right-{golden}"));
            let found = (&document["verdict"], named(&document));
            assert_eq!(found, (&"pass".into(), vec![]), "{options} {run} {golden}: {text}");
        }
    }
}

#[test]
fn right_runs_pass_if_a_stale_pointer_refers_to_the_output() {
    let stale = ["8", "0", "output"];
    let bench = Bench::new();
    for stale in stale {
        bench.record_blamed(&format!("right-{stale}"), (7, stale), "none", "");
        bench.record_blamed(&format!("again-{stale}"), (90, stale), "none", "");
    }
    for (run, golden) in stale.into_iter().flat_map(|run| stale.map(|golden| (run, golden))) {
        let (document, text) = bench.blamed(&format!("again-{run}"), &format!("right-{golden}"));
        let found = (&document["verdict"], named(&document));
        assert_eq!(found, (&"pass".into(), vec![]), "{run} {golden}: {text}");
    }
}

/// Checks that each wrong launch is named in runs with this garbage and this stale pointer.
fn wrong_launches_are_named(options: &str, garbage: u8, stale: &str) {
    const LAUNCHES: [(&str, u64); 6] =
        [("scale", 0), ("scale", 1), ("fill", 0), ("part", 0), ("part", 1), ("part", 2)];
    let bench = Bench::new();
    bench.record_blamed("right", (7, "none"), "none", options);
    // By hash, it is not known which elements of a partly written buffer differ.
    let known = if options.is_empty() { LAUNCHES.len() } else { 2 };
    for (fault, (kernel, number)) in LAUNCHES.into_iter().enumerate().take(known) {
        let run = format!("wrong-{fault}");
        bench.record_blamed(&run, (garbage, stale), &fault.to_string(), options);
        let (document, text) = bench.blamed(&run, "right");
        let [(named, found, label)] = &named(&document)[..] else { panic!("{options} {run}: {text}") };
        assert_eq!((&**named, *found), (kernel, number), "{options} {run}: {text}");
        // Padding that differs may be a value that the launch used.
        let is_value = label == "fed" && (garbage, stale) != (7, "none");
        assert!(label == "wrong_here" || is_value, "{options} {run}: {label}: {text}");
        let headline = text.lines().next().unwrap();
        assert!(headline.contains(&format!("({kernel}) ")), "{options} {run}: {text}");
    }
}

#[test]
fn a_wrong_launch_is_named_despite_stale_pointers() {
    for options in ["", "--dump-tensor=hash"] {
        for stale in ["none", "8"] {
            wrong_launches_are_named(options, 7, stale);
        }
    }
}

#[test]
fn a_wrong_launch_is_named_although_its_output_held_other_garbage() {
    for stale in ["none", "8"] {
        wrong_launches_are_named("", 90, stale);
    }
}

#[test]
fn a_launch_that_reads_uninitialized_memory_is_not_wrong() {
    for options in ["", "--dump-tensor=hash"] {
        for stale in STALE {
            let bench = Bench::new();
            bench.record_blamed("right", (7, stale), "reads", options);
            bench.record_blamed("again", (90, stale), "reads", options);
            for (run, golden) in [("again", "right"), ("right", "again")] {
                let (document, text) = bench.blamed(run, golden);
                let named = named(&document);
                let uses = [("add", 0), ("scale", 2)];
                let is_use = |(kernel, number, label): &(String, u64, String)| {
                    uses.contains(&(&**kernel, *number)) && label == "fed"
                };
                assert!(named.iter().all(is_use), "{options} {stale}: {named:?} {text}");
            }
        }
    }
}
