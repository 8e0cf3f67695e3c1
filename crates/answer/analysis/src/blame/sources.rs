//! Arguments with a different last writer than in the golden, for dumps with unknown roles.
//!
//! An input may differ from the golden although the task that left it was right. Then the golden's producer
//! did not write it: a launch is missing, an extra launch overwrote it, or a launch used another buffer.

use std::collections::{BTreeMap, HashMap, HashSet};

use tensortap_format::{Argument, Task};

use super::wiring::{WiringChange, WiringDifference};
use crate::graph::view::share_memory;
use crate::graph::{OutputRef, TaskGraph};
use crate::labels::{Status, TaskStatus};
use crate::matching::Matching;

/// An input with a different last writer than in the golden.
pub(super) struct SourceDifference {
    pub difference: WiringDifference,
    /// Completes the sentence `argument 0 is …`; `None` if the task that should have written the input is
    /// blamed instead.
    pub description: Option<String>,
}

/// Values by task position and argument in the dump.
type Args<T> = BTreeMap<(usize, u16), T>;

/// Finds inputs with a different last writer. The second result has the arguments that should have written
/// such an input but are other buffers, with the task that misses their output. Both are empty for filtered
/// or incomplete dumps, because missing tasks may have written.
pub(super) fn differences(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
    wiring: &[WiringDifference],
) -> (Args<SourceDifference>, HashMap<(usize, u16), usize>) {
    let (mut found, mut misdirected) = (Args::new(), HashMap::new());
    let are_whole = graph.gap.is_none() && theirs.gap.is_none();
    if !are_whole || graph.observations().is_none() || theirs.observations().is_none() {
        return (found, misdirected);
    }
    let is_other = |key: (usize, u16), is: fn(&WiringChange) -> Option<u16>| {
        wiring.iter().any(|of| of.task == key.0 && is(&of.what) == Some(key.1))
    };
    let is_other_buffer = |key| {
        is_other(key, |what| match what {
            WiringChange::Buffer { arg_index, .. } => Some(*arg_index),
            _ => None,
        })
    };
    let is_other_view = |key| {
        is_other(key, |what| match what {
            WiringChange::View { arg_index, .. } => Some(*arg_index),
            _ => None,
        })
    };
    // Producers without a certain partner cannot be compared.
    let uncertain_there: HashSet<usize> =
        matching.uncertain.keys().filter_map(|&place| matching.partner[place]).collect();
    let is_any_uncertain = |here: &[OutputRef], golden: &[OutputRef]| {
        here.iter().any(|output| matching.uncertain.contains_key(&output.task))
            || golden.iter().any(|output| uncertain_there.contains(&output.task))
    };
    for (place, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        let TaskStatus::Compared(args) = &statuses[place] else { continue };
        let (task, there) = (graph.task(place), theirs.task(partner));
        for (arg, _) in task.arguments().zip(args).filter(|(_, status)| status.before == Status::Outside) {
            let key = (place, arg.arg_index);
            let Some(other) = there.counterpart(arg).filter(|_| !arg.is_scalar()) else { continue };
            let is_certain = is_ordered(graph, task, arg) && is_ordered(theirs, there, other);
            if !is_certain || is_left_wrong(graph, statuses, arg) || is_other_buffer(key) {
                continue;
            }
            let (here, golden) = (graph.producers_of(arg), theirs.producers_of(other));
            let is_of_one_run = || {
                let is_new = |output: &OutputRef| matching.partner[output.task].is_none();
                let is_missing = |output: &OutputRef| !matching.partner.contains(&Some(output.task));
                here.iter().any(is_new) || golden.iter().any(is_missing)
            };
            if arg.is_candidate() && !is_of_one_run() {
                continue;
            }
            if are_partners(matching, here, golden) || is_any_uncertain(here, golden) {
                continue;
            }
            // A task that reads another part of memory than in the golden may itself be why it misses something.
            let meant = golden.iter().filter(|_| !is_other_view(key)).find_map(|output| {
                let ours = matching.partner.iter().position(|partner| *partner == Some(output.task))?;
                let key = (ours, output.arg_index);
                // If it wrote where this task reads, it used the right buffer.
                Some(key).filter(|&key| is_other_buffer(key) && !shares(graph, key, arg))
            });
            let description = match meant {
                Some(writer) => {
                    misdirected.entry(writer).or_insert(place);
                    None
                }
                None => Some(describe((graph, theirs), matching, (here, golden))),
            };
            let what =
                WiringChange::Source { arg_index: key.1, dump: here.to_vec(), golden: golden.to_vec() };
            found.insert(
                key,
                SourceDifference { difference: WiringDifference { task: place, what }, description },
            );
        }
    }
    (found, misdirected)
}

