//! Why tasks have no partner.

use std::collections::HashMap;

use tensortap_format::{Argument, Task};

use super::Unmatched;
use crate::graph::TaskGraph;

/// One of two graphs.
pub(super) struct Side<'g> {
    pub graph: &'g TaskGraph,
    /// By task, what it looks like by itself: equal in both graphs where that is.
    pub locals: Vec<u64>,
    /// Tasks without a partner.
    pub open: Vec<usize>,
}

impl Side<'_> {
    /// How many tasks look like this and run that.
    fn counts(&self) -> HashMap<(u64, String), usize> {
        let mut counts = HashMap::new();
        for task in self.graph.tasks().iter() {
            *counts.entry((self.locals[task.place()], what_runs(task))).or_default() += 1;
        }
        counts
    }
}

/// Tasks of the dump and of the golden that have no partner, and why.
pub(super) fn unmatched(dump: &Side<'_>, golden: &Side<'_>) -> [Vec<Unmatched>; 2] {
    let counts = [dump, golden].map(Side::counts);
    let of = |own: &Side<'_>, other: &Side<'_>, name: &str| -> Vec<Unmatched> {
        // The first of those that run the same.
        let lonely = other.open.iter().rev().map(|&task| (what_runs(other.graph.task(task)), task));
        let lonely: HashMap<String, usize> = lonely.collect();
        let reason = |task: usize| {
            let runs = what_runs(own.graph.task(task));
            let alike = (own.locals[task], runs);
            let [few, many] = counts.each_ref().map(|counts| counts.get(&alike).copied().unwrap_or(0));
            let runs = alike.1;
            if few > 0 && many > 0 {
                return format!("such tasks of {runs}: {few} in the dump, {many} in the golden");
            }
            let there = lonely.get(&runs).map(|&task| other.graph.task(task));
            let differs = there.and_then(|there| difference(own.graph.task(task), there));
            let differs =
                differs.map_or_else(String::new, |words| format!("; in one without a partner there {words}"));
            format!("the {name} has no task of {runs} with such arguments{differs}")
        };
        own.open.iter().map(|&task| Unmatched { task, reason: reason(task) }).collect()
    };
    [of(dump, golden, "golden"), of(golden, dump, "dump")]
}

/// The first argument that is another, as it is `there` and here.
fn difference(here: Task<'_>, there: Task<'_>) -> Option<String> {
    here.arguments().find_map(|arg| {
        let at = arg.arg_index;
        let Some(other) = there.argument(at) else { return Some(format!("argument {at} is missing")) };
        let starts = |arg: Argument<'_>| (arg.start_offset, arg.strides().to_vec());
        if arg.is_scalar() || other.is_scalar() {
            None
        } else if arg.dtype != other.dtype {
            Some(format!("argument {at} is {}, and here {}", other.dtype, arg.dtype))
        } else if arg.shape() != other.shape() {
            Some(format!("argument {at} has shape {:?}, and here {:?}", other.shape(), arg.shape()))
        } else if starts(arg) != starts(other) {
            Some(format!(
                "argument {at} begins at element {} of its buffer, with strides {:?}, and here at {}, with {:?}",
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

/// Its kernels, or what else it is.
fn what_runs(task: Task<'_>) -> String {
    match &task.kernel_names()[..] {
        [] => task.task_name().unwrap_or(task.facts().operation.name()).to_owned(),
        kernels => kernels.join("+"),
    }
}
