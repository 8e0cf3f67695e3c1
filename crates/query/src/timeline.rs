//! When what ran, and where: tracks (schedulers, cores, queues, threads) with slices, what waited for what, and counters.
//!
//! A task is one slice, a dispatch another. Where a dump has dispatches these stand on their cores and tasks on the schedulers that
//! handled them; where it has none, tasks stand on the core that they were first dispatched to. Tasks of a recorded program
//! stand on their queue, or on their thread. A dump without times has its tasks in dependency order, a microsecond each.

mod rows;

use std::collections::{BTreeMap, HashMap};

use tensortap::CoreType;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{Dump, Task, Tasks};

use crate::words::printable;

/// Later times are no times: readers of traces count in signed numbers.
const LAST_TIME: u64 = i64::MAX as u64;
/// How long a task is drawn where nothing is known of times.
const STEP_NS: u64 = 1000;

/// What ran in one dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Whether slices lie where the dump's times put them. Otherwise it has none, and they show an order.
    pub is_timed: bool,
    /// Where slices lie.
    pub tracks: Vec<Track>,
    /// By track, row and start.
    pub slices: Vec<Slice>,
    /// What waited for what.
    pub flows: Vec<Flow>,
    /// What grew meanwhile.
    pub counters: Vec<Counter>,
    /// From the first start on, in nanoseconds of the dump's clock.
    pub start_ns: u64,
    /// To the last end.
    pub end_ns: u64,
}

/// What a track stands for. In the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// A scheduler of a device, by the lane that it records in.
    Scheduler(u32),
    /// A core of a device.
    Core(u32),
    /// A queue of a program.
    Queue(u32),
    /// A thread of a program, by its place among those of the dump.
    Thread(u32),
    /// Tasks of which nobody knows who ran them.
    Tasks,
    /// Tasks of which nobody knows when they ran, in a dump that has times.
    Untimed,
}

/// A line of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// What it stands for.
    pub kind: TrackKind,
    /// What it is called.
    pub name: String,
    /// Rows of slices that overlap; at least one.
    pub rows: usize,
    /// Whether every slice of a row lies within one of the row above, as calls do.
    pub nests: bool,
}

/// What a slice shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A task, by its place in the graph.
    Task(usize),
    /// One of its dispatches.
    Dispatch {
        /// The task.
        task: usize,
        /// Which of its dispatches.
        number: usize,
    },
}

impl What {
    /// Place of the task.
    #[must_use]
    pub const fn task(self) -> usize {
        match self {
            What::Task(task) | What::Dispatch { task, .. } => task,
        }
    }
}

/// How well the times of a slice are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sure {
    /// Both.
    Measured,
    /// It began and never ended: the slice lasts as long as the dump.
    NeverEnded,
    /// Its end lies before its start, which is not believed.
    GoesBack,
    /// The dump does not say.
    Unknown,
}

impl Sure {
    /// In words; nothing where there is nothing to say.
    #[must_use]
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Sure::Measured => None,
            Sure::NeverEnded => Some("it never ended"),
            Sure::GoesBack => Some("its end lies before its start"),
            Sure::Unknown => Some("the dump does not say when it ran"),
        }
    }
}

/// Something that lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// What it shows.
    pub what: What,
    /// Place of its track.
    pub track: usize,
    /// Row of the track.
    pub row: usize,
    /// When it began, in nanoseconds of the dump's clock.
    pub start_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// How well that is known.
    pub sure: Sure,
}

impl Slice {
    /// When it ended.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// One task waited for another, or was given what it left where the dump says no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Place of the task that came before.
    pub from: usize,
    /// Place of the task that came after.
    pub to: usize,
    /// Argument of that task.
    pub arg_index: u16,
}

/// Something that grew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What it counts.
    pub name: &'static str,
    /// In what.
    pub unit: Unit,
    /// Times and values, by time, each time once.
    pub samples: Vec<(u64, u64)>,
}

/// What a counter counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Timeline {
    /// What ran in a dump: the tasks of `graph` for which `is_shown` holds, by their places.
    #[must_use]
    pub fn of(dump: &Dump, graph: &TaskGraph, is_shown: impl Fn(usize) -> bool) -> Timeline {
        let tasks = graph.tasks();
        let shown: Vec<Task<'_>> = tasks.iter().filter(|task| is_shown(task.place())).collect();
        let mut builder = Builder::new(dump, tasks, &shown);
        for task in &shown {
            builder.task(*task);
        }
        let (tracks, slices) = builder.finish();
        let start_ns = slices.iter().map(|slice| slice.start_ns).min().unwrap_or(0);
        let end_ns = slices.iter().map(Slice::end_ns).max().unwrap_or(0);
        let is_timed = builder.span.is_some();
        let flows = flows(graph, is_shown);
        let counters = if is_timed { counters(&shown, end_ns) } else { Vec::new() };
        Timeline { is_timed, tracks, slices, flows, counters, start_ns, end_ns }
    }

    /// Slices of tasks.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.slices.iter().filter(|slice| matches!(slice.what, What::Task(_))).count()
    }
}

