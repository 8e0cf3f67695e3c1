//! Inputs that the golden does not have: their status follows from the outputs of their producers.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Task};
use tensortap_judge::{Evidence, Verdict};

use super::ComparedArg;
use crate::evidence::{Spans, covered_by};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TaskGraph, TensorView};
use crate::labels::{Finding, Label, Status, TaskStatus};
use crate::provenance::InputProvenance;

/// Arguments by task position and argument index.
pub(super) type ArgSet = HashSet<(usize, u16)>;

/// Whether only outputs of a task were captured.
pub(super) fn has_only_outputs(task: Task<'_>) -> bool {
    task.arguments().all(|arg| arg.before.is_none()) && task.arguments().any(|arg| arg.after.is_some())
}

/// Inputs of tasks for which the golden captured only outputs.
pub(super) fn lacking_of(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    tasks: &HashSet<usize>,
) -> Vec<(usize, u16)> {
    let mut lacking = Vec::new();
    for &place in tasks {
        let TaskStatus::Compared(args) = &statuses[place] else { continue };
        for (arg, status) in graph.task(place).arguments().zip(args) {
            if arg.before.is_some() && matches!(status.before, Status::Unknown(_)) {
                lacking.push((place, arg.arg_index));
            }
        }
    }
    lacking.sort_unstable();
    lacking
}

/// Derives the status of these inputs from their producers. Returns the tasks with a derived status.
pub(super) fn derive(
    graph: &TaskGraph,
    statuses: &mut [TaskStatus],
    lacking: &[(usize, u16)],
    provenance: &HashMap<(usize, u16), InputProvenance>,
) -> HashSet<usize> {
    let mut derived = HashSet::new();
    for &input in lacking {
        let Some(arg) = graph.task(input.0).argument(input.1) else { continue };
        let status = match provenance.get(&input) {
            _ if graph.producers_of(arg).is_empty() => of_producers(graph, statuses, input),
            Some(InputProvenance::Same) => of_producers(graph, statuses, input),
            // Code that was not recorded may have changed it in the golden too.
            Some(InputProvenance::Changed(_)) => has_only_recorded_writes(graph).then_some(Status::Outside),
            Some(InputProvenance::Unknown(_)) | None => None,
        };
        if let Some(status) = status {
            set_before(graph, statuses, input, status);
            derived.insert(input.0);
        }
    }
    derived
}

/// Marks labels that rest on derived statuses.
pub(super) fn mark(findings: &mut [Finding], derived: &HashSet<usize>) {
    for &place in derived {
        let finding = &mut findings[place];
        finding.rests_on_producers = !matches!(finding.label, Label::Ok | Label::Unknown);
    }
}

/// Whether an input holds an output that is within its rule but not equal.
pub(super) fn is_near_equal_output(graph: &TaskGraph, near_outputs: &ArgSet, input: (usize, u16)) -> bool {
    let outputs = graph.task(input.0).argument(input.1).map(|arg| graph.producers_of(arg));
    outputs.unwrap_or_default().iter().any(|o| near_outputs.contains(&(o.task, o.arg_index)))
}

/// Whether the captured tasks wrote everything that was written during the run.
fn has_only_recorded_writes(graph: &TaskGraph) -> bool {
    graph.gap.is_none() && !graph.others_write
}

