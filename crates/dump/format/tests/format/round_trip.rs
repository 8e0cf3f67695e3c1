//! Checks written files with a JSON parser and a byte reader that are independent of this crate.

use std::fs;

use crate::common::*;
use serde_json::{Value, json};
use tensortap_abi::{
    DType, KernelArg, KernelRecord, NO_KERNEL, PieceRecord, RECORD_HAS_HASH, RECORD_IN_FLIGHT, Role,
    ScopeRecord, TaskRecord, TensorRecord, TensorStats, UncapturedReason, UncapturedRecord,
};
use tensortap_format::{
    ArgumentKind, Dump, DumpWriter, Footer, FormatError, IndexRecord, Loss, NamedRecord, Names, Payload,
    PayloadState, RunInfo, SkipReason, SkippedIndex, Status, Tail, TaskKey, verify,
};

#[test]
fn the_json_of_a_finished_dump_has_the_captured_values() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 100);
    scribe.task(1, 0x1_0000_0003, 70_000);
    scribe.finish(Status::Complete);

    let manifest = manifest(dir.path());
    let counters = json!({
        "schema_version": 2, "status": "complete", "platform": "a2a3sim", "runtime": "tensormap_and_ringbuffer",
        "scene": "vector_example", "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "bin_file": "tensor_dump.bin", "hash_algorithm": "xxh3_128_tree4k", "dump_level": 2,
        "total_tensors": 6, "before_dispatch": 4, "after_completion": 2, "input_tensors": 4, "output_tensors": 2,
        "inout_tensors": 0, "scalars": 2, "truncated_tensors": 0, "dropped_records": 0, "dropped_overwrite": 0,
        "corrupt_records": 0, "deduplicated_bytes": 0, "losses": [], "uncaptured": [], "in_flight": [],
    });
    for (key, value) in counters.as_object().unwrap() {
        assert_eq!(&manifest[key], value, "{key}");
    }
    let dir_name = dir.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(manifest["run_dir"], dir_name);

    let bin = fs::read(dir.path().join("tensor_dump.bin")).unwrap();
    let large = &manifest["tensors"][3];
    let captured = content(2 * 0x1_0000_0003, 70_000);
    let offset = usize::try_from(large["bin_offset"].as_u64().unwrap()).unwrap();
    assert_eq!(offset % 4096, 0, "large payloads are page aligned");
    assert!(bin[offset..offset + 70_000] == captured[..]);
    let expected = json!({
        "task_id": hex64(0x1_0000_0003), "func_id": [1], "role": "input", "stage": "before_dispatch", "arg_index": 0,
        "kind": "tensor", "dtype": "uint8", "ndims": 1, "shape": [70000], "strides": [1], "start_offset": 0,
        "numel": 70000, "is_contiguous": true, "truncated": false, "overwritten": false, "in_flight": false,
        "payload": "stored", "hash": hex128(tree4k(&captured)), "bin_offset": offset, "bin_size": 70000,
        "address": "0x0000200000001000", "stats": null,
        "arg_name": null, "task_name": null, "scope": null, "step": 0,
    });
    assert_eq!(large, &expected);
    let scalar = json!({
        "task_id": hex64(0), "func_id": [1], "role": "input", "stage": "before_dispatch", "arg_index": 2,
        "kind": "scalar", "dtype": "float32", "ndims": 0, "shape": [], "strides": [], "start_offset": 0, "numel": 1,
        "is_contiguous": true, "truncated": false, "overwritten": false, "in_flight": false, "payload": "none",
        "scalar_value": "0x000000003f800000", "value": 1.0, "bin_offset": 0, "bin_size": 0,
        "arg_name": null, "task_name": null, "scope": null, "step": 0,
    });
    assert_eq!(manifest["tensors"][1], scalar);
}

