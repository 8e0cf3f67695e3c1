//! The edges between the tasks that a dump has, including indirect edges through tasks that it lacks.

use std::collections::{HashMap, HashSet};

use tensortap_format::{TaskKey, Tasks};

use super::small;
use crate::graph::TaskIndex;

/// Edges between positions of tasks, and the tasks with missing edges. A task that a filter removed passes
/// its predecessors on to the tasks after it.
pub(super) fn edges_between(tasks: &Tasks, places: &TaskIndex) -> (Vec<(u32, u32)>, Vec<u32>) {
    let mut cut = Vec::new();
    let mut edges = Vec::with_capacity(tasks.edges().len());
    let mut before: HashMap<TaskKey, Vec<TaskKey>> = HashMap::new();
    for edge in tasks.edges() {
        match (places.get(edge.producer()), places.get(edge.consumer())) {
            (Some(from), Some(to)) => edges.push((small(from), small(to))),
            (_, None) => before.entry(edge.consumer()).or_default().push(edge.producer()),
            (None, Some(_)) => {}
        }
    }
    if before.is_empty() {
        return (edges, cut);
    }
    let mut known: HashMap<TaskKey, KnownPredecessors> = HashMap::new();
    for edge in tasks.edges() {
        if let (None, Some(to)) = (places.get(edge.producer()), places.get(edge.consumer())) {
            let predecessors = known_predecessors(edge.producer(), &before, places, &mut known);
            edges.extend(predecessors.tasks.iter().map(|&from| (from, small(to))));
            if predecessors.is_cut {
                cut.push(small(to));
            }
        }
    }
    (edges, cut)
}

/// The predecessors in the dump of a task that the dump lacks.
#[derive(Debug, Default)]
struct KnownPredecessors {
    tasks: Vec<u32>,
    /// Whether some predecessors are missing.
    is_cut: bool,
}

/// Limit on the predecessors of a missing task. Beyond it, some order is not known.
const MAX_PREDECESSORS: usize = 64;

/// The predecessors in the dump of a task that the dump lacks.
fn known_predecessors<'k>(
    key: TaskKey,
    before: &HashMap<TaskKey, Vec<TaskKey>>,
    places: &TaskIndex,
    known: &'k mut HashMap<TaskKey, KnownPredecessors>,
) -> &'k KnownPredecessors {
    // Depth first, so that predecessors are known before their successors. A cycle, which only damaged dumps
    // have, ends where it began.
    let mut open = vec![key];
    let mut entered: HashSet<TaskKey> = HashSet::new();
    while let Some(&next) = open.last() {
        if known.contains_key(&next) {
            open.pop();
            continue;
        }
        let waits = before.get(&next).map_or(&[][..], Vec::as_slice);
        let is_missing = |wait: &&TaskKey| places.get(**wait).is_none() && !known.contains_key(*wait);
        let missing: Vec<TaskKey> = waits.iter().filter(is_missing).copied().collect();
        if entered.insert(next) && !missing.is_empty() {
            open.extend(missing.into_iter().filter(|wait| !entered.contains(wait)));
            continue;
        }
        open.pop();
        let (mut all, mut is_cut): (Vec<u32>, bool) = (Vec::new(), false);
        for wait in waits {
            match places.get(*wait) {
                Some(place) => all.push(small(place)),
                None => {
                    let handed = known.get(wait);
                    all.extend(handed.into_iter().flat_map(|handed| &handed.tasks));
                    is_cut |= handed.is_some_and(|handed| handed.is_cut);
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        // The latest tasks imply most of the others.
        let first = all.len().saturating_sub(MAX_PREDECESSORS);
        known.insert(next, KnownPredecessors { tasks: all.split_off(first), is_cut: is_cut || first > 0 });
    }
    known.entry(key).or_default()
}
