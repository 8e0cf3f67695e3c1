//! One task with all that a dump says of it: its kernels, its arguments before and after, its dispatches, its edges.
//!
//! [`Tasks`] is made by an [`Assembler`] that takes records one by one: from an index, from a manifest of any format, or from
//! a run that still lasts. It holds what tells tasks apart and what was captured when, in small fixed entries, and numbers of
//! records; contents stay in the dump. [`Dump::tasks`](crate::Dump::tasks) makes it when it is asked for, so whoever only
//! walks over records never pays for it.
//!
//! A record finds its task by step and `task_id` alone: who recorded it, and when, does not matter.

mod assembler;
mod facts;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tensortap_abi::UncapturedReason;

pub use assembler::{ArgumentRecord, Assembler, Finished, Pending, TaskPart};
pub use facts::{
    ArgumentFacts, Captured, DispatchFacts, DispatchTimes, Launch, RecordingThread, Renewed, TaskFacts,
    TaskKey,
};

use crate::{ArgumentKind, Edge, KernelInfo, Names, dispatch_id};

/// An argument of a task.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'t> {
    tasks: &'t Tasks,
    number: usize,
}

impl<'t> Argument<'t> {
    /// Position among the arguments of all tasks: below [`Tasks::argument_count`], for tables beside [`Tasks`].
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Size of each dimension; none of a scalar.
    #[must_use]
    pub fn shape(&self) -> &'t [u64] {
        self.tasks.dims.shape(self.facts())
    }

    /// Strides of the view in its buffer, in elements.
    #[must_use]
    pub fn strides(&self) -> &'t [i64] {
        self.tasks.dims.strides(self.facts())
    }

    /// What is known of it, for as long as the tasks live.
    #[must_use]
    pub fn facts(&self) -> &'t ArgumentFacts {
        &self.tasks.arguments[self.number]
    }

    /// Elements; `None` when they exceed 64 bits.
    #[must_use]
    pub fn numel(&self) -> Option<u64> {
        let shape = self.shape();
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))
    }

    /// Bytes of the content when packed; `None` when they exceed 64 bits.
    #[must_use]
    pub fn content_bytes(&self) -> Option<u64> {
        self.dtype.packed_bytes(self.numel()?)
    }
}

