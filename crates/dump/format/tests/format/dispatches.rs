//! Records of `--dump-args`: their form in the index and in the JSON files.

use std::{fs, path::Path};

use crate::common::*;
use proptest::prelude::*;
use serde_json::json;
use tensortap_abi::{
    ARG_SLOTS, BlockContext, DType, DispatchRecord, DispatchWords, FinishedRecord, OrchestrationArgRecord,
    Role, SubtaskContext, TensorDesc,
};
use tensortap_format::{
    DispatchArg, DispatchTimes, Dump, DumpWriter, FormatError, IndexRecord, PayloadState, RecordingThread,
    RunInfo, Status, WriterOptions, dispatch_id, repair, verify,
};
use zerocopy::IntoBytes;

const ARGS: &str = "args_dump.json";
const KERNEL_ARGS: &str = "kernel_args_dump.json";

/// The run information of a dump with arguments, with or without tensors.
fn args_info(dump_level: u32) -> RunInfo {
    let args = vec![json!({"name": "a", "role": "input", "dtype": "float32", "shape": [4]})];
    RunInfo { dump_args: true, dump_level, args, ..info() }
}

fn desc() -> TensorDesc {
    let mut desc = TensorDesc {
        buffer_addr: 0x2000_0000_4000,
        buffer_bytes: 96,
        start_offset: 2,
        owner_task: 0x1_0000_0000,
        version: 7,
        dtype: DType::Float32.tag(),
        ndims: 2,
        ..TensorDesc::default()
    };
    (desc.shape[0], desc.shape[1], desc.strides[0], desc.strides[1]) = (3, 4, 8, -1);
    desc
}

fn fields(task_id: u64, [tensor_count, scalar_count]: [u32; 2]) -> DispatchRecord {
    DispatchRecord {
        task_id,
        stage: BEFORE as u8,
        func_id: 2,
        core_id: 5,
        subtask_id: 1,
        subtask_count: 3,
        block_idx: 6,
        block_num: 9,
        tensor_count,
        scalar_count,
        started_ns: 110,
        ..DispatchRecord::default()
    }
}

fn numbered(numbers: [u32; 8]) -> DispatchRecord {
    let [func_id, core_id, subtask_id, subtask_count, block_idx, block_num, tensors, scalars] = numbers;
    let place =
        DispatchRecord { func_id, core_id, subtask_id, subtask_count, ..fields(1, [tensors, scalars]) };
    DispatchRecord { block_idx, block_num, ..place }
}

fn words(desc: &TensorDesc, scalars: &[(DType, u64)]) -> DispatchWords {
    let mut args = [0xdead; ARG_SLOTS];
    args[0] = 0x2000_0000_1000;
    for (slot, (_, bits)) in args[1..].iter_mut().zip(scalars) {
        *slot = *bits;
    }
    (args[48], args[49]) = (0x2000_0000_0100, 0x2000_0000_0108);
    let block = BlockContext { block_idx: 6, block_num: 9 };
    let subtask = SubtaskContext { subtask_id: 1, subtask_count: 3 };
    let mut words = DispatchWords::new(&args, 1, scalars.len(), block, subtask);
    scalars.iter().enumerate().for_each(|(index, (dtype, _))| words.scalar_dtype(index, dtype.tag()));
    words.tensor(desc);
    words
}

pub fn dispatch(task_id: u64) -> IndexRecord {
    let scalars = [(DType::Int64, (-5_i64).cast_unsigned()), (DType::UInt64, u64::MAX)];
    IndexRecord::dispatch(&fields(task_id, [1, 2]), words(&desc(), &scalars).words())
}

pub fn orchestration_arg(arg_index: u16) -> IndexRecord {
    let TensorDesc { buffer_addr, buffer_bytes, start_offset, dtype, ndims, shape, strides, .. } = desc();
    IndexRecord::plain(&OrchestrationArgRecord {
        address: buffer_addr,
        buffer_bytes,
        start_offset,
        role: Role::InOut.tag(),
        dtype,
        ndims,
        arg_index,
        shape,
        strides,
        ..OrchestrationArgRecord::default()
    })
}

