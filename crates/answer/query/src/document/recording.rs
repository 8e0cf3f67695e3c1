//! What `record --json` prints.

use serde::Serialize;
use tensortap::{RecordingReport, RunFile};

/// The document of a recording: the content of `run.json` and the result.
#[derive(Serialize)]
pub struct RecordingDocument<'a> {
    dir: String,
    /// The exit status of `record`.
    exit_status: u8,
    /// Whether recording failed partly.
    failed: bool,
    /// Processes that were rejected because of a protocol error.
    turned_away: u64,
    wall_s: f64,
    #[serde(flatten)]
    run: &'a RunFile,
}

impl<'a> RecordingDocument<'a> {
    /// The document of a recording.
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
