//! What two recordings of a program with unknown roles say of arguments that differ.

use std::collections::{HashMap, HashSet};

use tensortap_format::{Argument, Task};

use crate::graph::TaskGraph;
use crate::labels::{Status, TaskStatus};
use crate::matching::Matching;

/// Arguments of the dump, by task and position there.
type Args<T> = HashMap<(usize, u16), T>;

/// Of arguments outside their rules: those that no task of either run ever wrote; and for those that a task may have written which
/// nothing orders with theirs, though the golden does, that task.
pub(super) fn compared(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
) -> (HashSet<(usize, u16)>, Args<usize>) {
    let (mut uninitialised, mut lost_order) = (HashSet::new(), Args::new());
    let Some((seen, golden)) = graph.observations().zip(theirs.observations()) else {
        return (uninitialised, lost_order);
    };
    let is_written = |graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>| {
        let is_unordered = || graph.observations().is_some_and(|seen| !seen.unordered(task, arg).is_empty());
        !graph.outputs_behind(arg).is_empty() || is_unordered()
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
            let lost: Vec<usize> = seen.unordered(task, arg).into_iter().filter(is_ordered_there).collect();
            // Best the one that the golden took it from.
            let is_producer = |other: &&usize| {
                let outputs = there.map(|there| theirs.outputs_behind(there)).unwrap_or_default();
                outputs.iter().any(|output| matching.partner[**other] == Some(output.task))
            };
            if let Some(&other) = lost.iter().find(is_producer).or(lost.last()) {
                lost_order.insert(key, other);
            }
        }
    }
    (uninitialised, lost_order)
}
