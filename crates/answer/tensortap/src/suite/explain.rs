//! Explains why a trial failed: runs it again with a dump, and runs `blame` on the dump.

use std::fs;
use std::path::{Path, PathBuf};

use tensortap_abi::DumpLevel;
use tensortap_analysis::AnalysisError;
use tensortap_analysis::blame::{Baseline, Blame, BlameOptions, FailureReason, VerdictOptions};
use tensortap_analysis::compare::with_kernels_of;
use tensortap_analysis::labels::Label;
use tensortap_format::Dump;
use tensortap_judge::RuleBook;
use tensortap_scene::Scene;

use super::{SuiteConfig, TrialReport};
use crate::{DumpConfig, DumpReport, Error, GoldenVerdict, RunConfig, RunReport, WrongTask, run_observed};

/// Maximum number of listed culprits.
const NAMED: usize = 8;

/// What the dump of a failed trial shows.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Folder of the dump; `None` if the trial could not be recorded.
    pub dump: Option<PathBuf>,
    /// Whether the trial passed when it was repeated. The failure then depends on timing or on the
    /// recording.
    pub passed_again: bool,
    /// What its tasks were compared with.
    pub against: TrialReference,
    /// Tasks at which the error started, earliest first, at most eight.
    pub culprits: Vec<Culprit>,
    /// Number of such tasks.
    pub culprit_count: usize,
    /// Whether every kernel is right by its reference although the outputs are wrong.
    pub orchestration: bool,
    /// The first task with a record outside its rule.
    pub outside: Option<WrongTask>,
    /// Number of tasks that could not be judged.
    pub unknown: usize,
    /// Why nothing, or not more, is known.
    pub problem: Option<String>,
}

/// What tasks were compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrialReference {
    /// Nothing.
    #[default]
    Nothing,
    /// The references of their kernels.
    Reference,
    /// The dump of the same case on a platform or runtime where it passed.
    Dump(PathBuf),
}

/// A task at which an error started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The task.
    pub task: WrongTask,
    /// Its label.
    pub label: Label,
}

/// Examines a failed trial. Returns `None` if the trial did not start.
pub fn explain(report: &TrialReport, config: &RunConfig, go_on: &dyn Fn() -> bool) -> Option<Explanation> {
    let run = report.run()?;
    if let Some(dump) = run.dump.as_ref().filter(|dump| dump.level == DumpLevel::Full) {
        return Some(of_dump(run, &dump.dir, report.trial.scene));
    }
    Some(again(report.trial.scene, config, go_on))
}

/// Runs it again and records everything.
fn again(scene: &'static dyn Scene, config: &RunConfig, go_on: &dyn Fn() -> bool) -> Explanation {
    let mut config = config.clone();
    if config.dump.take().is_some() {
        // A folder that already has a dump of a different level.
        config.out = config.out.map(|out| out.with_extension("full"));
    }
    let mut dump = DumpConfig::new(DumpLevel::Full);
    dump.dump_args = true;
    config.dump = Some(dump);
    match run_observed(&config, &mut |_| go_on()).or_else(Error::into_report) {
        Err(error) => Explanation { problem: Some(error.to_string()), ..Explanation::default() },
        Ok(run) if run.failure.is_none() && run.golden != GoldenVerdict::Fail => {
            // The dump explains nothing, and the next failure may need the space.
            run.dump.iter().for_each(|dump| drop(fs::remove_dir_all(&dump.dir)));
            Explanation { passed_again: true, ..Explanation::default() }
        }
        Ok(run) => match &run.dump {
            Some(dump) => of_dump(&run, &dump.dir, scene),
            None => Explanation::default(),
        },
    }
}

/// What a dump shows about the failed run.
fn of_dump(run: &RunReport, dir: &Path, scene: &'static dyn Scene) -> Explanation {
    let explanation = Explanation { dump: Some(dir.to_owned()), ..Explanation::default() };
    if run.failure.is_some() {
        // The failure itself names task and kernel.
        return explanation;
    }
    match blamed(dir, scene, &TrialReference::Reference) {
        Ok(found) => Explanation { dump: explanation.dump, ..found },
        Err(error) => Explanation { problem: Some(error.to_string()), ..explanation },
    }
}

