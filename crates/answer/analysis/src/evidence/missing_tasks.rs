//! Which tasks may have run beside tasks that a dump lacks?
//!
//! Filters remove tasks and keep their dependencies. So if every number of a task occurs among the dependencies, they
//! show which of the missing tasks are ordered with one that was captured.

use std::collections::{BTreeSet, HashMap};

use tensortap_format::TaskKey;

use crate::graph::TaskGraph;
use crate::matching::lacks_tasks;

/// Limit on the steps along dependencies.
const MAX_STEPS: usize = 50_000_000;

/// By position: whether a task that the dump lacks may have run at the same time.
pub(super) fn beside_missing(graph: &TaskGraph) -> Vec<bool> {
    if !lacks_tasks(graph) {
        return vec![false; graph.len()];
    }
    let all = Dependencies::of(graph);
    let mut steps = MAX_STEPS;
    graph
        .tasks()
        .iter()
        .map(|task| match all.as_ref().and_then(|all| all.ordered_with(task.key(), &mut steps)) {
            Some(ordered) => all.as_ref().is_none_or(|all| ordered + 1 < all.nodes.len()),
            None => true,
        })
        .collect()
}

/// All known tasks of a run, captured or not, with their dependencies.
struct Dependencies {
    nodes: HashMap<TaskKey, usize>,
    /// By node: the nodes after it, and those before it.
    neighbors: [Vec<Vec<usize>>; 2],
}

impl Dependencies {
    /// `None` if the numbers of tasks show that some occur nowhere.
    fn of(graph: &TaskGraph) -> Option<Dependencies> {
        let edges = || graph.tasks().edges().iter().map(|edge| (edge.producer(), edge.consumer()));
        let mut nodes = HashMap::new();
        for key in
            graph.tasks().iter().map(|task| task.key()).chain(edges().flat_map(|(from, to)| [from, to]))
        {
            let next = nodes.len();
            nodes.entry(key).or_insert(next);
        }
        let ids: BTreeSet<u64> = nodes.keys().map(|key| key.task_id).collect();
        let (first, last) = (*ids.first()?, *ids.last()?);
        let has_all = first <= 1 && last - first + 1 == ids.len() as u64 && ids.len() == nodes.len();
        let mut neighbors = [vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]];
        for (from, to) in edges() {
            let (from, to) = (nodes[&from], nodes[&to]);
            neighbors[0][from].push(to);
            neighbors[1][to].push(from);
        }
        has_all.then_some(Dependencies { nodes, neighbors })
    }

    /// The number of tasks that are ordered with a task. `None` if the search takes too many steps.
    fn ordered_with(&self, task: TaskKey, steps: &mut usize) -> Option<usize> {
        let start = *self.nodes.get(&task)?;
        let mut count = 0;
        for neighbors in &self.neighbors {
            let mut seen = vec![false; self.nodes.len()];
            let mut open = vec![start];
            *steps = steps.checked_sub(self.nodes.len())?;
            while let Some(node) = open.pop() {
                *steps = steps.checked_sub(neighbors[node].len())?;
                for &next in &neighbors[node] {
                    if !std::mem::replace(&mut seen[next], true) {
                        count += 1;
                        open.push(next);
                    }
                }
            }
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};
    use tensortap_format::Edge;

    /// Task 2 of a filtered dump, with these dependencies between all tasks of the run.
    fn is_beside(edges: &[(u64, u64)]) -> bool {
        let task = TaskBuilder::new(2, "k").inout(0x1000, "a", "b").at(2);
        let edge =
            |&(from, to): &(u64, u64)| Edge { step: 0, from_step: 0, from, to, arg_index: 0, why: "event" };
        let edges: Vec<Edge> = edges.iter().map(edge).collect();
        let mut graph = graph_of(vec![task], &edges, Some("filters removed 4 records".into()));
        graph.extent.filters_tasks = Some(true);
        beside_missing(&graph)[0]
    }

    #[test]
    fn dependencies_show_which_missing_tasks_ran_beside_a_task() {
        assert!(!is_beside(&[(1, 2), (2, 3), (3, 4)]), "all are before or after it");
        assert!(is_beside(&[(1, 2), (1, 3), (2, 4), (3, 4)]), "nothing orders it with task 3");
        assert!(is_beside(&[(1, 2), (2, 4)]), "nothing is known about task 3");
        assert!(is_beside(&[]));
    }
}
