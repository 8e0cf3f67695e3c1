//! What `list --json` prints, record by record: memory does not grow with the dump.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;

use serde::Serialize;
use tensortap::abi::SLOTS_PER_TASK;
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

/// Writes the document. `selected` counts all that the selection holds, also what a limit keeps back.
pub fn write(out: &mut dyn Write, rows: &Rows<'_>) -> anyhow::Result<()> {
    let dump = rows.dump();
    let head = serde_json::to_string_pretty(&HeadDocument::of(dump, rows.selected()?))?;
    // The records take the place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")?;
    let mut separator = "\n    ";
    let mut line = RecordLine::new(dump.info());
    rows.for_each(|record| {
        out.write_all(separator.as_bytes())?;
        separator = ",\n    ";
        Ok(out.write_all(line.of(record)?)?)
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

/// One record as JSON: its place, what the manifest says, the names of its kernels. Put together from parts, because
/// a long list spends most of its time here.
struct RecordLine<'d> {
    info: &'d RunInfo,
    line: Vec<u8>,
    /// A dump has few sets of kernels and many records.
    kernels: HashMap<[u32; SLOTS_PER_TASK], Vec<u8>>,
}

impl<'d> RecordLine<'d> {
    fn new(info: &'d RunInfo) -> RecordLine<'d> {
        RecordLine { info, line: Vec::new(), kernels: HashMap::new() }
    }

    fn of(&mut self, record: &Record) -> anyhow::Result<&[u8]> {
        let RecordLine { info, line, kernels } = self;
        line.clear();
        line.extend_from_slice(b"{\"index\":");
        serde_json::to_writer(&mut *line, &record.index)?;
        let opening = line.len();
        serde_json::to_writer(&mut *line, record)?;
        // The record's own braces: the index stands before the first, the kernels before the last.
        line[opening] = b',';
        line.pop();
        line.extend_from_slice(b",\"kernels\":");
        let names = match kernels.entry(record.func_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let names: Vec<String> = record.func_ids().map(|id| info.kernel_name(id)).collect();
                new.insert(serde_json::to_vec(&names)?)
            }
        };
        line.extend_from_slice(names);
        line.push(b'}');
        Ok(line)
    }
}
