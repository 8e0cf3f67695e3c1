//! `blame` and `diff` of right runs whose dumps lack records: filters, limits and the policy `drop`. Equal tasks are found
//! by their ids, so no task is named.

use serde_json::Value;

use crate::dumps::Folder;

/// A scene with small parameters, and a kernel of it.
const SCENES: [(&str, &str); 3] = [
    ("stream -p tasks=60 -p bytes=4096", "advance"),
    ("bgemm -p m=64 -p n=96 -p k=96 -p batch=2", "tile_add"),
    ("tiny_llm -p tokens=4 -p prompt=2", "softmax"),
];
const RUNTIMES: [&str; 3] = ["tensormap_and_ringbuffer", "host_build_graph", "aicpu_build_graph"];

/// The filters that are tested with each scene and runtime.
fn filters(kernel: &str, runtime: &str) -> Vec<String> {
    let ring = if runtime == RUNTIMES[0] { 1_u64 << 32 } else { 0 };
    let some = [5, 11, 17].map(|id| format!("{:#x}", ring + id)).join(",");
    vec![
        format!("--dump-task {some} --dump-arg 1"),
        format!("--dump-task {some}"),
        "--dump-arg 1".to_owned(),
        format!("--dump-func {kernel}"),
        "--dump-stage after".to_owned(),
        "--dump-stage before".to_owned(),
        "--dump-last 4".to_owned(),
        "--dump-last 9 --dump-stage after".to_owned(),
        "--dump-first 7".to_owned(),
    ]
}

