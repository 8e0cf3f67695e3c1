//! The cost of the device-side recorder: one thread records tensors into a region that no host drains. The baseline copies,
//! hashes and stores as many bytes in the same run.

mod fresh;
mod rig;

use serde::Serialize;
use tensortap::DType;
use tensortap_query::number;

use crate::machine::load_average;
use crate::watch::check;
use crate::{BenchError, Machine, Spread, Watch};
pub(crate) use rig::Rig;

/// Records for each reading of the clock, like the arguments of a task at one stage.
const RECORDS_PER_STAGE: u64 = 4;
/// Content of a round, unless that would be too few or too many records.
const ROUND_BYTES: u64 = 16 << 20;
const LEAST_RECORDS: u64 = 64;
const MOST_RECORDS: u32 = 4096;

const NOTES: [&str; 6] = [
    "record: only the recorder, in one thread, 4 tensors at each stage, including clock and counters; memory is warm, and no host drains it",
    "copy: memcpy of as many contiguous bytes, from a source of the tensor's size into memory of the arena's size",
    "limit: the same copy, its content hash, and a store of 192 bytes for the record",
    "fresh: contiguous tensors that a thread on another CPU has just written; all three columns read from the cache of that CPU",
    "of limit: time of the limit divided by time of the record, in the same round",
    "every measurement starts with a round that is not counted",
];

/// The configuration of the benchmark.
#[derive(Clone, Debug)]
pub struct CaptureBenchConfig {
    /// Rounds of each case; the result is the median.
    pub repeat: u32,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureBenchReport {
    /// The machine.
    pub machine: Machine,
    /// Rounds.
    pub repeat: u32,
    /// Records for each reading of the clock.
    pub records_per_stage: u64,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// By size, then by dtype, then by view.
    pub cases: Vec<CaptureCase>,
    /// Notes about the method.
    pub notes: [&'static str; 6],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum CaptureBenchPart {
    /// First: the machine and its load average.
    Machine(Machine, Option<f64>),
    /// Next, several.
    Case(CaptureCase),
}

/// Tensors of one size, dtype and view.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureCase {
    /// The memory layout.
    pub view: &'static str,
    /// Element type.
    pub dtype: &'static str,
    /// Bytes of each payload.
    pub bytes: u64,
    /// Records of each round.
    pub records: u64,
    /// Nanoseconds per record.
    pub record_ns: Spread,
    /// Nanoseconds per copy of as many bytes.
    pub copy_ns: Spread,
    /// Nanoseconds of the baseline: copy, hash and store.
    pub limit_ns: Spread,
    /// Payload bytes per second of the recorder.
    #[serde(serialize_with = "number::json_float")]
    pub bytes_per_s: f64,
    /// Time of the baseline divided by time of the record, round by round.
    pub of_the_limit: Spread,
}

/// The memory layout of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Contiguous,
    /// Rows of a matrix without every other block of columns.
    Rows,
    Transposed,
    /// Every other element.
    Strided,
    /// One row, repeated.
    Broadcast,
    /// Contiguous, and just written by another CPU.
    Fresh,
}

impl View {
    const fn name(self) -> &'static str {
        match self {
            View::Contiguous => "contiguous",
            View::Rows => "rows",
            View::Transposed => "transposed",
            View::Strided => "strided",
            View::Broadcast => "broadcast",
            View::Fresh => "fresh",
        }
    }
}

/// The cases: sizes, then classes of dtypes, then views.
fn cases() -> Vec<(View, DType, u64)> {
    let sizes = [16, 256, 4 << 10, 64 << 10, 1 << 20].map(|bytes| (View::Contiguous, DType::Float32, bytes));
    let narrow_and_wide = [DType::Int4, DType::Float8E4M3FN, DType::BFloat16, DType::Float64];
    let dtypes = narrow_and_wide.map(|dtype| (View::Contiguous, dtype, 256));
    let apart = [View::Rows, View::Transposed, View::Strided, View::Broadcast];
    let views = apart.into_iter().flat_map(|view| [256, 64 << 10].map(|bytes| (view, DType::Float32, bytes)));
    let fresh = [256, 1 << 10, 4 << 10, 64 << 10].map(|bytes| (View::Fresh, DType::Float32, bytes));
    let fresh = fresh.into_iter().filter(|_| fresh::two_cpus().is_some());
    sizes.into_iter().chain(dtypes).chain(views).chain(fresh).collect()
}

/// Measures every case.
///
/// ```
/// use tensortap_bench::{CaptureBenchConfig, capture};
///
/// let report = capture(&CaptureBenchConfig { repeat: 1 }, &())?;
/// assert!(report.cases.iter().all(|case| case.of_the_limit.median > 0.0));
/// # Ok::<(), tensortap_bench::BenchError>(())
/// ```
pub fn capture(
    config: &CaptureBenchConfig,
    watch: &dyn Watch<CaptureBenchPart>,
) -> Result<CaptureBenchReport, BenchError> {
    let (machine, load_average_before) = (Machine::read(), load_average());
    watch.part(CaptureBenchPart::Machine(machine.clone(), load_average_before));
    let cases = cases();
    watch.expect(cases.len() as u64);
    let mut measured = Vec::new();
    for (view, dtype, bytes) in cases {
        check(watch)?;
        watch.begin(format!("{} {} of {}", view.name(), dtype.name(), number::bytes(bytes)));
        let case = measure(config.repeat, view, dtype, bytes)?;
        watch.part(CaptureBenchPart::Case(case.clone()));
        measured.push(case);
        watch.advance();
    }
    Ok(CaptureBenchReport {
        machine,
        repeat: config.repeat,
        records_per_stage: RECORDS_PER_STAGE,
        load_average_before,
        load_average_after: load_average(),
        cases: measured,
        notes: NOTES,
    })
}

/// Seconds of one round of each kind.
struct Round {
    record: f64,
    copy: f64,
    limit: f64,
}

/// Rounds over one tensor that only this thread accesses.
fn warm_rounds(mut rig: Rig, records: u64, count: u32) -> Result<Vec<Round>, BenchError> {
    // Directly in sequence, so that drift affects all of them equally.
    let mut round = |_| {
        let (copy, limit) = (rig.copy(records), rig.limit(records));
        Ok(Round { record: rig.record(records)?, copy, limit })
    };
    (0..count).map(&mut round).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn measure(repeat: u32, view: View, dtype: DType, bytes: u64) -> Result<CaptureCase, BenchError> {
    let (records, mut rounds) = match fresh::two_cpus().filter(|_| view == View::Fresh) {
        Some(cpus) => {
            let records = fresh::records(bytes);
            (records, fresh::rounds(Rig::fresh(bytes, records), repeat + 1, cpus)?)
        }
        None => {
            let records = (ROUND_BYTES / bytes).clamp(LEAST_RECORDS, MOST_RECORDS.into());
            (records, warm_rounds(Rig::new(view, dtype, bytes), records, repeat + 1)?)
        }
    };
    rounds.remove(0);
    let over = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value).collect());
    let ns = |value: fn(&Round) -> f64| over(&|round| value(round) / records as f64 * 1e9);
    let record_ns = ns(|round| round.record);
    Ok(CaptureCase {
        view: view.name(),
        dtype: dtype.name(),
        bytes,
        records,
        record_ns,
        copy_ns: ns(|round| round.copy),
        limit_ns: ns(|round| round.limit),
        bytes_per_s: bytes as f64 / record_ns.median * 1e9,
        of_the_limit: over(&|round| round.limit / round.record),
    })
}
