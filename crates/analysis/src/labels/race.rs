//! Who raced with whom.

use super::times::Times;
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
    /// The other task, which should have come later, or earlier, overwrote it.
    Overwritten,
    /// It is not what the other task, its producer, wrote; nothing says who changed it.
    Changed,
    /// The other task, which should have come before or after, ran at the same time and wrote the same bytes.
    Overlapped,
}

/// The tasks of a graph, found by time, for questions about races.
pub(super) struct Races<'g> {
    graph: &'g TaskGraph,
    times: Times,
}

impl<'g> Races<'g> {
    pub fn of(graph: &'g TaskGraph) -> Races<'g> {
        Races { graph, times: Times::of(&graph.tasks) }
    }

    /// A task that ran at the same time and wrote bytes that this one reads or writes: what was captured around this one is
    /// then not what its kernel saw. Who stores half a byte stores the other half as it was, so writers meet in bytes; who
    /// reads meets what was written.
    pub fn overlapping(&self, task: usize) -> Option<Race> {
        let own = &self.graph.tasks[task];
        let (start, end) = (own.dispatched_ns?, own.completed_ns?);
        let meets = |written: &Place| {
            let mut args = own.args.iter().filter_map(|a| Some((a.role, a.place.as_ref()?)));
            args.any(|(role, place)| {
                role.writes() && place.footprint.overlaps(&written.footprint) || place.shares(written)
            })
        };
        let others = self.times.under_way(start, end).filter(|&other| other != task);
        let found = others.filter(|&other| writes(&self.graph.tasks[other]).any(meets)).min();
        found.map(|other| Race { other, kind: RaceKind::Overlapped })
    }

    /// The race behind an input that is not what its producer wrote.
    pub fn behind(&self, task: usize, arg: &Argument, source: Source) -> Race {
        let other = source.task;
        if self.started_before_end(task, other) {
            return Race { other, kind: RaceKind::ReadTooEarly };
        }
        let overwriter = self.between(task, arg, source).or_else(|| self.overwriter(task, arg));
        overwriter.unwrap_or(Race { other, kind: RaceKind::Changed })
    }

    /// The task that wrote into an input although it comes later in dependency order: it was dispatched too early.
    pub fn overwriter(&self, task: usize, arg: &Argument) -> Option<Race> {
        let (here, start) = (arg.place.as_ref()?, self.graph.tasks[task].dispatched_ns?);
        let mut early = self.times.behind_but_started_before(task, start);
        let wrote = early.find(|&other| writes(&self.graph.tasks[other]).any(|place| place.shares(here)));
        wrote.map(|other| Race { other, kind: RaceKind::Overwritten })
    }

    /// A task that was under way after the producer of an input had completed, and wrote into what that had written: one
    /// that is too late, or too early. Those that stand between producer and reader in dependency order would be producers.
    fn between(&self, task: usize, arg: &Argument, source: Source) -> Option<Race> {
        let own = &self.graph.tasks[task];
        let producer = &self.graph.tasks[source.task];
        let here = arg.place.as_ref()?;
        let made = producer.arg(source.arg_index)?.place.as_ref()?;
        let others = self.times.under_way(producer.completed_ns?, own.completed_ns.or(own.dispatched_ns)?);
        let overwrote = |other: &GraphTask| {
            // Half a byte is stored with its other half as it was, which may undo what somebody wrote at the same time.
            let undoes = other.dispatched_ns < producer.completed_ns;
            let meets = |place: &Place, with: &Place| {
                undoes && place.footprint.overlaps(&with.footprint) || place.shares(with)
            };
            writes(other).any(|place| meets(place, here) && meets(place, made))
        };
        let others = others.filter(|&other| other != task && other != source.task);
        let found = others.filter(|&other| overwrote(&self.graph.tasks[other])).min();
        found.map(|other| Race { other, kind: RaceKind::Overwritten })
    }

    /// Whether a task was dispatched before another had completed.
    pub fn started_before_end(&self, task: usize, other: usize) -> bool {
        let started = self.graph.tasks[task].dispatched_ns;
        let ended = self.graph.tasks[other].completed_ns;
        started.zip(ended).is_some_and(|(started, ended)| started < ended)
    }
}

fn writes(task: &GraphTask) -> impl Iterator<Item = &Place> {
    task.outputs().filter_map(|o| o.place.as_ref())
}
