//! One task of a dump, with its arguments, dispatches and edges.

use std::ops::Deref;

use tensortap_abi::UncapturedReason;

use super::{Argument, CollectiveFacts, DispatchFacts, DispatchTimes, Entry, TaskFacts, Tasks, wide};
use crate::symbol::short_name;
use crate::{Edge, KernelInfo, dispatch_id};

/// A task of a dump.
///
/// ```
/// use tensortap_format::{Assembler, TaskFacts, TaskKey, TaskPart};
///
/// let mut assembler = Assembler::default();
/// let key = TaskKey { step: 0, task_id: 7 };
/// assembler.take(TaskPart::Task(TaskFacts { func_id: [4, u32::MAX, u32::MAX], ..TaskFacts::unknown(key) }));
/// let tasks = assembler.finish(&[]);
/// let task = tasks.find(key).unwrap();
/// assert_eq!((task.task_id, task.kernel_names()), (7, vec!["func_4".to_string()]));
/// assert_eq!((task.arguments().len(), task.producers().count()), (0, 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Task<'t> {
    pub(super) tasks: &'t Tasks,
    pub(super) place: usize,
}

impl<'t> Task<'t> {
    /// Position in [`Tasks`].
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    pub(super) fn entry(&self) -> &'t Entry {
        &self.tasks.entries[self.place]
    }

    /// The facts from its own records, with the lifetime of the tasks.
    #[must_use]
    pub fn facts(&self) -> &'t TaskFacts {
        &self.entry().facts
    }

    /// Whether the task itself has a record. If not, it is only known from other records, and only name and
    /// kernels of its facts are meaningful.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.entry().is_recorded
    }

    /// Whether several tasks were recorded under its id: it completed more than once, or an argument was
    /// recorded twice for one stage. Its facts are then a mixture.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.entry().is_repeated || self.arguments().any(|argument| argument.is_repeated)
    }

    /// Its name in the orchestration.
    #[must_use]
    pub fn task_name(&self) -> Option<&'t str> {
        self.tasks.name(self.entry().name)
    }

    /// Its scope with the enclosing scopes, outermost first: `layer 1 / attention`.
    #[must_use]
    pub fn scope(&self) -> Option<&'t str> {
        self.tasks.name(self.entry().scope)
    }

    /// The name of an argument: from its own record, or from the first kernel that declares one.
    #[must_use]
    pub fn arg_name(&self, arg_index: u16) -> Option<&'t str> {
        let own = self.argument(arg_index).and_then(|argument| self.tasks.arg_names.get(&argument.name));
        if let Some(own) = own {
            return Some(own);
        }
        let kernels = self.facts().func_ids().filter_map(|id| self.tasks.kernel(id));
        let mut names = kernels.filter_map(|kernel| kernel.arg_names.get(usize::from(arg_index)));
        names.find(|name| !name.is_empty()).map(String::as_str)
    }

    /// Whether its records state that it had not completed when the run ended.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.is_recorded() && (self.facts().in_flight || self.facts().completed_ns.is_none())
    }

    /// Number of blocks, if the dump states it.
    #[must_use]
    pub fn block_count(&self) -> Option<u32> {
        self.is_recorded().then_some(self.facts().block_num)
    }

    /// Number of its arguments, captured or not, if the dump states it.
    #[must_use]
    pub fn argument_total(&self) -> Option<u32> {
        let TaskFacts { tensor_count, scalar_count, .. } = self.facts();
        let is_known = self.is_recorded() && !self.tasks.counts_are_partial;
        tensor_count.checked_add(*scalar_count).filter(|_| is_known)
    }

    /// Names of its kernels by slot; `func_<id>` if the dump has no name.
    #[must_use]
    pub fn kernel_names(&self) -> Vec<String> {
        self.facts().func_ids().map(|id| self.tasks.kernel_name(id)).collect()
    }

    /// Short names of its kernels, joined by `+`; empty if it runs none. See [`short_name`].
    #[must_use]
    pub fn short_kernel_names(&self) -> String {
        let names: Vec<String> =
            self.kernel_names().iter().map(|name| short_name(name).into_owned()).collect();
        names.join("+")
    }

    /// The kernels that it runs.
    pub fn kernels(&self) -> impl Iterator<Item = &'t KernelInfo> + use<'t> {
        let tasks = self.tasks;
        self.facts().func_ids().filter_map(move |id| tasks.kernel(id)).collect::<Vec<_>>().into_iter()
    }

    /// Arguments with any captured data, by `arg_index`.
    pub fn arguments(&self) -> impl DoubleEndedIterator<Item = Argument<'t>> + ExactSizeIterator + use<'t> {
        let tasks = self.tasks;
        wide(&self.entry().arguments).map(move |number| Argument { tasks, number })
    }

    /// The argument with this index.
    #[must_use]
    pub fn argument(&self, arg_index: u16) -> Option<Argument<'t>> {
        let range = wide(&self.entry().arguments);
        let place =
            self.tasks.arguments[range.clone()].binary_search_by_key(&arg_index, |a| a.arg_index).ok()?;
        Some(Argument { tasks: self.tasks, number: range.start + place })
    }

    /// The argument that corresponds to an argument of another run of this task. Most have the same index. In a launch,
    /// memory that the kernel reaches through a value or as a variable follows the parameters. Its order may differ from
    /// run to run, so it is found by its name.
    #[must_use]
    pub fn counterpart(&self, of: Argument<'_>) -> Option<Argument<'t>> {
        let same = self.argument(of.arg_index);
        if self.facts().launch.is_none() {
            return same;
        }
        let name = of.own_name();
        match same {
            Some(same) if same.own_name() == name => Some(same),
            _ => name.and_then(|name| self.arguments().find(|own| own.own_name() == Some(name))),
        }
    }

    /// Arguments whose content before the task matters. A region that [contains
    /// tasks](Task::contains_tasks) has none: these tasks read and write its arguments.
    pub fn inputs(&self) -> impl Iterator<Item = Argument<'t>> + use<'t> {
        let contains_tasks = self.contains_tasks();
        self.arguments().filter(move |argument| !contains_tasks && argument.role.reads())
    }

    /// Arguments that the task writes; none for a region that [contains tasks](Task::contains_tasks).
    pub fn outputs(&self) -> impl Iterator<Item = Argument<'t>> + use<'t> {
        let contains_tasks = self.contains_tasks();
        self.arguments().filter(move |argument| !contains_tasks && argument.role.writes())
    }

    /// What it is in a collective operation, if the dump records that.
    #[must_use]
    pub fn collective(&self) -> Option<CollectiveFacts> {
        // Most dumps have none.
        if self.tasks.collectives.is_empty() {
            return None;
        }
        self.tasks.collectives.get(&self.facts().key()).copied()
    }

    /// Its dispatches (`--dump-args`), by slot and block.
    #[must_use]
    pub fn dispatches(&self) -> &'t [DispatchFacts] {
        &self.tasks.dispatches[wide(&self.entry().dispatches)]
    }

    /// Times of the dispatches, in the same order.
    #[must_use]
    pub fn dispatch_times(&self) -> &'t [DispatchTimes] {
        &self.tasks.dispatch_times[wide(&self.entry().dispatches)]
    }

    /// The id of one of its dispatches; see [`dispatch_id`].
    #[must_use]
    pub fn dispatch_id(&self, dispatch: &DispatchFacts) -> u64 {
        dispatch_id(self.facts().task_id, dispatch.subtask_id, dispatch.block_idx)
    }

    /// Edges to the tasks that it waits for.
    pub fn producers(&self) -> impl Iterator<Item = &'t Edge> + use<'t> {
        self.tasks.edges_at(&self.tasks.sorted_edges().by_consumer, Edge::consumer, self.facts().key())
    }

    /// Edges to the tasks that wait for it.
    pub fn consumers(&self) -> impl Iterator<Item = &'t Edge> + use<'t> {
        self.tasks.edges_at(&self.tasks.sorted_edges().by_producer, Edge::producer, self.facts().key())
    }

    /// Arguments that could not be captured, in order, with the reason.
    pub fn uncaptured_args(&self) -> impl Iterator<Item = (u16, UncapturedReason)> + use<'t> {
        let (all, own) = (&self.tasks.uncaptured, self.facts().key());
        let first = all.partition_point(|(key, ..)| *key < own);
        let those = all[first..].iter().take_while(move |(key, ..)| *key == own);
        those.map(|(_, arg_index, reason)| (*arg_index, *reason))
    }

    /// Why an argument could not be captured.
    #[must_use]
    pub fn uncaptured(&self, arg_index: u16) -> Option<UncapturedReason> {
        let all = &self.tasks.uncaptured;
        let wanted = (self.facts().key(), arg_index);
        let place = all.binary_search_by_key(&wanted, |(key, arg_index, _)| (*key, *arg_index)).ok()?;
        Some(all[place].2)
    }
}

impl Deref for Task<'_> {
    type Target = TaskFacts;

    fn deref(&self) -> &TaskFacts {
        self.facts()
    }
}
