//! What `test --json` prints.

use serde::Serialize;
use tensortap::TaskId;
use tensortap::suite::{Culprit, TrialReference, TrialReport};

use crate::suite::{TrialVerdict, what_is_wrong, where_it_began};

/// The document of a suite.
#[derive(Serialize)]
pub struct SuiteDocument {
    verdict: &'static str,
    /// Trials by verdict.
    pass: usize,
    fail: usize,
    error: usize,
    skipped: usize,
    wall_s: f64,
    trials: Vec<TrialDocument>,
}

#[derive(Serialize)]
struct TrialDocument {
    scene: &'static str,
    case: String,
    params: Vec<String>,
    platform: &'static str,
    runtime: &'static str,
    verdict: &'static str,
    /// Verdict of its golden; `none` without a golden, null if it did not finish.
    golden: Option<&'static str>,
    wall_s: f64,
    tasks: Option<u64>,
    message: Option<String>,
    began: Option<String>,
    held_against: Option<String>,
    culprits: Vec<CulpritDocument>,
    culprit_count: usize,
    passed_again: bool,
    dump: Option<String>,
}

#[derive(Serialize)]
struct CulpritDocument {
    task_id: String,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
    label: &'static str,
}

impl SuiteDocument {
    /// The document of all trials. `wall_s` is the total time.
    #[must_use]
    pub fn of(reports: &[TrialReport], wall_s: f64) -> SuiteDocument {
        let count = |verdict| reports.iter().filter(|report| TrialVerdict::of(report) == verdict).count();
        let (fail, error, skipped) =
            (count(TrialVerdict::Fail), count(TrialVerdict::Error), count(TrialVerdict::Skipped));
        SuiteDocument {
            verdict: if fail + error + skipped == 0 { "pass" } else { "fail" },
            pass: count(TrialVerdict::Pass),
            fail,
            error,
            skipped,
            wall_s,
            trials: reports.iter().map(TrialDocument::of).collect(),
        }
    }
}

impl TrialDocument {
    fn of(report: &TrialReport) -> TrialDocument {
        let (trial, found) = (&report.trial, report.explanation.as_ref());
        let recorded = report.run().and_then(|run| run.dump.as_ref()).map(|dump| &dump.dir);
        let dump = found.and_then(|found| found.dump.as_ref()).or(recorded);
        TrialDocument {
            scene: trial.scene.name(),
            case: trial.case.name.clone(),
            params: trial.case.params.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            platform: trial.platform,
            runtime: trial.runtime,
            verdict: TrialVerdict::of(report).name(),
            golden: report.outcome.as_ref().ok().map(|run| run.golden.name()),
            wall_s: report.wall.as_secs_f64(),
            tasks: report.run().map(|run| run.tasks),
            message: what_is_wrong(report),
            began: where_it_began(report),
            held_against: found.and_then(|found| match &found.against {
                TrialReference::Nothing => None,
                TrialReference::Reference => Some("reference".into()),
                TrialReference::Dump(golden) => Some(golden.display().to_string()),
            }),
            culprits: found
                .map(|found| found.culprits.iter().map(CulpritDocument::of).collect())
                .unwrap_or_default(),
            culprit_count: found.map_or(0, |found| found.culprit_count),
            passed_again: found.is_some_and(|found| found.passed_again),
            dump: dump.map(|dir| dir.display().to_string()),
        }
    }
}

impl CulpritDocument {
    fn of(culprit: &Culprit) -> CulpritDocument {
        let task = &culprit.task;
        CulpritDocument {
            task_id: TaskId(task.task_id).to_string(),
            scope: task.scope.clone(),
            task_name: task.task_name.clone(),
            kernels: task.kernels.clone(),
            label: culprit.label.name(),
        }
    }
}