impl Deref for Argument<'_> {
    type Target = ArgumentFacts;

    fn deref(&self) -> &ArgumentFacts {
        self.facts()
    }
}

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

    /// What its own records say, for as long as the tasks live.
    #[must_use]
    pub fn facts(&self) -> &'t TaskFacts {
        &self.entry().facts
    }

    /// Whether there is a record of the task itself. Otherwise it is known by what others say of it, and of its facts only
    /// name and kernels mean anything.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.entry().is_recorded
    }

    /// Whether several tasks were recorded under its id: it completed more than once, or an argument was recorded twice for one stage.
    /// What is told of it is then a mixture.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.entry().is_repeated || self.arguments().any(|argument| argument.is_repeated)
    }

    /// What its orchestration calls it.
    #[must_use]
    pub fn task_name(&self) -> Option<&'t str> {
        self.tasks.name(self.entry().name)
    }

    /// The scope that it lies in and those around it, outermost first: `layer 1 / attention`.
    #[must_use]
    pub fn scope(&self) -> Option<&'t str> {
        self.tasks.name(self.entry().scope)
    }

    /// What an argument is called: by its own record, or by the first of the kernels that knows it.
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

    /// Whether its records say that it had not completed when the run ended.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.is_recorded() && (self.facts().in_flight || self.facts().completed_ns.is_none())
    }

    /// Times each kernel is dispatched, where the dump says.
    #[must_use]
    pub fn block_count(&self) -> Option<u32> {
        self.is_recorded().then_some(self.facts().block_num)
    }

    /// Arguments that it has, captured or not, where the dump says.
    #[must_use]
    pub fn argument_total(&self) -> Option<u32> {
        let TaskFacts { tensor_count, scalar_count, .. } = self.facts();
        let is_known = self.is_recorded() && !self.tasks.counts_are_partial;
        tensor_count.checked_add(*scalar_count).filter(|_| is_known)
    }

    /// Names of its kernels, slot by slot; `func_<id>` where the dump does not say.
    #[must_use]
    pub fn kernel_names(&self) -> Vec<String> {
        self.facts().func_ids().map(|id| self.tasks.kernel_name(id)).collect()
    }

    /// What the dump says of the kernels that it runs.
    pub fn kernels(&self) -> impl Iterator<Item = &'t KernelInfo> + use<'t> {
        let tasks = self.tasks;
        self.facts().func_ids().filter_map(move |id| tasks.kernel(id)).collect::<Vec<_>>().into_iter()
    }

    /// Arguments of which anything was captured, by `arg_index`.
    pub fn arguments(&self) -> impl DoubleEndedIterator<Item = Argument<'t>> + ExactSizeIterator + use<'t> {
        let tasks = self.tasks;
        wide(&self.entry().arguments).map(move |number| Argument { tasks, number })
    }

    /// The argument of an index.
    #[must_use]
    pub fn argument(&self, arg_index: u16) -> Option<Argument<'t>> {
        let range = wide(&self.entry().arguments);
        let place =
            self.tasks.arguments[range.clone()].binary_search_by_key(&arg_index, |a| a.arg_index).ok()?;
        Some(Argument { tasks: self.tasks, number: range.start + place })
    }

    /// Arguments whose content matters before the task runs.
    pub fn inputs(&self) -> impl Iterator<Item = Argument<'t>> + use<'t> {
        self.arguments().filter(|argument| argument.role.reads())
    }

    /// Arguments that the task writes.
    pub fn outputs(&self) -> impl Iterator<Item = Argument<'t>> + use<'t> {
        self.arguments().filter(|argument| argument.role.writes())
    }

    /// Its dispatches (`--dump-args`), by slot and block.
    #[must_use]
    pub fn dispatches(&self) -> &'t [DispatchFacts] {
        &self.tasks.dispatches[wide(&self.entry().dispatches)]
    }

    /// When they were handed over and ran, in the same order.
    #[must_use]
    pub fn dispatch_times(&self) -> &'t [DispatchTimes] {
        &self.tasks.dispatch_times[wide(&self.entry().dispatches)]
    }

    /// The name of one of its dispatches; see [`dispatch_id`].
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

    /// Arguments that could not be captured, in order, and why.
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

/// Whether a step is asked for; without ranges, all are.
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
    /// As many.
    dispatch_times: Vec<DispatchTimes>,
    threads: Vec<RecordingThread>,
    edges: Vec<Edge>,
    /// By time.
    renewed: Vec<Renewed>,
    /// By task and argument.
    uncaptured: Vec<(TaskKey, u16, UncapturedReason)>,
    kernels: Arc<[KernelInfo]>,
    /// Names and scopes of tasks, each once.
    names: Vec<Box<str>>,
    /// Own names of arguments, by string id.
    arg_names: HashMap<u32, Box<str>>,
    /// Whether the numbers of arguments leave some out.
    pub(crate) counts_are_partial: bool,
    /// Positions by name, made when a task is first looked for.
    by_key: OnceLock<Vec<u32>>,
    sorted_edges: OnceLock<SortedEdges>,
    steps: OnceLock<Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Entry {
    facts: TaskFacts,
    is_recorded: bool,
    is_repeated: bool,
    /// Places of its names in [`Tasks::names`], or [`NO_NAME`].
    name: u32,
    scope: u32,
    /// There may be millions of tasks, so places are as small as they can be.
    arguments: std::ops::Range<u32>,
    dispatches: std::ops::Range<u32>,
}

/// The place of a name that is none.
const NO_NAME: u32 = u32::MAX;

