//! `bench read`: what reading a dump costs. Listing many records, statistics against a plain read of the payload file, and
//! an export against a copy of it.

mod child;
mod export;
mod list;
mod made;
mod stats;
mod table;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tensortap::DType;

use self::export::ExportRatio;
use self::list::Listed;
use self::stats::StatsRatio;
use super::dump::scratch::Scratch;
use super::machine::{Machine, load_average};
use super::spread::Spread;
use super::words::foot;
use crate::error::{Interrupted, UsageError};
use crate::exit::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::size;
use tensortap_query::number::bytes;

/// A tensor of the payload measurements.
const TENSOR_BYTES: u64 = 1 << 20;
/// Disk for index and manifest of one record without payload.
const RECORD_BYTES: u64 = 1024;
/// Elements of four, two and one byte.
const DTYPES: [DType; 3] = [DType::Float32, DType::BFloat16, DType::Float8E4M3FN];

const NOTES: [&str; 4] = [
    "list: `tensortap list` as a process of its own, output to /dev/null; anonymous memory is its greatest RssAnon, \
     sampled every millisecond",
    "stats: `tensortap stats` as a process of its own, one thread for each CPU, against one thread that reads the payload \
     file with read() of 1 MiB; both from the page cache",
    "export: `tensortap export --format npy` of 1 MiB records against `cp --reflink=never` of the payload file; both from \
     and into the page cache, neither syncs",
    "ratio: speed of tensortap over that of its plain counterpart, pair by pair; a warm-up of each does not count",
];

/// What `tensortap bench read` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench read\n  \
    tensortap bench read --records 10000 --bytes 64MiB --pairs 1\n  \
    tensortap bench read --dir /mnt/scratch --json")]
pub struct ReadArgs {
    /// Records of the dump that is listed
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,

    /// Payload bytes that are measured and exported, in tensors of 1 MiB; they should fit in the page cache twice
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::parse)]
    bytes: u64,

    /// Runs of each side, in turn; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// Folder on the disk to use; what is written there is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    dir: String,
    pairs: u32,
    load_average_before: Option<f64>,
    load_average_after: Option<f64>,
    list: Listed,
    stats: Vec<StatsRatio>,
    export: ExportRatio,
    notes: [&'static str; 4],
}

/// Measures everything and prints each part as it is done.
pub fn run(args: &ReadArgs, output: Output) -> anyhow::Result<Exit> {
    let scratch = Scratch::new(&args.dir)?;
    args.check_room(&scratch)?;
    let interrupt = Interrupt::install(GRACE).context("taking over Ctrl-C")?;
    let runs = u64::from(args.pairs) + 1;
    // Making each dump is a step, too.
    let steps = StepProgress::new(output, (1 + runs) + DTYPES.len() as u64 * (1 + 2 * runs) + 2 * runs);
    let bench = Bench { args, output, interrupt, scratch, steps };
    let (machine, load_average_before) = (Machine::read(), load_average());
    bench.print(&table::head(&machine, load_average_before))?;
    let list = list::measure(&bench)?;
    bench.print(&table::list(&list))?;
    bench.print(&table::ratio_head(args.payload_bytes(), args.pairs))?;
    let (mut stats, mut export) = (Vec::new(), None);
    for dtype in DTYPES {
        let dump = made::with_payload(&bench, dtype)?;
        stats.push(stats::measure(&bench, dtype, &dump)?);
        bench.print(&table::stats(&stats[stats.len() - 1]))?;
        if export.is_none() {
            export = Some(export::measure(&bench, &dump)?);
        }
        bench.scratch.remove(&dump)?;
    }
    let export = export.context("nothing was exported")?;
    bench.print(&table::export(&export))?;
    let load_average_after = load_average();
    bench.print(&foot(&NOTES, load_average_after))?;
    if output.json {
        output.document(&Document {
            machine,
            dir: args.dir.display().to_string(),
            pairs: args.pairs,
            load_average_before,
            load_average_after,
            list,
            stats,
            export,
            notes: NOTES,
        })?;
    }
    Ok(Exit::Good)
}

impl ReadArgs {
    /// Tensors of the payload measurements; at least one.
    fn tensors(&self) -> u64 {
        (self.bytes / TENSOR_BYTES).max(1)
    }

    fn payload_bytes(&self) -> u64 {
        self.tensors().saturating_mul(TENSOR_BYTES)
    }

    /// The dump that is listed goes before the others come; a payload is there with one copy of it.
    fn check_room(&self, scratch: &Scratch) -> anyhow::Result<()> {
        let (free, list) = (scratch.free_bytes()?, self.records.saturating_mul(RECORD_BYTES));
        let needed = list.max(self.payload_bytes().saturating_mul(2).saturating_add(TENSOR_BYTES));
        if needed <= free {
            return Ok(());
        }
        let (needed, free) = (bytes(needed), bytes(free));
        Err(UsageError {
            message: format!("this needs {needed} of disk, and {} has {free} free", self.dir.display()),
            hint: "use fewer --records or --bytes, or a --dir on another disk".into(),
        }
        .into())
    }
}

/// A measurement under way.
struct Bench<'a> {
    args: &'a ReadArgs,
    output: Output,
    interrupt: Interrupt,
    scratch: Scratch,
    steps: StepProgress,
}

/// Seconds of both sides, and how much faster ours is.
#[derive(Serialize)]
struct Pairs {
    plain_s: Spread,
    tensortap_s: Spread,
    plain_bytes_per_s: Spread,
    tensortap_bytes_per_s: Spread,
    ratio: Spread,
    target_ratio: f64,
    met: bool,
}

impl Bench<'_> {
    /// Text for people; the document says the same to machines.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.output.json { Ok(()) } else { self.steps.around(|| self.output.text(text)) }
    }

    fn check_interrupt(&self) -> anyhow::Result<()> {
        if self.interrupt.requested() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Measures both sides in turn, the first of them changing, so that what drifts meets both alike. One warm-up of each
    /// is not kept. Each side gives the seconds that it took.
    fn pairs(
        &self,
        what: &str,
        bytes: u64,
        target_ratio: f64,
        mut plain: impl FnMut() -> anyhow::Result<f64>,
        mut ours: impl FnMut() -> anyhow::Result<f64>,
    ) -> anyhow::Result<Pairs> {
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for number in 0..=self.args.pairs {
            self.check_interrupt()?;
            let label = if number == 0 { "warm-up".into() } else { format!("pair {number}") };
            self.steps.begin(format!("{what}: {label}"));
            let pair = if number % 2 == 0 {
                let plain = plain()?;
                (plain, ours()?)
            } else {
                let ours = ours()?;
                (plain()?, ours)
            };
            self.steps.advance();
            self.steps.advance();
            if number > 0 {
                kept.push(pair);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let bytes = bytes as f64;
        let over = |value: &dyn Fn(&(f64, f64)) -> f64| Spread::of(kept.iter().map(value).collect());
        let ratio = over(&|(plain, ours)| plain / ours);
        Ok(Pairs {
            plain_s: over(&|pair| pair.0),
            tensortap_s: over(&|pair| pair.1),
            plain_bytes_per_s: over(&|pair| bytes / pair.0),
            tensortap_bytes_per_s: over(&|pair| bytes / pair.1),
            ratio,
            target_ratio,
            met: ratio.median >= target_ratio,
        })
    }
}
