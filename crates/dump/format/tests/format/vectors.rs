//! Conformance vectors: small dumps in `vectors/` with every kind of record, decoded by a Python program that follows the
//! documentation only. `TENSORTAP_BLESS=1` writes the vectors again after a change of the format.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agreement::{Decoded, check_agreement};
use crate::common::*;
use crate::dispatches::{dispatch, orchestration_arg};
use serde_json::{Value, json};
use tensortap_abi::*;
use tensortap_format::{Dump, IndexRecord, Payload, RunInfo, Status, Tail, repair, verify};

const VECTORS: [&str; 3] = ["every_kind", "open", "segmented"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors")
}

fn is_blessing() -> bool {
    std::env::var_os("TENSORTAP_BLESS").is_some()
}

/// Runs a Python program of `vectors/`; `None` with a notice without Python.
fn python(program: &str, args: &[&str]) -> Option<String> {
    let interpreter = std::env::var("TENSORTAP_PYTHON").unwrap_or("python3".into());
    let output = Command::new(&interpreter).arg("-B").arg(folder().join(program)).args(args).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "no {interpreter}");
        eprintln!("skipped: no {interpreter}");
        return None;
    };
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn run(name: &str) -> RunInfo {
    let args = vec![json!({"name": "a", "role": "input", "dtype": "float32", "shape": [4]})];
    RunInfo { run_dir: name.into(), dump_args: true, args, ..info() }
}

/// Definitions of every kind.
fn definitions() -> Vec<IndexRecord> {
    let hash = tree4k(b"an image").to_le_bytes();
    let texts = [
        "layer 1",
        "scale",
        "stream 1",
        "step 1",
        "libk.cubin",
        "-O2",
        "device 0",
        "axis",
        "dp",
        "pool",
        "näme",
    ];
    let strings = (1..).zip(texts).map(|(id, text)| IndexRecord::string(id, text));
    let arg = |name, kind| KernelArg { name, kind, reserved: [0; 3] };
    let kernel = KernelRecord {
        func_id: 3,
        name: 2,
        module: 1,
        arg_count: 2,
        core_type: 2,
        ..KernelRecord::default()
    };
    let module = ModuleRecord {
        id: 1,
        name: 5,
        bytes: 8,
        hash,
        options: 6,
        device: 7,
        image_kind: 5,
        ..Default::default()
    };
    let allocation =
        AllocationRecord { address: 0x7000, bytes: 64, at_ns: 5, space: 0, ..AllocationRecord::default() };
    let pooled = AllocationRecord {
        flags: RECORD_EXTENDED,
        storage: 9,
        after_task: 7,
        queue: 1,
        pool: 10,
        ..allocation
    };
    strings
        .chain([
            IndexRecord::plain(&ScopeRecord { id: 1, name: 1, ..ScopeRecord::default() }),
            IndexRecord::plain(&ScopeRecord { id: 2, name: 11, parent: 1, ..ScopeRecord::default() }),
            IndexRecord::kernel(&kernel, &[arg(11, 1), arg(0, 2)]),
            IndexRecord::plain(&QueueRecord { id: 1, name: 3, ..QueueRecord::default() }),
            IndexRecord::plain(&LaneRecord { tid: 0x1234, lane: 1, name: 0, ..LaneRecord::default() }),
            IndexRecord::plain(&StepRecord { id: 1, name: 4, started_ns: 77, ..StepRecord::default() }),
            IndexRecord::plain(&ModuleRecord { flags: RECORD_EXTENDED, ..module }),
            IndexRecord::plain(&allocation),
            IndexRecord::plain(&AllocationRecord { freed: 1, ..pooled }),
        ])
        .collect()
}

/// Attributes of every type, and a list.
fn attributes(task_id: u64) -> Vec<IndexRecord> {
    let single = |tag: u8, bits: u64| {
        let mut attribute =
            AttributeRecord { task_id, name: 8, total: 1, count: 1, ..AttributeRecord::default() };
        (attribute.types[0], attribute.values[0]) = (tag, bits);
        IndexRecord::plain(&attribute)
    };
    let values =
        [0, 1, (-12_i64).cast_unsigned(), 0.125_f64.to_bits(), 11, u64::from(DType::BFloat16.tag()), 2];
    let mut all: Vec<IndexRecord> = (1..).zip(values).map(|(tag, bits)| single(tag, bits)).collect();
    let mut list =
        AttributeRecord { task_id, name: 8, total: 2, count: 2, is_list: 1, ..AttributeRecord::default() };
    (list.types[0], list.types[1], list.values[0], list.values[1]) = (3, 5, 40, 1);
    all.push(IndexRecord::plain(&list));
    all
}

