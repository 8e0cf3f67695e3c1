//! Finds nondeterminism: tasks with equal inputs and different outputs. Inputs and outputs are compared by
//! hash.
//!
//! Several tasks of one run may have equal inputs and different outputs by nature: a kernel may depend on its address,
//! a counter or a random number generator. So with several dumps, a task is compared with its partner in the first
//! dump. A task without a certain partner is compared with all tasks of the first dump that have its inputs.

use std::collections::{BTreeMap, HashMap, HashSet};

use tensortap_format::{Dump, FormatError, Task};

use crate::graph::{TaskGraph, load};
use crate::matching::{MatchOptions, match_tasks};

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
    let mut groups: Vec<Vec<Member<'_>>> = Vec::new();
    let partners = partners_in_first(graphs);
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
            let occurrence = Occurrence { dump, task_id: task.task_id };
            let in_first =
                if dump == 0 { Some(task.place()) } else { partners[dump - 1].get(&task.place()).copied() };
            groups[place].push(Member { occurrence, task, in_first });
        }
    }
    for group in groups.iter().filter(|g| g.len() > 1) {
        result.groups += 1;
        result.repeated += group.len() as u64;
        result.differing.extend(differing(group, graphs.len() > 1));
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

/// A task of a group with equal inputs.
struct Member<'g> {
    occurrence: Occurrence,
    task: Task<'g>,
    /// Position of the same task in the first dump, if it is certain.
    in_first: Option<usize>,
}

impl Member<'_> {
    fn content(&self, arg_index: u16) -> Option<u128> {
        self.task.argument(arg_index)?.hash_after()
    }
}

/// For each dump after the first: the certain partner of each task in the first.
fn partners_in_first(graphs: &[TaskGraph]) -> Vec<HashMap<usize, usize>> {
    let Some((first, others)) = graphs.split_first() else { return Vec::new() };
    let of = |other: &TaskGraph| {
        let pairs = match_tasks(first, other, MatchOptions::default()).certain().partner;
        pairs.into_iter().enumerate().filter_map(|(place, other)| Some((other?, place))).collect()
    };
    others.iter().map(of).collect()
}

fn differing(group: &[Member<'_>], are_several_dumps: bool) -> Vec<RepeatDifference> {
    let Some(Member { task: first, .. }) = group.first() else { return Vec::new() };
    let mut all = Vec::new();
    for arg_index in first.outputs().map(|o| o.arg_index) {
        let mut contents: BTreeMap<u128, Vec<Occurrence>> = BTreeMap::new();
        for member in group {
            if let Some(hash) = member.content(arg_index) {
                contents.entry(hash).or_default().push(member.occurrence);
            }
        }
        if contents.len() > 1 && (!are_several_dumps || differs_between_dumps(group, arg_index)) {
            let mut contents: Vec<_> = contents.into_iter().collect();
            contents.sort_by_key(|(_, tasks)| std::cmp::Reverse(tasks.len()));
            all.push(RepeatDifference { kernels: first.kernel_names(), arg_index, contents });
        }
    }
    all
}

/// Whether an output differs from that of the same task in the first dump, or from that of every task there which may be
/// the same.
fn differs_between_dumps(group: &[Member<'_>], arg_index: u16) -> bool {
    let of_first = group.iter().filter(|member| member.occurrence.dump == 0);
    let in_first: HashMap<usize, u128> =
        of_first.filter_map(|member| Some((member.in_first?, member.content(arg_index)?))).collect();
    let any: HashSet<u128> = in_first.values().copied().collect();
    let later = group.iter().filter(|member| member.occurrence.dump > 0);
    later.filter_map(|member| Some((member, member.content(arg_index)?))).any(
        |(member, content)| match member.in_first.and_then(|place| in_first.get(&place)) {
            Some(&same_task) => content != same_task,
            None => !any.is_empty() && !any.contains(&content),
        },
    )
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
    fn tasks_with_equal_inputs_may_differ_by_nature() {
        let draws = |outputs: [&str; 3]| {
            let task = |(id, output): (u64, &str)| {
                TaskBuilder::new(id, "random").output(0x1000 * (id + 1), output).at(id)
            };
            graph((0..).zip(outputs).map(task).collect())
        };
        let same = check(&[draws(["a", "b", "c"]), draws(["a", "b", "c"])]);
        assert!(same.passes() && same.repeated == 6, "{same:?}");
        let swapped = check(&[draws(["a", "b", "c"]), draws(["a", "c", "b"])]);
        assert_eq!((swapped.passes(), swapped.differing.len()), (false, 1));
        let one_run = check(&[draws(["a", "b", "c"])]);
        assert!(!one_run.passes(), "without a second run, nothing shows that they differ by nature");
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
