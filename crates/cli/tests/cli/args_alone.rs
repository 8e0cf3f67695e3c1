//! Dumps made with `--dump-args` alone, held against `kernel_args_dump.json` read with nothing but a JSON parser.

use serde_json::Value;

use crate::dumps::Folder;
use crate::json::document;

/// Every argument of every dispatch that fits, with its dispatch.
fn args(folder: &Folder, fits: impl Fn(&Value) -> bool) -> Vec<(Value, Value)> {
    let text = std::fs::read_to_string(folder.path("d/kernel_args_dump.json")).expect("it is there");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    let dispatches = json["dispatches"].as_array().expect("dispatches").iter().filter(|d| fits(d));
    let each =
        |d: &Value| d["args"].as_array().expect("args").iter().map(|a| (d.clone(), a.clone())).collect();
    dispatches.flat_map(|d| -> Vec<_> { each(d) }).collect()
}

/// What `list` has to say of them.
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
fn arguments_of_dispatches_are_listed_and_chosen_by_dispatch_core_and_block() {
    let folder = Folder::new();
    folder.good("run mixed_example --dump-args --out d");
    assert_eq!(agree(&folder, "", |_| true), 508);
    let (core, block) = (|d: &Value| d["core_id"] == 4, |d: &Value| d["block_idx"].as_u64() > Some(0));
    assert!(agree(&folder, "--core 4", core) > 0);
    assert!(agree(&folder, "--block 1-3", block) > 0);
    agree(&folder, "--block 1-3 --core 4", |d| core(d) && block(d));
    let id = "0x0000031100000002";
    assert_eq!(agree(&folder, &format!("--dispatch {id}"), |d| d["dispatch_id"] == id), 6);
    assert!(agree(&folder, "--func fold", |d| d["kernel"] == "fold") > 0);
    // Whatever the kernels of a mix task declare together: `fold` alone says nothing of what `turn` writes.
    let roles: Vec<_> =
        listed(&folder, &format!("--dispatch {id}")).iter().map(|r| r["role"].clone()).collect();
    assert_eq!(roles, ["input", "input", "input", "output", "output", "output"]);
    let none = folder.good("list d --core 77");
    assert!(none.stdout.contains("There is no core 77; cores are 0, 1, 2, 3, 4, 5."), "{none:?}");
    let shown = folder.good(&format!("show d --dispatch {id} --arg 4")).stdout;
    // Which core was free is the scheduler's affair, as the dispatch itself says.
    assert!(shown.contains("dispatch      0x0000031100000002, block 3, slot 1, core "), "{shown}");
    assert!(shown.contains(" (AIV)"), "{shown}");
    assert!(shown.contains("none: a dump of arguments alone"), "{shown}");
    let sorted = document(&folder.good("list d --json --sort -block,core --limit 1"));
    assert_eq!(sorted["records"][0]["block_idx"], 3);
}

#[test]
fn records_of_tasks_are_chosen_by_what_their_dispatches_were_and_say_when_none_are_known() {
    let folder = Folder::new();
    folder.good("run mixed_example --dump-args --dump-tensor=meta --out d");
    let tasks: std::collections::BTreeSet<String> = args(&folder, |d| d["block_idx"] == 3)
        .iter()
        .map(|(dispatch, _)| dispatch["task_id"].as_str().expect("an id").to_owned())
        .collect();
    let records = listed(&folder, "--block 3");
    let chosen = records.iter().map(|r| r["task_id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!((tasks.len(), &tasks), (12, &chosen));
    assert!(records.iter().all(|record| record["dispatch_id"].is_null()));
    folder.good("run mixed_example --dump-tensor=meta --out plain");
    let plain = folder.good("list plain --core 1").stdout;
    assert!(plain.contains("There is no dispatch (they are recorded with --dump-args)"), "{plain}");
}

#[test]
fn a_replay_without_content_compares_nothing_unless_references_judge() {
    let folder = Folder::new();
    folder.good("run mixed_example --dump-args --out d");
    let refused = folder.tensortap("replay d --all");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("--allow-inexact replays it all the same"), "{refused:?}");
    let unchecked = folder.tensortap("replay d --all --allow-inexact --json");
    let json: Value = serde_json::from_str(&unchecked.stdout).expect("one document");
    assert_eq!((unchecked.code, &json["verdict"], &json["bitexact"]), (Some(1), &"fail".into(), &0.into()));
    assert_eq!(json["unchecked"].as_array().map(Vec::len), Some(20));
    assert!(folder.tensortap("replay d --all --allow-inexact").stdout.contains("FAIL: nothing was compared"));
    let judged = document(&folder.good("replay d --all --allow-inexact --reference --json"));
    assert_eq!((&judged["verdict"], &judged["within_rule"]), (&"pass".into(), &20.into()));
}
