//! Pairs tasks by criteria, from strict to loose.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

use tensortap_format::{Task, TaskKey};
use tensortap_sync::parallel::both;

use super::Matching;
use super::reasons::{MatchSide, unmatched};
use super::signature::{ColorSum, MatchCriteria, hash_of};
use crate::graph::TaskGraph;

/// The pairs so far.
pub(super) struct Pairing<'g> {
    first: &'g TaskGraph,
    second: &'g TaskGraph,
    partner: Vec<Option<usize>>,
    /// By task: the number of its pair, which is the position of the pair's first task.
    pair_of_first: Vec<Option<usize>>,
    pair_of_second: Vec<Option<usize>>,
    threads: usize,
}

impl<'g> Pairing<'g> {
    /// `threads` is the maximum number of threads.
    pub fn new(first: &'g TaskGraph, second: &'g TaskGraph, threads: usize) -> Self {
        let (ours, theirs) = (first.len(), second.len());
        let (pair_of_first, pair_of_second) = (vec![None; ours], vec![None; theirs]);
        Pairing { first, second, partner: vec![None; ours], pair_of_first, pair_of_second, threads }
    }

    /// Whether one side has no unpaired task left.
    pub fn is_done(&self) -> bool {
        !self.pair_of_first.contains(&None) || !self.pair_of_second.contains(&None)
    }

    /// Pairs tasks that look alike in their surroundings, if exactly one task on each side does. With
    /// `several`, also pairs groups of equal size. Returns whether any pair was found.
    pub fn pair_alike(&mut self, traits: &MatchCriteria, several: bool) -> bool {
        if self.is_done() {
            return false;
        }
        let (colors, others) = self.both(
            || traits.colors(self.first, &self.pair_of_first),
            || traits.colors(self.second, &self.pair_of_second),
        );
        let mut found = false;
        for (ours, theirs) in self.classes(&colors, &others) {
            let one_to_one = ours.len() == 1 && theirs.len() == 1;
            if one_to_one || several && ours.len() == theirs.len() {
                self.pair_class(ours, theirs);
                found = true;
            }
        }
        found
    }

    /// Pairs tasks of the same queue that look alike by themselves and have the same position, counted from
    /// the beginning or from the end of the queue.
    pub fn pair_queues(&mut self, traits: &MatchCriteria) {
        let [ours, theirs] = self.local_colors(traits);
        let queues = |graph: &TaskGraph| {
            let mut queues: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
            let tasks = graph.tasks().iter().filter(|task| task.queue != 0);
            tasks.for_each(|task| queues.entry((task.step, task.queue)).or_default().push(task.place()));
            // By task number, which is the order of submission. The order of execution may differ.
            let number = |place: &usize| graph.task(*place).task_id;
            queues.values_mut().for_each(|places| places.sort_by_key(number));
            queues
        };
        let mut others = queues(self.second);
        for (queue, first) in queues(self.first) {
            let Some(second) = others.remove(&queue) else { continue };
            let alike = |(a, b): &(&usize, &usize)| ours[**a] == theirs[**b];
            let begin = first.iter().zip(&second).take_while(alike).count();
            let (rest, other_rest) = (&first[begin..], &second[begin..]);
            let end = rest.iter().rev().zip(other_rest.iter().rev()).take_while(alike).count();
            let begins = first[..begin].iter().zip(&second[..begin]);
            let ends = rest[rest.len() - end..].iter().zip(&other_rest[other_rest.len() - end..]);
            begins.chain(ends).for_each(|(&a, &b)| self.pair(a, b));
        }
    }

    /// Pairs tasks with equal scope and name that look alike by themselves, if both sides have equally many
    /// of them.
    pub fn pair_names(&mut self, traits: &MatchCriteria) {
        if self.is_done() {
            return;
        }
        let named = |graph: &TaskGraph, local: &[u64]| -> Vec<u64> {
            let tasks = graph.tasks().iter().zip(local);
            tasks.map(|(task, &local)| hash_of(&(name_of(task), local))).collect()
        };
        let [ours, theirs] = self.local_colors(traits);
        let (colors, others) = (named(self.first, &ours), named(self.second, &theirs));
        for (ours, theirs) in self.classes(&colors, &others) {
            if ours.len() == theirs.len() && name_of(self.first.task(ours[0])).is_some() {
                self.pair_class(ours, theirs);
            }
        }
    }

    /// Pairs tasks with equal ids that look alike by themselves.
    pub fn pair_identities(&mut self, traits: &MatchCriteria) {
        let theirs: HashMap<TaskKey, usize> =
            self.unpaired_second().map(|p| (self.second.task(p).key(), p)).collect();
        for ours in self.unpaired_first().collect::<Vec<_>>() {
            let task = self.first.task(ours);
            let local = |graph: &TaskGraph, place| traits.local(graph.tasks(), graph.task(place));
            if let Some(&other) = theirs.get(&task.key())
                && local(self.first, ours) == local(self.second, other)
            {
                self.pair(ours, other);
            }
        }
    }

    /// Pairs the remaining tasks that look alike by themselves, in order, as far as possible.
    pub fn pair_rest(&mut self, traits: &MatchCriteria) {
        if self.is_done() {
            return;
        }
        let [colors, others] = self.local_colors(traits);
        for (ours, theirs) in self.classes(&colors, &others) {
            self.pair_class(ours, theirs);
        }
    }

