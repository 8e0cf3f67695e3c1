//! `blame --rerun`: runs the captured tasks again, to compare their outputs with the captured ones.

use anyhow::Context;
use tensortap::analysis::blame::{BlameOptions, Rerun};
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap::{LaunchDevice, LibraryKernel, ReplayConfig};

use super::BlameArgs;
use crate::error::Interruption;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::progress::StepProgress;
use crate::verbs::report_thread_crashes;

/// Runs every task again. Also returns the kernels that were taken from libraries.
pub(super) fn run(
    args: &BlameArgs,
    registry: &Registry,
    dump: &Dump,
    options: &BlameOptions<'_>,
    output: Output,
) -> anyhow::Result<(Rerun, Vec<LibraryKernel>)> {
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
    report_thread_crashes(config.device_mode)?;
    let interrupt = Interrupt::install(GRACE).context("cannot handle signals")?;
    let progress = StepProgress::new(output, 0);
    progress.begin("tasks rerun".into());
    let (rerun, report) = tensortap::rerun(dump, &config, options, &mut |now| {
        progress.at(now.finished, now.tasks);
        !interrupt.requested()
    })?;
    if report.interrupted {
        return Err(Interruption.into());
    }
    drop(progress);
    report.notes.iter().for_each(|note| output.note(note));
    if args.reference && !report.replayed_on.is_empty() && report.replayed_on == report.captured_on {
        let device = report.replayed_on.join(", ");
        output.note(format!(
            "{device} is also the device of the capture: equal outputs do not prove that they are right"
        ));
    }
    Ok((rerun, report.library_kernels))
}