#[test]
fn keys_are_in_the_order_of_the_specification() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 8);
    let text = fs::read_to_string(dir.path().join("tensor_dump.json")).unwrap();
    let top = [
        "schema_version",
        "run_dir",
        "status",
        "platform",
        "runtime",
        "scene",
        "bin_format",
        "bin_file",
        "hash_algorithm",
        "dump_level",
        "total_tensors",
        "before_dispatch",
        "after_completion",
        "input_tensors",
        "output_tensors",
        "inout_tensors",
        "scalars",
        "truncated_tensors",
        "dropped_records",
        "dropped_overwrite",
        "corrupt_records",
        "deduplicated_bytes",
        "losses",
        "uncaptured",
        "in_flight",
        "tensors",
    ];
    let places: Vec<usize> = top.map(|key| text.find(&format!("\n  \"{key}\": ")).expect(key)).to_vec();
    assert!(places.is_sorted(), "{places:?}");
    let record = &text[text.find("{\"task_id\"").unwrap()..];
    let keys = [
        "task_id",
        "func_id",
        "role",
        "stage",
        "arg_index",
        "kind",
        "dtype",
        "ndims",
        "shape",
        "strides",
        "start_offset",
        "numel",
        "is_contiguous",
        "truncated",
        "overwritten",
        "in_flight",
        "payload",
        "hash",
        "bin_offset",
        "bin_size",
    ];
    let places: Vec<usize> = keys.map(|key| record.find(&format!("\"{key}\":")).expect(key)).to_vec();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_reader_returns_the_written_records() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 3, 5000);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.tail(), dump.status(), dump.len()), (Tail::Closed, Some(Status::Complete), 9));
    let manifest = manifest(dir.path());
    for (place, record) in dump.records().enumerate() {
        let record = record.unwrap();
        assert_eq!(record.index, place as u64);
        assert_eq!(dump.record(record.index).unwrap(), record);
        assert_eq!(
            serde_json::to_value(NamedRecord { record, names: dump.names(&record) }).unwrap(),
            manifest["tensors"][place]
        );
        if record.kind == ArgumentKind::Tensor {
            let salt = 2 * record.task_id + u64::from(record.stage == AFTER);
            assert!(dump.payload(&record).unwrap() == content(salt, 5000));
            let mut part = [0; 10];
            dump.payload_part(&record, 4990, &mut part).unwrap();
            assert_eq!(part, content(salt, 5000)[4990..]);
            let outside = dump.payload_part(&record, 4991, &mut part);
            assert!(matches!(outside, Err(FormatError::PayloadRange { .. })));
        } else {
            assert!(matches!(dump.payload(&record), Err(FormatError::NoPayload { .. })));
        }
    }
    assert!(matches!(dump.record(9), Err(FormatError::NoRecord { index: 9, records: 9 })));
    assert_eq!(dump.records().nth(7).unwrap().unwrap().index, 7);
    let verdict = verify(&dump).unwrap();
    assert_eq!((verdict.records, verdict.checked, verdict.unverifiable), (9, 9, 0));
    assert!(verdict.is_ok(), "{:?}", verdict.problems);
}

#[test]
fn kernels_come_from_the_task_record_of_any_thread_at_any_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let mut mix = task_fields(8, 1, 10, 0);
    mix.func_id = [2, 0, NO_KERNEL];
    scribe.append(0, &[IndexRecord::plain(&task_fields(7, 1, 10, 0))]);
    let scalar = |task| IndexRecord::plain(&scalar_fields(task, 0, DType::Bool, 1));
    scribe.append(0, &[scalar(7), scalar(8)]);
    scribe.append(1, &[scalar(8), scalar(7), scalar(9)]);
    scribe.append(1, &[IndexRecord::plain(&mix)]);
    scribe.finish(Status::Complete);
    let func_ids: Vec<Value> =
        manifest(dir.path())["tensors"].as_array().unwrap().iter().map(|r| r["func_id"].clone()).collect();
    assert_eq!(func_ids, [json!([1]), json!([2, 0]), json!([2, 0]), json!([1]), json!([])]);
    let read = Dump::open(dir.path()).unwrap();
    let read: Vec<Vec<u32>> = read.records().map(|record| record.unwrap().func_ids().collect()).collect();
    assert_eq!(json!(read), json!(func_ids));
}

