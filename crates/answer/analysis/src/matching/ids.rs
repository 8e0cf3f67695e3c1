//! When ids identify tasks.
//!
//! A scene numbers its tasks in the order of submission, so two runs of it number them alike. But an extra launch
//! shifts the ids of all later tasks, and the threads of a program number tasks as they come. So ids decide only if
//! they agree with every pair that is certain without them, and if nothing suggests that the runs have different
//! numbers of launches. A dump may lack tasks; then the ids that both dumps have are compared.

use std::collections::{BTreeMap, HashMap, HashSet};

use tensortap_abi::Role;
use tensortap_format::{Task, TaskKey};

use super::pairing::producing_pairs;
use super::signature::{MatchCriteria, StepKey, certain_arguments, is_external};
use crate::graph::{TaskGraph, lane};

/// The ids that may be trusted.
pub(super) enum TrustedIds {
    None,
    All,
    /// Up to a limit in each series: later ids may be shifted.
    UpTo(BTreeMap<Series, u64>),
}

/// Ids that count together: a step, and in it a ring of the runtime `tensormap_and_ringbuffer`.
type Series = (u64, u64);

impl TrustedIds {
    pub fn may_trust(&self, step: StepKey, graph: &TaskGraph, task: Task<'_>) -> bool {
        match self {
            TrustedIds::None => false,
            TrustedIds::All => true,
            TrustedIds::UpTo(limits) => {
                let (series, id) = series_of(step, graph, task);
                limits.get(&series).is_some_and(|&limit| id <= limit)
            }
        }
    }
}

fn series_of(step: StepKey, graph: &TaskGraph, task: Task<'_>) -> (Series, u64) {
    ((step.of(graph.tasks(), task), task.task_id >> 32), task.task_id & u64::from(u32::MAX))
}

/// The task with the same id in the same step.
pub(super) fn namesake(step: StepKey, from: &TaskGraph, task: Task<'_>, to: &TaskGraph) -> Option<usize> {
    let step = match step {
        StepKey::Number => task.step,
        StepKey::Order => {
            let at = usize::try_from(StepKey::Order.of(from.tasks(), task)).ok()?;
            *to.tasks().steps().get(at)?
        }
    };
    to.position(TaskKey { step, task_id: task.task_id })
}

/// Whether a dump lacks tasks of its run, not only arguments: its filters removed tasks, a dependency or a gap in the ids
/// shows that there were more, or the run ended early.
pub(crate) fn lacks_tasks(graph: &TaskGraph) -> bool {
    if graph.extent.ended_early {
        return true;
    }
    if graph.gap.is_none() {
        return false;
    }
    let has_open_edge = || {
        let is_open = |key| graph.position(key).is_none();
        graph.tasks().edges().iter().any(|edge| is_open(edge.producer()) || is_open(edge.consumer()))
    };
    graph.extent.filters_tasks.unwrap_or_else(|| has_open_edge() || has_missing_ids(graph))
}

/// Whether a dump has every scalar of every task.
pub(super) fn has_all_scalars(graph: &TaskGraph) -> bool {
    graph.tasks().iter().all(|task| {
        let captured = task.arguments().filter(|arg| arg.is_scalar()).count();
        task.argument_total().is_some() && captured == task.scalar_count as usize
    })
}

/// Whether the ids of some series do not begin at 0 or 1, or leave numbers out.
fn has_missing_ids(graph: &TaskGraph) -> bool {
    let mut series: BTreeMap<Series, (u64, u64, u64)> = BTreeMap::new();
    for task in graph.tasks().iter() {
        let (key, id) = series_of(StepKey::Number, graph, task);
        let (least, most, count) = series.entry(key).or_insert((id, id, 0));
        (*least, *most, *count) = ((*least).min(id), (*most).max(id), *count + 1);
    }
    let first_step = series.keys().next().map(|(step, _)| *step);
    series.into_iter().any(|((step, _), (least, most, count))| {
        // In later steps of a program, numbers go on.
        let begins = least <= 1 || Some(step) != first_step;
        !begins || most - least + 1 != count
    })
}

/// If both runs number equal graphs alike: the partner of every task of the first graph. Then the numbering agrees
/// with every pair that structure makes certain, so no colors are needed.
pub(super) fn pairs_of_equal_numbering(
    first: &TaskGraph,
    second: &TaskGraph,
    criteria: &MatchCriteria,
) -> Option<Vec<usize>> {
    let is_whole = first.gap.is_none() && second.gap.is_none();
    let ends_alike = !first.extent.ended_early && !second.extent.ended_early;
    if first.len() != second.len() || !ends_alike {
        return None;
    }
    let mut is_taken = vec![false; second.len()];
    let mut partners = Vec::with_capacity(first.len());
    for task in first.tasks().iter() {
        let place = namesake(criteria.step, first, task, second)?;
        let other = second.task(place);
        let are_alike = criteria.local(first.tasks(), task) == criteria.local(second.tasks(), other)
            && (task.scope(), task.task_name()) == (other.scope(), other.task_name());
        if !are_alike || std::mem::replace(&mut is_taken[place], true) {
            return None;
        }
        partners.push(place);
    }
    let may_be_shifted = have_equal_length(first, second, criteria.step, first.len()) == Some(false);
    if may_be_shifted || has_other_lanes(first, second, partners.iter().copied().enumerate()) {
        return None;
    }
    // Both sides by the position of the first graph's task.
    let ours: Vec<Option<usize>> = (0..first.len()).map(Some).collect();
    let mut theirs = vec![None; second.len()];
    partners.iter().enumerate().for_each(|(place, &partner)| theirs[partner] = Some(place));
    let same_inputs = |place: usize| {
        let (task, other) = (first.task(place), second.task(partners[place]));
        producing_pairs(first, task, &ours) == producing_pairs(second, other, &theirs)
            && (!is_whole
                || !criteria.external_inputs
                || has_equal_external_inputs((first, task), (second, other)))
    };
    (0..first.len()).all(same_inputs).then_some(partners)
}

