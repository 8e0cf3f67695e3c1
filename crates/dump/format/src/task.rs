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
mod view;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tensortap_abi::UncapturedReason;

pub use argument::{Argument, PointerWord};
pub use assembler::{ArgumentRecord, Assembler, DispatchFinish, PendingTask, TaskPart};
pub use facts::{
    AllocationEvent, ArgumentFacts, ArgumentSnapshot, CollectiveFacts, DispatchFacts, DispatchTimes, Launch,
    RecordingThread, TaskFacts, TaskKey,
};
pub use view::Task;

use crate::{ArgumentKind, Edge, KernelInfo, Names};

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
