//! Computes an order of tasks in which each task comes after those that it waited for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::EdgeIndex;

/// Positions of tasks in dependency order. `starts` has a number per task that grows in the order in which
/// tasks started. `edges` are pairs of positions: the producer and the task that waits.
///
/// A task that started too late, after one that should have waited for it, is placed directly before that
/// one, where it should have started. So time separates reuses of the same memory, and a race does not
/// reverse the order. Cycles, which only damaged dumps have, are broken at the task that started first.
pub(super) fn dependency_order(starts: &[u64], edges: &[(u32, u32)]) -> Vec<usize> {
    let successors =
        Successors { edges, of: EdgeIndex::of(starts.len(), edges.iter().map(|e| e.0 as usize)) };
    let topological = topological(starts, &successors);
    let mut due = starts.to_vec();
    let mut rank = vec![0; starts.len()];
    for (place, &task) in topological.iter().enumerate() {
        rank[task] = place;
    }
    for &task in topological.iter().rev() {
        for successor in successors.task(task) {
            if rank[successor] > rank[task] {
                due[task] = due[task].min(due[successor]);
            }
        }
    }
    let mut order = topological;
    order.sort_by_key(|&task| (due[task], rank[task]));
    order
}

/// The tasks that wait for each task.
struct Successors<'e> {
    edges: &'e [(u32, u32)],
    of: EdgeIndex,
}

impl Successors<'_> {
    fn task(&self, task: usize) -> impl Iterator<Item = usize> {
        let waiting = self.of.task(task).iter().map(|&edge| self.edges[edge].1 as usize);
        waiting.filter(move |&waits| waits != task)
    }
}

fn topological(starts: &[u64], successors: &Successors<'_>) -> Vec<usize> {
    let mut waiting = vec![0_u32; starts.len()];
    successors.edges.iter().filter(|(from, to)| from != to).for_each(|&(_, to)| waiting[to as usize] += 1);
    let mut done = vec![false; starts.len()];
    let mut order = Vec::with_capacity(starts.len());
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
        (0..starts.len()).filter(|&t| waiting[t] == 0).map(|t| Reverse((starts[t], t))).collect();
    let mut by_start: Vec<usize> = (0..starts.len()).collect();
    by_start.sort_by_key(|&t| (starts[t], t));
    let mut in_circles = by_start.into_iter();
    while order.len() < starts.len() {
        let next = match ready.pop() {
            Some(Reverse((_, task))) => Some(task),
            None => in_circles.find(|&task| !done[task]),
        };
        let Some(task) = next else { break };
        if std::mem::replace(&mut done[task], true) {
            continue;
        }
        order.push(task);
        for successor in successors.task(task) {
            waiting[successor] = waiting[successor].saturating_sub(1);
            if waiting[successor] == 0 && !done[successor] {
                ready.push(Reverse((starts[successor], successor)));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_edges_the_order_is_that_of_the_start_times() {
        assert_eq!(dependency_order(&[30, 10, 20], &[]), [1, 2, 0]);
    }

    #[test]
    fn a_task_that_started_too_late_comes_before_the_one_that_should_have_waited() {
        // Task 0 started last although 1 waits for it. Task 2 is unrelated and started in between.
        assert_eq!(dependency_order(&[90, 10, 20], &[(0, 1)]), [0, 1, 2]);
        // The same through an intermediate task.
        assert_eq!(dependency_order(&[90, 95, 10, 20], &[(0, 1), (1, 2)]), [0, 1, 2, 3]);
    }

    #[test]
    fn a_cycle_is_broken_at_the_earliest_start_and_loses_no_task() {
        let order = dependency_order(&[5, 4, 3, 1], &[(0, 1), (1, 0), (1, 2), (2, 2)]);
        assert_eq!(order[0], 3);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_edge_is_respected_for_any_start_times(
            starts in proptest::collection::vec(0_u64..50, 1..40),
            pairs in proptest::collection::vec((0_u32..40, 0_u32..40), 0..80),
        ) {
            let tasks = u32::try_from(starts.len()).unwrap();
            let edges: Vec<_> = pairs
                .into_iter()
                .map(|(a, b)| (a % tasks, b % tasks))
                .filter(|(a, b)| a < b)
                .collect();
            let order = dependency_order(&starts, &edges);
            let mut rank = vec![usize::MAX; starts.len()];
            for (place, &task) in order.iter().enumerate() {
                rank[task] = place;
            }
            prop_assert_eq!(order.len(), starts.len());
            for (from, to) in edges {
                prop_assert!(rank[from as usize] < rank[to as usize]);
            }
        }
    }
}
