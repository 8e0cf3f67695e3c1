//! Dumps with several runs: a task is identified by its step and id, or only by its id if there is one
//! step.

use std::{fs, path::Path};

use crate::common::{foreign::*, *};
use serde_json::{Value, json};
use tensortap_abi::{EdgeCause, EdgeRecord, NO_KERNEL, Role, TaskRecord};
use tensortap_format::{Dump, FormatError, IndexRecord, Payload, Status, TaskKey, verify};

/// A tensor of two elements in a dump of the third generation.
fn tensor(run_epoch: &Value, task_id: &str, stage: &str, at: u64) -> Value {
    let role = if stage == "before_dispatch" { "input" } else { "output" };
    json!({"task_id": task_id, "run_epoch": run_epoch, "func_id": [3], "arg_index": 0, "role": role, "stage": stage,
           "kind": "tensor", "dtype": "FLOAT32", "is_contiguous": true, "shape": [2], "strides": [1],
           "start_offset": 0, "numel": 2, "bin_offset": at, "bin_size": 8, "truncated": false, "overwritten": false})
}

/// Two tasks that ran twice, with the records of the first run last. The content shows the run.
fn two_runs(dir: &Path) -> Value {
    let records = [(8_u32, "0x1", 0), (8, "0x2", 8), (7, "0x1", 16), (7, "0x2", 24)];
    let args: Vec<Value> = records
        .into_iter()
        .map(|(epoch, task, at)| tensor(&json!(epoch), task, "after_completion", at))
        .collect();
    let manifest = json!({
        "run_dir": "args_dump", "dump_args_level": 3, "total_args": 4, "before_dispatch": 0, "after_completion": 4,
        "input_args": 0, "output_args": 4, "inout_args": 0, "truncated_args": 0, "dropped_records": 0,
        "dropped_overwrite": 0, "bin_file": "args.bin", "args": args,
    });
    fs::write(dir.join("args.bin"), floats(&[81.0, 81.5, 82.0, 82.5, 71.0, 71.5, 72.0, 72.5])).unwrap();
    write_json(&dir.join("args_dump.json"), &manifest);
    manifest
}

fn key(step: u32, task_id: u64) -> TaskKey {
    TaskKey { step, task_id }
}

#[test]
fn the_runs_of_one_foreign_dump_are_its_steps() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(dump.steps(), [7, 8]);
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(
        records.iter().map(|r| r.task_key()).collect::<Vec<_>>(),
        [key(8, 1), key(8, 2), key(7, 1), key(7, 2)]
    );
    assert!(records.iter().all(|record| dump.unknown(record).is_empty()), "`run_epoch` is known");
    assert!(records[0].to_string().contains("step 8, task"), "{}", records[0]);
    let tasks = dump.tasks().unwrap();
    assert_eq!((tasks.len(), tasks.steps()), (4, &[7, 8][..]));
    for (key, first) in [(key(7, 1), 71.0), (key(7, 2), 72.0), (key(8, 1), 81.0), (key(8, 2), 82.0)] {
        let task = tasks.find(key).unwrap();
        let argument = task.argument(0).unwrap();
        assert!(!argument.is_repeated, "one record of each run");
        let record = dump.record(argument.after.unwrap().record).unwrap();
        assert_eq!(dump.payload(&record).unwrap(), floats(&[first, first + 0.5]), "{key:?}");
    }
    let mut kept = tasks.clone();
    kept.keep_steps(&[(8, 9)]);
    assert_eq!(kept.iter().map(|t| t.key()).collect::<Vec<_>>(), [key(8, 1), key(8, 2)]);
}

#[test]
fn a_graph_without_runs_applies_to_every_run() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let mut deps = json!({
        "tasks": [{"task_id": "1", "kernel_ids": [-1, 3, -1]}, {"task_id": "2", "kernel_ids": [3, -1, -1]}],
        "edges": [{"pred": "1", "succ": "2", "arg": 0}],
    });
    write_json(&dir.path().join("deps.json"), &deps);
    let ends = |dump: &Dump| -> Vec<_> {
        dump.edges().unwrap().iter().map(|edge| (edge.producer(), edge.consumer())).collect()
    };
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(ends(&dump), [(key(7, 1), key(7, 2)), (key(8, 1), key(8, 2))]);
    let tasks = dump.tasks().unwrap();
    assert_eq!(tasks.len(), 4);
    for step in [7, 8] {
        let (first, second) = (tasks.find(key(step, 1)).unwrap(), tasks.find(key(step, 2)).unwrap());
        assert_eq!((first.func_id, second.func_id), ([NO_KERNEL, 3, NO_KERNEL], [3, NO_KERNEL, NO_KERNEL]));
        assert_eq!((first.consumers().count(), second.producers().count()), (1, 1));
    }
    // A graph with runs is used as it is.
    deps["tasks"][0]["run_epoch"] = json!(8);
    deps["tasks"][1]["run_epoch"] = json!(8);
    write_json(&dir.path().join("deps.json"), &deps);
    assert_eq!(ends(&Dump::open(dir.path()).unwrap()), [(key(8, 1), key(8, 2))]);
}

