//! Finds pairs of chosen tasks that are connected through tasks that are not chosen.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use tensortap::analysis::graph::TaskGraph;

/// Number of chosen ancestors remembered for each task that is not chosen: those that ran last.
const REMEMBERED: usize = 8;

/// Pairs of chosen tasks where content of the first reached the second through tasks that are not chosen.
/// Pairs implied by other pairs are omitted, so that a path is drawn as one line.
pub fn joined(graph: &TaskGraph, is_chosen: &dyn Fn(usize) -> bool) -> Vec<(usize, usize)> {
    // Chosen ancestors of each task that is not chosen, latest first.
    let mut ancestors: HashMap<usize, Vec<usize>> = HashMap::new();
    // All chosen ancestors of each chosen task.
    let mut before: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    let mut pairs = Vec::new();
    for task in graph.tasks().iter() {
        let given = task.arguments().flat_map(|arg| graph.producers_of(arg)).map(|output| output.task);
        let (mut own, mut through) = (Vec::new(), Vec::new());
        for from in given.filter(|&from| from < task.place()) {
            if is_chosen(from) {
                own.push(from)
            } else {
                through.extend(ancestors.get(&from).into_iter().flatten())
            }
        }
        if !is_chosen(task.place()) {
            through.extend(own);
            last_first(&mut through);
            through.truncate(REMEMBERED);
            if !through.is_empty() {
                ancestors.insert(task.place(), through);
            }
            continue;
        }
        let mut all = BTreeSet::new();
        last_first(&mut own);
        for from in own {
            all.extend(before.get(&from).into_iter().flatten().chain([&from]));
        }
        last_first(&mut through);
        for from in through {
            if all.insert(from) {
                all.extend(before.get(&from).into_iter().flatten());
                pairs.push((from, task.place()));
            }
        }
        before.insert(task.place(), all);
    }
    pairs
}

fn last_first(places: &mut Vec<usize>) {
    places.sort_unstable_by_key(|&place| Reverse(place));
    places.dedup();
}
