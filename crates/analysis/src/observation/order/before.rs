//! What is before each task, found task by task from those that it waits for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::chains::Chains;
use super::{Order, small};

/// What is before a task beyond the gapless part, its own chain aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// Chains, in order, and how many of their tasks.
    Chains(Box<[(u32, u32)]>),
    /// Bits of tasks, from the word of this number on.
    Bits { first: u32, words: Box<[u64]> },
}

impl Beyond {
    fn nothing() -> Beyond {
        Beyond::Chains(Box::new([]))
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Beyond::Chains(list) => list.is_empty(),
            Beyond::Bits { words, .. } => words.is_empty(),
        }
    }

    /// Words that it takes.
    fn len(&self) -> usize {
        match self {
            Beyond::Chains(list) => list.len(),
            Beyond::Bits { words, .. } => words.len(),
        }
    }

    /// Whether it has a task, which has this place in this chain.
    pub fn has(&self, task: u32, chain: u32, rank: u32) -> bool {
        match self {
            Beyond::Chains(list) => look_up(list, chain) >= rank,
            Beyond::Bits { first, words } => {
                let word = (task / 64).checked_sub(*first).and_then(|at| words.get(at as usize));
                word.is_some_and(|word| word >> (task % 64) & 1 != 0)
            }
        }
    }
}

/// How many tasks of a chain a list has.
pub(super) fn look_up(list: &[(u32, u32)], chain: u32) -> u32 {
    list.binary_search_by_key(&chain, |entry| entry.0).map_or(0, |at| list[at].1)
}

/// What lists may hold and take.
#[derive(Clone, Copy, Debug)]
pub(in crate::observation) struct Room {
    /// Words of eight bytes.
    pub words: usize,
    /// Steps of finding them.
    pub steps: u64,
}

/// Tasks that are looked at, for one, to find a chain that it can go on with.
const MOST_ENDS: usize = 64;

/// Adds tasks to an order, one behind the other.
pub(super) struct Joiner {
    room: Room,
    nothing: Arc<Beyond>,
    /// What tasks that wait for one alone, and do not go on with its chain, have before them.
    behind: HashMap<u32, (u32, Arc<Beyond>)>,
    /// Those of which, with that, not all is known.
    cut: HashSet<u32>,
    /// By that one, where the search for an ended chain is to go on.
    passed: HashMap<u32, u32>,
    unknown: Vec<u32>,
    /// By chain, how many tasks of it are before the task that is being added.
    counts: Vec<u32>,
    /// Chains that have a count.
    counted: Vec<u32>,
    /// Bits of what is before it, from the word of this number on.
    bits: Vec<u64>,
    first: u32,
}

impl Joiner {
    pub fn new(room: Room) -> Joiner {
        Joiner {
            room,
            nothing: Arc::new(Beyond::nothing()),
            behind: HashMap::new(),
            cut: HashSet::new(),
            passed: HashMap::new(),
            unknown: Vec::new(),
            counts: Vec::new(),
            counted: Vec::new(),
            bits: Vec::new(),
            first: 0,
        }
    }

