//! Matches the tasks of two dumps.
//!
//! Ids differ between runtimes, and independent tasks may be submitted in any order. So tasks are matched by
//! structure: kernels, arguments, scalars, the tasks that produced their inputs, the tasks that read their
//! outputs, and the content of inputs that no task wrote. Content that a task wrote is not used, because it
//! may be what is wrong.
//!
//! The matching goes from strict to loose criteria. First, tasks are paired that are unique under all
//! criteria. Then criteria are dropped for the remaining tasks: scratch memory may hold any content, and an
//! input of the whole graph may itself be wrong. If both dumps have the same ids, ids decide before the
//! loosest criteria do. Tasks that no criterion distinguishes are interchangeable and are paired in order. If
//! a dump is incomplete, kernels and order decide in the end.
//!
//! Names of scopes and tasks come second. Among structurally equal tasks, equal names are paired first. Tasks
//! that structure leaves over are paired by name before looser criteria. A name never separates tasks that
//! structure pairs.
//!
//! With unknown roles, producers follow from observations, which differ where something is wrong. So tasks of
//! one queue that look alike by themselves are paired first, from the beginning and from the end of the
//! queue.
//!
//! If a dump has several steps, tasks are only paired within corresponding steps: steps of the same number,
//! or of the same rank if the dumps have no step number in common.

mod pairing;
mod reasons;
mod signature;

use std::collections::HashSet;

use tensortap_format::Tasks;

use crate::graph::TaskGraph;
use pairing::Pairing;
use signature::{KernelKey, MatchCriteria, StepKey};

/// Differences between the two dumps that the matching ignores.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchOptions {
    /// The golden may have other float dtypes.
    pub ignore_float_dtype: bool,
    /// One of the dumps does not record block counts.
    pub ignore_blocks: bool,
    /// Maximum number of threads; 0 means 1.
    pub threads: usize,
}

/// The pairs of tasks of two graphs, as positions in [`TaskGraph::tasks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// For each task of the first graph, its partner in the second.
    pub partner: Vec<Option<usize>>,
    /// Tasks of the first graph without a partner.
    pub only_first: Vec<UnmatchedTask>,
    /// Tasks of the second graph without a partner.
    pub only_second: Vec<UnmatchedTask>,
}

/// A task without a partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedTask {
    /// Position of the task.
    pub task: usize,
    /// Why it has no partner.
    pub reason: String,
}

/// Matches the tasks of two graphs.
#[must_use]
pub fn match_tasks(first: &TaskGraph, second: &TaskGraph, options: MatchOptions) -> Matching {
    let exact = MatchCriteria {
        kernel: kernel_key(first, second),
        step: step_key(first, second),
        ignore_blocks: options.ignore_blocks,
        ignore_float_dtype: options.ignore_float_dtype,
        args: true,
        scalars: true,
        external_inputs: !options.ignore_float_dtype,
        external_inouts: !options.ignore_float_dtype,
        inout_sources: true,
    };
    let any_inout = MatchCriteria { external_inouts: false, ..exact };
    let scratch = MatchCriteria { inout_sources: false, ..any_inout };
    let by_shape = MatchCriteria { scalars: false, external_inputs: false, ..any_inout };

    let mut pairing = Pairing::new(first, second, options.threads);
    if first.observations().is_some() && second.observations().is_some() {
        pairing.pair_queues(&by_shape);
    }
    pairing.pair_alike(&exact, true);
    while pairing.pair_alike(&any_inout, false) || pairing.pair_alike(&scratch, false) {}
    pairing.pair_alike(&any_inout, true);
    pairing.pair_alike(&scratch, true);
    pairing.pair_names(&by_shape);
    if !pairing.is_done() && same_identities(first, second) {
        pairing.pair_identities(&by_shape);
    }
    while pairing.pair_alike(&by_shape, false) {}
    pairing.pair_alike(&by_shape, true);
    pairing.pair_rest(&by_shape);
    if !pairing.is_done() && (first.gap.is_some() || second.gap.is_some()) {
        let by_kernel = MatchCriteria { args: false, ..by_shape };
        if same_identities(first, second) {
            pairing.pair_identities(&by_kernel);
        }
        pairing.pair_rest(&by_kernel);
    }
    pairing.finish(&by_shape)
}

fn kernel_key(first: &TaskGraph, second: &TaskGraph) -> KernelKey {
    let all = |is_known: fn(&Tasks, u32) -> bool| {
        [first.tasks(), second.tasks()].iter().all(|tasks| {
            let mut kernels = tasks.iter().flat_map(|t| t.facts().func_ids()).peekable();
            kernels.peek().is_some() && kernels.all(|id| is_known(tasks, id))
        })
    };
    if all(|tasks, id| tasks.kernel(id).is_some()) {
        KernelKey::Name
    } else if all(|_, _| true) {
        KernelKey::FuncId
    } else {
        KernelKey::Nothing
    }
}

fn step_key(first: &TaskGraph, second: &TaskGraph) -> StepKey {
    let (ours, theirs) = (first.tasks().steps(), second.tasks().steps());
    if ours.iter().any(|step| theirs.binary_search(step).is_ok()) { StepKey::Number } else { StepKey::Order }
}

fn same_identities(first: &TaskGraph, second: &TaskGraph) -> bool {
    let keys = |graph: &TaskGraph| graph.tasks().iter().map(|t| t.key()).collect::<HashSet<_>>();
    keys(first) == keys(second)
}

#[cfg(test)]
mod tests;