fn has_equal_external_inputs(
    (first, task): (&TaskGraph, Task<'_>),
    (second, other): (&TaskGraph, Task<'_>),
) -> bool {
    certain_arguments(task).filter(|arg| arg.role == Role::Input).all(|arg| {
        let there = other.counterpart(arg);
        there.is_none_or(|there| {
            !is_external(first, task, arg)
                || !is_external(second, other, there)
                || arg.hash_before() == there.hash_before()
        })
    })
}

/// Whether these pairs do not assign the threads and queues of one run one by one to those of the other. The lanes of
/// scenes are chosen freely and do not count.
fn has_other_lanes(
    first: &TaskGraph,
    second: &TaskGraph,
    pairs: impl Iterator<Item = (usize, usize)>,
) -> bool {
    if !(first.others_write && second.others_write) {
        return false;
    }
    let (mut there, mut here) = (HashMap::new(), HashMap::new());
    pairs.into_iter().any(|(ours, theirs)| {
        let (ours, theirs) = (lane(first.task(ours)), lane(second.task(theirs)));
        *there.entry(ours).or_insert(theirs) != theirs || *here.entry(theirs).or_insert(ours) != ours
    })
}

/// The ids that agree with all pairs so far, which must be certain, and contradict no pair in `distinct`.
pub(super) fn trusted_ids(
    first: &TaskGraph,
    second: &TaskGraph,
    certain: impl Iterator<Item = (usize, usize)>,
    distinct: &[(usize, usize)],
    criteria: &MatchCriteria,
) -> TrustedIds {
    let step = criteria.step;
    let is_contradicted = |&(ours, theirs): &(usize, usize)| {
        namesake(step, first, first.task(ours), second).is_some_and(|other| other != theirs)
    };
    if distinct.iter().any(is_contradicted) {
        return TrustedIds::None;
    }
    let mut limits = BTreeMap::new();
    for (ours, theirs) in certain {
        if namesake(step, first, first.task(ours), second) != Some(theirs) {
            return TrustedIds::None;
        }
        let (series, id) = series_of(step, first, first.task(ours));
        let limit = limits.entry(series).or_insert(id);
        *limit = id.max(*limit);
    }
    let common: Vec<(usize, usize)> = first
        .tasks()
        .iter()
        .filter_map(|task| Some((task.place(), namesake(step, first, task, second)?)))
        .collect();
    if common.is_empty() || has_other_lanes(first, second, common.iter().copied()) {
        return TrustedIds::None;
    }
    match have_equal_length(first, second, step, common.len()) {
        Some(true) => TrustedIds::All,
        Some(false) => TrustedIds::UpTo(limits),
        None => {
            let fits = |&(ours, theirs): &(usize, usize)| {
                let (ours, theirs) =
                    ((first.tasks(), first.task(ours)), (second.tasks(), second.task(theirs)));
                criteria.is_compatible(ours, theirs)
            };
            if common.iter().all(fits) { TrustedIds::All } else { TrustedIds::UpTo(limits) }
        }
    }
}

/// Whether both runs launched equally many tasks, if something shows it. `common` is the number of ids that both have.
fn have_equal_length(first: &TaskGraph, second: &TaskGraph, step: StepKey, common: usize) -> Option<bool> {
    let is_whole = |graph: &TaskGraph| graph.gap.is_none() && !graph.extent.ended_early;
    if is_whole(first) && is_whole(second) {
        return Some(common == first.len() && common == second.len());
    }
    let records = first.extent.records.zip(second.extent.records);
    if records.is_some_and(|(ours, theirs)| ours == theirs) {
        return Some(true);
    }
    // Filters do not remove dependencies, so these show the ids of tasks that were not captured.
    let have_edges = !first.tasks().edges().is_empty() && !second.tasks().edges().is_empty();
    let ended_early = first.extent.ended_early || second.extent.ended_early;
    if have_edges && !ended_early && last_ids(first, step) == last_ids(second, step) {
        return Some(true);
    }
    records.map(|_| false)
}

/// The last known id of each series, also from dependencies of tasks that the dump lacks.
fn last_ids(graph: &TaskGraph, step: StepKey) -> BTreeMap<Series, u64> {
    let mut last = BTreeMap::new();
    let mut know = |(series, id): (Series, u64)| {
        let most = last.entry(series).or_insert(id);
        *most = id.max(*most);
    };
    graph.tasks().iter().for_each(|task| know(series_of(step, graph, task)));
    let steps = graph.tasks().steps();
    let known: HashSet<u32> = steps.iter().copied().collect();
    for key in graph.tasks().edges().iter().flat_map(|edge| [edge.producer(), edge.consumer()]) {
        if known.contains(&key.step) {
            let at = match step {
                StepKey::Number => key.step.into(),
                StepKey::Order => steps.partition_point(|&step| step < key.step) as u64,
            };
            know(((at, key.task_id >> 32), key.task_id & u64::from(u32::MAX)));
        }
    }
    last
}
