//! Dumps whose memory would take too long to analyze: every verb reports what is undecided, and none of them
//! takes long.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common;
use crate::{call, document};

/// More rows than one query may look at.
const ROWS: u64 = 100_000;

/// A dump of three consecutive tasks and a task next to them. The third reads rows that the other two wrote,
/// of which each left some to the other, so finding the last writers takes a look at every row.
fn write_dump(folder: &Path, salt: u64) {
    fs::create_dir(folder).unwrap();
    let hex = |number: u64| format!("{number:#018x}");
    let rows: [(u64, u64, u64); 4] =
        [(1, 0x10_0000, 3), (2, 0x10_0001, 3), (3, 0x10_0000, 4), (4, 0x9000_0000, 3)];
    let (mut tasks, mut tensors) = (Vec::new(), Vec::new());
    for (task, address, columns) in rows {
        let queue = u32::from(task == 4);
        tasks.push(json!({"task_id": hex(task), "step": 0, "kernels": [], "block_num": 1, "queue": queue,
            "started_ns": task * 10, "completed_ns": task * 10 + 5, "tensor_count": 1}));
        let given = 2 * task + if task == 3 { salt } else { 0 };
        for (stage, hash) in [("before_dispatch", given), ("after_completion", 2 * task + 1 + salt)] {
            tensors.push(json!({"task_id": hex(task), "func_id": [], "role": "inout", "role_known": false,
                "stage": stage, "arg_index": 0, "kind": "tensor", "dtype": "uint8", "dtype_known": false,
                "ndims": 2, "shape": [ROWS, columns], "strides": [8 + task, 1], "start_offset": 0,
                "numel": ROWS * columns, "is_contiguous": false, "truncated": false, "overwritten": false,
                "in_flight": false, "payload": "none", "hash": format!("{hash:#034x}"), "bin_offset": 0,
                "bin_size": 0, "address": format!("{address:#x}"), "extent_known": true}));
        }
    }
    let edges: Vec<Value> = [(1, 2), (2, 3)]
        .map(|(from, to)| json!({"from": hex(from), "to": hex(to), "arg_index": 0, "why": "queue_order"}))
        .into();
    let manifest = json!({"schema_version": 1, "run_dir": "wide", "status": "complete", "platform": "opencl",
        "runtime": "record", "scene": "wide", "bin_file": null, "hash_algorithm": "xxh3_128_tree4k",
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"}, "dump_level": 4,
        "total_tensors": tensors.len(), "losses": [], "uncaptured": [], "in_flight": [], "tensors": tensors});
    let graph = json!({"schema_version": 1, "tasks": tasks, "edges": edges});
    fs::write(folder.join("tensor_dump.json"), manifest.to_string()).unwrap();
    fs::write(folder.join("graph.json"), graph.to_string()).unwrap();
}

#[test]
fn every_verb_reports_what_is_undecided_and_claims_nothing_about_it() {
    let dir = tempfile::tempdir().unwrap();
    write_dump(&dir.path().join("wide"), 0);
    write_dump(&dir.path().join("other"), 100);
    let said = "the writers of 1 argument are not determined";
    let lines: [&[&str]; 4] = [
        &["list", "wide"],
        &["summary", "wide"],
        &["show", "wide", "0x3"],
        &["blame", "wide", "--golden", "other"],
    ];
    for line in lines {
        let text = common::unwrapped(&call(dir.path(), line).1);
        assert_eq!(text.matches(said).count(), 1, "{line:?}: {text}");
    }
    let summary = document(dir.path(), &["summary", "wide"]);
    assert_eq!(summary["observed"]["origin_undecided"], 1);
    let counts = (&summary["observed"]["unattributed_count"], &summary["observed"]["undecided"]);
    assert_eq!(counts, (&0.into(), &2.into()), "no content is stored that could decide");
    let page = document(dir.path(), &["show", "wide", "0x3"]);
    assert!(page["remarks"][0].as_str().unwrap().starts_with(said));
    assert_eq!(page["arguments"][0]["observed"], "changed", "the other writers are decided");
    assert_eq!(page["arguments"][0]["from"], json!([]));
    let blame = document(dir.path(), &["blame", "wide", "--golden", "other"]);
    let third =
        blame["tasks"].as_array().unwrap().iter().find(|task| task["task_id"] == "0x0000000000000003");
    assert_eq!(third.unwrap()["label"], "unknown", "{blame}");
    let (status, _) = call(dir.path(), &["report", "wide", "-o", "page.html"]);
    let html = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(status == 0 && html.contains(said));
}
