//! Dumps of another project, in each of its three generations: one reader with one kind of record.

use std::{fs, path::Path};

use crate::common::{foreign::*, *};
use serde_json::{Value, json};
use tensortap_abi::{DType, NO_KERNEL};
use tensortap_format::{
    ArgumentKind, Dump, DumpFormat, FormatError, PayloadState, Record, ScalarValue, Tail, Task, TaskFacts,
    find_newest, repair, verify,
};

fn records(dump: &Dump) -> Vec<Record> {
    dump.records().map(Result::unwrap).collect()
}

#[test]
fn a_view_of_the_first_generation_gets_strides_and_a_start() {
    let dir = tempfile::tempdir().unwrap();
    first(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.format(), dump.len(), dump.status()), (DumpFormat::SimplerFirst, 2, None));
    let [view, whole] = records(&dump)[..] else { panic!("two records") };
    assert_eq!((view.task_id, view.index, view.dtype), (0x1_0000_0001, 0, DType::Float32));
    assert_eq!((view.shape(), view.strides(), view.start_offset), (&[2, 3][..], &[5, 1][..], 7));
    assert_eq!(view.func_id, [NO_KERNEL, 7, NO_KERNEL], "in the slot that `subtask_id` names");
    assert!(!view.is_contiguous() && whole.is_contiguous());
    assert_eq!(dump.payload(&view).unwrap(), floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(dump.payload(&whole).unwrap().len(), 8);
    assert_eq!(dump.unknown(&view).get("subtask_id"), Some(&json!(1)));
    assert_eq!(dump.info().extra.get("timestamp"), Some(&json!("20260415_101500")));
}

#[test]
fn the_second_generation_has_scalars_as_raw_bits_and_keeps_unknown_keys() {
    let dir = tempfile::tempdir().unwrap();
    second(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.format(), dump.len(), dump.totals().scalars), (DumpFormat::SimplerSecond, 3, 1));
    let [input, scalar, output] = records(&dump)[..] else { panic!("three records") };
    assert_eq!((input.strides(), input.start_offset), (&[8, 2][..], 5));
    assert_eq!(scalar.value(), Some(ScalarValue::UInt64(u64::MAX)));
    assert_eq!(input.func_ids().count(), 0);
    assert_eq!(dump.payload(&output).unwrap(), floats(&[5.0, 6.0, 7.0, 8.0]));
    assert_eq!(Value::Object(dump.unknown(&scalar)), json!({"colour": ["blue", {"shade": 3}]}));
    assert!(dump.unknown(&input).is_empty() && dump.unknown(&output).is_empty());
    assert_eq!(Value::Object(dump.info().extra.clone()), json!({"made_by": {"tool": "new"}}));
    assert_eq!(dump.info().dump_level, 2);
}

#[test]
fn the_third_generation_has_typed_scalars_levels_and_some_payloads() {
    let dir = tempfile::tempdir().unwrap();
    third(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.format(), dump.info().dump_level), (DumpFormat::SimplerThird, 3));
    let [bare, float, int, stored] = records(&dump)[..] else { panic!("four records") };
    assert_eq!((bare.payload, bare.func_ids().count()), (PayloadState::None, 0));
    assert_eq!(float.value(), Some(ScalarValue::Float(1.5)));
    assert_eq!(int.value(), Some(ScalarValue::Int(-3)));
    assert_eq!(stored.func_ids().collect::<Vec<_>>(), [3, 4]);
    assert_eq!(dump.payload(&stored).unwrap(), floats(&[0.5, -0.5]));
    assert!(matches!(dump.payload(&bare), Err(FormatError::NoPayload { .. })));
    assert_eq!(dump.unknown(&int).get("arg_index_ambiguous"), Some(&json!(true)));
    assert_eq!(dump.footer().unwrap().dropped_records(), 5, "losses are counted");
    assert!(dump.edges().unwrap().is_empty());
    let tasks = dump.tasks().unwrap();
    assert_eq!(tasks.iter().map(|task| task.task_id).collect::<Vec<_>>(), [0, 1 << 32]);
    assert_eq!((tasks.at(1).tensor_count, tasks.at(1).scalar_count), (1, 2));
}

