//! Finds captured outputs that kernels do not reproduce.

use std::collections::{HashMap, HashSet};

use tensortap_abi::Operation;
use tensortap_analysis::blame::{BlameOptions, Rerun, RerunOutcome};
use tensortap_format::{Dump, TaskKey};
use tensortap_replay::{
    Outcome, ReplayConfig, ReplayProgress, ReplayReport, Selection, TaskReport, why_no_launch,
};

use crate::Error;
use crate::replay::replay_outputs;

/// Replays every task of a dump separately with its captured inputs, for
/// [`Baseline::Rerun`](tensortap_analysis::blame::Baseline::Rerun). Uses the kernels of its scene or those
/// that `config` names. `observe` is called regularly and cancels the rerun by returning false.
///
/// ```
/// use tensortap::analysis::blame::{Baseline, Blame, BlameOptions};
/// use tensortap::format::Dump;
/// use tensortap::{DeviceMode, DumpConfig, DumpLevel, ReplayConfig, RunConfig, scene::FaultKind};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("vector_example");
/// config.device_mode = DeviceMode::Thread;
/// config.dump = Some(DumpConfig::new(DumpLevel::Full));
/// config.inject_fault = Some(("mul".into(), FaultKind::Sign));
/// config.out = Some(folder.path().join("dump"));
/// tensortap::run(&config)?;
///
/// let mut config = ReplayConfig::new(folder.path().join("dump"), tensortap::builtin());
/// (config.device_mode, config.trust) = (DeviceMode::Thread, true);
/// let (dump, options) = (Dump::open(&config.source)?, BlameOptions::default());
/// let (rerun, _) = tensortap::rerun(&dump, &config, &options, &mut |_| true)?;
/// let blame = Blame::of(&dump, &Baseline::Rerun(&rerun), &options)?;
/// let wrong: Vec<u64> = blame.first_wrong.iter().map(|&place| blame.graph.task(place).task_id).collect();
/// assert_eq!(wrong, [0x1_0000_0002]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the dump cannot be read, its kernels are not known, or there is no device.
pub fn rerun(
    dump: &Dump,
    config: &ReplayConfig,
    options: &BlameOptions<'_>,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
) -> Result<(Rerun, ReplayReport), Error> {
    let config = ReplayConfig { select: Selection::All, steps: options.steps.clone(), ..config.clone() };
    let mut report = None;
    let rerun = Rerun::of(dump, options, |rerunning| {
        let on_output =
            |task: TaskKey, arg_index: u16, content: &[u8]| rerunning.output(task, arg_index, content);
        let replayed = report.insert(replay_outputs(&config, observe, &on_output)?);
        let is_program = dump.info().is_of_program() && !dump.has_programs();
        let is_given = dump.format().is_foreign() || is_program;
        let mut outcomes = outcomes(replayed, is_given);
        if dump.has_programs() {
            // Copies and fills compute nothing that could be replayed, which is not an error.
            for task in dump.tasks()?.iter().filter(|task| task.operation != Operation::Kernel) {
                let Some(why) = why_no_launch(task).map(RerunOutcome::NoKernel) else { continue };
                outcomes.entry(task.key()).or_insert(why);
            }
        }
        Ok::<_, Error>(outcomes)
    })?;
    Ok((rerun, report.expect("the closure was called")))
}

/// The result for each task. With `is_given`, kernels are only known from `--kernel`.
fn outcomes(report: &ReplayReport, is_given: bool) -> HashMap<TaskKey, RerunOutcome> {
    let given: HashSet<&str> = report.library_kernels.iter().map(|given| given.name.as_str()).collect();
    let has_kernel = |task: &TaskReport| {
        let named = !task.kernels.is_empty() && task.kernels.iter().all(|name| given.contains(name.as_str()));
        !is_given || named
    };
    let outcome = |task: &TaskReport| match &task.outcome {
        Outcome::BitExact | Outcome::WithinRule | Outcome::Unchecked(_) => RerunOutcome::Ran,
        // The rules decide whether its outputs are right. Any other failure is the reason.
        Outcome::Failed(_) if task.outputs.iter().any(|output| output.different > 0) => RerunOutcome::Ran,
        Outcome::Failed(why) => RerunOutcome::Failed(why.clone()),
        Outcome::Refused(why) if !has_kernel(task) => RerunOutcome::NoKernel(why.clone()),
        Outcome::Refused(why) => RerunOutcome::Unknown(why.clone()),
    };
    let key = |task: &TaskReport| TaskKey { step: task.step, task_id: task.task_id };
    report.tasks.iter().map(|task| (key(task), outcome(task))).collect()
}
