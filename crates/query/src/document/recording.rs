//! What `record --json` prints.

use serde::Serialize;
use tensortap::{RecordingReport, RunFile};

/// A program that was recorded, for machines: what stands in `run.json`, and what came of it.
#[derive(Serialize)]
pub struct RecordingDocument<'a> {
    dir: String,
    /// As `record` exits.
    exit_status: u8,
    /// Whether recording failed in part.
    failed: bool,
    /// Processes that were not recorded because of what they said.
    turned_away: u64,
    wall_s: f64,
    #[serde(flatten)]
    run: &'a RunFile,
}

impl<'a> RecordingDocument<'a> {
    /// Of this recording.
    #[must_use]
    pub fn of(report: &'a RecordingReport) -> RecordingDocument<'a> {
        RecordingDocument {
            dir: report.dir.display().to_string(),
            exit_status: report.status(),
            failed: report.failed,
            turned_away: report.turned_away,
            wall_s: report.wall.as_secs_f64(),
            run: &report.run,
        }
    }
}
