//! The tasks of a dump and how content flowed between them.

mod dataflow;
mod order;
mod origins;
pub(crate) mod places;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod view;
mod writes;

use tensortap_abi::DumpLevel;
use tensortap_format::{Argument, Dump, FormatError, Tail, Task, TaskKey, Tasks, is_in_steps};
use tensortap_values::content_hash;

use crate::compare::unless_gone;
use crate::observation::{Observations, Observed};

pub(crate) use origins::Origins;
pub(crate) use places::Places;
pub use view::TensorView;
pub(crate) use writes::WriteMap;

/// The tasks of one dump with their dataflow.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    /// In dependency order: every task stands behind those whose content it was given.
    tasks: Tasks,
    /// By the numbers of arguments.
    origins: Origins,
    /// By the positions of tasks.
    depths: Vec<u32>,
    /// Why writes may be missing from the dump; `None` when every one was captured.
    pub gap: Option<String>,
    /// Whether code that is no task may have written between tasks, as in a program that was recorded.
    pub others_write: bool,
    /// Where some roles are not known.
    observations: Option<Box<Observations>>,
}

/// Where the content of an input came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'g> {
    /// The outputs that hold it, the one written last first. None for what no captured task wrote; what several wrote may
    /// have gaps between that nobody did.
    pub outputs: &'g [OutputRef],
    /// How that is known.
    pub basis: Basis,
}

/// An output of a task, which others may have been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputRef {
    /// Position of the task in its [`TaskGraph`].
    pub task: usize,
    /// Argument of that task.
    pub arg_index: u16,
}

/// How an origin is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// By the bytes that tasks wrote before.
    #[default]
    Bytes,
    /// By the dump's own dependencies, which do not say which bytes.
    Edges,
    /// By equal content of an earlier output.
    Content,
    /// Not at all: no address, no dependency, no equal content.
    Nothing,
    /// Not at all: to find it would take too long.
    Undecided,
}

impl Origin<'_> {
    /// Whether it is known that no captured task wrote it.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.outputs.is_empty() && !matches!(self.basis, Basis::Nothing | Basis::Undecided)
    }
}

impl TaskGraph {
    /// The tasks, in dependency order.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The task at a position.
    ///
    /// # Panics
    /// There are not as many.
    #[must_use]
    pub fn task(&self, place: usize) -> Task<'_> {
        self.tasks.at(place)
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// A task in flight that this one waits for: it cannot have begun.
    #[must_use]
    pub fn unfinished_before(&self, task: Task<'_>) -> Option<usize> {
        let mut waited = task.producers().filter_map(|edge| self.position(edge.producer()));
        waited.find(|&place| place != task.place() && self.task(place).is_unfinished())
    }

