//! Pairs tasks by criteria, from strict to loose.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;

use tensortap_format::Task;
use tensortap_sync::parallel::both;

use super::align::{self, MAX_CELLS};
use super::classes::kernels_of;
use super::ids::{TrustedIds, namesake};
use super::lanes::LanePair;
use super::reasons::{MatchSide, unmatched};
use super::signature::{ColorSum, MatchCriteria, certain_arguments, certain_producers, hash_of};
use super::{Matching, may_be_reordered, stretches};
use crate::graph::TaskGraph;
use crate::steps::Budget;

/// The unpaired tasks of both graphs that look alike.
pub(super) type Class = (Vec<usize>, Vec<usize>);

/// What is known about the completeness of the two dumps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completeness {
    /// Whether neither dump lacks writes. Only then is an input without a producer an external input.
    pub is_whole: bool,
    /// Whether each dump lacks tasks.
    pub lacks_tasks: [bool; 2],
}

/// The pairs so far.
pub(super) struct Pairing<'g> {
    pub(super) first: &'g TaskGraph,
    pub(super) second: &'g TaskGraph,
    pub(super) partner: Vec<Option<usize>>,
    /// By task: the number of its pair, which is the position of the pair's first task.
    pub(super) pair_of_first: Vec<Option<usize>>,
    pub(super) pair_of_second: Vec<Option<usize>>,
    /// By pair: why another pair fits as well.
    pub(super) uncertain: HashMap<usize, String>,
    pub(super) complete: Completeness,
    /// See [`Matching::identified`].
    pub(super) identified: HashSet<usize>,
    /// By position: tasks of the first graph that no other task of either graph looks like.
    unlike_others: HashSet<usize>,
    /// Whether these are recorded programs.
    pub(super) are_programs: bool,
    /// Whether equal ids certainly mean equal tasks.
    pub(super) has_equal_ids: bool,
    /// Whether these are programs with several threads or queues, which may start tasks in another order each time.
    pub(super) may_be_reordered: bool,
    /// By task of the first graph: the task at the same position of the same lane, if both lanes are alike.
    pub(super) at_position: Vec<Option<usize>>,
    /// By task of the first and of the second graph: the tasks that read its outputs.
    consumers: OnceLock<[Vec<Vec<usize>>; 2]>,
    threads: usize,
}

impl<'g> Pairing<'g> {
    /// `threads` is the maximum number of threads.
    pub fn new(
        first: &'g TaskGraph,
        second: &'g TaskGraph,
        complete: Completeness,
        identified: HashSet<usize>,
        threads: usize,
    ) -> Self {
        Pairing {
            first,
            second,
            partner: vec![None; first.len()],
            pair_of_first: vec![None; first.len()],
            pair_of_second: vec![None; second.len()],
            uncertain: HashMap::new(),
            complete,
            identified,
            unlike_others: HashSet::new(),
            has_equal_ids: false,
            are_programs: first.others_write && second.others_write,
            may_be_reordered: may_be_reordered(first, second),
            at_position: vec![None; first.len()],
            consumers: OnceLock::new(),
            threads,
        }
    }

    /// Whether one side has no unpaired task left.
    pub fn is_done(&self) -> bool {
        !self.pair_of_first.contains(&None) || !self.pair_of_second.contains(&None)
    }

    /// Whether every task has a partner.
    pub fn is_complete(&self) -> bool {
        self.pair_of_first.iter().chain(&self.pair_of_second).all(Option::is_some)
    }

    /// The pairs that are certain.
    pub fn certain_pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<'_, 'g> {
        let pairs = self.partner.iter().enumerate().filter_map(|(ours, theirs)| Some((ours, (*theirs)?)));
        pairs.filter(|(ours, _)| !self.uncertain.contains_key(ours))
    }

    /// Pairs tasks that look alike in their surroundings, if exactly one task on each side does. Returns
    /// whether any pair was found, and the larger classes of equal size.
    pub fn pair_unique(&mut self, traits: &MatchCriteria) -> (bool, Vec<Class>) {
        if self.is_done() {
            return (false, Vec::new());
        }
        let (colors, others) = self.both(
            || traits.colors(self.first, &self.pair_of_first),
            || traits.colors(self.second, &self.pair_of_second),
        );
        self.pair_unique_colors(&colors, &others)
    }

