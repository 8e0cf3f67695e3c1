//! `bench dump`: what recording costs. The throughput of large payloads against a plain write of as many bytes, the
//! run time of scenes with a dump against without, and the rate of small records.

mod overhead;
mod plain;
mod recorded;
pub mod scratch;
mod small;
mod table;
mod throughput;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tensortap::PayloadPath;

use overhead::Overhead;
use scratch::Scratch;
use small::Small;
use throughput::Throughput;

use super::machine::{Machine, load_average};
use super::words::foot;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::interrupt::{CLOSING_GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::size;
use crate::verbs::ways;
use crate::verbs::{any_of, platform_names};
use tensortap_query::number::bytes;

/// A tensor of the throughput runs.
const TENSOR_BYTES: u64 = 1 << 20;
/// What one task of `stream` records: what it reads and what it writes.
const TENSORS_PER_TASK: u64 = 2;
/// Room for index, manifest and the dumps of the smaller measurements.
const HEADROOM_BYTES: u64 = 1 << 30;

const NOTES: [&str; 5] = [
    "plain write: one thread, 1 MiB pieces from 64 MiB of memory into a new file; fdatasync is inside both clocks",
    "dump: from launch until the last payload is written, then fdatasync of the payloads; manifest and graph come after",
    "ratio: throughput of the dump over that of the plain write of its pair; targets a2a3sim 0.9, a5sim 0.8",
    "held up: time that device threads spent in capture, all together",
    "every measurement begins with a warm-up that does not count",
];

/// What `tensortap bench dump` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dump\n  \
    tensortap bench dump --bytes 2GiB --pairs 3 --platform a2a3sim\n  \
    tensortap bench dump --dir /mnt/scratch --json")]
pub struct DumpArgs {
    /// Payload bytes of each throughput run, in tensors of 1 MiB; the disk must have room for them
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = size::parse)]
    bytes: u64,

    /// Runs of each side, in turn; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// Tasks of each run with small tensors
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tasks: u64,

    /// Folder on the disk to measure; what is written there is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,

    #[arg(long, value_name = "NAME", help = format!("Only this platform: {}", any_of(&platform_names())))]
    platform: Option<String>,

    /// How the dump reaches the disk, as --dump-write of run
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = ways())]
    write: PayloadPath,
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    dir: String,
    free_bytes: u64,
    bytes: u64,
    pairs: u32,
    load_average_before: Option<f64>,
    load_average_after: Option<f64>,
    throughput: Vec<Throughput>,
    overhead: Vec<Overhead>,
    small: Vec<Small>,
    notes: [&'static str; 5],
}

/// Measures everything and prints each part as it is done.
pub fn run(args: &DumpArgs, output: Output) -> anyhow::Result<Exit> {
    let platforms = args.platforms();
    let scratch = Scratch::new(&args.dir)?;
    let free_bytes = args.check_room(&scratch)?;
    for platform in &platforms {
        tensortap::resolve(&throughput::config(args, platform))?;
        tensortap::resolve(&small::config(args.tasks, platform))?;
    }
    let interrupt = Interrupt::install(CLOSING_GRACE).context("taking over Ctrl-C")?;
    let steps = StepProgress::new(output, platforms.len() as u64 * args.steps_per_platform());
    let bench = Bench { args, output, interrupt, scratch, steps };
    let (machine, load_average_before) = (Machine::read(), load_average());
    bench.print(&table::head(&machine, load_average_before, &args.dir, free_bytes))?;
    let (throughput, overhead, small) = bench.measure(&platforms)?;
    let load_average_after = load_average();
    bench.print(&foot(&NOTES, load_average_after))?;
    if output.json {
        output.document(&Document {
            machine,
            dir: args.dir.display().to_string(),
            free_bytes,
            bytes: args.payload_bytes(),
            pairs: args.pairs,
            load_average_before,
            load_average_after,
            throughput,
            overhead,
            small,
            notes: NOTES,
        })?;
    }
    Ok(Exit::Good)
}

