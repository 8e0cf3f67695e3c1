//! What is known of a task, put together for one page.

use std::time::Duration;

use tensortap::DType;
use tensortap::abi::{TensorStats, UncapturedReason};
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::observation::Unattributed;
use tensortap::format::{Argument, Captured, Details, Dump, FormatError, Module, Record, Task, TaskDetails};

use crate::module_words::module_of;
use crate::show::{Content, Histogram};

/// Ranges of the small picture of values.
const BINS: usize = 16;

/// A task with everything around it.
pub struct TaskPage<'g> {
    /// The task.
    pub task: Task<'g>,
    /// When it ran.
    pub times: Times,
    /// What a program says of it.
    pub said: Said,
    /// The program that its code comes from, where the dump knows it.
    pub module: Option<Module>,
    /// Its arguments, in order.
    pub args: Vec<ArgPage<'g>>,
    /// Arguments of which nothing could be captured, and why.
    pub uncaptured: Vec<(u16, UncapturedReason)>,
    /// Tasks whose outputs it was given, or that it waited for, each once.
    pub producers: Vec<Neighbour>,
    /// Tasks that were given its outputs, or that waited for it, each once.
    pub consumers: Vec<Neighbour>,
}

/// What a program says of a task beside its kernels and arguments; what it does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What people call its step.
    pub step_name: Option<String>,
    /// The queue or stream that it was submitted to.
    pub queue: Option<String>,
    /// The source file that submitted it, and the line; 0 where that is not known.
    pub source: Option<(String, u32)>,
    /// The task that submitted it.
    pub parent: Option<u64>,
}

impl Said {
    fn of(details: TaskDetails<'_>) -> Said {
        let TaskDetails { queue, step_name, source, parent, .. } = details;
        let source = source.map(|(file, line)| (file.to_owned(), line));
        Said { step_name: step_name.map(str::to_owned), queue: queue.map(str::to_owned), source, parent }
    }

    /// `solver.c:17`
    #[must_use]
    pub fn source_text(&self) -> Option<String> {
        let (file, line) = self.source.as_ref()?;
        Some(if *line > 0 { format!("{file}:{line}") } else { file.clone() })
    }
}

/// When a task ran, from the first task of the dump on; what the dump does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was first dispatched.
    pub started: Option<Duration>,
    /// How long it took.
    pub took: Option<Duration>,
}

/// An argument of the task.
pub struct ArgPage<'g> {
    /// What is known of it.
    pub arg: Argument<'g>,
    /// Its name.
    pub name: Option<String>,
    /// What it was given.
    pub before: Option<Moment>,
    /// What it left.
    pub after: Option<Moment>,
    /// Places of the tasks whose outputs hold what it was given.
    pub from: Vec<usize>,
    /// Places of the tasks that were given what it left.
    pub to: Vec<usize>,
    /// What it held before the task is not what the last task left there, and no task is between.
    pub unattributed: Option<Unattributed>,
}

impl ArgPage<'_> {
    pub(super) fn record(&self) -> Option<&Record> {
        let moment = self.before.as_ref().or(self.after.as_ref());
        moment.map(|moment| &moment.record)
    }

    /// What its elements are, or are read as.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.record().map_or(self.arg.dtype, |record| record.dtype)
    }

    /// Size of each dimension, as it is read.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.record().map_or(self.arg.shape(), |record| record.shape())
    }
}

/// An argument at one stage.
pub struct Moment {
    /// Its record.
    pub record: Record,
    /// Statistics, of the content or as they were captured.
    pub stats: Option<TensorStats>,
    /// How its values are spread.
    pub histogram: Option<Histogram>,
    /// The content does not hash to what was captured.
    pub damaged: bool,
}

/// A task beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its place in the graph.
    pub place: usize,
    /// Whether content passed; otherwise one only waited for the other.
    pub carries: bool,
}

impl<'g> TaskPage<'g> {
    /// Puts the page of the task at `place` together. Contents of its arguments are read.
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

