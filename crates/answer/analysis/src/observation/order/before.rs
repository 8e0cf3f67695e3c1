//! Builds the predecessors of each task from those of its direct predecessors.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::chains::Chains;
use super::{Order, small};

/// The predecessors of a task after the gapless part, except for those in its own chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SparsePredecessors {
    /// Chains in order, with the number of preceding tasks of each.
    Chains(Box<[(u32, u32)]>),
    /// One bit per task, starting at word `first`.
    Bits { first: u32, words: Box<[u64]> },
}

impl SparsePredecessors {
    fn nothing() -> SparsePredecessors {
        SparsePredecessors::Chains(Box::new([]))
    }

    pub fn is_empty(&self) -> bool {
        match self {
            SparsePredecessors::Chains(list) => list.is_empty(),
            SparsePredecessors::Bits { words, .. } => words.is_empty(),
        }
    }

    /// Size in words.
    fn len(&self) -> usize {
        match self {
            SparsePredecessors::Chains(list) => list.len(),
            SparsePredecessors::Bits { words, .. } => words.len(),
        }
    }

    /// Whether a task with this chain and rank is included.
    pub fn has(&self, task: u32, chain: u32, rank: u32) -> bool {
        match self {
            SparsePredecessors::Chains(list) => look_up(list, chain) >= rank,
            SparsePredecessors::Bits { first, words } => {
                let word = (task / 64).checked_sub(*first).and_then(|at| words.get(at as usize));
                word.is_some_and(|word| word >> (task % 64) & 1 != 0)
            }
        }
    }
}

/// The number of tasks of a chain in a list.
pub(super) fn look_up(list: &[(u32, u32)], chain: u32) -> u32 {
    list.binary_search_by_key(&chain, |entry| entry.0).map_or(0, |at| list[at].1)
}

/// Limits for the lists of an order.
#[derive(Clone, Copy, Debug)]
pub(in crate::observation) struct OrderBudget {
    /// Size in words of eight bytes.
    pub words: usize,
    /// Steps to build the lists.
    pub steps: u64,
}

/// Limit on the tasks examined to find a chain that a task can continue.
const MAX_ENDS: usize = 64;

/// Adds tasks to an order, one after the other.
pub(super) struct OrderBuilder {
    room: OrderBudget,
    nothing: Arc<SparsePredecessors>,
    /// Predecessors of tasks with a single direct predecessor whose chain they do not continue.
    after_single: HashMap<u32, (u32, Arc<SparsePredecessors>)>,
    /// Keys of `after_single` with missing predecessors.
    incomplete: HashSet<u32>,
    /// By direct predecessor: where to resume the search for an ended chain.
    search_start: HashMap<u32, u32>,
    unknown: Vec<u32>,
    /// By chain: how many of its tasks precede the task being added.
    counts: Vec<u32>,
    /// Chains with a nonzero count.
    counted: Vec<u32>,
    /// Bits of the predecessors, starting at word `first`.
    bits: Vec<u64>,
    first: u32,
}

impl OrderBuilder {
    pub fn new(room: OrderBudget) -> OrderBuilder {
        OrderBuilder {
            room,
            nothing: Arc::new(SparsePredecessors::nothing()),
            after_single: HashMap::new(),
            incomplete: HashSet::new(),
            search_start: HashMap::new(),
            unknown: Vec::new(),
            counts: Vec::new(),
            counted: Vec::new(),
            bits: Vec::new(),
            first: 0,
        }
    }

    /// Tasks whose predecessors did not fit the limits.
    pub fn unknown(&self) -> &[u32] {
        &self.unknown
    }

    /// Adds the next task.
    pub fn add(&mut self, order: &mut Order, queues: &[u32]) {
        let task = small(order.len());
        let direct = order.direct(task as usize);
        let queue = queues[task as usize];
        let ends = || direct.iter().rev().copied().filter(|&from| order.chains.is_end(from));
        let after = ends().find(|&from| queues[from as usize] == queue).or_else(|| ends().next());
        // A predecessor of the last direct predecessor adds nothing.
        let last = direct.last().copied().unwrap_or(0);
        let is_new = |&from: &u32| from == last || !order.is_before(from as usize, last as usize);
        let direct: &[u32] = &direct.iter().copied().filter(is_new).collect::<Vec<u32>>();
        let (gapless_len, beyond) = match direct {
            [] => (0, Arc::clone(&self.nothing)),
            // The task's own chain is implied by its rank.
            [from] if after == Some(*from) => {
                (gapless_after(order, *from), Arc::clone(&order.beyond[*from as usize]))
            }
            [from] => match self.after_single.get(from) {
                Some(same) => {
                    let same = same.clone();
                    self.unknown.extend(self.incomplete.contains(from).then_some(task));
                    same
                }
                None => {
                    let merged = self.merged(order, direct, task, None);
                    if self.unknown.last() == Some(&task) {
                        self.incomplete.insert(*from);
                    }
                    self.after_single.insert(*from, merged.clone());
                    merged
                }
            },
            _ => self.merged(order, direct, task, after),
        };
        let chain = after.map(|from| order.chains.place(from as usize).0);
        let chain = chain.or_else(|| order.chains.ended_before(gapless_len));
        let chain = chain.or_else(|| self.ended_in(&order.chains, &beyond, direct));
        order.chains.push(chain);
        order.gapless_len.push(gapless_len);
        order.beyond.push(beyond);
    }

