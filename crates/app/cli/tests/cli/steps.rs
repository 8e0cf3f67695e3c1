//! Several runs in one dump: every verb distinguishes them.

use std::fs;

use serde_json::{Value, json};

use crate::dumps::Folder;
use crate::json::document;

/// A foreign dump in `name`: two tasks that ran once in each of `runs`, where the second reads the output of the first. A
/// run is a step number and the value that the second task adds.
fn foreign(folder: &Folder, name: &str, runs: &[(u32, f32)]) {
    let (mut args, mut payloads) = (Vec::new(), Vec::new());
    for (run, added) in runs {
        let given = 10.0;
        let records = [
            ("0x1", 0, "after_completion", given),
            ("0x2", 0, "before_dispatch", given),
            ("0x2", 1, "after_completion", given + added),
        ];
        for (task, arg, stage, value) in records {
            let role = if stage == "before_dispatch" { "input" } else { "output" };
            args.push(json!({"task_id": task, "run_epoch": run, "func_id": [arg], "arg_index": arg, "role": role,
                "stage": stage, "kind": "tensor", "dtype": "FLOAT32", "shape": [2], "strides": [1], "start_offset": 0,
                "numel": 2, "bin_offset": payloads.len(), "bin_size": 8, "truncated": false, "overwritten": false}));
            args.last_mut().expect("just added")["func_id"] = json!([if task == "0x1" { 1 } else { 2 }]);
            payloads.extend([value, value + 0.5].iter().flat_map(|value: &f32| value.to_le_bytes()));
        }
    }
    let manifest = json!({"run_dir": name, "dump_args_level": 3, "total_args": args.len(), "bin_file": "args.bin", "args": args});
    fs::create_dir(folder.path(name)).expect("a new folder");
    let write = |file: &str, bytes: &[u8]| {
        fs::write(folder.path(name).join(file), bytes).expect("it can be written");
    };
    write("args_dump.json", manifest.to_string().as_bytes());
    write("args.bin", &payloads);
    write("name_map.json", br#"{"callable_id_to_name": {"1": "make", "2": "shift"}}"#);
    write("deps.json", br#"{"tasks": [{"task_id": "1"}, {"task_id": "2"}], "edges": [{"pred": "1", "succ": "2", "arg": 0}]}"#);
}

#[test]
fn steps_have_a_column_and_a_selector() {
    let folder = Folder::new();
    foreign(&folder, "d", &[(7, 1.0), (8, 1.0)]);
    let table = folder.good("list d").stdout;
    assert!(table.contains("STEP"), "{table}");
    assert!(folder.good("stats d").stdout.contains("STEP"));
    let steps = |line: &str| -> Vec<Value> {
        let list = document(&folder.good(line));
        list["records"].as_array().expect("records").iter().map(|record| record["step"].clone()).collect()
    };
    assert_eq!(steps("list d --json"), [7, 7, 7, 8, 8, 8]);
    assert_eq!(steps("list d --step 8 --json"), [8, 8, 8]);
    assert_eq!(steps("list d --step 1-7,9 --json"), [7, 7, 7]);
    assert_eq!(steps("list d --sort -step --limit 1 --json"), [8]);
    let csv = folder.good("list d --csv --step 8").stdout;
    assert!(csv.lines().next().expect("a head").ends_with(",step"), "{csv}");
    let nothing = folder.good("list d --step 3").stdout;
    assert!(nothing.contains("step 3") && nothing.contains("7, 8"), "{nothing}");
    let shared = "Task ids repeat in the steps of the dump;";
    assert!(
        table.contains(shared) && !folder.good("list d --step 8").stdout.contains("Task ids repeat"),
        "{table}"
    );
    // A single run needs no column.
    foreign(&folder, "one", &[(7, 1.0)]);
    assert!(!folder.good("list one").stdout.contains("Task ids repeat"));
    assert!(!folder.good("list one").stdout.contains("STEP"));
    assert!(!folder.good("stats one").stdout.contains("STEP"));
}

#[test]
fn a_record_name_can_contain_the_step() {
    let folder = Folder::new();
    foreign(&folder, "d", &[(7, 1.0), (8, 2.0)]);
    let refused = folder.tensortap("show d 0x2/after/1");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("7@0x2/after/1") && refused.stderr.contains("8@0x2/after/1"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("choose one with --step N"), "{refused:?}");
    for (line, index) in [("show d 8@0x2/after/1", 5), ("show d 0x2/after/1 --step 7", 2)] {
        let shown = document(&folder.good(&format!("{line} --json")));
        assert_eq!(shown["record"]["index"], index, "{line}: {shown}");
    }
}

#[test]
fn exported_file_names_contain_the_step() {
    let folder = Folder::new();
    foreign(&folder, "d", &[(7, 1.0), (8, 2.0)]);
    folder.good("export d --format npy --out arrays");
    for step in [7, 8] {
        let name = format!("arrays/step{step}_task_0x0000000000000002_after_out1.npy");
        assert!(folder.path(&name).is_file(), "{name}");
    }
    let diff = document(&folder.good("diff d arrays --json"));
    assert_eq!((&diff["verdict"], &diff["compared"]), (&json!("pass"), &json!(6)), "{diff}");
    foreign(&folder, "wrong", &[(7, 1.0), (8, 3.0)]);
    let diff = document(&folder.tensortap("diff wrong arrays --json"));
    let outside = |diff: &Value| -> Vec<(Value, Value)> {
        let records = diff["records"].as_array().expect("records").iter();
        let wrong = records.filter(|record| record["verdict"] == "fail");
        wrong.map(|record| (record["step"].clone(), record["task_id"].clone())).collect()
    };
    let culprit = (json!(8), json!("0x0000000000000002"));
    assert_eq!(outside(&diff), [culprit]);
}

#[test]
fn compares_a_task_with_the_same_step_of_the_golden() {
    let folder = Folder::new();
    foreign(&folder, "golden", &[(7, 1.0), (8, 2.0)]);
    foreign(&folder, "same", &[(7, 1.0), (8, 2.0)]);
    foreign(&folder, "wrong", &[(7, 1.0), (8, 5.0)]);
    // Steps with different numbers are matched by order.
    foreign(&folder, "later", &[(70, 1.0), (80, 2.0)]);
    for good in ["same", "later"] {
        let diff = document(&folder.good(&format!("diff {good} golden --json")));
        assert_eq!(diff["compared"], 6, "{diff}");
        folder.good(&format!("blame {good} --golden golden"));
    }
    let blame = folder.tensortap("blame wrong --golden golden --json");
    assert_eq!(blame.code, Some(1), "{blame:?}");
    let blame = document(&blame);
    let labels: Vec<(u64, &str, &str)> = blame["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|task| {
            let text = |key: &str| task[key].as_str().expect("text");
            (task["step"].as_u64().expect("a step"), text("task_id"), text("label"))
        })
        .filter(|(_, _, label)| *label != "ok")
        .collect();
    assert_eq!(labels, [(8, "0x0000000000000002", "wrong_here")]);
    let text = folder.tensortap("blame wrong --golden golden").stdout;
    assert!(text.contains("task 8@0x2") && text.contains("--step 8 --task 0x2"), "{text}");
    // One step of the dump, compared with a golden that has one step with a different number.
    foreign(&folder, "right", &[(1, 2.0)]);
    folder.good("diff golden right --step 8");
    folder.good("blame golden --golden right --step 8");
    let refused = folder.tensortap("blame golden --golden right --step 7");
    assert_eq!(refused.code, Some(1), "another run: {refused:?}");
}

#[test]
fn compares_a_step_with_another_step() {
    let folder = Folder::new();
    foreign(&folder, "d", &[(1, 1.0), (2, 1.0), (3, 4.0)]);
    folder.good("diff d d --step 2 --golden-step 1");
    folder.good("blame d --golden d --step 2 --golden-step 1");
    let blame = folder.tensortap("blame d --golden d --step 3 --golden-step 1 --json");
    assert_eq!(blame.code, Some(1), "{blame:?}");
    let blame = document(&blame);
    let culprit = &blame["culprits"][0];
    assert_eq!((&culprit["step"], &culprit["task_id"]), (&json!(3), &json!("0x0000000000000002")), "{blame}");
    assert_eq!(folder.tensortap("diff d d --step 3 --golden-step 2").code, Some(1));
    // Both sides are cut in the same way: data from an earlier step has no producer on either side.
    let same = folder.good("blame d --golden d --step 2").stdout;
    assert!(!same.contains("orchestration"), "{same}");
    let refused = folder.tensortap("diff d d --step 3 --golden-step 7-9");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("its steps are 1, 2, 3"), "{refused:?}");
    folder.good("export d --step 1 --format npy --out arrays");
    let refused = folder.tensortap("diff d arrays --step 3 --golden-step 1");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("the golden consists of array files"),
        "{refused:?}"
    );
}

