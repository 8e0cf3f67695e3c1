//! Touches of the same memory by chains: where a search finds the place of a task.

use super::Order;
use super::touches::{Touch, small, starts};

/// Touches by whatever they have in common, then chain, then task.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Numbers of touches.
    touches: Vec<u32>,
    /// For each of them, how many of all lead to the last of its run, up to it, which wrote; 0 for none.
    last_wrote: Vec<u32>,
    runs: Vec<Run>,
    /// Where the runs of each begin in `runs`, and behind the last.
    starts: Vec<u32>,
}

/// Touches of one chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub chain: u32,
    start: u32,
    end: u32,
}

impl Runs {
    /// Puts touches together by numbers below `count`.
    pub fn of(all: &[Touch], order: &Order, count: usize, number_of: impl Fn(&Touch) -> usize) -> Runs {
        let key = |touch: &Touch| (small(number_of(touch)), order.place(touch.place()).0);
        let mut touches: Vec<(u32, u32, u32)> = Vec::with_capacity(all.len());
        for (at, touch) in (0..).zip(all) {
            let (number, chain) = key(touch);
            touches.push((number, chain, at));
        }
        touches.sort_unstable();
        let (mut runs, mut of): (Vec<Run>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, &(number, chain, _)) in (0_u32..).zip(&touches) {
            match runs.last_mut() {
                Some(run) if of.last() == Some(&(number as usize)) && run.chain == chain => run.end = at + 1,
                _ => {
                    runs.push(Run { chain, start: at, end: at + 1 });
                    of.push(number as usize);
                }
            }
        }
        let starts = starts(count, of.into_iter());
        let touches = touches.into_iter().map(|(.., touch)| touch).collect();
        Runs { touches, last_wrote: Vec::new(), runs, starts }
    }

    /// Says which of the touches wrote.
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
    pub fn get(&self, number: usize) -> &[Run] {
        &self.runs[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    /// The touches of a run by tasks behind a place of its chain, in order.
    pub fn behind(&self, all: &[Touch], order: &Order, run: &Run, rank: u32) -> &[u32] {
        let touches = &self.touches[run.start as usize..run.end as usize];
        let is_up_to = |&touch: &u32| order.place(all[touch as usize].place()).1 <= rank;
        &touches[touches.partition_point(is_up_to)..]
    }

    /// The touches of a run by tasks before one, the last first; those that wrote, or all.
    pub fn before<'r>(
        &'r self,
        all: &'r [Touch],
        order: &Order,
        run: &Run,
        (task, writes): (usize, bool),
    ) -> impl Iterator<Item = &'r Touch> + 'r {
        let start = run.start as usize;
        let has_none = writes && self.last_wrote[run.end as usize - 1] == 0;
        let mut end = match has_none {
            true => start,
            false => {
                let before = order.count_before(task, run.chain);
                run.end as usize - self.behind(all, order, run, before).len()
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
