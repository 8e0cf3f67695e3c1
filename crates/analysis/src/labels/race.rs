//! Who raced with whom.

use crate::graph::{Argument, GraphTask, Place, Source, TaskGraph};

/// The other task of a race; this one was given something else than its producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// Position of the other task.
    pub other: usize,
    /// What happened.
    pub kind: RaceKind,
}

/// How an input came to differ from what its producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceKind {
    /// It was read before the other task, its producer, had completed.
    ReadTooEarly,
    /// The other task, which should have waited, overwrote it.
    Overwritten,
    /// It is not what the other task, its producer, wrote; nothing says who changed it.
    Changed,
    /// The other task, which should have come before or after, ran at the same time and wrote the same bytes.
    Overlapped,
}

/// A task that ran at the same time and wrote bytes that this one reads or writes: what was captured around this one is then
/// not what its kernel saw.
pub(super) fn overlapping(graph: &TaskGraph, task: usize) -> Option<Race> {
    let own = &graph.tasks[task];
    let (start, end) = (own.dispatched_ns?, own.completed_ns?);
    let at_the_same_time =
        |t: &GraphTask| t.dispatched_ns.zip(t.completed_ns).is_some_and(|(s, e)| s < end && start < e);
    let mut others =
        graph.tasks.iter().enumerate().filter(|(place, t)| *place != task && at_the_same_time(t));
    let meets = |written: &Place| {
        let mut places = own.args.iter().filter_map(|a| a.place.as_ref());
        places.any(|p| p.footprint.overlaps(&written.footprint))
    };
    let found = others.find(|(_, t)| t.outputs().filter_map(|o| o.place.as_ref()).any(meets));
    found.map(|(other, _)| Race { other, kind: RaceKind::Overlapped })
}

/// The race behind an input that is not what its producer wrote.
pub(super) fn behind(graph: &TaskGraph, task: usize, arg: &Argument, source: Source) -> Race {
    let other = source.task;
    if started_before_end(graph, task, other) {
        return Race { other, kind: RaceKind::ReadTooEarly };
    }
    overwriter(graph, task, arg).unwrap_or(Race { other, kind: RaceKind::Changed })
}

/// The task that wrote into an input although it comes later in dependency order: it was dispatched too early.
pub(super) fn overwriter(graph: &TaskGraph, task: usize, arg: &Argument) -> Option<Race> {
    let (here, start) = (arg.place.as_ref()?, graph.tasks[task].dispatched_ns?);
    let later = graph.tasks.iter().enumerate().skip(task + 1);
    let mut early = later.filter(|(_, t)| t.dispatched_ns.is_some_and(|other| other < start));
    let wrote = early.find(|(_, t)| {
        let places = t.outputs().filter_map(|o| o.place.as_ref());
        places.into_iter().any(|p| p.footprint.overlaps(&here.footprint))
    });
    wrote.map(|(other, _)| Race { other, kind: RaceKind::Overwritten })
}

/// Whether a task was dispatched before another had completed.
pub(super) fn started_before_end(graph: &TaskGraph, task: usize, other: usize) -> bool {
    let started = graph.tasks[task].dispatched_ns;
    let ended = graph.tasks[other].completed_ns;
    started.zip(ended).is_some_and(|(started, ended)| started < ended)
}
