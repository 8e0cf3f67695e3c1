//! Observations of arguments with unknown roles.
//!
//! A capture backend of a third-party program sees which memory a launch uses, but not what the launch does
//! with it. The backend captures every range before and after the launch. Recorded edges order tasks: the
//! first is complete, including its captures, before anything of the second is captured. From this evidence
//! follows only:
//!
//! - The content is `same` or `changed` over a task. `same` proves neither a read nor the absence of a write.
//! - `changed` proves a write by the task only if nothing unordered with the task, and not the host, may have
//!   written the range. Otherwise the observation is `ambiguous`, and the unordered tasks are named.
//! - Content that differs from what the last task left, with no task in between, is an *unattributed change*
//!   between those two tasks.
//!
//! Nothing is inferred about a range from any other time.

mod memory;
mod order;
mod runs;
#[cfg(test)]
mod tests;
mod touches;
mod unattributed;

use std::collections::HashMap;

use tensortap_format::{AllocationEvent, Argument, Task, Tasks};

use crate::graph::{OriginBasis, Origins, OutputRef, TensorView, WriteMap};
use crate::steps::Budget;
use memory::Memory;
pub use order::Order;
use touches::{TouchFilter, Touches};
pub use unattributed::{UnattributedChange, UnattributedChanges};

/// Limit on the number of tasks that an ambiguity names.
pub const NAMED: usize = 8;
/// Limit on the number of tasks that are counted; more are reported as "or more".
pub const COUNTED: usize = 100;

/// The observation of an argument over its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Observation {
    /// Equal bytes before and after. That proves neither a read nor the absence of a write.
    Same,
    /// Different bytes, and only the task can have written them.
    Changed,
    /// Different bytes, and others may have written them.
    Ambiguous,
    /// The content before or after was not captured.
    Unobserved,
}

impl Observation {
    /// All observations.
    pub const ALL: [Observation; 4] =
        [Observation::Same, Observation::Changed, Observation::Ambiguous, Observation::Unobserved];

    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Observation::Same => "same",
            Observation::Changed => "changed",
            Observation::Ambiguous => "ambiguous",
            Observation::Unobserved => "unobserved",
        }
    }

    /// The observation with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Observation> {
        Observation::ALL.into_iter().find(|observed| observed.name() == name)
    }

    /// The observation by the hashes of both stages, ignoring other tasks; `None` if the role is known.
    fn of(arg: Argument<'_>) -> Option<Observation> {
        if arg.role_known || arg.is_scalar() {
            return None;
        }
        Some(match arg.hash_before().zip(arg.hash_after()).filter(|_| arg.is_consistent) {
            None => Observation::Unobserved,
            Some((before, after)) if before == after => Observation::Same,
            Some(_) => Observation::Changed,
        })
    }
}

/// Why a change is not certainly the task's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ambiguity {
    /// The first tasks, in dependency order, that are unordered with the task and may have written the range.
    pub others: Vec<usize>,
    /// Number of such tasks; [`COUNTED`] means that many or more.
    pub count: usize,
    /// The host may change the memory at any time.
    pub host_writable: bool,
    /// There may be more such tasks: the search was cut off, or some order is not known.
    pub is_cut: bool,
}

/// Tasks that nothing orders with a task and that may have written its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnorderedTasks {
    /// Positions in order; at most [`COUNTED`].
    pub tasks: Vec<usize>,
    /// Whether the list is complete up to that limit. Otherwise the search was cut off.
    pub is_decided: bool,
}

impl UnorderedTasks {
    /// Whether there are certainly no such tasks.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.is_decided && self.tasks.is_empty()
    }
}

/// Number of arguments per observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservationCounts {
    /// Arguments with equal content before and after.
    pub same: u64,
    /// Arguments that their tasks changed.
    pub changed: u64,
    /// Arguments that changed and that others may have written.
    pub ambiguous: u64,
    /// Arguments without captures at both stages.
    pub unobserved: u64,
}

/// Cache key of a query for last holders: the shared predecessors, the view, the number of its allocations so
/// far, and the filter.
type HolderKey = ((u32, usize), usize, usize, TouchFilter);

/// The observations of all arguments of a graph.
#[derive(Clone, Debug)]
pub struct Observations {
    order: Order,
    memory: Memory,
    touches: Touches,
    /// By argument number; `None` if the role is known.
    observed: Vec<Option<Observation>>,
    ambiguities: HashMap<usize, Ambiguity>,
    /// By argument number: the outputs of the last tasks ordered before it that used its bytes and may have
    /// written them, the newest first.
    last_holders: Origins,
    budget: Budget,
    /// Number of arguments for which it is undecided who wrote them before, or whether others wrote them
    /// meanwhile.
    undecided: usize,
}

