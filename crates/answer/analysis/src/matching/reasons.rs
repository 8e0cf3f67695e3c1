//! Explains why tasks have no partner.

use std::collections::HashMap;

use tensortap_format::{Argument, Task};

use super::UnmatchedTask;
use super::classes::kernels_of;
use crate::graph::TaskGraph;

/// One of the two graphs.
pub(super) struct MatchSide<'g> {
    pub graph: &'g TaskGraph,
    /// By task: the color of the task by itself, comparable between both graphs.
    pub local_colors: Vec<u64>,
    /// Tasks without a partner.
    pub open: Vec<usize>,
}

impl MatchSide<'_> {
    /// Number of tasks per color and kernel names.
    fn counts(&self) -> HashMap<(u64, String), usize> {
        let mut counts = HashMap::new();
        for task in self.graph.tasks().iter() {
            *counts.entry((self.local_colors[task.place()], kernels_of(task))).or_default() += 1;
        }
        counts
    }
}

/// The tasks of the dump and of the golden without a partner, with reasons.
pub(super) fn unmatched(dump: &MatchSide<'_>, golden: &MatchSide<'_>) -> [Vec<UnmatchedTask>; 2] {
    let counts = [dump, golden].map(MatchSide::counts);
    let of = |own: &MatchSide<'_>, other: &MatchSide<'_>, name: &str| -> Vec<UnmatchedTask> {
        // The first unmatched task for each kernel name.
        let unmatched_tasks = other.open.iter().rev().map(|&task| (kernels_of(other.graph.task(task)), task));
        let unmatched_tasks: HashMap<String, usize> = unmatched_tasks.collect();
        let reason = |task: usize| {
            let runs = kernels_of(own.graph.task(task));
            let alike = (own.local_colors[task], runs);
            let [few, many] = counts.each_ref().map(|counts| counts.get(&alike).copied().unwrap_or(0));
            let runs = alike.1;
            if few > 0 && many > 0 {
                return format!(
                    "unequal numbers of such tasks of {runs}: {few} in the dump, {many} in the golden"
                );
            }
            let there = unmatched_tasks.get(&runs).map(|&task| other.graph.task(task));
            let differs = there.and_then(|there| difference(own.graph.task(task), there));
            let differs =
                differs.map_or_else(String::new, |words| format!("; in an unmatched task there, {words}"));
            format!("the {name} has no task of {runs} with these arguments{differs}")
        };
        own.open.iter().map(|&task| UnmatchedTask { task, reason: reason(task) }).collect()
    };
    [of(dump, golden, "golden"), of(golden, dump, "dump")]
}

/// The first argument that differs between two tasks, as a phrase.
fn difference(here: Task<'_>, there: Task<'_>) -> Option<String> {
    here.arguments().filter(|arg| !arg.is_candidate()).find_map(|arg| {
        let at = arg.arg_index;
        let Some(other) = there.counterpart(arg) else { return Some(format!("argument {at} is missing")) };
        let starts = |arg: Argument<'_>| (arg.start_offset, arg.strides().to_vec());
        if arg.is_scalar() || other.is_scalar() {
            None
        } else if arg.dtype != other.dtype {
            Some(format!("argument {at} is {} instead of {}", other.dtype, arg.dtype))
        } else if arg.shape() != other.shape() {
            Some(format!("argument {at} has shape {:?} instead of {:?}", other.shape(), arg.shape()))
        } else if starts(arg) != starts(other) {
            Some(format!(
                "argument {at} begins at element {} with strides {:?} instead of at {} with {:?}",
                other.start_offset,
                other.strides(),
                arg.start_offset,
                arg.strides()
            ))
        } else {
            None
        }
    })
}
