//! One task with everything that a dump contains about it: kernels, arguments before and after, dispatches,
//! edges.
//!
//! An [`Assembler`] makes [`Tasks`] from single records: of an index, of a manifest of any format, or of a
//! run that is still going. [`Tasks`] holds task identities and captured arguments in small fixed-size
//! entries, with record numbers; the contents stay in the dump. [`Dump::tasks`](crate::Dump::tasks) builds
//! it on demand, so readers that only walk over records do not pay for it.
//!
//! A record finds its task by step and `task_id` only. The recording thread and the time do not matter.

mod argument;
mod assembler;
mod facts;
mod regions;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tensortap_abi::UncapturedReason;

pub use argument::{Argument, PointerWord};
pub use assembler::{ArgumentRecord, Assembler, DispatchFinish, PendingTask, TaskPart};
pub use facts::{
    AllocationEvent, ArgumentFacts, ArgumentSnapshot, CollectiveFacts, DispatchFacts, DispatchTimes, Launch,
    RecordingThread, TaskFacts, TaskKey,
};

use crate::symbol::short_name;
use crate::{ArgumentKind, Edge, KernelInfo, Names, dispatch_id};

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
    tasks: &'t Tasks,
    place: usize,
}

impl<'t> Task<'t> {
    /// Position in [`Tasks`].
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    fn entry(&self) -> &'t Entry {
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
    /// memory that the kernel reaches through a value or as a variable follows the parameters in an order that may differ
    /// from run to run, so it is found by its name.
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

/// Whether a step is selected. Without ranges, all steps are.
#[must_use]
pub fn is_in_steps(ranges: &[(u64, u64)], step: u32) -> bool {
    ranges.is_empty() || ranges.iter().any(|&(first, last)| (first..=last).contains(&step.into()))
}

/// The tasks of a dump. Made by an [`Assembler`]; see [`Dump::tasks`](crate::Dump::tasks).
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    entries: Vec<Entry>,
    arguments: Vec<ArgumentFacts>,
    dims: Dims,
    dispatches: Vec<DispatchFacts>,
    /// One per dispatch.
    dispatch_times: Vec<DispatchTimes>,
    threads: Vec<RecordingThread>,
    edges: Vec<Edge>,
    /// Sorted by time.
    renewed: Vec<AllocationEvent>,
    collectives: HashMap<TaskKey, CollectiveFacts>,
    /// Sorted by task and argument.
    uncaptured: Vec<(TaskKey, u16, UncapturedReason)>,
    kernels: Arc<[KernelInfo]>,
    /// Distinct names and scopes of tasks.
    names: Vec<Box<str>>,
    /// Names of arguments, groups and pools by string id.
    arg_names: HashMap<u32, Box<str>>,
    /// The names that stand for a word of a value, by string id.
    pointer_words: HashMap<u32, PointerWord>,
    /// Whether the argument counts omit some arguments.
    pub(crate) counts_are_partial: bool,
    /// Positions sorted by key, built at the first lookup.
    by_key: OnceLock<Vec<u32>>,
    sorted_edges: OnceLock<SortedEdges>,
    steps: OnceLock<Vec<u32>>,
    families: OnceLock<regions::Families>,
}

#[derive(Clone, Debug)]
struct Entry {
    facts: TaskFacts,
    is_recorded: bool,
    is_repeated: bool,
    /// Positions in [`Tasks::names`], or [`NO_NAME`].
    name: u32,
    scope: u32,
    /// There may be millions of tasks, so positions are as small as possible.
    arguments: std::ops::Range<u32>,
    dispatches: std::ops::Range<u32>,
}

/// Position that means no name.
const NO_NAME: u32 = u32::MAX;

