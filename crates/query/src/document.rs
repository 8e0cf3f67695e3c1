//! The documents that `--json` prints: one serialisable type for each, with the names of the manifest. Fields may be added,
//! never renamed.
//!
//! `list` and `stats` write theirs record by record, so that memory does not grow with the dump.

mod blame;
mod compare;
mod diff;
mod list;
mod record;
mod show;
mod stats;

pub use blame::BlameDocument;
pub use compare::{
    DetailDocument, Measures, detail_document, evidence_word, measures, outcome_reason, verdict_word,
};
pub use diff::DiffDocument;
pub use list::{ListDocument, ListHead, TornDocument};
pub use record::{KernelNames, RecordDocument};
pub use show::{HexDocument, MeasuredDocument, ShowDocument, ValuesDocument};
pub use stats::{StatsHead, StatsRecord, StatsTail};

use std::io::{self, Write};

use serde::Serialize;

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
