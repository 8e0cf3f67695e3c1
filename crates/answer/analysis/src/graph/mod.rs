//! The tasks of a dump and the flow of content between them.
//!
//! For every input, the graph has its producers: the outputs that the content came from. See
//! [`TaskGraph::build`] for the evidence. With unknown roles, the graph also has [`Observations`].

pub(crate) mod candidates;
mod dataflow;
mod ends;
pub(crate) mod index;
mod order;
mod origins;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod view;
mod writes;

use tensortap_abi::{ArgKind, DumpLevel};
use tensortap_format::{Argument, Dump, FormatError, Status, Tail, Task, TaskKey, Tasks, is_in_steps};
use tensortap_values::content_hash;

use crate::compare::unless_gone;
use crate::observation::{Observation, Observations};

pub(crate) use index::TaskIndex;
pub(crate) use origins::Origins;
pub use view::TensorView;
pub(crate) use writes::WriteMap;

/// The tasks of a dump with their dataflow.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    /// In dependency order: every task comes after its producers.
    tasks: Tasks,
    /// By argument number.
    origins: Origins,
    /// By task position.
    depths: Vec<u32>,
    /// Why writes may be missing from the dump; `None` if every write was captured.
    pub gap: Option<String>,
    /// Why the ends of completed tasks may be missing from the dump; `None` if every end was recorded.
    pub lost_ends: Option<String>,
    /// Whether unrecorded code may write between tasks, as in a recorded program.
    pub others_write: bool,
    /// Whether the runtime derived the dependencies from reads and writes, so that they show all producers of every task.
    /// A program declares what it likes.
    pub has_derived_edges: bool,
    /// What the dump shows about the length of its run.
    pub extent: RunExtent,
    /// Present if some roles are unknown.
    observations: Option<Box<Observations>>,
}

/// The length of a run, as far as its dump shows it. An extra launch shifts the ids of all later tasks, so ids of
/// incomplete dumps are compared only if nothing suggests that the runs have different lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunExtent {
    /// Number of records of the whole run: kept, filtered and lost ones. `None` if not known.
    pub records: Option<u64>,
    /// Whether the run or its dump ended early, so its last tasks are missing.
    pub ended_early: bool,
    /// Whether filters removed tasks, not only arguments. `None` if that is not known.
    pub filters_tasks: Option<bool>,
    /// Whether the dump has all tasks of each kernel of which it has one.
    pub has_whole_kernels: bool,
    /// Whether several threads recorded, or the program had several queues. The dump may lack the tasks of some of them.
    pub had_several_lanes: bool,
}

/// The producers of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'g> {
    /// The outputs that the content came from, the newest first. Empty if no captured task wrote it. If
    /// several tasks wrote parts, some bytes between the parts may have no writer.
    pub outputs: &'g [OutputRef],
    /// The evidence for the outputs.
    pub basis: OriginBasis,
}

/// An output of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputRef {
    /// Position of the task in its [`TaskGraph`].
    pub task: usize,
    /// Argument of that task.
    pub arg_index: u16,
}

/// The evidence for the producers of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OriginBasis {
    /// The bytes that earlier tasks wrote.
    #[default]
    Bytes,
    /// The dump's dependencies, which do not show which bytes.
    Edges,
    /// Equal content of an earlier output.
    Content,
    /// None: no address, no dependency, no equal content.
    Nothing,
    /// None: the search would take too long.
    Undecided,
}

impl Origin<'_> {
    /// Whether it is certain that no captured task wrote the input.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.outputs.is_empty() && !matches!(self.basis, OriginBasis::Nothing | OriginBasis::Undecided)
    }
}

/// Who else may have written, apart from the captured tasks.
#[derive(Clone, Debug, Default)]
struct Surroundings {
    /// See [`TaskGraph::gap`].
    gap: Option<String>,
    /// See [`TaskGraph::others_write`].
    others_write: bool,
}

/// The lane of a task, which orders its tasks: its queue, or its thread if it has none.
pub(crate) fn lane(task: Task<'_>) -> (u32, Option<u32>) {
    if task.queue == 0 { (0, task.thread) } else { (task.queue, None) }
}

impl TaskGraph {
    /// Whether tasks ran on several threads or queues. Counts those whose tasks the dump lacks.
    pub(crate) fn has_several_lanes(&self) -> bool {
        if self.extent.had_several_lanes && crate::matching::lacks_tasks(self) {
            return true;
        }
        let mut lanes = self.tasks.iter().map(lane);
        let first = lanes.next();
        lanes.any(|lane| Some(lane) != first)
    }

