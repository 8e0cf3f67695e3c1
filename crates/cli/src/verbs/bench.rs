//! `tensortap bench`: measures itself.

mod tables;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use tensortap::PayloadPath;
use tensortap::scene::Registry;
use tensortap_bench::{
    BenchError, CaptureBenchConfig, CaptureBenchPart, DiffBenchConfig, DiffBenchPart, DispatchConfig,
    DispatchPart, DumpBenchConfig, DumpBenchPart, ReadConfig, ReadPart, RecordBenchConfig, RecordBenchPart,
    ServeBenchConfig, ServeBenchPart, Watch,
};
use tensortap_query::number::bytes;

use crate::error::{Exit, Interrupted, UsageError};
use crate::interrupt::{CLOSING_GRACE, GRACE, Interrupt};
use crate::output::Output;
use crate::parse::parse_size;
use crate::progress::StepProgress;
use crate::verbs::{any_of, platform_names, runtime_names, ways};

/// What `tensortap bench` takes.
#[derive(Args)]
#[command(after_help = "Example:\n  tensortap bench dispatch --runtime tensormap_and_ringbuffer")]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Tasks per second with kernels that do nothing
    Dispatch(DispatchArgs),
    /// What the recorder alone costs: by size, dtype and view, against copying and hashing
    Capture(CaptureArgs),
    /// What recording costs a program in C: a call where nothing records, and records by size
    Record(RecordArgs),
    /// What recording costs: against a plain write, against no dump, and per small record
    Dump(DumpArgs),
    /// What reading costs: listing many records, statistics against plain reads, export against a copy
    Read(ReadArgs),
    /// What pages of a large dump wait for: lists, searches and tasks, asked of `tensortap serve`
    Serve(ServeArgs),
    /// Comparing a tensor with its golden: against numpy, and against reading the memory
    Diff(DiffArgs),
}

/// What `tensortap bench dispatch` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dispatch\n  \
    tensortap bench dispatch --platform a2a3sim --runtime aicpu_build_graph --repeat 5\n  \
    tensortap bench dispatch --all                 with every block and several schedulers, too\n  \
    tensortap bench dispatch --schedulers 4 --json")]
struct DispatchArgs {
    #[arg(long, value_name = "NAME", help = format!("Only this platform: {}", any_of(&platform_names())))]
    platform: Option<String>,

    #[arg(long, value_name = "NAME", help = format!("Only this runtime: {}", any_of(&runtime_names())))]
    runtime: Option<String>,

    /// Measure more than one block and one scheduler: also every block, and every block with two schedulers
    #[arg(long)]
    all: bool,

    /// Measure every block with this many schedulers, too [with --all: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    schedulers: Option<u32>,

    /// Tasks of each run; runtimes with a task array hold 131072
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tasks: u64,

    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

/// What `tensortap bench capture` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench capture\n  \
    tensortap bench capture --repeat 101 --json")]
struct CaptureArgs {
    /// Rounds of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

/// What `tensortap bench record` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench record\n  \
    tensortap bench record --library target/release/libtensortap.so --repeat 31 --json")]
struct RecordArgs {
    /// Rounds of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// The library that the program records with [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Compile and record here; what is written is removed again
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// What `tensortap bench dump` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dump\n  \
    tensortap bench dump --bytes 2GiB --pairs 3 --platform a2a3sim\n  \
    tensortap bench dump --dir /mnt/scratch --json")]
struct DumpArgs {
    /// Payload bytes of each throughput run, in tensors of 1 MiB; the disk must have room for them
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size)]
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

/// What `tensortap bench read` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench read\n  \
    tensortap bench read --records 10000 --bytes 64MiB --pairs 1\n  \
    tensortap bench read --dir /mnt/scratch --json")]
struct ReadArgs {
    /// Records of the dump that is listed
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,

    /// Payload bytes that are measured and exported, in tensors of 1 MiB; they should fit in the page cache twice
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    bytes: u64,

    /// Runs of each side, in turn; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// Folder on the disk to use; what is written there is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// What `tensortap bench serve` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench serve\n  \
    tensortap bench serve --records 10000 --asks 20 --json")]
struct ServeArgs {
    /// Records of the dump that is served, each of a task of its own
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,

    /// Questions of each kind
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    asks: u32,