    /// The final pairs, with reasons for the tasks without a partner.
    pub fn finish(self, traits: &MatchCriteria) -> Matching {
        if self.pair_of_first.iter().chain(&self.pair_of_second).all(Option::is_some) {
            return Matching { partner: self.partner, ..Matching::default() };
        }
        let [ours, theirs] = self.local_colors(traits);
        let dump = MatchSide { graph: self.first, local_colors: ours, open: self.unpaired_first().collect() };
        let golden =
            MatchSide { graph: self.second, local_colors: theirs, open: self.unpaired_second().collect() };
        let [only_first, only_second] = unmatched(&dump, &golden);
        Matching { partner: self.partner, only_first, only_second }
    }

    fn local_colors(&self, traits: &MatchCriteria) -> [Vec<u64>; 2] {
        let of = |graph: &TaskGraph| graph.tasks().iter().map(|t| traits.local(graph.tasks(), t)).collect();
        self.both(|| of(self.first), || of(self.second)).into()
    }

    /// Computes a value for each graph, in parallel if several threads are allowed.
    fn both<R: Send>(&self, first: impl FnOnce() -> R + Send, second: impl FnOnce() -> R) -> (R, R) {
        both(self.threads, first, second)
    }

    /// The unpaired tasks of each color, ordered by their first task.
    fn classes(&self, colors: &[u64], others: &[u64]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut place_of: HashMap<u64, usize> = HashMap::new();
        let mut classes: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for ours in self.unpaired_first() {
            let place = *place_of.entry(colors[ours]).or_insert(ours);
            classes.entry(place).or_default().0.push(ours);
        }
        for theirs in self.unpaired_second() {
            if let Some(place) = place_of.get(&others[theirs]) {
                classes.entry(*place).or_default().1.push(theirs);
            }
        }
        classes.into_values().filter(|(_, theirs)| !theirs.is_empty()).collect()
    }

    /// Pairs the members of a class. Criteria, in this order: equal producers and contents, equal producers,
    /// equal contents, equal ids, position. Members with equal names are paired before all others.
    fn pair_class(&mut self, mut ours: Vec<usize>, mut theirs: Vec<usize>) {
        if ours.len() > 1 || theirs.len() > 1 {
            let (ours, theirs) = (&mut ours, &mut theirs);
            self.pair_by(ours, theirs, |g, t, p| Some((name_of(t)?, producing_pairs(g, t, p), contents(t))));
            self.pair_by(ours, theirs, |g, t, p| Some((name_of(t)?, producing_pairs(g, t, p))));
            self.pair_by(ours, theirs, |_, t, _| name_of(t));
            self.pair_by(ours, theirs, |g, t, p| Some((producing_pairs(g, t, p), contents(t))));
            self.pair_by(ours, theirs, |g, t, p| Some(producing_pairs(g, t, p)));
            self.pair_by(ours, theirs, |_, t, _| Some(contents(t)));
            self.pair_by(ours, theirs, |_, t, _| Some(t.key()));
        }
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            self.pair(ours, theirs);
        }
    }

    fn pair_by<K: Hash + Eq>(
        &mut self,
        ours: &mut Vec<usize>,
        theirs: &mut Vec<usize>,
        key: impl Fn(&TaskGraph, Task<'_>, &[Option<usize>]) -> Option<K>,
    ) {
        let mut waiting: HashMap<K, VecDeque<usize>> = HashMap::new();
        for &place in theirs.iter() {
            if let Some(key) = key(self.second, self.second.task(place), &self.pair_of_second) {
                waiting.entry(key).or_default().push_back(place);
            }
        }
        ours.retain(|&place| {
            let key = key(self.first, self.first.task(place), &self.pair_of_first);
            let found = key.and_then(|key| waiting.get_mut(&key)).and_then(VecDeque::pop_front);
            let Some(other) = found else { return true };
            self.pair(place, other);
            false
        });
        theirs.retain(|&place| self.pair_of_second[place].is_none());
    }

    fn pair(&mut self, ours: usize, theirs: usize) {
        self.partner[ours] = Some(theirs);
        self.pair_of_first[ours] = Some(ours);
        self.pair_of_second[theirs] = Some(ours);
    }

    fn unpaired_first(&self) -> impl Iterator<Item = usize> + use<'_, 'g> {
        (0..self.first.len()).filter(|&p| self.pair_of_first[p].is_none())
    }

    fn unpaired_second(&self) -> impl Iterator<Item = usize> + use<'_, 'g> {
        (0..self.second.len()).filter(|&p| self.pair_of_second[p].is_none())
    }
}

/// Hash of a task's scope and name; `None` if it has neither.
fn name_of(task: Task<'_>) -> Option<u64> {
    let name = (task.scope(), task.task_name());
    (name != (None, None)).then(|| hash_of(&name))
}

/// Summary of the pairs that produced the inputs of a task.
fn producing_pairs(graph: &TaskGraph, task: Task<'_>, pairs: &[Option<usize>]) -> ColorSum {
    let mut from = ColorSum::default();
    for arg in task.arguments() {
        for output in graph.producers_of(arg) {
            let pair = pairs[output.task].map_or(0, |pair| pair as u64 + 1);
            from.add(pair, arg.arg_index.into());
        }
    }
    from
}

/// Hashes of the inputs of a task.
fn contents(task: Task<'_>) -> Vec<Option<u128>> {
    task.inputs().map(|arg| arg.hash_before()).collect()
}