/// Limit on the steps of one query.
const STEPS_PER_QUERY: u64 = 1 << 16;

impl Observations {
    /// Observes tasks in dependency order and finds the producers of each argument: the last tasks ordered
    /// before it that changed its bytes, are known to write them, or may have. Tasks that left the bytes
    /// unchanged are skipped.
    pub(crate) fn of(tasks: &Tasks) -> (Observations, Origins) {
        let budget = Budget::of(tasks.argument_count(), STEPS_PER_QUERY);
        Observations::within(tasks, Order::of(tasks), budget)
    }

    fn within(tasks: &Tasks, order: Order, budget: Budget) -> (Observations, Origins) {
        let memory = Memory::of(tasks);
        let touches = Touches::of(tasks, &order, &memory);
        let observed = tasks.iter().flat_map(|task| task.arguments());
        let observed: Vec<(usize, Option<Observation>)> =
            observed.map(|arg| (arg.number(), Observation::of(arg))).collect();
        let mut by_number = vec![None; tasks.argument_count()];
        observed.into_iter().for_each(|(number, observed)| by_number[number] = observed);
        let mut seen = Observations {
            last_holders: Origins::new(tasks.argument_count()),
            observed: by_number,
            ambiguities: HashMap::new(),
            order,
            memory,
            touches,
            budget,
            undecided: 0,
        };
        seen.find_ambiguities(tasks);
        let origins = match seen.order.is_total() {
            true => seen.flow_in_one_chain(tasks),
            false => seen.flow(tasks),
        };
        let args = tasks.iter().flat_map(|task| task.arguments());
        let is_cut = |number: usize| {
            seen.ambiguities.get(&number).is_some_and(|why| why.is_cut && why.others.is_empty())
        };
        let is_undecided =
            |number: usize| origins.get(number).basis == OriginBasis::Undecided || is_cut(number);
        seen.undecided = args.filter(|arg| is_undecided(arg.number())).count();
        (seen, origins)
    }

