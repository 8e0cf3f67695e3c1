//! Creates a dump with many records in a folder, and measures the time and memory of opening it and walking
//! over it.
//!
//! ```sh
//! cargo run --release -p tensortap-format --example open_million -- /tmp/million 1000000
//! ```

use std::{error::Error, fs, path::PathBuf, time::Instant};

use tensortap_abi::{DType, DumpStage, NO_KERNEL, Role, ScalarRecord, TaskRecord, TensorRecord};
use tensortap_format::{Dump, DumpWriter, Footer, IndexRecord, Payload, RunInfo, Status};

/// Records per task: a tensor before, a scalar, a tensor after.
const RECORDS_PER_TASK: u64 = 3;
/// Tasks per frame.
const TASKS_PER_FRAME: u64 = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("specify a folder for the dump")?);
    let records: u64 = args.next().map_or(Ok(1_000_000), |count| count.parse())?;
    if !dir.exists() {
        write(&dir, records.div_ceil(RECORDS_PER_TASK))?;
    }
    for round in 0..3 {
        let start = Instant::now();
        let dump = Dump::open(&dir)?;
        let opened = start.elapsed();
        let elements: u64 =
            dump.records().map(|record| record.map(|record| record.numel)).sum::<Result<_, _>>()?;
        let walked = start.elapsed() - opened;
        println!(
            "round {round}: {} records of {} opened in {opened:.3?}, walked ({elements} elements) in {walked:.3?}, {}",
            dump.len(),
            dump.format(),
            anonymous_memory()?
        );
    }
    Ok(())
}

fn write(dir: &std::path::Path, tasks: u64) -> Result<(), Box<dyn Error>> {
    let info = RunInfo { scene: "made_up".into(), dump_level: 3, ..RunInfo::default() };
    let mut writer = DumpWriter::create(dir, &info)?;
    let mut seq = 0;
    for first in (0..tasks).step_by(usize::try_from(TASKS_PER_FRAME)?) {
        let last = tasks.min(first + TASKS_PER_FRAME);
        let records: Vec<IndexRecord> = (first..last).flat_map(task).collect();
        let next = seq + records.len() as u64;
        writer.append(0, seq..next, &records)?;
        seq = next;
    }
    writer.finish(&Footer::new(Status::Complete))?;
    Ok(())
}

fn task(task_id: u64) -> [IndexRecord; 5] {
    let ran = |completed_ns| {
        IndexRecord::plain(&TaskRecord {
            task_id,
            func_id: [NO_KERNEL, u32::try_from(task_id % 7).unwrap_or(0), NO_KERNEL],
            block_num: 1,
            started_ns: task_id,
            completed_ns,
            ..TaskRecord::default()
        })
    };
    let tensor = |stage: DumpStage, role: Role, arg_index| {
        let fields = TensorRecord {
            task_id,
            stage: stage as u8,
            role: role.tag(),
            dtype: DType::Float32.tag(),
            ndims: 2,
            arg_index,
            shape: [16, 16, 0, 0, 0, 0, 0, 0],
            strides: [16, 1, 0, 0, 0, 0, 0, 0],
            ..TensorRecord::default()
        };
        IndexRecord::tensor(&fields, Payload::None)
    };
    let scalar = IndexRecord::plain(&ScalarRecord {
        task_id,
        bits: task_id,
        stage: DumpStage::BeforeDispatch as u8,
        dtype: DType::UInt64.tag(),
        arg_index: 2,
        ..ScalarRecord::default()
    });
    let before = tensor(DumpStage::BeforeDispatch, Role::Input, 0);
    let after = tensor(DumpStage::AfterCompletion, Role::Output, 1);
    [ran(0), before, scalar, ran(task_id + 1), after]
}

fn anonymous_memory() -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find(|line| line.starts_with("RssAnon")).unwrap_or("RssAnon: unknown").to_owned())
}
