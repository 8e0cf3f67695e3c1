//! `tensortap stats`: statistics of the values of records.

mod table;

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use clap::Args;
use tensortap::RecordSummary;

use crate::dump_path::DumpPathArg;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::{JobsArg, whole};
use crate::progress::ByteProgress;
use crate::select::{SelectArgs, parts};
use crate::types_arg::TypesArg;
use crate::verbs::list::which_dump;
use tensortap_query::document::{MemberDocument, StatsHead};
use tensortap_query::fields::{Cells, Field, Row, STATS_CSV, csv_head, fields};
use tensortap_query::{DumpSet, Member, Part};

/// Arguments of `tensortap stats`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap stats                                the newest dump under outputs/\n  \
    tensortap stats --only-flagged                 only records with NaN, Inf, constant values, ...\n  \
    tensortap stats my_dump --func softmax --stage after --json\n\n\
    Flags: nan, inf, zero (every element), constant, f16_overflow (a finite float of magnitude 65504 or more), \
    truncated (only part of the content was measured), no_payload (nothing to measure). At level `hash`, the device \
    computed the statistics.")]
pub struct StatsArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Show only records with flags
    #[arg(long)]
    only_flagged: bool,

    /// Show at most this many records, and do not read the rest
    #[arg(long, value_name = "N", value_parser = whole(0_u64..))]
    limit: Option<u64>,

    /// Print CSV, one line for each record
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// The number of selected records, and the bytes to read for those that may be shown.
struct ScanExtent {
    records: u64,
    bytes: u64,
}

/// Counts of the records that were read so far.
#[derive(Default)]
struct ScanCounts {
    records: Cell<u64>,
    bytes: Cell<u64>,
    shown: Cell<u64>,
}

/// Measures the records and prints each as soon as it is measured.
pub fn run(args: &StatsArgs, output: Output) -> anyhow::Result<Exit> {
    let mut set = args.dump.open_set()?;
    args.types.apply_to_all(&mut set, output)?;
    let selections = args.select.selections(&set, output)?;
    let parts = parts(&set, &selections);
    let limit = args.limit.unwrap_or(u64::MAX);
    let extents = extents(&parts, if args.only_flagged { u64::MAX } else { limit })?;
    let extent = ScanExtent {
        records: extents.iter().map(|extent| extent.records).sum(),
        bytes: extents.iter().map(|extent| extent.bytes).fold(0, u64::saturating_add),
    };
    let seen = ScanCounts::default();
    let progress = ByteProgress::new(output, extent.bytes);
    let measure = |each: &mut dyn FnMut(usize, RecordSummary) -> anyhow::Result<()>| {
        let advance = |bytes| progress.advance(bytes);
        parts.iter().enumerate().try_for_each(|(place, part)| {
            let left = limit - seen.shown.get();
            let wanted =
                if args.only_flagged { usize::MAX } else { usize::try_from(left).unwrap_or(usize::MAX) };
            let records = part.selection.records(part.dump).take(wanted);
            let records = records.take_while(|_| seen.shown.get() < limit);
            tensortap::stats_each(part.dump, records, Some(args.jobs.get()), &advance, |measured| {
                // Other threads may still measure records after the last shown one.
                if seen.shown.get() == limit {
                    return Ok(());
                }
                if seen.shows(&measured, args.only_flagged) { each(place, measured) } else { Ok(()) }
            })
        })
    };
    let write = |out: &mut dyn Write| {
        if output.json {
            head(&set, &extents, &extent).write(out, &parts, measure, || seen.is_cut(&extent))
        } else if args.csv {
            write_csv(out, &parts, measure)
        } else {
            table::write(out, &parts, &extent, &seen, args.only_flagged, measure)?;
            let nothing = parts.iter().filter(|part| extent.records == 0 && !part.dump.is_empty());
            for part in nothing.take(1) {
                writeln!(out, "{}", part.selection.why_empty(part.dump)?)?;
            }
            Ok(())
        }
    };
    if !std::io::stdout().is_terminal() {
        output.stream(write)?;
        return Ok(Exit::Good);
    }
    // On a terminal, rows would interfere with the progress bar.
    let mut text = Vec::new();
    write(&mut text)?;
    drop(progress);
    output.stream(|out| Ok(out.write_all(&text)?))?;
    Ok(Exit::Good)
}

/// A function that passes every measured record to a callback, with the number of its dump.
trait RecordSource:
    FnOnce(&mut dyn FnMut(usize, RecordSummary) -> anyhow::Result<()>) -> anyhow::Result<()>
{
}
impl<F: FnOnce(&mut dyn FnMut(usize, RecordSummary) -> anyhow::Result<()>) -> anyhow::Result<()>> RecordSource
    for F
{
}

/// Reads each index a second time instead of keeping all records in memory. The limit applies to all dumps together.
fn extents(parts: &[Part<'_>], limit: u64) -> anyhow::Result<Vec<ScanExtent>> {
    let mut left = limit;
    parts
        .iter()
        .map(|part| {
            let mut extent = ScanExtent { records: 0, bytes: 0 };
            for record in part.selection.records(part.dump) {
                let bytes = record?.readable_bytes();
                if extent.records < left {
                    extent.bytes = extent.bytes.saturating_add(bytes);
                }
                extent.records += 1;
            }
            left = left.saturating_sub(extent.records);
            Ok(extent)
        })
        .collect()
}

/// The head of the document: for several dumps, the sums and then each dump.
fn head(set: &DumpSet, extents: &[ScanExtent], all: &ScanExtent) -> StatsHead {
    let of = |member: &Member, extent: &ScanExtent| StatsHead {
        dump: member.dump.dir().display().to_string(),
        total: member.dump.len(),
        selected: extent.records,
        bytes: extent.bytes,
        dumps: Vec::new(),
    };
    if let ([member], [extent]) = (set.members(), extents) {
        return of(member, extent);
    }
    let members = set.members().iter().zip(extents);
    StatsHead {
        dump: set.path().display().to_string(),
        total: set.members().iter().map(|member| member.dump.len()).sum(),
        selected: all.records,
        bytes: all.bytes,
        dumps: members.map(|(member, extent)| MemberDocument::new(member, of(member, extent))).collect(),
    }
}

impl ScanCounts {
    /// Counts a record and returns whether to show it.
    fn shows(&self, measured: &RecordSummary, only_flagged: bool) -> bool {
        let shows = !only_flagged || measured.is_flagged();
        self.records.set(self.records.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(measured.record.readable_bytes()));
        self.shown.set(self.shown.get() + u64::from(shows));
        shows
    }

    /// Whether the limit skipped records.
    fn is_cut(&self, extent: &ScanExtent) -> bool {
        self.records.get() < extent.records
    }
}

/// Writes the headings, then one line for each record. Unknown values are empty.
fn write_csv(out: &mut dyn Write, parts: &[Part<'_>], source: impl RecordSource) -> anyhow::Result<()> {
    let columns: Vec<&Field> = which_dump(parts).into_iter().chain(fields(STATS_CSV)).collect();
    writeln!(out, "{}", csv_head(&columns))?;
    let mut cells: Vec<Cells<'_>> = parts.iter().map(Cells::of).collect();
    let mut line = String::new();
    source(&mut |part, measured| {
        line.clear();
        cells[part].write_csv(&columns, &Row::measured(&measured), &mut line);
        Ok(writeln!(out, "{line}")?)
    })
}