/// Tensors in every state of their payload, with every field of a view.
fn tensors(scribe: &mut TestWriter, task_id: u64) -> Vec<IndexRecord> {
    let stored = scribe.stored(task_id, BEFORE, Role::Input, 0, &content(1, 24));
    let mut view = tensor_fields(task_id, BEFORE, Role::InOut, 1, &[]);
    (view.dtype, view.ndims, view.start_offset, view.name, view.space) =
        (DType::Complex64.tag(), 2, 5, 11, 2);
    (view.shape[..2]).copy_from_slice(&[2, 3]);
    (view.strides[..2]).copy_from_slice(&[0, -1]);
    let stats =
        TensorStats { min: -1.0, max: 2.5, mean: f64::NAN, std: 0.5, zeros: 1, nan: 2, inf: 3, numel: 12 };
    let absent = tensor_fields(task_id, BEFORE, Role::Input, 2, &content(2, 8));
    vec![
        stored,
        IndexRecord::tensor(&view, Payload::Stats(stats)),
        IndexRecord::tensor(&absent, Payload::Dropped),
        IndexRecord::tensor(&TensorRecord { arg_index: 3, ..absent }, Payload::Overwritten),
        IndexRecord::tensor(
            &TensorRecord { arg_index: 4, flags: RECORD_DTYPE_UNKNOWN, hash: [0; 16], ..absent },
            Payload::None,
        ),
    ]
}

/// A region that contains a launch, and a dependency on it.
fn tasks(scribe: &mut TestWriter) {
    let region = TaskRecord { flags: RECORD_REGION, name: 1, ..task_fields(1, NO_KERNEL, 10, 0) };
    let launch = TaskRecord {
        flags: RECORD_HAS_PARENT | RECORD_EXTENDED | RECORD_LAUNCH_DETAILS,
        parent_task: 1,
        queue: 1,
        step: 1,
        scope: 2,
        module: 1,
        source_file: 11,
        source_line: 42,
        work_dims: 2,
        core: 6,
        grid: [2, 3, 1],
        group: [64, 2, 1],
        global_size: [128, 6, 1],
        global_offset: [1, 0, 0],
        shared_bytes: 1024,
        cluster: [2, 1, 1],
        launch_flags: LAUNCH_COOPERATIVE,
        tensor_count: 5,
        submitted_ns: 15,
        ..task_fields(7, 3, 20, 0)
    };
    scribe.append(1, &[IndexRecord::plain(&region)]);
    scribe.append(1, &attributes(1));
    let mut records = vec![IndexRecord::plain(&launch)];
    records.extend(tensors(scribe, 7));
    records.push(IndexRecord::plain(&scalar_fields(7, 5, DType::Float32, 0x3fc0_0000)));
    let local = ScalarRecord { flags: RECORD_LOCAL_MEMORY, ..scalar_fields(7, 6, DType::UInt64, 4096) };
    records.push(IndexRecord::plain(&local));
    let reason = UncapturedReason::TooManyDimensions as u8;
    let lost = UncapturedRecord {
        task_id: 7,
        stage: 1,
        arg_index: 7,
        role: 1,
        reason,
        ..UncapturedRecord::default()
    };
    records.push(IndexRecord::plain(&lost));
    let collective =
        CollectiveRecord { task_id: 7, sequence: 4, group: 9, collective: 2, ..Default::default() };
    records.push(IndexRecord::plain(&collective));
    scribe.append(2, &records);
    let output = scribe.stored(7, AFTER, Role::Output, 8, &content(3, 70));
    let ran = FinishedRecord {
        task_id: 7,
        core_id: 5,
        subtask_id: 1,
        started_ns: 21,
        completed_ns: 29,
        ..Default::default()
    };
    let completed = TaskRecord { completed_ns: 30, capture_ns: 3, ..launch };
    let ended = TaskRecord { completed_ns: 40, ..region };
    let edge =
        EdgeRecord { task_id: 7, producer: 1, cause: EdgeCause::Event as u16, ..EdgeRecord::default() };
    scribe.append(
        2,
        &[IndexRecord::plain(&completed), output, IndexRecord::plain(&ran), IndexRecord::plain(&edge)],
    );
    scribe.append(1, &[IndexRecord::plain(&ended)]);
    scribe.append(3, &[dispatch(7), IndexRecord::plain(&edge_fields(1, 7, 0, 0))]);
}

/// A task whose payloads are in three files.
fn segments(scribe: &mut TestWriter) {
    scribe.writer.spread_over(3);
    let record = |stage, role, arg: u16, position| {
        let bytes = content(arg.into(), 40);
        scribe.writer.write_payload(position, &bytes).unwrap();
        let payload = Payload::Stored { offset: position, bytes: 40 };
        IndexRecord::tensor(&tensor_fields(2, stage, role, arg, &bytes), payload)
    };
    let records = [
        IndexRecord::plain(&task_fields(2, 1, 10, 0)),
        record(BEFORE, Role::Input, 0, 64),
        record(BEFORE, Role::Input, 1, 1 << 44),
        IndexRecord::plain(&task_fields(2, 1, 10, 20)),
        record(AFTER, Role::Output, 2, (2 << 44) + 4096),
    ];
    scribe.append(0, &records);
}

