//! `tensortap bench`: measures tensortap itself.

mod tables;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use tensortap::scene::Registry;
use tensortap::{MAX_WRITERS, PayloadPath};
use tensortap_bench::{
    BenchError, CaptureBenchConfig, CaptureBenchPart, DiffBenchConfig, DiffBenchPart, DispatchConfig,
    DispatchPart, DumpBenchConfig, DumpBenchPart, ReadConfig, ReadPart, RecordBenchConfig, RecordBenchPart,
    ServeBenchConfig, ServeBenchPart, Watch,
};
use tensortap_query::number::bytes;

use crate::error::{Exit, Interruption, UsageError};
use crate::interrupt::{CLOSING_GRACE, GRACE, Interrupt};
use crate::output::Output;
use crate::parse::{parse_size, whole};
use crate::progress::StepProgress;
use crate::verbs::{any_of, payload_paths, platform_names, runtime_names};

/// Arguments of `tensortap bench`.
#[derive(Args)]
#[command(after_help = "Example:\n  tensortap bench dispatch --runtime tensormap_and_ringbuffer")]
pub struct BenchArgs {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Tasks per second with empty kernels
    Dispatch(DispatchArgs),
    /// Cost of the device-side recorder by size, dtype and view, compared with copying and hashing
    Capture(CaptureArgs),
    /// Cost of recording for a C program: calls without a recorder, and records by size
    Record(RecordArgs),
    /// Cost of recording: compared with a plain write, compared with a run without a dump, and per small record
    Dump(DumpArgs),
    /// Cost of reading: listing many records, statistics compared with plain reads, export compared with a copy
    Read(ReadArgs),
    /// Response times of `tensortap serve` for a large dump: lists, searches and tasks
    Serve(ServeArgs),
    /// Speed of comparing a tensor with its golden, compared with numpy and with reading the memory
    Diff(DiffArgs),
}

/// Arguments of `tensortap bench dispatch`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dispatch\n  \
    tensortap bench dispatch --platform a2a3sim --runtime aicpu_build_graph --repeat 5\n  \
    tensortap bench dispatch --all                 also with every block and several schedulers\n  \
    tensortap bench dispatch --schedulers 4 --json")]
struct DispatchArgs {
    #[arg(long, value_name = "NAME", help = format!("Measure only this platform: {}", any_of(&platform_names())))]
    platform: Option<String>,

    #[arg(long, value_name = "NAME", help = format!("Measure only this runtime: {}", any_of(&runtime_names())))]
    runtime: Option<String>,

    /// Also measure with every block, and with every block and two schedulers
    #[arg(long)]
    all: bool,

    /// Also measure with every block and this many schedulers [default with --all: 2]
    #[arg(long, value_name = "N", value_parser = whole(1..=32_u32))]
    schedulers: Option<u32>,

    /// Tasks of each run; runtimes with a task array take at most 131072
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = whole(1..=10_000_000_u64))]
    tasks: u64,

    /// Runs of each case; the result is the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1000_u32))]
    repeat: u32,
}

/// Arguments of `tensortap bench capture`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench capture\n  \
    tensortap bench capture --repeat 101 --json")]
struct CaptureArgs {
    /// Rounds of each case; the result is the median
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = whole(1..=1000_u32))]
    repeat: u32,
}

/// Arguments of `tensortap bench record`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench record\n  \
    tensortap bench record --library target/release/libtensortap.so --repeat 31 --json")]
struct RecordArgs {
    /// Rounds of each case; the result is the median
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = whole(1..=1000_u32))]
    repeat: u32,

    /// Library that the program records with [default: the one next to this executable]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Folder to compile and record in; its new files are removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// Arguments of `tensortap bench dump`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dump\n  \
    tensortap bench dump --bytes 2GiB --pairs 3 --platform a2a3sim\n  \
    tensortap bench dump --dir /mnt/scratch --json")]
struct DumpArgs {
    /// Payload bytes of each throughput run, in tensors of 1 MiB; needs as much free disk space
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size)]
    bytes: u64,

    /// Runs of each side, alternating; the result is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole(1..=1000_u32))]
    pairs: u32,

    /// Tasks of each run with small tensors
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = whole(1..=10_000_000_u64))]
    tasks: u64,

    /// Folder on the disk to measure; its new files are removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,

    #[arg(long, value_name = "NAME", help = format!("Measure only this platform: {}", any_of(&platform_names())))]
    platform: Option<String>,

    /// How payloads are written, as in `run --dump-write`
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = payload_paths())]
    write: PayloadPath,

    /// Numbers of payload files to measure the throughput with; each file has a thread that writes it
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,4",
        value_parser = whole(1..=MAX_WRITERS)
    )]
    files: Vec<usize>,
}

/// Arguments of `tensortap bench read`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench read\n  \
    tensortap bench read --records 10000 --bytes 64MiB --pairs 1\n  \
    tensortap bench read --dir /mnt/scratch --json")]
struct ReadArgs {
    /// Records of the listed dump
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole(1..=100_000_000_u64))]
    records: u64,

    /// Payload bytes to measure and export, in tensors of 1 MiB; should fit twice into the page cache
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    bytes: u64,

    /// Runs of each side, alternating; the result is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole(1..=1000_u32))]
    pairs: u32,

    /// Folder to write to; its new files are removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// Arguments of `tensortap bench serve`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench serve\n  \
    tensortap bench serve --records 10000 --asks 20 --json")]
struct ServeArgs {
    /// Records of the served dump, one for each task
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole(1..=100_000_000_u64))]
    records: u64,

    /// Requests of each kind
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole(1..=100_000_u32))]
    asks: u32,

    /// Folder to write to; its new files are removed afterwards
    #[arg(long, value_name = "DIR", default_value = "outputs")]
    dir: PathBuf,
}

