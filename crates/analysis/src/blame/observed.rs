//! What two recordings of a program with unknown roles say of arguments that differ.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Task};

use crate::compare::unless_gone;
use crate::graph::{Basis, TaskGraph};
use crate::labels::{Status, TaskStatus};
use crate::matching::Matching;

/// Larger contents are not looked into.
const MOST_BYTES: u64 = 256 << 20;

/// Arguments of the dump, by task and position there.
type Args<T> = HashMap<(usize, u16), T>;

/// Of arguments outside their rules: those that no task of either run ever wrote; and for those that a task may have written which
/// nothing orders with theirs, though the golden does, that task. Of a dump from which tasks were filtered there are none of these: they may have
/// ordered them.
pub(super) fn compared(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
    is_filtered: bool,
) -> (HashSet<(usize, u16)>, Args<usize>) {
    let (mut uninitialised, mut lost_order) = (HashSet::new(), Args::new());
    let Some((seen, golden)) = graph.observations().zip(theirs.observations()) else {
        return (uninitialised, lost_order);
    };
    let is_written = |graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>| {
        let is_unordered = || graph.observations().is_some_and(|seen| !seen.unordered(task, arg).is_none());
        let origin = graph.origin(arg);
        origin.basis == Basis::Undecided || !origin.outputs.is_empty() || is_unordered()
    };
    for task in graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = theirs.task(partner);
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar()) {
            let is_outside = status.before == Status::Outside;
            if !is_outside && status.after != Status::Outside {
                continue;
            }
            let key = (task.place(), arg.arg_index);
            let there = partner.argument(arg.arg_index);
            if is_outside
                && !is_written(graph, task, arg)
                && there.is_some_and(|there| !is_written(theirs, partner, there))
            {
                uninitialised.insert(key);
            }
            let is_ordered_there = |&other: &usize| {
                matching.partner[other]
                    .is_some_and(|other| !golden.order().are_unordered(other, partner.place()))
            };
            // Two that may be ordered after all have lost nothing.
            let is_known = |other: &usize| !seen.order().is_unknown(task.place().max(*other));
            let lost = seen.unordered(task, arg).tasks.into_iter();
            let lost: Vec<usize> = lost.filter(is_known).filter(is_ordered_there).collect();
            // Best the one that the golden took it from.
            let is_producer = |other: &&usize| {
                let outputs = there.map(|there| theirs.outputs_behind(there)).unwrap_or_default();
                outputs.iter().any(|output| matching.partner[**other] == Some(output.task))
            };
            let lost_one = lost.iter().find(is_producer).or(lost.last()).filter(|_| !is_filtered);
            if let Some(&other) = lost_one {
                lost_order.insert(key, other);
            }
        }
    }
    (uninitialised, lost_order)
}

/// Memory that no task of either run ever wrote held something in the golden, too, which is right all the same: that it differs is held against nobody. Nor is
/// what a task left alone of it, in both runs, where contents can tell.
///
/// # Errors
/// A file cannot be read.
pub(super) fn excuse(
    dumps: (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    uninitialised: &HashSet<(usize, u16)>,
    statuses: &mut [TaskStatus],
) -> Result<(), FormatError> {
    for &(place, arg_index) in uninitialised {
        let TaskStatus::Compared(args) = &mut statuses[place] else { continue };
        let task = graph.task(place);
        let at = task.arguments().position(|arg| arg.arg_index == arg_index);
        let there = matching.partner[place].and_then(|partner| theirs.task(partner).argument(arg_index));
        let (Some(status), Some(here), Some(there)) =
            (at.and_then(|at| args.get_mut(at)), task.argument(arg_index), there)
        else {
            continue;
        };
        let is_left_alone = here.is_unchanged() && there.is_unchanged();
        // What was left alone is what it was: the labels set it aside.
        if !is_left_alone {
            status.before = Status::Within;
        }
        if status.after == Status::Outside && !is_left_alone && differs_in_rest_alone(dumps, here, there)? {
            status.after = Status::Within;
        }
    }
    Ok(())
}

/// Whether what two tasks left differs only in bytes that both of them left as they were.
fn differs_in_rest_alone(
    (dump, golden): (&Dump, &Dump),
    here: Argument<'_>,
    there: Argument<'_>,
) -> Result<bool, FormatError> {
    let content = |dump: &Dump, arg: Argument<'_>, stage: DumpStage| {
        let captured =
            arg.captured(stage).filter(|captured| captured.is_stored() && captured.bytes <= MOST_BYTES);
        let Some(captured) = captured else { return Ok(None) };
        unless_gone(dump.payload(&dump.record(captured.record)?))
    };
    let (Some(before), Some(after)) =
        (content(dump, here, DumpStage::BeforeDispatch)?, content(dump, here, DumpStage::AfterCompletion)?)
    else {
        return Ok(false);
    };
    let (Some(their_before), Some(their_after)) = (
        content(golden, there, DumpStage::BeforeDispatch)?,
        content(golden, there, DumpStage::AfterCompletion)?,
    ) else {
        return Ok(false);
    };
    let lengths = [before.len(), after.len(), their_before.len(), their_after.len()];
    let ours = before.iter().zip(after.iter());
    let golden = their_before.iter().zip(their_after.iter());
    Ok(lengths.iter().all(|&length| length == after.len())
        && ours.zip(golden).all(|((before, after), (their_before, their_after))| {
            after == their_after || (before == after && their_before == their_after)
        }))
}
