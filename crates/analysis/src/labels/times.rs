//! Tasks by time.

use crate::graph::GraphTask;

/// When the tasks of a graph ran, so that those of a moment are found without asking all.
pub(super) struct Times {
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
    pub fn of(tasks: &[GraphTask]) -> Times {
        let interval = |(place, t): (usize, &GraphTask)| Some((t.dispatched_ns?, t.completed_ns?, place));
        let mut intervals: Vec<_> = tasks.iter().enumerate().filter_map(interval).collect();
        intervals.sort_unstable();
        let running = |latest: &mut u64, &(_, end, _): &(u64, u64, usize)| {
            *latest = end.max(*latest);
            Some(*latest)
        };
        let ended_by = intervals.iter().scan(0, running).collect();
        let starts: Vec<Option<u64>> = tasks.iter().map(|t| t.dispatched_ns).collect();
        let mut earliest_behind = vec![u64::MAX; starts.len()];
        for place in (1..starts.len()).rev() {
            earliest_behind[place - 1] = earliest_behind[place].min(starts[place].unwrap_or(u64::MAX));
        }
        Times { intervals, ended_by, starts, earliest_behind }
    }

    /// Positions of the tasks that began before `to` and ended after `from`.
    pub fn under_way(&self, from: u64, to: u64) -> impl Iterator<Item = usize> {
        let begun = self.intervals.partition_point(|&(start, ..)| start < to);
        let candidates = self.intervals[..begun].iter().zip(&self.ended_by[..begun]).rev();
        let recent = candidates.take_while(move |(_, ended_by)| **ended_by > from);
        recent.filter(move |((_, end, _), _)| *end > from).map(|((.., place), _)| *place)
    }

    /// Positions behind one, in order, of tasks that began before a time.
    pub fn behind_but_started_before(&self, place: usize, time: u64) -> impl Iterator<Item = usize> {
        let more = move |&at: &usize| self.earliest_behind[at] < time;
        let behind = (place..self.starts.len()).take_while(more).map(|at| at + 1);
        behind.filter(move |&at| self.starts[at].is_some_and(|start| start < time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::TaskMaker;
    use proptest::prelude::*;

    fn tasks(times: &[(u64, u64)]) -> Vec<GraphTask> {
        let task =
            |&(start, length): &(u64, u64)| TaskMaker::new(0, "a").at(start).until(start + length).done();
        times.iter().map(task).collect()
    }

    proptest! {
        #[test]
        fn the_same_tasks_are_found_as_by_asking_all(
            times in proptest::collection::vec((0_u64..40, 0_u64..20), 1..30),
            without_end in 0_usize..40,
            (from, to) in (0_u64..60, 0_u64..60),
            place in 0_usize..30,
        ) {
            let mut tasks = tasks(&times);
            if let Some(task) = tasks.get_mut(without_end) {
                task.completed_ns = None;
            }
            let found = Times::of(&tasks);
            let all = || tasks.iter().enumerate().map(|(place, t)| (place, t.dispatched_ns.unwrap(), t.completed_ns));
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
