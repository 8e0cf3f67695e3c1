//! Finds the other task of a race from dispatch and completion times and from addresses.

use tensortap_format::{Argument, Task, Tasks};

use crate::graph::{OutputRef, TaskGraph, TensorView};

/// A race: the task got something else than its producer wrote. This is the other task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// Position of the other task.
    pub other: usize,
    /// The kind of race.
    pub kind: RaceKind,
}

/// How an input came to differ from what its producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceKind {
    /// The task read before the other task, its producer, had completed.
    ReadTooEarly,
    /// The other task overwrote the input out of order: too early or too late.
    Overwritten,
    /// The other task ran at the same time, out of order, and wrote the same bytes.
    Overlapped,
    /// The other task may have written the input. The golden orders the two tasks; the dump does not.
    Unordered,
}

/// A possible race without proof: nothing orders the two tasks, and the other task changed bytes that differ in
/// this task's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikelyRace {
    /// Position of the other task, in the dump or in the golden.
    pub other: usize,
    /// The other task's argument with those bytes.
    pub other_arg: u16,
    /// Whether the golden may have raced: then the expected value is unknown.
    pub is_of_golden: bool,
    /// Whether the golden does not order the two tasks either.
    pub is_in_both: bool,
}

/// Finds races between the tasks of a graph.
pub(crate) struct Races<'g> {
    graph: &'g TaskGraph,
    times: TaskTimes,
}

