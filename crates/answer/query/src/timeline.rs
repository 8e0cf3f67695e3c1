//! The timeline of a dump: tracks (schedulers, cores, queues, threads) with slices, flows between tasks, and
//! counters.
//!
//! Each task and each dispatch is one slice. If a dump has dispatches, they are on the tracks of
//! their cores, and tasks on those of the schedulers that handled them. Without dispatches, tasks are on the
//! core of their first dispatch. Tasks of a recorded program are on their queue or thread. In a dump without
//! times, tasks are in dependency order, one microsecond each.

mod rows;

use std::collections::{BTreeMap, HashMap};

use tensortap::CoreType;
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{Dump, Task, Tasks};

use crate::words::printable;

/// Later times are invalid, because trace readers use signed numbers.
const LAST_TIME: u64 = i64::MAX as u64;
/// Length of a task's slice in a dump without times.
const STEP_NS: u64 = 1000;

/// The timeline of one dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Whether slices show the dump's times. Otherwise the dump has no times, and slices only show the order.
    pub is_timed: bool,
    /// The tracks.
    pub tracks: Vec<Track>,
    /// The slices, sorted by track, row and start.
    pub slices: Vec<Slice>,
    /// Dependencies between tasks.
    pub flows: Vec<Flow>,
    /// Counters over time.
    pub counters: Vec<Counter>,
    /// Start of the first slice, in nanoseconds of the dump's clock.
    pub start_ns: u64,
    /// End of the last slice.
    pub end_ns: u64,
}

/// The kind of a track. Tracks are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// A scheduler of a device, by its recording lane.
    Scheduler(u32),
    /// A core of a device.
    Core(u32),
    /// A queue of a recorded program.
    Queue(u32),
    /// A thread of a recorded program, by its index in the dump.
    Thread(u32),
    /// Tasks for which it is unknown what ran them.
    Tasks,
    /// Tasks without times, in a dump with times.
    Untimed,
}

/// A track of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The kind of the track.
    pub kind: TrackKind,
    /// The name of the track.
    pub name: String,
    /// Number of rows for overlapping slices; at least one.
    pub rows: usize,
    /// Whether every slice of a row is within a slice of the row above, like nested calls.
    pub nests: bool,
}

/// The task or dispatch of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SliceKind {
    /// A task, by its place in the graph.
    Task(usize),
    /// One of its dispatches.
    Dispatch {
        /// The task.
        task: usize,
        /// Index of the dispatch.
        number: usize,
    },
}

impl SliceKind {
    /// Place of the task.
    #[must_use]
    pub const fn task(self) -> usize {
        match self {
            SliceKind::Task(task) | SliceKind::Dispatch { task, .. } => task,
        }
    }
}

/// How precisely the times of a slice are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Start and end were measured.
    Measured,
    /// It never ended: the slice lasts until the end of the dump.
    NeverEnded,
    /// Its end is before its start, so the end is ignored.
    GoesBack,
    /// The dump has no time for it.
    Unknown,
}

impl Precision {
    /// A remark for imprecise times.
    #[must_use]
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Precision::Measured => None,
            Precision::NeverEnded => Some("it never ended"),
            Precision::GoesBack => Some("its end is before its start"),
            Precision::Unknown => Some("the dump has no time for it"),
        }
    }
}

/// A slice of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its task or dispatch.
    pub what: SliceKind,
    /// Index of its track.
    pub track: usize,
    /// Row of the track.
    pub row: usize,
    /// Start in nanoseconds of the dump's clock.
    pub start_ns: u64,
    /// Duration in nanoseconds.
    pub duration_ns: u64,
    /// Precision of the times.
    pub sure: Precision,
}

impl Slice {
    /// End in nanoseconds of the dump's clock.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// A dependency between two tasks or, if the dump has no dependencies, passed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Place of the earlier task.
    pub from: usize,
    /// Place of the later task.
    pub to: usize,
    /// Argument of the later task.
    pub arg_index: u16,
}