    /// A chain whose last task is among the predecessors after the gapless part.
    fn ended_in(&mut self, chains: &Chains, beyond: &SparsePredecessors, direct: &[u32]) -> Option<u32> {
        // A continued chain never ends inside the same list again, so the search resumes where it stopped.
        let mut unshared = 0;
        let (passed, most) = match direct {
            [from] => (self.search_start.entry(*from).or_default(), usize::MAX),
            _ => (&mut unshared, MAX_ENDS),
        };
        let skip = *passed as usize;
        let mut is_end = |end: bool| {
            *passed += u32::from(!end);
            end
        };
        match beyond {
            SparsePredecessors::Chains(list) => {
                let mut rest = list.iter().skip(skip).take(most);
                let end = rest.find(|(chain, count)| is_end(chains.members(*chain).len() == *count as usize));
                end.map(|end| end.0)
            }
            // The latest tasks are the most likely chain ends.
            SparsePredecessors::Bits { first, words } => {
                let mut rest = last_of(*first, words).skip(skip).take(MAX_ENDS);
                let end = rest.find(|&task| is_end(chains.is_end(task)));
                end.map(|end| chains.place(end as usize).0)
            }
        }
    }

    /// The predecessors of a task from its direct ones. `after` is the task whose chain it continues, if any.
    fn merged(
        &mut self,
        order: &Order,
        direct: &[u32],
        task: u32,
        after: Option<u32>,
    ) -> (u32, Arc<SparsePredecessors>) {
        let gapless_len = direct.iter().map(|&from| gapless_after(order, from)).max().unwrap_or(0);
        let words = (task / 64 - gapless_len / 64) as usize + 1;
        let own = after.map(|from| order.chains.place(from as usize).0);
        let (gapless_len, beyond) = match order.chains.len() <= words {
            _ if !self.spend(words.min(order.chains.len())) => (gapless_len, SparsePredecessors::nothing()),
            true => self.merged_as_counts(order, direct, task, (gapless_len, own)),
            false => self.merged_as_bits(order, direct, (gapless_len, words)),
        };
        if self.room.steps == 0 {
            self.unknown.push(task);
            return (gapless_len, Arc::clone(&self.nothing));
        }
        if beyond.is_empty() {
            return (gapless_len, Arc::clone(&self.nothing));
        }
        // Reuse the list if nothing was added.
        let same = after.map(|from| &order.beyond[from as usize]).filter(|same| ***same == beyond);
        if let Some(same) = same {
            return (gapless_len, Arc::clone(same));
        }
        match self.room.words.checked_sub(beyond.len()) {
            Some(rest) => {
                self.room.words = rest;
                (gapless_len, Arc::new(beyond))
            }
            None => {
                self.unknown.push(task);
                (gapless_len, Arc::clone(&self.nothing))
            }
        }
    }

    fn spend(&mut self, steps: usize) -> bool {
        let left = self.room.steps.checked_sub(steps as u64);
        self.room.steps = left.unwrap_or(0);
        left.is_some()
    }

