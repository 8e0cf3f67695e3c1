//! `tensortap bench`: measures itself.

mod diff;
mod dispatch;
mod dump;
mod machine;
mod read;
mod spread;
mod words;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::output::Output;

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
    Dispatch(dispatch::DispatchArgs),
    /// What recording costs: against a plain write, against no dump, and per small record
    Dump(dump::DumpArgs),
    /// What reading costs: listing many records, statistics against plain reads, export against a copy
    Read(read::ReadArgs),
    /// Comparing a tensor with its golden: against numpy, and against reading the memory
    Diff(diff::DiffArgs),
}

/// Measures what was asked for.
pub fn run(args: &BenchArgs, output: Output) -> anyhow::Result<Exit> {
    match &args.what {
        What::Dispatch(args) => dispatch::run(args, output),
        What::Dump(args) => dump::run(args, output),
        What::Read(args) => read::run(args, output),
        What::Diff(args) => diff::run(args, output),
    }
}
