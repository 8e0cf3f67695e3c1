//! What a task looks like, apart from its identity: by itself, and with all that led to it and came of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use tensortap_abi::{Operation, Role};
use tensortap_format::{Argument, Task, Tasks};

use crate::graph::TaskGraph;

/// Passes up and down the graph. Each sees what the one before gathered, so one of either is enough for most graphs.
const ROUNDS: usize = 3;

/// How kernels of two dumps are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelKey {
    /// Both dumps have names.
    Name,
    /// One has none.
    FuncId,
    /// One does not say which kernels ran.
    Nothing,
}

/// How the steps of two dumps are told apart: what ran in one step is never what ran in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKey {
    /// Both dumps have a step of one number.
    Number,
    /// They have none in common: the first is the first.
    Order,
}

/// What counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    pub kernel: KernelKey,
    pub step: StepKey,
    /// One of the dumps does not say how often a task was dispatched.
    pub ignore_blocks: bool,
    /// The golden may have other float dtypes.
    pub ignore_float_dtype: bool,
    /// Arguments at all: dumps that captured different parts of a task have different ones.
    pub args: bool,
    /// Bits of scalars.
    pub scalars: bool,
    /// Content of inputs that no task wrote.
    pub external_inputs: bool,
    /// Content of in-outs that no task wrote.
    pub external_inouts: bool,
    /// Where in-outs came from: memory that nobody initialised comes from whoever used it before.
    pub inout_sources: bool,
}

impl Traits {
    /// A task by itself.
    pub fn local(&self, tasks: &Tasks, task: Task<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.step {
            StepKey::Number => task.step.hash(&mut hasher),
            StepKey::Order => tasks.steps().binary_search(&task.step).ok().hash(&mut hasher),
        }
        for func_id in task.func_ids() {
            match self.kernel {
                KernelKey::Name => tasks.kernel(func_id).map(|kernel| &kernel.name).hash(&mut hasher),
                KernelKey::FuncId => func_id.hash(&mut hasher),
                KernelKey::Nothing => {}
            }
        }
        // A scene's tasks all run kernels; dumps of others do not say.
        if task.operation != Operation::Kernel {
            (task.operation as u8).hash(&mut hasher);
        }
        if !self.ignore_blocks {
            task.block_count().hash(&mut hasher);
        }
        for arg in task.arguments().filter(|_| self.args) {
            self.hash_arg(arg, &mut hasher);
        }
        hasher.finish()
    }

    fn hash_arg(&self, arg: Argument<'_>, hasher: &mut DefaultHasher) {
        (arg.arg_index, arg.role.tag(), arg.shape(), arg.is_scalar()).hash(hasher);
        if !(self.ignore_float_dtype && arg.dtype.is_float()) {
            arg.dtype.tag().hash(hasher);
        }
        if self.scalars {
            arg.scalar_bits.hash(hasher);
        }
    }

    /// Every task of a graph in its surroundings. Tasks that are paired already look like the number of their pair.
    pub fn colors(&self, graph: &TaskGraph, pairs: &[Option<usize>]) -> Vec<u64> {
        let mut colors: Vec<u64> = graph.tasks().iter().map(|t| self.local(graph.tasks(), t)).collect();
        for (color, pair) in colors.iter_mut().zip(pairs) {
            if let Some(pair) = pair {
                *color = hash_of(&("pair", pair));
            }
        }
        for _ in 0..ROUNDS {
            for place in (0..graph.len()).filter(|&p| pairs[p].is_none()) {
                colors[place] = self.with_outputs_behind(graph, place, &colors);
            }
            with_consumers(graph, pairs, &mut colors);
        }
        colors
    }

    fn with_outputs_behind(&self, graph: &TaskGraph, place: usize, colors: &[u64]) -> u64 {
        let mut hasher = DefaultHasher::new();
        colors[place].hash(&mut hasher);
        for arg in graph.task(place).inputs().filter(|a| !a.is_scalar()) {
            let is_inout = arg.role == Role::InOut;
            if is_inout && !self.inout_sources {
                continue;
            }
            let outputs = graph.outputs_behind(arg);
            let mut from = Gathered::default();
            outputs.iter().for_each(|o| from.add(colors[o.task], o.arg_index.into()));
            (arg.arg_index, from).hash(&mut hasher);
            let counts = if is_inout { self.external_inouts } else { self.external_inputs };
            if counts && outputs.is_empty() {
                arg.hash_before().hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// Adds to the color of each task those of the tasks that were given what it wrote. A consumer stands behind its producers, so
/// on the way back every task has heard of all its consumers when its turn comes.
fn with_consumers(graph: &TaskGraph, pairs: &[Option<usize>], colors: &mut [u64]) {
    let mut consumers = vec![Gathered::default(); graph.len()];
    for task in graph.tasks().iter().rev() {
        let place = task.place();
        if pairs[place].is_none() {
            colors[place] = hash_of(&(colors[place], consumers[place]));
        }
        for arg in task.arguments() {
            for output in graph.outputs_behind(arg) {
                let by = u64::from(arg.arg_index) << 16 | u64::from(output.arg_index);
                consumers[output.task].add(colors[place], by);
            }
        }
    }
}

/// Colors that came together, each by a way, in any order: a sum costs one step for each, where sorting them would cost more
/// for a task that has thousands of neighbours.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Gathered {
    count: u64,
    sum: u64,
}

impl Gathered {
    pub fn add(&mut self, color: u64, by: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(mixed(color ^ mixed(by)));
    }
}

/// Every bit of the result depends on every bit of the number.
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
