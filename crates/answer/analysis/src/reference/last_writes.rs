//! Finds the last writes of the memory that tasks read, for all tasks in one pass over the times of a run.

use std::collections::HashMap;

use crate::graph::{OutputRef, TensorView, WriteMap};

/// The write of one task with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub output: OutputRef,
    pub view: TensorView,
    pub began: u64,
    pub ended: u64,
}

/// A view that a task reads, and the time in which the task ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Position of the task.
    pub task: usize,
    pub arg_index: u16,
    pub view: TensorView,
    pub start: u64,
    pub end: u64,
}

/// Why the last writer of a view is not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AmbiguousWriter {
    /// The task at this position wrote into the view while another task wrote the same bytes or the reader
    /// ran.
    SameTime(usize),
    /// Too many tasks ran at the same time to compare them all.
    TooMany,
}

/// Limit on the overlapping pairs examined, per write and read. Devices run at most as many tasks at once as
/// they have cores, but the times of a damaged dump are arbitrary.
const MAX_PAIRS: usize = 1024;

/// The outputs that hold bytes of each read, the newest first, in the order of the reads.
pub(super) fn last_writes(
    writes: Vec<Write>,
    reads: &[Read],
) -> Vec<Result<Vec<OutputRef>, AmbiguousWriter>> {
    let mut walk = TimeWalk::new(writes, reads.len());
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_by_key(|&n| reads[n].start);
    let mut answers = vec![Ok(Vec::new()); reads.len()];
    for n in order {
        answers[n] = walk.answer(&reads[n]);
    }
    answers
}

struct TimeWalk {
    /// Sorted by start time.
    writes: Vec<Write>,
    numbers: HashMap<OutputRef, usize>,
    /// The first write that is not in the map yet.
    next: usize,
    map: WriteMap,
    /// Writes in the map that may not have ended.
    open: Vec<usize>,
    /// For each write: the writes of the same bytes that were running when it began.
    concurrent: Vec<Vec<usize>>,
    pairs_left: usize,
}

impl TimeWalk {
    fn new(mut writes: Vec<Write>, reads: usize) -> TimeWalk {
        writes.sort_by_key(|write| (write.began, write.output.task, write.output.arg_index));
        let numbers = writes.iter().enumerate().map(|(n, write)| (write.output, n)).collect();
        let concurrent = vec![Vec::new(); writes.len()];
        let count = writes.len() + reads;
        let pairs_left = (count + 1).saturating_mul(MAX_PAIRS);
        TimeWalk {
            writes,
            numbers,
            next: 0,
            map: WriteMap::of(count),
            open: Vec::new(),
            concurrent,
            pairs_left,
        }
    }

    fn answer(&mut self, read: &Read) -> Result<Vec<OutputRef>, AmbiguousWriter> {
        while self.writes.get(self.next).is_some_and(|write| write.began < read.start) {
            self.enter(self.next)?;
            self.next += 1;
        }
        self.close(read.start);
        let meanwhile = self.writes[self.next..].iter().take_while(|write| write.began < read.end);
        let open = self.open.iter().map(|&n| &self.writes[n]);
        for write in open.chain(meanwhile) {
            self.pairs_left = self.pairs_left.checked_sub(1).ok_or(AmbiguousWriter::TooMany)?;
            if write.output.task != read.task && write.view.shares(&read.view) {
                return Err(AmbiguousWriter::SameTime(write.output.task));
            }
        }
        let holding = self.map.last(&read.view).ok_or(AmbiguousWriter::TooMany)?;
        for output in &holding {
            let concurrent = self.numbers.get(output).map_or(&[][..], |&n| &self.concurrent[n]);
            let other =
                concurrent.iter().map(|&n| &self.writes[n]).find(|write| write.view.shares(&read.view));
            if let Some(write) = other {
                return Err(AmbiguousWriter::SameTime(write.output.task));
            }
        }
        Ok(holding)
    }

    fn enter(&mut self, number: usize) -> Result<(), AmbiguousWriter> {
        let write = self.writes[number];
        self.close(write.began);
        self.pairs_left = self.pairs_left.checked_sub(self.open.len()).ok_or(AmbiguousWriter::TooMany)?;
        let shares = |&&n: &&usize| self.writes[n].view.shares(&write.view);
        self.concurrent[number] = self.open.iter().filter(shares).copied().collect();
        self.open.push(number);
        self.map.insert(write.output, write.view);
        Ok(())
    }