/// Whether a difference is evidence. A new buffer in place of another new buffer is evidence only if its
/// content is missing elsewhere.
pub(super) fn is_evidence(difference: &WiringDifference, misdirected: &HashMap<(usize, u16), usize>) -> bool {
    match &difference.what {
        WiringChange::Buffer { arg_index, what } => {
            let are_new = what.dump.is_none() && what.golden.is_none() && what.as_arg.is_none();
            !are_new || misdirected.contains_key(&(difference.task, *arg_index))
        }
        _ => true,
    }
}

/// Whether two arguments share memory.
fn shares(graph: &TaskGraph, (place, arg_index): (usize, u16), arg: Argument<'_>) -> bool {
    graph.task(place).argument(arg_index).is_some_and(|other| share_memory(other, arg))
}

/// Whether the last writer of an argument is certain: nothing unordered with its task may have written it.
fn is_ordered(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    graph.observations().is_some_and(|seen| seen.unordered(task, arg).is_none())
}

/// Whether the last task that used these bytes left them wrong: then the error was inherited from it.
fn is_left_wrong(graph: &TaskGraph, statuses: &[TaskStatus], arg: Argument<'_>) -> bool {
    graph.last_holders(arg).iter().any(|output| {
        let TaskStatus::Compared(args) = &statuses[output.task] else { return false };
        let mut args = graph.task(output.task).arguments().zip(args);
        args.any(|(arg, status)| arg.arg_index == output.arg_index && status.after == Status::Outside)
    })
}

fn are_partners(matching: &Matching, here: &[OutputRef], golden: &[OutputRef]) -> bool {
    let mut ours: Vec<(Option<usize>, u16)> =
        here.iter().map(|output| (matching.partner[output.task], output.arg_index)).collect();
    let mut golden: Vec<(Option<usize>, u16)> =
        golden.iter().map(|output| (Some(output.task), output.arg_index)).collect();
    ours.sort_unstable();
    golden.sort_unstable();
    ours == golden
}

/// Example: `what task 0x8 (accum) left; in the golden it comes from task 0x9 (accum), which is missing
/// here`.
fn describe(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    (here, golden): (&[OutputRef], &[OutputRef]),
) -> String {
    let name = |task: Task<'_>| format!("task {:#x} ({})", task.task_id, task_text(task));
    let left = here.first().map(|output| {
        let is_new = matching.partner[output.task].is_none();
        let new = if is_new { ", which the golden does not have" } else { "" };
        format!("what {} left{new}", name(graph.task(output.task)))
    });
    let taken = golden.first().map(|output| {
        let is_missing = !matching.partner.contains(&Some(output.task));
        let missing = if is_missing { ", which is missing here" } else { "" };
        format!("it comes from {}{missing}", name(theirs.task(output.task)))
    });
    format!(
        "{}; in the golden {}",
        left.unwrap_or_else(|| "memory that no earlier recorded task wrote".into()),
        taken.unwrap_or_else(|| "no task wrote it".into())
    )
}

/// The kernels of a task, or its name if it has none.
fn task_text(task: Task<'_>) -> String {
    let kernels = task.short_kernel_names();
    match task.task_name().filter(|_| kernels.is_empty()) {
        Some(name) => name.to_owned(),
        None => kernels,
    }
}