/// Arguments of `tensortap bench diff`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench diff\n  \
    tensortap bench diff --bytes 512MiB --repeat 9\n  \
    tensortap bench diff --python ~/venv/bin/python --json")]
struct DiffArgs {
    /// Bytes of the float32 tensor and of its golden, each
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_bytes)]
    bytes: u64,

    /// Rounds; the result is the median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = whole(1..=1000_u32))]
    repeat: u32,

    /// Threads of the multi-threaded rows [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_u32))]
    threads: Option<u32>,

    /// Python interpreter with numpy
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: String,
}

/// Reads the size of a tensor: at least one element, and small enough to fit into memory several times.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (4..=1 << 36).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("the size must be from 4 bytes to 64GiB".into())
    }
}

/// Runs the chosen benchmark. `registry` has the scenes of the device.
pub fn run(args: &BenchArgs, registry: Registry, output: Output) -> anyhow::Result<Exit> {
    match &args.benchmark {
        Benchmark::Dispatch(args) => dispatch(args, registry, output)?,
        Benchmark::Capture(args) => capture(args, output)?,
        Benchmark::Record(args) => record(args, output)?,
        Benchmark::Dump(args) => dump(args, registry, output)?,
        Benchmark::Read(args) => read(args, output)?,
        Benchmark::Serve(args) => serve(args, output)?,
        Benchmark::Diff(args) => diff(args, output)?,
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
    let DumpArgs { bytes, pairs, tasks, dir, platform, write, files } = args;
    let config = DumpBenchConfig {
        bytes: *bytes,
        pairs: *pairs,
        tasks: *tasks,
        dir: dir.clone(),
        platform: platform.clone(),
        write: *write,
        files: files.clone(),
        registry,
    };
    let total = config.payload_bytes();
    let tables_begun = RefCell::new(0);
    // The headings of a table precede its first row.
    let headed = |table: u32, head: &dyn Fn() -> String, row: String| {
        if tables_begun.replace(table) == table { row } else { head() + &row }
    };
    let watcher = Watcher::new(output, CLOSING_GRACE, |part| match part {
        DumpBenchPart::Machine(machine, load, free) => tables::dump_head(&machine, load, dir, free),
        DumpBenchPart::Throughput(row) => {
            headed(1, &|| tables::throughput_head(total, *pairs), tables::throughput(&row))
        }
        DumpBenchPart::Overhead(row) => headed(2, &|| tables::overhead_head(*pairs), tables::overhead(&row)),
        DumpBenchPart::SmallTensors(row) => {
            headed(3, &|| tables::small_head(*tasks, *pairs), tables::small(&row))
        }
    })?;
    let report = watcher.outcome(tensortap_bench::dump(&config, &watcher))?;
    watcher.print(&tables::foot(&report.notes, report.load_average_after))?;
    watcher.finish(&report)
}

fn read(args: &ReadArgs, output: Output) -> anyhow::Result<()> {
    let ReadArgs { records, bytes, pairs, dir } = args;
    let program = std::env::current_exe().context("cannot find this executable")?;
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
    let program = std::env::current_exe().context("cannot find this executable")?;
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
            "{python} has no numpy, so the comparison with numpy is left out; choose another interpreter with --python"
        ));
        String::new()
    })?;
    let report = watcher.outcome(tensortap_bench::diff(&config, &watcher))?;
    watcher.print(&tables::diff_text(&report))?;
    watcher.finish(&report)
}

/// Prints each part of a report as soon as it is measured, shows progress, and checks for signals.
struct Watcher<F> {
    output: Output,
    interrupt: Interrupt,
    steps: StepProgress,
    text: F,
    /// Why a part could not be printed. This ends the measurement.
    print_error: RefCell<Option<anyhow::Error>>,
}

impl<F> Watcher<F> {
    fn new<P>(output: Output, grace: Duration, text: F) -> anyhow::Result<Watcher<F>>
    where
        F: Fn(P) -> String,
    {
        let interrupt = Interrupt::install(grace).context("cannot handle signals")?;
        let steps = StepProgress::new(output, 0);
        Ok(Watcher { output, interrupt, steps, text, print_error: RefCell::new(None) })
    }

    /// Prints text, unless the result is a JSON document.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.output.json { Ok(()) } else { self.steps.around(|| self.output.text(text)) }
    }

    /// The result of the measurement, or the error of printing it.
    fn outcome<T>(&self, outcome: Result<T, BenchError>) -> anyhow::Result<T> {
        match self.print_error.take() {
            Some(error) => Err(error),
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
            self.print_error.borrow_mut().get_or_insert(error);
        }
    }

    fn goes_on(&self) -> bool {
        !self.interrupt.requested() && self.print_error.borrow().is_none()
    }
}

/// Adds the options of this command line to an error.
fn explain(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Run(error) => error.into(),
        BenchError::Failed(failure) => (*failure).into(),
        BenchError::Interrupted => Interruption.into(),
        BenchError::TooManyTasks { tasks, limit } => UsageError {
            message: format!("--tasks {tasks} is too many: a task array takes at most {limit}"),
            hint: "choose --runtime tensormap_and_ringbuffer, which has no such limit".into(),
        }
        .into(),
        BenchError::NoRoom { needed, free, headroom, dir } => UsageError {
            message: format!(
                "not enough disk space: {} needed, but {} has {} free",
                bytes(needed),
                dir.display(),
                bytes(free)
            ),
            hint: match headroom {
                0 => "choose fewer --records or --bytes, or a --dir on another disk".into(),
                _ => {
                    let most = bytes(free.saturating_sub(headroom));
                    format!("choose --bytes of at most {most}, or a --dir on another disk")
                }
            },
        }
        .into(),
        other => other.into(),
    }
}
