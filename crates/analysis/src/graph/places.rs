//! Where tasks stand, by name, and the edges of a graph in the order of the tasks at one end: two numbers per edge, found without
//! a search, because a graph may have many times as many edges as tasks.

use tensortap_format::{TaskKey, Tasks};

/// Positions of tasks by name. Neighbouring ids are found by counting from the first of them.
pub(crate) struct Places {
    /// First name of each run of neighbouring ids, and where it begins in `places`.
    runs: Vec<(TaskKey, usize)>,
    places: Vec<usize>,
}

impl Places {
    pub fn of(tasks: &Tasks) -> Places {
        let mut named: Vec<(TaskKey, usize)> = tasks.iter().map(|task| (task.key(), task.place())).collect();
        named.sort_unstable();
        // Of one name twice, which only damage can make, the last counts.
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
        Places { runs, places: named.into_iter().map(|(_, place)| place).collect() }
    }

    /// The position of a task.
    pub fn get(&self, key: TaskKey) -> Option<usize> {
        let run = self.runs.partition_point(|(first, _)| *first <= key).checked_sub(1)?;
        let (first, start) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.places.len(), |(_, next)| *next);
        self.places[..end].get(start.checked_add(above(first, key)?)?).copied()
    }
}

/// How many ids a task lies above another of its step.
fn above(first: TaskKey, key: TaskKey) -> Option<usize> {
    let ids = key.task_id.checked_sub(first.task_id).filter(|_| first.step == key.step)?;
    usize::try_from(ids).ok()
}

/// Numbers of edges by the task at one of their ends, in their order.
pub(super) struct EdgesAt {
    /// Where the edges of each task begin in `edges`, and behind the last.
    starts: Vec<usize>,
    edges: Vec<usize>,
}

impl EdgesAt {
    /// `ends` has the task of every edge.
    pub fn of(tasks: usize, ends: impl Iterator<Item = usize> + Clone) -> EdgesAt {
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
        EdgesAt { starts, edges }
    }

    /// Puts the edges of each task into the order of a key.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(usize) -> K) {
        for task in self.starts.windows(2) {
            // Stable, because what is in order already is then sorted in one pass.
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
    use crate::graph::testing::{TaskMaker, tasks_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tasks_are_found_by_name_whether_ids_are_neighbours_or_not(
            ids in proptest::collection::btree_set(prop_oneof![0_u64..20, u64::MAX - 5..=u64::MAX], 1..20),
            asked in prop_oneof![0_u64..22, u64::MAX - 6..=u64::MAX],
        ) {
            let made = ids.iter().rev().map(|&id| TaskMaker::new(id, "a")).collect();
            let tasks = tasks_of(made, &[]);
            let key = TaskKey { step: 0, task_id: asked };
            let expected = tasks.iter().find(|task| task.key() == key).map(|task| task.place());
            prop_assert_eq!(Places::of(&tasks).get(key), expected);
            prop_assert_eq!(Places::of(&tasks).get(TaskKey { step: 1, ..key }), None);
        }
    }

    #[test]
    fn edges_are_listed_at_their_tasks_in_their_order() {
        let mut edges = EdgesAt::of(4, [2, 0, 2, 3, 2].into_iter());
        let listed: Vec<&[usize]> = (0..4).map(|task| edges.task(task)).collect();
        assert_eq!(listed, [&[1_usize][..], &[], &[0, 2, 4], &[3]]);
        edges.sort_by_key(|edge| [7, 6, 9, 8, 5][edge]);
        assert_eq!((edges.task(0), edges.task(2)), (&[1_usize][..], &[4_usize, 0, 2][..]));
    }
}