    /// Pairs tasks that look alike together with everything that led to them, if exactly one task on each side
    /// does.
    pub fn pair_origins(&mut self, traits: &MatchCriteria) {
        if self.is_done() {
            return;
        }
        let (colors, others) = self.both(
            || traits.colors_of_origins(self.first, &self.pair_of_first),
            || traits.colors_of_origins(self.second, &self.pair_of_second),
        );
        self.pair_unique_colors(&colors, &others);
    }

    fn pair_unique_colors(&mut self, colors: &[u64], others: &[u64]) -> (bool, Vec<Class>) {
        let (mut found, mut ties) = (false, Vec::new());
        for (ours, theirs) in self.classes(colors, others) {
            match (&ours[..], &theirs[..]) {
                (&[ours], &[theirs]) => {
                    let doubt = self.doubt_by_surroundings(ours, theirs);
                    self.pair(ours, theirs, doubt);
                    found = true;
                }
                _ if ours.len() == theirs.len() => ties.push((ours, theirs)),
                _ => {}
            }
        }
        (found, ties)
    }

    /// Like [`Pairing::pair_unique`], and also pairs the members of larger classes.
    pub fn pair_alike(&mut self, traits: &MatchCriteria) {
        let (_, ties) = self.pair_unique(traits);
        self.pair_ties(ties);
    }

    /// Pairs the members of classes whose scope and name no other member has.
    pub fn pair_unique_names(&mut self, ties: &[Class]) {
        for (ours, theirs) in ties {
            let mut named: BTreeMap<u64, Class> = BTreeMap::new();
            let names = |graph: &TaskGraph, place: usize| name_of(graph.task(place));
            for &place in ours {
                if let Some(name) = names(self.first, place) {
                    named.entry(name).or_default().0.push(place);
                }
            }
            for &place in theirs {
                if let Some(name) = names(self.second, place) {
                    named.entry(name).or_default().1.push(place);
                }
            }
            for (ours, theirs) in named.into_values() {
                if let (&[ours], &[theirs]) = (&ours[..], &theirs[..]) {
                    self.pair(ours, theirs, None);
                }
            }
        }
    }

    /// Pairs the members of classes. Tasks may have been paired since the classes were found.
    pub fn pair_ties(&mut self, ties: Vec<Class>) {
        for (mut ours, mut theirs) in ties {
            ours.retain(|&place| self.pair_of_first[place].is_none());
            theirs.retain(|&place| self.pair_of_second[place].is_none());
            if ours.len() == theirs.len() {
                self.pair_class(&ours, &theirs);
            }
        }
    }

    /// Pairs tasks that agree in these colors if one of the dumps has all tasks and no other task has that
    /// color.
    pub fn pair_distinct(&mut self, colors: &[u64], others: &[u64]) {
        if self.complete.lacks_tasks == [true, true] {
            return;
        }
        let count = |all: &[u64]| {
            let mut counts: HashMap<u64, usize> = HashMap::new();
            all.iter().for_each(|&color| *counts.entry(color).or_default() += 1);
            counts
        };
        let counts = (count(colors), count(others));
        for (ours, theirs) in self.classes(colors, others) {
            let color = &colors[ours[0]];
            if counts.0.get(color) == Some(&1) && counts.1.get(color) == Some(&1) {
                self.pair(ours[0], theirs[0], None);
            }
        }
    }

    /// Tasks that only their names distinguish, or what led to them. They need not be pairs, because other tasks may show
    /// otherwise, but ids that contradict them number the tasks differently.
    pub fn distinct_pairs(&self, by_shape: &MatchCriteria, exact: &MatchCriteria) -> Vec<(usize, usize)> {
        if self.complete.lacks_tasks == [true, true] {
            return Vec::new();
        }
        let [colors, others] = self.named_colors(by_shape);
        let mut pairs = pairs_of_distinct(&colors, &others);
        pairs.retain(|&(ours, _)| name_of(self.first.task(ours)).is_some());
        if self.complete.is_whole {
            let (colors, others) = self.both(
                || exact.colors_of_origins(self.first, &self.pair_of_first),
                || exact.colors_of_origins(self.second, &self.pair_of_second),
            );
            pairs.extend(pairs_of_distinct(&colors, &others));
        }
        pairs
    }

