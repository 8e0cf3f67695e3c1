//! The data of a task's page.

use std::time::Duration;

use tensortap::DType;
use tensortap::abi::{TensorStats, UncapturedReason};
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::observation::UnattributedChange;
use tensortap::format::{
    Argument, ArgumentSnapshot, Attribute, Details, Dump, FormatError, Module, Record, Task, TaskDetails,
};

use crate::fact_words::{attribute_text, collective_text};
use crate::module_words::module_of;
use crate::show::{Content, Histogram};
use crate::summary::early_end;

/// Ranges of the sparkline of values.
const BINS: usize = 16;

/// A task with its arguments and neighbors.
pub struct TaskPage<'g> {
    /// The task.
    pub task: Task<'g>,
    /// When the task ran.
    pub times: Times,
    /// How a recorded program submitted it.
    pub submission: Submission,
    /// The module with its code, if known.
    pub module: Option<Module>,
    /// Its arguments, in order.
    pub args: Vec<ArgPage<'g>>,
    /// Arguments that could not be captured, with reasons.
    pub uncaptured: Vec<(u16, UncapturedReason)>,
    /// Tasks whose outputs it used or that it depends on, each once.
    pub producers: Vec<Neighbor>,
    /// Tasks that used its outputs or that depend on it, each once.
    pub consumers: Vec<Neighbor>,
    /// If the task had not completed: why the run ended early.
    pub run_end: Option<String>,
}

/// How a recorded program submitted a task. Unknown parts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// Name of its step.
    pub step_name: Option<String>,
    /// Queue or stream.
    pub queue: Option<String>,
    /// Source file and line that submitted it; line 0 if unknown.
    pub source: Option<(String, u32)>,
    /// The region that contains it, or the task that submitted it.
    pub parent: Option<u64>,
    /// What it is in a collective operation: as text, and as a document.
    pub collective: Option<(String, serde_json::Value)>,
    /// Attributes, in the order of recording.
    pub attributes: Vec<AttributeFact>,
}

/// An attribute of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeFact {
    /// Its name.
    pub name: String,
    /// Its value as text.
    pub text: String,
    /// Its document, as in `graph.json`.
    pub document: serde_json::Value,
}

impl AttributeFact {
    fn of(attribute: &Attribute<'_>) -> AttributeFact {
        AttributeFact {
            name: attribute.name.to_owned(),
            text: attribute_text(attribute),
            document: serde_json::to_value(attribute).unwrap_or_default(),
        }
    }
}

impl Submission {
    fn of(details: &Details, task: Task<'_>) -> Submission {
        let TaskDetails { queue, step_name, source, parent, collective, .. } = details.of(task.key());
        let collective =
            collective.map(|one| (collective_text(&one), serde_json::to_value(one).unwrap_or_default()));
        let attributes = details.attributes(task.key()).map(|attribute| AttributeFact::of(&attribute));
        let source = source.map(|(file, line)| (file.to_owned(), line));
        Submission {
            step_name: step_name.map(str::to_owned),
            queue: queue.map(str::to_owned),
            source,
            parent,
            collective,
            attributes: attributes.collect(),
        }
    }

    /// `solver.c:17`
    #[must_use]
    pub fn source_text(&self) -> Option<String> {
        let (file, line) = self.source.as_ref()?;
        Some(if *line > 0 { format!("{file}:{line}") } else { file.clone() })
    }
}

/// When a task ran, relative to the first task of the dump. Unknown times are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time of its first dispatch.
    pub started: Option<Duration>,
    /// Duration.
    pub took: Option<Duration>,
}

/// An argument of the task.
pub struct ArgPage<'g> {
    /// The argument.
    pub arg: Argument<'g>,
    /// Its name.
    pub name: Option<String>,
    /// Content before the task.
    pub before: Option<ArgSnapshot>,
    /// Content after the task.
    pub after: Option<ArgSnapshot>,
    /// Places of the tasks that produced its content before the task.
    pub from: Vec<usize>,
    /// Places of the tasks that used its content after the task.
    pub to: Vec<usize>,
    /// An unattributed change before the task, if there is one.
    pub unattributed: Option<UnattributedChange>,
}

