//! Sequences of tasks whose order the program or the orchestration decides: queues, threads and scopes.
//!
//! The tasks of a queue keep their order from run to run. So do the tasks of a scope, because one thread submits them.
//! Threads of a pool take work as it comes. So threads are only paired if they do distinguishable work, or if each
//! run has only one. If a dump lacks tasks, what is left of the work does not distinguish threads.

use std::collections::{BTreeMap, HashMap};

use super::signature::{StepKey, hash_of};
use crate::graph::TaskGraph;

/// The same sequence in both runs, each in submission order.
pub(super) struct LanePair {
    pub first: Vec<usize>,
    pub second: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey<'g> {
    Queue(u64, u32),
    /// A thread of a recorded program.
    Thread(u64, Option<u32>),
    Scope(u64, Option<&'g str>),
}

type Lanes<'g> = BTreeMap<LaneKey<'g>, Vec<usize>>;

/// Pairs the sequences of two runs. `colors` are those of single tasks.
pub(super) fn lane_pairs(
    (first, second): (&TaskGraph, &TaskGraph),
    colors: [&[u64]; 2],
    step: StepKey,
    lacks_tasks: bool,
) -> Vec<LanePair> {
    let is_program = first.others_write && second.others_write;
    let [ours, mut theirs] = [first, second].map(|graph| lanes_of(graph, step, is_program));
    let mut pairs = Vec::new();
    let mut threads: BTreeMap<u64, [Vec<Vec<usize>>; 2]> = BTreeMap::new();
    for (key, first) in ours {
        match (key, theirs.remove(&key)) {
            (LaneKey::Thread(step, _), second) => {
                let [of_first, of_second] = threads.entry(step).or_default();
                of_first.push(first);
                of_second.extend(second);
            }
            (_, Some(second)) => pairs.push(LanePair { first, second }),
            (_, None) => {}
        }
    }
    if is_program {
        drop_unsteady_queues(&mut pairs, colors);
    }
    for (key, second) in theirs {
        if let LaneKey::Thread(step, _) = key {
            threads.entry(step).or_default()[1].push(second);
        }
    }
    let is_single = |[ours, theirs]: &[Vec<Vec<usize>>; 2]| ours.len() <= 1 && theirs.len() <= 1;
    let threads = threads.into_values().filter(|threads| !lacks_tasks || is_single(threads));
    pairs.extend(threads.flat_map(|threads| pair_threads(threads, colors)));
    pairs
}

/// Drops the pairs of queues with unlike tasks, if some tasks have moved from one queue to another one. Then the queues are
/// those of a pool, which take work as it comes.
fn drop_unsteady_queues(queues: &mut Vec<LanePair>, colors: [&[u64]; 2]) {
    let mut surplus: Vec<HashMap<u64, i64>> = vec![HashMap::new(); queues.len()];
    for (queue, surplus) in queues.iter().zip(&mut surplus) {
        queue.first.iter().for_each(|&place| *surplus.entry(colors[0][place]).or_default() += 1);
        queue.second.iter().for_each(|&place| *surplus.entry(colors[1][place]).or_default() -= 1);
    }
    let mut signs: HashMap<u64, (bool, bool)> = HashMap::new();
    for (&color, &count) in surplus.iter().flatten() {
        let (has_more, has_less) = signs.entry(color).or_default();
        *has_more |= count > 0;
        *has_less |= count < 0;
    }
    if signs.values().any(|&(has_more, has_less)| has_more && has_less) {
        let work =
            |places: &[usize], colors: &[u64]| places.iter().map(|&place| colors[place]).collect::<Vec<_>>();
        queues.retain(|queue| work(&queue.first, colors[0]) == work(&queue.second, colors[1]));
    }
}

fn lanes_of(graph: &TaskGraph, step: StepKey, is_program: bool) -> Lanes<'_> {
    let mut lanes = Lanes::new();
    for task in graph.tasks().iter() {
        let at = step.of(graph.tasks(), task);
        let key = match task.queue {
            0 if is_program => LaneKey::Thread(at, task.thread),
            0 => LaneKey::Scope(at, task.scope()),
            queue => LaneKey::Queue(at, queue),
        };
        lanes.entry(key).or_default().push(task.place());
    }
    // By task number, which is the order of submission. The order of execution may differ.
    lanes.values_mut().for_each(|places| places.sort_by_key(|&place| graph.task(place).task_id));
    lanes
}

/// Pairs threads that do the same work, if no other thread does it, and then the last one of each run.
fn pair_threads([ours, theirs]: [Vec<Vec<usize>>; 2], colors: [&[u64]; 2]) -> Vec<LanePair> {
    let work = |lanes: &[Vec<usize>], colors: &[u64]| -> Vec<u64> {
        lanes.iter().map(|lane| hash_of(&lane.iter().map(|&p| colors[p]).collect::<Vec<_>>())).collect()
    };
    let (first_work, second_work) = (work(&ours, colors[0]), work(&theirs, colors[1]));
    let places = |all: &[u64]| {
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        all.iter().enumerate().for_each(|(at, &work)| places.entry(work).or_default().push(at));
        places
    };
    let (first_places, second_places) = (places(&first_work), places(&second_work));
    let mut left: Vec<Option<Vec<usize>>> = theirs.into_iter().map(Some).collect();
    let (mut pairs, mut open) = (Vec::new(), Vec::new());
    for (first, &work) in ours.into_iter().zip(&first_work) {
        let same = match (&first_places[&work][..], second_places.get(&work).map(Vec::as_slice)) {
            ([_], Some(&[at])) => left[at].take(),
            _ => None,
        };
        match same {
            Some(second) => pairs.push(LanePair { first, second }),
            None => open.push(first),
        }
    }
    let mut left: Vec<Vec<usize>> = left.into_iter().flatten().collect();
    if let ([_], [_]) = (&open[..], &left[..]) {
        let (first, second) = (open.remove(0), left.remove(0));
        pairs.push(LanePair { first, second });
    }
    pairs
}
