//! `tensortap run`: one scene, from launch to verdict.

mod args;
mod document;
mod notes;
mod summary;

use anyhow::Context;
use tensortap::{Golden, Request, RunConfig, RunReport};

pub use args::RunArgs;
use document::RunDocument;

use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::TaskProgress;

/// Runs the scene and tells what came of it.
pub fn run(args: &RunArgs, output: Output) -> anyhow::Result<Exit> {
    let config = args.config();
    let request = tensortap::resolve(&config)?;
    notes::of(args, &request).iter().for_each(|note| output.note(note));
    match observed(&config, output)? {
        Ok(report) => {
            tell(&report, &request, output)?;
            report.failure.map_or(Ok(verdict(report.golden)), |failure| Err(failure.into()))
        }
        Err(error) => {
            if output.json && !error.is_usage() {
                output.document(&RunDocument::not_started(&request, &config, &error))?;
            }
            Err(error.into())
        }
    }
}

/// The outer error is the command line's own, the inner one that of a run that did not begin.
fn observed(config: &RunConfig, output: Output) -> anyhow::Result<Result<RunReport, tensortap::Error>> {
    let interrupt = Interrupt::install().context("taking over Ctrl-C")?;
    let mut progress = TaskProgress::new(output);
    let outcome = tensortap::run_observed(config, &mut |now| {
        progress.show(now);
        !interrupt.requested()
    });
    progress.clear();
    Ok(outcome)
}

fn tell(report: &RunReport, request: &Request, output: Output) -> anyhow::Result<()> {
    if output.json {
        output.document(&RunDocument::of(report))
    } else {
        output.text(&summary::of(report, &request.scene.args(&request.params)))
    }
}

fn verdict(golden: Golden) -> Exit {
    match golden {
        Golden::Fail => Exit::Difference,
        Golden::Pass | Golden::None => Exit::Good,
    }
}