    /// Tasks for which there was no room.
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
        // What the last of them waited for says nothing new.
        let last = direct.last().copied().unwrap_or(0);
        let is_new = |&from: &u32| from == last || !order.is_before(from as usize, last as usize);
        let direct: &[u32] = &direct.iter().copied().filter(is_new).collect::<Vec<u32>>();
        let (upto, beyond) = match direct {
            [] => (0, Arc::clone(&self.nothing)),
            // Its own chain it knows by its place there.
            [from] if after == Some(*from) => (past(order, *from), Arc::clone(&order.beyond[*from as usize])),
            [from] => match self.behind.get(from) {
                Some(same) => {
                    let same = same.clone();
                    self.unknown.extend(self.cut.contains(from).then_some(task));
                    same
                }
                None => {
                    let joined = self.joined(order, direct, task, None);
                    if self.unknown.last() == Some(&task) {
                        self.cut.insert(*from);
                    }
                    self.behind.insert(*from, joined.clone());
                    joined
                }
            },
            _ => self.joined(order, direct, task, after),
        };
        let chain = after.map(|from| order.chains.place(from as usize).0);
        let chain = chain.or_else(|| order.chains.ended_before(upto));
        let chain = chain.or_else(|| self.ended_in(&order.chains, &beyond, direct));
        order.chains.push(chain);
        order.upto.push(upto);
        order.beyond.push(beyond);
    }

    /// A chain whose last task is among those beyond the gapless part.
    fn ended_in(&mut self, chains: &Chains, beyond: &Beyond, direct: &[u32]) -> Option<u32> {
        // A chain that went on without a list never ends with it again, so tasks that share one look on where others stopped.
        let mut alone = 0;
        let (passed, most) = match direct {
            [from] => (self.passed.entry(*from).or_default(), usize::MAX),
            _ => (&mut alone, MOST_ENDS),
        };
        let skip = *passed as usize;
        let mut is_end = |end: bool| {
            *passed += u32::from(!end);
            end
        };
        match beyond {
            Beyond::Chains(list) => {
                let mut rest = list.iter().skip(skip).take(most);
                let end = rest.find(|(chain, count)| is_end(chains.members(*chain).len() == *count as usize));
                end.map(|end| end.0)
            }
            // Those that came last, mostly.
            Beyond::Bits { first, words } => {
                let mut rest = last_of(*first, words).skip(skip).take(MOST_ENDS);
                let end = rest.find(|&task| is_end(chains.is_end(task)));
                end.map(|end| chains.place(end as usize).0)
            }
        }
    }

    /// What is before a task that waits for these, which goes on with the chain of one of them, or with none.
    fn joined(&mut self, order: &Order, direct: &[u32], task: u32, after: Option<u32>) -> (u32, Arc<Beyond>) {
        let upto = direct.iter().map(|&from| past(order, from)).max().unwrap_or(0);
        let words = (task / 64 - upto / 64) as usize + 1;
        let own = after.map(|from| order.chains.place(from as usize).0);
        let (upto, beyond) = match order.chains.len() <= words {
            _ if !self.spend(words.min(order.chains.len())) => (upto, Beyond::nothing()),
            true => self.joined_as_counts(order, direct, task, (upto, own)),
            false => self.joined_as_bits(order, direct, (upto, words)),
        };
        if self.room.steps == 0 {
            self.unknown.push(task);
            return (upto, Arc::clone(&self.nothing));
        }
        if beyond.is_empty() {
            return (upto, Arc::clone(&self.nothing));
        }
        // Waiting again for what was waited for adds nothing.
        let same = after.map(|from| &order.beyond[from as usize]).filter(|same| ***same == beyond);
        if let Some(same) = same {
            return (upto, Arc::clone(same));
        }
        match self.room.words.checked_sub(beyond.len()) {
            Some(rest) => {
                self.room.words = rest;
                (upto, Arc::new(beyond))
            }
            None => {
                self.unknown.push(task);
                (upto, Arc::clone(&self.nothing))
            }
        }
    }

    fn spend(&mut self, steps: usize) -> bool {
        let left = self.room.steps.checked_sub(steps as u64);
        self.room.steps = left.unwrap_or(0);
        left.is_some()
    }

    fn joined_as_counts(
        &mut self,
        order: &Order,
        direct: &[u32],
        task: u32,
        (mut upto, own): (u32, Option<u32>),
    ) -> (u32, Beyond) {
        let chains = &order.chains;
        self.counts.resize(chains.len(), 0);
        for &from in direct.iter().rev().take_while(|&&from| from >= upto) {
            let (chain, rank) = chains.place(from as usize);
            if self.counts[chain as usize] >= rank || !self.spend(order.beyond[from as usize].len() + 1) {
                continue;
            }
            self.count(chain, rank);
            match &*order.beyond[from as usize] {
                Beyond::Chains(list) => list.iter().for_each(|&(chain, count)| self.count(chain, count)),
                Beyond::Bits { first, words } => {
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
        while self.room.steps > 0 && upto < task && is_counted(upto) {
            (upto, self.room.steps) = (upto + 1, self.room.steps - 1);
        }
        let is_said =
            |chain: u32, count: u32| Some(chain) == own || chains.members(chain)[count as usize - 1] < upto;
        let mut list = Vec::with_capacity(self.counted.len());
        for chain in self.counted.drain(..) {
            let count = std::mem::take(&mut self.counts[chain as usize]);
            if !is_said(chain, count) {
                list.push((chain, count));
            }
        }
        list.sort_unstable();
        (upto, Beyond::Chains(list.into()))
    }

    fn count(&mut self, chain: u32, count: u32) {
        let counted = &mut self.counts[chain as usize];
        if *counted == 0 {
            self.counted.push(chain);
        }
        *counted = count.max(*counted);
    }

    fn joined_as_bits(
        &mut self,
        order: &Order,
        direct: &[u32],
        (upto, words): (u32, usize),
    ) -> (u32, Beyond) {
        let chains = &order.chains;
        self.first = upto / 64;
        self.bits.clear();
        self.bits.resize(words, 0);
        // What is before without a gap is before.
        self.bits[0] = (1_u64 << (upto % 64)) - 1;
        for &from in direct.iter().rev().take_while(|&&from| from >= upto) {
            if self.has(from) || !self.spend(order.beyond[from as usize].len() + 1) {
                continue;
            }
            let (chain, rank) = chains.place(from as usize);
            match &*order.beyond[from as usize] {
                Beyond::Chains(list) => {
                    list.iter().for_each(|&(chain, count)| self.set(chains.members(chain), count));
                }
                Beyond::Bits { first, words } => {
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
        let upto = (self.first + small(full)) * 64 + rest;
        let end = self.bits.iter().rposition(|&word| word != 0).map_or(0, |at| at + 1);
        let is_gapless = full + 1 == end && self.bits[full] == (1_u64 << rest) - 1;
        let words = if is_gapless || full >= end { &[] } else { &self.bits[full..end] };
        (upto, Beyond::Bits { first: self.first + small(full), words: words.into() })
    }

    fn has(&self, task: u32) -> bool {
        self.bits[(task / 64 - self.first) as usize] >> (task % 64) & 1 != 0
    }

    /// Sets the bits of the first tasks of a chain, the last first: where one is set, those before it are.
    fn set(&mut self, members: &[u32], count: u32) {
        for &task in members[..count as usize].iter().rev() {
            if task / 64 < self.first || self.has(task) {
                return;
            }
            self.bits[(task / 64 - self.first) as usize] |= 1 << (task % 64);
        }
    }
}

/// Up to where, without a gap, all is before a task that waits for this one.
fn past(order: &Order, from: u32) -> u32 {
    let upto = order.upto[from as usize];
    if upto == from { from + 1 } else { upto }
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