    /// Aligns the tasks of each lane in submission order. Certain pairs stay. With `ties`, also makes pairs
    /// that are not certain.
    pub fn align(&mut self, lanes: &[LanePair], colors: [&[u64]; 2], exact: &MatchCriteria, ties: bool) {
        if self.is_done() {
            return;
        }
        let may_lack_one = self.complete.lacks_tasks.contains(&true);
        let arguments = self.first.tasks().argument_count() + self.second.tasks().argument_count();
        let budget = Budget::of(arguments, MAX_CELLS);
        let lacking = (self.complete.lacks_tasks == [true, true])
            .then(|| "both dumps lack tasks, so their order does not identify this one".to_owned());
        for lane in lanes {
            let (ours, our_colors) = self.alignable(&lane.first, &self.pair_of_first, colors[0]);
            let (theirs, their_colors) = self.alignable(&lane.second, &self.pair_of_second, colors[1]);
            for pair in align::align(&our_colors, &their_colors, &budget) {
                let (first, second) = (ours[pair.first], theirs[pair.second]);
                if self.pair_of_first[first].is_some() || !pair.is_certain && !ties {
                    continue;
                }
                let several =
                    || format!("several tasks of {} in a row fit", kernels_of(self.first.task(first)));
                // The task that is right for this one may be among those that a dump lacks.
                let differs = || may_lack_one && !self.is_compatible((first, second), exact);
                let doubt = lacking.clone().or_else(|| (!pair.is_certain).then(several)).or_else(|| {
                    differs().then(|| "a dump lacks tasks, and the arguments of the two differ".into())
                });
                self.pair(first, second, doubt);
            }
        }
    }

    /// The tasks of a lane that take part in an alignment, with their colors: those that are unpaired, and
    /// those whose pair is certain.
    fn alignable(&self, lane: &[usize], pairs: &[Option<usize>], colors: &[u64]) -> (Vec<usize>, Vec<u64>) {
        let color = |&place: &usize| match pairs[place] {
            None => Some((place, colors[place])),
            Some(pair) if self.uncertain.contains_key(&pair) => None,
            Some(pair) => Some((place, hash_of(&("pair", pair)))),
        };
        lane.iter().filter_map(color).unzip()
    }

    /// Notes which tasks are at the same position in lanes that are alike, and which ones look like no other.
    pub fn note_positions(&mut self, lanes: &[LanePair], colors: [&[u64]; 2]) {
        if self.may_be_reordered {
            self.unlike_others =
                pairs_of_distinct(colors[0], colors[1]).into_iter().map(|(ours, _)| ours).collect();
        }
        if self.complete.lacks_tasks == [true, true] {
            return;
        }
        for lane in lanes {
            let ours = lane.first.iter().map(|&place| colors[0][place]);
            if ours.eq(lane.second.iter().map(|&place| colors[1][place])) {
                lane.first.iter().zip(&lane.second).for_each(|(&a, &b)| self.at_position[a] = Some(b));
            }
        }
    }

    /// Pairs tasks with equal scope and name that look alike by themselves, if both sides have equally many
    /// of them.
    pub fn pair_names(&mut self, traits: &MatchCriteria) {
        if self.is_done() {
            return;
        }
        let [colors, others] = self.named_colors(traits);
        for (ours, theirs) in self.classes(&colors, &others) {
            if ours.len() == theirs.len() && name_of(self.first.task(ours[0])).is_some() {
                self.pair_class(&ours, &theirs);
            }
        }
    }

    /// Pairs tasks with equal ids that can be the same task.
    pub fn pair_identities(&mut self, ids: &TrustedIds, traits: &MatchCriteria) {
        let is_whole = self.complete.is_whole;
        for ours in self.unpaired_first().collect::<Vec<_>>() {
            let task = self.first.task(ours);
            let other = namesake(traits.step, self.first, task, self.second)
                .filter(|&other| self.pair_of_second[other].is_none());
            let Some(other) = other.filter(|_| ids.may_trust(traits.step, self.first, task)) else {
                continue;
            };
            let (here, there) = ((self.first.tasks(), task), (self.second.tasks(), self.second.task(other)));
            let fits = match is_whole {
                true => traits.local(here.0, here.1) == traits.local(there.0, there.1),
                false => traits.is_compatible(here, there),
            };
            if fits {
                self.pair(ours, other, None);
            }
        }
    }