/// Two tasks with one dispatch each; the arguments of one dispatch are lost.
fn write(dir: &Path, info: &RunInfo) -> TestWriter {
    let mut scribe = TestWriter::new(dir, info);
    scribe.append(0, &[orchestration_arg(1), orchestration_arg(0)]);
    scribe.append(1, &[IndexRecord::plain(&task_fields(3, 2, 100, 0)), dispatch(3)]);
    scribe.append(1, &[IndexRecord::lost_dispatch(&fields(4, [1, 2]), false)]);
    let ran = FinishedRecord { task_id: 3, core_id: 5, subtask_id: 1, block_idx: 6, ..Default::default() };
    let ran = FinishedRecord { started_ns: 120, completed_ns: u64::MAX, ..ran };
    scribe.append(1, &[IndexRecord::plain(&ran), IndexRecord::plain(&task_fields(3, 2, 100, 200))]);
    scribe
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dispatch_is_written_with_every_key_and_read_back_typed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &args_info(0)).finish(Status::Complete);
    let json = read_json(dir.path().join(KERNEL_ARGS));
    assert_eq!((&json["schema_version"], &json["status"]), (&json!(2), &json!("complete")));
    assert_eq!((&json["total_dispatches"], &json["total_args"]), (&json!(2), &json!(3)));
    let expected = json!({
        "dispatch_id": hex64(dispatch_id(3, 1, 6)), "func_id": 2, "kernel": "mul", "task_id": hex64(3),
        "subtask_id": 1, "core_type": "AIV", "core_id": 5, "block_idx": 6, "block_num": 9,
        "stage": "before_dispatch", "handed_over_ns": "110", "payload": "stored",
        "args": [
            {"arg_index": 0, "kind": "tensor", "dtype": "float32", "ndims": 2, "shape": [3, 4], "strides": [8, -1],
             "start_offset": 2, "data_ptr": hex64(0x2000_0000_4000), "buffer_bytes": 96,
             "desc_ptr": hex64(0x2000_0000_1000), "owner_task": hex64(0x1_0000_0000), "version": 7},
            {"arg_index": 1, "kind": "scalar", "dtype": "int64", "bits": "0xfffffffffffffffb", "value": "-5"},
            {"arg_index": 2, "kind": "scalar", "dtype": "uint64", "bits": "0xffffffffffffffff",
             "value": "18446744073709551615"},
        ],
        "context": [
            {"arg_index": 48, "name": "block_context", "data_ptr": hex64(0x2000_0000_0100), "block_idx": 6, "block_num": 9},
            {"arg_index": 49, "name": "subtask_context", "data_ptr": hex64(0x2000_0000_0108), "subtask_id": 1,
             "subtask_count": 3},
        ],
    });
    assert_eq!(json["dispatches"][0], expected);
    let ran = json!({"dispatch_id": hex64(dispatch_id(3, 1, 6)), "core_id": 5, "started_ns": "120",
        "completed_ns": u64::MAX.to_string()});
    assert_eq!(json["finished"], json!([ran]));
    let lost = &json["dispatches"][1];
    assert_eq!(
        (&lost["payload"], &lost["args"], &lost["context"]),
        (&json!("dropped"), &json!([]), &json!([]))
    );

    let dump = Dump::open(dir.path()).unwrap();
    let dispatches = dump.dispatches().unwrap();
    assert_eq!(
        dispatches[0].args[0],
        DispatchArg::Tensor { arg_index: 0, desc_addr: 0x2000_0000_1000, desc: desc() }
    );
    let tasks = dump.tasks().unwrap();
    let times = tasks.iter().map(|task| task.dispatch_times()[0]).collect::<Vec<_>>();
    let handed = DispatchTimes { handed_ns: 110, thread: Some(0), ..DispatchTimes::default() };
    let ran = DispatchTimes { started_ns: 120, completed_ns: u64::MAX, ..handed };
    assert_eq!(times, [ran, handed], "the dispatch with lost arguments has times too");
    assert_eq!(tasks.threads(), [RecordingThread { lane: 1, ..RecordingThread::default() }]);
    assert_eq!(dispatches[0].context.unwrap().block, BlockContext { block_idx: 6, block_num: 9 });
    assert_eq!((dispatches[1].payload, dispatches[1].args.len()), (PayloadState::Dropped, 0));
    // Without tensors, the arguments of dispatches become the listed records.
    assert_eq!(dump.len(), dispatches[0].args.len() as u64);
    assert!(verify(&dump).unwrap().is_ok());
}