/// Tasks with every value that a tag or flag may have.
fn every_value(scribe: &mut TestWriter) {
    let mut records = Vec::new();
    let task = |task_id, operation: u8| {
        IndexRecord::plain(&TaskRecord { operation, ..task_fields(task_id, NO_KERNEL, 50, 60) })
    };
    for (id, operation) in (100..).zip(Operation::ALL) {
        records.push(task(id, operation as u8));
    }
    for (id, kind) in (200..).zip(CollectiveKind::ALL) {
        let collective = kind as u8;
        let part = CollectiveRecord { task_id: id, group: 9, collective, ..CollectiveRecord::default() };
        records.extend([task(id, 0), IndexRecord::plain(&part)]);
    }
    records.push(task(300, 0));
    for (arg_index, tag) in (0..).zip(1..=22) {
        let dtype = DType::from_tag(tag).unwrap().tag();
        let tensor = TensorRecord {
            dtype,
            address: 0,
            flags: 0,
            hash: [0; 16],
            ..tensor_fields(300, BEFORE, Role::Input, arg_index, &[0; 2])
        };
        records.push(IndexRecord::tensor(&tensor, Payload::None));
    }
    records.push(task(301, 0));
    for (arg_index, reason) in (0..).zip(1..=13) {
        let lost =
            UncapturedRecord { task_id: 301, stage: 2, arg_index, role: 2, reason, ..Default::default() };
        records.push(IndexRecord::plain(&lost));
    }
    records.extend((0..7).map(|cause| IndexRecord::plain(&edge_fields(300, 301, cause, cause))));
    for (at_ns, space) in (600..).zip(0..4) {
        let event =
            AllocationRecord { address: 0x9000, bytes: 16, at_ns, space, ..AllocationRecord::default() };
        records.push(IndexRecord::plain(&event));
    }
    for (id, image_kind) in (2..).zip(0..7) {
        let module = ModuleRecord {
            flags: RECORD_EXTENDED,
            id,
            name: 5,
            options: 6,
            image_kind,
            ..Default::default()
        };
        records.push(IndexRecord::plain(&module));
    }
    scribe.append(1, &records);
    let stored = scribe.stored(302, BEFORE, Role::InOut, 0, &content(4, 100));
    let range = stored.stored_range().unwrap();
    let flags =
        RECORD_HAS_HASH | RECORD_MARKED | RECORD_ROLE_UNKNOWN | RECORD_EXTENT_GUESSED | RECORD_IN_FLIGHT;
    let same =
        TensorRecord { flags, space: 3, ..tensor_fields(302, AFTER, Role::InOut, 0, &content(4, 100)) };
    let part = tensor_fields(302, BEFORE, Role::Input, 1, &content(5, 300));
    let (offset, bytes) = (range.0, range.1);
    // Of 300 bytes, 64 are stored.
    let cut = scribe.writer.reserve(64);
    scribe.writer.write_payload(cut, &content(5, 300)[..64]).unwrap();
    let waiting = TaskRecord { flags: RECORD_IN_FLIGHT, ..task_fields(302, NO_KERNEL, 70, 0) };
    scribe.append(
        4,
        &[
            IndexRecord::plain(&waiting),
            stored,
            IndexRecord::tensor(&same, Payload::Deduplicated { offset, bytes }),
            IndexRecord::tensor(&part, Payload::Truncated { offset: cut, bytes: 64 }),
        ],
    );
    let long = |first: u32, count: u8| {
        let mut list = AttributeRecord {
            task_id: 300,
            name: 8,
            first,
            total: 20,
            count,
            is_list: 1,
            ..Default::default()
        };
        list.types[..usize::from(count)].fill(AttributeType::Integer as u8);
        list.values[0] = first.into();
        IndexRecord::plain(&list)
    };
    scribe.append(
        4,
        &[
            long(0, 16),
            long(16, 4),
            IndexRecord::lost_dispatch(
                &DispatchRecord { task_id: 300, block_num: 1, ..Default::default() },
                true,
            ),
        ],
    );
}

/// Writes a vector with the real writer. `open` has no footer and no JSON files, like a dump that is still being written.
fn write(name: &str, dir: &Path) {
    if name == "segmented" {
        let mut scribe = TestWriter::new(dir, &run(name));
        scribe.append(0, &[orchestration_arg(0)]);
        segments(&mut scribe);
        scribe.finish(Status::Complete);
        return;
    }
    if name != "open" {
        write_every_kind(dir).finish(Status::Complete);
        return;
    }
    let mut scribe = TestWriter::new(dir, &run(name));
    scribe.append(0, &[orchestration_arg(0)]);
    scribe.task(0, 2, 12);
}

