//! Texts for trials: the verdict, what is wrong, and at which task the error began.

use tensortap::analysis::labels::Label;
use tensortap::suite::{Culprit, Explanation, TrialReference, TrialReport};
use tensortap::{Error, GoldenVerdict, OutputVerdict, RunReport};

use crate::number::{counted, grouped};
use crate::words::{named_task, short_task};

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    /// It passed.
    Pass,
    /// It finished, but its golden found a difference.
    Fail,
    /// It did not finish.
    Error,
    /// The suite ended before it ran.
    Skipped,
}

impl TrialVerdict {
    /// The verdict of a trial.
    #[must_use]
    pub fn of(report: &TrialReport) -> TrialVerdict {
        match &report.outcome {
            _ if report.passed() => TrialVerdict::Pass,
            _ if report.skipped => TrialVerdict::Skipped,
            Ok(_) => TrialVerdict::Fail,
            Err(_) => TrialVerdict::Error,
        }
    }

    /// The name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TrialVerdict::Pass => "pass",
            TrialVerdict::Fail => "fail",
            TrialVerdict::Error => "error",
            TrialVerdict::Skipped => "skipped",
        }
    }
}

/// The note for a pass without a golden.
pub const RAN_ONLY: &str = "no golden: ran only";

/// What is wrong with a trial; `None` if it passed.
#[must_use]
pub fn what_is_wrong(report: &TrialReport) -> Option<String> {
    match (TrialVerdict::of(report), &report.outcome) {
        (TrialVerdict::Pass, _) => None,
        (TrialVerdict::Skipped, _) => Some("interrupted before it finished".into()),
        (_, Ok(run)) => Some(wrong_outputs(run)),
        (_, Err(error)) => Some(error.to_string()),
    }
}

fn wrong_outputs(run: &RunReport) -> String {
    let wrong: Vec<String> = run.outputs.iter().filter(|output| !output.passed()).map(wrong_output).collect();
    match (wrong.is_empty(), run.golden) {
        (true, GoldenVerdict::Fail) => "the golden has nothing to compare".into(),
        _ => wrong.join("; "),
    }
}

/// `y: 12 of 4,096 elements wrong`.
fn wrong_output(output: &OutputVerdict) -> String {
    match output.metrics() {
        Some(metrics) => {
            let all = counted(metrics.elements, "element");
            format!("{}: {} of {all} wrong", output.name, grouped(metrics.failing))
        }
        None => {
            let why = output.outcome.reason().map_or(String::new(), |reason| format!(": {reason}"));
            format!("{} could not be compared{why}", output.name)
        }
    }
}

/// Where a trial went wrong, as far as known. `None` if it was not analyzed, or if the failure message
/// already says it.
#[must_use]
pub fn where_it_began(report: &TrialReport) -> Option<String> {
    let found = report.explanation.as_ref()?;
    if let Some(problem) = &found.problem {
        return Some(format!("not determined: {problem}"));
    }
    if found.passed_again {
        return Some("it passed when it was run again with a dump: the failure depends on timing".into());
    }
    if let Some(first) = found.culprits.first() {
        return Some(first_culprit(found, first));
    }
    if matches!(report.outcome, Err(Error::Failed(_))) {
        return None;
    }
    if let Some(task) = &found.outside {
        let words = named_task(task.scope.as_deref(), task.task_name.as_deref(), &task.kernels);
        return Some(format!(
            "not determined: content of task {} ({words}) is outside its rule, but no task can be named as the cause",
            short_task(task.task_id)
        ));
    }
    Some(match (found.orchestration, found.unknown) {
        (true, _) => "every kernel matches its reference: suspect the orchestration".into(),
        (false, 0) => "every task matches its reference within the tolerance of its kernel".into(),
        (false, unknown) => format!(
            "not determined: {} could not be judged; kernels without a reference need a golden dump",
            counted(unknown as u64, "task")
        ),
    })
}

/// `task 0x3 (layer 1 / sum: add) is wrong here, and 5 more`.
fn first_culprit(found: &Explanation, first: &Culprit) -> String {
    let task = &first.task;
    let words = named_task(task.scope.as_deref(), task.task_name.as_deref(), &task.kernels);
    let label = match first.label {
        Label::WrongHere => "is wrong here",
        Label::Raced => "raced",
        Label::Fed => "was fed a wrong input",
        other => other.name(),
    };
    let more = match found.culprit_count {
        0 | 1 => String::new(),
        all => format!(", and {} more", grouped(all as u64 - 1)),
    };
    let by = match &found.against {
        TrialReference::Dump(_) => ", compared with the same case where it passed",
        TrialReference::Reference | TrialReference::Nothing => "",
    };
    format!("task {} ({words}) {label}{more}{by}", short_task(task.task_id))
}
