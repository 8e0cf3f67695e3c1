//! What `replay --json` prints.

use std::time::Duration;

use serde::Serialize;
use tensortap::{
    Check, Confinement, Difference, GoldenVerdict, Grade, LibraryKernel, Outcome, OutputReport, ReplayReport,
    TaskId, TaskReport, Timing,
};

use super::compare::verdict_word;
use crate::number::json_float;

/// The document of a replay.
#[derive(Serialize)]
pub struct ReplayDocument<'a> {
    verdict: &'static str,
    /// What outputs were compared with; `several` if the cases of a folder differ in it.
    check: Option<&'static str>,
    tasks: usize,
    bitexact: usize,
    within_rule: usize,
    failed: Vec<NamedDocument<'a>>,
    refused: Vec<NamedDocument<'a>>,
    unchecked: Vec<NamedDocument<'a>>,
    nondeterministic: Vec<NamedDocument<'a>>,
    fidelity: FidelityDocument<'a>,
    source: &'a str,
    scenes: &'a [String],
    captured_on: &'a [String],
    replayed_on: &'a [String],
    /// Verdict of the captured run's own golden; null if it was not judged, and for cases.
    golden: Option<&'static str>,
    /// The fault that was injected into the captured run.
    inject_fault: Option<&'a str>,
    interrupted: bool,
    notes: &'a [String],
    /// Kernels from libraries that the user named.
    given: Vec<LibraryKernelDocument>,
    /// How the device processes were confined; null if nothing was run.
    confinement: Option<ConfinementDocument>,
    wall_s: f64,
    results: Vec<ResultDocument<'a>>,
}

#[derive(Serialize)]
struct ConfinementDocument {
    no_new_privileges: bool,
    system_calls: bool,
    limits: bool,
}

impl ConfinementDocument {
    fn of(confinement: Confinement) -> ConfinementDocument {
        let Confinement { no_new_privileges, system_calls, limits } = confinement;
        ConfinementDocument { no_new_privileges, system_calls, limits }
    }
}

/// The document of a kernel from a library.
#[derive(Serialize)]
pub struct LibraryKernelDocument {
    kernel: String,
    library: String,
    symbol: String,
    build_id: String,
    abi: &'static str,
    /// `user`, or `case` if the case contains it.
    named_by: &'static str,
}

impl LibraryKernelDocument {
    pub(super) fn of(given: &LibraryKernel) -> LibraryKernelDocument {
        let LibraryKernel { name, library, symbol, build_id, abi, of_case } = given.clone();
        let library = library.display().to_string();
        let named_by = if of_case.is_some() { "case" } else { "user" };
        LibraryKernelDocument { kernel: name, library, symbol, build_id, abi: abi.name(), named_by }
    }
}

#[derive(Serialize)]
struct TaskDocument<'a> {
    step: u32,
    task_id: String,
    kernels: &'a [String],
    scope: Option<&'a str>,
    task_name: Option<&'a str>,
    case: Option<&'a str>,
}

#[derive(Serialize)]
struct NamedDocument<'a> {
    #[serde(flatten)]
    task: TaskDocument<'a>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct FidelityDocument<'a> {
    exact: usize,
    partial: usize,
    overridden: usize,
    zero: usize,
    inexact: Vec<InexactDocument<'a>>,
}

#[derive(Serialize)]
struct InexactDocument<'a> {
    task_id: String,
    arg_index: u16,
    grade: &'static str,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct ResultDocument<'a> {
    #[serde(flatten)]
    task: TaskDocument<'a>,
    check: &'static str,
    outcome: &'static str,
    reason: Option<&'a str>,
    grade: &'static str,
    placement: Option<&'static str>,
    runs: u32,
    distinct_results: u32,
    outputs: Vec<OutputDocument<'a>>,
    bench: Option<BenchDocument>,
    /// The report of a sanitizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a str>,
}

