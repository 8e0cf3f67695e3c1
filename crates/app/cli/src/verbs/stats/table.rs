//! The table of statistics.

use std::io::Write;

use tensortap::{Flag, RecordSummary};
use tensortap_query::Part;
use tensortap_query::fields::{Cells, Row, STATS, fields};
use tensortap_query::number::{bytes, counted, grouped};
use tensortap_query::words::{printable_path, run_title};

use super::{RecordSource, ScanCounts, ScanExtent};
use crate::table::{Column, Fit, StreamTable};
use crate::verbs::list::which_dump;

/// Columns that a narrow terminal leaves out, in this order. Flags summarize the counts, and `show INDEX` shows the rest.
const DISPENSABLE: [&str; 11] =
    ["HASH", "ROLE", "ZEROS", "NAME", "DTYPE", "SHAPE", "INF", "NAN", "STD", "TASK", "MEAN"];

/// Counts for the footer.
#[derive(Default)]
struct Counts {
    shown: u64,
    flagged: u64,
    nan: u64,
    inf: u64,
    unmeasured: u64,
    recorded: u64,
}

/// Writes rows and footer.
pub fn write(
    out: &mut dyn Write,
    parts: &[Part<'_>],
    extent: &ScanExtent,
    seen: &ScanCounts,
    only_flagged: bool,
    source: impl RecordSource,
) -> anyhow::Result<()> {
    for Part { dump, .. } in parts {
        writeln!(out, "{}: {}", printable_path(dump.dir()), run_title(dump))?;
    }
    writeln!(out)?;
    let shown = which_dump(parts);
    let is_shown = |key: &str| shown.iter().any(|field| field.key == key);
    let fit = Fit::terminal(&DISPENSABLE)
        .hide("NAME", !parts.iter().any(|part| part.dump.has_names()))
        .hide("RANK", !is_shown("rank"))
        .hide("PID", !is_shown("pid"))
        .hide("STEP", parts.iter().all(|part| part.dump.steps().len() <= 1));
    let counts = rows(out, parts, fit, source)?;
    let all = parts.iter().map(|part| part.dump.len()).sum();
    Ok(write!(out, "{}", counts.text(all, extent, seen, only_flagged))?)
}

/// Writes the rows.
fn rows(
    out: &mut dyn Write,
    parts: &[Part<'_>],
    fit: Fit,
    source: impl RecordSource,
) -> anyhow::Result<Counts> {
    let columns = fields(STATS);
    let mut table = StreamTable::new(columns.map(Column::of), fit);
    let mut cells: Vec<Cells<'_>> = parts.iter().map(Cells::of).collect();
    cells.iter_mut().for_each(|cells| cells.short_tasks = fit.width.is_some());
    let mut counts = Counts::default();
    source(&mut |part, measured| {
        counts.add(&measured);
        table.row(out, columns.map(|field| cells[part].text(field, &Row::measured(&measured))))
    })?;
    table.finish(out)?;
    Ok(counts)
}

impl Counts {
    fn add(&mut self, measured: &RecordSummary) {
        let flags = measured.flags();
        let has = |flag| u64::from(flags.contains(&flag));
        self.shown += 1;
        self.flagged += u64::from(measured.is_flagged());
        self.nan += has(Flag::Nan);
        self.inf += has(Flag::Inf);
        self.unmeasured += u64::from(measured.summary.is_none());
        self.recorded += u64::from(measured.summary.is_some() && !measured.from_payload);
    }

    fn text(&self, all: u64, extent: &ScanExtent, seen: &ScanCounts, only_flagged: bool) -> String {
        let Counts { shown, flagged, nan, inf, unmeasured, recorded } = *self;
        let lead = if shown > 0 { "\n" } else { "" };
        let selected = if extent.records == all {
            counted(extent.records, "record")
        } else {
            format!("{} of {}", grouped(extent.records), counted(all, "record"))
        };
        let mut text =
            format!("{lead}{selected}, {} read: {} flagged", bytes(seen.bytes.get()), grouped(flagged));
        if nan + inf > 0 {
            text += &format!(", {} with NaN, {} with Inf", grouped(nan), grouped(inf));
        }
        text += "\n";
        if seen.is_cut(extent) {
            text += &format!(
                "{} of them read, {} shown (--limit).\n",
                grouped(seen.records.get()),
                grouped(shown)
            );
        }
        if recorded > 0 {
            text += &format!("{} with statistics that the device computed.\n", counted(recorded, "record"));
        }
        if unmeasured > 0 && !only_flagged {
            text += &format!("{} without content to measure.\n", counted(unmeasured, "record"));
        }
        text
    }
}
