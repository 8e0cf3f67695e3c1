//! What `list --json` prints, record by record: memory does not grow with the dump.

use std::io::{self, Write};

use serde::Serialize;
use tensortap::format::{Dump, Loss, Record, RunInfo, Tail};

use super::rows::Rows;
use crate::dump_arg::state_name;

/// All but the records.
#[derive(Serialize)]
struct HeadDocument<'a> {
    dump: String,
    total: u64,
    selected: u64,
    scene: &'a str,
    platform: &'a str,
    runtime: &'a str,
    dump_level: u32,
    /// `None` while the run lasts.
    status: Option<&'static str>,
    state: &'static str,
    torn: Option<TornDocument>,
    missing_records: u64,
    losses: &'a [Loss],
}

#[derive(Serialize)]
struct TornDocument {
    offset: u64,
    lost_bytes: u64,
    reason: String,
}

/// One record: its place, then what the manifest says.
#[derive(Serialize)]
struct RecordDocument<'a> {
    index: u64,
    #[serde(flatten)]
    record: &'a Record,
    kernels: Vec<String>,
}

/// Writes the document. `selected` counts all that the selection holds, also what a limit keeps back.
pub fn write(out: &mut dyn Write, rows: &Rows<'_>) -> anyhow::Result<()> {
    let dump = rows.dump();
    let head = serde_json::to_string_pretty(&HeadDocument::of(dump, rows.selected()?))?;
    // The records take the place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")?;
    let mut separator = "\n    ";
    let mut line = Vec::new();
    rows.for_each(|record| {
        line.clear();
        line.extend_from_slice(separator.as_bytes());
        serde_json::to_writer(&mut line, &RecordDocument::of(record, dump.info()))
            .map_err(io::Error::from)?;
        separator = ",\n    ";
        Ok(out.write_all(&line)?)
    })?;
    Ok(writeln!(out, "\n  ]\n}}")?)
}

impl<'a> HeadDocument<'a> {
    fn of(dump: &'a Dump, selected: u64) -> HeadDocument<'a> {
        let RunInfo { scene, platform, runtime, dump_level, .. } = dump.info();
        let tail = dump.tail();
        HeadDocument {
            dump: dump.dir().display().to_string(),
            total: dump.len(),
            selected,
            scene,
            platform,
            runtime,
            dump_level: *dump_level,
            status: dump.status().map(|status| status.name()),
            state: state_name(&tail),
            torn: TornDocument::of(tail),
            missing_records: dump.gaps().iter().map(|gap| gap.records).sum(),
            losses: dump.footer().map_or(&[], |footer| &footer.losses),
        }
    }
}

impl TornDocument {
    fn of(tail: Tail) -> Option<TornDocument> {
        match tail {
            Tail::Torn { offset, lost_bytes, reason } => Some(TornDocument { offset, lost_bytes, reason }),
            Tail::Closed | Tail::Open => None,
        }
    }
}

impl<'a> RecordDocument<'a> {
    fn of(record: &'a Record, info: &RunInfo) -> RecordDocument<'a> {
        let kernels = record.func_ids().map(|id| info.kernel_name(id)).collect();
        RecordDocument { index: record.index, record, kernels }
    }
}
