//! The order of the calls of a thread.
//!
//! A thread makes one call after the other. Only here do times count: calls of one thread that overlap are nested, or were
//! recorded on behalf of others, and stay unordered. Commands of queues are asynchronous: the thread only enqueues them.

use std::collections::HashMap;

use tensortap_format::{Task, Tasks};

use super::small;

/// Limit on the number of open calls of a thread. Beyond it, some order is not known.
const MAX_OVERLAPPING: usize = 64;

/// Edges between the calls of each thread, by position of the tasks.
pub(super) fn edges_of_threads(tasks: &Tasks) -> Vec<(u32, u32)> {
    let mut threads: HashMap<u32, Vec<Call>> = HashMap::new();
    for task in tasks.iter() {
        if let Some((thread, call)) = call_of(task) {
            threads.entry(thread).or_default().push(call);
        }
    }
    let mut edges = Vec::new();
    for calls in threads.values_mut() {
        calls.sort_unstable_by_key(|call| (call.start, call.end));
        add_edges(calls, &mut edges);
    }
    edges
}

#[derive(Clone, Copy)]
struct Call {
    task: u32,
    start: u64,
    end: u64,
}

/// A call that a thread made itself, with the thread. Both of its times are known.
fn call_of(task: Task<'_>) -> Option<(u32, Call)> {
    let thread = task.thread.filter(|_| task.queue == 0)?;
    let (start, end) = (task.start_time()?, task.end_time()?);
    Some((thread, Call { task: small(task.place()), start, end }))
}

/// Edges to each call from the calls that ended before it began. Those that an edge to a later call implies are left out.
fn add_edges(calls: &[Call], edges: &mut Vec<(u32, u32)>) {
    let mut recent: Vec<Call> = Vec::new();
    for &call in calls {
        let has_ended = |earlier: &&Call| earlier.end < call.start;
        // A call that ended before another began, which has ended too: the edge between these two implies its edge.
        let latest_start = recent.iter().filter(has_ended).map(|earlier| earlier.start).max();
        recent.retain(|earlier| latest_start.is_none_or(|start| earlier.end >= start));
        edges.extend(recent.iter().filter(has_ended).map(|earlier| (earlier.task, call.task)));
        recent.push(call);
        if recent.len() > MAX_OVERLAPPING {
            recent.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(calls: &[(u64, u64)]) -> Vec<(u32, u32)> {
        let calls: Vec<Call> =
            (0..).zip(calls).map(|(task, &(start, end))| Call { task, start, end }).collect();
        let mut edges = Vec::new();
        add_edges(&calls, &mut edges);
        edges
    }

    #[test]
    fn calls_one_after_the_other_are_ordered() {
        assert_eq!(edges(&[(0, 1), (2, 3), (4, 5)]), [(0, 1), (1, 2)]);
    }

    #[test]
    fn overlapping_calls_are_not_ordered() {
        assert_eq!(edges(&[(0, 9), (2, 3), (10, 11)]), [(0, 2), (1, 2)]);
        assert_eq!(edges(&[(0, 3), (3, 4)]), []);
    }

    #[test]
    fn a_long_call_is_ordered_with_what_follows_it() {
        let found = edges(&[(0, 100), (1, 2), (3, 4), (5, 6), (101, 102)]);
        assert!(found.contains(&(0, 4)) && found.contains(&(3, 4)), "{found:?}");
        assert!(!found.iter().any(|&(from, to)| from == 0 && to < 4), "{found:?}");
    }
}