/// A dump with every kind of record that an index may have.
pub fn write_every_kind(dir: &Path) -> TestWriter {
    let mut scribe = TestWriter::new(dir, &run("every_kind"));
    scribe.append(0, &[orchestration_arg(0)]);
    scribe.append(1, &definitions());
    tasks(&mut scribe);
    every_value(&mut scribe);
    scribe
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    };
    let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(entry).collect();
    all.sort();
    all
}

/// Compares a file's bytes with the stored ones, or stores them.
fn same(name: &str, new: &[u8], stored: &Path) {
    if is_blessing() {
        fs::create_dir_all(stored.parent().unwrap()).unwrap();
        fs::write(stored, new).unwrap();
    }
    let old = fs::read(stored).unwrap_or_default();
    let first = old.iter().zip(new).position(|(old, new)| old != new);
    assert!(
        old == new,
        "{name} changed, first at byte {first:?}: if that is intended, run this test with TENSORTAP_BLESS=1"
    );
}

#[test]
fn the_writer_reproduces_the_vectors() {
    let dir = tempfile::tempdir().unwrap();
    for name in VECTORS {
        let made = dir.path().join(name);
        write(name, &made);
        let made = files(&made);
        for (file, bytes) in &made {
            same(&format!("{name}/{file}"), bytes, &folder().join(name).join(file));
        }
        assert_eq!(made.len(), files(&folder().join(name)).len(), "{name} has other files");
    }
}

#[test]
fn a_decoder_that_follows_the_documentation_reads_the_vectors() {
    for name in VECTORS {
        let vector = folder().join(name);
        let Some(decoded) = python("decode.py", &[vector.to_str().unwrap()]) else { return };
        same(&format!("{name}.json"), decoded.as_bytes(), &folder().join(format!("{name}.json")));
    }
}

fn decoded(name: &str) -> Value {
    read_json(folder().join(format!("{name}.json")))
}

#[test]
fn the_reader_and_the_decoder_agree() {
    for name in VECTORS {
        let (dump, decoded) = (Dump::open(&folder().join(name)).unwrap(), decoded(name));
        check_agreement(&dump, &Decoded(&decoded));
        let findings = verify(&dump).unwrap();
        // An index without a footer is one.
        let problems = usize::from(name == "open");
        assert_eq!(findings.problems.len(), problems, "{:#?}", findings.problems);
    }
    let closed = decoded("every_kind");
    let mut kinds: Vec<String> =
        Decoded(&closed).all().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), RecordKind::ALL.len() - 5, "every kind that an index may have: {kinds:?}");
    assert_eq!(closed["footer"]["status"], "complete");
    assert!(decoded("open")["footer"].is_null());
}

#[test]
fn a_dump_of_an_encoder_that_follows_the_documentation_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    for closed in [false, true] {
        let made = dir.path().join(format!("closed-{closed}"));
        let words = [made.to_str().unwrap(), "closed"];
        let Some(_) = python("encode.py", &words[..1 + usize::from(closed)]) else { return };
        let dump = Dump::open(&made).unwrap();
        let is_closed = dump.tail() == Tail::Closed;
        assert!(is_closed == closed && dump.len() == 3, "{:?}", dump.tail());
        let records: Vec<_> = dump.records().map(Result::unwrap).collect();
        let floats = |at: usize| {
            dump.payload(&records[at])
                .unwrap()
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect::<Vec<f32>>()
        };
        assert_eq!(
            (floats(0), floats(2), records[1].scalar_bits),
            (vec![1.5, -2.0], vec![3.0, -4.0], Some(0x4000_0000))
        );
        let tasks = dump.tasks().unwrap();
        let task = tasks.iter().next().unwrap();
        assert_eq!(
            (task.task_id, task.kernel_names(), task.is_unfinished()),
            (7, vec!["scale".to_owned()], false)
        );
        let findings = verify(&dump).unwrap();
        assert_eq!(findings.checked, 1, "the scalar; the tensors have no hash");
        assert_eq!(findings.problems.is_empty(), closed, "{:#?}", findings.problems);
        drop(dump);
        assert_eq!(repair(&made).unwrap().changed, !closed, "a closed dump is whole");
        let dump = Dump::open(&made).unwrap();
        assert_eq!((dump.tail(), verify(&dump).unwrap().problems.len()), (Tail::Closed, 0));
        assert_eq!(manifest(&made)["tensors"][0]["arg_index"], 0);
    }
}
