//! What came of trials, in words: whether each is right, what is wrong with it, and which task it began at.

use tensortap::analysis::labels::Label;
use tensortap::suite::{Culprit, Explanation, HeldAgainst, TrialReport};
use tensortap::{Error, GoldenVerdict, OutputVerdict, RunReport};

use crate::number::{counted, grouped};
use crate::words::{named_task, short_task};

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    /// Right.
    Pass,
    /// It ran to its end, and its golden found a difference.
    Fail,
    /// It did not run to its end.
    Error,
    /// The suite ended before it.
    Skipped,
}

impl TrialVerdict {
    /// That of a trial.
    #[must_use]
    pub fn of(report: &TrialReport) -> TrialVerdict {
        match &report.outcome {
            _ if report.passed() => TrialVerdict::Pass,
            _ if report.skipped => TrialVerdict::Skipped,
            Ok(_) => TrialVerdict::Fail,
            Err(_) => TrialVerdict::Error,
        }
    }

    /// As in documents.
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

/// What a pass rests on where there is nothing to compare with.
pub const RAN_ONLY: &str = "no golden: ran only";

/// What is wrong with a trial; `None` when nothing is.
#[must_use]
pub fn what_is_wrong(report: &TrialReport) -> Option<String> {
    match (TrialVerdict::of(report), &report.outcome) {
        (TrialVerdict::Pass, _) => None,
        (TrialVerdict::Skipped, _) => Some("interrupted before it had ended".into()),
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

/// Where a trial went wrong, as far as it was found out; `None` when it was not looked into, or a run that ended early says it
/// itself.
#[must_use]
pub fn where_it_began(report: &TrialReport) -> Option<String> {
    let found = report.explanation.as_ref()?;
    if let Some(problem) = &found.problem {
        return Some(format!("not found out: {problem}"));
    }
    if found.passed_again {
        return Some("it passed when it was run again with a dump: what is wrong depends on time".into());
    }
    if let Some(first) = found.culprits.first() {
        return Some(first_culprit(found, first));
    }
    if matches!(report.outcome, Err(Error::Failed(_))) {
        return None;
    }
    Some(match (found.orchestration, found.unknown) {
        (true, _) => "every kernel is right by its reference: the orchestration is suspected".into(),
        (false, 0) => "no task is wrong by its reference, within the tolerances of the kernels".into(),
        (false, unknown) => format!(
            "not found out: {} could not be judged; kernels without a reference need a golden dump",
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
        HeldAgainst::Dump(_) => ", held against the same case where it passed",
        HeldAgainst::Reference | HeldAgainst::Nothing => "",
    };
    format!("task {} ({words}) {label}{more}{by}", short_task(task.task_id))
}