#[test]
fn an_invalid_run_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = two_runs(dir.path());
    let path = dir.path().join("args_dump.json");
    for (epoch, said) in [
        (json!(-1), "run_epoch"),
        (json!("0x100000000"), "`run_epoch` does not fit in 32 bits"),
        (json!([]), "run_epoch"),
    ] {
        let mut manifest = manifest.clone();
        manifest["args"][1]["run_epoch"] = epoch;
        write_json(&path, &manifest);
        match Dump::open(dir.path()).map(|_| ()) {
            Err(FormatError::BadManifest { record: Some(1), reason, .. }) => {
                assert!(reason.contains(said), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    for (epoch, steps) in [(Value::Null, vec![0, 7, 8]), (json!("9"), vec![7, 8, 9])] {
        let mut manifest = manifest.clone();
        manifest["args"][1]["run_epoch"] = epoch;
        write_json(&path, &manifest);
        assert_eq!(Dump::open(dir.path()).unwrap().steps(), steps);
    }
}

/// Level 2 meant full and level 3 metadata, until in September 2026 2 became hybrid and 3 full. The records
/// decide.
#[test]
fn the_level_of_a_foreign_dump_follows_from_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let full = two_runs(dir.path());
    let mut hybrid = full.clone();
    for place in [0, 2] {
        hybrid["args"][place]["bin_size"] = json!(0);
    }
    let mut nothing = full.clone();
    nothing["bin_file"] = Value::Null;
    (0..4).for_each(|place| nothing["args"][place]["bin_size"] = json!(0));
    for (mut manifest, level) in [(full, 2), (hybrid, 3), (nothing, 3)] {
        for number in [json!(2), json!(3), json!(4), Value::Null] {
            match number.is_null() {
                true => drop(manifest.as_object_mut().unwrap().remove("dump_args_level")),
                false => manifest["dump_args_level"] = number.clone(),
            }
            write_json(&dir.path().join("args_dump.json"), &manifest);
            assert_eq!(Dump::open(dir.path()).unwrap().info().dump_level, level, "said {number}");
        }
    }
}

/// Tasks of two steps in an index. Records of arguments, edges and uncaptured arguments have no step; they
/// belong to the step of their task, which they identify by its id.
#[test]
fn records_of_an_index_belong_to_the_step_of_their_task() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let task = |step, task_id, done| {
        IndexRecord::plain(&TaskRecord { step, ..task_fields(task_id, 2, 10 + task_id, done) })
    };
    for (step, task_id) in [(4, 40), (5, 50)] {
        let fields = tensor_fields(task_id, BEFORE, Role::Input, 0, &[]);
        // The argument comes before its task, which is still found.
        scribe.append(0, &[IndexRecord::tensor(&fields, Payload::None)]);
        scribe.append(1, &[task(step, task_id, 0), task(step, task_id, 100)]);
    }
    let edge = EdgeRecord::new(40, 50, EdgeCause::ReadAfterWrite, 0);
    scribe.append(1, &[IndexRecord::plain(&edge)]);
    scribe.finish(Status::Complete);
    let mut dump = Dump::open(dir.path()).unwrap();
    assert!(verify(&dump).unwrap().is_ok());
    for from in ["the index", "only the manifest"] {
        let keys: Vec<_> = dump.records().map(|record| record.unwrap().task_key()).collect();
        assert_eq!((keys, dump.steps()), (vec![key(4, 40), key(5, 50)], vec![4, 5]), "{from}");
        let tasks = dump.tasks().unwrap();
        assert_eq!(tasks.len(), 2, "{from}");
        assert_eq!(tasks.find(key(5, 50)).unwrap().arguments().len(), 1, "{from}");
        let producers: Vec<_> = tasks.find(key(5, 50)).unwrap().producers().map(|e| e.producer()).collect();
        assert_eq!(producers, [key(4, 40)], "{from}");
        fs::remove_file(dir.path().join("tensor_dump.idx")).ok();
        dump = Dump::open(dir.path()).unwrap();
    }
}
