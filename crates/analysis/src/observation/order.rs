//! Which tasks of a dump are ordered: the transitive closure of its edges, whatever the times say.
//!
//! Tasks are spread over chains, each totally ordered. A task knows, of every chain, up to where it is before it; so whether one task
//! is before another is one look into a short list. Neighbours share their lists: a program with one queue has a single chain and no
//! list at all, and one that forks and joins has a list for each join.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tensortap_format::{TaskKey, Tasks};

use crate::graph::Places;

/// Entries of all lists together; a dump that would need more is answered by walking along its edges.
const MAX_ENTRIES: usize = 1 << 25;

/// Tasks that are looked at, for each, to see how far all are before it: less is said of those that are far behind others.
const MAX_STEPS: u32 = 10_000;

/// Up to where chains are before a task: chain and how many of its tasks, by chain.
type Clock = Arc<[(u32, u32)]>;

/// The order of the tasks of a graph, by their positions.
#[derive(Clone, Debug, Default)]
pub struct Order {
    chain: Vec<u32>,
    /// Place in its chain, from 1.
    rank: Vec<u32>,
    /// The tasks of each chain, in order.
    chains: Vec<Vec<u32>>,
    /// By task; `None` where there was no room.
    before: Vec<Option<Clock>>,
    /// The same backwards: ranks counted from the end of a chain.
    behind: Vec<Option<Clock>>,
    /// By task, how many of all tasks, from the first on, are before it without a gap.
    all_before: Vec<u32>,
    /// Where the tasks directly before each begin in `direct`, and behind the last.
    starts: Vec<u32>,
    direct: Vec<u32>,
}

impl Order {
    /// The order of tasks that stand in dependency order. Edges against that order, which only damage can make, do not count.
    #[must_use]
    pub fn of(tasks: &Tasks) -> Order {
        let edges = edges_between(tasks, &Places::of(tasks));
        let queues: Vec<u32> = tasks.iter().map(|task| task.queue).collect();
        Order::among(&queues, &edges, MAX_ENTRIES)
    }

    /// The same of tasks with these queues, and of edges between their positions.
    fn among(queues: &[u32], edges: &[(u32, u32)], most: usize) -> Order {
        let forward: Vec<(u32, u32)> = edges.iter().copied().filter(|(from, to)| from < to).collect();
        let (starts, direct) = listed(queues.len(), forward.iter().map(|&(from, to)| (to, from)));
        let (next_starts, next) = listed(queues.len(), forward.iter().copied());
        let mut order = Order { starts, direct, ..Order::default() };
        let mut room = most;
        order.spread(queues, &mut room);
        order.look_back(&next_starts, &next, &mut room);
        order.count_all_before();
        order
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
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

    /// The chain of a task, and its place there, from 1.
    pub(crate) fn place(&self, task: usize) -> (u32, u32) {
        (self.chain[task], self.rank[task])
    }

    /// Whether a task was complete, its captures too, before anything of another was captured.
    #[must_use]
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        let has_list = || self.before[second].is_some() || self.chain[first] == self.chain[second];
        first < second
            && match has_list() {
                true => self.count_before(second, self.chain[first]) >= self.rank[first],
                false => self.is_reached(small(first), small(second)),
            }
    }

    /// Whether nothing orders two different tasks.
    #[must_use]
    pub fn are_unordered(&self, one: usize, other: usize) -> bool {
        let (first, second) = (one.min(other), one.max(other));
        first != second && !self.is_before(first, second)
    }

    /// How many tasks of a chain are before a task: the first of it.
    pub(crate) fn count_before(&self, task: usize, chain: u32) -> u32 {
        if self.chain[task] == chain {
            return self.rank[task] - 1;
        }
        match &self.before[task] {
            Some(clock) => look_up(clock, chain),
            None => {
                let members = &self.chains[chain as usize];
                let count = members.partition_point(|&member| self.is_reached(member, small(task)));
                small(count)
            }
        }
    }

