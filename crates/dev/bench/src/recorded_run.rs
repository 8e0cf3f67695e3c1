//! Runs that are measured. A run with a wrong result or an incomplete dump is an error.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use tensortap::{DumpConfig, DumpLevel, DumpReport, Error, GoldenVerdict, PayloadPath, RunConfig, RunReport};

use crate::BenchError;
use crate::error::io;
use crate::scratch::Scratch;

/// A run with a dump.
pub struct RecordedRun {
    /// From launch until the last payload is written.
    pub wall: Duration,
    /// Syncing the payloads, after `wall`.
    pub sync: Duration,
    /// The rest: preparing inputs and device, manifest and graph, the golden, stopping the device.
    pub unclocked: Duration,
    /// The report of the dump.
    pub dump: DumpReport,
}

impl RecordedRun {
    /// From launch until the payloads are on disk.
    pub fn on_disk(&self) -> Duration {
        self.wall + self.sync
    }

    /// Time in capture.
    pub fn held_up_s(&self) -> f64 {
        self.dump.held_up.as_secs_f64()
    }
}

/// Runs without a dump.
pub fn without_dump(config: &RunConfig, goes_on: &dyn Fn() -> bool) -> Result<Duration, BenchError> {
    let report = tensortap::run_observed(config, &mut |_| goes_on()).or_else(Error::into_report)?;
    Ok(good(report)?.wall)
}

/// Runs with a dump and removes the dump.
pub fn with_dump(
    config: &RunConfig,
    dump: DumpConfig,
    scratch: &Scratch,
    goes_on: &dyn Fn() -> bool,
) -> Result<RecordedRun, BenchError> {
    let dir = scratch.path("dump");
    let config = RunConfig { dump: Some(dump), out: Some(dir.clone()), ..config.clone() };
    let started = Instant::now();
    let report = tensortap::run_observed(&config, &mut |_| goes_on()).or_else(Error::into_report)?;
    let sync = sync_payloads(&dir)?;
    let total = started.elapsed();
    let report = good(report)?;
    let (wall, dump) = (report.wall, whole(report.dump)?);
    scratch.remove(&dir)?;
    Ok(RecordedRun { wall, sync, unclocked: total.saturating_sub(wall + sync), dump })
}

/// A full dump. With `dedup`, equal payloads are stored once.
pub fn full(dedup: bool, write: PayloadPath) -> DumpConfig {
    DumpConfig { dedup, write, ..DumpConfig::new(DumpLevel::Full) }
}

/// Syncs every payload file of a dump.
fn sync_payloads(dir: &Path) -> Result<Duration, BenchError> {
    let started = Instant::now();
    for entry in fs::read_dir(dir).map_err(io("reading", dir))?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            File::open(&path).and_then(|file| file.sync_data()).map_err(io("syncing", &path))?;
        }
    }
    Ok(started.elapsed())
}

/// Checks that the run succeeded, because otherwise its times are meaningless.
fn good(report: RunReport) -> Result<RunReport, BenchError> {
    if report.golden == GoldenVerdict::Fail {
        return Err(BenchError::Wrong(format!("the result of {} is wrong", report.scene)));
    }
    match report.failure {
        Some(failure) => Err(Box::new(failure).into()),
        None => Ok(report),
    }
}

fn whole(dump: Option<DumpReport>) -> Result<DumpReport, BenchError> {
    let dump = dump.ok_or_else(|| BenchError::Wrong("nothing was recorded".into()))?;
    if let Some(problem) = &dump.problem {
        return Err(BenchError::Wrong(format!("the dump is incomplete: {problem}")));
    }
    let lost = dump.counters.dropped_records
        + dump.counters.dropped_overwrite
        + dump.counters.corrupt_records
        + dump.counters.truncated_tensors;
    if lost > 0 {
        return Err(BenchError::Wrong(format!("{lost} records of the dump are lost or damaged")));
    }
    Ok(dump)
}