impl ArgPage<'_> {
    pub(super) fn record(&self) -> Option<&Record> {
        let moment = self.before.as_ref().or(self.after.as_ref());
        moment.map(|moment| &moment.record)
    }

    /// Element type, as it is read.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.record().map_or(self.arg.dtype, |record| record.dtype)
    }

    /// Shape, as it is read.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.record().map_or(self.arg.shape(), |record| record.shape())
    }
}

/// An argument at one stage.
pub struct ArgSnapshot {
    /// Its record.
    pub record: Record,
    /// Statistics, measured or as captured.
    pub stats: Option<TensorStats>,
    /// Distribution of its values.
    pub histogram: Option<Histogram>,
    /// Whether the content differs from its captured hash.
    pub damaged: bool,
}

/// A neighbor of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Place in the graph.
    pub place: usize,
    /// Whether content passed. Otherwise it is only a dependency.
    pub carries: bool,
}

impl<'g> TaskPage<'g> {
    /// Builds the page of the task at `place`. Reads the contents of its arguments.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(dump: &Dump, graph: &'g TaskGraph, place: usize) -> Result<TaskPage<'g>, FormatError> {
        TaskPage::with(
            dump,
            graph,
            place,
            &takers(graph, place, 0..graph.len()),
            (first_start(graph), &dump.details()?),
        )
    }

    /// The same with an index, without a walk over the whole graph.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn among(
        dump: &Dump,
        graph: &'g TaskGraph,
        index: &TaskIndex,
        place: usize,
    ) -> Result<TaskPage<'g>, FormatError> {
        let takers = takers(graph, place, index.takers(place).iter().map(|&taker| taker as usize));
        TaskPage::with(dump, graph, place, &takers, (index.first_start, &index.details))
    }

    fn with(
        dump: &Dump,
        graph: &'g TaskGraph,
        place: usize,
        takers: &[(u16, usize)],
        (first, details): (Option<u64>, &Details),
    ) -> Result<TaskPage<'g>, FormatError> {
        let task = graph.task(place);
        let mut args = Vec::new();
        for arg in task.arguments() {
            let to = takers.iter().filter(|(index, _)| *index == arg.arg_index).map(|(_, taker)| *taker);
            args.push(ArgPage {
                arg,
                name: task.arg_name(arg.arg_index).map(String::from),
                before: moment(dump, arg.before)?,
                after: moment(dump, arg.after)?,
                from: once(graph, graph.producers_of(arg).iter().map(|output| output.task)),
                to: once(graph, to),
                unattributed: graph.unattributed_change(dump, place, arg)?,
            });
        }
        let given = args.iter().flat_map(|arg| arg.from.iter().copied());
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let producers = neighbors(graph, given, waited);
        let taken = takers.iter().map(|(_, taker)| *taker);
        let waiting = task.consumers().filter_map(|edge| graph.position(edge.consumer()));
        let consumers = neighbors(graph, taken, waiting);
        let submission = Submission::of(details, task);
        let (module, uncaptured) = (module_of(dump, task), task.uncaptured_args().collect());
        let times = Times::since(first, task);
        let run_end = early_end(dump).filter(|_| task.is_unfinished());
        Ok(TaskPage { task, times, submission, module, args, uncaptured, producers, consumers, run_end })
    }
}

impl Times {
    /// Times of a task, relative to the first task of its graph.
    #[must_use]
    pub fn of(graph: &TaskGraph, task: Task<'_>) -> Times {
        Times::since(first_start(graph), task)
    }

    /// Times of a task, relative to `first`.
    #[must_use]
    pub fn since(first: Option<u64>, task: Task<'_>) -> Times {
        let started = task.start_time();
        let since = |from: Option<u64>, to: Option<u64>| Some(Duration::from_nanos(to?.checked_sub(from?)?));
        Times { started: since(first, started), took: since(started, task.end_time()) }
    }
}