#[test]
fn the_orchestrations_arguments_have_names_and_no_task() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &args_info(0)).finish(Status::Complete);
    let json = read_json(dir.path().join(ARGS));
    assert_eq!((&json["stage"], &json["total_args"]), (&json!("args_dump"), &json!(2)));
    assert_eq!(json["runtime"], "tensormap_and_ringbuffer");
    assert!(json["args"].as_array().unwrap().iter().all(|arg| arg.get("task_id").is_none()));
    let dump = Dump::open(dir.path()).unwrap();
    let args = dump.orchestration_args().unwrap();
    assert_eq!(args.iter().map(|a| a.arg_index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((args[0].name.as_deref(), args[1].name.as_deref()), (Some("a"), None));
    assert_eq!(args[0].desc, TensorDesc { owner_task: TensorDesc::NO_OWNER, version: 0, ..desc() });
}

#[test]
fn each_option_has_its_files() {
    let (both, alone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(both.path(), &args_info(2)).finish(Status::Complete);
    write(alone.path(), &args_info(0)).finish(Status::Complete);
    let of_args = [ARGS, "graph.json", KERNEL_ARGS, "tensor_dump.idx"];
    assert_eq!(files(alone.path()), of_args);
    assert_eq!(files(both.path()), [&of_args[..], &["tensor_dump.json"]].concat());
    assert_eq!(manifest(both.path())["total_dispatches"], 2);
}

#[test]
fn an_invalid_descriptor_is_shown_without_view_and_kept_in_the_index() {
    let wild = TensorDesc { dtype: 99, shape: [u64::MAX; 8], ..desc() };
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &args_info(0));
    scribe.append(1, &[IndexRecord::dispatch(&fields(3, [1, 0]), words(&wild, &[]).words())]);
    scribe.finish(Status::Complete);
    let arg = &read_json(dir.path().join(KERNEL_ARGS))["dispatches"][0]["args"][0];
    assert_eq!((&arg["dtype"], &arg["shape"], &arg["ndims"]), (&json!(null), &json!([]), &json!(0)));
    assert_eq!(arg["data_ptr"], hex64(wild.buffer_addr));
    let dispatches = Dump::open(dir.path()).unwrap().dispatches().unwrap();
    let DispatchArg::Tensor { desc: kept, .. } = dispatches[0].args[0] else { panic!() };
    assert_eq!((kept.dtype, kept.dims()), (99, &[u64::MAX; 2][..]));
}

#[test]
fn repair_writes_the_files_of_an_unclosed_dump() {
    let (closed, torn) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let info = RunInfo { run_dir: "one".into(), ..args_info(0) };
    write(closed.path(), &info).finish(Status::Killed);
    drop(write(torn.path(), &info));
    assert_eq!(files(torn.path()), ["tensor_dump.idx"]);
    assert!(repair(torn.path()).unwrap().changed);
    assert_eq!(files(torn.path()), files(closed.path()));
    for name in [ARGS, KERNEL_ARGS] {
        assert_eq!(read_json(torn.path().join(name)), read_json(closed.path().join(name)), "{name}");
    }
    assert!(!repair(torn.path()).unwrap().changed, "a second repair changes nothing");
}

#[test]
fn files_that_differ_from_the_index_are_found_and_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &args_info(0)).finish(Status::Complete);
    for name in [ARGS, KERNEL_ARGS] {
        let path = dir.path().join(name);
        let original = fs::read_to_string(&path).unwrap();
        let problems = || verify(&Dump::open(dir.path()).unwrap()).unwrap().problems;
        // The same meaning with different formatting and an additional key.
        let mut json = read_json(path.clone());
        json["added"] = json!(1);
        fs::write(&path, serde_json::to_string(&json).unwrap()).unwrap();
        assert!(problems().is_empty() && !repair(dir.path()).unwrap().changed, "{name}");
        for damaged in [original.replace("\"start_offset\":2", "\"start_offset\":3"), original[..90].into()] {
            assert_ne!(damaged, original);
            fs::write(&path, &damaged).unwrap();
            assert!(problems()[0].what.contains(name), "{:?}", problems());
            assert!(repair(dir.path()).unwrap().changed, "{name}");
            assert_eq!(fs::read_to_string(&path).unwrap(), original);
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(problems()[0].what, format!("{name} is missing"));
        assert!(repair(dir.path()).unwrap().changed && path.exists(), "{name}");
    }
}

