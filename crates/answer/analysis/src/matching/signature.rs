//! Computes colors of tasks: hashes of a task by itself, or including its producers and consumers, but not
//! its id.

use std::hash::{DefaultHasher, Hash, Hasher};

use tensortap_abi::{Operation, Role};
use tensortap_format::{Argument, Task, Tasks};

use crate::blame::values::is_value;
use crate::graph::{OutputRef, TaskGraph};

/// Number of passes down and up the graph. Each pass uses the colors of the one before, so one pass is enough
/// for most graphs.
const ROUNDS: usize = 3;

/// How the kernels of two dumps are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelKey {
    /// By name: both dumps have names.
    Name,
    /// By function id: one dump has no names.
    FuncId,
    /// Not at all: one dump does not record which kernels ran.
    Nothing,
}

/// How the steps of two dumps correspond. Tasks of different steps are never paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKey {
    /// By number: the dumps have a number in common.
    Number,
    /// By rank: the dumps have no number in common.
    Order,
}

impl StepKey {
    /// The step of a task, comparable between both dumps.
    pub fn of(self, tasks: &Tasks, task: Task<'_>) -> u64 {
        match self {
            StepKey::Number => task.step.into(),
            StepKey::Order => tasks.steps().partition_point(|&step| step < task.step) as u64,
        }
    }
}

/// The properties that must be equal for a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchCriteria {
    pub kernel: KernelKey,
    pub step: StepKey,
    /// Ignore block counts: one of the dumps does not record them.
    pub ignore_blocks: bool,
    /// The golden may have other float dtypes.
    pub ignore_float_dtype: bool,
    /// The sizes of arguments whose extent is a guess differ between the runs.
    pub ignore_guessed_sizes: bool,
    /// Arguments. Dumps that captured different parts of a task have different arguments.
    pub args: bool,
    /// Bits of scalars, also without the other arguments.
    pub scalars: bool,
    /// Content of inputs that no task wrote.
    pub external_inputs: bool,
    /// Content of in-out arguments that no task wrote.
    pub external_inouts: bool,
    /// Producers of in-out arguments. Uninitialized memory comes from an arbitrary earlier user.
    pub inout_sources: bool,
}

impl MatchCriteria {
    /// The color of a task by itself.
    pub fn local(&self, tasks: &Tasks, task: Task<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.step.of(tasks, task).hash(&mut hasher);
        for func_id in task.func_ids() {
            match self.kernel {
                KernelKey::Name => tasks.kernel(func_id).map(|kernel| &kernel.name).hash(&mut hasher),
                KernelKey::FuncId => func_id.hash(&mut hasher),
                KernelKey::Nothing => {}
            }
        }
        // All tasks of scenes run kernels, and their dumps do not record the operation.
        if task.operation != Operation::Kernel {
            (task.operation as u8).hash(&mut hasher);
        }
        if !self.ignore_blocks {
            task.block_count().hash(&mut hasher);
        }
        for arg in certain_arguments(task).filter(|arg| self.args || self.scalars && arg.is_scalar()) {
            self.hash_arg(arg, &mut hasher);
        }
        hasher.finish()
    }

