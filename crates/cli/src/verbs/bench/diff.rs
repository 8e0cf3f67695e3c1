//! `bench diff`: how fast a tensor is compared with its golden, held against numpy and against reading the memory.

mod bandwidth;
mod data;
mod numpy;
mod table;

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use tensortap::abi::DType;
use tensortap::judge::{Comparison, Level, Rule, TensorType};

use data::Data;
use numpy::{Numpy, Session};

use super::machine::{Machine, load_average};
use super::spread::Spread;
use crate::error::Interrupted;
use crate::exit::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::size;

/// How many times as fast as numpy the quick set shall be, all threads together.
const TARGET_RATIO: f64 = 10.0;

const NOTES: [&str; 5] = [
    "quick: elements outside atol + rtol * |golden|, and the greatest error; full: every metric",
    "numpy: numpy.allclose(dump, golden) and numpy.max(numpy.abs(dump - golden)) on the same data, one thread",
    "ratio: numpy's time over ours of the same round; per core: the same divided by the threads",
    "of reading: bytes per second as a share of reading both tensors with as many threads",
    "every measurement begins with a round that does not count",
];

/// What `tensortap bench diff` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench diff\n  \
    tensortap bench diff --bytes 512MiB --repeat 9\n  \
    tensortap bench diff --python ~/venv/bin/python --json")]
pub struct DiffArgs {
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
    let bytes = size::parse(text)?;
    if (4..=1 << 36).contains(&bytes) { Ok(bytes) } else { Err("it must be from 4 bytes to 64GiB".into()) }
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    /// The vector instructions that were used.
    instructions: &'static str,
    bytes_per_side: u64,
    repeat: u32,
    load_average_before: Option<f64>,
    load_average_after: Option<f64>,
    /// `None` where the interpreter has no numpy.
    numpy: Option<Numpy>,
    cases: Vec<Case>,
    notes: [&'static str; 5],
}

/// One set of metrics with one number of threads.
#[derive(Serialize)]
struct Case {
    set: &'static str,
    threads: usize,
    seconds: Spread,
    /// Of both tensors together.
    bytes_per_s: Spread,
    read_bytes_per_s: Spread,
    share_of_reading: f64,
    numpy_ratio: Option<Spread>,
    numpy_ratio_per_core: Option<f64>,
    target_ratio: Option<f64>,
    met: Option<bool>,
}

/// Measures every case and prints it.
pub fn run(args: &DiffArgs, output: Output) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::install(GRACE).context("taking over Ctrl-C")?;
    let machine = Machine::read();
    let load_average_before = load_average();
    let data = Data::new(usize::try_from(args.bytes / 4).context("the size of a tensor in memory")?);
    let bench = Bench {
        threads: args.threads.map_or(machine.cpus, |threads| threads as usize),
        comparison: data.comparison()?,
        data,
        interrupt,
        steps: StepProgress::new(output, u64::from(args.repeat) + 1),
    };
    let session = Session::start(&args.python, &bench.data)?;
    if session.is_none() {
        output.note(format_args!(
            "{} has no numpy, so there is nothing to hold against it; --python names another",
            args.python
        ));
    }
    let (cases, numpy) = bench.measure(args.repeat, session)?;
    let document = Document {
        machine,
        instructions: Level::detect().name(),
        bytes_per_side: bench.data.bytes_per_side(),
        repeat: args.repeat,
        load_average_before,
        load_average_after: load_average(),
        numpy,
        cases,
        notes: NOTES,
    };
    drop(bench);
    if output.json {
        output.document(&document)?
    } else {
        output.text(&table::text(&document))?
    }
    Ok(Exit::Good)
}

struct Bench {
    threads: usize,
    comparison: Comparison,
    data: Data,
    interrupt: Interrupt,
    steps: StepProgress,
}