    /// Pairs the remaining tasks that look alike by themselves, in order, as far as possible.
    pub fn pair_rest(&mut self, traits: &MatchCriteria) {
        if self.is_done() {
            return;
        }
        let [colors, others] = self.local_colors(traits);
        let mut surplus: HashMap<u64, i64> = HashMap::new();
        colors.iter().for_each(|&color| *surplus.entry(color).or_default() += 1);
        others.iter().for_each(|&color| *surplus.entry(color).or_default() -= 1);
        for (ours, theirs) in self.classes(&colors, &others) {
            match (&ours[..], &theirs[..]) {
                // The last one is certain if both runs have equally many.
                (&[ours], &[theirs]) => {
                    let is_last = surplus.get(&colors[ours]) == Some(&0) && self.complete.is_whole;
                    let doubt =
                        || format!("the runs differ in the tasks of {}", kernels_of(self.first.task(ours)));
                    let doubt = (!is_last).then(doubt);
                    self.pair(ours, theirs, doubt);
                }
                _ => self.pair_class(&ours, &theirs),
            }
        }
    }

    /// Pairs single tasks of one kernel and name between certain pairs of a program's queue or thread, whatever their
    /// arguments are: one of them got other arguments.
    fn pair_lone_stretches(&mut self, lanes: &[LanePair]) {
        if !self.are_programs || self.complete.lacks_tasks != [false, false] || !self.uncertain.is_empty() {
            return;
        }
        for lane in lanes {
            for (ours, theirs) in stretches::lone_pairs(lane, &self.partner, &self.pair_of_second) {
                let (task, other) = (self.first.task(ours), self.second.task(theirs));
                let are_alike =
                    task.kernel_names() == other.kernel_names() && name_of(task) == name_of(other);
                if are_alike && !task.kernel_names().is_empty() {
                    self.pair(ours, theirs, None);
                }
            }
        }
    }

    /// Whether nothing that both dumps captured of two tasks differs.
    pub(super) fn is_compatible(&self, (ours, theirs): (usize, usize), traits: &MatchCriteria) -> bool {
        let (ours, theirs) = (self.first.task(ours), self.second.task(theirs));
        traits.is_compatible((self.first.tasks(), ours), (self.second.tasks(), theirs))
    }

    /// The final pairs, with reasons for the tasks without a partner.
    pub fn finish(mut self, traits: &MatchCriteria, lanes: &[LanePair]) -> Matching {
        self.pair_lone_stretches(lanes);
        self.doubt_pairs(traits);
        let identified = std::mem::take(&mut self.identified);
        let (partner, may_be_reordered) = (self.partner.clone(), self.may_be_reordered);
        let matched = Matching { partner, identified, may_be_reordered, ..Matching::default() };
        if self.is_complete() {
            return Matching { uncertain: self.uncertain, ..matched };
        }
        let [ours, theirs] = self.local_colors(traits);
        let dump = MatchSide { graph: self.first, local_colors: ours, open: self.unpaired_first().collect() };
        let golden =
            MatchSide { graph: self.second, local_colors: theirs, open: self.unpaired_second().collect() };
        let [only_first, only_second] = unmatched(&dump, &golden);
        let parts_at = match self.complete.lacks_tasks {
            [false, false] => {
                stretches::first_stretch(self.first, &self.partner, &self.pair_of_second, lanes)
            }
            _ => None,
        };
        Matching { uncertain: self.uncertain, only_first, only_second, parts_at, ..matched }
    }

    /// The colors of tasks by themselves.
    pub fn local_colors(&self, traits: &MatchCriteria) -> [Vec<u64>; 2] {
        let of = |graph: &TaskGraph| graph.tasks().iter().map(|t| traits.local(graph.tasks(), t)).collect();
        self.both(|| of(self.first), || of(self.second)).into()
    }

    /// The colors of tasks by themselves, with scope and name.
    pub fn named_colors(&self, traits: &MatchCriteria) -> [Vec<u64>; 2] {
        let of = |graph: &TaskGraph| {
            let color = |task| hash_of(&(name_of(task), traits.local(graph.tasks(), task)));
            graph.tasks().iter().map(color).collect()
        };
        self.both(|| of(self.first), || of(self.second)).into()
    }

    /// Computes a value for each graph, in parallel if several threads are allowed.
    fn both<R: Send>(&self, first: impl FnOnce() -> R + Send, second: impl FnOnce() -> R) -> (R, R) {
        both(self.threads, first, second)
    }

