//! Groups touches by view or memory group and by chain, so that a binary search finds the ranks before or
//! after a task.

use super::Order;
use super::touches::{Touch, small, starts};

/// Touches sorted by a number (of a view or memory group), then by chain, then by task.
#[derive(Clone, Debug, Default)]
pub(super) struct TouchRuns {
    /// Touch numbers.
    touches: Vec<u32>,
    /// For each touch: one plus the index of the last write in its run up to it; 0 if there is none.
    last_wrote: Vec<u32>,
    runs: Vec<TouchRun>,
    /// Where the runs of each number begin in `runs`, plus a final end.
    starts: Vec<u32>,
}

/// The touches of one chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct TouchRun {
    pub chain: u32,
    start: u32,
    end: u32,
}

impl TouchRuns {
    /// Groups touches by a number below `count`.
    pub fn of(all: &[Touch], order: &Order, count: usize, number_of: impl Fn(&Touch) -> usize) -> TouchRuns {
        let key = |touch: &Touch| (small(number_of(touch)), order.place(touch.place()).0);
        let mut touches: Vec<(u32, u32, u32)> = Vec::with_capacity(all.len());
        for (at, touch) in (0..).zip(all) {
            let (number, chain) = key(touch);
            touches.push((number, chain, at));
        }
        touches.sort_unstable();
        let (mut runs, mut of): (Vec<TouchRun>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, &(number, chain, _)) in (0_u32..).zip(&touches) {
            match runs.last_mut() {
                Some(run) if of.last() == Some(&(number as usize)) && run.chain == chain => run.end = at + 1,
                _ => {
                    runs.push(TouchRun { chain, start: at, end: at + 1 });
                    of.push(number as usize);
                }
            }
        }
        let starts = starts(count, of.into_iter());
        let touches = touches.into_iter().map(|(.., touch)| touch).collect();
        TouchRuns { touches, last_wrote: Vec::new(), runs, starts }
    }

    /// Records which touches are writes.
    pub fn keep_writes(&mut self, wrote: &[bool]) {
        self.last_wrote = vec![0; self.touches.len()];
        for run in &self.runs {
            let mut last = 0;
            for at in run.start..run.end {
                if wrote[self.touches[at as usize] as usize] {
                    last = at + 1;
                }
                self.last_wrote[at as usize] = last;
            }
        }
    }

    /// The runs of a number.
    pub fn get(&self, number: usize) -> &[TouchRun] {
        &self.runs[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    /// The touches of a run by tasks after a rank of its chain, in order.
    pub fn after_rank(&self, all: &[Touch], order: &Order, run: &TouchRun, rank: u32) -> &[u32] {
        let touches = &self.touches[run.start as usize..run.end as usize];
        let is_up_to = |&touch: &u32| order.place(all[touch as usize].place()).1 <= rank;
        &touches[touches.partition_point(is_up_to)..]
    }

    /// The touches of a run by tasks before a task, the last first; only writes, or all.
    pub fn before<'r>(
        &'r self,
        all: &'r [Touch],
        order: &Order,
        run: &TouchRun,
        (task, writes): (usize, bool),
    ) -> impl Iterator<Item = &'r Touch> + 'r {
        let start = run.start as usize;
        let has_none = writes && self.last_wrote[run.end as usize - 1] == 0;
        let mut end = match has_none {
            true => start,
            false => {
                let before = order.count_before(task, run.chain);
                run.end as usize - self.after_rank(all, order, run, before).len()
            }
        };
        std::iter::from_fn(move || {
            if writes && end > start {
                end = self.last_wrote[end - 1] as usize;
            }
            end = end.checked_sub(1).filter(|&end| end >= start)?;
            Some(&all[self.touches[end] as usize])
        })
    }
}