#[test]
fn the_state_of_every_payload_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let bytes = content(1, 300);
    let first = scribe.stored(1, BEFORE, Role::Input, 0, &bytes);
    let (offset, _) = first.stored_range().unwrap();
    let fields = |arg| tensor_fields(1, BEFORE, Role::InOut, arg, &bytes);
    let stats = TensorStats {
        min: f64::NEG_INFINITY,
        max: f64::NAN,
        mean: 0.5,
        std: 2.0,
        zeros: 3,
        nan: 1,
        inf: 2,
        numel: 300,
    };
    let in_flight = TensorRecord { flags: RECORD_HAS_HASH | RECORD_IN_FLIGHT, ..fields(7) };
    let unhashed = TensorRecord { flags: 0, ..fields(8) };
    scribe.append(
        0,
        &[
            first,
            IndexRecord::tensor(&fields(1), Payload::Deduplicated { offset, bytes: 300 }),
            IndexRecord::tensor(&fields(2), Payload::Truncated { offset, bytes: 100 }),
            IndexRecord::tensor(&fields(3), Payload::Overwritten),
            IndexRecord::tensor(&fields(4), Payload::Dropped),
            IndexRecord::tensor(&fields(5), Payload::None),
            IndexRecord::tensor(&fields(6), Payload::Stats(stats)),
            IndexRecord::tensor(&in_flight, Payload::None),
            IndexRecord::tensor(&unhashed, Payload::None),
        ],
    );
    scribe.finish(Status::Complete);

    let manifest = manifest(dir.path());
    let column = |key: &str| -> Vec<Value> {
        manifest["tensors"].as_array().unwrap().iter().map(|r| r[key].clone()).collect()
    };
    let states = ["stored", "stored", "truncated", "overwritten", "dropped", "none", "none", "none", "none"];
    assert_eq!(column("payload"), states.map(Value::from));
    assert_eq!(column("bin_size"), [300, 300, 100, 0, 0, 0, 0, 0, 0].map(Value::from));
    assert_eq!(column("truncated").iter().position(|v| v == true), Some(2));
    assert_eq!(column("overwritten").iter().position(|v| v == true), Some(3));
    assert_eq!(column("in_flight").iter().position(|v| v == true), Some(7));
    assert_eq!(column("hash")[8], Value::Null);
    let stats =
        json!({"min": "-Infinity", "max": "NaN", "mean": 0.5, "std": 2.0, "zeros": 3, "nan": 1, "inf": 2});
    assert_eq!(column("stats")[6], stats);
    assert_eq!(manifest["deduplicated_bytes"], 300);
    assert_eq!((&manifest["truncated_tensors"], &manifest["dropped_overwrite"]), (&json!(1), &json!(1)));
    assert_eq!(manifest["inout_tensors"], 8);
}

#[test]
fn a_dump_without_payloads_has_no_payload_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let fields = tensor_fields(1, BEFORE, Role::Input, 0, &[1, 2, 3]);
    let empty = tensor_fields(1, BEFORE, Role::Input, 1, &[]);
    let offset = scribe.writer.reserve(0);
    scribe.append(
        0,
        &[
            IndexRecord::tensor(&fields, Payload::None),
            IndexRecord::tensor(&empty, Payload::Stored { offset, bytes: 0 }),
        ],
    );
    scribe.finish(Status::Complete);
    assert!(!dir.path().join("tensor_dump.bin").exists());
    assert_eq!(manifest(dir.path())["bin_file"], Value::Null);
    let dump = Dump::open(dir.path()).unwrap();
    let empty = dump.record(1).unwrap();
    assert_eq!((empty.payload, dump.payload(&empty).unwrap()), (PayloadState::Stored, vec![]));
    let verdict = verify(&dump).unwrap();
    assert_eq!((verdict.is_ok(), verdict.checked, verdict.unverifiable), (true, 1, 1));
}