/// The document of `blame`, which may find the runs equal or not judge some tasks.
fn blamed(folder: &Folder, dump: &str, golden: &str) -> Value {
    let outcome = folder.tensortap(&format!("blame {dump} --golden {golden} --json"));
    assert!(matches!(outcome.code, Some(0 | 1)) && outcome.stderr.is_empty(), "{dump}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

/// Fails if a task of a right run has a label that accuses it or another task.
fn assert_no_task_is_named(document: &Value, case: &str) {
    for task in document["tasks"].as_array().unwrap_or(&Vec::new()) {
        let label = task["label"].as_str().expect("a label");
        assert!(matches!(label, "ok" | "unknown" | "masked"), "{case}: {task}");
    }
    assert_eq!(document["first_wrong"], serde_json::json!([]), "{case}");
}

/// Fails if a task has no certain partner.
fn assert_partners_are_certain(document: &Value, case: &str) {
    for task in document["tasks"].as_array().unwrap_or(&Vec::new()) {
        let reason = task["reason"].as_str().unwrap_or_default();
        assert!(!reason.contains("is not certain"), "{case}: {task}");
    }
}

fn filtered_runs_name_no_task((scene, kernel): (&str, &str)) -> usize {
    let folder = Folder::new();
    let mut variants = 0;
    for runtime in RUNTIMES {
        let run = format!("{scene} --runtime {runtime} --dump-tensor");
        let full = format!("{runtime}-full");
        folder.record(&run, &full);
        for (number, filter) in (0..).zip(filters(kernel, runtime)) {
            let [one, other] = ["one", "other"].map(|name| format!("{runtime}-{number}-{name}"));
            folder.record(&format!("{run} {filter}"), &one);
            folder.record(&format!("{run} {filter}"), &other);
            for (dump, golden) in [(&one, &full), (&full, &one), (&one, &other)] {
                let document = blamed(&folder, dump, golden);
                let case = format!("{scene} {runtime} {filter}: {dump} with {golden}");
                assert_no_task_is_named(&document, &case);
                // Which tasks come first or last depends on the schedule. Two such dumps may lack each other's tasks.
                let is_of_schedule = filter.contains("-first") || filter.contains("-last");
                if !is_of_schedule || [dump, golden].contains(&&full) {
                    assert_partners_are_certain(&document, &case);
                }
                assert!(
                    document["compared"].as_u64() > Some(0) || dump == &one && golden == &other,
                    "{case}"
                );
                variants += 1;
            }
        }
    }
    variants
}

#[test]
fn filtered_right_runs_of_stream_name_no_task() {
    assert_eq!(filtered_runs_name_no_task(SCENES[0]), 81);
}

#[test]
fn filtered_right_runs_of_bgemm_name_no_task() {
    assert_eq!(filtered_runs_name_no_task(SCENES[1]), 81);
}

#[test]
fn filtered_right_runs_of_tiny_llm_name_no_task() {
    assert_eq!(filtered_runs_name_no_task(SCENES[2]), 81);
}

#[test]
fn a_dump_of_three_tasks_and_one_argument_agrees_with_a_complete_golden() {
    let folder = Folder::new();
    let run = "stream -p tasks=60 -p bytes=4096 --dump-tensor";
    folder.record(run, "g");
    folder.record(&format!("{run} --dump-task 0x100000005,0x10000000b,0x100000011 --dump-arg 1"), "e");
    let document = blamed(&folder, "e", "g");
    assert_eq!(document["compared"], 3, "{document}");
    let labels: Vec<&Value> =
        document["tasks"].as_array().expect("tasks").iter().map(|t| &t["label"]).collect();
    assert_eq!(labels, ["ok", "ok", "ok"], "{document}");
    let diff = folder.tensortap("diff e g --allow-unmatched");
    assert_eq!(diff.code, Some(0), "{diff:?}");
}

#[test]
fn dropped_records_name_no_task() {
    let folder = Folder::new();
    let run = "stream -p tasks=400 -p bytes=65536 --dump-tensor --dump-policy drop --dump-arena 64KiB";
    for out in ["one", "other"] {
        let outcome = folder.tensortap(&format!("run {run} --out {out}"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    for (dump, golden) in [("one", "other"), ("other", "one")] {
        assert_no_task_is_named(&blamed(&folder, dump, golden), dump);
    }
}

#[test]
fn a_wrong_task_of_a_filtered_dump_is_still_named() {
    let folder = Folder::new();
    let run = "vector_example --dump-tensor";
    folder.record(run, "g");
    folder.record_wrong(&format!("{run} --inject-fault mul=last --dump-func mul,add"), "wrong");
    let document = blamed(&folder, "wrong", "g");
    assert_eq!(document["first_wrong"], serde_json::json!(["0x0000000100000002"]), "{document}");
}

/// Whatever combined filters remove from both dumps, only tasks of the faulty kernel may be accused.
#[test]
fn wrong_runs_with_combined_filters_accuse_only_tasks_of_the_faulty_kernel() {
    let folder = Folder::new();
    let stages = ["", "--dump-stage after", "--dump-stage before"];
    let selections = ["", "--dump-func mul", "--dump-last 2", "--dump-arg 0,2"];
    let both = |stage: &str| selections.map(|selection| format!("{stage} {selection}"));
    let filters: Vec<String> = stages.iter().flat_map(|stage| both(stage)).collect();
    let faults = ["add", "mul"];
    for (number, filter) in filters.iter().enumerate() {
        let run = format!("run vector_example -p n=64 --dump-tensor {filter}");
        folder.tensortap(&format!("{run} --out right-{number}"));
        for fault in faults {
            folder.tensortap(&format!("{run} --inject-fault {fault}=last --out {fault}-{number}"));
        }
    }
    let mut named = 0;
    for (fault, number) in
        faults.iter().flat_map(|fault| (0..filters.len()).map(move |number| (fault, number)))
    {
        for golden in [0, number, filters.len() - number - 1] {
            let found = blamed(&folder, &format!("{fault}-{number}"), &format!("right-{golden}"));
            let case = format!("{fault}: {} / {}", filters[number], filters[golden]);
            assert_only_kernel_is_accused(&found, fault, &case);
            named += found["first_wrong"].as_array().map_or(0, Vec::len);
        }
    }
    assert!(named >= 4, "the culprit is named where both dumps have everything: {named}");
}

/// Another input of the program is no fault of the task that reads it first.
#[test]
fn other_external_inputs_accuse_no_task_whatever_the_dumps_lack() {
    let folder = Folder::new();
    for (name, options) in [("full", "=full"), ("after", " --dump-stage after"), ("hash", "=hash")] {
        for seed in [1, 7] {
            folder.record(
                &format!("vector_example --dump-tensor{options} -p seed={seed}"),
                &format!("{name}-{seed}"),
            );
        }
    }
    for dump in ["full", "after", "hash"] {
        for golden in ["full", "after", "hash"] {
            let found = blamed(&folder, &format!("{dump}-7"), &format!("{golden}-1"));
            assert_eq!(found["verdict"], "fail", "{dump}, {golden}: {found}");
            assert_only_kernel_is_accused(&found, "none", &format!("{dump}, {golden}"));
        }
    }
}

/// Fails if a task of another kernel is `wrong_here` or raced.
fn assert_only_kernel_is_accused(found: &Value, kernel: &str, case: &str) {
    for task in found["tasks"].as_array().unwrap_or(&Vec::new()) {
        let label = task["label"].as_str().expect("a label");
        let is_faulty = task["kernels"][0].as_str().is_some_and(|name| name == kernel);
        assert!(!matches!(label, "wrong_here" | "raced") || is_faulty, "{case}: {task}");
    }
}