/// A slice that has no row yet.
#[derive(Clone, Copy)]
struct Loose {
    what: What,
    start_ns: u64,
    duration_ns: u64,
    sure: Sure,
}

struct Builder<'t> {
    dump: &'t Dump,
    tasks: &'t Tasks,
    /// First and last time of the dump, if it has any.
    span: Option<(u64, u64)>,
    /// Whether dispatches have cores to themselves.
    has_dispatches: bool,
    tracks: BTreeMap<TrackKind, Vec<Loose>>,
    core_types: HashMap<u32, CoreType>,
    /// Tasks without a time, each a step behind the last.
    steps: u64,
}

fn time(ns: u64) -> Option<u64> {
    (ns != 0 && ns <= LAST_TIME).then_some(ns)
}

impl<'t> Builder<'t> {
    fn new(dump: &'t Dump, tasks: &'t Tasks, shown: &[Task<'t>]) -> Builder<'t> {
        let of_task = |task: &Task<'t>| [task.start_time(), task.end_time()];
        let of_dispatches = |task: &Task<'t>| {
            task.dispatch_times().iter().flat_map(|at| [at.handed_ns, at.started_ns, at.completed_ns])
        };
        let known = shown.iter().flat_map(of_task).flatten().chain(shown.iter().flat_map(of_dispatches));
        let span = known.filter_map(time).fold(None, |span: Option<(u64, u64)>, at| {
            Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
        });
        let has_dispatches = shown.iter().any(|task| !task.dispatches().is_empty());
        let (tracks, core_types) = (BTreeMap::new(), HashMap::new());
        Builder { dump, tasks, span, has_dispatches, tracks, core_types, steps: 0 }
    }

    fn task(&mut self, task: Task<'t>) {
        let (start, end) = (task.start_time().and_then(time), task.end_time().and_then(time));
        let is_over = task.completed_ns.is_some() && !task.in_flight;
        let loose = self.slice(What::Task(task.place()), start, end, is_over);
        let kind = if loose.sure == Sure::Unknown && self.span.is_some() {
            TrackKind::Untimed
        } else {
            self.track_of(task)
        };
        self.tracks.entry(kind).or_default().push(loose);
        for (number, (of, at)) in task.dispatches().iter().zip(task.dispatch_times()).enumerate() {
            self.core_types.entry(of.core_id).or_insert(of.core_type());
            let what = What::Dispatch { task: task.place(), number };
            let start = time(at.started_ns).or_else(|| time(at.handed_ns));
            let loose = self.slice(what, start, time(at.completed_ns), is_over);
            self.tracks.entry(TrackKind::Core(of.core_id)).or_default().push(loose);
        }
    }

    fn slice(&mut self, what: What, start: Option<u64>, end: Option<u64>, is_over: bool) -> Loose {
        let (start_ns, duration_ns, sure) = match (self.span, start, end) {
            (None, ..) => {
                if matches!(what, What::Task(_)) {
                    self.steps += STEP_NS;
                }
                (self.steps.saturating_sub(STEP_NS), STEP_NS, Sure::Unknown)
            }
            (_, Some(start), Some(end)) => match end.checked_sub(start) {
                Some(duration) => (start, duration, Sure::Measured),
                None => (start, 0, Sure::GoesBack),
            },
            (Some((_, last)), Some(start), None) if !is_over => (start, last - start, Sure::NeverEnded),
            (_, Some(start), None) => (start, 0, Sure::Unknown),
            (Some((first, _)), None, end) => (end.unwrap_or(first), 0, Sure::Unknown),
        };
        Loose { what, start_ns, duration_ns, sure }
    }

    fn track_of(&mut self, task: Task<'t>) -> TrackKind {
        if self.dump.info().is_of_program() {
            return match (task.queue, task.thread) {
                (0, Some(thread)) => TrackKind::Thread(thread),
                (0, None) => TrackKind::Tasks,
                (queue, _) => TrackKind::Queue(queue),
            };
        }
        let scheduler = task.thread.and_then(|thread| self.tasks.threads().get(thread as usize));
        match (task.core, scheduler) {
            (Some(core), _) if !self.has_dispatches => {
                let slot = task.func_id.iter().position(|&id| id != u32::MAX).unwrap_or(0);
                self.core_types.entry(core).or_insert(CoreType::of_slot(slot));
                TrackKind::Core(core)
            }
            (_, Some(thread)) => TrackKind::Scheduler(thread.lane),
            (_, None) => TrackKind::Tasks,
        }
    }

    fn name(&self, kind: TrackKind) -> String {
        match kind {
            // The first lane is the orchestrator's.
            TrackKind::Scheduler(lane) => format!("scheduler {}", lane.saturating_sub(1)),
            TrackKind::Core(core) => match self.core_types.get(&core) {
                Some(core_type) => format!("core {core} ({})", core_type.name()),
                None => format!("core {core}"),
            },
            TrackKind::Queue(queue) => match self.dump.queue_name(queue) {
                Some(name) => printable(name).into_owned(),
                None => format!("queue {queue}"),
            },
            TrackKind::Thread(place) => {
                let thread = self.tasks.threads().get(place as usize);
                match thread.map(|thread| (thread.name.as_deref(), thread.tid, thread.lane)) {
                    Some((Some(name), 0, _)) => printable(name).into_owned(),
                    Some((Some(name), tid, _)) => format!("{} (thread {tid})", printable(name)),
                    Some((None, 0, lane)) => format!("thread of lane {lane}"),
                    Some((None, tid, _)) => format!("thread {tid}"),
                    None => format!("thread {place}"),
                }
            }
            TrackKind::Tasks if self.span.is_none() => "tasks in order; the dump has no times".into(),
            TrackKind::Tasks => "tasks".into(),
            TrackKind::Untimed => "tasks without times".into(),
        }
    }

    fn finish(&mut self) -> (Vec<Track>, Vec<Slice>) {
        let (mut tracks, mut slices) = (Vec::new(), Vec::new());
        for (kind, loose) in std::mem::take(&mut self.tracks) {
            let calls = matches!(kind, TrackKind::Thread(_) | TrackKind::Queue(_));
            let (rows, nests) = rows::lay(loose, tracks.len(), calls, &mut slices);
            tracks.push(Track { kind, name: self.name(kind), rows, nests });
        }
        (tracks, slices)
    }
}

/// The dump's dependencies; where it has none, who was given what others left.
fn flows(graph: &TaskGraph, is_shown: impl Fn(usize) -> bool) -> Vec<Flow> {
    let tasks = graph.tasks();
    let is_drawn = |flow: &Flow| is_shown(flow.from) && is_shown(flow.to);
    if !tasks.edges().is_empty() {
        let edges = tasks.edges().iter().filter_map(|edge| {
            let (from, to) = (graph.position(edge.producer())?, graph.position(edge.consumer())?);
            Some(Flow { from, to, arg_index: edge.arg_index })
        });
        return edges.filter(is_drawn).collect();
    }
    let mut flows = Vec::new();
    for task in tasks.iter() {
        for arg in task.arguments() {
            let given = graph.outputs_behind(arg).iter();
            let to = task.place();
            flows.extend(given.map(|output| Flow { from: output.task, to, arg_index: arg.arg_index }));
        }
    }
    flows.sort_unstable();
    flows.dedup();
    flows.retain(is_drawn);
    flows
}

/// Bytes that were captured, before and after each task, and how long tasks were held up for it.
fn counters(shown: &[Task<'_>], last: u64) -> Vec<Counter> {
    let (mut bytes, mut held_up) = (Vec::new(), Vec::new());
    for task in shown {
        let Some(start) = task.start_time().and_then(time) else { continue };
        let end = task.end_time().and_then(time).unwrap_or(last);
        let sum = |captured: fn(&tensortap::format::ArgumentFacts) -> Option<u64>| {
            task.arguments().filter_map(|arg| captured(arg.facts())).fold(0_u64, u64::saturating_add)
        };
        bytes.push((start, sum(|arg| arg.before.map(|captured| captured.bytes))));
        bytes.push((end, sum(|arg| arg.after.map(|captured| captured.bytes))));
        held_up.push((end, task.capture_ns));
    }
    let counters = [("bytes captured", Unit::Bytes, bytes), ("time held up", Unit::Nanoseconds, held_up)];
    counters
        .into_iter()
        .map(|(name, unit, grown)| Counter { name, unit, samples: summed(grown) })
        .filter(|counter| counter.samples.last().is_some_and(|(_, value)| *value > 0))
        .collect()
}

/// Sums up what came when.
fn summed(mut grown: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    grown.sort_unstable();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    let mut sum = 0_u64;
    for (at, by) in grown.into_iter().filter(|(_, by)| *by > 0) {
        sum = sum.saturating_add(by).min(LAST_TIME);
        match samples.last_mut() {
            Some(last) if last.0 == at => last.1 = sum,
            _ => samples.push((at, sum)),
        }
    }
    samples
}

#[cfg(test)]
pub(crate) mod tests;