/// If references find no culprit, a dump of the same case that passed elsewhere is the golden.
pub fn compare_with_others(config: &SuiteConfig, reports: &mut [TrialReport], go_on: &dyn Fn() -> bool) {
    let mut goldens: Vec<(usize, Result<PathBuf, Error>)> = Vec::new();
    for place in 0..reports.len() {
        let failed = &reports[place];
        let unexplained =
            failed.explanation.as_ref().filter(|found| found.culprits.is_empty() && !found.orchestration);
        let Some(dir) = unexplained.and_then(|found| found.dump.clone()) else { continue };
        let is_other = |other: &TrialReport| {
            let of_scene = other.trial.scene.name() == failed.trial.scene.name();
            of_scene && other.trial.case == failed.trial.case && other.passed()
        };
        let ended_well = failed.run().is_some_and(|run| run.failure.is_none());
        let Some(other) = reports.iter().position(is_other).filter(|_| ended_well && go_on()) else {
            continue;
        };
        if !goldens.iter().any(|(known, _)| *known == other) {
            goldens.push((other, recorded(config, &reports[other], go_on)));
        }
        let golden = goldens.iter().find(|(known, _)| *known == other).map(|(_, golden)| golden);
        let Some(Ok(golden)) = golden else { continue };
        let against = TrialReference::Dump(golden.clone());
        if let Ok(found) =
            blamed(&dir, failed.trial.scene, &against).map(|found| Explanation { dump: Some(dir), ..found })
        {
            reports[place].explanation = Some(found);
        }
    }
}

/// The dump of a passed trial: its own, or one of a repeated run.
fn recorded(config: &SuiteConfig, report: &TrialReport, go_on: &dyn Fn() -> bool) -> Result<PathBuf, Error> {
    let is_full = |dump: &&DumpReport| dump.level == DumpLevel::Full;
    if let Some(dump) = report.run().and_then(|run| run.dump.as_ref()).filter(is_full) {
        return Ok(dump.dir.clone());
    }
    let mut again = report.trial.run_config(config);
    again.dump = Some(DumpConfig::new(DumpLevel::Full));
    again.out = again.out.map(|out| out.with_extension("passed"));
    let run = run_observed(&again, &mut |_| go_on())?;
    Ok(run.dump.map(|dump| dump.dir).unwrap_or_default())
}

fn blamed(
    dir: &Path,
    scene: &'static dyn Scene,
    held: &TrialReference,
) -> Result<Explanation, AnalysisError> {
    let dump = Dump::open(dir)?;
    let golden = match held {
        TrialReference::Dump(golden) => Some(Dump::open(golden)?),
        TrialReference::Reference | TrialReference::Nothing => None,
    };
    let against = golden.as_ref().map_or(Baseline::Reference(scene), Baseline::Golden);
    let options = BlameOptions {
        rules: with_kernels_of(RuleBook::default(), dump.info()),
        scene: Some(scene),
        ..BlameOptions::default()
    };
    let blame = Blame::of(&dump, &against, &options)?;
    let verdict = blame.verdict(VerdictOptions::default());
    Ok(Explanation {
        against: held.clone(),
        culprits: blame.first_wrong.iter().take(NAMED).map(|&place| culprit(&blame, place)).collect(),
        culprit_count: blame.first_wrong.len(),
        orchestration: verdict.failure == Some(FailureReason::Orchestration),
        outside: verdict.first_outside.map(|(place, _)| wrong_task(&blame, place)),
        unknown: verdict.of - verdict.judged,
        ..Explanation::default()
    })
}

fn culprit(blame: &Blame, place: usize) -> Culprit {
    Culprit { task: wrong_task(blame, place), label: blame.findings[place].label }
}

fn wrong_task(blame: &Blame, place: usize) -> WrongTask {
    let task = blame.graph.task(place);
    WrongTask {
        task_id: task.task_id,
        kernels: blame.wrong_kernels(place),
        scope: task.scope().map(str::to_owned),
        task_name: task.task_name().map(str::to_owned),
    }
}
