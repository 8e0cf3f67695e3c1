//! `bench dispatch`: how many empty tasks per second each runtime and platform can submit, schedule and finish, held
//! against a loop that calls the same kernels in this process.

mod cases;
mod measure;
mod rates;
mod table;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tensortap::abi::MAX_ARRAY_TASKS;

use cases::{Case, SHAPES};
use measure::{CallLoop, Measured};

use super::machine::Machine;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::verbs::{any_of, has_rings, platform_names, runtime_names};

const NOTES: [&str; 2] = [
    "ratio: tasks/s relative to a plain loop that calls the same kernels in this process",
    "host_build_graph: the host builds the graph before the clock starts; the others build it while it runs",
];

/// What `tensortap bench dispatch` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap bench dispatch\n  \
    tensortap bench dispatch --platform a2a3sim --runtime aicpu_build_graph --repeat 5\n  \
    tensortap bench dispatch --all                 with every block and several schedulers, too\n  \
    tensortap bench dispatch --schedulers 4 --json")]
pub struct DispatchArgs {
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

#[derive(Serialize)]
struct Document {
    machine: Machine,
    tasks: u64,
    repeat: u32,
    call_loop: Vec<CallLoop>,
    cases: Vec<Measured>,
    notes: [&'static str; 2],
}

/// Measures every case and prints each as it is done.
pub fn run(args: &DispatchArgs, output: Output) -> anyhow::Result<Exit> {
    args.check()?;
    let machine = Machine::read();
    let cases = cases::all(args, machine.cpus);
    for case in &cases {
        tensortap::resolve(&case.config(args.tasks))?;
    }
    let interrupt = Interrupt::install(GRACE).context("taking over Ctrl-C")?;
    let steps = StepProgress::new(output, (SHAPES.len() + cases.len()) as u64);
    let bench = Bench { args, output, interrupt, steps };
    bench.print(&table::head(&machine, args.tasks, args.repeat))?;
    let (call_loop, cases) = bench.measure(&cases)?;
    bench.print(&table::foot(&NOTES))?;
    if output.json {
        let &DispatchArgs { tasks, repeat, .. } = args;
        output.document(&Document { machine, tasks, repeat, call_loop, cases, notes: NOTES })?;
    }
    Ok(Exit::Good)
}

impl DispatchArgs {
    fn check(&self) -> Result<(), UsageError> {
        let arrays = self.runtime.as_deref().is_none_or(|runtime| !has_rings(runtime));
        if arrays && self.tasks > MAX_ARRAY_TASKS as u64 {
            return Err(UsageError {
                message: format!("--tasks {} is more than a task array holds: {MAX_ARRAY_TASKS}", self.tasks),
                hint: "use --runtime tensormap_and_ringbuffer, which has no such limit".into(),
            });
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 10^7")]
    fn tasks_f64(&self) -> f64 {
        self.tasks as f64
    }
}

/// A measurement under way.
struct Bench<'a> {
    args: &'a DispatchArgs,
    output: Output,
    interrupt: Interrupt,
    steps: StepProgress,
}

impl Bench<'_> {
    /// Text for people; the document says the same to machines.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.output.json { Ok(()) } else { self.steps.around(|| self.output.text(text)) }
    }

    /// The call loops first, then a table for each runtime.
    fn measure(&self, cases: &[Case]) -> anyhow::Result<(Vec<CallLoop>, Vec<Measured>)> {
        let (mut loops, mut measured) = (Vec::new(), Vec::new());
        self.print(&table::call_loop_head())?;
        for shape in SHAPES {
            self.steps.begin(format!("{shape}: call loop"));
            let call_loop = measure::call_loop(shape, self.args, &self.interrupt)?;
            self.print(&table::call_loop(&call_loop))?;
            self.steps.advance();
            loops.push(call_loop);
        }
        let mut runtime = None;
        for case in cases {
            if runtime.replace(&case.runtime) != Some(&case.runtime) {
                self.print(&table::runtime_head(&case.runtime))?;
            }
            self.steps.begin(case.describe());
            let call_loop = loops.iter().find(|call_loop| call_loop.shape == case.shape);
            let call_loop = call_loop.context("a call loop of every shape was measured")?;
            let row = measure::case(case, self.args, call_loop, &self.interrupt)?;
            self.print(&table::row(&row))?;
            self.steps.advance();
            measured.push(row);
        }
        Ok((loops, measured))
    }
}