/// A range of places as lists take it.
fn wide(range: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Positions of edges, in the order of the tasks at either end.
#[derive(Clone, Debug)]
struct SortedEdges {
    by_producer: Vec<usize>,
    by_consumer: Vec<usize>,
}

/// Shapes and strides, one behind the other.
#[derive(Clone, Debug, Default)]
struct Dims {
    shapes: Vec<u64>,
    strides: Vec<i64>,
}

impl Dims {
    /// Keeps dimensions and says where; those that were kept last are kept once.
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
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Arguments of all tasks.
    #[must_use]
    pub fn argument_count(&self) -> usize {
        self.arguments.len()
    }

    /// The task at a position.
    ///
    /// # Panics
    /// There are not as many.
    #[must_use]
    pub fn at(&self, place: usize) -> Task<'_> {
        assert!(place < self.len(), "task {place} of {}", self.len());
        Task { tasks: self, place }
    }

    /// Every task: those with records of their own in the order in which these first came, then the others in the order in
    /// which their arguments did; or as [`Tasks::put_in_order`] left them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Task<'_>> + ExactSizeIterator {
        (0..self.len()).map(|place| Task { tasks: self, place })
    }

    /// The task of a name.
    #[must_use]
    pub fn find(&self, key: TaskKey) -> Option<Task<'_>> {
        let by_key = self.by_key.get_or_init(|| {
            // As with arguments, there is no room for 2^32 of them.
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

    /// Who recorded, in the order in which each first did.
    #[must_use]
    pub fn threads(&self) -> &[RecordingThread] {
        &self.threads
    }

    /// Memory that was freed or allocated while the tasks ran, by time.
    #[must_use]
    pub fn renewed(&self) -> &[Renewed] {
        &self.renewed
    }

    /// Arguments that could not be captured.
    #[must_use]
    pub fn uncaptured_count(&self) -> usize {
        self.uncaptured.len()
    }

    /// The kernel of a number, where the dump says.
    #[must_use]
    pub fn kernel(&self, func_id: u32) -> Option<&KernelInfo> {
        self.kernels.iter().find(|kernel| kernel.func_id == func_id)
    }

    /// Name of a kernel; `func_<id>` where the dump does not say.
    #[must_use]
    pub fn kernel_name(&self, func_id: u32) -> String {
        self.kernel(func_id).map_or_else(|| format!("func_{func_id}"), |kernel| kernel.name.clone())
    }

    /// Puts tasks into another order: `order` has every position once. What stands in it twice, or nowhere, stays out.
    pub fn put_in_order(&mut self, order: &[usize]) {
        let mut taken = vec![false; self.len()];
        let first_time = |place: &&usize| taken.get_mut(**place).is_some_and(|t| !std::mem::replace(t, true));
        self.entries = order.iter().filter(first_time).map(|&place| self.entries[place].clone()).collect();
        self.by_key = OnceLock::new();
        self.steps = OnceLock::new();
    }

    /// The steps that the tasks belong to, each once, in order.
    #[must_use]
    pub fn steps(&self) -> &[u32] {
        self.steps.get_or_init(|| {
            let mut steps: Vec<u32> = self.entries.iter().map(|entry| entry.facts.step).collect();
            steps.sort_unstable();
            steps.dedup();
            steps
        })
    }

    /// Leaves the tasks of these steps, each range from its first to its last; without ranges, all.
    pub fn keep_steps(&mut self, ranges: &[(u64, u64)]) {
        if !ranges.is_empty() {
            let kept: Vec<usize> =
                self.iter().filter(|t| is_in_steps(ranges, t.step)).map(|t| t.place()).collect();
            self.put_in_order(&kept);
        }
    }

    /// Gives hashes to contents that have none. `hash` is asked for each, with what was captured.
    ///
    /// # Errors
    /// Those of `hash`.
    pub fn fill_hashes<E>(
        &mut self,
        mut hash: impl FnMut(&Captured) -> Result<Option<u128>, E>,
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

    /// Drops what was captured of tasks in flight: what a task that did not complete has written is no output.
    pub fn forget_in_flight(&mut self) {
        for argument in &mut self.arguments {
            argument.before = argument.before.filter(|captured| !captured.in_flight);
            argument.after = argument.after.filter(|captured| !captured.in_flight);
        }
    }

    /// Gives every task the names that a dump has for it. Equal names are kept once.
    pub fn give_names<'n>(&mut self, names: impl Fn(TaskKey) -> Names<'n>) {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut kept: Vec<Box<str>> = Vec::new();
        let mut keep = |name: Option<&'n str>| {
            let Some(name) = name else { return NO_NAME };
            *known.entry(name).or_insert_with(|| {
                // A dump has no 2^32 names: those that would be too many are left away.
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

    /// Gives arguments the names that their own records say, by string id.
    pub fn give_arg_names<'n>(&mut self, name: impl Fn(u32) -> Option<&'n str>) {
        for argument in self.arguments.iter().filter(|argument| argument.name != 0) {
            if !self.arg_names.contains_key(&argument.name)
                && let Some(name) = name(argument.name)
            {
                self.arg_names.insert(argument.name, name.into());
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

    /// The edges of a sorted list that have a task at one end.
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
