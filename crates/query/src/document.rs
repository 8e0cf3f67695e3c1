//! The documents that `--json` prints: one serialisable type for each, with the names of the manifest. Fields may be added,
//! never renamed.
//!
//! `list` and `stats` write theirs record by record, so that memory does not grow with the dump.

mod blame;
mod compare;
mod diff;
mod files;
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
    DetailDocument, Measures, detail_document, evidence_word, measures, outcome_reason, verdict_word,
};
pub use diff::{DiffDocument, OutputsDocument, RepeatDocument};
pub use files::{
    ExportDocument, Exported, ExtractDocument, RepairDocument, VerifyDocument, expect_name, why_unverifiable,
};
pub use list::{ListDocument, ListHead, MemberHead, SetHead, TornDocument};
pub use record::{KernelNames, OfProgram, RecordDocument};
pub use recording::RecordingDocument;
pub use replay::{ReplayDocument, Spread, replay_verdict};
pub use report::{
    AxisReport, CommandDocument, CulpritReport, FlaggedReport, FoundDocument, GraphReport, LabelCount,
    LinkReport, MemberReport, OutsideReport, ReportDocument, TimelineDocument, TrackDocument,
    VerdictDocument, WorstReport,
};
pub use run::{DumpDocument, LiveDocument, RunDocument};
pub use scenes::SceneDocument;
pub use set::{OfMember, SetDocument, pass_or_fail};
pub use show::{HexDocument, MeasuredDocument, ShowDocument, ValuesDocument};
pub use stats::{StatsHead, StatsRecord, StatsTail};
pub use suite::SuiteDocument;
pub use summary::SummaryDocument;
pub use table::{Cell, Column, ColumnDocument, ColumnKind, TableDocument, TableMaker, cut};
pub use task::TaskPageDocument;
pub use trace::{TraceDocument, TraceDumpDocument};

use std::io::{self, Write};

use serde::Serialize;

/// That there is no answer, and why.
#[derive(Serialize)]
pub struct ErrorDocument<'a> {
    /// The parts.
    pub error: ErrorParts<'a>,
}

/// An error in the parts that machines are told.
#[derive(Serialize)]
pub struct ErrorParts<'a> {
    /// What is wrong.
    pub message: &'a str,
    /// What to do about it.
    pub hint: Option<&'a str>,
    /// How the process ends.
    pub exit_status: u8,
}

/// That nothing is shown, and why: what `show` prints when selectors leave no record.
#[derive(Serialize)]
pub struct NothingDocument<'a> {
    /// Folder of the dump.
    pub dump: String,
    /// None.
    pub record: Option<u64>,
    /// What there is instead.
    pub why: &'a str,
}

/// Begins a document whose records follow one by one: its head, laid out for people, up to the records.
fn begin_records(out: &mut dyn Write, head: &impl Serialize) -> io::Result<()> {
    let head = serde_json::to_string_pretty(head)?;
    // The records take the place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")
}

/// Puts records on lines of their own, with commas between them.
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
