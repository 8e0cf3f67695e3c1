//! The partial order of the tasks of a dump: the transitive closure of its edges, independent of times. The calls of a
//! thread come one after the other, so they are ordered too.
//!
//! Tasks are in dependency order, so the predecessors of a task are all tasks up to some position without a
//! gap, plus some later ones. The gapless part is a single number. For the later ones, tasks are spread over
//! chains, each totally ordered; the predecessors in a chain are its first tasks, up to one. They are stored
//! in whichever form is smaller: a count per chain, or a bit per task. So a single queue takes no list, a few
//! queues take a number each, and a thousand tasks between two barriers take only the position of the
//! barrier.
//!
//! Let there be `n` tasks, `e` edges, `c` chains, and windows of `w` tasks between the first task that is no
//! predecessor and the task itself. Then building the order takes at most `e * min(c, w / 64)` steps and `n *
//! min(c, w / 64)` words. Neighbors share their lists, and an edge that adds nothing takes one step. Steps
//! and words are limited. Beyond the limit, only the own chain and the gapless part of a task are known. Then
//! ordered tasks may count as unordered, never the reverse. [`Order::unknown_count`] counts the affected
//! tasks.

mod before;
mod chains;
mod edges;
#[cfg(test)]
mod tests;
mod threads;

use std::sync::Arc;

use tensortap_format::Tasks;

use crate::graph::TaskIndex;
pub(super) use before::OrderBudget;
use before::{OrderBuilder, SparsePredecessors};
use chains::Chains;

/// Limits for all lists together.
const ROOM: OrderBudget = OrderBudget { words: 1 << 25, steps: 1 << 30 };

/// The partial order of the tasks of a graph, by position.
#[derive(Clone, Debug, Default)]
pub struct Order {
    chains: Chains,
    /// By task: the number of tasks, from the first, that precede it without a gap.
    gapless_len: Vec<u32>,
    /// By task: its other predecessors, except for those in its own chain.
    beyond: Vec<Arc<SparsePredecessors>>,
    /// Where the direct predecessors of each task begin in `direct`, plus a final end.
    starts: Vec<u32>,
    direct: Vec<u32>,
    /// By task: the smallest `gapless_len` from that task on. All these tasks come after everything below it.
    least_gapless_len: Vec<u32>,
    /// By task: whether some of its predecessors may be missing.
    unknown: Vec<bool>,
}

impl Order {
    /// The order of tasks in dependency order. Edges against that order, which only damaged dumps have, are
    /// ignored.
    #[must_use]
    pub fn of(tasks: &Tasks) -> Order {
        Order::within(tasks, ROOM)
    }

    /// The same with other limits.
    pub(super) fn within(tasks: &Tasks, room: OrderBudget) -> Order {
        let (mut edges, cut) = edges::edges_between(tasks, &TaskIndex::of(tasks));
        edges.extend(threads::edges_of_threads(tasks));
        let queues: Vec<u32> = tasks.iter().map(|task| task.queue).collect();
        let mut order = Order::from_edges(&queues, edges, room);
        order.mark_incomplete(&cut);
        order
    }

    /// The same for tasks with these queues and edges between their positions.
    fn from_edges(queues: &[u32], edges: Vec<(u32, u32)>, room: OrderBudget) -> Order {
        let forward = edges.into_iter().filter(|(from, to)| from < to);
        let (starts, direct) = listed(queues.len(), forward.map(|(from, to)| (to, from)));
        let mut joiner = OrderBuilder::new(room);
        let mut order = Order { starts, direct, ..Order::default() };
        (0..queues.len()).for_each(|_| joiner.add(&mut order, queues));
        order.unknown = vec![false; queues.len()];
        order.mark_incomplete(joiner.unknown());
        order.fill_least_gapless_len();
        order
    }

    /// Marks tasks with missing predecessors, and all tasks after them.
    fn mark_incomplete(&mut self, tasks: &[u32]) {
        if tasks.is_empty() {
            return;
        }
        tasks.iter().for_each(|&task| self.unknown[task as usize] = true);
        for task in 0..self.len() {
            let follows_unknown = |&from: &u32| from >= self.gapless_len[task] && self.unknown[from as usize];
            self.unknown[task] = self.unknown[task] || self.direct(task).iter().any(follows_unknown);
        }
    }