    /// Folder on the disk to use; what is written there is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// What `tensortap bench diff` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench diff\n  \
    tensortap bench diff --bytes 512MiB --repeat 9\n  \
    tensortap bench diff --python ~/venv/bin/python --json")]
struct DiffArgs {
    /// Bytes of the tensor, and as many of its golden; float32
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_bytes)]
    bytes: u64,

    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Threads of the rows with several [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Python interpreter with numpy to compare with
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: String,
}

/// A tensor of at least one element, and small enough to be in memory several times.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (4..=1 << 36).contains(&bytes) { Ok(bytes) } else { Err("it must be from 4 bytes to 64GiB".into()) }
}

/// Measures what was asked for. The scenes are those that the device knows.
pub fn run(args: &BenchArgs, registry: Registry, output: Output) -> anyhow::Result<Exit> {
    match &args.what {
        What::Dispatch(args) => dispatch(args, registry, output)?,
        What::Capture(args) => capture(args, output)?,
        What::Record(args) => record(args, output)?,
        What::Dump(args) => dump(args, registry, output)?,
        What::Read(args) => read(args, output)?,
        What::Serve(args) => serve(args, output)?,
        What::Diff(args) => diff(args, output)?,
    }
    Ok(Exit::Good)
}

fn dispatch(args: &DispatchArgs, registry: Registry, output: Output) -> anyhow::Result<()> {
    let DispatchArgs { platform, runtime, all, schedulers, tasks, repeat } = args;
    let config = DispatchConfig {
        platform: platform.clone(),
        runtime: runtime.clone(),
        all: *all,
        schedulers: *schedulers,
        tasks: *tasks,
        repeat: *repeat,
        registry,
    };
    let last_runtime = RefCell::new(None);
    let watcher = Watcher::new(output, GRACE, |part| match part {
        DispatchPart::Machine(machine) => {
            tables::dispatch_head(&machine, *tasks, *repeat) + &tables::call_loop_head()
        }
        DispatchPart::CallLoop(row) => tables::call_loop(&row),
        DispatchPart::Case(row) => {
            let is_next = last_runtime.replace(Some(row.runtime)) != Some(row.runtime);
            let head = if is_next { tables::runtime_head(row.runtime) } else { String::new() };
            head + &tables::dispatch_case(&row)
        }
    })?;
    let report = watcher.outcome(tensortap_bench::dispatch(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, None))?;
    watcher.finish(&report)
}

fn capture(args: &CaptureArgs, output: Output) -> anyhow::Result<()> {
    let config = CaptureBenchConfig { repeat: args.repeat };
    let watcher = Watcher::new(output, GRACE, |part| match part {
        CaptureBenchPart::Machine(machine, load) => tables::capture_head(&machine, load, args.repeat),
        CaptureBenchPart::Case(row) => tables::capture_case(&row),
    })?;
    let report = watcher.outcome(tensortap_bench::capture(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn record(args: &RecordArgs, output: Output) -> anyhow::Result<()> {
    let RecordArgs { repeat, library, dir } = args;
    let config = RecordBenchConfig { repeat: *repeat, library: library.clone(), dir: dir.clone() };
    let is_first = RefCell::new(true);
    let watcher = Watcher::new(output, GRACE, |part| match part {
        RecordBenchPart::Machine(machine, load) => tables::record_head(&machine, load, *repeat),
        RecordBenchPart::Off(row) => tables::off_case(&row),
        RecordBenchPart::Case(row) => {
            let head = if is_first.replace(false) { tables::record_cases_head() } else { String::new() };
            head + &tables::record_case(&row)
        }
    })?;
    let report = watcher.outcome(tensortap_bench::record(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn dump(args: &DumpArgs, registry: Registry, output: Output) -> anyhow::Result<()> {
    let DumpArgs { bytes, pairs, tasks, dir, platform, write } = args;
    let config = DumpBenchConfig {
        bytes: *bytes,
        pairs: *pairs,
        tasks: *tasks,
        dir: dir.clone(),
        platform: platform.clone(),
        write: *write,
        registry,
    };
    let total = config.payload_bytes();
    let tables_begun = RefCell::new(0);
    // The head of a table goes before its first row.
    let headed = |table: u32, head: &dyn Fn() -> String, row: String| {
        if tables_begun.replace(table) == table { row } else { head() + &row }
    };
    let watcher = Watcher::new(output, CLOSING_GRACE, |part| match part {
        DumpBenchPart::Machine(machine, load, free) => tables::dump_head(&machine, load, dir, free),
        DumpBenchPart::Throughput(row) => {
            headed(1, &|| tables::throughput_head(total, *pairs), tables::throughput(&row))
        }
        DumpBenchPart::Overhead(row) => headed(2, &|| tables::overhead_head(*pairs), tables::overhead(&row)),
        DumpBenchPart::Small(row) => headed(3, &|| tables::small_head(*tasks, *pairs), tables::small(&row)),
    })?;
    let report = watcher.outcome(tensortap_bench::dump(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn read(args: &ReadArgs, output: Output) -> anyhow::Result<()> {
    let ReadArgs { records, bytes, pairs, dir } = args;
    let program = std::env::current_exe().context("finding this program")?;
    let config = ReadConfig { program, records: *records, bytes: *bytes, pairs: *pairs, dir: dir.clone() };
    let total = config.payload_bytes();
    let watcher = Watcher::new(output, GRACE, |part| match part {
        ReadPart::Machine(machine, load) => tables::read_head(&machine, load),
        ReadPart::List(row) => tables::list(&row) + &tables::ratio_head(total, *pairs),
        ReadPart::Stats(row) => tables::stats(&row),
        ReadPart::Export(row) => tables::export(&row),
    })?;
    let report = watcher.outcome(tensortap_bench::read(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn serve(args: &ServeArgs, output: Output) -> anyhow::Result<()> {
    let ServeArgs { records, asks, dir } = args;
    let program = std::env::current_exe().context("finding this program")?;
    let config = ServeBenchConfig { program, records: *records, asks: *asks, dir: dir.clone() };
    let watcher = Watcher::new(output, GRACE, |part| match part {
        ServeBenchPart::Machine(machine, load) => tables::read_head(&machine, load),
        ServeBenchPart::Start(start) => tables::serve_start(*records, &start),
        ServeBenchPart::Case(row) => tables::serve_case(&row),
        ServeBenchPart::Memory(memory) => tables::serve_memory(&memory),
    })?;
    let report = watcher.outcome(tensortap_bench::serve(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn diff(args: &DiffArgs, output: Output) -> anyhow::Result<()> {
    let DiffArgs { bytes, repeat, threads, python } = args;
    let threads = threads.map(|threads| threads as usize);
    let config = DiffBenchConfig { bytes: *bytes, repeat: *repeat, threads, python: python.clone() };
    let watcher = Watcher::new(output, GRACE, |DiffBenchPart::NoNumpy| {
        output.note(format_args!(
            "{python} has no numpy, so there is nothing to hold against it; --python names another"
        ));
        String::new()
    })?;
    let report = watcher.outcome(tensortap_bench::diff(&config, &watcher))?;
    watcher.print(&tables::diff_text(&report))?;
    watcher.finish(&report)
}

/// Prints each part of a report as it is known, shows progress, and looks for signals.
struct Watcher<F> {
    output: Output,
    interrupt: Interrupt,
    steps: StepProgress,
    text: F,
    /// Why a part could not be printed: the measurement then ends.
    trouble: RefCell<Option<anyhow::Error>>,
}

impl<F> Watcher<F> {
    fn new<P>(output: Output, grace: Duration, text: F) -> anyhow::Result<Watcher<F>>
    where
        F: Fn(P) -> String,
    {
        let interrupt = Interrupt::install(grace).context("taking over signals")?;
        let steps = StepProgress::new(output, 0);
        Ok(Watcher { output, interrupt, steps, text, trouble: RefCell::new(None) })
    }

    /// Text for people; the document says the same to machines.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.output.json { Ok(()) } else { self.steps.around(|| self.output.text(text)) }
    }

    /// What could not be printed goes before what came of the measurement.
    fn outcome<T>(&self, outcome: Result<T, BenchError>) -> anyhow::Result<T> {
        match self.trouble.take() {
            Some(trouble) => Err(trouble),
            None => outcome.map_err(explain),
        }
    }

    fn finish(self, report: &impl serde::Serialize) -> anyhow::Result<()> {
        drop(self.steps);
        if self.output.json { self.output.document(report) } else { Ok(()) }
    }
}

impl<P, F: Fn(P) -> String> Watch<P> for Watcher<F> {
    fn expect(&self, steps: u64) {
        self.steps.at(0, steps);
    }

    fn begin(&self, what: String) {
        self.steps.begin(what);
    }

    fn advance(&self) {
        self.steps.advance();
    }

    fn part(&self, part: P) {
        let text = (self.text)(part);
        if text.is_empty() {
            return;
        }
        if let Err(error) = self.print(&text) {
            self.trouble.borrow_mut().get_or_insert(error);
        }
    }

    fn goes_on(&self) -> bool {
        !self.interrupt.requested() && self.trouble.borrow().is_none()
    }
}

/// The same error with the words of this command line.
fn explain(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Run(error) => error.into(),
        BenchError::Failed(failure) => (*failure).into(),
        BenchError::Interrupted => Interrupted.into(),
        BenchError::TooManyTasks { tasks, limit } => UsageError {
            message: format!("--tasks {tasks} is more than a task array holds: {limit}"),
            hint: "use --runtime tensormap_and_ringbuffer, which has no such limit".into(),
        }
        .into(),
        BenchError::NoRoom { needed, free, headroom, dir } => UsageError {
            message: format!(
                "this needs {} of disk, and {} has {} free",
                bytes(needed),
                dir.display(),
                bytes(free)
            ),
            hint: match headroom {
                0 => "use fewer --records or --bytes, or a --dir on another disk".into(),
                _ => {
                    let most = bytes(free.saturating_sub(headroom));
                    format!("use --bytes of at most {most}, or a --dir on another disk")
                }
            },
        }
        .into(),
        other => other.into(),
    }
}
