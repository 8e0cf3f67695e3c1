//! `--dump-last`: determines the newest tasks, and the payload bytes that nothing refers to anymore.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use tensortap_abi::RecordKind;

use crate::{IndexRecord, Totals};

/// Minimum number of tasks beyond the window before it moves; or a quarter of the window if that is more.
const LEAST_SLACK_TASKS: usize = 16;

/// Minimum number of late records (of tasks already removed) before the index is rewritten; or the number
/// of kept tasks if that is more.
const LEAST_LATE_RECORDS: usize = 256;

/// Age of a task: whether it has not ended, and when it was dispatched (or submitted, if it has not ended).
///
/// A program submits many tasks before the first of them runs. Waiting tasks are newer than all tasks that
/// have run, whatever their submission times.
type Age = (bool, u64);

/// The newest tasks by dispatch time. Memory grows with the window, not with the run.
pub(crate) struct TaskWindow {
    keep: usize,
    by_age: BTreeSet<(Age, u64)>,
    ages: HashMap<u64, Age>,
    latest_ns: u64,
    evicted: Ranges,
    /// Number of records in the index that arrived after their tasks were removed.
    late: usize,
    /// Reserved ranges of the payload file that no record refers to yet.
    pub(crate) reserved: BTreeMap<u64, u64>,
}

impl TaskWindow {
    pub(crate) fn new(keep: u64) -> TaskWindow {
        TaskWindow {
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
            by_age: BTreeSet::new(),
            ages: HashMap::new(),
            latest_ns: 0,
            evicted: Ranges::default(),
            late: 0,
            reserved: BTreeMap::new(),
        }
    }

    /// Notes a record that was appended.
    pub(crate) fn see(&mut self, record: &IndexRecord) {
        if let Some((offset, _)) = record.stored_range() {
            self.reserved.remove(&offset);
        }
        let task_id = record.task_id();
        if self.evicted.contains(task_id) {
            self.late += 1;
            return;
        }
        if matches!(record.kind(), RecordKind::Edge | RecordKind::OrchestrationArg)
            || record.kind().is_definition()
        {
            return;
        }
        let task = record.as_task();
        let (dispatched_ns, has_ended) =
            task.map_or((0, false), |task| (task.started_ns, task.completed_ns != 0));
        self.latest_ns = self.latest_ns.max(dispatched_ns);
        match self.ages.get(&task_id).copied() {
            Some(known @ (true, _)) if has_ended => {
                self.place(task_id, Some(known), (false, dispatched_ns));
            }
            Some(known @ (is_open, ns)) if dispatched_ns > ns => {
                self.place(task_id, Some(known), (is_open, dispatched_ns));
            }
            Some(_) => {}
            // A task whose time is not known yet is as new as the newest.
            None if dispatched_ns == 0 => self.place(task_id, None, (!has_ended, self.latest_ns)),
            None => self.place(task_id, None, (!has_ended, dispatched_ns)),
        }
    }

    fn place(&mut self, task_id: u64, before: Option<Age>, now: Age) {
        if let Some(before) = before {
            self.by_age.remove(&(before, task_id));
        }
        self.by_age.insert((now, task_id));
        self.ages.insert(task_id, now);
    }

    /// Whether enough tasks have left the window to justify a rewrite of the index.
    pub(crate) fn is_due(&self) -> bool {
        self.by_age.len().saturating_sub(self.keep) >= LEAST_SLACK_TASKS.max(self.keep / 4)
            || self.late >= LEAST_LATE_RECORDS.max(self.keep)
    }

    /// Removes all but the newest tasks. Returns whether the index has records of removed tasks.
    pub(crate) fn evict(&mut self) -> bool {
        let before = self.by_age.len();
        let has_late = std::mem::take(&mut self.late) > 0;
        while self.by_age.len() > self.keep {
            let Some((_, task_id)) = self.by_age.pop_first() else { break };
            self.ages.remove(&task_id);
            self.evicted.insert(task_id);
        }
        has_late || self.by_age.len() < before
    }

    /// Whether a record stays. Edges are recorded long before their task is dispatched, so they stay as
    /// long as the task.
    pub(crate) fn keeps(&self, record: &IndexRecord) -> bool {
        match record.kind() {
            RecordKind::Edge => !self.evicted.contains(record.task_id()),
            RecordKind::OrchestrationArg => true,
            kind if kind.is_definition() => true,
            _ => self.ages.contains_key(&record.task_id()),
        }
    }
}

/// Counters of what left the window, for the footer.
#[derive(Default)]
pub(crate) struct EvictedTotals {
    /// Number of arguments and dispatches.
    pub(crate) records: u64,
    /// Payload bytes; shared payloads count for each record.
    pub(crate) bytes: u64,
}

impl EvictedTotals {
    /// Adds everything that is in `before` and no longer in `after`.
    pub(crate) fn add(&mut self, before: &Totals, after: &Totals) {
        let records = |t: &Totals| t.total_tensors + t.dispatches;
        let bytes = |t: &Totals| t.stored_bytes + t.deduplicated_bytes;
        self.records += records(before).saturating_sub(records(after));
        self.bytes += bytes(before).saturating_sub(bytes(after));
    }
}

