//! What `list --json` prints, record by record: memory does not grow with the dump.

use std::io::{self, Write};

use serde::Serialize;
use tensortap::format::{Dump, Loss, Record, RunInfo, Tail};

use crate::dump_arg::state_name;
use crate::select::Selection;

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

/// Writes the document. `selected` is how many records the selection holds.
pub fn write(
    out: &mut dyn Write,
    dump: &Dump,
    selection: &Selection<'_>,
    selected: u64,
) -> anyhow::Result<()> {
    let head = serde_json::to_string_pretty(&HeadDocument::of(dump, selected))?;
    // The records take the place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")?;
    let mut separator = "\n    ";
    for record in dump.records() {
        let record = record?;
        if selection.holds(&record) {
            out.write_all(separator.as_bytes())?;
            let document = RecordDocument::of(&record, dump.info());
            serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
            separator = ",\n    ";
        }
    }
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
