//! An order of tasks in which each stands behind those it had to wait for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::places::EdgesAt;

/// Positions of tasks in dependency order. `starts` has a number per task that grows in the order in which tasks were really
/// started; `edges` are pairs of positions (waited for, waits).
///
/// A task that was started too late, behind one that should have waited for it, stands directly before that one: where it
/// should have been. So memory that is used again is told apart by time, and a race does not turn the order round. Edges in a
/// circle, which only damage can make, are followed as far as they can be.
pub(super) fn dependency_order(starts: &[u64], edges: &[(u32, u32)]) -> Vec<usize> {
    let successors = Successors { edges, of: EdgesAt::of(starts.len(), edges.iter().map(|e| e.0 as usize)) };
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

/// Who waits for each task.
struct Successors<'e> {
    edges: &'e [(u32, u32)],
    of: EdgesAt,
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
    fn without_edges_the_order_is_that_of_the_starts() {
        assert_eq!(dependency_order(&[30, 10, 20], &[]), [1, 2, 0]);
    }

    #[test]
    fn a_task_started_too_late_stands_before_the_one_that_should_have_waited() {
        // Task 0 was started last, though 1 waits for it; 2 has nothing to do with them and lies between in time.
        assert_eq!(dependency_order(&[90, 10, 20], &[(0, 1)]), [0, 1, 2]);
        // Also through a task between them.
        assert_eq!(dependency_order(&[90, 95, 10, 20], &[(0, 1), (1, 2)]), [0, 1, 2, 3]);
    }

    #[test]
    fn a_circle_is_cut_where_it_began_and_loses_no_task() {
        let order = dependency_order(&[5, 4, 3, 1], &[(0, 1), (1, 0), (1, 2), (2, 2)]);
        assert_eq!(order[0], 3);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_edge_is_kept_whatever_the_times(
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
