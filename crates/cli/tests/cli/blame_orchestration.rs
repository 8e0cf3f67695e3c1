//! What a dump says of its run as a whole, and what `blame` makes of it when no kernel is wrong.

use std::fs;

use serde_json::{Value, json};

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
    // However lines are broken.
    outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_dump_says_what_its_golden_said_and_which_fault_it_was_given() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor --out right");
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
    let replayed = text(&folder, "replay wrong --task 0x100000002", 0);
    assert!(replayed.contains(&format!("captured {said}")), "{replayed}");
    for line in ["blame wrong --reference --json", "replay wrong --all --json"] {
        let code = i32::from(line.starts_with("blame"));
        let document = document(&folder, line, code);
        let golden = if code == 1 { &document["run_golden"] } else { &document["golden"] };
        assert_eq!((golden, &document["inject_fault"]), (&"fail".into(), &"mul=last".into()), "{line}");
    }
    // Known from the manifest alone, too, and of a case.
    folder.good("extract wrong --task 0x100000002 --out case");
    assert!(text(&folder, "replay case", 0).contains("captured the fault mul=last was injected on purpose"));
    fs::remove_file(folder.path("wrong/tensor_dump.idx")).expect("there is an index");
    assert!(text(&folder, "blame wrong --reference", 1).contains(said));
}

#[test]
fn a_dump_that_nobody_closed_was_not_judged() {
    let folder = Folder::new();
    folder.tensortap("run vector_example --dump-tensor --out torn --inject-fault mul=last");
    // As it is when the host is killed before the verdict.
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

/// Runs the scene with a mistake in its orchestration, on a runtime with edges of the orchestration's own.
fn misrouted(folder: &Folder, mistake: &str, out: &str) -> Option<i32> {
    let runtime = "--runtime host_build_graph";
    let line = format!("run misrouted {runtime} --param mistake={mistake} --dump-tensor --out {out}");
    folder.tensortap(&line).code
}

#[test]
fn without_a_wrong_kernel_the_orchestration_is_suspected() {
    let folder = Folder::new();
    assert_eq!(misrouted(&folder, "none", "right"), Some(0));
    assert!(text(&folder, "blame right --reference", 0).starts_with("PASS: no task is wrong"));
    for mistake in ["slice", "part", "source"] {
        assert_eq!(misrouted(&folder, mistake, mistake), Some(1));
        let said = text(&folder, &format!("blame {mistake} --reference"), 1);
        let headline = "FAIL: the run's own golden failed and every kernel is right by its reference: the \
                        orchestration is suspected";
        assert!(said.starts_with(headline), "{said}");
        assert!(said.contains(&format!("blame {mistake} --golden DUMP")), "{said}");
        let document = document(&folder, &format!("blame {mistake} --reference --json"), 1);
        assert_eq!(
            (&document["orchestration_suspected"], &document["verdict"]),
            (&true.into(), &"fail".into())
        );
    }
    // A kernel that is wrong is suspicion enough.
    folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    let document = document(&folder, "blame wrong --reference --json", 1);
    assert_eq!(document["orchestration_suspected"], false);
}

#[test]
fn beside_a_golden_the_views_and_sources_that_are_wrong_are_shown() {
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
    assert!(said.contains("argument 0 is another view of an external input than in the golden"), "{said}");
    let view = "argument 0 (x) is another view: in the dump 2x64 from element 0, strides 64, 1 in the golden 2x64 \
                from element 128, strides 64, 1";
    assert!(said.contains(view), "{said}");
}

#[test]
fn an_edge_that_was_forgotten_is_named_even_when_nothing_went_wrong() {
    let folder = Folder::new();
    misrouted(&folder, "none", "right");
    misrouted(&folder, "edge", "edge");
    let outcome = folder.tensortap("blame edge --golden right --json");
    let document: Value = serde_json::from_str(&outcome.stdout).expect("one JSON document");
    let golden = json!({"task_id": "0x0000000000000001"});
    let expected = json!([{
        "task_id": "0x0000000000000003", "arg_index": null, "what": "does_not_wait", "dump": null, "golden": golden,
    }]);
    assert_eq!(document["wiring"], expected);
}

#[test]
fn right_runs_have_the_same_orchestration_on_every_runtime() {
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
fn an_error_that_grows_behind_its_culprit_is_inherited() {
    let folder = Folder::new();
    let scene = "run paged_attention --param batch=2 --param context=192 --dump-tensor";
    folder.good(&format!("{scene} --out right"));
    folder.tensortap(&format!("{scene} --out wrong --inject-fault qk=last"));
    // Of one softmax the probabilities are within their rule and the product behind them is not.
    let document = document(&folder, "blame wrong --golden right --json", 1);
    let wrong = document["tasks"].as_array().unwrap().iter().filter(|t| t["label"] == "wrong_here");
    let kernels: Vec<_> = wrong.map(|t| t["kernels"].clone()).collect();
    assert_eq!(kernels, vec![json!(["qk"]); 6]);
    let grown = document["tasks"].as_array().unwrap().iter().find(|t| t["task_id"] == "0x0000000100000002");
    let grown = grown.expect("there is such a task");
    assert_eq!((&grown["kernels"], &grown["label"]), (&json!(["pv"]), &json!("inherited")));
    let reason = grown["reason"].as_str().expect("it is said why");
    assert!(reason.ends_with("by its reference its kernel is right"), "{reason}");
}
