//! `tensortap run`: one scene, from launch to verdict.

mod args;
mod dump_args;
mod dump_summary;
mod live_args;
mod notes;
mod summary;

use anyhow::Context;
use tensortap::scene::Registry;
use tensortap::{DumpReport, Golden, RunConfig, RunReport};

pub use args::RunArgs;
use tensortap_query::document::RunDocument;

use crate::exit::Exit;
use crate::interrupt::{CLOSING_GRACE, GRACE, Interrupt};
use crate::output::{self, Output};
use crate::progress::TaskProgress;
use crate::verbs::name_crashes;

/// Runs the scene and tells what came of it.
pub fn run(args: &RunArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let config = args.config(registry)?;
    let request = tensortap::resolve(&config)?;
    notes::of(args, &request).iter().for_each(|note| output.note(note));
    name_crashes(config.device_mode)?;
    match observed(&config, output)? {
        Ok(report) => {
            tell(&report, &args.again_with_dump(), output)?;
            let incomplete = report.dump.as_ref().is_some_and(complain);
            let live = report.dump.as_ref().and_then(|dump| dump.live.as_ref());
            let differs = live.is_some_and(|live| !live.agrees());
            match report.failure {
                // It ended because it was asked to, at what it was asked to find.
                Some(failure) if failure.interrupted && live.is_some_and(|live| live.stopped) => {
                    Ok(Exit::Difference)
                }
                Some(failure) => Err(failure.into()),
                None if incomplete => Ok(Exit::Failed),
                None if differs => Ok(Exit::Difference),
                None => Ok(verdict(report.golden)),
            }
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
    let grace = if config.dump.is_some() { CLOSING_GRACE } else { GRACE };
    let interrupt = Interrupt::install(grace).context("taking over Ctrl-C")?;
    let mut progress = TaskProgress::new(output);
    let outcome = tensortap::run_observed(config, &mut |now| {
        progress.show(now);
        !interrupt.requested()
    });
    progress.clear();
    Ok(outcome)
}

/// `again` is the command that repeats the run with a dump.
fn tell(report: &RunReport, again: &str, output: Output) -> anyhow::Result<()> {
    if output.json {
        output.document(&RunDocument::of(report))
    } else {
        output.text(&summary::of(report, again))
    }
}

/// Says what is wrong with a dump; true when it could not be written to its end.
fn complain(dump: &DumpReport) -> bool {
    if let Some(losses) = dump_summary::losses(dump) {
        output::warning(&format!("the dump is not complete: {losses}"));
    }
    if let Some(problem) = &dump.problem {
        let hint = format!("what was captured before is in {} and can be read", dump.dir.display());
        output::error(&format!("the dump failed: {problem}"), Some(&hint));
    }
    dump.problem.is_some()
}

fn verdict(golden: Golden) -> Exit {
    match golden {
        Golden::Fail => Exit::Difference,
        Golden::Pass | Golden::None => Exit::Good,
    }
}
