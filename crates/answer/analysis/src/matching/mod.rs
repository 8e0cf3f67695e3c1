//! Matches the tasks of two dumps.
//!
//! Ids differ between runtimes, and independent tasks may be submitted in any order. So tasks are matched by
//! structure: kernels, arguments, scalars, the tasks that produced their inputs, the tasks that read their
//! outputs, and the content of inputs that no task wrote. Content that a task wrote is not used, because it
//! may be what is wrong.
//!
//! The matching goes from strict to loose criteria. First, tasks are paired that are unique under all criteria. Then
//! ids decide, if they agree with every pair so far (see [`ids`]). Then criteria are dropped for the remaining tasks:
//! scratch memory may hold any content, and an input of the whole graph may itself be wrong. Runs with different
//! structure are aligned in submission order, queue by queue or scope by scope (see [`align`]).
//!
//! A pair is certain if no other pair fits as well. Tasks that nothing distinguishes are paired in order, and
//! [`Matching::uncertain`] has the reason. Interchangeable tasks are certain if the golden recorded equal contents for
//! all of them, because then the choice changes nothing.
//!
//! If a dump lacks records, content without a producer may come from a task that was not captured. Then it is not used.
//!
//! Names of scopes and tasks come second. Among structurally equal tasks, equal names are paired first. Tasks
//! that structure leaves over are paired by name before looser criteria. A name never separates tasks that
//! structure pairs.
//!
//! With unknown roles, producers follow from observations, which differ where something is wrong. So the tasks of each
//! queue are aligned first.
//!
//! If a dump has several steps, tasks are only paired within corresponding steps: steps of the same number,
//! or of the same rank if the dumps have no step number in common.

mod align;
mod classes;
mod doubts;
mod ids;
mod lanes;
mod pairing;
mod reasons;
mod signature;
mod stretches;

use std::collections::{HashMap, HashSet};

use tensortap_format::{Task, Tasks};

use crate::graph::TaskGraph;
use ids::TrustedIds;
pub(crate) use ids::lacks_tasks;
use pairing::{Completeness, Pairing, name_of};
use signature::{KernelKey, MatchCriteria, StepKey, hash_of};

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
    /// Pairs that are not certain, by the position of the first graph's task, with the reason in words. Such a
    /// pair is never evidence against a task.
    pub uncertain: HashMap<usize, String>,
    /// Where the runs stop lining up. `None` if every task has a partner, or if a dump lacks tasks.
    pub parts_at: Option<UnmatchedStretch>,
    /// Tasks of the first graph whose name no other task of their step has, in either dump, or whose kernels. Only in programs
    /// with several threads or queues, where positions and ids say less.
    pub identified: HashSet<usize>,
    /// Whether these are programs with several threads or queues, which may start tasks in another order each time.
    pub may_be_reordered: bool,
    /// Tasks of the first graph without a partner.
    pub only_first: Vec<UnmatchedTask>,
    /// Tasks of the second graph without a partner.
    pub only_second: Vec<UnmatchedTask>,
}

impl Matching {
    /// The same pairs without those that are not certain.
    #[must_use]
    pub fn certain(&self) -> Matching {
        let certain =
            |(ours, other): (usize, &Option<usize>)| other.filter(|_| !self.uncertain.contains_key(&ours));
        let partner = self.partner.iter().enumerate().map(certain).collect();
        Matching { partner, uncertain: HashMap::new(), ..self.clone() }
    }
}