    /// The tasks, in dependency order.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The task at a position.
    ///
    /// # Panics
    /// `place` is out of bounds.
    #[must_use]
    pub fn task(&self, place: usize) -> Task<'_> {
        self.tasks.at(place)
    }

    /// Number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the graph has no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The producers of an argument and the evidence for them.
    #[must_use]
    pub fn origin(&self, arg: Argument<'_>) -> Origin<'_> {
        self.origins.get(arg.number())
    }

    /// The outputs that the content of an argument came from.
    #[must_use]
    pub fn producers_of(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.origin(arg).outputs
    }

    /// Observations of arguments with unknown roles; `None` if all roles are known.
    #[must_use]
    pub fn observations(&self) -> Option<&Observations> {
        self.observations.as_deref()
    }

    /// The observation of an argument; `None` if its role is known.
    #[must_use]
    pub fn observed(&self, arg: Argument<'_>) -> Option<Observation> {
        self.observations.as_ref()?.observed(arg)
    }

    /// Number of arguments with undecided producers, or for which it is undecided whether other tasks wrote
    /// them. Reasons: too many tasks share memory without an order, or too many views with gaps are
    /// interleaved.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        match &self.observations {
            Some(seen) => seen.undecided_count(),
            None => self.origins.undecided_count(),
        }
    }

    /// The outputs that an argument is compared with to see whether it changed between tasks. With unknown
    /// roles, these are the outputs of the last tasks that used its bytes; otherwise its producers.
    #[must_use]
    pub fn last_holders(&self, arg: Argument<'_>) -> &[OutputRef] {
        self.observations.as_ref().map_or_else(|| self.producers_of(arg), |seen| seen.last_holders(arg))
    }

    /// The argument of an output.
    #[must_use]
    pub fn output(&self, output: OutputRef) -> Option<Argument<'_>> {
        self.task(output.task).argument(output.arg_index)
    }

    /// Whether an argument of a task was not captured that its kernel does not declare as an output.
    #[must_use]
    pub fn lacks_input(&self, task: Task<'_>) -> bool {
        let mut kernels = task.func_ids();
        let kernel = match (kernels.next(), kernels.next()) {
            (Some(only), None) => self.tasks.kernel(only),
            _ => None,
        };
        let is_output = |index: u32| {
            let kind = kernel.and_then(|kernel| kernel.signature.get(index as usize));
            kind.is_some_and(|kind| kind == ArgKind::Out.name())
        };
        let is_captured = |index: u32| u16::try_from(index).is_ok_and(|index| task.argument(index).is_some());
        let captured = task.arguments().len() as u64;
        let total = task.argument_total().filter(|&total| captured < u64::from(total)).unwrap_or(0);
        (0..total).any(|index| !is_captured(index) && !is_output(index))
    }

    /// Length of the longest chain of producers that leads to a task.
    #[must_use]
    pub fn depth(&self, place: usize) -> u32 {
        self.depths[place]
    }

    /// Sorts positions into the order of reports: by [depth](Self::depth), then by step and id. This is a
    /// dependency order that does not depend on dispatch times, so it is the same for every run.
    pub fn sort(&self, places: &mut [usize]) {
        places.sort_by_key(|&place| (self.depth(place), self.task(place).key()));
    }

    /// For every task, the tasks that read some of its outputs, each once, in order.
    #[must_use]
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.len()];
        for task in self.tasks.iter() {
            for output in task.arguments().flat_map(|arg| self.producers_of(arg)) {
                let list: &mut Vec<usize> = &mut consumers[output.task];
                if list.last() != Some(&task.place()) {
                    list.push(task.place());
                }
            }
        }
        consumers
    }

    /// The position of a task.
    #[must_use]
    pub fn position(&self, key: TaskKey) -> Option<usize> {
        self.tasks.find(key).map(|task| task.place())
    }
}

/// Reads the tasks of a dump and finds the producers of every input. If the dump has no hashes, this reads
/// and hashes the contents. `steps` selects steps; empty means all.
pub fn load(dump: &Dump, steps: &[(u64, u64)]) -> Result<TaskGraph, FormatError> {
    load_with_progress(dump, steps, &|| ())
}