#[test]
fn an_aborted_payload_leaves_no_bytes_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 64);
    let offset = scribe.writer.reserve(100_000);
    scribe.writer.write_payload(offset, &[7; 5000]).unwrap();
    scribe.finish(Status::Complete);
    assert_eq!(fs::metadata(dir.path().join("tensor_dump.bin")).unwrap().len(), 128);
}

#[test]
fn the_graph_names_tasks_kernels_times_and_causes() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.append(
        0,
        &[
            IndexRecord::plain(&edge_fields(1, 2, 1, 3)),
            IndexRecord::plain(&edge_fields(1, 3, 0, 0)),
            IndexRecord::plain(&edge_fields(2, 3, 2, 1)),
            IndexRecord::plain(&edge_fields(2, 4, 3, 5)),
        ],
    );
    // In the index, task 2 completes before its dispatch, and task 3 never completes.
    scribe.append(1, &[IndexRecord::plain(&task_fields(2, 9, 200, 300))]);
    scribe.append(2, &[IndexRecord::plain(&task_fields(2, 9, 200, 0))]);
    let mut mix = task_fields(3, 0, u64::MAX, 0);
    mix.func_id = [2, NO_KERNEL, 0];
    mix.block_num = 4;
    scribe.append(2, &[IndexRecord::plain(&mix)]);
    scribe.finish(Status::Crashed);

    let graph = read_json(dir.path().join("graph.json"));
    let why: Vec<&str> =
        graph["edges"].as_array().unwrap().iter().map(|e| e["why"].as_str().unwrap()).collect();
    assert_eq!(why, ["read_after_write", "explicit", "write_after_write", "write_after_read"]);
    let edge = json!({"from": hex64(1), "to": hex64(2), "arg_index": 3, "why": "read_after_write"});
    assert_eq!(graph["edges"][0], edge);
    assert_eq!(
        graph["tasks"],
        json!([
            {"task_id": hex64(2), "kernels": ["func_9"], "func_id": [9], "subtask_id": [1], "core_type": ["AIV"],
             "block_num": 1, "tensor_count": 2, "scalar_count": 1, "dispatched_ns": "200", "completed_ns": "300",
             "in_flight": false, "thread": 0, "task_name": null, "scope": null, "step": 0},
            {"task_id": hex64(3), "kernels": ["mul", "add"], "func_id": [2, 0], "subtask_id": [0, 2],
             "core_type": ["AIC", "AIV"], "block_num": 4, "tensor_count": 2, "scalar_count": 1,
             "dispatched_ns": "18446744073709551615", "completed_ns": null, "in_flight": true, "thread": 1, "task_name": null, "scope": null, "step": 0},
        ])
    );
    assert_eq!(graph["threads"], json!([{"lane": 1, "tid": "0"}, {"lane": 2, "tid": "0"}]));
    let manifest = manifest(dir.path());
    let in_flight = json!([{"task_id": hex64(3), "func_id": [2, 0], "kernels": ["mul", "add"], "block_num": 4,
            "task_name": null, "scope": null, "step": 0}]);
    assert_eq!((&manifest["in_flight"], &manifest["status"]), (&in_flight, &json!("crashed")));

    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(dump.edges().unwrap().len(), 4);
    let tasks = dump.tasks().unwrap();
    assert_eq!(
        tasks.iter().map(|t| (t.task_id, t.completed_ns)).collect::<Vec<_>>(),
        [(2, Some(300)), (3, None)]
    );
}