/// A set of numbers, most of which are neighbors.
#[derive(Default)]
struct Ranges {
    /// First and last number of each range. Ranges never touch.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let below = self.ranges.range(..number).next_back().map(|(first, last)| (*first, *last));
        let first = below.filter(|(_, last)| last + 1 == number).map_or(number, |(first, _)| first);
        let above = number.checked_add(1).and_then(|next| self.ranges.remove(&next));
        self.ranges.insert(first, above.unwrap_or(number));
    }
}

/// The parts of `all` that no range in `live` touches.
pub(crate) fn dead_ranges(mut live: Vec<Range<u64>>, all: Range<u64>) -> Vec<Range<u64>> {
    live.sort_unstable_by_key(|range| (range.start, range.end));
    let mut dead = Vec::new();
    let mut covered = all.start;
    for range in live.into_iter().filter(|range| !range.is_empty()) {
        if range.start > covered {
            dead.push(covered..range.start);
        }
        covered = covered.max(range.end);
    }
    if covered < all.end {
        dead.push(covered..all.end);
    }
    dead
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use tensortap_abi::TaskRecord;

    use super::*;

    fn task(task_id: u64, dispatched_ns: u64) -> IndexRecord {
        IndexRecord::plain(&TaskRecord { task_id, started_ns: dispatched_ns, ..TaskRecord::default() })
    }

    #[test]
    fn the_newest_tasks_stay_for_any_order_of_records() {
        let mut window = TaskWindow::new(3);
        for task_id in [9, 1, 8, 2, 7, 3, 6, 4, 5] {
            window.see(&task(task_id, task_id * 100));
        }
        assert!(window.evict());
        let kept: Vec<u64> = (1..10).filter(|id| window.keeps(&task(*id, 0))).collect();
        assert_eq!(kept, [7, 8, 9]);
        window.see(&task(2, 250));
        assert!(!window.keeps(&task(2, 250)), "a removed task does not return with a late record");
    }

    #[test]
    fn a_task_without_a_time_counts_as_new() {
        let mut window = TaskWindow::new(1);
        window.see(&task(1, 500));
        window.see(&task(2, 0));
        window.evict();
        assert!(window.keeps(&task(2, 0)));
    }

    #[test]
    fn the_latest_time_of_a_task_counts() {
        let mut window = TaskWindow::new(1);
        for (task_id, dispatched_ns) in [(1, 500), (2, 0), (3, 700), (2, 900)] {
            window.see(&task(task_id, dispatched_ns));
        }
        window.evict();
        assert!(window.keeps(&task(2, 0)));
    }

    #[test]
    fn tasks_that_wait_in_a_queue_are_newer_than_tasks_that_have_run() {
        let ended = |task_id, started_ns| {
            let task =
                TaskRecord { task_id, started_ns, completed_ns: started_ns + 5, ..TaskRecord::default() };
            IndexRecord::plain(&task)
        };
        let mut window = TaskWindow::new(3);
        // All are submitted before the first one runs.
        (1..=10).for_each(|id| window.see(&task(id, id)));
        (1..=6).for_each(|id| window.see(&ended(id, id * 100)));
        assert!(window.evict());
        // Their records arrive after the others were removed.
        (7..=10).for_each(|id| window.see(&ended(id, id * 100)));
        assert!(window.evict(), "a late record is in the index");
        assert!(!window.evict(), "it no longer is");
        let kept: Vec<u64> = (1..=10).filter(|id| window.keeps(&task(*id, 0))).collect();
        assert_eq!(kept, [8, 9, 10]);
    }

    proptest! {
        #[test]
        fn ranges_contain_exactly_the_inserted_numbers(numbers in prop::collection::vec(0u64..64, 0..64)) {
            let mut ranges = Ranges::default();
            let mut expected = HashSet::new();
            for number in numbers {
                ranges.insert(number);
                expected.insert(number);
            }
            for number in 0..66 {
                prop_assert_eq!(ranges.contains(number), expected.contains(&number));
            }
            let bounds: Vec<_> = ranges.ranges.into_iter().collect();
            prop_assert!(bounds.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", bounds);
        }

        #[test]
        fn dead_ranges_are_the_complement_of_live_ranges(
            live in prop::collection::vec((0u64..100, 0u64..20), 0..12),
            end in 0u64..130,
        ) {
            let live: Vec<Range<u64>> = live.into_iter().map(|(start, len)| start..start + len).collect();
            let dead = dead_ranges(live.clone(), 0..end);
            let top = live.iter().map(|r| r.end).max().unwrap_or(0).max(end);
            for byte in 0..top {
                let alive = live.iter().any(|range| range.contains(&byte));
                let reported = dead.iter().any(|range| range.contains(&byte));
                let below_last_live = live.iter().any(|r| !r.is_empty() && byte < r.end);
                prop_assert_eq!(reported, !alive && (byte < end || below_last_live), "byte {}", byte);
            }
        }
    }
}