/// A range of positions for indexing.
fn wide(range: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Positions of edges, sorted by the tasks at either end.
#[derive(Clone, Debug)]
struct SortedEdges {
    by_producer: Vec<usize>,
    by_consumer: Vec<usize>,
}

/// All shapes and strides, one after another.
#[derive(Clone, Debug, Default)]
struct Dims {
    shapes: Vec<u64>,
    strides: Vec<i64>,
}

impl Dims {
    /// Stores dimensions and returns their position. Repeated dimensions are stored once.
    fn keep(&mut self, shape: &[u64], strides: &[i64]) -> (usize, u32) {
        let ndims = shape.len().min(strides.len());
        let (shape, strides) = (&shape[..ndims], &strides[..ndims]);
        if !(self.shapes.ends_with(shape) && self.strides.ends_with(strides)) {
            self.shapes.extend_from_slice(shape);
            self.strides.extend_from_slice(strides);
        }
        (self.shapes.len() - ndims, u32::try_from(ndims).expect("at most as many as a record has"))
    }

    fn shape(&self, facts: &ArgumentFacts) -> &[u64] {
        &self.shapes[facts.dims_at..][..facts.ndims as usize]
    }

    fn strides(&self, facts: &ArgumentFacts) -> &[i64] {
        &self.strides[facts.dims_at..][..facts.ndims as usize]
    }
}

impl Tasks {
    /// Number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of arguments of all tasks.
    #[must_use]
    pub fn argument_count(&self) -> usize {
        self.arguments.len()
    }

    /// The task at a position.
    ///
    /// # Panics
    /// If the position is out of range.
    #[must_use]
    pub fn at(&self, place: usize) -> Task<'_> {
        assert!(place < self.len(), "task {place} of {}", self.len());
        Task { tasks: self, place }
    }

    /// Every task: tasks with records in the order of their first record, then the others in the order of
    /// their first argument; or the order from [`Tasks::put_in_order`].
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Task<'_>> + ExactSizeIterator {
        (0..self.len()).map(|place| Task { tasks: self, place })
    }

    /// The task with this key.
    #[must_use]
    pub fn find(&self, key: TaskKey) -> Option<Task<'_>> {
        let by_key = self.by_key.get_or_init(|| {
            // As for arguments, there is no memory for 2^32 of them.
            let mut places: Vec<u32> = (0..u32::MAX).take(self.len()).collect();
            places.sort_unstable_by_key(|&place| self.entries[place as usize].facts.key());
            places
        });
        let key_of = |&place: &u32| self.entries[place as usize].facts.key();
        let place = by_key.binary_search_by_key(&key, key_of).ok()?;
        Some(Task { tasks: self, place: by_key[place] as usize })
    }

    /// Every dependency, in the order of the dump.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The recording threads, in the order of their first record.
    #[must_use]
    pub fn threads(&self) -> &[RecordingThread] {
        &self.threads
    }

    /// Memory that was allocated or freed while the tasks ran, sorted by time.
    #[must_use]
    pub fn renewed(&self) -> &[AllocationEvent] {
        &self.renewed
    }

    /// The name of a group of ranks or of a memory pool, by the id in [`CollectiveFacts`] or
    /// [`AllocationEvent`].
    #[must_use]
    pub fn text(&self, id: u32) -> Option<&str> {
        self.arg_names.get(&id).map(|name| &**name)
    }

    /// Number of arguments that could not be captured.
    #[must_use]
    pub fn uncaptured_count(&self) -> usize {
        self.uncaptured.len()
    }

    /// The kernel with this number, if the dump has it.
    #[must_use]
    pub fn kernel(&self, func_id: u32) -> Option<&KernelInfo> {
        self.kernels.iter().find(|kernel| kernel.func_id == func_id)
    }

    /// Name of a kernel; `func_<id>` if the dump has no name.
    #[must_use]
    pub fn kernel_name(&self, func_id: u32) -> String {
        self.kernel(func_id).map_or_else(|| format!("func_{func_id}"), |kernel| kernel.name.clone())
    }

    /// Reorders the tasks. `order` should contain every position once; positions that are missing or
    /// repeated are removed.
    pub fn put_in_order(&mut self, order: &[usize]) {
        let mut taken = vec![false; self.len()];
        let first_time = |place: &&usize| taken.get_mut(**place).is_some_and(|t| !std::mem::replace(t, true));
        self.entries = order.iter().filter(first_time).map(|&place| self.entries[place].clone()).collect();
        self.by_key = OnceLock::new();
        self.steps = OnceLock::new();
        self.families = OnceLock::new();
    }

    /// The distinct steps of the tasks, sorted.
    #[must_use]
    pub fn steps(&self) -> &[u32] {
        self.steps.get_or_init(|| {
            let mut steps: Vec<u32> = self.entries.iter().map(|entry| entry.facts.step).collect();
            steps.sort_unstable();
            steps.dedup();
            steps
        })
    }

    /// Keeps only the tasks of these steps. Each range includes its ends. Without ranges, keeps all tasks.
    pub fn keep_steps(&mut self, ranges: &[(u64, u64)]) {
        if !ranges.is_empty() {
            let kept: Vec<usize> =
                self.iter().filter(|t| is_in_steps(ranges, t.step)).map(|t| t.place()).collect();
            self.put_in_order(&kept);
        }
    }

    /// Adds hashes to contents without one. `hash` is called for each captured content.
    ///
    /// # Errors
    /// Those of `hash`.
    pub fn fill_hashes<E>(
        &mut self,
        mut hash: impl FnMut(&ArgumentSnapshot) -> Result<Option<u128>, E>,
    ) -> Result<(), E> {
        for argument in self.arguments.iter_mut().filter(|argument| argument.kind == ArgumentKind::Tensor) {
            for captured in [&mut argument.before, &mut argument.after].into_iter().flatten() {
                if captured.hash().is_none() {
                    *captured = captured.with_hash(hash(captured)?);
                }
            }
        }
        Ok(())
    }

    /// Removes arguments from their tasks.
    pub fn retain_arguments(&mut self, keep: impl Fn(Task<'_>, Argument<'_>) -> bool) {
        let kept: Vec<Vec<usize>> = self
            .iter()
            .map(|task| task.arguments().filter(|arg| keep(task, *arg)).map(|arg| arg.number).collect())
            .collect();
        let count: usize = kept.iter().map(Vec::len).sum();
        if count == self.arguments.len() {
            return;
        }
        let mut arguments = Vec::with_capacity(count);
        let position = |count: usize| u32::try_from(count).expect("there are not more arguments than before");
        for (entry, kept) in self.entries.iter_mut().zip(kept) {
            let start = position(arguments.len());
            arguments.extend(kept.into_iter().map(|number| self.arguments[number].clone()));
            entry.arguments = start..position(arguments.len());
        }
        self.arguments = arguments;
    }

    /// Removes the captured data of tasks in flight: what an incomplete task has written is not an output.
    pub fn forget_in_flight(&mut self) {
        for argument in &mut self.arguments {
            argument.before = argument.before.filter(|captured| !captured.in_flight);
            argument.after = argument.after.filter(|captured| !captured.in_flight);
        }
    }

    /// Sets the names of every task. Equal names are stored once.
    pub fn give_names<'n>(&mut self, names: impl Fn(TaskKey) -> Names<'n>) {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut kept: Vec<Box<str>> = Vec::new();
        let mut keep = |name: Option<&'n str>| {
            let Some(name) = name else { return NO_NAME };
            *known.entry(name).or_insert_with(|| {
                // A dump does not have 2^32 names; names beyond that are dropped.
                let place = u32::try_from(kept.len()).unwrap_or(NO_NAME);
                kept.push(name.into());
                place
            })
        };
        for entry in &mut self.entries {
            let Names { task_name, scope, .. } = names(entry.facts.key());
            (entry.name, entry.scope) = (keep(task_name), keep(scope));
        }
        self.names = kept;
    }

    fn name(&self, place: u32) -> Option<&str> {
        self.names.get(place as usize).filter(|_| place != NO_NAME).map(AsRef::as_ref)
    }

    /// Sets the names of arguments, of groups of collectives and of memory pools, by string id.
    pub fn give_arg_names<'n>(&mut self, name: impl Fn(u32) -> Option<&'n str>) {
        let groups = self.collectives.values().map(|collective| collective.group);
        let pools = self.renewed.iter().map(|event| event.pool).filter(|&pool| pool != 0);
        for id in groups.chain(pools) {
            if !self.arg_names.contains_key(&id)
                && let Some(name) = name(id)
            {
                self.arg_names.insert(id, name.into());
            }
        }
        for argument in self.arguments.iter().filter(|argument| argument.name != 0) {
            if !self.arg_names.contains_key(&argument.name)
                && let Some(name) = name(argument.name)
            {
                self.arg_names.insert(argument.name, name.into());
                if let Some(word) = PointerWord::of_name(name) {
                    self.pointer_words.insert(argument.name, word);
                }
            }
        }
    }

    fn sorted_edges(&self) -> &SortedEdges {
        self.sorted_edges.get_or_init(|| {
            let sorted = |end: fn(&Edge) -> TaskKey| {
                let mut places: Vec<usize> = (0..self.edges.len()).collect();
                places.sort_by_key(|&place| end(&self.edges[place]));
                places
            };
            SortedEdges { by_producer: sorted(Edge::producer), by_consumer: sorted(Edge::consumer) }
        })
    }

    /// The edges in a sorted list with a task at one end.
    fn edges_at<'t>(
        &'t self,
        sorted: &'t [usize],
        end: fn(&Edge) -> TaskKey,
        key: TaskKey,
    ) -> impl Iterator<Item = &'t Edge> + use<'t> {
        let first = sorted.partition_point(|&place| end(&self.edges[place]) < key);
        let edges = sorted[first..].iter().map(|&place| &self.edges[place]);
        edges.take_while(move |edge| end(edge) == key)
    }
}
