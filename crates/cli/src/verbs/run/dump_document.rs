//! The `dump` object of `run --json`.

use serde::Serialize;
use tensortap::DumpReport;
use tensortap::format::Loss;

use super::live_args::LiveDocument;

/// What came of a dump, for machines.
#[derive(Serialize)]
pub struct DumpDocument<'a> {
    dir: String,
    records: u64,
    tensors: u64,
    scalars: u64,
    dispatches: u64,
    bytes_captured: u64,
    bytes_written: u64,
    truncated_tensors: u64,
    dropped_records: u64,
    dropped_overwrite: u64,
    held_up_s: f64,
    closing_s: f64,
    level: &'static str,
    dump_args: bool,
    /// Records and what stands between them in the index: tasks and dependencies.
    entries: u64,
    deduplicated_bytes: u64,
    corrupt_records: u64,
    filtered_records: u64,
    filtered_bytes: u64,
    live: Option<LiveDocument>,
    losses: &'a [Loss],
    problem: Option<&'a str>,
}

impl<'a> DumpDocument<'a> {
    /// Takes over every field.
    pub fn of(report: &'a DumpReport) -> DumpDocument<'a> {
        let DumpReport {
            dir,
            level,
            dump_args,
            records,
            entries,
            dispatches,
            tensors,
            scalars,
            bytes_captured,
            bytes_written,
            deduplicated_bytes,
            truncated_tensors,
            dropped_records,
            dropped_overwrite,
            corrupt_records,
            filtered_records,
            filtered_bytes,
            held_up,
            closing,
            live,
            losses,
            problem,
        } = report;
        DumpDocument {
            dir: dir.display().to_string(),
            records: *records,
            tensors: *tensors,
            scalars: *scalars,
            dispatches: *dispatches,
            bytes_captured: *bytes_captured,
            bytes_written: *bytes_written,
            truncated_tensors: *truncated_tensors,
            dropped_records: *dropped_records,
            dropped_overwrite: *dropped_overwrite,
            held_up_s: held_up.as_secs_f64(),
            closing_s: closing.as_secs_f64(),
            level: level.name(),
            dump_args: *dump_args,
            entries: *entries,
            deduplicated_bytes: *deduplicated_bytes,
            corrupt_records: *corrupt_records,
            filtered_records: *filtered_records,
            filtered_bytes: *filtered_bytes,
            live: live.as_ref().map(LiveDocument::of),
            losses,
            problem: problem.as_deref(),
        }
    }
}
