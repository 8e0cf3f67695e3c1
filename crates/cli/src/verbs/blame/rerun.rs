//! `blame --rerun`: tasks run again, to be held against what was captured of them.

use anyhow::Context;
use tensortap::analysis::blame::{BlameOptions, Rerun};
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap::{GivenReport, LaunchDevice, ReplayConfig};

use super::BlameArgs;
use crate::error::Interrupted;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::verbs::name_crashes;

/// Runs every task again; the kernels that came from libraries are told with it.
pub(super) fn run(
    args: &BlameArgs,
    registry: &Registry,
    dump: &Dump,
    options: &BlameOptions<'_>,
    output: Output,
) -> anyhow::Result<(Rerun, Vec<GivenReport>)> {
    let mut config = ReplayConfig::new(dump.dir(), registry.clone());
    config.kernels = args.kernels.code();
    config.block_num = args.kernels.block_num;
    config.allow_inexact = args.allow_inexact;
    config.launch_device = match &args.device {
        Some(name) => LaunchDevice::Named(name.clone()),
        None if args.reference => LaunchDevice::Other,
        None => LaunchDevice::Captured,
    };
    config.scene_folder.clone_from(&args.scene);
    config.jobs = Some(args.jobs.get());
    name_crashes(config.device_mode)?;
    let interrupt = Interrupt::install(GRACE).context("taking over signals")?;
    let progress = StepProgress::new(output, 0);
    progress.begin("tasks run again".into());
    let (rerun, report) = tensortap::rerun(dump, &config, options, &mut |now| {
        progress.reach(now.finished, now.tasks);
        !interrupt.requested()
    })?;
    if report.interrupted {
        return Err(Interrupted.into());
    }
    drop(progress);
    report.notes.iter().for_each(|note| output.note(note));
    if args.reference && !report.replayed_on.is_empty() && report.replayed_on == report.captured_on {
        let device = report.replayed_on.join(", ");
        output.note(format!(
            "{device} is the device it was captured on: that it makes the same again does not say that it is right"
        ));
    }
    Ok((rerun, report.given))
}