    /// Where the content of an argument of one of these tasks came from.
    #[must_use]
    pub fn origin(&self, arg: Argument<'_>) -> Origin<'_> {
        self.origins.get(arg.number())
    }

    /// The outputs that an argument was taken from.
    #[must_use]
    pub fn outputs_behind(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.origin(arg).outputs
    }

    /// What was observed of arguments whose roles are not known; `None` of a dump that knows them all.
    #[must_use]
    pub fn observations(&self) -> Option<&Observations> {
        self.observations.as_deref()
    }

    /// What was observed of an argument; `None` where its role is known.
    #[must_use]
    pub fn observed(&self, arg: Argument<'_>) -> Option<Observed> {
        self.observations.as_ref()?.observed(arg)
    }

    /// Arguments of which it is not decided where they came from, or whether others than their tasks may have written them: too many tasks
    /// share memory without being ordered, or too many views with gaps lie in one another.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        match &self.observations {
            Some(seen) => seen.undecided_count(),
            None => self.origins.undecided_count(),
        }
    }

    /// The outputs that an argument is held against, to see whether it changed on the way: those of the last tasks that were given its
    /// bytes where it is not known who wrote them, else those that it was taken from.
    #[must_use]
    pub fn left_behind(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.observations.as_ref().map_or_else(|| self.outputs_behind(arg), |seen| seen.left_by(arg))
    }

    /// The argument that an output is.
    #[must_use]
    pub fn output(&self, output: OutputRef) -> Option<Argument<'_>> {
        self.task(output.task).argument(output.arg_index)
    }

    /// Length of the longest chain of tasks that leads to one.
    #[must_use]
    pub fn depth(&self, place: usize) -> u32 {
        self.depths[place]
    }

    /// Puts positions into the order in which tasks are reported: by [depth](Self::depth), and tasks of equal depth by step and id. Like that of
    /// positions it is a dependency order, but times of dispatch have no part in it: it is the same for every run.
    pub fn sort(&self, places: &mut [usize]) {
        places.sort_by_key(|&place| (self.depth(place), self.task(place).key()));
    }

    /// For every task, the tasks that were given some of what it wrote, each once, in order.
    #[must_use]
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.len()];
        for task in self.tasks.iter() {
            for output in task.arguments().flat_map(|arg| self.outputs_behind(arg)) {
                let list: &mut Vec<usize> = &mut consumers[output.task];
                if list.last() != Some(&task.place()) {
                    list.push(task.place());
                }
            }
        }
        consumers
    }

    /// Where a task stands.
    #[must_use]
    pub fn position(&self, key: TaskKey) -> Option<usize> {
        self.tasks.find(key).map(|task| task.place())
    }
}

/// Reads the tasks of a dump and finds where every input came from. Contents are read only where the dump has no hashes: then
/// each is hashed here. `steps` are those that are asked for; none stand for all.
pub fn load(dump: &Dump, steps: &[(u64, u64)]) -> Result<TaskGraph, FormatError> {
    load_watched(dump, steps, &|| ())
}

/// The same; `watch` is called again and again meanwhile, and may unwind to give it up.
pub fn load_watched(dump: &Dump, steps: &[(u64, u64)], watch: &dyn Fn()) -> Result<TaskGraph, FormatError> {
    let mut tasks = dump.tasks_watched(watch)?;
    tasks.keep_steps(steps);
    tasks.forget_in_flight();
    tasks.fill_hashes(|captured| match captured.is_stored() {
        true => {
            watch();
            let content = unless_gone(dump.payload(&dump.record(captured.record)?))?;
            Ok(content.map(|content| content_hash(&content)))
        }
        false => Ok(None),
    })?;
    let gap = gap(dump, &tasks);
    Ok(TaskGraph { others_write: dump.info().is_of_program(), ..TaskGraph::build_watched(tasks, gap, watch) })
}

/// The steps of a golden that steps of a dump are held against: those that were asked for, else the same where it has them. So both are
/// cut alike, and what came from before the cut came from nobody on either side.
#[must_use]
pub fn steps_of_golden(golden: &Dump, steps: &[(u64, u64)], asked: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let has_them = || golden.steps().iter().any(|&step| is_in_steps(steps, step));
    match asked {
        [] if !steps.is_empty() && has_them() => steps.to_vec(),
        asked => asked.to_vec(),
    }
}

/// Why writes may be missing.
fn gap(dump: &Dump, tasks: &Tasks) -> Option<String> {
    let footer = dump.footer();
    let filtered = footer.map_or(0, |f| f.filtered_records);
    let lost = footer.map_or(0, |f| f.losses.iter().map(|l| l.records).sum::<u64>());
    let uncaptured = tasks.uncaptured_count();
    if dump.info().dump_level == DumpLevel::Marked as u32 {
        Some("only marked arguments were captured".into())
    } else if filtered > 0 {
        let records = if filtered == 1 { "record" } else { "records" };
        Some(format!("filters kept {filtered} {records} out"))
    } else if lost > 0 || !dump.gaps().is_empty() {
        Some("records were lost".into())
    } else if dump.tail() != Tail::Closed {
        Some("the dump was not closed".into())
    } else if uncaptured > 0 {
        let arguments = if uncaptured == 1 { "argument" } else { "arguments" };
        Some(format!("{uncaptured} {arguments} could not be captured"))
    } else {
        None
    }
}
