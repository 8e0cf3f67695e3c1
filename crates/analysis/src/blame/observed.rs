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

/// Why a task is not blamed for what it left in memory that held something else in each run.
const NOT_TOLD: &str = "it was memory that no task had written, and without contents nothing tells how much of it the task wrote; record both runs with --dump-tensor=full";

/// Arguments of the dump, by task and position there.
type Args<T> = HashMap<(usize, u16), T>;

/// Of arguments outside their rules: those that no task of either run ever wrote; and for those that a task may have written which
/// nothing orders with theirs, though the golden does, that task. Of a golden from which tasks were filtered there are none of the first kind, and of such a dump none of
/// the second: those may have written, or ordered them.
pub(super) fn compared(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> (HashSet<(usize, u16)>, Args<usize>) {
    let (mut uninitialised, mut lost_order) = (HashSet::new(), Args::new());
    let (is_filtered, is_golden_filtered) = (lacks_tasks(dump), lacks_tasks(golden));
    let Some((seen, golden)) = graph.observations().zip(theirs.observations()) else {
        return (uninitialised, lost_order);
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
            let is_never_written = |there| is_never_written((graph, task, arg), (theirs, partner, there));
            // Where nothing was left out of the golden it says that nobody writes it, whatever was left out here.
            if is_outside && !is_golden_filtered && there.is_some_and(is_never_written) {
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
/// what a task left alone of it, in both runs, where contents can tell. Those of the arguments that were written over, whatever lay there, are
/// returned: it has nothing to do with what is wrong about them.
///
/// # Errors
/// A file cannot be read.
pub(super) fn excuse(
    dumps: (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    uninitialised: &HashSet<(usize, u16)>,
    statuses: &mut [TaskStatus],
) -> Result<HashSet<(usize, u16)>, FormatError> {
    let mut written_over = HashSet::new();
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
        if is_left_alone {
            continue;
        }
        status.before = Status::Within;
        if status.after != Status::Outside {
            continue;
        }
        let Some(Traces { rest_alone, is_overwritten }) = traces(dumps, here, there)? else {
            status.after = Status::Unknown(NOT_TOLD.into());
            continue;
        };
        if rest_alone {
            status.after = Status::Within;
        } else if is_overwritten {
            written_over.insert((place, arg_index));
        }
    }
    Ok(written_over)
}

/// What two tasks made of memory that held something else in each run, and that nobody had written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traces {
    /// What they left differs only in bytes that both of them left as they were.
    pub rest_alone: bool,
    /// Where the memory differed, no byte was left as it was by both, and some were left alike: they wrote it, whatever lay there.
    pub is_overwritten: bool,
}

/// Looks for traces of what lay in memory in what two tasks left there; `None` where not all content is stored.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn traces(
    (dump, golden): (&Dump, &Dump),
    here: Argument<'_>,
    there: Argument<'_>,
) -> Result<Option<Traces>, FormatError> {
    let content = |dump: &Dump, arg: Argument<'_>, stage: DumpStage| {
        let captured =
            arg.captured(stage).filter(|captured| captured.is_stored() && captured.bytes <= MOST_BYTES);
        let Some(captured) = captured else { return Ok(None) };
        unless_gone(dump.payload(&dump.record(captured.record)?))
    };
    let (Some(before), Some(after)) =
        (content(dump, here, DumpStage::BeforeDispatch)?, content(dump, here, DumpStage::AfterCompletion)?)
    else {
        return Ok(None);
    };
    let (Some(their_before), Some(their_after)) = (
        content(golden, there, DumpStage::BeforeDispatch)?,
        content(golden, there, DumpStage::AfterCompletion)?,
    ) else {
        return Ok(None);
    };
    Ok(traces_in((&before, &after), (&their_before, &their_after)))
}

/// The same of contents before and after; `None` where they are not equally long.
fn traces_in((before, after): (&[u8], &[u8]), (theirs, their_after): (&[u8], &[u8])) -> Option<Traces> {
    if [before.len(), theirs.len(), their_after.len()] != [after.len(); 3] {
        return None;
    }
    let (mut rest_alone, mut left, mut alike) = (true, false, false);
    for at in 0..after.len() {
        let is_left = before[at] == after[at] && theirs[at] == their_after[at];
        rest_alone &= after[at] == their_after[at] || is_left;
        let differed = before[at] != theirs[at];
        left |= differed && is_left;
        alike |= differed && after[at] == their_after[at];
    }
    Some(Traces { rest_alone, is_overwritten: alike && !left })
}

/// Whether tasks may be missing in a dump, and with them what they wrote and the order that they brought.
pub(crate) fn lacks_tasks(dump: &Dump) -> bool {
    dump.footer().is_none_or(|footer| footer.filtered_records > 0 || !footer.losses.is_empty())
}

/// Whether no task of either run ever wrote what an argument held before its task, where all of them were captured.
pub(crate) fn is_never_written(
    (graph, task, arg): (&TaskGraph, Task<'_>, Argument<'_>),
    (theirs, partner, there): (&TaskGraph, Task<'_>, Argument<'_>),
) -> bool {
    !is_written(graph, task, arg) && !is_written(theirs, partner, there)
}

/// Whether a task wrote, or may have written, what an argument held before its own.
pub(super) fn is_written(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    let is_unordered = || graph.observations().is_some_and(|seen| !seen.unordered(task, arg).is_none());
    let origin = graph.origin(arg);
    origin.basis == Basis::Undecided || !origin.outputs.is_empty() || is_unordered()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lay_in_memory_is_no_cause_where_everything_was_written() {
        let [lay, also_lay] = [[9, 8, 7, 6], [1, 2, 3, 4]];
        let found = |after: [u8; 4], theirs: [u8; 4]| {
            let found = traces_in((&lay, &after), (&also_lay, &theirs)).unwrap();
            (found.rest_alone, found.is_overwritten)
        };
        assert_eq!(found([50, 51, 52, 53], [50, 51, 52, 99]), (false, true), "all written, one otherwise");
        assert_eq!(found([50, 51, 52, 6], [50, 51, 52, 4]), (true, false), "one was left by both");
        assert_eq!(found([50, 51, 99, 6], [50, 51, 52, 4]), (false, false), "and another is wrong");
        assert_eq!(found([10, 9, 8, 7], [2, 3, 4, 5]), (false, false), "something was added to all of it");
        assert_eq!(traces_in((&lay, &[1]), (&also_lay, &lay)), None);
    }
}