    /// The unpaired tasks of each color, ordered by their first task.
    fn classes(&self, colors: &[u64], others: &[u64]) -> Vec<Class> {
        let mut place_of: HashMap<u64, usize> = HashMap::new();
        let mut classes: BTreeMap<usize, Class> = BTreeMap::new();
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

    /// Why a pair that is unique in its surroundings is not certain: a dump lacks tasks, or the surroundings
    /// are not certain.
    fn doubt_by_surroundings(&self, ours: usize, theirs: usize) -> Option<String> {
        if self.complete.lacks_tasks != [false, false] {
            return Some("a dump lacks tasks, and one of them may fit as well".into());
        }
        let names = (name_of(self.first.task(ours)), name_of(self.second.task(theirs)));
        if self.identified.contains(&ours) && names.0 == names.1 && names.0.is_some() {
            return None;
        }
        let is_identified = self.unlike_others.contains(&ours);
        if self.may_be_reordered && !self.complete.is_whole && !is_identified {
            return Some("a dump is incomplete, and tasks of other threads or queues may fit as well".into());
        }
        if self.uncertain.is_empty() {
            return None;
        }
        let consumers = self.consumers.get_or_init(|| [self.first.consumers(), self.second.consumers()]);
        let is_doubted = |pair: Option<usize>| pair.is_some_and(|pair| self.uncertain.contains_key(&pair));
        let producer_is_doubted = |graph: &TaskGraph, place: usize, pairs: &[Option<usize>]| {
            let outputs = graph.task(place).arguments().flat_map(|arg| graph.producers_of(arg));
            outputs.into_iter().any(|output| is_doubted(pairs[output.task]))
        };
        let is_near_doubt = producer_is_doubted(self.first, ours, &self.pair_of_first)
            || producer_is_doubted(self.second, theirs, &self.pair_of_second)
            || consumers[0][ours].iter().any(|&task| is_doubted(self.pair_of_first[task]))
            || consumers[1][theirs].iter().any(|&task| is_doubted(self.pair_of_second[task]));
        is_near_doubt.then(|| "a task that it shares data with has no certain partner".into())
    }

    pub(super) fn pair(&mut self, ours: usize, theirs: usize, doubt: Option<String>) {
        self.partner[ours] = Some(theirs);
        self.pair_of_first[ours] = Some(ours);
        self.pair_of_second[theirs] = Some(ours);
        if let Some(doubt) = doubt {
            self.uncertain.insert(ours, doubt);
        }
    }

    pub(super) fn unpaired_first(&self) -> impl Iterator<Item = usize> + use<'_, 'g> {
        (0..self.first.len()).filter(|&p| self.pair_of_first[p].is_none())
    }

    pub(super) fn unpaired_second(&self) -> impl Iterator<Item = usize> + use<'_, 'g> {
        (0..self.second.len()).filter(|&p| self.pair_of_second[p].is_none())
    }
}

/// The tasks of each graph whose color only they have.
fn pairs_of_distinct(colors: &[u64], others: &[u64]) -> Vec<(usize, usize)> {
    // `None` marks a color that several tasks have.
    let places = |all: &[u64]| {
        let mut places: HashMap<u64, Option<usize>> = HashMap::new();
        for (place, &color) in all.iter().enumerate() {
            places.entry(color).and_modify(|known| *known = None).or_insert(Some(place));
        }
        places
    };
    let others = places(others);
    let pair = |(color, place): (u64, Option<usize>)| Some((place?, (*others.get(&color)?)?));
    places(colors).into_iter().filter_map(pair).collect()
}

/// Hash of a task's scope and name; `None` if it has neither.
pub(super) fn name_of(task: Task<'_>) -> Option<u64> {
    let name = (task.scope(), task.task_name());
    (name != (None, None)).then(|| hash_of(&name))
}

/// Summary of the pairs that produced the inputs of a task.
pub(super) fn producing_pairs(graph: &TaskGraph, task: Task<'_>, pairs: &[Option<usize>]) -> ColorSum {
    let mut from = ColorSum::default();
    for arg in certain_arguments(task) {
        for output in certain_producers(graph, arg) {
            let pair = pairs[output.task].map_or(0, |pair| pair as u64 + 1);
            from.add(pair, arg.arg_index.into());
        }
    }
    from
}