    /// Whether two tasks may be the same task of which the dumps captured different parts: nothing that both
    /// captured differs.
    pub fn is_compatible(
        &self,
        (tasks, task): (&Tasks, Task<'_>),
        (others, other): (&Tasks, Task<'_>),
    ) -> bool {
        let are_recorded = task.is_recorded() && other.is_recorded();
        let ignore_blocks = self.ignore_blocks || !are_recorded;
        let alone = MatchCriteria { args: false, ignore_blocks, ..*self };
        let agree = |ours: Option<&str>, theirs: Option<&str>| ours.zip(theirs).is_none_or(|(a, b)| a == b);
        let of = |arg: Argument<'_>| {
            let mut hasher = DefaultHasher::new();
            self.hash_arg(arg, &mut hasher);
            hasher.finish()
        };
        let same_arg = |arg: Argument<'_>| other.counterpart(arg).is_none_or(|there| of(arg) == of(there));
        let totals = certain_total(task).zip(certain_total(other));
        alone.local(tasks, task) == alone.local(others, other)
            && agree(task.scope(), other.scope())
            && agree(task.task_name(), other.task_name())
            && totals.is_none_or(|(ours, theirs)| ours == theirs)
            && certain_arguments(task).all(same_arg)
    }

    fn hash_arg(&self, arg: Argument<'_>, hasher: &mut DefaultHasher) {
        // The role of a `const` argument depends on what was captured.
        let role = if arg.is_const { Role::InOut } else { arg.role };
        (arg.arg_index, role.tag(), arg.is_scalar()).hash(hasher);
        if arg.extent_known || !self.ignore_guessed_sizes {
            arg.shape().hash(hasher);
        }
        if !(self.ignore_float_dtype && arg.dtype.part().is_float()) {
            arg.dtype.tag().hash(hasher);
        }
        if self.scalars {
            arg.scalar_bits.hash(hasher);
        }
    }

    /// The color of every task including its surroundings. The color of a paired task is the number of its
    /// pair.
    pub fn colors(&self, graph: &TaskGraph, pairs: &[Option<usize>]) -> Vec<u64> {
        let mut colors: Vec<u64> = graph.tasks().iter().map(|t| self.local(graph.tasks(), t)).collect();
        for (color, pair) in colors.iter_mut().zip(pairs) {
            if let Some(pair) = pair {
                *color = hash_of(&("pair", pair));
            }
        }
        for _ in 0..ROUNDS {
            for place in (0..graph.len()).filter(|&p| pairs[p].is_none()) {
                colors[place] = self.with_producers(graph, place, &colors);
            }
            with_consumers(graph, pairs, &mut colors);
        }
        colors
    }

    /// The color of every task including everything that led to it, but not what follows. So the tasks before an
    /// additional one keep their colors.
    pub fn colors_of_origins(&self, graph: &TaskGraph, pairs: &[Option<usize>]) -> Vec<u64> {
        let mut colors: Vec<u64> = graph.tasks().iter().map(|t| self.local(graph.tasks(), t)).collect();
        for place in 0..graph.len() {
            colors[place] = match pairs[place] {
                Some(pair) => hash_of(&("pair", pair)),
                None => self.with_producers(graph, place, &colors),
            };
        }
        colors
    }

    fn with_producers(&self, graph: &TaskGraph, place: usize, colors: &[u64]) -> u64 {
        let mut hasher = DefaultHasher::new();
        colors[place].hash(&mut hasher);
        for arg in certain_arguments(graph.task(place)).filter(|a| a.role.reads() && !a.is_scalar()) {
            let is_inout = arg.role == Role::InOut;
            if is_inout && !self.inout_sources {
                continue;
            }
            let mut from = ColorSum::default();
            certain_producers(graph, arg).for_each(|o| from.add(colors[o.task], o.arg_index.into()));
            (arg.arg_index, from).hash(&mut hasher);
            let counts = if is_inout { self.external_inouts } else { self.external_inputs };
            if counts && is_external(graph, graph.task(place), arg) {
                arg.hash_before().hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// The arguments that identify a task. Whether a kernel uses a candidate is not known, and stale pointers differ from run to
/// run.
pub(super) fn certain_arguments(task: Task<'_>) -> impl Iterator<Item = Argument<'_>> {
    task.arguments().filter(|arg| !arg.is_candidate())
}

/// Whether the content of an argument was there before all tasks, and is the same in all right runs. A value that a launch
/// received by copy is not: it may hold addresses and garbage.
pub(super) fn is_external(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    !arg.is_scalar() && graph.producers_of(arg).is_empty() && !is_value(graph, task, arg)
}

/// Number of arguments of a task without candidates.
fn certain_total(task: Task<'_>) -> Option<u32> {
    let candidates = task.arguments().filter(Argument::is_candidate).count();
    task.argument_total()?.checked_sub(u32::try_from(candidates).ok()?)
}

/// The outputs that an argument came from, without candidates.
pub(super) fn certain_producers<'g>(
    graph: &'g TaskGraph,
    arg: Argument<'_>,
) -> impl Iterator<Item = OutputRef> + use<'g> {
    let is_candidate = |output: OutputRef| graph.output(output).is_some_and(|written| written.is_candidate());
    graph.producers_of(arg).iter().copied().filter(move |&output| !is_candidate(output))
}

/// Adds the colors of a task's consumers to its own color. A consumer comes after its producers, so in
/// reverse order every task has the colors of all its consumers before its own turn.
fn with_consumers(graph: &TaskGraph, pairs: &[Option<usize>], colors: &mut [u64]) {
    let mut consumers = vec![ColorSum::default(); graph.len()];
    for task in graph.tasks().iter().rev() {
        let place = task.place();
        if pairs[place].is_none() {
            colors[place] = hash_of(&(colors[place], consumers[place]));
        }
        for arg in certain_arguments(task) {
            for output in certain_producers(graph, arg) {
                let by = u64::from(arg.arg_index) << 16 | u64::from(output.arg_index);
                consumers[output.task].add(colors[place], by);
            }
        }
    }
}

/// An order-independent combination of colors, each with the edge it came by. A sum takes one step per color;
/// sorting would be slower for a task with thousands of neighbors.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct ColorSum {
    count: u64,
    sum: u64,
}

impl ColorSum {
    pub fn add(&mut self, color: u64, by: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(mixed(color ^ mixed(by)));
    }
}

/// Mixes a number so that every bit of the result depends on every bit of the input.
fn mixed(number: u64) -> u64 {
    let folded = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let folded = (folded ^ folded >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93);
    folded ^ folded >> 32
}

pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
