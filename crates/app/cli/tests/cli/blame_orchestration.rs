//! The verdict of the whole run in a dump, and how `blame` uses it if no kernel is wrong.

use std::fs;

use serde_json::{Value, json};

use crate::common;
use crate::dumps::{Folder, cut};

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

fn text(folder: &Folder, line: &str, code: i32) -> String {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(line.starts_with("replay") || outcome.stdout.lines().all(fits), "{line}: {}", outcome.stdout);
    // Ignores line breaks.
    common::unwrapped(&outcome.stdout)
}

#[test]
fn a_dump_records_the_verdict_of_its_golden_and_its_fault() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    let (right, wrong) = (folder.manifest("right"), folder.manifest("wrong"));
    assert_eq!((&right["golden"], right.get("inject_fault")), (&"pass".into(), None));
    assert_eq!((&wrong["golden"], &wrong["inject_fault"]), (&"fail".into(), &"mul=last".into()));
    folder.good("verify right");
    folder.good("verify wrong");

    let said = "the run's own golden failed; the fault mul=last was injected on purpose";
    for line in ["blame wrong --reference", "blame wrong --golden right"] {
        assert!(text(&folder, line, 1).contains(said), "{line}");
    }
    assert!(text(&folder, "blame right --reference", 0).contains("the run's own golden passed"));
    assert!(text(&folder, "replay right --all", 0).contains("captured the run's own golden passed"));
    // The replay runs without the fault, so its output differs.
    let replayed = text(&folder, "replay wrong --task 0x100000002", 1);
    assert!(replayed.contains(&format!("captured {said}")), "{replayed}");
    for line in ["blame wrong --reference --json", "replay wrong --all --json"] {
        let document = document(&folder, line, 1);
        let golden = if line.starts_with("blame") { &document["run_golden"] } else { &document["golden"] };
        assert_eq!((golden, &document["inject_fault"]), (&"fail".into(), &"mul=last".into()), "{line}");
    }
    // The manifest and a case also record it.
    folder.tensortap("extract wrong --task 0x100000002 --out case");
    assert!(text(&folder, "replay case", 1).contains("captured with the injected fault mul=last"));
    fs::remove_file(folder.path("wrong/tensor_dump.idx")).expect("there is an index");
    assert!(text(&folder, "blame wrong --reference", 1).contains(said));
}

#[test]
fn a_dump_without_an_end_has_no_verdict() {
    let folder = Folder::new();
    folder.tensortap("run vector_example --dump-tensor --out torn --inject-fault mul=last");
    // As if the host were killed before the verdict.
    fs::remove_file(folder.path("torn/tensor_dump.json")).expect("there is a manifest");
    cut(&folder.path("torn/tensor_dump.idx"), 300);
    let said = "the run's own golden was not judged; the fault mul=last was injected on purpose";
    assert!(text(&folder, "blame torn --reference", 1).contains(said));
    let outcome = folder.tensortap("repair torn");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    folder.good("verify torn");
    assert_eq!(folder.manifest("torn").get("golden"), None);
    assert!(text(&folder, "blame torn --reference", 1).contains(said));
}

/// Runs the scene with a mistake in its orchestration, on a runtime where the orchestration adds the edges.
fn misrouted(folder: &Folder, mistake: &str, out: &str) -> Option<i32> {
    let runtime = "--runtime host_build_graph";
    let line = format!("run misrouted {runtime} --param mistake={mistake} --dump-tensor --out {out}");
    folder.tensortap(&line).code
}

#[test]
fn suspects_the_orchestration_if_no_kernel_is_wrong() {
    let folder = Folder::new();
    assert_eq!(misrouted(&folder, "none", "right"), Some(0));
    assert!(text(&folder, "blame right --reference", 0).starts_with("PASS: no task is wrong"));
    for mistake in ["slice", "part", "source"] {
        assert_eq!(misrouted(&folder, mistake, mistake), Some(1));
        let said = text(&folder, &format!("blame {mistake} --reference"), 1);
        let headline = "FAIL: the run's own golden failed, but every kernel matches its reference: \
                        suspect the orchestration";
        assert!(said.starts_with(headline), "{said}");
        assert!(said.contains(&format!("blame {mistake} --golden DUMP")), "{said}");
        assert!(said.contains("tensortap run misrouted --guard"), "{said}");
        let document = document(&folder, &format!("blame {mistake} --reference --json"), 1);
        assert_eq!(
            (&document["orchestration_suspected"], &document["verdict"]),
            (&true.into(), &"fail".into())
        );
    }
    // A wrong kernel explains the failure.
    folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    let document = document(&folder, "blame wrong --reference --json", 1);
    assert_eq!(document["orchestration_suspected"], false);
}