/// A counter over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name of the counter.
    pub name: &'static str,
    /// Unit of the counter.
    pub unit: Unit,
    /// Times and values, sorted by time, without duplicate times.
    pub samples: Vec<(u64, u64)>,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Timeline {
    /// The timeline of a dump. It includes the tasks for whose places `is_shown` holds.
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

    /// Number of task slices.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.slices.iter().filter(|slice| matches!(slice.what, SliceKind::Task(_))).count()
    }
}

/// A slice without a row.
#[derive(Clone, Copy)]
struct UnplacedSlice {
    what: SliceKind,
    start_ns: u64,
    duration_ns: u64,
    sure: Precision,
}

struct Builder<'t> {
    dump: &'t Dump,
    tasks: &'t Tasks,
    /// First and last time of the dump, if it has times.
    span: Option<(u64, u64)>,
    /// Whether the dump has dispatches, which then own the core tracks.
    has_dispatches: bool,
    tracks: BTreeMap<TrackKind, Vec<UnplacedSlice>>,
    core_types: HashMap<u32, CoreType>,
    /// Next position for tasks of a dump without times.
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
        let slice = self.slice(SliceKind::Task(task.place()), start, end, is_over);
        let kind = if slice.sure == Precision::Unknown && self.span.is_some() {
            TrackKind::Untimed
        } else {
            self.track_of(task)
        };
        self.tracks.entry(kind).or_default().push(slice);
        for (number, (of, at)) in task.dispatches().iter().zip(task.dispatch_times()).enumerate() {
            self.core_types.entry(of.core_id).or_insert(of.core_type());
            let what = SliceKind::Dispatch { task: task.place(), number };
            let start = time(at.started_ns).or_else(|| time(at.handed_ns));
            let slice = self.slice(what, start, time(at.completed_ns), is_over);
            self.tracks.entry(TrackKind::Core(of.core_id)).or_default().push(slice);
        }
    }

    fn slice(
        &mut self,
        what: SliceKind,
        start: Option<u64>,
        end: Option<u64>,
        is_over: bool,
    ) -> UnplacedSlice {
        let (start_ns, duration_ns, sure) = match (self.span, start, end) {
            (None, ..) => {
                if matches!(what, SliceKind::Task(_)) {
                    self.steps += STEP_NS;
                }
                (self.steps.saturating_sub(STEP_NS), STEP_NS, Precision::Unknown)
            }
            (_, Some(start), Some(end)) => match end.checked_sub(start) {
                Some(duration) => (start, duration, Precision::Measured),
                None => (start, 0, Precision::GoesBack),
            },
            (Some((_, last)), Some(start), None) if !is_over => (start, last - start, Precision::NeverEnded),
            (_, Some(start), None) => (start, 0, Precision::Unknown),
            (Some((first, _)), None, end) => (end.unwrap_or(first), 0, Precision::Unknown),
        };
        UnplacedSlice { what, start_ns, duration_ns, sure }
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
            // Lane 0 belongs to the orchestrator.
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
        for (kind, slices_of_track) in std::mem::take(&mut self.tracks) {
            let calls = matches!(kind, TrackKind::Thread(_) | TrackKind::Queue(_));
            let (rows, nests) = rows::lay(slices_of_track, tracks.len(), calls, &mut slices);
            tracks.push(Track { kind, name: self.name(kind), rows, nests });
        }
        (tracks, slices)
    }
}

/// The dump's dependencies or, if it has none, the passed contents.
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
            let given = graph.producers_of(arg).iter();
            let to = task.place();
            flows.extend(given.map(|output| Flow { from: output.task, to, arg_index: arg.arg_index }));
        }
    }
    flows.sort_unstable();
    flows.dedup();
    flows.retain(is_drawn);
    flows
}

/// Counters of captured bytes, and of the time that capturing delayed tasks.
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

/// Converts increments into running totals.
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