#[test]
fn losses_and_uncaptured_arguments_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let uncaptured = UncapturedRecord {
        task_id: 5,
        reason: UncapturedReason::Contradiction as u8,
        arg_index: 2,
        ..UncapturedRecord::default()
    };
    let task = TaskRecord { name: 1, step: 3, ..task_fields(5, 1, 1, 0) };
    let arg = |name| KernelArg { name, ..KernelArg::default() };
    let kernel = KernelRecord { func_id: 1, ..KernelRecord::default() };
    scribe.append(
        3,
        &[
            IndexRecord::plain(&task),
            IndexRecord::plain(&uncaptured),
            IndexRecord::kernel(&kernel, &[arg(0), arg(0), arg(2)]),
            IndexRecord::string(1, "k_proj"),
            IndexRecord::string(2, "sum"),
        ],
    );
    let loss = |reason: &str, records, bytes| Loss { thread: 3, reason: reason.into(), records, bytes };
    let footer = Footer {
        losses: vec![loss("no_space", 4, 1000), loss("no_buffer", 2, 0)],
        corrupt_records: 9,
        ..Footer::new(Status::Complete)
    };
    scribe.writer.finish(&footer).unwrap();
    let manifest = manifest(dir.path());
    assert_eq!((&manifest["dropped_records"], &manifest["corrupt_records"]), (&json!(6), &json!(9)));
    let losses = json!([
        {"thread": 3, "reason": "no_space", "records": 4, "bytes": 1000},
        {"thread": 3, "reason": "no_buffer", "records": 2, "bytes": 0},
    ]);
    assert_eq!(manifest["losses"], losses);
    let element = json!([{"task_id": hex64(5), "func_id": [1], "stage": null, "arg_index": 2,
        "reason": UncapturedReason::Contradiction.text(),
        "arg_name": "sum", "task_name": "k_proj", "scope": null, "step": 3}]);
    assert_eq!(manifest["uncaptured"], element);
    let listed = Dump::open(dir.path()).unwrap().uncaptured().unwrap();
    assert_eq!(
        (listed[0].step, listed[0].task_id, listed[0].reason),
        (3, 5, UncapturedReason::Contradiction)
    );
}

#[test]
fn unknown_keys_are_kept_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let later = json!({"added_later": {"a": [1, 2]}, "status": "not yours", "scene": "s"});
    let info: RunInfo = serde_json::from_value(later).unwrap();
    DumpWriter::create(dir.path(), &info).unwrap().finish(&Footer::new(Status::Complete)).unwrap();
    let manifest = manifest(dir.path());
    assert_eq!(manifest["added_later"], json!({"a": [1, 2]}));
    assert_eq!((&manifest["scene"], &manifest["status"]), (&json!("s"), &json!("complete")));
    assert_eq!(Dump::open(dir.path()).unwrap().info().extra["added_later"], json!({"a": [1, 2]}));
}

#[test]
fn a_strided_view_keeps_its_shape_strides_and_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let cases: [(&[u64], &[i64], bool); 7] = [
        (&[2, 3], &[3, 1], true),
        (&[3, 2], &[1, 3], false),
        (&[2, 1, 3], &[3, 77, 1], true),
        (&[4], &[-1], false),
        (&[4], &[0], false),
        (&[0, 9], &[5, 5], true),
        (&[], &[], true),
    ];
    for (arg, (shape, strides, _)) in (0..).zip(&cases) {
        let numel: u64 = shape.iter().product();
        let mut fields = tensor_fields(1, BEFORE, Role::Input, arg, &[]);
        fields.dtype = DType::Int4.tag();
        fields.ndims = u8::try_from(shape.len()).unwrap();
        fields.start_offset = 5;
        fields.shape[..shape.len()].copy_from_slice(shape);
        fields.strides[..shape.len()].copy_from_slice(strides);
        let offset = scribe.writer.reserve(numel.div_ceil(2));
        // Values past the dimensions in use are not part of the dump.
        fields.shape[shape.len()..].fill(99);
        let bytes = numel.div_ceil(2);
        scribe.append(0, &[IndexRecord::tensor(&fields, Payload::Stored { offset, bytes })]);
    }
    scribe.finish(Status::Complete);
    let manifest = manifest(dir.path());
    for (record, (shape, strides, contiguous)) in manifest["tensors"].as_array().unwrap().iter().zip(&cases) {
        assert_eq!(record["shape"], json!(shape));
        assert_eq!(record["strides"], json!(strides));
        assert_eq!(record["is_contiguous"], json!(contiguous), "{shape:?} {strides:?}");
        assert_eq!(record["numel"], json!(shape.iter().product::<u64>()));
        assert_eq!(record["start_offset"], 5);
    }
}