    /// How many tasks of a chain are behind a task: the last of it.
    pub(crate) fn count_behind(&self, task: usize, chain: u32) -> u32 {
        let members = &self.chains[chain as usize];
        if self.chain[task] == chain {
            return small(members.len()) - self.rank[task];
        }
        match &self.behind[task] {
            Some(clock) => look_up(clock, chain),
            None => {
                let first = members.partition_point(|&member| !self.is_before(task, member as usize));
                small(members.len() - first)
            }
        }
    }

    /// Places in a chain, from 1, of the tasks that nothing orders with a task: behind the first, up to the second.
    pub(crate) fn unordered_in(&self, task: usize, chain: u32) -> (u32, u32) {
        if self.chain[task] == chain {
            return (0, 0);
        }
        self.open_between(task, task, chain)
    }

    /// Places in a chain, from 1, of the tasks that are neither before `first` (or it) nor behind `last` (or it).
    pub(crate) fn open_between(&self, first: usize, last: usize, chain: u32) -> (u32, u32) {
        let own = |task: usize| u32::from(self.chain[task] == chain);
        let from = self.count_before(first, chain) + own(first);
        let behind = self.count_behind(last, chain) + own(last);
        let to = small(self.chains[chain as usize].len()).saturating_sub(behind);
        (from, to.max(from))
    }

    /// A number that tasks share which have the same tasks before them, where many do: those behind one barrier.
    pub(crate) fn shared_before(&self, task: usize) -> Option<usize> {
        let clock = self.before[task].as_ref()?;
        let (chain, rank) = self.place(task);
        (look_up(clock, chain) == rank - 1).then(|| clock.as_ptr().addr())
    }

    /// How many of all tasks, from the first on, are before a task without a gap.
    pub(crate) fn all_before(&self, task: usize) -> usize {
        self.all_before[task] as usize
    }

