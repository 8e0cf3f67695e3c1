//! Where errors began, and how one reached the end.

use std::collections::{HashMap, VecDeque};

use super::{Finding, Label};
use crate::graph::TaskGraph;

/// The tasks at which an error began and that no other error led to, in dependency order.
#[must_use]
pub fn first_wrong(graph: &TaskGraph, findings: &[Finding]) -> Vec<usize> {
    let mut tainted = vec![false; graph.tasks.len()];
    let mut first = Vec::new();
    for (place, (task, finding)) in graph.tasks.iter().zip(findings).enumerate() {
        let led_to = task.args.iter().flat_map(|a| &a.origin.sources).any(|s| tainted[s.task]);
        if finding.label.is_root() && !led_to {
            first.push(place);
        }
        tainted[place] = led_to || finding.label.is_root();
    }
    first
}

/// A shortest way by which the error of a task reached the last task that shows it: that task, those that passed it on, the
/// last. Alone when nobody passed it on.
#[must_use]
pub fn chain(graph: &TaskGraph, findings: &[Finding], from: usize) -> Vec<usize> {
    let consumers = graph.consumers();
    let passes = |task: usize| matches!(findings[task].label, Label::Inherited | Label::Raced);
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    let mut last = from;
    while let Some(task) = queue.pop_front() {
        last = last.max(task);
        for &next in consumers[task].iter().filter(|&&next| passes(next)) {
            came_from.entry(next).or_insert_with(|| {
                queue.push_back(next);
                task
            });
        }
    }
    let mut chain = vec![last];
    while let Some(&before) = came_from.get(&chain[chain.len() - 1]) {
        chain.push(before);
    }
    chain.reverse();
    chain
}
