//! Records and payloads for tests, and an independent computation of the expected file content.

pub mod foreign;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tensortap_abi::{
    DType, DumpStage, EdgeRecord, NO_KERNEL, RECORD_HAS_HASH, Role, ScalarRecord, TaskRecord, TensorRecord,
};
use tensortap_format::{DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

pub const BEFORE: DumpStage = DumpStage::BeforeDispatch;
pub const AFTER: DumpStage = DumpStage::AfterCompletion;

/// The content hash computed by its definition: a list of the hash of every leaf, and the hash of that
/// list.
pub fn tree4k(bytes: &[u8]) -> u128 {
    if bytes.len() <= 4096 {
        return xxh3_128(bytes);
    }
    let mut leaves = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (leaf, after) = rest.split_at(rest.len().min(4096));
        leaves.extend(xxh3_128(leaf).to_le_bytes());
        rest = after;
    }
    xxh3_128_with_seed(&leaves, bytes.len() as u64)
}

/// Bytes that differ for every `salt`.
pub fn content(salt: u64, bytes: usize) -> Vec<u8> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

pub fn info() -> RunInfo {
    let kernel = |func_id, name: &str| KernelInfo {
        func_id,
        name: name.into(),
        core_type: "AIV".into(),
        signature: vec!["IN".into(), "OUT".into()],
        code: format!("{name}@1"),
        ..KernelInfo::default()
    };
    RunInfo {
        run_id: 0xfeed_0001,
        started_at: "2026-04-15T10:15:00.000000000Z".into(),
        platform: "a2a3sim".into(),
        runtime: "tensormap_and_ringbuffer".into(),
        scene: "vector_example".into(),
        device_base: 0x2000_0000_0000,
        dump_level: 2,
        kernels: vec![kernel(0, "add"), kernel(1, "add_scalar"), kernel(2, "mul")],
        ..RunInfo::default()
    }
}

pub fn tensor_fields(
    task_id: u64,
    stage: DumpStage,
    role: Role,
    arg_index: u16,
    bytes: &[u8],
) -> TensorRecord {
    let mut shape = [0; 8];
    let mut strides = [0; 8];
    (shape[0], strides[0]) = (bytes.len() as u64, 1);
    TensorRecord {
        task_id,
        hash: tree4k(bytes).to_le_bytes(),
        address: 0x2000_0000_1000 + u64::from(arg_index) * 0x1000,
        stage: stage as u8,
        role: role.tag(),
        dtype: DType::UInt8.tag(),
        ndims: 1,
        flags: RECORD_HAS_HASH,
        arg_index,
        shape,
        strides,
        ..TensorRecord::default()
    }
}

pub fn scalar_fields(task_id: u64, arg_index: u16, dtype: DType, bits: u64) -> ScalarRecord {
    ScalarRecord {
        task_id,
        bits,
        stage: BEFORE as u8,
        dtype: dtype.tag(),
        arg_index,
        ..ScalarRecord::default()
    }
}

pub fn task_fields(task_id: u64, func_id: u32, started_ns: u64, completed_ns: u64) -> TaskRecord {
    TaskRecord {
        task_id,
        func_id: [NO_KERNEL, func_id, NO_KERNEL],
        block_num: 1,
        started_ns,
        completed_ns,
        tensor_count: 2,
        scalar_count: 1,
        ..TaskRecord::default()
    }
}

pub fn edge_fields(from: u64, to: u64, cause: u16, arg_index: u16) -> EdgeRecord {
    EdgeRecord { task_id: to, producer: from, cause, arg_index, ..EdgeRecord::default() }
}

/// A writer that also counts sequence numbers.
pub struct TestWriter {
    pub writer: DumpWriter,
    next_seq: std::collections::HashMap<u32, u64>,
}

impl TestWriter {
    pub fn new(dir: &Path, info: &RunInfo) -> TestWriter {
        TestWriter::over(DumpWriter::create(dir, info).unwrap())
    }

    pub fn over(writer: DumpWriter) -> TestWriter {
        TestWriter { writer, next_seq: Default::default() }
    }

    pub fn append(&mut self, thread: u32, records: &[IndexRecord]) {
        let next = self.next_seq.entry(thread).or_insert(0);
        let seq = *next..*next + records.len() as u64;
        *next = seq.end;
        self.writer.append(thread, seq, records).unwrap();
    }

    /// Stores bytes and returns the record of a tensor with that payload.
    pub fn stored(&mut self, task: u64, stage: DumpStage, role: Role, arg: u16, bytes: &[u8]) -> IndexRecord {
        let offset = self.writer.reserve(bytes.len() as u64);
        self.writer.write_payload(offset, bytes).unwrap();
        let payload = Payload::Stored { offset, bytes: bytes.len() as u64 };
        IndexRecord::tensor(&tensor_fields(task, stage, role, arg, bytes), payload)
    }

    /// One complete task with an input, a scalar and an output. The records before and after the task are
    /// in separate frames.
    pub fn task(&mut self, thread: u32, task: u64, bytes: usize) {
        let at = (task + 1) * 1000;
        let input = self.stored(task, BEFORE, Role::Input, 0, &content(2 * task, bytes));
        let scalar = IndexRecord::plain(&scalar_fields(task, 2, DType::Float32, 0x3f80_0000));
        let before = IndexRecord::plain(&task_fields(task, 1, at, 0));
        self.append(thread, &[before, input, scalar]);
        let output = self.stored(task, AFTER, Role::Output, 1, &content(2 * task + 1, bytes));
        let after = IndexRecord::plain(&task_fields(task, 1, at, at + 500));
        self.append(thread, &[after, output]);
    }

    pub fn finish(self, status: Status) -> Footer {
        self.writer.finish(&Footer::new(status)).unwrap()
    }
}

/// A finished dump of `tasks` tasks on one thread.
pub fn finished(dir: &Path, tasks: u64, bytes: usize) {
    let mut scribe = TestWriter::new(dir, &info());
    (0..tasks).for_each(|task| scribe.task(0, task, bytes));
    scribe.finish(Status::Complete);
}

pub fn read_json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub fn manifest(dir: &Path) -> Value {
    read_json(dir.join("tensor_dump.json"))
}

pub fn hex64(value: u64) -> Value {
    json!(format!("0x{value:016x}"))
}

pub fn hex128(value: u128) -> Value {
    json!(format!("0x{value:032x}"))
}