    /// The same, without a walk over the whole graph.
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
                from: once(graph, graph.outputs_behind(arg).iter().map(|output| output.task)),
                to: once(graph, to),
                unattributed: graph.unattributed_change(dump, place, arg)?,
            });
        }
        let given = args.iter().flat_map(|arg| arg.from.iter().copied());
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let producers = neighbours(graph, given, waited);
        let taken = takers.iter().map(|(_, taker)| *taker);
        let waiting = task.consumers().filter_map(|edge| graph.position(edge.consumer()));
        let consumers = neighbours(graph, taken, waiting);
        let said = Said::of(details.of(task.key()));
        let (module, uncaptured) = (module_of(dump, task), task.uncaptured_args().collect());
        let times = Times::since(first, task);
        Ok(TaskPage { task, times, said, module, args, uncaptured, producers, consumers })
    }
}

impl Times {
    /// Of a task, counted from the first of its graph.
    #[must_use]
    pub fn of(graph: &TaskGraph, task: Task<'_>) -> Times {
        Times::since(first_start(graph), task)
    }

    /// Of a task, counted from this time.
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

/// What pages of many tasks of one graph share: found out in one walk over it, 4 bytes for each task and each content that passed.
pub struct TaskIndex {
    /// When the first task started.
    pub first_start: Option<u64>,
    /// Where the takers of each task begin, and at last where all end.
    starts: Vec<u32>,
    takers: Vec<u32>,
    /// What the dump says of tasks beside their records.
    details: Details,
}

impl TaskIndex {
    /// Walks over a dump and its graph.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(dump: &Dump, graph: &TaskGraph) -> Result<TaskIndex, FormatError> {
        let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for task in graph.tasks().iter() {
            let given = task.arguments().flat_map(|arg| graph.outputs_behind(arg));
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

    /// The tasks beside one: those it was given something by or waited for, and those that were given something or waited for it. No
    /// content is read.
    #[must_use]
    pub fn around(&self, graph: &TaskGraph, place: usize) -> (Vec<Neighbour>, Vec<Neighbour>) {
        let task = graph.task(place);
        let given = task.arguments().flat_map(|arg| graph.outputs_behind(arg)).map(|output| output.task);
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let taken = self.takers(place).iter().map(|&taker| taker as usize);
        let waiting = task.consumers().filter_map(|edge| graph.position(edge.consumer()));
        (neighbours(graph, given, waited), neighbours(graph, taken, waiting))
    }

    /// Places of the tasks that were given what a task left.
    fn takers(&self, place: usize) -> &[u32] {
        &self.takers[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}

/// The arguments of a task that others were given, each with the place of such a task; they are among `others`.
fn takers(graph: &TaskGraph, place: usize, others: impl Iterator<Item = usize>) -> Vec<(u16, usize)> {
    let mut takers = Vec::new();
    for other in others.map(|other| graph.task(other)) {
        for output in other.arguments().flat_map(|arg| graph.outputs_behind(arg)) {
            if output.task == place {
                takers.push((output.arg_index, other.place()));
            }
        }
    }
    takers
}

/// Each place once, in the order of the tasks' ids: what ran at the same time stands in no order of its own.
fn once(graph: &TaskGraph, places: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut places: Vec<usize> = places.into_iter().collect();
    places.sort_by_key(|&place| graph.task(place).key());
    places.dedup();
    places
}

fn neighbours(
    graph: &TaskGraph,
    carrying: impl Iterator<Item = usize>,
    waiting: impl Iterator<Item = usize>,
) -> Vec<Neighbour> {
    let carrying = once(graph, carrying);
    let waiting = once(graph, waiting.filter(|place| !carrying.contains(place)));
    let with = |carries: bool| move |place| Neighbour { place, carries };
    carrying.into_iter().map(with(true)).chain(waiting.into_iter().map(with(false))).collect()
}

fn moment(dump: &Dump, captured: Option<Captured>) -> Result<Option<Moment>, FormatError> {
    let Some(captured) = captured else { return Ok(None) };
    let record = dump.record(captured.record)?;
    let mut moment = Moment { record, stats: record.stats, histogram: None, damaged: false };
    if let Some(content) = Content::of(dump, &record) {
        let measured = content.statistics(&|_, _| ())?;
        moment.histogram = Histogram::of(&content, &measured.summary, BINS, &|_, _| ())?;
        (moment.stats, moment.damaged) = (Some(measured.summary.stats), measured.damaged);
    }
    Ok(Some(moment))
}