    /// Number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gapless_len.len()
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gapless_len.is_empty()
    }

    /// Whether the order is total.
    #[must_use]
    pub fn is_total(&self) -> bool {
        self.chains.len() <= 1
    }

    /// Number of chains.
    #[must_use]
    pub fn chain_count(&self) -> usize {
        self.chains.len()
    }

    /// Number of tasks whose predecessors are not all known because the graph is too large and too wide. Such
    /// tasks may count as unordered with tasks that they are ordered with.
    #[must_use]
    pub fn unknown_count(&self) -> usize {
        self.unknown.iter().filter(|unknown| **unknown).count()
    }

    /// Whether some predecessors of a task may be missing.
    pub(crate) fn is_unknown(&self, task: usize) -> bool {
        self.unknown[task]
    }

    /// The chain of a task, and its rank there, from 1.
    pub(crate) fn place(&self, task: usize) -> (u32, u32) {
        self.chains.place(task)
    }

    /// Whether `first` was complete, including its captures, before anything of `second` was captured.
    #[must_use]
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        if first >= second {
            return false;
        }
        let (chain, rank) = self.place(first);
        (first as u64) < u64::from(self.gapless_len[second])
            || chain == self.place(second).0
            || self.beyond[second].has(small(first), chain, rank)
    }

    /// Whether nothing orders two different tasks.
    #[must_use]
    pub fn are_unordered(&self, one: usize, other: usize) -> bool {
        let (first, second) = (one.min(other), one.max(other));
        first != second && !self.is_before(first, second)
    }

    /// Number of tasks of a chain that precede a task: always the first ones.
    pub(crate) fn count_before(&self, task: usize, chain: u32) -> u32 {
        let (own, rank) = self.place(task);
        if own == chain {
            return rank - 1;
        }
        let members = self.chains.members(chain);
        let gapless = members.partition_point(|&member| member < self.gapless_len[task]);
        match &*self.beyond[task] {
            SparsePredecessors::Chains(list) => before::look_up(list, chain).max(small(gapless)),
            SparsePredecessors::Bits { .. } => {
                let rest = &members[gapless..];
                small(gapless + rest.partition_point(|&member| self.is_before(member as usize, task)))
            }
        }
    }

    /// Number of tasks of a chain that follow a task: always the last ones.
    pub(crate) fn count_after(&self, task: usize, chain: u32) -> u32 {
        let members = self.chains.members(chain);
        let (own, rank) = self.place(task);
        if own == chain {
            return small(members.len()) - rank;
        }
        // If a list is missing, the answer may be too small, like all answers here.
        let first = members.partition_point(|&member| !self.is_before(task, member as usize));
        small(members.len() - first)
    }

    /// The tasks of a chain that are unordered with a task: ranks after the first number, up to the second.
    pub(crate) fn unordered_in(&self, task: usize, chain: u32) -> (u32, u32) {
        if self.place(task).0 == chain {
            return (0, 0);
        }
        self.unordered_between(task, task, chain)
    }

    /// The tasks of a chain that are neither `first` or before it nor `last` or after it: ranks after the
    /// first number, up to the second.
    pub(crate) fn unordered_between(&self, first: usize, last: usize, chain: u32) -> (u32, u32) {
        let own = |task: usize| u32::from(self.place(task).0 == chain);
        let from = self.count_before(first, chain) + own(first);
        let after = self.count_after(last, chain) + own(last);
        let to = small(self.chains.members(chain).len()).saturating_sub(after);
        (from, to.max(from))
    }

    /// A key that is equal for tasks with the same predecessors, such as the tasks after one barrier. `None`
    /// if its own chain adds predecessors, or if its order is not fully known.
    pub(crate) fn predecessor_key(&self, task: usize) -> Option<(u32, usize)> {
        let (gapless_len, beyond, (chain, rank)) =
            (self.gapless_len[task], &self.beyond[task], self.place(task));
        // The own chain must not add predecessors.
        let last = self.chains.last_before(task);
        let is_implied = last.is_none_or(|last| last < gapless_len || beyond.has(last, chain, rank - 1));
        // A task with unknown order may have more predecessors than stored.
        (is_implied && !self.unknown[task]).then(|| (gapless_len, Arc::as_ptr(beyond).addr()))
    }

    /// Number of tasks, from the first, that precede a task without a gap.
    pub(crate) fn all_before(&self, task: usize) -> usize {
        self.gapless_len[task] as usize
    }

    /// The direct predecessors of a task, in order.
    pub(crate) fn direct(&self, task: usize) -> &[u32] {
        &self.direct[self.starts[task] as usize..self.starts[task + 1] as usize]
    }

    /// A position from which all tasks come after a task.
    pub(crate) fn all_after(&self, task: usize) -> usize {
        let first = task + 1;
        first + self.least_gapless_len[first..].partition_point(|&least| least as usize <= task)
    }

    fn fill_least_gapless_len(&mut self) {
        self.least_gapless_len = self.gapless_len.clone();
        for task in (1..self.len()).rev() {
            self.least_gapless_len[task - 1] =
                self.least_gapless_len[task - 1].min(self.least_gapless_len[task]);
        }
    }
}

/// Groups pairs by their first number and removes duplicates. Returns where each group begins, plus a final
/// end, and the second numbers.
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
