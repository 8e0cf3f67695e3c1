//! Which task of one dump is which of another.
//!
//! Task identities differ between runtimes, and independent tasks may be submitted in any order. So tasks are matched by what
//! they are: kernels, arguments, scalars, the tasks that their inputs came from, the tasks that took their outputs, and the
//! content of inputs that no task wrote. Content that a task wrote does not count: it may be what is wrong.
//!
//! What everything tells apart is paired first. Then less is asked of those that are left: scratch memory that nobody
//! initialised has any content, and an input of the whole graph may itself be wrong. Where both dumps have the same identities
//! these decide before anything vague does. Tasks that nothing tells apart are interchangeable and are paired in order. Where a dump
//! is incomplete, kernels and order must do in the end.
//!
//! Names that people gave to scopes and tasks come second: among tasks that look alike those of one name belong together, and what
//! structure leaves over is paired by name before anything vague decides. They never part what structure joins.
//!
//! Where roles are not known, where content came from is what was observed, and differs where something is wrong. Then tasks of one
//! queue that look alike by themselves are paired from its beginning and from its end, before anything else decides.
//!
//! Where one dump holds several runs, a task belongs to its own step alone: to that of the same number in the other dump, or,
//! where the two have no number in common, to the one that stands in the same place.

mod pairing;
mod reasons;
mod signature;

use std::collections::HashSet;

use tensortap_format::Tasks;

use crate::graph::TaskGraph;
use pairing::Pairing;
use signature::{KernelKey, StepKey, Traits};

/// What may differ between the two dumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchOptions {
    /// The golden may have other float dtypes.
    pub ignore_float_dtype: bool,
    /// One of the dumps does not say how often a task was dispatched.
    pub ignore_blocks: bool,
    /// Threads that may work at a time; none and one are the same.
    pub threads: usize,
}

/// Which tasks of two graphs are the same; positions in [`TaskGraph::tasks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// The task of the second graph, for each of the first.
    pub partner: Vec<Option<usize>>,
    /// Tasks of the first graph without one.
    pub only_first: Vec<Unmatched>,
    /// Tasks of the second graph without one.
    pub only_second: Vec<Unmatched>,
}

/// A task that has no partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// Its position.
    pub task: usize,
    /// Why.
    pub reason: String,
}

/// Matches the tasks of two graphs.
#[must_use]
pub fn match_tasks(first: &TaskGraph, second: &TaskGraph, options: MatchOptions) -> Matching {
    let exact = Traits {
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
    let any_inout = Traits { external_inouts: false, ..exact };
    let scratch = Traits { inout_sources: false, ..any_inout };
    let by_shape = Traits { scalars: false, external_inputs: false, ..any_inout };

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
        let by_kernel = Traits { args: false, ..by_shape };
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
