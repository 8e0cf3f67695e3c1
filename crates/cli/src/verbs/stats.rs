//! `tensortap stats`: what the values of records are like.

mod table;

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use clap::Args;
use tensortap::Measured;
use tensortap::format::Dump;

use crate::dump_arg::DumpArg;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::{JobsArg, whole};
use crate::progress::ByteProgress;
use crate::select::SelectArgs;
use tensortap_query::Selection;
use tensortap_query::document::StatsHead;
use tensortap_query::fields::{Cells, Row, STATS_CSV, csv_head, fields};

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
    let dump = args.dump.open()?;
    let selection = args.select.selection(&dump, output)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    let extent = extent(&dump, &selection, if args.only_flagged { u64::MAX } else { limit })?;
    let seen = Seen::default();
    let progress = ByteProgress::new(output, extent.bytes);
    let measure = |each: &mut dyn FnMut(Measured) -> anyhow::Result<()>| {
        let wanted =
            if args.only_flagged { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        let records = selection.records(&dump).take(wanted).take_while(|_| seen.shown.get() < limit);
        let advance = |bytes| progress.advance(bytes);
        tensortap::stats_each(&dump, records, Some(args.jobs.get()), &advance, |measured| {
            // Others are measured at the same time as the last that is shown.
            if seen.shown.get() == limit {
                return Ok(());
            }
            if seen.shows(&measured, args.only_flagged) { each(measured) } else { Ok(()) }
        })
    };
    let write = |out: &mut dyn Write| {
        if output.json {
            let head = StatsHead {
                dump: dump.dir().display().to_string(),
                total: dump.len(),
                selected: extent.records,
                bytes: extent.bytes,
            };
            head.write(out, &dump, measure, || seen.is_cut(&extent))
        } else if args.csv {
            write_csv(out, &dump, measure)
        } else {
            table::write(out, &dump, &extent, &seen, args.only_flagged, measure)?;
            let why = (extent.records == 0 && !dump.is_empty()).then(|| selection.why_empty(&dump));
            Ok(why.transpose()?.map_or(Ok(()), |why| writeln!(out, "{why}"))?)
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

/// Gives every record, measured, to the function that it takes.
trait EachMeasured: FnOnce(&mut dyn FnMut(Measured) -> anyhow::Result<()>) -> anyhow::Result<()> {}
impl<F: FnOnce(&mut dyn FnMut(Measured) -> anyhow::Result<()>) -> anyhow::Result<()>> EachMeasured for F {}

/// Reads the index once more rather than keep records in memory.
fn extent(dump: &Dump, selection: &Selection, limit: u64) -> anyhow::Result<Extent> {
    let mut extent = Extent { records: 0, bytes: 0 };
    for record in selection.records(dump) {
        let bytes = record?.readable_bytes();
        if extent.records < limit {
            extent.bytes = extent.bytes.saturating_add(bytes);
        }
        extent.records += 1;
    }
    Ok(extent)
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
fn write_csv(out: &mut dyn Write, dump: &Dump, source: impl EachMeasured) -> anyhow::Result<()> {
    let columns = fields(STATS_CSV);
    writeln!(out, "{}", csv_head(&columns))?;
    let mut cells = Cells::new(dump);
    let mut line = String::new();
    source(&mut |measured| {
        line.clear();
        cells.write_csv(&columns, &Row::measured(&measured), &mut line);
        Ok(writeln!(out, "{line}")?)
    })
}