/// Consecutive tasks of one queue, thread or scope without a partner, in submission order. The runs may have different
/// numbers of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnmatchedStretch {
    /// Position of the matched task of the first graph before them; `None` at the beginning.
    pub after: Option<usize>,
    /// Positions of the first graph's tasks.
    pub first: Vec<usize>,
    /// Positions of the second graph's tasks.
    pub second: Vec<usize>,
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
        ignore_guessed_sizes: have_other_guesses(first, second),
        args: true,
        scalars: true,
        external_inputs: !options.ignore_float_dtype,
        external_inouts: !options.ignore_float_dtype,
        inout_sources: true,
    };
    let identified = identified(first, second, exact.step);
    let by_number = ids::pairs_of_equal_numbering(first, second, &exact);
    // Threads and pools may exchange tasks that only differ in what they write.
    let may_be_exchanged =
        |partners: &Vec<usize>| doubts::may_be_exchanged((first, second), partners, &identified, &exact);
    if let Some(partners) = by_number.filter(|partners| !may_be_exchanged(partners)) {
        let partner = partners.into_iter().map(Some).collect();
        let may_be_reordered = may_be_reordered(first, second);
        return Matching { partner, identified, may_be_reordered, ..Matching::default() };
    }
    let complete = Completeness {
        is_whole: [first, second].iter().all(|graph| graph.gap.is_none()),
        lacks_tasks: [lacks_tasks(first), lacks_tasks(second)],
    };
    let pairing = Pairing::new(first, second, complete, identified, options.threads);
    Matcher { pairing, exact }.match_all()
}

/// Whether these are programs with several threads or queues, which may start tasks in another order each time.
fn may_be_reordered(first: &TaskGraph, second: &TaskGraph) -> bool {
    let graphs = [first, second];
    graphs.iter().all(|graph| graph.others_write) && graphs.iter().any(|graph| graph.has_several_lanes())
}

/// See [`Matching::identified`].
fn identified(first: &TaskGraph, second: &TaskGraph, step: StepKey) -> HashSet<usize> {
    let graphs = [first, second];
    if !may_be_reordered(first, second) {
        return HashSet::new();
    }
    let mut found = only_ones(graphs, step, name_of);
    if graphs.iter().all(|graph| graph.extent.has_whole_kernels) {
        let kernels_of = |task: Task<'_>| {
            let kernels = task.kernel_names();
            (!kernels.is_empty()).then(|| hash_of(&kernels))
        };
        found.extend(only_ones(graphs, step, kernels_of));
    }
    found
}

/// The tasks of the first graph that are the only ones of their step with something, in both graphs.
fn only_ones(graphs: [&TaskGraph; 2], step: StepKey, of: impl Fn(Task<'_>) -> Option<u64>) -> HashSet<usize> {
    let [ours, theirs] = graphs.map(|graph| {
        let mut places: HashMap<(u64, u64), Option<usize>> = HashMap::new();
        for task in graph.tasks().iter() {
            let Some(key) = of(task) else { continue };
            let place = places.entry((step.of(graph.tasks(), task), key));
            place.and_modify(|known| *known = None).or_insert(Some(task.place()));
        }
        places
    });
    let is_single = |key: &(u64, u64)| theirs.get(key).is_none_or(Option::is_some);
    ours.iter().filter(|(key, _)| is_single(key)).filter_map(|(_, place)| *place).collect()
}

/// The stages of a matching.
struct Matcher<'g> {
    pairing: Pairing<'g>,
    exact: MatchCriteria,
}