impl<'g> Races<'g> {
    pub fn of(graph: &'g TaskGraph) -> Races<'g> {
        Races { graph, times: TaskTimes::of(graph.tasks()) }
    }

    /// A task that ran at the same time and wrote bytes that this one reads or writes: then the content
    /// captured around this one is not what its kernel saw. Storing half a byte also stores the other half,
    /// so two writers conflict in whole bytes. A reader conflicts only with the written half.
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

    /// The tasks that ran at the same time as this one.
    pub fn meanwhile(&self, task: usize) -> Vec<usize> {
        let own = self.graph.task(task);
        let Some((start, end)) = own.start_time().zip(own.end_time()) else { return Vec::new() };
        self.times.under_way(start, end).filter(|&other| other != task).collect()
    }

    /// What the tasks declare to write that ran at the same time as this one.
    pub fn written_meanwhile(&self, task: usize) -> Vec<TensorView> {
        self.meanwhile(task).into_iter().flat_map(|other| writes(self.graph.task(other))).collect()
    }

    /// The race that explains an input which is not what its producer wrote, if a captured task can have changed it.
    pub fn race_for(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Option<Race> {
        let other = output.task;
        if self.started_before_end(task, other) {
            return Some(Race { other, kind: RaceKind::ReadTooEarly });
        }
        self.between(task, arg, output).or_else(|| self.overwriter(task, arg))
    }

    /// A task that wrote into an input although it comes later in dependency order: it was dispatched too
    /// early.
    pub fn overwriter(&self, task: usize, arg: Argument<'_>) -> Option<Race> {
        let (here, start) = (TensorView::of(arg)?, self.graph.task(task).start_time()?);
        let mut early = self.times.later_but_started_before(task, start);
        let wrote = early.find(|&other| writes(self.graph.task(other)).any(|view| view.shares(&here)));
        wrote.map(|other| Race { other, kind: RaceKind::Overwritten })
    }

    /// Tasks that may have written an input out of order, by their times: after the last holder, or although they come
    /// later. Only contents show which of them did.
    pub fn possible_overwriters(
        &self,
        task: usize,
        arg: Argument<'_>,
        holder: Option<OutputRef>,
    ) -> Vec<usize> {
        let between = holder.and_then(|holder| self.between(task, arg, holder));
        let early = self.overwriter(task, arg);
        between.into_iter().chain(early).map(|race| race.other).collect()
    }

    /// A task that ran after the producer of an input had completed and overwrote the producer's output: too
    /// late or too early. A task between producer and reader in dependency order would itself be the
    /// producer.
    fn between(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Option<Race> {
        let (own, producer) = (self.graph.task(task), self.graph.task(output.task));
        let here = TensorView::of(arg)?;
        let made = TensorView::of(producer.argument(output.arg_index)?)?;
        let others = self.times.under_way(producer.end_time()?, own.end_time().or(own.start_time())?);
        let overwrote = |other: Task<'_>| {
            // Storing half a byte also stores the other half, which may undo a write at the same time.
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

/// Run times of the tasks of a graph, indexed so that the tasks of a moment are found quickly.
struct TaskTimes {
    /// Start, end and position of each task with both times, sorted by start.
    intervals: Vec<(u64, u64, usize)>,
    /// The latest end among the intervals up to each one.
    ended_by: Vec<u64>,
    /// Start of each task, by position.
    starts: Vec<Option<u64>>,
    /// For each position, the earliest start of any later position.
    earliest_after: Vec<u64>,
}

impl TaskTimes {
    fn of(tasks: &Tasks) -> TaskTimes {
        let interval = |t: Task<'_>| Some((t.start_time()?, t.end_time()?, t.place()));
        // Regions write nothing themselves, and a long one would make every search long.
        let own_work = tasks.iter().filter(|task| !task.contains_tasks());
        let mut intervals: Vec<_> = own_work.filter_map(interval).collect();
        intervals.sort_unstable();
        let running = |latest: &mut u64, &(_, end, _): &(u64, u64, usize)| {
            *latest = end.max(*latest);
            Some(*latest)
        };
        let ended_by = intervals.iter().scan(0, running).collect();
        let starts: Vec<Option<u64>> = tasks.iter().map(|t| t.start_time()).collect();
        let mut earliest_after = vec![u64::MAX; starts.len()];
        for place in (1..starts.len()).rev() {
            earliest_after[place - 1] = earliest_after[place].min(starts[place].unwrap_or(u64::MAX));
        }
        TaskTimes { intervals, ended_by, starts, earliest_after }
    }

    /// Positions of the tasks that started before `to` and ended after `from`.
    fn under_way(&self, from: u64, to: u64) -> impl Iterator<Item = usize> {
        let begun = self.intervals.partition_point(|&(start, ..)| start < to);
        let candidates = self.intervals[..begun].iter().zip(&self.ended_by[..begun]).rev();
        let recent = candidates.take_while(move |(_, ended_by)| **ended_by > from);
        recent.filter(move |((_, end, _), _)| *end > from).map(|((.., place), _)| *place)
    }

    /// Later positions, in order, of tasks that started before a time.
    fn later_but_started_before(&self, place: usize, time: u64) -> impl Iterator<Item = usize> {
        let more = move |&at: &usize| self.earliest_after[at] < time;
        let later = (place..self.starts.len()).take_while(more).map(|at| at + 1);
        later.filter(move |&at| self.starts[at].is_some_and(|start| start < time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, tasks_of};
    use proptest::prelude::*;

    fn tasks(times: &[(u64, u64)]) -> Vec<TaskBuilder> {
        let task = |(id, &(start, length)): (u64, &(u64, u64))| {
            TaskBuilder::new(id, "a").at(start).until(start + length)
        };
        (0..).zip(times).map(task).collect()
    }

    proptest! {
        #[test]
        fn the_index_finds_the_same_tasks_as_a_full_scan(
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
            let found = TaskTimes::of(&tasks);
            let all = || tasks.iter().map(|t| (t.place(), t.start_time().unwrap(), t.end_time()));
            let expected: Vec<usize> = all()
                .filter(|(_, start, end)| *start < to && end.is_some_and(|end| end > from))
                .map(|t| t.0)
                .collect();
            let mut under_way: Vec<usize> = found.under_way(from, to).collect();
            under_way.sort_unstable();
            prop_assert_eq!(under_way, expected);
            let place = place % tasks.len();
            let later: Vec<usize> = all().filter(|t| t.0 > place && t.1 < to).map(|t| t.0).collect();
            prop_assert_eq!(found.later_but_started_before(place, to).collect::<Vec<_>>(), later);
        }
    }
}
