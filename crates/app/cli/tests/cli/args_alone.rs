//! Dumps of only `--dump-args`, compared with `kernel_args_dump.json` read by a plain JSON parser.

use serde_json::Value;

use crate::dumps::Folder;
use crate::json::document;

/// Every argument of the matching dispatches, with its dispatch.
fn args(folder: &Folder, fits: impl Fn(&Value) -> bool) -> Vec<(Value, Value)> {
    let text = std::fs::read_to_string(folder.path("d/kernel_args_dump.json")).expect("it is there");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    let dispatches = json["dispatches"].as_array().expect("dispatches").iter().filter(|d| fits(d));
    let each =
        |d: &Value| d["args"].as_array().expect("args").iter().map(|a| (d.clone(), a.clone())).collect();
    dispatches.flat_map(|d| -> Vec<_> { each(d) }).collect()
}

/// The records that `list` prints.
fn listed(folder: &Folder, selectors: &str) -> Vec<Value> {
    let list = document(&folder.good(&format!("list d --json {selectors}")));
    list["records"].as_array().expect("records").clone()
}

fn agree(folder: &Folder, selectors: &str, fits: impl Fn(&Value) -> bool) -> usize {
    let (args, records) = (args(folder, fits), listed(folder, selectors));
    assert_eq!(args.len(), records.len(), "{selectors}");
    for ((dispatch, arg), record) in args.iter().zip(&records) {
        for key in ["dispatch_id", "task_id", "core_id", "block_idx", "stage"] {
            assert_eq!(dispatch[key], record[key], "{key} of {record}");
        }
        assert_eq!(record["kernels"], serde_json::json!([dispatch["kernel"]]));
        for key in ["arg_index", "kind", "dtype"] {
            assert_eq!(arg[key], record[key], "{key} of {record}");
        }
        let of_kind: &[(&str, &str)] = match arg["kind"].as_str() {
            Some("tensor") => &[
                ("shape", "shape"),
                ("strides", "strides"),
                ("start_offset", "start_offset"),
                ("data_ptr", "address"),
            ],
            _ => &[("bits", "scalar_value"), ("value", "value")],
        };
        for (ours, theirs) in of_kind {
            assert_eq!(arg[ours], record[theirs], "{theirs} of {record}");
        }
        assert_eq!(record["payload"], "none");
    }
    args.len()
}

#[test]
fn lists_dispatch_arguments_and_selects_by_dispatch_core_and_block() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-args", "d");
    assert_eq!(agree(&folder, "", |_| true), 508);
    let (core, block) = (|d: &Value| d["core_id"] == 4, |d: &Value| d["block_idx"].as_u64() > Some(0));
    assert!(agree(&folder, "--core 4", core) > 0);
    assert!(agree(&folder, "--block 1-3", block) > 0);
    agree(&folder, "--block 1-3 --core 4", |d| core(d) && block(d));
    let id = "0x0000031100000002";
    assert_eq!(agree(&folder, &format!("--dispatch {id}"), |d| d["dispatch_id"] == id), 6);
    assert!(agree(&folder, "--func fold", |d| d["kernel"] == "fold") > 0);
    // The kernels of a mix task declare the roles together: `fold` does not declare what `turn` writes.
    let roles: Vec<_> =
        listed(&folder, &format!("--dispatch {id}")).iter().map(|r| r["role"].clone()).collect();
    assert_eq!(roles, ["input", "input", "input", "output", "output", "output"]);
    let none = folder.good("list d --core 77");
    assert!(none.stdout.contains("There is no core 77; cores are 0, 1, 2, 3, 4, 5."), "{none:?}");
    let shown = folder.good(&format!("show d --dispatch {id} --arg 4")).stdout;
    // The scheduler chooses the core, so the test takes it from the dispatch.
    assert!(shown.contains("dispatch      0x0000031100000002, block 3, slot 1, core "), "{shown}");
    assert!(shown.contains(" (AIV)"), "{shown}");
    assert!(shown.contains("none: the dump contains only arguments of dispatches"), "{shown}");
    let sorted = document(&folder.good("list d --json --sort -block,core --limit 1"));
    assert_eq!(sorted["records"][0]["block_idx"], 3);
}

#[test]
fn selects_task_records_by_dispatch_and_reports_missing_dispatches() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-args --dump-tensor=meta", "d");
    let tasks: std::collections::BTreeSet<String> = args(&folder, |d| d["block_idx"] == 3)
        .iter()
        .map(|(dispatch, _)| dispatch["task_id"].as_str().expect("an id").to_owned())
        .collect();
    let records = listed(&folder, "--block 3");
    let chosen = records.iter().map(|r| r["task_id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!((tasks.len(), &tasks), (12, &chosen));
    assert!(records.iter().all(|record| record["dispatch_id"].is_null()));
    folder.record("mixed_example --dump-tensor=meta", "plain");
    let plain = folder.good("list plain --core 1").stdout;
    assert!(plain.contains("There is no dispatch (--dump-args records them)"), "{plain}");
}

#[test]
fn replay_without_content_needs_references() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-args", "d");
    let refused = folder.tensortap("replay d --all");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("add --allow-inexact to replay it anyway"), "{refused:?}");
    let unchecked = folder.tensortap("replay d --all --allow-inexact --json");
    let json: Value = serde_json::from_str(&unchecked.stdout).expect("one document");
    assert_eq!((unchecked.code, &json["verdict"], &json["bitexact"]), (Some(1), &"fail".into(), &0.into()));
    assert_eq!(json["unchecked"].as_array().map(Vec::len), Some(20));
    assert!(folder.tensortap("replay d --all --allow-inexact").stdout.contains("FAIL: nothing was compared"));
    let judged = document(&folder.good("replay d --all --allow-inexact --reference --json"));
    assert_eq!((&judged["verdict"], &judged["within_rule"]), (&"pass".into(), &20.into()));
}
