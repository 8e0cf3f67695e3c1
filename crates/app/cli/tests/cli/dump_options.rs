//! The dump options of `run`, checked by their effect on the manifest.

use serde_json::{Value, json};

use crate::common;
use crate::dumps::Folder;
use crate::json::document;

/// The manifest and the document of a run with these options.
fn dumped(scene: &str, options: &str) -> (Value, Value) {
    let folder = Folder::new();
    let run = document(&folder.tensortap(&format!("run {scene} --out d --json {options}")));
    assert_eq!(run["golden"], "pass", "{options}: {run}");
    (folder.manifest("d"), run)
}

fn records(manifest: &Value) -> &[Value] {
    manifest["tensors"].as_array().expect("tensors[]")
}

/// The distinct values of a key.
fn distinct(manifest: &Value, key: &str) -> Vec<Value> {
    let mut values: Vec<Value> = records(manifest).iter().map(|record| record[key].clone()).collect();
    values.sort_by_key(Value::to_string);
    values.dedup();
    values
}

#[test]
fn the_level_is_in_the_manifest() {
    for (option, level) in
        [("--dump-tensor", 2), ("--dump-tensor=marked", 1), ("--dump-tensor=3", 3), ("--dump-tensor=hash", 4)]
    {
        let (manifest, run) = dumped("vector_example", option);
        assert_eq!(manifest["dump_level"], level, "{option}");
        let name = ["off", "marked", "full", "meta", "hash"][level];
        assert_eq!(run["dump"]["level"], name, "{option}");
    }
}

#[test]
fn selects_kernels_by_pattern_and_rejects_names_of_tasks() {
    let (manifest, run) = dumped("vector_example", "--dump-tensor --dump-func add*");
    assert_eq!(distinct(&manifest, "func_id"), [json!([0]), json!([1])]);
    assert_eq!(run["dump"]["records"], 14 - 3 + 3);
    let (nothing, run) = dumped("vector_example", "--dump-tensor --dump-func zz*");
    assert_eq!((records(&nothing).len(), &run["dump"]["filtered_records"]), (0, &18.into()));
    let folder = Folder::new();
    for (line, works) in [
        ("--dump-task mul", "--dump-func"),
        ("--dump-task inner/t3", "list --task NAME"),
        ("--dump-arg scores", "list --arg NAME"),
        ("--dump-func zz", "there are: add, add_scalar, mul"),
    ] {
        let refused = folder.tensortap(&format!("run vector_example --dump-tensor {line}"));
        assert_eq!(refused.code, Some(2), "{line}: {refused:?}");
        assert!(common::unwrapped(&refused.stderr).contains(works), "{line}: {refused:?}");
    }
}

#[test]
fn level_off_writes_no_dump() {
    let folder = Folder::new();
    let run = document(&folder.good("run vector_example --dump-tensor=off --json"));
    assert_eq!((&run["dump"], folder.outputs()), (&Value::Null, Vec::new()));
}

#[test]
fn filters_by_task_kernel_argument_and_stage() {
    let (manifest, run) = dumped("vector_example", "--dump-tensor --dump-task 0,0x100000002-0x100000003");
    let tasks = ["0x0000000000000000", "0x0000000100000002", "0x0000000100000003"];
    assert_eq!(distinct(&manifest, "task_id"), tasks);
    assert!(run["dump"]["filtered_records"].as_u64() > Some(0), "{run}");

    let (manifest, _) = dumped("vector_example", "--dump-tensor --dump-func mul --dump-func 0");
    assert_eq!(distinct(&manifest, "func_id"), [json!([0]), json!([2])]);

    let (manifest, _) = dumped("vector_example", "--dump-tensor --dump-arg 0,2");
    assert_eq!(distinct(&manifest, "arg_index"), [0, 2]);

    for (stage, name) in [("before", "before_dispatch"), ("after", "after_completion")] {
        let (manifest, _) = dumped("vector_example", &format!("--dump-tensor --dump-stage {stage}"));
        assert_eq!(distinct(&manifest, "stage"), [name]);
    }
}

#[test]
fn first_last_and_max_bytes_limit_the_dump() {
    let (manifest, _) = dumped("vector_example", "--dump-tensor --dump-first 2");
    assert_eq!(distinct(&manifest, "task_id").len(), 2);
    let (manifest, _) = dumped("stream", "--dump-tensor --dump-last 3 --param tasks=20 --param bytes=4096");
    assert_eq!(distinct(&manifest, "task_id").len(), 3);
    let (_, run) = dumped("vector_example", "--dump-tensor --dump-max-bytes 128KiB");
    assert!(run["dump"]["bytes_captured"].as_u64() <= Some(128 << 10), "{run}");
}

#[test]
fn no_dedup_writes_every_payload() {
    let (_, run) = dumped("vector_example", "--dump-tensor");
    assert_eq!(
        (&run["dump"]["bytes_captured"], &run["dump"]["bytes_written"]),
        (&851_968.into(), &458_752.into())
    );
    assert_eq!(run["dump"]["deduplicated_bytes"], 393_216);
    let (_, run) = dumped("vector_example", "--dump-tensor --no-dedup");
    assert_eq!(
        (&run["dump"]["bytes_written"], &run["dump"]["deduplicated_bytes"]),
        (&851_968.into(), &0.into())
    );
}

#[test]
fn policy_and_collection_are_in_the_manifest() {
    for (options, policy, collect) in [
        ("", "block", "live"),
        ("--dump-policy drop", "drop", "live"),
        ("--dump-collect batch", "block", "batch"),
    ] {
        let (manifest, _) = dumped("vector_example", &format!("--dump-tensor {options}"));
        assert_eq!((&manifest["dump_policy"], &manifest["dump_collect"]), (&policy.into(), &collect.into()));
    }
}

#[test]
fn buffer_sizes_liveness_and_write_paths_keep_the_dump_complete() {
    let options = "--dump-tensor --dump-arena 64KiB --dump-buffers 2 --dump-records 3 --dump-liveness 2min";
    for more in ["", "--dump-sync", "--dump-write=direct", "--dump-writers=3", "--dump-files=3"] {
        let (manifest, run) = dumped("vector_example", &format!("{options} {more}"));
        assert_eq!((records(&manifest).len(), &run["dump"]["dropped_records"]), (18, &0.into()), "{more}");
    }
}

#[test]
fn writes_the_dump_to_outputs_or_to_out() {
    let folder = Folder::new();
    for number in 1..=2 {
        let run = document(&folder.good("run vector_example --dump-tensor --json"));
        let outputs = folder.outputs();
        assert_eq!(outputs.len(), number);
        assert_eq!(run["dump"]["dir"], format!("outputs/{}", outputs[number - 1]));
        assert!(outputs[number - 1].starts_with("tensor_dump_"), "{outputs:?}");
    }
    folder.good("run vector_example --dump-tensor --out deep/down");
    assert_eq!(folder.manifest("deep/down")["run_dir"], "down");
    assert_eq!(folder.outputs().len(), 2);
}

#[test]
fn rejects_a_folder_in_use_before_the_run() {
    let folder = crate::dumps::vector_example();
    let outcome = folder.tensortap("run vector_example --dump-tensor --out d --json");
    assert_eq!((outcome.code, &document(&outcome)["error"]["exit_status"]), (Some(2), &2.into()));
    assert!(outcome.stderr.contains("d exists and is not empty"), "{outcome:?}");
    folder.good("verify d");
}