#[test]
fn a_manifest_without_payload_file_opens() {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = third(dir.path());
    manifest["bin_file"] = Value::Null;
    manifest["args"][3]["bin_size"] = json!(0);
    fs::remove_file(dir.path().join("args.bin")).unwrap();
    write_json(&dir.path().join("args_dump.json"), &manifest);
    let dump = Dump::open(dir.path()).unwrap();
    assert!(records(&dump).iter().all(|record| record.payload == PayloadState::None));
    assert!(verify(&dump).unwrap().is_ok());
}

#[test]
fn dependencies_and_names_are_found_next_to_the_manifest_and_one_folder_up() {
    for up in [false, true] {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("args_dump");
        fs::create_dir(&dir).unwrap();
        third(&dir);
        let place = if up { run.path() } else { &dir };
        write_json(&place.join("deps.json"), &deps());
        write_json(&place.join("name_map_attention.json"), &name_map());
        let dump = Dump::open(run.path()).unwrap();
        assert_eq!((dump.dir(), dump.len()), (dir.as_path(), 4));
        let [bare, float, ..] = records(&dump)[..] else { panic!("four records") };
        assert_eq!(bare.func_id, [NO_KERNEL, 9, NO_KERNEL], "the kernel is only in the graph");
        assert_eq!(float.func_id, [4, NO_KERNEL, 3], "the slots are from the graph");
        assert_eq!(dump.info().kernel_name(3), "softmax");
        assert_eq!(
            (dump.info().scene.as_str(), dump.info().runtime.as_str()),
            ("attention", "tensormap_and_ringbuffer")
        );
        let edges: Vec<_> =
            dump.edges().unwrap().iter().map(|e| (e.from, e.to, e.arg_index, e.why)).collect();
        let to = 1 << 32;
        assert_eq!(
            edges,
            [(0, to, 1, "read_after_write"), (0, to, 0, "write_after_write"), (0, to, 0, "explicit")]
        );
        let tasks = dump.tasks().unwrap();
        assert_eq!(
            (tasks.len(), tasks.at(0).block_num, tasks.at(0).func_id),
            (2, 2, [NO_KERNEL, 9, NO_KERNEL])
        );
    }
}

#[test]
fn a_damaged_graph_file_does_not_affect_the_records() {
    let dir = tempfile::tempdir().unwrap();
    third(dir.path());
    fs::write(dir.path().join("deps.json"), "{\"tasks\": [{\"task_id\": \"zero\"}]}").unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(records(&dump).len(), 4);
    for error in [dump.edges().unwrap_err(), dump.tasks().unwrap_err()] {
        assert!(matches!(error, FormatError::Beside { .. }), "{error}");
    }
    let problems = verify(&dump).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].what.contains("deps.json"), "{problems:?}");
}

#[test]
fn a_file_next_to_the_manifest_is_never_mistaken_for_it() {
    for name in ["deps.json", "graph.json", "name_map_kernels.json"] {
        let dir = tempfile::tempdir().unwrap();
        third(dir.path());
        let posing = "{\"schema_version\": 1, \"tasks\": [], \"tensors\": [{\"task_id\": \"0<\"}]}";
        fs::write(dir.path().join(name), posing).unwrap();
        assert_eq!(records(&Dump::open(dir.path()).unwrap()).len(), 4, "{name}");
    }
}

#[test]
fn a_dump_is_identified_by_its_content_and_not_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("outputs/run_1/args_dump");
    fs::create_dir_all(&dir).unwrap();
    third(&dir);
    write_json(&dir.join("deps.json"), &deps());
    fs::rename(dir.join("args_dump.json"), dir.join("renamed.json")).unwrap();
    let names = [
        "outputs/run_1/args_dump/renamed.json",
        "outputs/run_1/args_dump/args.bin",
        "outputs/run_1/args_dump",
        "outputs/run_1",
        "outputs",
    ];
    for name in names {
        let dump = Dump::open(&root.path().join(name)).unwrap();
        assert_eq!((dump.format(), dump.dir()), (DumpFormat::SimplerThird, dir.as_path()), "{name}");
    }
    assert_eq!(find_newest(&root.path().join("outputs")).unwrap(), dir);
    let second_dir = root.path().join("misnamed");
    fs::create_dir(&second_dir).unwrap();
    second(&second_dir);
    fs::rename(second_dir.join("tensor_dump.json"), second_dir.join("args_dump.json")).unwrap();
    assert_eq!(Dump::open(&second_dir).unwrap().format(), DumpFormat::SimplerSecond);
    let beside = Dump::open(&root.path().join("outputs/run_1/args_dump/deps.json"));
    assert!(matches!(beside, Err(FormatError::NotADump { .. })));
}

