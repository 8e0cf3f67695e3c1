//! Dumps that benchmarks write for themselves.

use std::path::Path;

use tensortap::abi::{NO_KERNEL, Role, TaskRecord, TensorRecord};
use tensortap::format::{BIN_FILE, DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status};
use tensortap::values::from_f64;
use tensortap::{DType, DumpStage};

use crate::BenchError;

/// Size of a tensor in a dump with payloads.
pub(crate) const TENSOR_BYTES: u64 = 1 << 20;
/// The payload file of a dump.
pub(crate) const PAYLOAD_FILE: &str = BIN_FILE;
/// Tasks in one frame of the index.
const TASKS_PER_FRAME: u64 = 512;
/// Number of different tensors: more than a second-level cache can hold.
const DIFFERENT: u64 = 16;

fn info() -> RunInfo {
    let kernels = ["load", "scale", "add", "store"].iter().zip(0..);
    let kernels =
        kernels.map(|(name, func_id)| KernelInfo { func_id, name: (*name).into(), ..KernelInfo::default() });
    RunInfo { scene: "bench_read".into(), kernels: kernels.collect(), ..RunInfo::default() }
}

/// Writes a dump with this many records, one for each task, without payloads. `check` can stop it.
pub(crate) fn without_payload(
    dir: &Path,
    records: u64,
    check: impl Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut writer = DumpWriter::create(dir, &info())?;
    let mut seq = 0;
    let mut first = 0;
    while first < records {
        check()?;
        let frame: Vec<IndexRecord> = (first..records.min(first + TASKS_PER_FRAME))
            .flat_map(|id| {
                [task(id), IndexRecord::tensor(&tensor(id, DType::Float32, 65_536), Payload::None)]
            })
            .collect();
        let end = seq + frame.len() as u64;
        writer.append(0, seq..end, &frame)?;
        seq = end;
        first += TASKS_PER_FRAME;
    }
    writer.finish(&Footer::new(Status::Complete))?;
    Ok(())
}

/// Writes a dump with this many tensors of 1 MiB and one dtype. `check` can stop it.
pub(crate) fn with_payload(
    dir: &Path,
    dtype: DType,
    tensors: u64,
    check: impl Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut writer = DumpWriter::create(dir, &info())?;
    let contents: Vec<Vec<u8>> = (0..DIFFERENT).map(|seed| values(dtype, seed)).collect();
    let numel = TENSOR_BYTES * 8 / u64::from(dtype.bits());
    for (id, content) in (0..tensors).zip(contents.iter().cycle()) {
        check()?;
        let offset = writer.reserve(TENSOR_BYTES);
        writer.write_payload(offset, content)?;
        let stored = Payload::Stored { offset, bytes: TENSOR_BYTES };
        writer.append(
            0,
            2 * id..2 * id + 2,
            &[task(id), IndexRecord::tensor(&tensor(id, dtype, numel), stored)],
        )?;
    }
    writer.finish(&Footer::new(Status::Complete))?;
    Ok(())
}

fn task(task_id: u64) -> IndexRecord {
    IndexRecord::plain(&TaskRecord {
        task_id,
        func_id: [NO_KERNEL, u32::try_from(task_id % 4).unwrap_or(0), NO_KERNEL],
        block_num: 1,
        started_ns: task_id,
        completed_ns: task_id + 1,
        tensor_count: 1,
        ..TaskRecord::default()
    })
}

fn tensor(task_id: u64, dtype: DType, numel: u64) -> TensorRecord {
    TensorRecord {
        task_id,
        stage: DumpStage::AfterCompletion as u8,
        role: Role::Output.tag(),
        dtype: dtype.tag(),
        ndims: 2,
        shape: [numel / 256, 256, 0, 0, 0, 0, 0, 0],
        strides: [256, 1, 0, 0, 0, 0, 0, 0],
        ..TensorRecord::default()
    }
}

/// One tensor with numbers between -4 and 4.
fn values(dtype: DType, seed: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (seed + 1);
    let width = dtype.bits() as usize / 8;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < TENSOR_BYTES {
        // A xorshift generator.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let thousandth = i32::try_from(state >> 40).unwrap_or(0) % 8000 - 4000;
        bytes.extend_from_slice(&from_f64(dtype, f64::from(thousandth) / 1000.0).to_le_bytes()[..width]);
    }
    bytes
}