fn first_start(graph: &TaskGraph) -> Option<u64> {
    graph.tasks().iter().filter_map(|task| task.start_time()).min()
}

/// An index for pages of many tasks of one graph. It is built in one walk and takes 4 bytes per task and per
/// passed content.
pub struct TaskIndex {
    /// Start time of the first task.
    pub first_start: Option<u64>,
    /// Start of each task's range in `takers`, and the end of the last one.
    starts: Vec<u32>,
    takers: Vec<u32>,
    /// Details of tasks from a recorded program.
    details: Details,
}

impl TaskIndex {
    /// Builds the index of a dump and its graph.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(dump: &Dump, graph: &TaskGraph) -> Result<TaskIndex, FormatError> {
        let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for task in graph.tasks().iter() {
            let given = task.arguments().flat_map(|arg| graph.producers_of(arg));
            pairs.extend(given.map(|output| (number(output.task), number(task.place()))));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; graph.len() + 1];
        pairs.iter().for_each(|&(giver, _)| starts[giver as usize + 1] += 1);
        (0..graph.len()).for_each(|place| starts[place + 1] += starts[place]);
        let takers = pairs.into_iter().map(|(_, taker)| taker).collect();
        Ok(TaskIndex { first_start: first_start(graph), starts, takers, details: dump.details()? })
    }

    /// Producers and consumers of a task. Reads no content.
    #[must_use]
    pub fn around(&self, graph: &TaskGraph, place: usize) -> (Vec<Neighbor>, Vec<Neighbor>) {
        let task = graph.task(place);
        let given = task.arguments().flat_map(|arg| graph.producers_of(arg)).map(|output| output.task);
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let taken = self.takers(place).iter().map(|&taker| taker as usize);
        let waiting = task.consumers().filter_map(|edge| graph.position(edge.consumer()));
        (neighbors(graph, given, waited), neighbors(graph, taken, waiting))
    }

    /// Places of the tasks that used a task's outputs.
    fn takers(&self, place: usize) -> &[u32] {
        &self.takers[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}

/// The task's arguments that other tasks used, each with the place of such a task, searched among `others`.
fn takers(graph: &TaskGraph, place: usize, others: impl Iterator<Item = usize>) -> Vec<(u16, usize)> {
    let mut takers = Vec::new();
    for other in others.map(|other| graph.task(other)) {
        for output in other.arguments().flat_map(|arg| graph.producers_of(arg)) {
            if output.task == place {
                takers.push((output.arg_index, other.place()));
            }
        }
    }
    takers
}

/// Each place once, sorted by task id, because tasks that ran at the same time have no other stable order.
fn once(graph: &TaskGraph, places: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut places: Vec<usize> = places.into_iter().collect();
    places.sort_by_key(|&place| graph.task(place).key());
    places.dedup();
    places
}

fn neighbors(
    graph: &TaskGraph,
    carrying: impl Iterator<Item = usize>,
    waiting: impl Iterator<Item = usize>,
) -> Vec<Neighbor> {
    let carrying = once(graph, carrying);
    let waiting = once(graph, waiting.filter(|place| !carrying.contains(place)));
    let with = |carries: bool| move |place| Neighbor { place, carries };
    carrying.into_iter().map(with(true)).chain(waiting.into_iter().map(with(false))).collect()
}

fn moment(dump: &Dump, captured: Option<ArgumentSnapshot>) -> Result<Option<ArgSnapshot>, FormatError> {
    let Some(captured) = captured else { return Ok(None) };
    let record = dump.record(captured.record)?;
    let mut moment = ArgSnapshot { record, stats: record.stats, histogram: None, damaged: false };
    if let Some(content) = Content::of(dump, &record) {
        let measured = content.statistics(&|_, _| ())?;
        moment.histogram = Histogram::of(&content, &measured.summary, BINS, &|_, _| ())?;
        (moment.stats, moment.damaged) = (Some(measured.summary.stats), measured.damaged);
    }
    Ok(Some(moment))
}