#[test]
fn keys_in_any_order_mean_the_same() {
    // With sorted keys, the records of the third generation precede every key that identifies them.
    let dir = tempfile::tempdir().unwrap();
    let manifest = third(dir.path());
    let mut shuffled = String::from("{\"args\": ");
    shuffled += &manifest["args"].to_string();
    for (key, value) in manifest.as_object().unwrap().iter().filter(|(key, _)| *key != "args") {
        shuffled += &format!(", {key:?}: {value}");
    }
    let before: Vec<String> =
        records(&Dump::open(dir.path()).unwrap()).iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    fs::write(dir.path().join("args_dump.json"), shuffled + "}").unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(dump.format(), DumpFormat::SimplerThird);
    let after: Vec<String> = records(&dump).iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    assert_eq!(before, after);
}

#[test]
fn scalars_of_every_dtype_become_bits() {
    let cases = [
        ("FLOAT32", json!(0.1), 0x3dcc_cccd),
        ("FLOAT64", json!(-2), 0xc000_0000_0000_0000),
        ("FLOAT16", json!(1.5), 0x3e00),
        ("BFLOAT16", json!(-3.140625), 0xc049),
        ("FLOAT8_E4M3FN", json!(448), 0x7e),
        ("FLOAT32", json!("-Infinity"), 0xff80_0000),
        ("INT8", json!(-1), 0xff),
        ("INT64", json!("-9223372036854775808"), 1 << 63),
        ("UINT64", json!(u64::MAX), u64::MAX),
        ("UINT16", json!(65535), 0xffff),
        ("BOOL", json!(true), 1),
        ("BOOL", json!(0), 0),
    ];
    for (dtype, value, bits) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = third(dir.path());
        manifest["args"] = json!([typed_scalar(0, dtype, &value)]);
        write_json(&dir.path().join("args_dump.json"), &manifest);
        let record = Dump::open(dir.path()).unwrap().record(0).unwrap();
        assert_eq!((record.kind, record.scalar_bits), (ArgumentKind::Scalar, Some(bits)), "{dtype} {value}");
    }
}

#[test]
fn another_projects_dump_is_verified_as_far_as_possible() {
    type Change = fn(&mut Value, &Path);
    let cases: [(&str, Change, Option<&str>); 6] = [
        ("whole", |_, _| {}, None),
        ("counter", |m, _| m["input_tensors"] = json!(7), Some("input_tensors = 7, but its records have 2")),
        ("total", |m, _| m["total_tensors"] = json!(4), Some("total_tensors = 4, but its records have 3")),
        ("overlap", |m, _| m["tensors"][2]["bin_offset"] = json!(8), Some("overlap")),
        ("shared payload", |m, _| m["tensors"][2]["bin_offset"] = json!(0), None),
        ("short", |_, bin| fs::write(bin, [0; 20]).unwrap(), Some("has only 20 bytes")),
    ];
    for (name, change, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = second(dir.path());
        change(&mut manifest, &dir.path().join("tensor_dump.bin"));
        write_json(&dir.path().join("tensor_dump.json"), &manifest);
        let verdict = verify(&Dump::open(dir.path()).unwrap()).unwrap();
        assert_eq!((verdict.records, verdict.checked, verdict.unverifiable), (3, 0, 3), "{name}: no hashes");
        let problems: Vec<String> = verdict.problems.iter().map(ToString::to_string).collect();
        match expected {
            None => assert!(problems.is_empty(), "{name}: {problems:?}"),
            Some(text) => {
                assert!(problems.len() == 1 && problems[0].contains(text), "{name}: {problems:?}");
            }
        }
    }
}

