//! What was observed of arguments whose roles are not known.
//!
//! A door into a program of others sees which memory a launch is given, not what the launch does with it. It captures every range
//! before and after, and the edges that it records say which tasks were ordered: the one complete, its captures too, before anything
//! of the other was captured. From that follows, and no more than that:
//!
//! - `same` or `changed` over the task. `same` proves neither a read nor the absence of a write;
//! - `changed` is the task's own write only if nothing that is unordered with it may touch the range, and the host may not;
//!   otherwise it is `ambiguous`, with those tasks named;
//! - content that differs from what the last task left, with no task between, is an *unattributed change*, with both ends.
//!
//! Nothing about a range is inferred from another time than its own.

mod memory;
mod order;
mod runs;
#[cfg(test)]
mod tests;
mod touches;
mod unattributed;

use std::collections::HashMap;

use tensortap_format::{Argument, Renewed, Task, Tasks};

use crate::graph::{Basis, Origins, OutputRef, TensorView, WriteMap};
use crate::steps::Budget;
use memory::Memory;
pub use order::Order;
use touches::{Touches, Which};
pub use unattributed::{Unattributed, UnattributedChanges};

/// Tasks that an ambiguity names.
pub const NAMED: usize = 8;
/// Tasks that are counted before it is said that there are more.
pub const COUNTED: usize = 100;

/// What was observed of an argument over its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Observed {
    /// It held the same bytes before and after. That proves neither a read nor the absence of a write.
    Same,
    /// It did not, and nothing else may have written it: the task did.
    Changed,
    /// It did not, and others may have written it.
    Ambiguous,
    /// Before or after, its content was not captured.
    Unobserved,
}

impl Observed {
    /// All of them.
    pub const ALL: [Observed; 4] =
        [Observed::Same, Observed::Changed, Observed::Ambiguous, Observed::Unobserved];

    /// Spelled as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Observed::Same => "same",
            Observed::Changed => "changed",
            Observed::Ambiguous => "ambiguous",
            Observed::Unobserved => "unobserved",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Observed> {
        Observed::ALL.into_iter().find(|observed| observed.name() == name)
    }

    /// By the hashes of both stages, before anything is asked of others; `None` where the role is known.
    fn of(arg: Argument<'_>) -> Option<Observed> {
        if arg.role_known || arg.is_scalar() {
            return None;
        }
        Some(match arg.hash_before().zip(arg.hash_after()).filter(|_| arg.is_consistent) {
            None => Observed::Unobserved,
            Some((before, after)) if before == after => Observed::Same,
            Some(_) => Observed::Changed,
        })
    }
}

/// Why a change is not the task's own for certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ambiguity {
    /// The first tasks, in dependency order, that are unordered with it and may have written the range.
    pub others: Vec<usize>,
    /// How many there are; [`COUNTED`] stands for as many or more.
    pub count: usize,
    /// The host may change the memory at any time.
    pub host_writable: bool,
    /// There may be more: not all that share the memory were looked at, or their order is not known.
    pub is_cut: bool,
}

/// Tasks that nothing orders with one, and that may have written what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unordered {
    /// Their positions, in order; [`COUNTED`] at most.
    pub tasks: Vec<usize>,
    /// Whether these are all there are, up to that number. Otherwise there was too much to look at.
    pub is_decided: bool,
}

impl Unordered {
    /// Whether it is certain that there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.is_decided && self.tasks.is_empty()
    }
}

/// How often what was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedCounts {
    /// Arguments that held the same before and after.
    pub same: u64,
    /// That their tasks changed.
    pub changed: u64,
    /// That changed while others may have written them.
    pub ambiguous: u64,
    /// That were not captured at both stages.
    pub unobserved: u64,
}

/// What is asked again and again: what tasks are before, a view, how often its memory was renewed, and which touches.
type Asked = ((u32, usize), usize, usize, Which);

/// What was observed of all arguments of a graph.
#[derive(Clone, Debug)]
pub struct Observations {
    order: Order,
    memory: Memory,
    touches: Touches,
    /// By the numbers of arguments; `None` where the role is known.
    observed: Vec<Option<Observed>>,
    ambiguities: HashMap<usize, Ambiguity>,
    /// By the numbers of arguments, the outputs of the last tasks ordered before it that were given its bytes and may have written
    /// them, the last first.
    left_by: Origins,
    budget: Budget,
    /// Arguments of which it is not decided who wrote them before, or whether others may have written them meanwhile.
    undecided: usize,
}

/// Steps that one question may take.
const STEPS_OF_QUESTION: u64 = 1 << 16;

impl Observations {
    /// Observes tasks that stand in dependency order, and finds where the content of each argument came from: from the last tasks
    /// ordered before it that changed its bytes, are known to write them, or may have. What a task left as it was is passed through.
    pub(crate) fn of(tasks: &Tasks) -> (Observations, Origins) {
        let budget = Budget::of(tasks.argument_count(), STEPS_OF_QUESTION);
        Observations::within(tasks, Order::of(tasks), budget)
    }

    fn within(tasks: &Tasks, order: Order, budget: Budget) -> (Observations, Origins) {
        let memory = Memory::of(tasks);
        let touches = Touches::of(tasks, &order, &memory);
        let observed = tasks.iter().flat_map(|task| task.arguments());
        let observed: Vec<(usize, Option<Observed>)> =
            observed.map(|arg| (arg.number(), Observed::of(arg))).collect();
        let mut by_number = vec![None; tasks.argument_count()];
        observed.into_iter().for_each(|(number, observed)| by_number[number] = observed);
        let mut seen = Observations {
            left_by: Origins::new(tasks.argument_count()),
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
        let is_undecided = |number: usize| origins.get(number).basis == Basis::Undecided || is_cut(number);
        seen.undecided = args.filter(|arg| is_undecided(arg.number())).count();
        (seen, origins)
    }

    /// Arguments of which it is not decided who wrote them before their tasks, or whether others may have written them meanwhile: it would
    /// take too long. They count as ambiguous, and as having come from nobody knows where.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        self.undecided
    }