impl DumpArgs {
    fn platforms(&self) -> Vec<String> {
        let every = || platform_names().into_iter().map(Into::into).collect();
        self.platform.clone().map_or_else(every, |only| vec![only])
    }

    /// Tasks of a throughput run; at least one.
    fn large_tasks(&self) -> u64 {
        (self.bytes / (TENSORS_PER_TASK * TENSOR_BYTES)).max(1)
    }

    /// What a throughput run stores: the bytes asked for, in whole tasks.
    fn payload_bytes(&self) -> u64 {
        self.large_tasks().saturating_mul(TENSORS_PER_TASK * TENSOR_BYTES)
    }

    /// Both sides of every pair and of the warm-up.
    fn steps_per_platform(&self) -> u64 {
        let runs = 2 * (u64::from(self.pairs) + 1);
        runs * (2 + overhead::SCENES.len() as u64)
    }

    /// Only one file is there at a time.
    fn check_room(&self, scratch: &Scratch) -> anyhow::Result<u64> {
        let (free, needed) = (scratch.free_bytes()?, self.payload_bytes().saturating_add(HEADROOM_BYTES));
        if needed <= free {
            return Ok(free);
        }
        let most = bytes(free.saturating_sub(HEADROOM_BYTES));
        let (needed, free) = (bytes(needed), bytes(free));
        let dir = self.dir.display();
        Err(UsageError {
            message: format!("this needs {needed} of disk, and {dir} has {free} free"),
            hint: format!("use --bytes of at most {most}, or a --dir on another disk"),
        }
        .into())
    }
}

/// A measurement under way.
struct Bench<'a> {
    args: &'a DumpArgs,
    output: Output,
    interrupt: Interrupt,
    scratch: Scratch,
    steps: StepProgress,
}

impl Bench<'_> {
    /// Text for people; the document says the same to machines.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.output.json { Ok(()) } else { self.steps.around(|| self.output.text(text)) }
    }

    fn measure(&self, platforms: &[String]) -> anyhow::Result<(Vec<Throughput>, Vec<Overhead>, Vec<Small>)> {
        let (mut large, mut overheads, mut small) = (Vec::new(), Vec::new(), Vec::new());
        self.print(&table::throughput_head(self.args.payload_bytes(), self.args.pairs))?;
        for platform in platforms {
            large.push(throughput::measure(self, platform)?);
            self.print(&table::throughput(&large[large.len() - 1]))?;
        }
        self.print(&table::overhead_head(self.args.pairs))?;
        for scene in overhead::SCENES {
            for platform in platforms {
                overheads.push(overhead::measure(self, scene, platform)?);
                self.print(&table::overhead(&overheads[overheads.len() - 1]))?;
            }
        }
        self.print(&table::small_head(self.args.tasks, self.args.pairs))?;
        for platform in platforms {
            small.push(small::measure(self, platform)?);
            self.print(&table::small(&small[small.len() - 1]))?;
        }
        Ok((large, overheads, small))
    }

    /// Measures both sides in turn, the first of them changing, so that what drifts meets both alike. One warm-up of
    /// each is not kept.
    fn pairs<A, B>(
        &self,
        what: &str,
        mut one: impl FnMut() -> anyhow::Result<A>,
        mut other: impl FnMut() -> anyhow::Result<B>,
    ) -> anyhow::Result<Vec<(A, B)>> {
        let mut kept = Vec::new();
        for number in 0..=self.args.pairs {
            let label = if number == 0 { "warm-up".into() } else { format!("pair {number}") };
            self.steps.begin(format!("{what}: {label}"));
            let pair = if number % 2 == 0 {
                let first = one()?;
                self.steps.advance();
                (first, other()?)
            } else {
                let first = other()?;
                self.steps.advance();
                (one()?, first)
            };
            self.steps.advance();
            if number > 0 {
                kept.push(pair);
            }
        }
        Ok(kept)
    }
}
