//! What one rank contributes to a collective: whether the inputs of its task are right.

use tensortap_abi::DumpStage;
use tensortap_format::Argument;
use tensortap_judge::Verdict;

use super::partner_of;
use crate::blame::Blame;
use crate::graph::OutputRef;

/// The inputs of a collective on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InputState {
    /// All are within their rules.
    Right,
    /// This argument is outside its rule.
    Wrong(u16),
    /// Not enough was captured, with the reason.
    Unknown(String),
}

/// Judges the inputs of a task.
pub(super) fn input_state(blame: &Blame, place: usize) -> InputState {
    let (task, finding) = (blame.graph.task(place), &blame.findings[place]);
    if partner_of(blame, place).is_none() {
        let reason = finding.reason.as_deref().unwrap_or("it has no partner in the golden");
        let wrong = task.inputs().find(|arg| has_wrong_producer(blame, *arg));
        let unknown = || InputState::Unknown(reason.to_owned());
        return wrong.map_or_else(unknown, |arg| InputState::Wrong(arg.arg_index));
    }
    let is_garbage = |arg: &Argument<'_>| {
        finding.set_aside.contains(&arg.arg_index) || blame.never_written.contains(&(place, arg.arg_index))
    };
    let mut unknown = None;
    // A tensor explains more than a scalar, so tensors come first.
    let (scalars, tensors): (Vec<_>, Vec<_>) = task.inputs().partition(|arg| arg.is_scalar());
    for arg in tensors.into_iter().chain(scalars).filter(|arg| !is_garbage(arg)) {
        match argument_state(blame, place, arg) {
            InputState::Right => {}
            InputState::Unknown(reason) => {
                unknown.get_or_insert(reason);
            }
            wrong @ InputState::Wrong(_) => return wrong,
        }
    }
    match unknown {
        Some(reason) => InputState::Unknown(reason),
        None if blame.graph.lacks_input(blame.graph.task(place)) => {
            InputState::Unknown("not all inputs of the task were captured".into())
        }
        None => InputState::Right,
    }
}

fn argument_state(blame: &Blame, place: usize, arg: Argument<'_>) -> InputState {
    let is_it = |stage: DumpStage| stage == DumpStage::BeforeDispatch;
    let compared =
        blame.compared_args[place].iter().find(|one| one.arg_index == arg.arg_index && is_it(one.stage));
    match compared.map(|one| (one.outcome.verdict, one.outcome.reason())) {
        Some((Verdict::Within, _)) => InputState::Right,
        Some((Verdict::Outside, _)) if may_be_only_written(blame, arg) => {
            let why =
                "differs, but the dump is incomplete, so it may be memory that the collective only writes";
            InputState::Unknown(format!("argument {} before the task {why}", arg.arg_index))
        }
        Some((Verdict::Outside, _)) => InputState::Wrong(arg.arg_index),
        Some((Verdict::Unknown, _)) | None => {
            let producers = blame.graph.producers_of(arg).iter();
            let why = compared.and_then(|one| one.outcome.reason()).unwrap_or("the content was not captured");
            let producers =
                producers.map(|output| output_verdict(blame, output.task, Some(output.arg_index)));
            of_producers(producers, arg.arg_index).unwrap_or_else(|| {
                InputState::Unknown(format!("argument {} before the task: {why}", arg.arg_index))
            })
        }
    }
}

/// Whether an argument may hold anything before its task: its role is not known, the task changed it, and no recorded task
/// wrote it before. Only complete dumps of both runs show that the memory was never written.
fn may_be_only_written(blame: &Blame, arg: Argument<'_>) -> bool {
    let lacks_writes =
        [Some(&blame.graph), blame.golden.as_ref()].into_iter().flatten().any(|graph| graph.gap.is_some());
    let is_open = lacks_writes && !arg.role_known && !arg.is_unchanged();
    is_open && blame.graph.producers_of(arg).is_empty()
}

/// Whether a task left this input outside its rule.
fn has_wrong_producer(blame: &Blame, arg: Argument<'_>) -> bool {
    let mut producers = blame.graph.producers_of(arg).iter();
    producers.any(|output| output_verdict(blame, output.task, Some(output.arg_index)) == Verdict::Outside)
}

/// `None` without producers, or if nothing is known about one of them.
fn of_producers(verdicts: impl Iterator<Item = Verdict>, arg_index: u16) -> Option<InputState> {
    let verdicts: Vec<Verdict> = verdicts.collect();
    if verdicts.contains(&Verdict::Outside) {
        return Some(InputState::Wrong(arg_index));
    }
    let all_known = !verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == Verdict::Within);
    all_known.then_some(InputState::Right)
}

/// The verdict on an output of a task, or on all of its outputs.
pub(super) fn output_verdict(blame: &Blame, place: usize, arg_index: Option<u16>) -> Verdict {
    let outputs = blame.compared_args[place].iter().filter(|one| {
        one.stage == DumpStage::AfterCompletion && arg_index.is_none_or(|index| index == one.arg_index)
    });
    let verdicts: Vec<Verdict> = outputs.map(|one| one.outcome.verdict).collect();
    let has = |verdict| verdicts.contains(&verdict);
    match (has(Verdict::Outside), has(Verdict::Unknown) || verdicts.is_empty()) {
        (true, _) => Verdict::Outside,
        (false, true) => Verdict::Unknown,
        (false, false) => Verdict::Within,
    }
}

/// The task that a wrong input came from: the producer whose output is wrong, else the task itself.
pub(super) fn source_of(blame: &Blame, place: usize, arg_index: u16) -> usize {
    let task = blame.graph.task(place);
    let outputs = task.argument(arg_index).map_or(&[][..], |arg| blame.graph.producers_of(arg));
    // A dump without outputs may show an earlier task that wrote the same memory.
    let is_wrong =
        |output: &&OutputRef| output_verdict(blame, output.task, Some(output.arg_index)) == Verdict::Outside;
    outputs.iter().find(is_wrong).map_or(place, |output| output.task)
}