#[derive(Serialize)]
struct OutputDocument<'a> {
    arg_index: u16,
    dtype: &'static str,
    compared: u64,
    elements: u64,
    different: u64,
    outside: u64,
    bitexact: bool,
    #[serde(serialize_with = "json_float")]
    max_abs_err: f64,
    verdict: &'static str,
    /// Compared with the captured output.
    first_different: Option<ElementDocument<'a>>,
    /// Compared with a reference.
    worst_outside: Option<ElementDocument<'a>>,
}

#[derive(Serialize)]
struct ElementDocument<'a> {
    element: u64,
    coordinate: &'a [u64],
    value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
}

#[derive(Serialize)]
struct BenchDocument {
    kernel_ns: SpreadDocument,
    launch_ns: SpreadDocument,
}

#[derive(Serialize)]
struct SpreadDocument {
    runs: usize,
    median: u64,
    min: u64,
    max: u64,
    middle_half: u64,
}

/// `pass`, `fail`, or `none` if no task was selected. Comparing nothing is a failure.
#[must_use]
pub fn replay_verdict(report: &ReplayReport) -> &'static str {
    match report.passed() {
        true => "pass",
        false if report.tasks.is_empty() => "none",
        false => "fail",
    }
}

impl<'a> ReplayDocument<'a> {
    /// The document of a report.
    #[must_use]
    pub fn of(report: &'a ReplayReport) -> ReplayDocument<'a> {
        let with = |is: &dyn Fn(&TaskReport) -> bool| -> Vec<NamedDocument<'a>> {
            report.tasks.iter().filter(|task| is(task)).map(NamedDocument::of).collect()
        };
        ReplayDocument {
            verdict: replay_verdict(report),
            check: check(report),
            tasks: report.tasks.len(),
            bitexact: report.count(|o| *o == Outcome::BitExact),
            within_rule: report.count(|o| *o == Outcome::WithinRule),
            failed: with(&|task| matches!(task.outcome, Outcome::Failed(_))),
            refused: with(&|task| matches!(task.outcome, Outcome::Refused(_))),
            unchecked: with(&|task| matches!(task.outcome, Outcome::Unchecked(_))),
            nondeterministic: with(&TaskReport::nondeterministic),
            fidelity: FidelityDocument::of(report),
            source: &report.source,
            scenes: &report.scenes,
            captured_on: &report.captured_on,
            replayed_on: &report.replayed_on,
            golden: report.golden.map(GoldenVerdict::name),
            inject_fault: report.inject_fault.as_deref(),
            interrupted: report.interrupted,
            notes: &report.notes,
            given: report.library_kernels.iter().map(LibraryKernelDocument::of).collect(),
            confinement: report.confinement.map(ConfinementDocument::of),
            wall_s: report.wall.as_secs_f64(),
            results: report.tasks.iter().map(ResultDocument::of).collect(),
        }
    }
}

fn check(report: &ReplayReport) -> Option<&'static str> {
    let mut checks = report.tasks.iter().map(|task| task.check.name());
    let first = checks.next()?;
    Some(if checks.all(|check| check == first) { first } else { "several" })
}