    /// Chains that have tasks before a task, its own too; `None` where that takes a walk.
    pub(crate) fn chains_before(&self, task: usize) -> Option<impl Iterator<Item = u32> + '_> {
        let clock = self.before[task].as_ref()?;
        let own = self.chain[task];
        let others = clock.iter().map(|entry| entry.0).filter(move |&chain| chain != own);
        Some(others.chain([own]))
    }

    /// How many there are of them, at most.
    pub(crate) fn chains_before_count(&self, task: usize) -> usize {
        self.before[task].as_ref().map_or(usize::MAX, |clock| clock.len() + 1)
    }

    fn count_all_before(&mut self) {
        self.all_before = Vec::with_capacity(self.len());
        for task in 0..self.len() {
            // Whatever is before a task that it waits for is before it, too.
            let mut count =
                self.direct(task).iter().map(|&from| self.all_before[from as usize]).max().unwrap_or(0);
            let most = count.saturating_add(MAX_STEPS);
            while count < most && (count as usize) < task && self.is_before(count as usize, task) {
                count += 1;
            }
            self.all_before.push(count);
        }
    }

    /// Tasks that a task waits for directly.
    fn direct(&self, task: usize) -> &[u32] {
        &self.direct[self.starts[task] as usize..self.starts[task + 1] as usize]
    }

    /// Gives each task a chain: that of a task directly before it, best of its own queue, else any whose last task is before it, else
    /// a new one.
    fn spread(&mut self, queues: &[u32], room: &mut usize) {
        let nothing: Clock = Arc::new([]);
        // What all tasks that directly follow one alone have before them.
        let mut with: Vec<Option<Clock>> = vec![None; queues.len()];
        // Entries of a list whose chains went on without it: they never end with it again.
        let mut passed: Vec<usize> = vec![0; queues.len()];
        for task in 0..queues.len() {
            let direct = self.direct(task).to_vec();
            let is_last = |&from: &u32| self.chains[self.chain[from as usize] as usize].last() == Some(&from);
            let same_queue = |&from: &u32| queues[from as usize] == queues[task];
            let lasts = || direct.iter().copied().filter(is_last);
            let after = lasts().find(same_queue).or_else(|| lasts().next());
            let clock = match direct.as_slice() {
                [] => Some(Arc::clone(&nothing)),
                // Its own chain it knows by its place there.
                [from] if after == Some(*from) => self.before[*from as usize].clone(),
                [from] => {
                    let from = *from as usize;
                    if with[from].is_none() {
                        with[from] = self.joined(&[small(from)], None, room);
                    }
                    with[from].clone()
                }
                _ => self.joined(&direct, after.map(|from| self.chain[from as usize]), room),
            };
            let shared = if let [from] = direct[..] { from as usize } else { task };
            let free = || {
                let clock = clock.as_ref()?;
                let ended =
                    |&(chain, count): &(u32, u32)| self.chains[chain as usize].len() == count as usize;
                let at = clock.iter().skip(passed[shared]).position(ended)? + passed[shared];
                Some((at, clock[at].0))
            };
            let chain = match after {
                Some(from) => self.chain[from as usize],
                None => match free() {
                    Some((at, chain)) => {
                        passed[shared] = at;
                        chain
                    }
                    None => {
                        passed[shared] = clock.as_ref().map_or(0, |clock| clock.len());
                        self.chains.push(Vec::new());
                        small(self.chains.len() - 1)
                    }
                },
            };
            let members = &mut self.chains[chain as usize];
            members.push(small(task));
            self.chain.push(chain);
            self.rank.push(small(members.len()));
            self.before.push(clock);
        }
    }

    /// What is before a task that waits for these, which stand in chains of their own: their lists and they themselves, without the
    /// chain that it goes on with. `None` when there is no room for it.
    fn joined(&self, from: &[u32], own: Option<u32>, room: &mut usize) -> Option<Clock> {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for &task in from {
            let task = task as usize;
            all = merged(&all, self.before[task].as_ref()?);
            all = merged(&all, &[(self.chain[task], self.rank[task])]);
        }
        all.retain(|(chain, _)| Some(*chain) != own);
        if let Some(same) = own.and_then(|chain| self.last_with(chain, from, &all)) {
            return Some(same);
        }
        *room = room.checked_sub(all.len())?;
        Some(all.into())
    }

    /// The list of the task that a chain goes on from, where that is the same: waiting again for what was waited for adds nothing.
    fn last_with(&self, chain: u32, from: &[u32], all: &[(u32, u32)]) -> Option<Clock> {
        let last = from.iter().find(|&&task| self.chain[task as usize] == chain)?;
        self.before[*last as usize].clone().filter(|clock| clock[..] == *all)
    }

    /// Finds what is behind each task, by what is directly behind it.
    fn look_back(&mut self, starts: &[u32], next: &[u32], room: &mut usize) {
        let nothing: Clock = Arc::new([]);
        self.behind = vec![None; self.len()];
        let mut with: Vec<Option<Clock>> = vec![None; self.len()];
        for task in (0..self.len()).rev() {
            let next = &next[starts[task] as usize..starts[task + 1] as usize];
            let own = self.chain[task];
            self.behind[task] = match next {
                [] => Some(Arc::clone(&nothing)),
                [to] if self.chain[*to as usize] == own => self.behind[*to as usize].clone(),
                [to] if with[*to as usize].is_some() => with[*to as usize].clone(),
                _ => self.joined_behind(next, own, room),
            };
            if let [to] = next
                && self.chain[*to as usize] != own
            {
                with[*to as usize] = self.behind[task].clone();
            }
        }
    }

    /// What is behind a task that these wait for: their lists and they themselves. `None` when there is no room for it.
    fn joined_behind(&self, next: &[u32], own: u32, room: &mut usize) -> Option<Clock> {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for &to in next {
            let (chain, rank) = self.place(to as usize);
            let from_end = small(self.chains[chain as usize].len()) - rank + 1;
            all = merged(&all, self.behind[to as usize].as_ref()?);
            all = merged(&all, &[(chain, from_end)]);
        }
        if next.len() > 1 {
            all.retain(|(chain, _)| *chain != own);
        }
        let goes_on = next.iter().find(|&&to| self.chain[to as usize] == own);
        let shared = goes_on.and_then(|&to| self.behind[to as usize].clone());
        if let Some(shared) = shared.filter(|shared| shared[..] == *all) {
            return Some(shared);
        }
        *room = room.checked_sub(all.len())?;
        Some(all.into())
    }

    /// Whether edges lead from one task to another: by walking back, for those that have no list.
    fn is_reached(&self, first: u32, second: u32) -> bool {
        let mut open = vec![second];
        let mut seen: HashSet<u32> = HashSet::new();
        while let Some(task) = open.pop() {
            let is_known = self.before[task as usize].is_some()
                || self.chain[task as usize] == self.chain[first as usize];
            if task != second && is_known {
                if task == first || self.is_before(first as usize, task as usize) {
                    return true;
                }
                continue;
            }
            for &from in self.direct(task as usize).iter().filter(|&&from| from >= first) {
                if from == first {
                    return true;
                }
                if seen.insert(from) {
                    open.push(from);
                }
            }
        }
        false
    }
}