/// Seconds of every measurement in one round.
struct Round {
    /// In the order of [`Bench::plan`].
    cases: Vec<f64>,
    /// Reading, in the same order.
    reading: Vec<f64>,
    numpy: Option<f64>,
}

impl Bench {
    /// Sets and threads: all threads first.
    fn plan(&self) -> Vec<(&'static str, usize)> {
        let mut plan = vec![("quick", self.threads), ("full", self.threads)];
        if self.threads > 1 {
            plan.extend([("quick", 1), ("full", 1)]);
        }
        plan
    }

    fn measure(
        &self,
        repeat: u32,
        mut session: Option<Session>,
    ) -> anyhow::Result<(Vec<Case>, Option<Numpy>)> {
        let mut rounds = Vec::new();
        for number in 0..=repeat {
            if self.interrupt.requested() {
                return Err(Interrupted.into());
            }
            self.steps.begin(if number == 0 { "warm-up".into() } else { format!("round {number}") });
            let round = self.round(session.as_mut())?;
            self.steps.advance();
            if number > 0 {
                rounds.push(round);
            }
        }
        let cases = self
            .plan()
            .into_iter()
            .enumerate()
            .map(|(at, (set, threads))| self.case(at, set, threads, &rounds));
        let seconds = rounds.iter().filter_map(|round| round.numpy).collect::<Vec<_>>();
        let numpy = session.map(|session| session.finish(seconds, self.data.bytes()));
        Ok((cases.collect(), numpy))
    }

    /// Every measurement once, one right after the other, so that what drifts meets all alike.
    fn round(&self, session: Option<&mut Session>) -> anyhow::Result<Round> {
        let mut round = Round { cases: Vec::new(), reading: Vec::new(), numpy: None };
        for (set, threads) in self.plan() {
            round.cases.push(self.time_set(set, threads)?);
            round.reading.push(bandwidth::time_reading(&self.data.dump, &self.data.golden, threads));
        }
        if let Some(session) = session {
            let theirs = session.round()?;
            let ours = self.comparison.quick(&self.data.dump, &self.data.golden, self.threads)?;
            ensure!(
                theirs.agrees_with(&ours),
                "numpy says {theirs:?}, but the quick set says {ours:?}; one of them is wrong"
            );
            round.numpy = Some(theirs.seconds);
        }
        Ok(round)
    }

    fn time_set(&self, set: &str, threads: usize) -> anyhow::Result<f64> {
        let Data { dump, golden } = &self.data;
        let start = Instant::now();
        if set == "quick" {
            black_box(self.comparison.quick(dump, golden, threads)?);
        } else {
            black_box(self.comparison.full(dump, golden, threads)?);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn case(&self, at: usize, set: &'static str, threads: usize, rounds: &[Round]) -> Case {
        let bytes = self.data.bytes();
        let of = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value).collect());
        let ratios: Option<Vec<f64>> =
            rounds.iter().map(|round| Some(round.numpy? / round.cases[at])).collect();
        let numpy_ratio = ratios.map(Spread::of);
        let target_ratio = (at == 0).then_some(TARGET_RATIO);
        #[expect(clippy::cast_precision_loss, reason = "at most 1024")]
        let per_core = |ratio: Spread| ratio.median / threads as f64;
        Case {
            set,
            threads,
            seconds: of(&|round| round.cases[at]),
            bytes_per_s: of(&|round| bytes / round.cases[at]),
            read_bytes_per_s: of(&|round| bytes / round.reading[at]),
            share_of_reading: of(&|round| round.reading[at] / round.cases[at]).median,
            numpy_ratio,
            numpy_ratio_per_core: numpy_ratio.map(per_core),
            target_ratio,
            met: numpy_ratio.zip(target_ratio).map(|(ratio, target)| ratio.median >= target),
        }
    }
}

impl Data {
    fn comparison(&self) -> anyhow::Result<Comparison> {
        let tensor = TensorType::new(DType::Float32, &[self.bytes_per_side() / 4]);
        Ok(Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float32))?)
    }
}
