//! `tensortap replay`: captured tasks, run again.

mod args;
mod debugger;
mod text;

use anyhow::Context;
use tensortap::scene::Registry;
use tensortap::{ReplayConfig, ReplayReport};

pub use args::ReplayArgs;

use tensortap_query::document::ReplayDocument;

use crate::error::Interrupted;
use crate::exit::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::verbs::name_crashes;

/// Replays what was selected and tells what came of it.
pub fn run(args: &ReplayArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let config = args.config(registry)?;
    if let Some(program) = &args.debugger {
        return debugger::run(program, args, &config);
    }
    name_crashes(config.device_mode)?;
    let report = observed(&config, output)?;
    report.notes.iter().for_each(|note| output.note(note));
    if output.json {
        output.document(&ReplayDocument::of(&report))?;
    } else {
        output.text(&text::of(&report))?;
    }
    if report.interrupted {
        return Err(Interrupted.into());
    }
    Ok(if report.passed() || report.nothing_compared() { Exit::Good } else { Exit::Difference })
}

fn observed(config: &ReplayConfig, output: Output) -> anyhow::Result<ReplayReport> {
    let interrupt = Interrupt::install(GRACE).context("taking over Ctrl-C")?;
    let progress = StepProgress::new(output, 0);
    progress.begin("tasks replayed".into());
    let report = tensortap::replay_observed(config, &mut |now| {
        progress.reach(now.finished, now.tasks);
        !interrupt.requested()
    });
    drop(progress);
    Ok(report?)
}
