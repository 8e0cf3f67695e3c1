//! Who raced with whom.

use tensortap_format::{Argument, Task, Tasks};

use crate::graph::{OutputRef, TaskGraph, TensorView};

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
    /// It is not what the other task, the last that was given it, left there, and no task is between.
    Unattributed,
    /// The other task may have written it; nothing orders the two here, though the golden does.
    Unordered,
}

/// A task that may have raced with another, though nothing proves it: nothing orders the two, in the golden neither, and it changed bytes
/// of the other's argument that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikelyRace {
    /// Its position, in the dump or in the golden.
    pub other: usize,
    /// Its argument that has those bytes.
    pub other_arg: u16,
    /// Whether it is the golden that may have raced: what is right there is not known.
    pub is_of_golden: bool,
    /// Whether nothing orders the two in the golden either.
    pub is_in_both: bool,
}

/// The tasks of a graph, found by time, for questions about races.
pub(super) struct Races<'g> {
    graph: &'g TaskGraph,
    times: Times,
}

impl<'g> Races<'g> {
    pub fn of(graph: &'g TaskGraph) -> Races<'g> {
        Races { graph, times: Times::of(graph.tasks()) }
    }

    /// A task that ran at the same time and wrote bytes that this one reads or writes: what was captured around this one is
    /// then not what its kernel saw. Who stores half a byte stores the other half as it was, so writers meet in bytes; who
    /// reads meets what was written.
    pub fn overlapping(&self, task: usize) -> Option<Race> {
        let own = self.graph.task(task);
        let (start, end) = (own.start_time()?, own.end_time()?);
        let views: Vec<_> = own.arguments().filter_map(|a| Some((a.role, TensorView::of(a)?))).collect();
        let meets = |written: TensorView| {
            views.iter().any(|(role, view)| {
                role.writes() && view.footprint.overlaps(&written.footprint) || view.shares(&written)
            })
        };
        let others = self.times.under_way(start, end).filter(|&other| other != task);
        let found = others.filter(|&other| writes(self.graph.task(other)).any(meets)).min();
        found.map(|other| Race { other, kind: RaceKind::Overlapped })
    }

    /// The race behind an input that is not what its producer wrote.
    pub fn behind(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Race {
        let other = output.task;
        if self.started_before_end(task, other) {
            return Race { other, kind: RaceKind::ReadTooEarly };
        }
        let overwriter = self.between(task, arg, output).or_else(|| self.overwriter(task, arg));
        overwriter.unwrap_or(Race { other, kind: RaceKind::Changed })
    }

    /// The task that wrote into an input although it comes later in dependency order: it was dispatched too early.
    pub fn overwriter(&self, task: usize, arg: Argument<'_>) -> Option<Race> {
        let (here, start) = (TensorView::of(arg)?, self.graph.task(task).start_time()?);
        let mut early = self.times.behind_but_started_before(task, start);
        let wrote = early.find(|&other| writes(self.graph.task(other)).any(|view| view.shares(&here)));
        wrote.map(|other| Race { other, kind: RaceKind::Overwritten })
    }

    /// A task that was under way after the producer of an input had completed, and wrote into what that had written: one
    /// that is too late, or too early. Those that stand between producer and reader in dependency order would be producers.
    fn between(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Option<Race> {
        let (own, producer) = (self.graph.task(task), self.graph.task(output.task));
        let here = TensorView::of(arg)?;
        let made = TensorView::of(producer.argument(output.arg_index)?)?;
        let others = self.times.under_way(producer.end_time()?, own.end_time().or(own.start_time())?);
        let overwrote = |other: Task<'_>| {
            // Half a byte is stored with its other half as it was, which may undo what somebody wrote at the same time.
            let undoes = other.start_time() < producer.end_time();
            let meets = |view: &TensorView, with: &TensorView| {
                undoes && view.footprint.overlaps(&with.footprint) || view.shares(with)
            };
            writes(other).any(|view| meets(&view, &here) && meets(&view, &made))
        };
        let others = others.filter(|&other| other != task && other != output.task);
        let found = others.filter(|&other| overwrote(self.graph.task(other))).min();
        found.map(|other| Race { other, kind: RaceKind::Overwritten })
    }

    /// Whether a task was dispatched before another had completed.
    pub fn started_before_end(&self, task: usize, other: usize) -> bool {
        let started = self.graph.task(task).start_time();
        let ended = self.graph.task(other).end_time();
        started.zip(ended).is_some_and(|(started, ended)| started < ended)
    }
}

fn writes(task: Task<'_>) -> impl Iterator<Item = TensorView> + '_ {
    task.outputs().filter_map(TensorView::of)
}

/// When the tasks of a graph ran, so that those of a moment are found without asking all.
struct Times {
    /// Start, end and position of the tasks that have both times, by start.
    intervals: Vec<(u64, u64, usize)>,
    /// The latest end up to each of them.
    ended_by: Vec<u64>,
    /// Start of each task, by position.
    starts: Vec<Option<u64>>,
    /// The earliest start of any task behind a position.
    earliest_behind: Vec<u64>,
}

impl Times {
    fn of(tasks: &Tasks) -> Times {
        let interval = |t: Task<'_>| Some((t.start_time()?, t.end_time()?, t.place()));
        let mut intervals: Vec<_> = tasks.iter().filter_map(interval).collect();
        intervals.sort_unstable();
        let running = |latest: &mut u64, &(_, end, _): &(u64, u64, usize)| {
            *latest = end.max(*latest);
            Some(*latest)
        };
        let ended_by = intervals.iter().scan(0, running).collect();
        let starts: Vec<Option<u64>> = tasks.iter().map(|t| t.start_time()).collect();
        let mut earliest_behind = vec![u64::MAX; starts.len()];
        for place in (1..starts.len()).rev() {
            earliest_behind[place - 1] = earliest_behind[place].min(starts[place].unwrap_or(u64::MAX));
        }
        Times { intervals, ended_by, starts, earliest_behind }
    }

    /// Positions of the tasks that began before `to` and ended after `from`.
    fn under_way(&self, from: u64, to: u64) -> impl Iterator<Item = usize> {
        let begun = self.intervals.partition_point(|&(start, ..)| start < to);
        let candidates = self.intervals[..begun].iter().zip(&self.ended_by[..begun]).rev();
        let recent = candidates.take_while(move |(_, ended_by)| **ended_by > from);
        recent.filter(move |((_, end, _), _)| *end > from).map(|((.., place), _)| *place)
    }

    /// Positions behind one, in order, of tasks that began before a time.
    fn behind_but_started_before(&self, place: usize, time: u64) -> impl Iterator<Item = usize> {
        let more = move |&at: &usize| self.earliest_behind[at] < time;
        let behind = (place..self.starts.len()).take_while(more).map(|at| at + 1);
        behind.filter(move |&at| self.starts[at].is_some_and(|start| start < time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskMaker, tasks_of};
    use proptest::prelude::*;

    fn tasks(times: &[(u64, u64)]) -> Vec<TaskMaker> {
        let task = |(id, &(start, length)): (u64, &(u64, u64))| {
            TaskMaker::new(id, "a").at(start).until(start + length)
        };
        (0..).zip(times).map(task).collect()
    }

    proptest! {
        #[test]
        fn the_same_tasks_are_found_as_by_asking_all(
            times in proptest::collection::vec((1_u64..40, 0_u64..20), 1..30),
            without_end in 0_usize..40,
            (from, to) in (0_u64..60, 0_u64..60),
            place in 0_usize..30,
        ) {
            let mut tasks = tasks(&times);
            if let Some(task) = tasks.get_mut(without_end) {
                task.facts.completed_ns = None;
            }
            let tasks = tasks_of(tasks, &[]);
            let found = Times::of(&tasks);
            let all = || tasks.iter().map(|t| (t.place(), t.start_time().unwrap(), t.end_time()));
            let expected: Vec<usize> = all()
                .filter(|(_, start, end)| *start < to && end.is_some_and(|end| end > from))
                .map(|t| t.0)
                .collect();
            let mut under_way: Vec<usize> = found.under_way(from, to).collect();
            under_way.sort_unstable();
            prop_assert_eq!(under_way, expected);
            let place = place % tasks.len();
            let behind: Vec<usize> = all().filter(|t| t.0 > place && t.1 < to).map(|t| t.0).collect();
            prop_assert_eq!(found.behind_but_started_before(place, to).collect::<Vec<_>>(), behind);
        }
    }
}
