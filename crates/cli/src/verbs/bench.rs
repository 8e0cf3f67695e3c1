//! `tensortap bench`: measures itself.

mod dispatch;
mod machine;

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
}

/// Measures what was asked for.
pub fn run(args: &BenchArgs, output: Output) -> anyhow::Result<Exit> {
    match &args.what {
        What::Dispatch(args) => dispatch::run(args, output),
    }
}