/// Like [`load`]; calls `watch` regularly, which may unwind to cancel the work.
pub fn load_with_progress(
    dump: &Dump,
    steps: &[(u64, u64)],
    watch: &dyn Fn(),
) -> Result<TaskGraph, FormatError> {
    let mut tasks = dump.tasks_watched(watch)?;
    tasks.keep_steps(steps);
    tasks.forget_in_flight();
    tasks.retain_arguments(|task, arg| !candidates::is_alias(task, arg));
    tasks.fill_hashes(|captured| match captured.is_stored() {
        true => {
            watch();
            let content = unless_gone(dump.payload(&dump.record(captured.record)?))?;
            Ok(content.map(|content| content_hash(&content)))
        }
        false => Ok(None),
    })?;
    let around = Surroundings { gap: gap(dump, &tasks), others_write: dump.info().is_of_program() };
    Ok(TaskGraph {
        extent: extent(dump),
        lost_ends: ends::lost_ends(dump),
        ..TaskGraph::build_with_progress(tasks, around, watch)
    })
}

/// The steps of a golden to compare with: the selected ones, else the dump's steps if the golden has them.
/// Then both sides are cut alike, and content from before the cut has no producer on either side.
#[must_use]
pub fn steps_of_golden(golden: &Dump, steps: &[(u64, u64)], asked: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let has_them = || golden.steps().iter().any(|&step| is_in_steps(steps, step));
    match asked {
        [] if !steps.is_empty() && has_them() => steps.to_vec(),
        asked => asked.to_vec(),
    }
}

fn extent(dump: &Dump) -> RunExtent {
    let footer = dump.footer().filter(|_| !dump.format().is_foreign());
    let ended_early = footer.is_some_and(|footer| footer.status != Status::Complete)
        || !dump.format().is_foreign() && dump.tail() != Tail::Closed;
    // At level `marked`, records that are not marked are not counted.
    let counts_all = !ended_early && dump.info().dump_level != DumpLevel::Marked as u32;
    let records = footer.filter(|_| counts_all).map(|footer| {
        dump.len().saturating_add(footer.filtered_records).saturating_add(footer.dropped_records())
    });
    /// Queues are numbered from 1.
    const SECOND_QUEUE: u32 = 2;
    let had_several_lanes =
        footer.is_some_and(|footer| footer.threads.len() > 1) || dump.queue_name(SECOND_QUEUE).is_some();
    /// Filters that may remove some tasks of a kernel.
    const WITHIN_KERNELS: [&str; 3] = ["task", "first", "last"];
    let mut filters = dump.info().filters.iter();
    let has_losses = dump.footer().is_none_or(|footer| !footer.losses.is_empty()) || !dump.gaps().is_empty();
    let has_whole_kernels =
        !ended_early && !has_losses && !filters.any(|filter| WITHIN_KERNELS.contains(&filter.as_str()));
    RunExtent {
        records,
        ended_early,
        filters_tasks: filters_tasks(dump),
        has_whole_kernels,
        had_several_lanes,
    }
}

/// Whether the dump's filters removed tasks. A recorded program reports its tasks even if no argument passes the filters.
fn filters_tasks(dump: &Dump) -> Option<bool> {
    /// Filters of tasks by their names in the run information.
    const OF_TASKS: [&str; 4] = ["task", "func", "first", "last"];
    let filters = &dump.info().filters;
    let has_losses = dump.footer().is_none_or(|footer| !footer.losses.is_empty()) || !dump.gaps().is_empty();
    if filters.iter().any(|filter| OF_TASKS.contains(&filter.as_str())) {
        return Some(true);
    }
    (!filters.is_empty() && dump.info().is_of_program() && !has_losses).then_some(false)
}

/// Why writes may be missing from the dump.
fn gap(dump: &Dump, tasks: &Tasks) -> Option<String> {
    let footer = dump.footer();
    let filtered = footer.map_or(0, |f| f.filtered_records);
    let lost = footer.map_or(0, |f| f.losses.iter().map(|l| l.records).sum::<u64>());
    let uncaptured = tasks.uncaptured_count();
    if dump.info().dump_level == DumpLevel::Marked as u32 {
        Some("only marked arguments were captured".into())
    } else if filtered > 0 {
        let records = if filtered == 1 { "record" } else { "records" };
        Some(format!("filters removed {filtered} {records}"))
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