impl Matcher<'_> {
    fn match_all(self) -> Matching {
        let Matcher { mut pairing, mut exact } = self;
        let (first, second, complete) = (pairing.first, pairing.second, pairing.complete);
        // Content without a producer may come from a task that was not captured.
        exact.external_inputs &= complete.is_whole;
        exact.external_inouts &= complete.is_whole;
        let any_inout = MatchCriteria { external_inouts: false, ..exact };
        let scratch = MatchCriteria { inout_sources: false, ..any_inout };
        let by_shape = MatchCriteria { scalars: false, external_inputs: false, ..any_inout };
        let by_kernel = MatchCriteria { args: false, ..by_shape };
        let alone = if complete.is_whole { by_shape } else { by_kernel };
        let [colors, others] = pairing.local_colors(&alone);
        let lacks_tasks = complete.lacks_tasks.contains(&true);
        let lanes = lanes::lane_pairs((first, second), [&colors, &others], exact.step, lacks_tasks);
        pairing.note_positions(&lanes, [&colors, &others]);
        let [named, other_named] = pairing.named_colors(&alone);
        let by_name = [&named[..], &other_named[..]];

        let are_observed = first.observations().is_some() && second.observations().is_some();
        if are_observed {
            pairing.align(&lanes, by_name, &exact, false);
            pairing.pair_origins(&any_inout);
        }
        let ties = if complete.is_whole {
            let ties = pairing.pair_unique(&exact).1;
            pairing.pair_unique_names(&ties);
            ties
        } else {
            if ids::has_all_scalars(first) && ids::has_all_scalars(second) {
                let by_scalars = MatchCriteria { scalars: true, ..by_kernel };
                let [colors, others] = pairing.named_colors(&by_scalars);
                pairing.pair_distinct(&colors, &others);
            }
            pairing.pair_distinct(by_name[0], by_name[1]);
            Vec::new()
        };
        let distinct = pairing.distinct_pairs(&by_shape, &exact);
        let ids = ids::trusted_ids(first, second, pairing.certain_pairs(), &distinct, &by_shape);
        pairing.has_equal_ids = matches!(ids, TrustedIds::All);
        pairing.pair_identities(&ids, &by_shape);
        if !complete.is_whole && matches!(ids, TrustedIds::All) {
            // The other dump lacks the rest.
            return pairing.finish(&by_shape, &lanes);
        }
        pairing.pair_ties(ties);
        if !complete.is_whole {
            pairing.align(&lanes, by_name, &exact, false);
            pairing.pair_alike(&exact);
        }
        while pairing.pair_unique(&any_inout).0 || pairing.pair_unique(&scratch).0 {}
        pairing.pair_alike(&any_inout);
        pairing.pair_alike(&scratch);
        pairing.align(&lanes, by_name, &exact, false);
        pairing.pair_origins(&any_inout);
        pairing.pair_names(&by_shape);
        while pairing.pair_unique(&by_shape).0 {}
        pairing.align(&lanes, [&colors, &others], &exact, false);
        pairing.pair_alike(&by_shape);
        pairing.align(&lanes, [&colors, &others], &exact, true);
        pairing.pair_rest(&by_shape);
        if !complete.is_whole {
            pairing.pair_rest(&by_kernel);
        }
        pairing.finish(&by_shape, &lanes)
    }
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

/// Whether the sizes of arguments whose extent is a guess mean nothing: few of them are in both runs. A pointer reaches to
/// the end of its allocation, so all of them change with the place of a block in it.
fn have_other_guesses(first: &TaskGraph, second: &TaskGraph) -> bool {
    /// If fewer than this many in a hundred sizes are in both runs, that is by chance.
    const LEAST_PERCENT: usize = 75;
    let guesses = |graph: &TaskGraph| -> Vec<(Vec<String>, u16, Vec<u64>)> {
        let args = graph.tasks().iter().flat_map(|task| {
            let guessed = task.arguments().filter(|arg| !arg.extent_known && !arg.is_scalar());
            guessed.map(move |arg| (task.kernel_names(), arg.arg_index, arg.shape().to_vec()))
        });
        args.collect()
    };
    let (ours, theirs) = (guesses(first), guesses(second));
    let known: HashSet<_> = theirs.iter().collect();
    let common = ours.iter().filter(|guess| known.contains(guess)).count();
    common * 100 < ours.len() * LEAST_PERCENT
}

fn step_key(first: &TaskGraph, second: &TaskGraph) -> StepKey {
    let (ours, theirs) = (first.tasks().steps(), second.tasks().steps());
    if ours.iter().any(|step| theirs.binary_search(step).is_ok()) { StepKey::Number } else { StepKey::Order }
}

#[cfg(test)]
mod tests;
