//! Which tasks of a dump are ordered: the transitive closure of its edges, whatever the times say.
//!
//! Tasks stand in dependency order, so what is before a task are all tasks up to some position, without a gap, and some of those
//! behind that. The first is one number. For the others tasks are spread over chains, each totally ordered: of a chain the first tasks
//! are before a task, up to one. They are kept as what takes less room: a count for each chain, or a bit for each task. So one
//! queue takes no list at all; a few queues, however far apart, take a number for each; and a thousand tasks between two barriers
//! take nothing but the position of the barrier.
//!
//! With `n` tasks, `e` edges, `c` chains and windows of `w` tasks between the first that is not before a task and the task itself, finding the order
//! takes at most `e * min(c, w / 64)` steps and `n * min(c, w / 64)` words. Neighbours share their lists, an edge that
//! says nothing new takes one step, and both have a limit: behind it, of a task only its own chain and the gapless part are known, so
//! that tasks may count as unordered that are not, and never the reverse. [`Order::unknown_count`] says of how many.

mod before;
mod chains;
mod edges;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tensortap_format::Tasks;

use crate::graph::Places;
pub(super) use before::Room;
use before::{Beyond, Joiner};
use chains::Chains;

/// What all lists together may hold and take: words of eight bytes, and steps.
const ROOM: Room = Room { words: 1 << 25, steps: 1 << 30 };

/// The order of the tasks of a graph, by their positions.
#[derive(Clone, Debug, Default)]
pub struct Order {
    chains: Chains,
    /// By task, how many of all tasks, from the first on, are before it without a gap.
    upto: Vec<u32>,
    /// By task, what else is before it, its own chain aside.
    beyond: Vec<Arc<Beyond>>,
    /// Where the tasks directly before each begin in `direct`, and behind the last.
    starts: Vec<u32>,
    direct: Vec<u32>,
    /// By task, the smallest `upto` from there on: so far back all that follow are behind.
    least_upto: Vec<u32>,
    /// By task, whether others are before it of which that is not known.
    unknown: Vec<bool>,
}

impl Order {
    /// The order of tasks that stand in dependency order. Edges against that order, which only damage can make, do not count.
    #[must_use]
    pub fn of(tasks: &Tasks) -> Order {
        Order::within(tasks, ROOM)
    }

    /// The same with so much room.
    pub(super) fn within(tasks: &Tasks, room: Room) -> Order {
        let (edges, cut) = edges::edges_between(tasks, &Places::of(tasks));
        let queues: Vec<u32> = tasks.iter().map(|task| task.queue).collect();
        let mut order = Order::among(&queues, edges, room);
        order.lack(&cut);
        order
    }

    /// The same of tasks with these queues, and of edges between their positions.
    fn among(queues: &[u32], edges: Vec<(u32, u32)>, room: Room) -> Order {
        let forward = edges.into_iter().filter(|(from, to)| from < to);
        let (starts, direct) = listed(queues.len(), forward.map(|(from, to)| (to, from)));
        let mut joiner = Joiner::new(room);
        let mut order = Order { starts, direct, ..Order::default() };
        (0..queues.len()).for_each(|_| joiner.add(&mut order, queues));
        order.unknown = vec![false; queues.len()];
        order.lack(joiner.unknown());
        order.look_back();
        order
    }

    /// Of these tasks not all is known that is before them, and so of those behind them.
    fn lack(&mut self, tasks: &[u32]) {
        if tasks.is_empty() {
            return;
        }
        tasks.iter().for_each(|&task| self.unknown[task as usize] = true);
        for task in 0..self.len() {
            let is_behind = |&from: &u32| from >= self.upto[task] && self.unknown[from as usize];
            self.unknown[task] = self.unknown[task] || self.direct(task).iter().any(is_behind);
        }
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.upto.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upto.is_empty()
    }

    /// Whether every task is before or behind every other.
    #[must_use]
    pub fn is_total(&self) -> bool {
        self.chains.len() <= 1
    }

    /// Chains that tasks are spread over.
    #[must_use]
    pub fn chain_count(&self) -> usize {
        self.chains.len()
    }

    /// Tasks of which not all is known that is before them, because the graph is too large and too wide: they count as unordered with
    /// tasks that they may be ordered with.
    #[must_use]
    pub fn unknown_count(&self) -> usize {
        self.unknown.iter().filter(|unknown| **unknown).count()
    }

    /// Whether others may be before a task of which that is not known.
    pub(crate) fn is_unknown(&self, task: usize) -> bool {
        self.unknown[task]
    }