    fn merged_as_counts(
        &mut self,
        order: &Order,
        direct: &[u32],
        task: u32,
        (mut gapless_len, own): (u32, Option<u32>),
    ) -> (u32, SparsePredecessors) {
        let chains = &order.chains;
        self.counts.resize(chains.len(), 0);
        for &from in direct.iter().rev().take_while(|&&from| from >= gapless_len) {
            let (chain, rank) = chains.place(from as usize);
            if self.counts[chain as usize] >= rank || !self.spend(order.beyond[from as usize].len() + 1) {
                continue;
            }
            self.count(chain, rank);
            match &*order.beyond[from as usize] {
                SparsePredecessors::Chains(list) => {
                    list.iter().for_each(|&(chain, count)| self.count(chain, count))
                }
                SparsePredecessors::Bits { first, words } => {
                    for task in tasks_of(*first, words) {
                        let (chain, rank) = chains.place(task as usize);
                        self.count(chain, rank);
                    }
                }
            }
        }
        let is_counted = |task: u32| {
            let (chain, rank) = chains.place(task as usize);
            self.counts[chain as usize] >= rank
        };
        while self.room.steps > 0 && gapless_len < task && is_counted(gapless_len) {
            (gapless_len, self.room.steps) = (gapless_len + 1, self.room.steps - 1);
        }
        let is_implied = |chain: u32, count: u32| {
            Some(chain) == own || chains.members(chain)[count as usize - 1] < gapless_len
        };
        let mut list = Vec::with_capacity(self.counted.len());
        for chain in self.counted.drain(..) {
            let count = std::mem::take(&mut self.counts[chain as usize]);
            if !is_implied(chain, count) {
                list.push((chain, count));
            }
        }
        list.sort_unstable();
        (gapless_len, SparsePredecessors::Chains(list.into()))
    }

    fn count(&mut self, chain: u32, count: u32) {
        let counted = &mut self.counts[chain as usize];
        if *counted == 0 {
            self.counted.push(chain);
        }
        *counted = count.max(*counted);
    }

    fn merged_as_bits(
        &mut self,
        order: &Order,
        direct: &[u32],
        (gapless_len, words): (u32, usize),
    ) -> (u32, SparsePredecessors) {
        let chains = &order.chains;
        self.first = gapless_len / 64;
        self.bits.clear();
        self.bits.resize(words, 0);
        // The gapless part precedes the task.
        self.bits[0] = (1_u64 << (gapless_len % 64)) - 1;
        for &from in direct.iter().rev().take_while(|&&from| from >= gapless_len) {
            if self.has(from) || !self.spend(order.beyond[from as usize].len() + 1) {
                continue;
            }
            let (chain, rank) = chains.place(from as usize);
            match &*order.beyond[from as usize] {
                SparsePredecessors::Chains(list) => {
                    list.iter().for_each(|&(chain, count)| self.set(chains.members(chain), count));
                }
                SparsePredecessors::Bits { first, words } => {
                    let skipped = self.first.saturating_sub(*first) as usize;
                    let at = first.saturating_sub(self.first) as usize;
                    let theirs = words.iter().skip(skipped);
                    self.bits.iter_mut().skip(at).zip(theirs).for_each(|(own, theirs)| *own |= theirs);
                }
            }
            self.set(chains.members(chain), rank);
        }
        let full = self.bits.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.bits.get(full).map_or(0, |word| word.trailing_ones());
        let gapless_len = (self.first + small(full)) * 64 + rest;
        let end = self.bits.iter().rposition(|&word| word != 0).map_or(0, |at| at + 1);
        let is_gapless = full + 1 == end && self.bits[full] == (1_u64 << rest) - 1;
        let words = if is_gapless || full >= end { &[] } else { &self.bits[full..end] };
        (gapless_len, SparsePredecessors::Bits { first: self.first + small(full), words: words.into() })
    }

    fn has(&self, task: u32) -> bool {
        self.bits[(task / 64 - self.first) as usize] >> (task % 64) & 1 != 0
    }

    /// Sets the bits of the first `count` tasks of a chain, the last first. If a bit is already set, so are
    /// all before it.
    fn set(&mut self, members: &[u32], count: u32) {
        for &task in members[..count as usize].iter().rev() {
            if task / 64 < self.first || self.has(task) {
                return;
            }
            self.bits[(task / 64 - self.first) as usize] |= 1 << (task % 64);
        }
    }
}

/// Length of the gapless part of a task with this direct predecessor.
fn gapless_after(order: &Order, from: u32) -> u32 {
    let gapless_len = order.gapless_len[from as usize];
    if gapless_len == from { from + 1 } else { gapless_len }
}

/// The tasks whose bits are set.
fn tasks_of(first: u32, words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    (first..).zip(words).flat_map(|(number, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(number * 64 + bit)
        })
    })
}

/// The same, the last first.
fn last_of(first: u32, words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    (first..first + small(words.len())).zip(words).rev().flat_map(|(number, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| 63 - left.leading_zeros())?;
            left ^= 1 << bit;
            Some(number * 64 + bit)
        })
    })
}
