//! Arguments whose bytes other tasks wrote last than in the golden, where roles are not known.
//!
//! What a right task left, and what is nonetheless not what the golden has there, was not written by whoever writes it in the golden: a
//! launch is missing, is there once more, or was given another buffer to write to.

use std::collections::{BTreeMap, HashMap};

use tensortap_format::{Argument, Task};

use super::wiring::{Rewired, WiringDifference};
use crate::graph::{OutputRef, TaskGraph};
use crate::labels::{Status, TaskStatus};
use crate::matching::Matching;

/// An argument that came from elsewhere.
pub(super) struct Elsewhere {
    pub difference: WiringDifference,
    /// Goes on behind `argument 0 is …`; `None` where the task that should have written it is blamed instead.
    pub words: Option<String>,
}

/// Arguments of the dump, by task and position there.
type Args<T> = BTreeMap<(usize, u16), T>;

/// Arguments that came from elsewhere; and those, by task and position, that were to write them and are other buffers, with the task that
/// misses what they left. Filters and losses hide who wrote what: then there are none.
pub(super) fn differences(
    (graph, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    statuses: &[TaskStatus],
    wiring: &[WiringDifference],
) -> (Args<Elsewhere>, HashMap<(usize, u16), usize>) {
    let (mut found, mut misdirected) = (Args::new(), HashMap::new());
    let are_whole = graph.gap.is_none() && theirs.gap.is_none();
    if !are_whole || graph.observations().is_none() || theirs.observations().is_none() {
        return (found, misdirected);
    }
    let is_other_buffer = |key: (usize, u16)| {
        let is_it = |of: &WiringDifference| {
            of.task == key.0 && matches!(of.what, Rewired::Buffer { arg_index, .. } if arg_index == key.1)
        };
        wiring.iter().any(is_it)
    };
    for (place, partner) in matching.partner.iter().enumerate().filter_map(|(t, p)| Some((t, (*p)?))) {
        let TaskStatus::Compared(args) = &statuses[place] else { continue };
        let (task, there) = (graph.task(place), theirs.task(partner));
        for (arg, _) in task.arguments().zip(args).filter(|(_, status)| status.before == Status::Outside) {
            let key = (place, arg.arg_index);
            let Some(other) = there.argument(arg.arg_index).filter(|_| !arg.is_scalar()) else { continue };
            let is_certain = is_ordered(graph, task, arg) && is_ordered(theirs, there, other);
            if !is_certain || is_left_wrong(graph, statuses, arg) || is_other_buffer(key) {
                continue;
            }
            let (here, golden) = (graph.outputs_behind(arg), theirs.outputs_behind(other));
            if are_partners(matching, here, golden) {
                continue;
            }
            let meant = golden.iter().find_map(|output| {
                let ours = matching.partner.iter().position(|partner| *partner == Some(output.task))?;
                Some((ours, output.arg_index)).filter(|&key| is_other_buffer(key))
            });
            let words = match meant {
                Some(writer) => {
                    misdirected.entry(writer).or_insert(place);
                    None
                }
                None => Some(words((graph, theirs), matching, (here, golden))),
            };
            let what = Rewired::Source { arg_index: key.1, dump: here.to_vec(), golden: golden.to_vec() };
            found.insert(key, Elsewhere { difference: WiringDifference { task: place, what }, words });
        }
    }
    (found, misdirected)
}

/// Whether a difference says something. One new buffer instead of another does only where what is left in it is missing elsewhere.
pub(super) fn matters(difference: &WiringDifference, misdirected: &HashMap<(usize, u16), usize>) -> bool {
    match &difference.what {
        Rewired::Buffer { arg_index, what } => {
            let are_new = what.dump.is_none() && what.golden.is_none() && what.as_arg.is_none();
            !are_new || misdirected.contains_key(&(difference.task, *arg_index))
        }
        _ => true,
    }
}

/// Whether it is certain who wrote an argument before its task.
fn is_ordered(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    graph.observations().is_some_and(|seen| seen.unordered(task, arg).is_none())
}

/// Whether the last task that was given its bytes left something wrong: then the error came with that.
fn is_left_wrong(graph: &TaskGraph, statuses: &[TaskStatus], arg: Argument<'_>) -> bool {
    graph.left_behind(arg).iter().any(|output| {
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

/// `what task 0x8 (accum) left; in the golden it comes from task 0x9 (accum), which is missing here`.
fn words(
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
        left.unwrap_or_else(|| "memory that no recorded task wrote before".into()),
        taken.unwrap_or_else(|| "no task wrote it".into())
    )
}

/// The kernels of a task, or what it is called.
fn task_text(task: Task<'_>) -> String {
    let kernels = task.kernel_names().join("+");
    match task.task_name().filter(|_| kernels.is_empty()) {
        Some(name) => name.to_owned(),
        None => kernels,
    }
}