    /// Which tasks are ordered.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// What was observed of an argument; `None` where its role is known.
    #[must_use]
    pub fn observed(&self, arg: Argument<'_>) -> Option<Observed> {
        self.observed[arg.number()]
    }

    /// Why an argument that changed is ambiguous.
    #[must_use]
    pub fn ambiguity(&self, arg: Argument<'_>) -> Option<&Ambiguity> {
        self.ambiguities.get(&arg.number())
    }

    /// The last tasks ordered before the task of an argument that may have written its bytes, by what they were given of them.
    #[must_use]
    pub fn left_by(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.left_by.get(arg.number()).outputs
    }

    /// Tasks that are unordered with that of an argument and may write its bytes.
    #[must_use]
    pub fn unordered(&self, task: Task<'_>, arg: Argument<'_>) -> Unordered {
        // Where every task is before or behind every other, touches are not even kept.
        let view = self.memory.view_of(arg).filter(|_| !self.order.is_total());
        let Some(view) = view else { return Unordered { tasks: Vec::new(), is_decided: true } };
        let mut question = self.budget.question();
        self.touches.unordered(&self.order, &self.memory, (task.place(), view), &mut question)
    }

    /// Whether the host may have changed an argument while its task ran, or before.
    #[must_use]
    pub fn is_host_writable(&self, task: Task<'_>, arg: Argument<'_>) -> bool {
        let at = task.end_time().or(task.start_time()).unwrap_or(u64::MAX);
        arg.host_writable
            || self.memory.view_of(arg).is_some_and(|view| self.memory.is_host_writable(view, at))
    }

    /// The allocation that an argument lies in, as far as the dump says, when its task began.
    #[must_use]
    pub fn allocation(&self, task: Task<'_>, arg: Argument<'_>) -> Option<Renewed> {
        let at = task.given_time().unwrap_or(u64::MAX);
        self.memory.allocation(self.memory.view_of(arg)?, at)
    }

    /// How often what was observed.
    #[must_use]
    pub fn counts(&self) -> ObservedCounts {
        let mut counts = ObservedCounts::default();
        for observed in self.observed.iter().flatten() {
            *match observed {
                Observed::Same => &mut counts.same,
                Observed::Changed => &mut counts.changed,
                Observed::Ambiguous => &mut counts.ambiguous,
                Observed::Unobserved => &mut counts.unobserved,
            } += 1;
        }
        counts
    }

    fn find_ambiguities(&mut self, tasks: &Tasks) {
        for task in tasks.iter() {
            for arg in task.arguments() {
                if self.observed[arg.number()] != Some(Observed::Changed) {
                    continue;
                }
                let unordered = self.unordered(task, arg);
                let host_writable = self.is_host_writable(task, arg);
                if unordered.is_none() && !host_writable {
                    continue;
                }
                let Unordered { tasks: mut others, is_decided } = unordered;
                let count = others.len();
                others.truncate(NAMED);
                self.observed[arg.number()] = Some(Observed::Ambiguous);
                let why = Ambiguity { others, count, host_writable, is_cut: !is_decided };
                self.ambiguities.insert(arg.number(), why);
            }
        }
    }

    /// Whether the task may have changed the argument, as far as was observed.
    fn wrote(&self, arg: Argument<'_>) -> bool {
        match self.observed[arg.number()] {
            None => arg.role.writes(),
            Some(observed) => observed != Observed::Same,
        }
    }

    /// Origins where every task is before or behind every other: then the last write of a byte is the one before.
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
                    origins.set(arg.number(), &[], Basis::Nothing);
                    continue;
                };
                note(&mut origins, arg, writes.last(&view).as_deref());
                note(&mut self.left_by, arg, touched.last(&view).as_deref());
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

    /// The same where some are unordered.
    fn flow(&mut self, tasks: &Tasks) -> Origins {
        let observed = &self.observed;
        self.touches.keep_writes(|number| observed[number] != Some(Observed::Same));
        let mut origins = Origins::new(tasks.argument_count());
        // Tasks behind one barrier find the same.
        let mut known: HashMap<Asked, Option<Vec<OutputRef>>> = HashMap::new();
        for task in tasks.iter() {
            for arg in task.inputs().filter(|arg| !arg.is_scalar()) {
                let Some(view) = self.memory.view_of(arg) else {
                    origins.set(arg.number(), &[], Basis::Nothing);
                    continue;
                };
                let renewed = self.memory.renewed_by(view, task.given_time().unwrap_or(0));
                let mut last = |which| {
                    let find = || {
                        let (asked, mut question) = ((view, which), self.budget.question());
                        self.touches.last(tasks, &self.order, &self.memory, task, asked, &mut question)
                    };
                    match self.order.shared_before(task.place()) {
                        Some(before) => {
                            known.entry((before, view, renewed, which)).or_insert_with(find).clone()
                        }
                        None => find(),
                    }
                };
                note(&mut origins, arg, last(Which::Wrote).as_deref());
                let left = last(Which::Touched);
                note(&mut self.left_by, arg, left.as_deref());
            }
        }
        origins
    }
}

/// Notes which outputs an argument was taken from, or that it is not decided.
fn note(origins: &mut Origins, arg: Argument<'_>, outputs: Option<&[OutputRef]>) {
    let basis = if outputs.is_some() { Basis::Bytes } else { Basis::Undecided };
    origins.set(arg.number(), outputs.unwrap_or_default(), basis);
}