#[test]
fn a_golden_shows_wrong_views_and_sources() {
    let folder = Folder::new();
    assert_eq!(misrouted(&folder, "none", "right"), Some(0));
    let view =
        |rows: u64, start: u64| json!({"shape": [rows, 64], "strides": [64, 1], "start_offset": start});
    let row = |start: u64| json!({"shape": [64], "strides": [1], "start_offset": start});
    for (mistake, task, label, expected) in [
        ("slice", 1, "fed", vec![(Some(0), "view", view(2, 0), view(2, 128))]),
        ("part", 3, "fed", vec![(Some(1), "view", row(0), row(64))]),
        (
            "source",
            3,
            "fed",
            vec![(
                Some(0),
                "source",
                json!([{"task_id": "0x0000000000000000", "arg_index": 1}]),
                json!([{"task_id": "0x0000000000000001", "arg_index": 1}]),
            )],
        ),
    ] {
        misrouted(&folder, mistake, mistake);
        let document = document(&folder, &format!("blame {mistake} --golden right --json"), 1);
        let found: Vec<_> = document["wiring"].as_array().unwrap().iter().collect();
        let found = found.iter().filter(|d| d["what"] != "waits").collect::<Vec<_>>();
        assert_eq!(found.len(), expected.len(), "{mistake}: {document:#}");
        for (found, (arg, what, dump, golden)) in found.iter().zip(&expected) {
            assert_eq!(found["task_id"], format!("{task:#018x}"), "{mistake}: {document:#}");
            assert_eq!((&found["arg_index"], &found["what"]), (&json!(arg), &json!(what)), "{mistake}");
            assert_eq!((&found["dump"], &found["golden"]), (dump, golden), "{mistake}");
        }
        let of_task = document["tasks"].as_array().unwrap().iter();
        let of_task = of_task.filter(|t| t["task_id"] == format!("{task:#018x}")).collect::<Vec<_>>();
        assert_eq!(of_task.len(), 1);
        assert_eq!(of_task[0]["label"], label, "{mistake}: no kernel is wrong: {document:#}");
    }
    let said = text(&folder, "blame slice --golden right", 1);
    assert!(
        said.contains("argument 0 is a different view of an external input than in the golden"),
        "{said}"
    );
    let view = "argument 0 (x) is a different view: in the dump 2x64 from element 0, strides 64, 1 in the golden 2x64 \
                from element 128, strides 64, 1";
    assert!(said.contains(view), "{said}");
}

#[test]
fn names_a_missing_edge_even_if_all_values_are_right() {
    let folder = Folder::new();
    misrouted(&folder, "none", "right");
    misrouted(&folder, "edge", "edge");
    let outcome = folder.tensortap("blame edge --golden right --json");
    let document: Value = serde_json::from_str(&outcome.stdout).expect("one JSON document");
    let golden = json!({"task_id": "0x0000000000000001"});
    let words = ["does not wait for task 0x1 (double 1: double) of the golden, but its partner does"];
    let expected = json!([{
        "task_id": "0x0000000000000003", "arg_index": null, "what": "does_not_wait", "dump": null, "golden": golden, "words": words,
    }]);
    assert_eq!(document["wiring"], expected);
}