#[test]
fn another_projects_dump_is_not_repaired_and_the_error_gives_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    third(dir.path());
    let before = fs::read(dir.path().join("args_dump.json")).unwrap();
    let error = repair(dir.path()).unwrap_err();
    assert!(matches!(error, FormatError::NotRepairable { format: DumpFormat::SimplerThird, .. }), "{error}");
    assert_eq!(fs::read(dir.path().join("args_dump.json")).unwrap(), before);
}

#[test]
fn our_manifest_without_its_index_has_the_same_content() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    (0..3).for_each(|task| scribe.task(0, task, 100));
    scribe.append(0, &[tensortap_format::IndexRecord::plain(&edge_fields(1, 0, 1, 0))]);
    scribe.finish(tensortap_format::Status::Crashed);
    let indexed = Dump::open(dir.path()).unwrap();
    let expected = (
        records(&indexed).iter().map(|r| serde_json::to_value(r).unwrap()).collect::<Vec<_>>(),
        facts(&indexed),
        indexed.edges().unwrap(),
    );
    fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
    for sorted in [false, true] {
        if sorted {
            // Sorted keys put the orchestration's `args` first.
            write_json(&dir.path().join("tensor_dump.json"), &manifest(dir.path()));
        }
        let dump = Dump::open(dir.path()).unwrap();
        assert_eq!((dump.format(), dump.tail()), (DumpFormat::Manifest, Tail::Closed));
        let found = (
            records(&dump).iter().map(|r| serde_json::to_value(r).unwrap()).collect::<Vec<_>>(),
            facts(&dump),
            dump.edges().unwrap(),
        );
        assert_eq!(found, expected);
        for (one, other) in records(&dump).iter().zip(records(&indexed)) {
            assert_eq!(one.func_id, other.func_id, "in the slots that graph.json names");
        }
        assert_eq!(dump.status(), indexed.status());
        assert_eq!(dump.info(), indexed.info());
        let (mine, its) = (dump.totals(), indexed.totals());
        assert_eq!(
            (mine.total_tensors, mine.stored_bytes, mine.deduplicated_bytes),
            (its.total_tensors, its.stored_bytes, its.deduplicated_bytes)
        );
        let verdict = verify(&dump).unwrap();
        assert!(verdict.is_ok(), "{:?}", verdict.problems);
        assert_eq!((verdict.checked, verdict.unverifiable), (9, 0), "hashes are in the manifest");
        assert!(matches!(repair(dir.path()), Err(FormatError::NotRepairable { .. })));
    }
    let bin = dir.path().join("tensor_dump.bin");
    let mut bytes = fs::read(&bin).unwrap();
    bytes[3] ^= 1;
    fs::write(&bin, bytes).unwrap();
    let problems = verify(&Dump::open(dir.path()).unwrap()).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].what.contains("hash mismatch"), "{problems:?}");
}

#[test]
fn the_orchestrations_arguments_without_a_dump_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let args = json!({"schema_version": 1, "stage": "args_dump", "runtime": "host_build_graph", "total_args": 1,
                      "args": [{"arg_index": 0, "kind": "scalar", "dtype": "int32", "bits": "0x1", "value": 1}]});
    write_json(&dir.path().join("args_dump.json"), &args);
    let error = Dump::open(dir.path()).err().unwrap();
    assert!(error.to_string().contains("orchestration's own arguments"), "{error}");
    finished(&dir.path().join("d"), 1, 8);
    fs::copy(dir.path().join("args_dump.json"), dir.path().join("d/args_dump.json")).unwrap();
    let dump = Dump::open(&dir.path().join("d/args_dump.json")).unwrap();
    assert_eq!(dump.format(), DumpFormat::Indexed, "next to an index, the file names that dump");
}

/// The facts of the tasks.
fn facts(dump: &Dump) -> Vec<TaskFacts> {
    // Only the index contains the recording thread of a task.
    let facts = |task: Task<'_>| TaskFacts { thread: None, ..task.facts().clone() };
    dump.tasks().unwrap().iter().map(facts).collect()
}