fn look_up(clock: &[(u32, u32)], chain: u32) -> u32 {
    clock.binary_search_by_key(&chain, |entry| entry.0).map_or(0, |at| clock[at].1)
}

/// Both lists, of each chain the larger count.
fn merged(one: &[(u32, u32)], other: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if a.0 == b.0 => {
                let both = (a.0, a.1.max(b.1));
                one.next();
                other.next();
                Some(both)
            }
            (Some(a), Some(b)) if b.0 < a.0 => other.next(),
            (Some(_), _) => one.next(),
            (None, _) => other.next(),
        };
        match next {
            Some(entry) => all.push(entry),
            None => return all,
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

/// Edges between positions of tasks. Who is not in the dump, for a filter kept it out, hands on what it waited for.
fn edges_between(tasks: &Tasks, places: &Places) -> Vec<(u32, u32)> {
    let mut edges = Vec::with_capacity(tasks.edges().len());
    let mut before: HashMap<TaskKey, Vec<TaskKey>> = HashMap::new();
    for edge in tasks.edges() {
        match (places.get(edge.producer()), places.get(edge.consumer())) {
            (Some(from), Some(to)) => edges.push((small(from), small(to))),
            (_, None) => before.entry(edge.consumer()).or_default().push(edge.producer()),
            (None, Some(_)) => {}
        }
    }
    if before.is_empty() {
        return edges;
    }
    let mut known: HashMap<TaskKey, Vec<u32>> = HashMap::new();
    for edge in tasks.edges() {
        if let (None, Some(to)) = (places.get(edge.producer()), places.get(edge.consumer())) {
            let behind = handed_on(edge.producer(), &before, places, &mut known);
            edges.extend(behind.iter().map(|&from| (from, small(to))));
        }
    }
    edges
}

/// As many tasks stand for one that is not in the dump; with more, some order is not known.
const MOST_HANDED_ON: usize = 64;

/// The tasks of the dump that one stands behind which is not in it.
fn handed_on<'k>(
    key: TaskKey,
    before: &HashMap<TaskKey, Vec<TaskKey>>,
    places: &Places,
    known: &'k mut HashMap<TaskKey, Vec<u32>>,
) -> &'k [u32] {
    // Depth first, each when all before it are known; edges in a circle, which only damage can make, end where they began.
    let mut open = vec![key];
    let mut entered: HashSet<TaskKey> = HashSet::new();
    while let Some(&next) = open.last() {
        let waits = before.get(&next).map_or(&[][..], Vec::as_slice);
        let is_missing = |wait: &&TaskKey| places.get(**wait).is_none() && !known.contains_key(*wait);
        let missing: Vec<TaskKey> = waits.iter().filter(is_missing).copied().collect();
        if entered.insert(next) && !missing.is_empty() {
            open.extend(missing.into_iter().filter(|wait| !entered.contains(wait)));
            continue;
        }
        open.pop();
        let mut all: Vec<u32> = Vec::new();
        for wait in waits {
            match places.get(*wait) {
                Some(place) => all.push(small(place)),
                None => all.extend(known.get(wait).into_iter().flatten()),
            }
        }
        all.sort_unstable();
        all.dedup();
        // The latest stand for most of the others.
        let first = all.len().saturating_sub(MOST_HANDED_ON);
        known.insert(next, all.split_off(first));
    }
    known.get(&key).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn closure(tasks: usize, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
        let mut reach = vec![vec![false; tasks]; tasks];
        edges.iter().for_each(|&(from, to)| reach[from as usize][to as usize] = from < to);
        for through in 0..tasks {
            for from in 0..tasks {
                for to in 0..tasks {
                    reach[from][to] |= reach[from][through] && reach[through][to];
                }
            }
        }
        reach
    }

    fn check(queues: &[u32], edges: &[(u32, u32)], most: usize) {
        let (order, reach) = (Order::among(queues, edges, most), closure(queues.len(), edges));
        for from in 0..queues.len() {
            for to in 0..queues.len() {
                assert_eq!(order.is_before(from, to), reach[from][to], "{from} before {to}: {edges:?}");
                let apart = from != to && !reach[from][to] && !reach[to][from];
                assert_eq!(order.are_unordered(from, to), apart, "{from} and {to}: {edges:?}");
                let (chain, rank) = order.place(to);
                let (open, end) = order.unordered_in(from, chain);
                assert_eq!(open < rank && rank <= end, apart, "{from} and {to} by chain: {edges:?}");
                if reach[from][to] {
                    let others = (0..queues.len()).filter(|&x| x != from && x != to);
                    for other in others {
                        let (chain, rank) = order.place(other);
                        let (open, end) = order.open_between(from, to, chain);
                        let is_open = !reach[other][from] && !reach[to][other];
                        assert_eq!(open < rank && rank <= end, is_open, "{other} between {from} and {to}");
                    }
                }
            }
        }
        for (chain, members) in order.chains.iter().enumerate() {
            assert!(members.windows(2).all(|pair| reach[pair[0] as usize][pair[1] as usize]));
            assert!(members.iter().all(|&task| order.chain[task as usize] as usize == chain));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn tasks_are_ordered_as_the_closure_of_edges_says(
            queues in proptest::collection::vec(0_u32..4, 1..24),
            pairs in proptest::collection::vec((0_u32..24, 0_u32..24), 0..40),
            in_order in any::<bool>(),
            most in prop_oneof![Just(0_usize), 1_usize..40, Just(MAX_ENTRIES)],
        ) {
            let tasks = small(queues.len());
            let mut edges: Vec<(u32, u32)> =
                pairs.into_iter().map(|(a, b)| (a % tasks, b % tasks)).collect();
            if in_order {
                for queue in 0..4 {
                    let of: Vec<u32> = (0..tasks).filter(|&t| queues[t as usize] == queue).collect();
                    edges.extend(of.windows(2).map(|pair| (pair[0], pair[1])));
                }
            }
            check(&queues, &edges, most);
        }
    }

    #[test]
    fn one_queue_is_one_chain_and_needs_no_list() {
        let edges: Vec<(u32, u32)> = (1..1000).map(|task| (task - 1, task)).collect();
        let order = Order::among(&[7; 1000], &edges, 0);
        assert!(order.is_total() && order.is_before(0, 999) && !order.is_before(5, 5));
    }

    #[test]
    fn forks_and_joins_take_as_many_chains_as_run_at_once() {
        // Fifty times: a barrier, eight tasks behind it, the next barrier behind them.
        let mut edges = Vec::new();
        for round in 0..50 {
            let barrier = round * 9;
            for task in barrier + 1..barrier + 9 {
                edges.extend([(barrier, task), (task, barrier + 9)]);
            }
        }
        let order = Order::among(&[0; 451], &edges, MAX_ENTRIES);
        assert_eq!(order.chain_count(), 8);
        assert!(order.are_unordered(3, 4) && order.is_before(3, 10));
    }
}