    /// Number of arguments for which it is undecided, within the step limits, who wrote them before their
    /// tasks or whether others wrote them meanwhile. They count as ambiguous, with undecided producers.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        self.undecided
    }

    /// The order of the tasks.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The observation of an argument; `None` if its role is known.
    #[must_use]
    pub fn observed(&self, arg: Argument<'_>) -> Option<Observation> {
        self.observed[arg.number()]
    }

    /// Why an argument that changed is ambiguous.
    #[must_use]
    pub fn ambiguity(&self, arg: Argument<'_>) -> Option<&Ambiguity> {
        self.ambiguities.get(&arg.number())
    }

    /// The outputs of the last tasks ordered before an argument's task that used its bytes and may have
    /// written them.
    #[must_use]
    pub fn last_holders(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.last_holders.get(arg.number()).outputs
    }

    /// Tasks that are unordered with an argument's task and may have written its bytes.
    #[must_use]
    pub fn unordered(&self, task: Task<'_>, arg: Argument<'_>) -> UnorderedTasks {
        // In a total order touches are not even stored.
        let view = self.memory.view_of(arg).filter(|_| !self.order.is_total());
        let Some(view) = view else { return UnorderedTasks { tasks: Vec::new(), is_decided: true } };
        let mut query_steps = self.budget.query_steps();
        self.touches.unordered(&self.order, &self.memory, (task.place(), view), &mut query_steps)
    }

    /// Whether the host may have changed an argument during or before its task.
    #[must_use]
    pub fn is_host_writable(&self, task: Task<'_>, arg: Argument<'_>) -> bool {
        let at = task.end_time().or(task.start_time()).unwrap_or(u64::MAX);
        arg.host_writable
            || self.memory.view_of(arg).is_some_and(|view| self.memory.is_host_writable(view, at))
    }

    /// The recorded allocation that contains an argument when its task starts.
    #[must_use]
    pub fn allocation(&self, task: Task<'_>, arg: Argument<'_>) -> Option<AllocationEvent> {
        let at = task.given_time().unwrap_or(u64::MAX);
        self.memory.allocation(self.memory.view_of(arg)?, at)
    }

    /// Number of arguments per observation.
    #[must_use]
    pub fn counts(&self) -> ObservationCounts {
        let mut counts = ObservationCounts::default();
        for observed in self.observed.iter().flatten() {
            *match observed {
                Observation::Same => &mut counts.same,
                Observation::Changed => &mut counts.changed,
                Observation::Ambiguous => &mut counts.ambiguous,
                Observation::Unobserved => &mut counts.unobserved,
            } += 1;
        }
        counts
    }

    fn find_ambiguities(&mut self, tasks: &Tasks) {
        for task in tasks.iter().filter(|task| !task.contains_tasks()) {
            for arg in task.arguments() {
                if self.observed[arg.number()] != Some(Observation::Changed) {
                    continue;
                }
                let unordered = self.unordered(task, arg);
                let host_writable = self.is_host_writable(task, arg);
                if unordered.is_none() && !host_writable {
                    continue;
                }
                let UnorderedTasks { tasks: mut others, is_decided } = unordered;
                let count = others.len();
                others.truncate(NAMED);
                self.observed[arg.number()] = Some(Observation::Ambiguous);
                let why = Ambiguity { others, count, host_writable, is_cut: !is_decided };
                self.ambiguities.insert(arg.number(), why);
            }
        }
    }

    /// Whether the task may have changed the argument, by its role or observation.
    fn wrote(&self, arg: Argument<'_>) -> bool {
        match self.observed[arg.number()] {
            None => arg.role.writes(),
            Some(observed) => observed != Observation::Same,
        }
    }

    /// Finds producers in a total order: the last write of a byte is the one before in the order.
    fn flow_in_one_chain(&mut self, tasks: &Tasks) -> Origins {
        let mut origins = Origins::new(tasks.argument_count());
        let count = tasks.argument_count();
        let (mut writes, mut touched) = (WriteMap::of(count), WriteMap::of(count));
        let mut renewed = tasks.renewed().iter().peekable();
        for task in tasks.iter() {
            let given = task.given_time().unwrap_or(0);
            while let Some(memory) = renewed.next_if(|memory| memory.at_ns <= given) {
                writes.forget(memory.address, memory.bytes);
                touched.forget(memory.address, memory.bytes);
            }
            for arg in task.inputs().filter(|arg| !arg.is_scalar()) {
                let Some(view) = TensorView::of(arg) else {
                    origins.set(arg.number(), &[], OriginBasis::Nothing);
                    continue;
                };
                note(&mut origins, arg, writes.last(&view).as_deref());
                note(&mut self.last_holders, arg, touched.last(&view).as_deref());
            }
            for arg in task.outputs() {
                let Some(view) = TensorView::of(arg) else { continue };
                let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
                touched.insert(output, view);
                if self.wrote(arg) {
                    writes.insert(output, view);
                }
            }
        }
        origins
    }

    /// Finds producers in a partial order.
    fn flow(&mut self, tasks: &Tasks) -> Origins {
        let observed = &self.observed;
        self.touches.keep_writes(|number| observed[number] != Some(Observation::Same));
        let mut origins = Origins::new(tasks.argument_count());
        // Tasks after the same barrier get the same answers.
        let mut cache: HashMap<HolderKey, Option<Vec<OutputRef>>> = HashMap::new();
        for task in tasks.iter() {
            for arg in task.inputs().filter(|arg| !arg.is_scalar()) {
                let Some(view) = self.memory.view_of(arg) else {
                    origins.set(arg.number(), &[], OriginBasis::Nothing);
                    continue;
                };
                let renewed = self.memory.allocations_by(view, task.given_time().unwrap_or(0));
                let mut last = |which| {
                    let find = || {
                        let (query, mut query_steps) = ((view, which), self.budget.query_steps());
                        self.touches.last(tasks, &self.order, &self.memory, task, query, &mut query_steps)
                    };
                    match self.order.predecessor_key(task.place()) {
                        Some(before) => {
                            cache.entry((before, view, renewed, which)).or_insert_with(find).clone()
                        }
                        None => find(),
                    }
                };
                note(&mut origins, arg, last(TouchFilter::Wrote).as_deref());
                let left = last(TouchFilter::MayHaveWritten);
                note(&mut self.last_holders, arg, left.as_deref());
            }
        }
        origins
    }
}

/// Stores the outputs of an argument, or that they are undecided.
fn note(origins: &mut Origins, arg: Argument<'_>, outputs: Option<&[OutputRef]>) {
    let basis = if outputs.is_some() { OriginBasis::Bytes } else { OriginBasis::Undecided };
    origins.set(arg.number(), outputs.unwrap_or_default(), basis);
}
