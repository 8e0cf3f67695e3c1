//! Indexes of tasks by key and of edges by task. An edge takes two numbers and no search, because a graph may
//! have many times more edges than tasks.

use tensortap_format::{TaskKey, Tasks};

/// Positions of tasks by key. Consecutive ids form a run, in which a position is found by counting.
pub(crate) struct TaskIndex {
    /// For each run of consecutive ids: its first key and where it begins in `places`.
    runs: Vec<(TaskKey, usize)>,
    places: Vec<usize>,
}

impl TaskIndex {
    pub fn of(tasks: &Tasks) -> TaskIndex {
        let mut named: Vec<(TaskKey, usize)> = tasks.iter().map(|task| (task.key(), task.place())).collect();
        named.sort_unstable();
        // Duplicate keys occur only in damaged dumps; the last one counts.
        named.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 = if same { later.1 } else { first.1 };
            same
        });
        let mut runs: Vec<(TaskKey, usize)> = Vec::new();
        for (at, &(key, _)) in named.iter().enumerate() {
            let is_next = runs.last().is_some_and(|&(first, start)| above(first, key) == Some(at - start));
            if !is_next {
                runs.push((key, at));
            }
        }
        TaskIndex { runs, places: named.into_iter().map(|(_, place)| place).collect() }
    }

    /// The position of a task.
    pub fn get(&self, key: TaskKey) -> Option<usize> {
        let run = self.runs.partition_point(|(first, _)| *first <= key).checked_sub(1)?;
        let (first, start) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.places.len(), |(_, next)| *next);
        self.places[..end].get(start.checked_add(above(first, key)?)?).copied()
    }
}

/// The distance between two ids of the same step.
fn above(first: TaskKey, key: TaskKey) -> Option<usize> {
    let ids = key.task_id.checked_sub(first.task_id).filter(|_| first.step == key.step)?;
    usize::try_from(ids).ok()
}

/// Edge numbers grouped by the task at one end, in order.
pub(super) struct EdgeIndex {
    /// Where the edges of each task begin in `edges`, plus a final end.
    starts: Vec<usize>,
    edges: Vec<usize>,
}

impl EdgeIndex {
    /// `ends` has the task of every edge.
    pub fn of(tasks: usize, ends: impl Iterator<Item = usize> + Clone) -> EdgeIndex {
        let mut starts = vec![0_usize; tasks + 1];
        ends.clone().for_each(|end| starts[end + 1] += 1);
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let mut next = starts.clone();
        let mut edges = vec![0; starts[tasks]];
        for (edge, end) in ends.enumerate() {
            edges[next[end]] = edge;
            next[end] += 1;
        }
        EdgeIndex { starts, edges }
    }

    /// Sorts the edges of each task by a key.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(usize) -> K) {
        for task in self.starts.windows(2) {
            // A stable sort takes one pass over edges that are already sorted.
            self.edges[task[0]..task[1]].sort_by_key(|&edge| key(edge));
        }
    }

    /// The edges of a task.
    pub fn task(&self, task: usize) -> &[usize] {
        &self.edges[self.starts[task]..self.starts[task + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, tasks_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tasks_are_found_for_consecutive_and_scattered_ids(
            ids in proptest::collection::btree_set(prop_oneof![0_u64..20, u64::MAX - 5..=u64::MAX], 1..20),
            asked in prop_oneof![0_u64..22, u64::MAX - 6..=u64::MAX],
        ) {
            let made = ids.iter().rev().map(|&id| TaskBuilder::new(id, "a")).collect();
            let tasks = tasks_of(made, &[]);
            let key = TaskKey { step: 0, task_id: asked };
            let expected = tasks.iter().find(|task| task.key() == key).map(|task| task.place());
            prop_assert_eq!(TaskIndex::of(&tasks).get(key), expected);
            prop_assert_eq!(TaskIndex::of(&tasks).get(TaskKey { step: 1, ..key }), None);
        }
    }

    #[test]
    fn edges_are_grouped_by_task_in_order() {
        let mut edges = EdgeIndex::of(4, [2, 0, 2, 3, 2].into_iter());
        let listed: Vec<&[usize]> = (0..4).map(|task| edges.task(task)).collect();
        assert_eq!(listed, [&[1_usize][..], &[], &[0, 2, 4], &[3]]);
        edges.sort_by_key(|edge| [7, 6, 9, 8, 5][edge]);
        assert_eq!((edges.task(0), edges.task(2)), (&[1_usize][..], &[4_usize, 0, 2][..]));
    }
}