#[test]
fn records_beyond_one_frame_are_split_and_read_back_completely() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let records: Vec<IndexRecord> =
        (0..200_000).map(|i| IndexRecord::plain(&scalar_fields(i, 0, DType::UInt64, i * 3))).collect();
    scribe.append(0, &records);
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.len(), dump.tail(), dump.gaps()), (200_000, Tail::Closed, &[][..]));
    let bits = dump.records().map(|r| r.unwrap().scalar_bits.unwrap());
    assert!(bits.eq((0..200_000).map(|i| i * 3)));
}

#[test]
fn an_inconsistent_record_is_rejected_and_the_dump_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 64);
    let good = tensor_fields(1, BEFORE, Role::Input, 0, &[0; 64]);
    let bad = [
        IndexRecord::tensor(&TensorRecord { dtype: 99, ..good }, Payload::None),
        IndexRecord::tensor(&TensorRecord { ndims: 9, ..good }, Payload::None),
        IndexRecord::tensor(&TensorRecord { stage: 0, ..good }, Payload::None),
        IndexRecord::tensor(&TensorRecord { shape: [u64::MAX; 8], ndims: 8, ..good }, Payload::None),
        IndexRecord::tensor(&good, Payload::Stored { offset: 0, bytes: 65 }),
        IndexRecord::tensor(&good, Payload::Stored { offset: u64::MAX, bytes: 64 }),
        IndexRecord::plain(&PieceRecord::default()),
        IndexRecord::plain(&TensorRecord { kind: 200, ..good }),
        IndexRecord::plain(&edge_fields(1, 2, 9, 0)),
    ];
    for record in bad {
        let refused = scribe.writer.append(0, 5..6, &[record]);
        assert!(matches!(refused, Err(FormatError::BadRecord { .. })), "{refused:?}");
    }
    scribe.task(0, 1, 64);
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.len(), dump.gaps()), (6, &[][..]));
}

/// A task with every kind of name, each defined after its first use.
fn named(dir: &std::path::Path) {
    let mut scribe = TestWriter::new(dir, &info());
    let task = |completed_ns| {
        let task = TaskRecord { name: 3, scope: 2, step: 7, ..task_fields(5, 9, 10, completed_ns) };
        IndexRecord::plain(&task)
    };
    let own = TensorRecord { name: 8, ..tensor_fields(5, BEFORE, Role::Input, 1, &[]) };
    let scalar = IndexRecord::plain(&scalar_fields(5, 2, DType::Bool, 1));
    let input = scribe.stored(5, BEFORE, Role::Input, 0, &[1, 2, 3]);
    scribe.append(0, &[input, IndexRecord::tensor(&own, Payload::None), scalar, task(0)]);
    scribe.append(1, &[task(20), IndexRecord::plain(&scalar_fields(6, 0, DType::Bool, 0))]);
    let scope =
        |id, name, parent| IndexRecord::plain(&ScopeRecord { id, name, parent, ..ScopeRecord::default() });
    let arg = |name, kind| KernelArg { name, kind, ..KernelArg::default() };
    let kernel = KernelRecord { func_id: 9, name: 6, core_type: 1, ..KernelRecord::default() };
    scribe.append(
        2,
        &[
            scope(2, 2, 1),
            scope(1, 1, 0),
            IndexRecord::kernel(&kernel, &[arg(4, 1), arg(5, 2)]),
            IndexRecord::string(1, "layer 1"),
            IndexRecord::string(2, "attention"),
            IndexRecord::string(3, "k_proj"),
            IndexRecord::string(4, "scores"),
            IndexRecord::string(5, "out"),
            IndexRecord::string(6, "softmax"),
            IndexRecord::string(8, "weights"),
        ],
    );
    scribe.finish(Status::Complete);
}