#[test]
fn correct_runs_have_the_same_orchestration_on_every_runtime() {
    let folder = Folder::new();
    let runtimes = ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"];
    for scene in ["vector_example", "paged_attention", "mixed_example"] {
        for runtime in runtimes {
            let out = format!("{scene}-{runtime}");
            folder.good(&format!("run {scene} --runtime {runtime} --dump-tensor --out {out}"));
        }
        for (one, other) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
            let line = format!("blame {scene}-{} --golden {scene}-{} --json", runtimes[one], runtimes[other]);
            assert_eq!(document(&folder, &line, 0)["wiring"], json!([]), "{line}");
        }
    }
}

#[test]
fn an_error_that_grows_downstream_is_inherited() {
    let folder = Folder::new();
    let scene = "run paged_attention --param batch=2 --param context=192 --dump-tensor";
    folder.good(&format!("{scene} --out right"));
    folder.tensortap(&format!("{scene} --out wrong --inject-fault qk=last"));
    // The probabilities of one softmax are within their rule, but the product after them is not.
    let document = document(&folder, "blame wrong --golden right --json", 1);
    let wrong = document["tasks"].as_array().unwrap().iter().filter(|t| t["label"] == "wrong_here");
    let kernels: Vec<_> = wrong.map(|t| t["kernels"].clone()).collect();
    assert_eq!(kernels, vec![json!(["qk"]); 6]);
    let grown = document["tasks"].as_array().unwrap().iter().find(|t| t["task_id"] == "0x0000000100000002");
    let grown = grown.expect("there is such a task");
    assert_eq!((&grown["kernels"], &grown["label"]), (&json!(["pv"]), &json!("inherited")));
    let reason = grown["reason"].as_str().expect("the reason is stated");
    assert!(reason.ends_with("its reference shows that the kernel is right"), "{reason}");
}

#[test]
fn a_short_document_counts_what_it_leaves_out() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    let ids = |document: &Value, list: &str| -> Vec<String> {
        let of = |task: &Value| task["task_id"].as_str().unwrap().to_string();
        document[list].as_array().unwrap().iter().map(of).collect()
    };
    let (mul, last) = ("0x0000000100000002", "0x0000000100000003");
    let blame = |rest: &str| document(&folder, &format!("blame wrong --golden right --json {rest}"), 1);
    for (rest, tasks, left_out) in [
        ("--only wrong_here", vec![mul], 4),
        ("--only inherited --only wrong_here", vec![mul, last], 3),
        ("--only raced", vec![], 5),
        // Wrong tasks come first.
        ("--limit 1", vec![mul], 4),
        ("--limit 2", vec![mul, last], 3),
        ("--limit 0", vec![], 5),
    ] {
        let document = blame(rest);
        assert_eq!(
            (ids(&document, "tasks"), &document["left_out"]),
            (tasks.iter().map(|t| t.to_string()).collect(), &left_out.into()),
            "{rest}"
        );
        // Counts and culprits still cover the whole dump.
        assert_eq!(
            (&document["labels"]["ok"], &document["first_wrong"]),
            (&3.into(), &json!([mul])),
            "{rest}"
        );
    }
    let whole = blame("--limit 5");
    assert_eq!((ids(&whole, "tasks").len(), &whole["left_out"]), (5, &0.into()));
    assert_eq!(ids(&whole, "tasks")[3], mul, "in dependency order when all are there");
    let diff = |rest: &str| document(&folder, &format!("diff wrong right --json {rest}"), 1);
    let failing = diff("--only fail");
    assert_eq!(
        (ids(&failing, "records").len(), &failing["left_out"], &failing["of"]),
        (3, &15.into(), &18.into())
    );
    assert_eq!(diff("--only fail --limit 1")["left_out"], 17);
    assert_eq!(diff("--only pass")["records"].as_array().unwrap().len(), 15);
    assert_eq!(diff("")["left_out"], 0);

    let said = text(&folder, "blame wrong --golden right --only inherited", 1);
    let list = said
        .split("in dependency order, wrong ones first, only inherited:")
        .nth(1)
        .expect("the list has a count");
    assert!(
        list.trim_start().starts_with("inherited task 0x100000003") && !list.contains("wrong_here"),
        "{said}"
    );
    let outcome = folder.tensortap("blame wrong --golden right --only guilty");
    assert!(outcome.code == Some(2) && outcome.stderr.contains("wrong_here"), "{outcome:?}");
}