/// The status of an input that is, byte for byte, what its producers wrote. A part of a wrong output has no status: that
/// part may be right. Neither has an input with bytes that no captured task wrote: the golden does not show them.
/// Scalars count as right.
pub(super) fn of_producers(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    input: (usize, u16),
) -> Option<Status> {
    let arg = graph.task(input.0).argument(input.1)?;
    if arg.is_scalar() {
        // A wrong scalar and a wrong kernel are errors of the same task.
        return Some(Status::Within);
    }
    let outputs = graph.producers_of(arg);
    let is_whole_output = matches!(outputs, [output] if is_whole(graph, *output, arg));
    let is_known = is_whole_output || has_only_recorded_writes(graph) && is_covered(graph, outputs, arg);
    if !is_known {
        return None;
    }
    let after = |output: &OutputRef| {
        let TaskStatus::Compared(args) = &statuses[output.task] else { return None };
        let place = graph.task(output.task).arguments().position(|a| a.arg_index == output.arg_index)?;
        args.get(place).map(|status| &status.after)
    };
    if outputs.iter().all(|output| after(output) == Some(&Status::Within)) {
        return Some(Status::Within);
    }
    let [output] = outputs else { return None };
    (is_whole(graph, *output, arg) && after(output) == Some(&Status::Outside)).then_some(Status::Outside)
}

/// Whether these outputs together wrote every byte of an argument.
fn is_covered(graph: &TaskGraph, outputs: &[OutputRef], arg: Argument<'_>) -> bool {
    let pieces_of = |arg: Argument<'_>| TensorView::of(arg).and_then(|view| pieces(&view));
    let (Some(own), Some(bytes)) = (pieces_of(arg), arg.content_bytes()) else { return false };
    let written = outputs.iter().filter_map(|output| pieces_of(graph.output(*output)?));
    let covered = written.fold(Spans::default(), |all, written| all.or(&covered_by(&own, &written)));
    covered == Spans::up_to(bytes.saturating_mul(2))
}

/// Whether an output is the same view of memory as an argument.
fn is_whole(graph: &TaskGraph, output: OutputRef, arg: Argument<'_>) -> bool {
    let views = graph.output(output).and_then(TensorView::of).zip(TensorView::of(arg));
    views.is_some_and(|(output, arg)| output.is_same_view(&arg))
}

pub(super) fn set_before(
    graph: &TaskGraph,
    statuses: &mut [TaskStatus],
    input: (usize, u16),
    status: Status,
) {
    let place = graph.task(input.0).arguments().position(|arg| arg.arg_index == input.1);
    if let (TaskStatus::Compared(args), Some(place)) = (&mut statuses[input.0], place) {
        args[place].before = status;
    }
}

/// Records of a stage that are within their rules but not bit-equal to the golden.
pub(super) fn near_equal_of(compared: &[Vec<ComparedArg>], stage: DumpStage) -> ArgSet {
    let is_near = |c: &&ComparedArg| {
        c.stage == stage && c.outcome.verdict == Verdict::Within && c.outcome.evidence != Evidence::Identical
    };
    let of_task = |(task, args): (usize, &Vec<ComparedArg>)| -> Vec<(usize, u16)> {
        args.iter().filter(is_near).map(|c| (task, c.arg_index)).collect()
    };
    compared.iter().enumerate().flat_map(of_task).collect()
}

/// Whether tasks of several kernels computed something else within their rules from equal inputs. A single such kernel may
/// have an error of its own.
pub(super) fn is_noisy(graph: &TaskGraph, compared: &[Vec<ComparedArg>]) -> bool {
    const SEVERAL: usize = 2;
    let is_noise = |(_, records): &(usize, &Vec<ComparedArg>)| {
        let mut inputs = records.iter().filter(|record| record.stage == DumpStage::BeforeDispatch).peekable();
        let mut outputs = records.iter().filter(|record| record.stage == DumpStage::AfterCompletion);
        let is_near = |record: &ComparedArg| record.outcome.evidence != Evidence::Identical;
        // Nothing shows what a write by the host was computed from.
        inputs.peek().is_some()
            && inputs.all(|record| record.outcome.evidence == Evidence::Identical)
            && records.iter().all(|record| record.outcome.verdict == Verdict::Within)
            && outputs.any(is_near)
    };
    let noisy = compared.iter().enumerate().filter(is_noise);
    let kernels: HashSet<_> = noisy.map(|(place, _)| graph.task(place).func_id).collect();
    kernels.len() >= SEVERAL
}
