//! The edges of a dump between the tasks that it has.

use std::collections::{HashMap, HashSet};

use tensortap_format::{TaskKey, Tasks};

use super::small;
use crate::graph::Places;

/// Edges between positions of tasks, and tasks that others are before which are not among them. Who is not in the dump, for a filter
/// kept it out, hands on what it waited for.
pub(super) fn edges_between(tasks: &Tasks, places: &Places) -> (Vec<(u32, u32)>, Vec<u32>) {
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
    let mut known: HashMap<TaskKey, HandedOn> = HashMap::new();
    for edge in tasks.edges() {
        if let (None, Some(to)) = (places.get(edge.producer()), places.get(edge.consumer())) {
            let behind = handed_on(edge.producer(), &before, places, &mut known);
            edges.extend(behind.tasks.iter().map(|&from| (from, small(to))));
            if behind.is_cut {
                cut.push(small(to));
            }
        }
    }
    (edges, cut)
}

/// The tasks of the dump that one stands behind which is not in it.
#[derive(Debug, Default)]
struct HandedOn {
    tasks: Vec<u32>,
    /// There are more.
    is_cut: bool,
}

/// As many tasks stand for one that is not in the dump; with more, some order is not known.
const MOST_HANDED_ON: usize = 64;

/// The tasks of the dump that one stands behind which is not in it.
fn handed_on<'k>(
    key: TaskKey,
    before: &HashMap<TaskKey, Vec<TaskKey>>,
    places: &Places,
    known: &'k mut HashMap<TaskKey, HandedOn>,
) -> &'k HandedOn {
    // Depth first, each when all before it are known; edges in a circle, which only damage can make, end where they began.
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
        // The latest stand for most of the others.
        let first = all.len().saturating_sub(MOST_HANDED_ON);
        known.insert(next, HandedOn { tasks: all.split_off(first), is_cut: is_cut || first > 0 });
    }
    known.entry(key).or_default()
}