fn names_in(dump: &Dump) -> Vec<Value> {
    let tasks = dump.tasks().unwrap();
    let of_task = tasks.find(TaskKey { step: 7, task_id: 5 }).unwrap();
    assert_eq!(
        (of_task.arguments().len(), tasks.len()),
        (3, 2),
        "arguments belong to the step of their task"
    );
    assert_eq!((of_task.task_name(), of_task.scope()), (Some("k_proj"), Some("layer 1 / attention")));
    let records = dump.records().map(|record| record.unwrap());
    let names = records.map(|record| {
        let Names { arg_name, task_name, scope } = dump.names(&record);
        json!([arg_name, task_name, scope, record.step])
    });
    names.collect()
}

#[test]
fn names_reach_the_reader_the_manifest_and_the_graph() {
    let dir = tempfile::tempdir().unwrap();
    named(dir.path());
    let task = |arg: &str| json!([arg, "k_proj", "layer 1 / attention", 7]);
    let unnamed = json!([null, "k_proj", "layer 1 / attention", 7]);
    let expected = [task("scores"), task("weights"), unnamed, json!([null, null, null, 0])];
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(names_in(&dump), expected);
    assert_eq!(dump.task_names(TaskKey { step: 7, task_id: 5 }).scope, Some("layer 1 / attention"));
    assert_eq!(dump.info().kernel_name(9), "softmax");
    assert!(tensortap_format::verify(&dump).unwrap().is_ok());
    let manifest = manifest(dir.path());
    let said = manifest["tensors"].as_array().unwrap().iter();
    let said: Vec<Value> =
        said.map(|r| json!([r["arg_name"], r["task_name"], r["scope"], r["step"]])).collect();
    assert_eq!(said, expected);
    let kernel = manifest["kernels"].as_array().unwrap().iter().find(|k| k["func_id"] == 9).unwrap();
    assert_eq!((&kernel["name"], &kernel["core_type"]), (&json!("softmax"), &json!("AIC")));
    assert_eq!(
        (&kernel["arg_names"], &kernel["signature"]),
        (&json!(["scores", "out"]), &json!(["IN", "OUT"]))
    );
    let graph = read_json(dir.path().join("graph.json"));
    let task = &graph["tasks"][0];
    assert_eq!((&task["task_name"], &task["scope"]), (&json!("k_proj"), &json!("layer 1 / attention")));
    // The manifest without the index has the same names.
    fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
    assert_eq!(names_in(&Dump::open(dir.path()).unwrap()), expected);
}

#[test]
fn an_index_of_version_1_is_reported_and_its_dump_opens_from_its_manifest() {
    let dir = tempfile::tempdir().unwrap();
    named(dir.path());
    let index = dir.path().join("tensor_dump.idx");
    let mut bytes = fs::read(&index).unwrap();
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    fs::write(&index, &bytes).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    let passed_over = SkippedIndex { path: index.clone(), why: SkipReason::Version(1) };
    assert_eq!(dump.passed_over(), Some(&passed_over));
    assert_eq!((dump.len(), dump.format()), (4, tensortap_format::DumpFormat::Manifest));
    assert_eq!(dump.payload(&dump.record(0).unwrap()).unwrap(), [1, 2, 3]);
    // Without a manifest, nothing can be read.
    fs::remove_file(dir.path().join("tensor_dump.json")).unwrap();
    let refused = Dump::open(dir.path()).map(|_| ());
    assert!(matches!(refused, Err(FormatError::Version { found: 1, known: 4, .. })), "{refused:?}");
}
