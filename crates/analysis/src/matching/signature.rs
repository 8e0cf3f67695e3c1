//! What a task looks like, apart from its identity: by itself, and with all that led to it and came of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use tensortap_abi::Role;
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
        let consumers = Consumers::of(graph);
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
            for place in (0..graph.len()).rev().filter(|&p| pairs[p].is_none()) {
                colors[place] = consumers.around(place, &colors);
            }
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
            let mut from: Vec<(u64, u16)> = outputs.iter().map(|o| (colors[o.task], o.arg_index)).collect();
            from.sort_unstable();
            (arg.arg_index, from).hash(&mut hasher);
            let counts = if is_inout { self.external_inouts } else { self.external_inputs };
            if counts && outputs.is_empty() {
                arg.hash_before().hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// Who was given what a task wrote.
struct Consumers {
    /// Consumer, its argument, the argument of the task that wrote it.
    of: Vec<Vec<(usize, u16, u16)>>,
}

impl Consumers {
    fn of(graph: &TaskGraph) -> Consumers {
        let mut of = vec![Vec::new(); graph.len()];
        for task in graph.tasks().iter() {
            for arg in task.arguments() {
                for output in graph.outputs_behind(arg) {
                    of[output.task].push((task.place(), arg.arg_index, output.arg_index));
                }
            }
        }
        Consumers { of }
    }

    fn around(&self, place: usize, colors: &[u64]) -> u64 {
        let mut to: Vec<_> = self.of[place].iter().map(|&(c, arg, out)| (colors[c], arg, out)).collect();
        to.sort_unstable();
        hash_of(&(colors[place], to))
    }
}

pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
