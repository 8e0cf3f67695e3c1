//! Finds nondeterminism: tasks with equal inputs and different outputs. Inputs and outputs are compared by
//! hash.

use std::collections::{BTreeMap, HashMap};

use tensortap_format::{Dump, FormatError, Task};

use crate::graph::{TaskGraph, load};

/// The properties that make two tasks repetitions of each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RepeatKey {
    kernels: Vec<String>,
    block_num: Option<u32>,
    args: Vec<RepeatKeyArg>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RepeatKeyArg {
    arg_index: u16,
    role: u8,
    dtype: u8,
    shape: Vec<u64>,
    /// Bits of a scalar or hash of an input tensor; `None` for an output.
    content: Option<u128>,
}

/// One run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Index of the dump.
    pub dump: usize,
    /// Id of the task.
    pub task_id: u64,
}

/// An output that differs between tasks with equal inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatDifference {
    /// Names of the tasks' kernels.
    pub kernels: Vec<String>,
    /// Index of the argument that differs.
    pub arg_index: u16,
    /// The different contents, each with the tasks that wrote it; the most frequent first.
    pub contents: Vec<(u128, Vec<Occurrence>)>,
}

/// The result of the check for nondeterminism.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatCheck {
    /// Number of tasks in all dumps.
    pub tasks: u64,
    /// Number of tasks that are repeated.
    pub repeated: u64,
    /// Number of groups of repeated tasks.
    pub groups: u64,
    /// Number of tasks that were not compared because an input or output has no hash.
    pub left_out: u64,
    /// Outputs that differ within a group.
    pub differing: Vec<RepeatDifference>,
}

impl RepeatCheck {
    /// Groups the tasks of all dumps by kernels and inputs, and finds groups whose outputs differ.
    ///
    /// # Errors
    /// A dump cannot be read.
    pub fn of(dumps: &[&Dump]) -> Result<RepeatCheck, FormatError> {
        let graphs = dumps.iter().map(|dump| load(dump, &[])).collect::<Result<Vec<_>, _>>()?;
        Ok(check(&graphs))
    }

    /// Whether something was compared and nothing differs.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.groups > 0 && self.differing.is_empty()
    }
}

fn check(graphs: &[TaskGraph]) -> RepeatCheck {
    let mut result = RepeatCheck::default();
    let mut places: HashMap<RepeatKey, usize> = HashMap::new();
    let mut groups: Vec<Vec<(Occurrence, Task<'_>)>> = Vec::new();
    for (dump, graph) in graphs.iter().enumerate() {
        for task in graph.tasks().iter() {
            result.tasks += 1;
            let Some(given) = given(task) else {
                result.left_out += 1;
                continue;
            };
            let place = *places.entry(given).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push((Occurrence { dump, task_id: task.task_id }, task));
        }
    }
    for group in groups.iter().filter(|g| g.len() > 1) {
        result.groups += 1;
        result.repeated += group.len() as u64;
        result.differing.extend(differing(group));
    }
    result
}

/// The key of a task; `None` if an input or output is not known.
fn given(task: Task<'_>) -> Option<RepeatKey> {
    let complete =
        task.argument_total().is_none_or(|count| task.arguments().len() as u64 == u64::from(count));
    if !complete || task.is_unfinished() || task.outputs().next().is_none() {
        return None;
    }
    task.outputs().all(|o| o.hash_after().is_some()).then_some(())?;
    let args = task.arguments().map(|arg| {
        let content = match (arg.scalar_bits, arg.role.reads()) {
            (Some(bits), _) => Some(u128::from(bits)),
            (None, true) => Some(arg.hash_before()?),
            (None, false) => None,
        };
        let (role, dtype, shape) = (arg.role.tag(), arg.dtype.tag(), arg.shape().to_vec());
        Some(RepeatKeyArg { arg_index: arg.arg_index, role, dtype, shape, content })
    });
    let args = args.collect::<Option<_>>()?;
    Some(RepeatKey { kernels: task.kernel_names(), block_num: task.block_count(), args })
}

fn differing(group: &[(Occurrence, Task<'_>)]) -> Vec<RepeatDifference> {
    let Some((_, first)) = group.first() else { return Vec::new() };
    let mut all = Vec::new();
    for arg_index in first.outputs().map(|o| o.arg_index) {
        let mut contents: BTreeMap<u128, Vec<Occurrence>> = BTreeMap::new();
        for (occurrence, task) in group {
            if let Some(hash) = task.argument(arg_index).and_then(|a| a.hash_after()) {
                contents.entry(hash).or_default().push(*occurrence);
            }
        }
        if contents.len() > 1 {
            let mut contents: Vec<_> = contents.into_iter().collect();
            contents.sort_by_key(|(_, tasks)| std::cmp::Reverse(tasks.len()));
            all.push(RepeatDifference { kernels: first.kernel_names(), arg_index, contents });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};

    fn graph(tasks: Vec<TaskBuilder>) -> TaskGraph {
        graph_of(tasks, &[], None)
    }

    fn task(id: u64, input: &str, output: &str) -> TaskBuilder {
        TaskBuilder::new(id, "mul").input(0x1000 * (id + 1), input).output(0x1000 * (id + 50), output).at(id)
    }

    #[test]
    fn different_outputs_for_equal_inputs_are_found_across_and_within_dumps() {
        let first = graph(vec![task(0, "x", "y"), task(1, "x", "y"), task(2, "z", "w")]);
        let second = graph(vec![task(7, "x", "other"), task(8, "alone", "v")]);
        let found = check(&[first, second]);
        assert_eq!((found.tasks, found.groups, found.repeated, found.left_out), (5, 1, 3, 0));
        let [differing] = found.differing.as_slice() else { panic!("{found:?}") };
        assert_eq!((differing.arg_index, differing.contents.len()), (1, 2));
        assert_eq!(differing.contents[0].1.len(), 2);
        assert_eq!(differing.contents[1].1, [Occurrence { dump: 1, task_id: 7 }]);
    }

    #[test]
    fn tasks_with_different_inputs_are_not_compared() {
        let scalar =
            |bits, out: &str| TaskBuilder::new(bits, "fill").scalar(bits).output(0x1000, out).at(bits);
        let found = check(&[graph(vec![scalar(1, "a"), scalar(2, "b")])]);
        assert!(found.groups == 0 && found.differing.is_empty() && !found.passes());
    }

    #[test]
    fn tasks_with_unknown_inputs_are_left_out_and_counted() {
        let mut blind = task(0, "x", "y");
        blind.args[0].before = None;
        assert_eq!(check(&[graph(vec![blind, task(1, "x", "y")])]).left_out, 1);
    }
}