    /// Removes writes that ended before `now`.
    fn close(&mut self, now: u64) {
        self.open.retain(|&n| self.writes[n].ended > now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tensortap_geometry::Layout;

    use super::*;
    use crate::graph::view::pieces;

    /// First byte, rows, columns, gap between rows in bytes.
    type ViewSpec = (u64, u64, u64, i64);

    fn views() -> impl Strategy<Value = ViewSpec> {
        (0_u64..40, 1_u64..4, 1_u64..6, 0_i64..6)
    }

    fn view((address, rows, columns, gap): ViewSpec) -> TensorView {
        let stride = i64::try_from(columns).unwrap() + gap;
        TensorView::new(Layout::new(&[rows, columns], &[stride, 1], 0, 8).unwrap(), address)
    }

    fn bytes(view: &TensorView) -> BTreeSet<u128> {
        pieces(view).unwrap().iter().flat_map(|piece| piece.start..piece.end).collect()
    }

    /// Tasks that each read one view and write another: both views, start time and duration.
    fn tasks() -> impl Strategy<Value = Vec<(ViewSpec, ViewSpec, u64, u64)>> {
        proptest::collection::vec((views(), views(), 0_u64..40, 0_u64..6), 1..14)
    }

    /// The same answer from a full scan over bytes and writes.
    fn by_full_scan(writes: &[Write], read: &Read) -> Result<BTreeSet<usize>, ()> {
        let meet = |one: &TensorView, other: &TensorView| !bytes(one).is_disjoint(&bytes(other));
        let others = || writes.iter().filter(|w| w.output.task != read.task && meet(&w.view, &read.view));
        if others().any(|w| w.began < read.end && (w.began >= read.start || w.ended > read.start)) {
            return Err(());
        }
        let key = |w: &&Write| (w.began, w.output.task);
        let mut holding = BTreeSet::new();
        for byte in bytes(&read.view) {
            let here = others().filter(|w| w.began < read.start && bytes(&w.view).contains(&byte));
            let Some(last) = here.max_by_key(key) else { continue };
            let is_concurrent =
                |w: &Write| key(&w) < key(&last) && w.ended > last.began && meet(&w.view, &last.view);
            if others().any(is_concurrent) {
                return Err(());
            }
            holding.insert(last.output.task);
        }
        Ok(holding)
    }

    proptest! {
        #[test]
        fn the_walk_finds_the_same_writers_as_a_full_scan(tasks in tasks()) {
            let (mut writes, mut reads) = (Vec::new(), Vec::new());
            for (task, &(given, made, start, length)) in tasks.iter().enumerate() {
                let output = OutputRef { task, arg_index: 1 };
                writes.push(Write { output, view: view(made), began: start, ended: start + length });
                reads.push(Read { task, arg_index: 0, view: view(given), start, end: start + length });
            }
            let found = last_writes(writes.clone(), &reads);
            for (read, found) in reads.iter().zip(found) {
                let found = found.map(|all| all.iter().map(|output| output.task).collect());
                prop_assert_eq!(found.map_err(drop), by_full_scan(&writes, read), "{:?}", read);
            }
        }
    }

    #[test]
    fn a_buffer_that_is_rewritten_often_has_one_last_write() {
        const TASKS: usize = 20_000;
        let view = view((0, 1, 8, 0));
        let at = |task: usize| task as u64 * 10;
        let output = |task| OutputRef { task, arg_index: 0 };
        let write = |task| Write { output: output(task), view, began: at(task), ended: at(task) + 9 };
        let read = |task| Read { task, arg_index: 0, view, start: at(task), end: at(task) + 9 };
        let reads: Vec<Read> = (0..TASKS).map(read).collect();
        let found = last_writes((0..TASKS).map(write).collect(), &reads);
        assert_eq!(found[0], Ok(Vec::new()));
        assert!((1..TASKS).all(|task| found[task] == Ok(vec![output(task - 1)])));
    }

    #[test]
    fn impossible_times_still_give_an_answer() {
        const TASKS: usize = 5_000;
        let view = |task: usize| view((task as u64 * 100, 1, 8, 0));
        let output = |task| OutputRef { task, arg_index: 0 };
        let write =
            |task| Write { output: output(task), view: view(task), began: task as u64, ended: u64::MAX };
        let reads: Vec<Read> = (0..TASKS)
            .map(|task| Read { task, arg_index: 0, view: view(task), start: task as u64, end: u64::MAX })
            .collect();
        let found = last_writes((0..TASKS).map(write).collect(), &reads);
        assert!(found[0].is_ok() && found.contains(&Err(AmbiguousWriter::TooMany)));
    }
}