/// Changes manifest and graph so that the tasks of a dump ran twice.
fn dump_with_two_steps(folder: &Folder) {
    folder.record("vector_example --dump-tensor", "d");
    fs::remove_file(folder.path("d/tensor_dump.idx")).expect("an index");
    for (file, lists) in [("tensor_dump.json", ["tensors"].as_slice()), ("graph.json", &["tasks", "edges"])] {
        let path = folder.path("d").join(file);
        let mut json: Value = serde_json::from_slice(&fs::read(&path).expect("there")).expect("JSON");
        for list in lists {
            let once = json[list].as_array().expect("a list").clone();
            let in_step = |step: u32| {
                once.iter().cloned().map(move |mut element| {
                    element["step"] = step.into();
                    element
                })
            };
            json[list] = in_step(1).chain(in_step(2)).collect::<Vec<_>>().into();
        }
        fs::write(path, json.to_string()).expect("it can be written");
    }
}

#[test]
fn replay_and_extract_need_the_step_of_a_repeated_task_id() {
    let folder = Folder::new();
    dump_with_two_steps(&folder);
    for line in ["replay d --task 0x0", "extract d --task 0x0 --out case"] {
        let refused = folder.tensortap(line);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.stderr.contains("is in several steps: 1, 2; choose one with --step N"),
            "{refused:?}"
        );
    }
    let replayed = document(&folder.good("replay d --task 0x0 --step 2 --json"));
    assert_eq!((&replayed["tasks"], &replayed["results"][0]["step"]), (&json!(1), &json!(2)), "{replayed}");
    assert_eq!(document(&folder.good("replay d --all --json"))["tasks"], 10);
    folder.good("extract d --task 0x0 --step 2 --out case");
    folder.good("replay case");
}
