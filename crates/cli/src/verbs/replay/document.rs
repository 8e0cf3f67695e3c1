//! A replay for machines.

use std::time::Duration;

use serde_json::{Value, json};
use tensortap::{Check, Difference, Grade, Outcome, OutputReport, ReplayReport, TaskId, TaskReport};

use super::text::verdict;
use crate::verbs::replay::text::Spread;

/// The document.
pub fn of(report: &ReplayReport) -> Value {
    let with = |is: fn(&Outcome) -> bool| -> Vec<Value> {
        report.tasks.iter().filter(|t| is(&t.outcome)).map(named).collect()
    };
    let nondeterministic: Vec<Value> =
        report.tasks.iter().filter(|t| t.nondeterministic()).map(named).collect();
    json!({
        "verdict": verdict(report),
        "check": check(report),
        "tasks": report.tasks.len(),
        "bitexact": report.count(|o| *o == Outcome::BitExact),
        "within_rule": report.count(|o| *o == Outcome::WithinRule),
        "failed": with(|o| matches!(o, Outcome::Failed(_))),
        "refused": with(|o| matches!(o, Outcome::Refused(_))),
        "unchecked": with(|o| matches!(o, Outcome::Unchecked(_))),
        "nondeterministic": nondeterministic,
        "fidelity": fidelity(report),
        "source": report.source,
        "scenes": report.scenes,
        "captured_on": report.captured_on,
        "replayed_on": report.replayed_on,
        "interrupted": report.interrupted,
        "notes": report.notes,
        "wall_s": report.wall.as_secs_f64(),
        "results": report.tasks.iter().map(result).collect::<Vec<_>>(),
    })
}

/// What outputs were held against; cases of a folder may differ in it.
fn check(report: &ReplayReport) -> Option<&'static str> {
    let mut checks = report.tasks.iter().map(|task| task.check.name());
    let first = checks.next()?;
    Some(if checks.all(|check| check == first) { first } else { "several" })
}

fn named(task: &TaskReport) -> Value {
    json!({
        "task_id": TaskId(task.task_id).to_string(),
        "kernels": task.kernels,
        "case": task.case,
        "reason": task.outcome.reason(),
    })
}

fn fidelity(report: &ReplayReport) -> Value {
    let args = || report.tasks.iter().flat_map(|t| &t.args);
    let count = |grade: Grade| args().filter(|a| a.grade == grade).count();
    let inexact: Vec<Value> = report
        .tasks
        .iter()
        .flat_map(|task| task.args.iter().map(move |arg| (task, arg)))
        .filter(|(_, arg)| arg.grade != Grade::Exact)
        .map(|(task, arg)| {
            json!({
                "task_id": TaskId(task.task_id).to_string(),
                "arg_index": arg.arg_index,
                "grade": arg.grade.name(),
                "reason": arg.reason,
            })
        })
        .collect();
    json!({
        "exact": count(Grade::Exact),
        "partial": count(Grade::Partial),
        "overridden": count(Grade::Overridden),
        "zero": count(Grade::Zero),
        "inexact": inexact,
    })
}

fn result(task: &TaskReport) -> Value {
    json!({
        "task_id": TaskId(task.task_id).to_string(),
        "kernels": task.kernels,
        "case": task.case,
        "check": task.check.name(),
        "outcome": task.outcome.name(),
        "reason": task.outcome.reason(),
        "grade": task.grade().name(),
        "placement": task.placement.map(|p| p.name()),
        "runs": task.runs,
        "distinct_results": task.distinct_results,
        "outputs": task.outputs.iter().map(|o| output(o, task.check)).collect::<Vec<_>>(),
        "bench": task.timing.as_ref().map(|timing| {
            json!({ "kernel_ns": spread(&timing.kernel), "launch_ns": spread(&timing.launch) })
        }),
    })
}

fn output(output: &OutputReport, check: Check) -> Value {
    // JSON has no NaN and no infinities.
    let error = output.max_abs_err;
    let max_abs_err = if error.is_finite() { json!(error) } else { json!(word(error)) };
    json!({
        "arg_index": output.arg_index,
        "dtype": output.dtype.name(),
        "compared": output.compared,
        "elements": output.elements,
        "different": output.different,
        "outside": output.outside,
        "bitexact": output.bitexact(),
        "max_abs_err": max_abs_err,
        "within_rule": output.within_rule(),
        "first_different": output.first.as_ref().filter(|_| check == Check::Captured).map(|first| {
            let Difference { element, coordinate, here, expected } = first;
            json!({ "element": element, "coordinate": coordinate, "value": here, "captured": expected })
        }),
        "worst_outside": output.first.as_ref().filter(|_| check != Check::Captured).map(|worst| {
            let Difference { element, coordinate, here, expected } = worst;
            json!({ "element": element, "coordinate": coordinate, "value": here, "expected": expected })
        }),
    })
}

fn word(value: f64) -> &'static str {
    if value.is_nan() { "NaN" } else { "Infinity" }
}

fn spread(times: &[Duration]) -> Value {
    let Spread { median, least, most, middle_half } = Spread::of(times);
    json!({
        "runs": times.len(),
        "median": nanos(median),
        "min": nanos(least),
        "max": nanos(most),
        "middle_half": nanos(middle_half),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
