//! Which of some tasks were given what others of them left, through tasks between them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use tensortap::analysis::graph::TaskGraph;

/// Of the tasks behind one that is left out, so many are remembered: those that ran last.
const REMEMBERED: usize = 8;

/// Pairs of chosen tasks of which the second was given, through tasks that are not chosen, something of what the first left. A pair that
/// others make up together is left out, so that a way is one line.
pub fn joined(graph: &TaskGraph, is_chosen: &dyn Fn(usize) -> bool) -> Vec<(usize, usize)> {
    // The chosen tasks behind each task that is not, the last first.
    let mut behind: HashMap<usize, Vec<usize>> = HashMap::new();
    // All chosen tasks before each that is.
    let mut before: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    let mut pairs = Vec::new();
    for task in graph.tasks().iter() {
        let given = task.arguments().flat_map(|arg| graph.outputs_behind(arg)).map(|output| output.task);
        let (mut own, mut through) = (Vec::new(), Vec::new());
        for from in given.filter(|&from| from < task.place()) {
            if is_chosen(from) {
                own.push(from)
            } else {
                through.extend(behind.get(&from).into_iter().flatten())
            }
        }
        if !is_chosen(task.place()) {
            through.extend(own);
            last_first(&mut through);
            through.truncate(REMEMBERED);
            if !through.is_empty() {
                behind.insert(task.place(), through);
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
