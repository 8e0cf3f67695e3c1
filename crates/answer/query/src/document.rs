//! The documents that `--json` prints: one serializable type for each, with the names of the manifest. Fields
//! may be added but never renamed.
//!
//! `list` and `stats` write their documents record by record, so that memory does not grow with the dump.

mod blame;
mod compare;
mod diff;
mod files;
mod joint;
mod list;
mod record;
mod recording;
mod replay;
mod report;
mod run;
mod scenes;
mod set;
mod show;
mod stats;
mod suite;
mod summary;
mod table;
mod task;
mod trace;

pub use blame::BlameDocument;
pub use compare::{
    DetailDocument, Measures, counted_verdict_word, detail_document, evidence_word, measures, outcome_reason,
    verdict_word,
};
pub use diff::{DiffDocument, OutputsDocument, RepeatDocument};
pub use files::{
    ExportDocument, ExportResult, ExtractDocument, RepairDocument, VerifyDocument, expect_name,
    why_unverifiable,
};
pub use joint::{
    CollectivesDocument, RankTaskDocument, RunVerdictDocument, UndecidedDocument, run_verdict_word,
};
pub use list::{ListDocument, ListHead, MemberHead, SetHead, TornDocument};
pub use record::{KernelNames, ProgramContext, RecordDocument};
pub use recording::RecordingDocument;
pub use replay::{ReplayDocument, Spread, replay_verdict};
pub use report::{
    AxisReport, CommandDocument, CulpritReport, FindingsDocument, FlaggedReport, GraphReport, LabelCount,
    LinkReport, MemberReport, OutsideReport, ReportDocument, TimelineDocument, TrackDocument,
    VerdictDocument, WorstReport,
};
pub use run::{DumpDocument, LiveDocument, RunDocument};
pub use scenes::SceneDocument;
pub use set::{MemberDocument, SetDocument, pass_or_fail};
pub use show::{HexDocument, MeasuredDocument, ShowDocument, ValuesDocument};
pub use stats::{StatsHead, StatsRecord, StatsTail};
pub use suite::SuiteDocument;
pub use summary::SummaryDocument;
pub use table::{Cell, Column, ColumnDocument, ColumnKind, TableDocument, TableMaker, cut};
pub use task::{NeighborDocument, TaskPageDocument};
pub use trace::{TraceDocument, TraceDumpDocument};

use std::io::{self, Write};

use serde::Serialize;

/// The document of an error.
#[derive(Serialize)]
pub struct ErrorDocument<'a> {
    /// The parts.
    pub error: ErrorParts<'a>,
}

/// The parts of an error.
#[derive(Serialize)]
pub struct ErrorParts<'a> {
    /// What is wrong.
    pub message: &'a str,
    /// What to do about it.
    pub hint: Option<&'a str>,
    /// The exit status of the process.
    pub exit_status: u8,
}

/// What `show` prints if no record matches the selectors.
#[derive(Serialize)]
pub struct NothingDocument<'a> {
    /// Folder of the dump.
    pub dump: String,
    /// Always null.
    pub record: Option<u64>,
    /// Why no record matches, and which values exist.
    pub why: &'a str,
}

/// Writes the head of a document, pretty-printed, up to its list of records.
fn begin_records(out: &mut dyn Write, head: &impl Serialize) -> io::Result<()> {
    let head = serde_json::to_string_pretty(head)?;
    // The records follow in place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")
}

/// Writes records, one per line, separated by commas.
struct Lines {
    separator: &'static str,
}

impl Lines {
    fn new() -> Lines {
        Lines { separator: "\n    " }
    }

    fn put(&mut self, out: &mut dyn Write, record: &impl Serialize) -> io::Result<()> {
        out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n    ";
        Ok(serde_json::to_writer(out, record)?)
    }
}
