//! `tensortap stats`: what the values of records are like.

mod table;

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use clap::Args;
use tensortap::Measured;

use crate::dump_arg::DumpArg;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::{JobsArg, whole};
use crate::progress::ByteProgress;
use crate::select::SelectArgs;
use crate::types_arg::TypesArg;
use crate::verbs::list::which_dump;
use tensortap_query::document::{OfMember, StatsHead};
use tensortap_query::fields::{Cells, Field, Row, STATS_CSV, csv_head, fields};
use tensortap_query::{DumpSet, Member, Part, Selection};

/// What `tensortap stats` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap stats                                the newest dump under outputs/\n  \
    tensortap stats --only-flagged                 records with NaN, Inf, constant values, ..\n  \
    tensortap stats my_dump --func softmax --stage after --json\n\n\
    Flags: nan, inf, zero (every element), constant, f16_overflow (a finite float of 65504 or more in magnitude), \
    truncated (a part was measured), no_payload (nothing to measure). At level `hash` the statistics are those that \
    the device took.")]
pub struct StatsArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// Show only records with a flag about their values
    #[arg(long)]
    only_flagged: bool,

    /// Show at most this many records; what comes behind them is not read
    #[arg(long, value_name = "N", value_parser = whole(0_u64..))]
    limit: Option<u64>,

    /// Print comma-separated values, one line for each record
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// Records selected, and the bytes to be read for those that may be shown.
struct Extent {
    records: u64,
    bytes: u64,
}

/// How far the records were looked at.
#[derive(Default)]
struct Seen {
    records: Cell<u64>,
    bytes: Cell<u64>,
    shown: Cell<u64>,
}

/// Measures the records and prints each as it is done.
pub fn run(args: &StatsArgs, output: Output) -> anyhow::Result<Exit> {
    let mut set = args.dump.open_set()?;
    args.types.apply_to_all(&mut set, output)?;
    let selected = |member: &Member| args.select.selection(&member.dump, output);
    let selections: Vec<Selection> = set.members().iter().map(selected).collect::<Result<_, _>>()?;
    let parts = set.members().iter().zip(&selections);
    let parts: Vec<Part<'_>> =
        parts.map(|(Member { dump, rank, .. }, selection)| Part { dump, selection, rank: *rank }).collect();
    let limit = args.limit.unwrap_or(u64::MAX);
    let extents = extents(&parts, if args.only_flagged { u64::MAX } else { limit })?;
    let extent = Extent {
        records: extents.iter().map(|extent| extent.records).sum(),
        bytes: extents.iter().map(|extent| extent.bytes).fold(0, u64::saturating_add),
    };
    let seen = Seen::default();
    let progress = ByteProgress::new(output, extent.bytes);
    let measure = |each: &mut dyn FnMut(usize, Measured) -> anyhow::Result<()>| {
        let advance = |bytes| progress.advance(bytes);
        parts.iter().enumerate().try_for_each(|(place, part)| {
            let left = limit - seen.shown.get();
            let wanted =
                if args.only_flagged { usize::MAX } else { usize::try_from(left).unwrap_or(usize::MAX) };
            let records = part.selection.records(part.dump).take(wanted);
            let records = records.take_while(|_| seen.shown.get() < limit);
            tensortap::stats_each(part.dump, records, Some(args.jobs.get()), &advance, |measured| {
                // Others are measured at the same time as the last that is shown.
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
    // On a terminal rows would run through the bar.
    let mut text = Vec::new();
    write(&mut text)?;
    drop(progress);
    output.stream(|out| Ok(out.write_all(&text)?))?;
    Ok(Exit::Good)
}

/// Gives every record, measured, to the function that it takes, with the place of its part.
trait EachMeasured: FnOnce(&mut dyn FnMut(usize, Measured) -> anyhow::Result<()>) -> anyhow::Result<()> {}
impl<F: FnOnce(&mut dyn FnMut(usize, Measured) -> anyhow::Result<()>) -> anyhow::Result<()>> EachMeasured
    for F
{
}

/// Reads each index once more rather than keep records in memory. The limit is for all dumps together.
fn extents(parts: &[Part<'_>], limit: u64) -> anyhow::Result<Vec<Extent>> {
    let mut left = limit;
    parts
        .iter()
        .map(|part| {
            let mut extent = Extent { records: 0, bytes: 0 };
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

/// What stands before the records: of several dumps the sums, then each.
fn head(set: &DumpSet, extents: &[Extent], all: &Extent) -> StatsHead {
    let of = |member: &Member, extent: &Extent| StatsHead {
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
        dumps: members.map(|(member, extent)| OfMember::new(member, of(member, extent))).collect(),
    }
}

impl Seen {
    /// Counts a record, and says whether it is shown.
    fn shows(&self, measured: &Measured, only_flagged: bool) -> bool {
        let shows = !only_flagged || measured.is_flagged();
        self.records.set(self.records.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(measured.record.readable_bytes()));
        self.shown.set(self.shown.get() + u64::from(shows));
        shows
    }

    /// Whether a limit kept records from being looked at.
    fn is_cut(&self, extent: &Extent) -> bool {
        self.records.get() < extent.records
    }
}

/// Writes a line of names, then one for each record. What is not known is empty.
fn write_csv(out: &mut dyn Write, parts: &[Part<'_>], source: impl EachMeasured) -> anyhow::Result<()> {
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