    /// The chain of a task, and its place there, from 1.
    pub(crate) fn place(&self, task: usize) -> (u32, u32) {
        self.chains.place(task)
    }

    /// Whether a task was complete, its captures too, before anything of another was captured.
    #[must_use]
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        if first >= second {
            return false;
        }
        let (chain, rank) = self.place(first);
        (first as u64) < u64::from(self.upto[second])
            || chain == self.place(second).0
            || self.beyond[second].has(small(first), chain, rank)
    }

    /// Whether nothing orders two different tasks.
    #[must_use]
    pub fn are_unordered(&self, one: usize, other: usize) -> bool {
        let (first, second) = (one.min(other), one.max(other));
        first != second && !self.is_before(first, second)
    }

    /// How many tasks of a chain are before a task: the first of it.
    pub(crate) fn count_before(&self, task: usize, chain: u32) -> u32 {
        let (own, rank) = self.place(task);
        if own == chain {
            return rank - 1;
        }
        let members = self.chains.members(chain);
        let gapless = members.partition_point(|&member| member < self.upto[task]);
        match &*self.beyond[task] {
            Beyond::Chains(list) => before::look_up(list, chain).max(small(gapless)),
            Beyond::Bits { .. } => {
                let rest = &members[gapless..];
                small(gapless + rest.partition_point(|&member| self.is_before(member as usize, task)))
            }
        }
    }

    /// How many tasks of a chain are behind a task: the last of it.
    pub(crate) fn count_behind(&self, task: usize, chain: u32) -> u32 {
        let members = self.chains.members(chain);
        let (own, rank) = self.place(task);
        if own == chain {
            return small(members.len()) - rank;
        }
        // Where a list is missing the answer may be smaller than the truth, like every other here.
        let first = members.partition_point(|&member| !self.is_before(task, member as usize));
        small(members.len() - first)
    }

    /// Places in a chain, from 1, of the tasks that nothing orders with a task: behind the first, up to the second.
    pub(crate) fn unordered_in(&self, task: usize, chain: u32) -> (u32, u32) {
        if self.place(task).0 == chain {
            return (0, 0);
        }
        self.open_between(task, task, chain)
    }

    /// Places in a chain, from 1, of the tasks that are neither before `first` (or it) nor behind `last` (or it).
    pub(crate) fn open_between(&self, first: usize, last: usize, chain: u32) -> (u32, u32) {
        let own = |task: usize| u32::from(self.place(task).0 == chain);
        let from = self.count_before(first, chain) + own(first);
        let behind = self.count_behind(last, chain) + own(last);
        let to = small(self.chains.members(chain).len()).saturating_sub(behind);
        (from, to.max(from))
    }

    /// What tasks share which have the same tasks before them, where many do: those behind one barrier.
    pub(crate) fn shared_before(&self, task: usize) -> Option<(u32, usize)> {
        let (upto, beyond, (chain, rank)) = (self.upto[task], &self.beyond[task], self.place(task));
        // Its own chain must not say more.
        let last = self.chains.last_before(task);
        let is_said = last.is_none_or(|last| last < upto || beyond.has(last, chain, rank - 1));
        // Whose order is not known has more before it than it says.
        (is_said && !self.unknown[task]).then(|| (upto, Arc::as_ptr(beyond).addr()))
    }

    /// How many of all tasks, from the first on, are before a task without a gap.
    pub(crate) fn all_before(&self, task: usize) -> usize {
        self.upto[task] as usize
    }

    /// Tasks that a task waits for directly, in order.
    pub(crate) fn direct(&self, task: usize) -> &[u32] {
        &self.direct[self.starts[task] as usize..self.starts[task + 1] as usize]
    }

    /// A position from which on all tasks are behind a task.
    pub(crate) fn all_behind(&self, task: usize) -> usize {
        let first = task + 1;
        first + self.least_upto[first..].partition_point(|&least| least as usize <= task)
    }

    fn look_back(&mut self) {
        self.least_upto = self.upto.clone();
        for task in (1..self.len()).rev() {
            self.least_upto[task - 1] = self.least_upto[task - 1].min(self.least_upto[task]);
        }
    }
}

/// Pairs as lists by their first number, each other number once: where each begins, and behind the last.
fn listed(count: usize, pairs: impl Iterator<Item = (u32, u32)>) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut starts = vec![0_u32; count + 1];
    pairs.iter().for_each(|&(at, _)| starts[at as usize + 1] += 1);
    (0..count).for_each(|at| starts[at + 1] += starts[at]);
    (starts, pairs.into_iter().map(|(_, other)| other).collect())
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("2^32 tasks do not fit in memory")
}