impl<'a> TaskDocument<'a> {
    fn of(task: &'a TaskReport) -> TaskDocument<'a> {
        TaskDocument {
            step: task.step,
            task_id: TaskId(task.task_id).to_string(),
            kernels: &task.kernels,
            scope: task.scope.as_deref(),
            task_name: task.task_name.as_deref(),
            case: task.case.as_deref(),
        }
    }
}

impl<'a> NamedDocument<'a> {
    fn of(task: &'a TaskReport) -> NamedDocument<'a> {
        NamedDocument { task: TaskDocument::of(task), reason: task.outcome.reason() }
    }
}

impl<'a> FidelityDocument<'a> {
    fn of(report: &'a ReplayReport) -> FidelityDocument<'a> {
        let args = || report.tasks.iter().flat_map(|task| task.args.iter().map(move |arg| (task, arg)));
        let count = |grade: Grade| args().filter(|(_, arg)| arg.grade == grade).count();
        let inexact = args().filter(|(_, arg)| arg.grade != Grade::Exact);
        FidelityDocument {
            exact: count(Grade::Exact),
            partial: count(Grade::Partial),
            overridden: count(Grade::Overridden),
            zero: count(Grade::Zero),
            inexact: inexact
                .map(|(task, arg)| InexactDocument {
                    task_id: TaskId(task.task_id).to_string(),
                    arg_index: arg.arg_index,
                    grade: arg.grade.name(),
                    reason: arg.reason.as_deref(),
                })
                .collect(),
        }
    }
}

impl<'a> ResultDocument<'a> {
    fn of(task: &'a TaskReport) -> ResultDocument<'a> {
        ResultDocument {
            task: TaskDocument::of(task),
            check: task.check.name(),
            outcome: task.outcome.name(),
            reason: task.outcome.reason(),
            grade: task.grade().name(),
            placement: task.placement.map(|placement| placement.name()),
            runs: task.runs,
            distinct_results: task.distinct_results,
            outputs: task.outputs.iter().map(|output| OutputDocument::of(output, task.check)).collect(),
            bench: task.timing.as_ref().map(BenchDocument::of),
            report: task.sanitizer.as_deref(),
        }
    }
}

impl<'a> OutputDocument<'a> {
    fn of(output: &'a OutputReport, check: Check) -> OutputDocument<'a> {
        let captured = check == Check::Captured;
        let first = output.first.as_ref().map(|first| {
            let Difference { element, coordinate, here, expected } = first;
            let (is, should_be) = (Some(expected.as_str()).filter(|_| captured), Some(expected.as_str()));
            ElementDocument {
                element: *element,
                coordinate,
                value: here,
                captured: is,
                expected: should_be.filter(|_| !captured),
            }
        });
        let (first_different, worst_outside) = if captured { (first, None) } else { (None, first) };
        OutputDocument {
            arg_index: output.arg_index,
            dtype: output.dtype.name(),
            compared: output.compared,
            elements: output.elements,
            different: output.different,
            outside: output.outside,
            bitexact: output.bitexact(),
            max_abs_err: output.max_abs_err,
            verdict: verdict_word(output.verdict()),
            first_different,
            worst_outside,
        }
    }
}

impl BenchDocument {
    fn of(timing: &Timing) -> BenchDocument {
        BenchDocument {
            kernel_ns: SpreadDocument::of(&timing.kernel),
            launch_ns: SpreadDocument::of(&timing.launch),
        }
    }
}

impl SpreadDocument {
    fn of(times: &[Duration]) -> SpreadDocument {
        let Spread { median, least, most, middle_half } = Spread::of(times);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        SpreadDocument {
            runs: times.len(),
            median: nanos(median),
            min: nanos(least),
            max: nanos(most),
            middle_half: nanos(middle_half),
        }
    }
}

/// The distribution of measured times.
pub struct Spread {
    /// The median.
    pub median: Duration,
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
    /// Distance between the first and the third quartile.
    pub middle_half: Duration,
}

impl Spread {
    /// The distribution of these times.
    #[must_use]
    pub fn of(times: &[Duration]) -> Spread {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |part: usize| {
            let last = sorted.len().saturating_sub(1);
            sorted.get(last * part / 4).copied().unwrap_or_default()
        };
        Spread { median: at(2), least: at(0), most: at(4), middle_half: at(3).saturating_sub(at(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_quartiles_of_times() {
        let times = [9, 1, 5, 3, 7].map(Duration::from_micros);
        let Spread { median, least, most, middle_half } = Spread::of(&times);
        let micros = [median, least, most, middle_half].map(|t| t.as_micros());
        assert_eq!(micros, [5, 1, 9, 4]);
        assert_eq!(Spread::of(&[]).median, Duration::ZERO);
    }
}