#[test]
fn a_window_of_tasks_keeps_their_dispatches_and_the_orchestrations_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { keep_last_tasks: Some(3), ..WriterOptions::default() };
    let mut scribe = TestWriter::over(DumpWriter::create_with(dir.path(), &args_info(0), options).unwrap());
    scribe.append(0, &[orchestration_arg(0)]);
    for task in 0..60 {
        let at = (task + 1) * 1000;
        scribe.append(1, &[IndexRecord::plain(&task_fields(task, 2, at, 0)), dispatch(task)]);
        scribe.append(1, &[IndexRecord::plain(&task_fields(task, 2, at, at + 1))]);
        scribe.writer.free_before_window().unwrap();
    }
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(dump.dispatches().unwrap().iter().map(|d| d.task_id).collect::<Vec<_>>(), [57, 58, 59]);
    assert_eq!(dump.orchestration_args().unwrap().len(), 1);
    assert!(verify(&dump).unwrap().is_ok());
}

#[test]
fn an_inconsistent_dispatch_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = DumpWriter::create(dir.path(), &args_info(0)).unwrap();
    let good = words(&desc(), &[]);
    let mut no_slot = fields(1, [1, 0]);
    no_slot.subtask_id = 3;
    let mut no_block = fields(1, [1, 0]);
    no_block.block_idx = 9;
    for bad in [
        IndexRecord::dispatch(&fields(1, [2, 0]), good.words()),
        IndexRecord::dispatch(&fields(1, [1, 0]), &good.words()[1..]),
        IndexRecord::dispatch(&no_slot, good.words()),
        IndexRecord::dispatch(&no_block, good.words()),
    ] {
        assert!(matches!(writer.append(0, 0..1, &[bad]), Err(FormatError::BadRecord { task_id: 1, .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the words of a dispatch are, writer and reader agree on them and neither panics.
    #[test]
    fn arbitrary_words_are_rejected_or_round_trip(
        words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..20], 0..60),
        numbers in prop::array::uniform8(0u32..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = DumpWriter::create(dir.path(), &args_info(0)).unwrap();
        let record = IndexRecord::dispatch(&numbered(numbers), &words);
        if writer.append(0, 0..1, std::slice::from_ref(&record)).is_ok() {
            writer.finish(&tensortap_format::Footer::new(Status::Complete)).unwrap();
            let dump = Dump::open(dir.path()).unwrap();
            let dispatches = dump.dispatches().unwrap();
            prop_assert_eq!(dispatches.len(), 1);
            prop_assert_eq!(dispatches[0].args.len(), (numbers[6] + numbers[7]) as usize);
            prop_assert!(verify(&dump).unwrap().is_ok());
        } else {
            drop(writer);
            prop_assert!(fs::read(dir.path().join("tensor_dump.idx")).unwrap().windows(8).all(|w| {
                words.is_empty() || words[0] < 20 || w != words[0].as_bytes()
            }), "no part of it was written");
        }
    }
}
