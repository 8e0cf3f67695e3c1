//! Pairs the members of a class: tasks that look alike in their surroundings. A pair is certain if something else
//! distinguishes it, or if the choice cannot matter.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tensortap_format::{Argument, Task, TaskKey};

use super::pairing::{Pairing, name_of, producing_pairs};
use super::signature::{certain_arguments, certain_producers, hash_of, is_external};
use crate::graph::TaskGraph;

/// What may distinguish a task from others of its class; `None` if it is not known or not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Traits {
    name: Option<u64>,
    producers: Option<u64>,
    /// Content of inputs that no task wrote.
    external: Option<u64>,
}

impl Traits {
    /// The traits that agree with another task's.
    fn common(self, other: Traits) -> [bool; 3] {
        let same = |ours: Option<u64>, theirs: Option<u64>| ours.is_some() && ours == theirs;
        [
            same(self.name, other.name),
            same(self.producers, other.producers),
            same(self.external, other.external),
        ]
    }

    fn only(self, kept: [bool; 3]) -> Traits {
        Traits {
            name: self.name.filter(|_| kept[0]),
            producers: self.producers.filter(|_| kept[1]),
            external: self.external.filter(|_| kept[2]),
        }
    }
}

/// The members of both sides with equal traits.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates {
    ours: usize,
    theirs: usize,
    /// The recorded contents of the second graph's members.
    contents: Option<u64>,
    have_other_contents: bool,
}

/// The unpaired members of a class, and the pairs found so far.
struct ClassPairs<'p, 'g> {
    pairing: &'p Pairing<'g>,
    ours: Vec<usize>,
    theirs: Vec<usize>,
    pairs: Vec<(usize, usize)>,
}

impl Pairing<'_> {
    /// Pairs the members of a class. Criteria, in this order: equal producers and external inputs, equal producers,
    /// equal external inputs. Members with equal names are paired before all others.
    pub(super) fn pair_class(&mut self, ours: &[usize], theirs: &[usize]) {
        let pairs =
            ClassPairs { pairing: self, ours: ours.to_vec(), theirs: theirs.to_vec(), pairs: Vec::new() };
        let pairs = pairs.all();
        let doubts = self.doubts(ours, theirs, &pairs);
        for ((ours, theirs), doubt) in pairs.into_iter().zip(doubts) {
            self.pair(ours, theirs, doubt);
        }
    }

    /// For each pair of a class: why another pair fits as well, if one does.
    fn doubts(&self, ours: &[usize], theirs: &[usize], pairs: &[(usize, usize)]) -> Vec<Option<String>> {
        let traits_here: HashMap<usize, Traits> =
            ours.iter().map(|&place| (place, self.traits(self.first, place, &self.pair_of_first))).collect();
        let traits_there: HashMap<usize, Traits> = theirs
            .iter()
            .map(|&place| (place, self.traits(self.second, place, &self.pair_of_second)))
            .collect();
        let mut candidates_by: HashMap<[bool; 3], HashMap<Traits, Candidates>> = HashMap::new();
        let doubt = |&(first, second): &(usize, usize)| {
            if self.complete.lacks_tasks == [true, true] {
                return Some("both dumps lack tasks, and one of them may fit as well".into());
            }
            let kept = traits_here[&first].common(traits_there[&second]);
            let candidates = candidates_by
                .entry(kept)
                .or_insert_with(|| self.candidates(&traits_here, &traits_there, kept));
            let alike = candidates.get(&traits_here[&first].only(kept)).copied().unwrap_or_default();
            let is_only_one = (alike.ours, alike.theirs) == (1, 1);
            // If the second graph has fewer of them, one of the first has no partner, and nothing shows which one.
            let is_interchangeable = !alike.have_other_contents && alike.ours <= alike.theirs;
            let is_certain = is_only_one || self.at_position[first] == Some(second) || is_interchangeable;
            let several = || {
                let (count, kernels) = (alike.ours.max(alike.theirs), kernels_of(self.first.task(first)));
                format!("{count} tasks of {kernels} fit equally well")
            };
            (!is_certain).then(several)
        };
        pairs.iter().map(doubt).collect()
    }

    fn candidates(
        &self,
        here: &HashMap<usize, Traits>,
        there: &HashMap<usize, Traits>,
        kept: [bool; 3],
    ) -> HashMap<Traits, Candidates> {
        let mut all: HashMap<Traits, Candidates> = HashMap::new();
        for traits in here.values() {
            all.entry(traits.only(kept)).or_default().ours += 1;
        }
        for (&place, traits) in there {
            let candidates = all.entry(traits.only(kept)).or_default();
            let contents = recorded_contents(self.second.task(place));
            candidates.theirs += 1;
            candidates.have_other_contents |= *candidates.contents.get_or_insert(contents) != contents;
        }
        all
    }

    fn traits(&self, graph: &TaskGraph, place: usize, pairs: &[Option<usize>]) -> Traits {
        let task = graph.task(place);
        let is_certain = |pair: Option<usize>| pair.is_some_and(|pair| !self.uncertain.contains_key(&pair));
        let mut outputs = certain_arguments(task).flat_map(|arg| certain_producers(graph, arg)).peekable();
        let has_producers = outputs.peek().is_some();
        let producers = outputs.all(|output| is_certain(pairs[output.task])) && has_producers;
        Traits {
            name: name_of(task),
            producers: producers.then(|| hash_of(&producing_pairs(graph, task, pairs))),
            external: external_content(graph, task).filter(|_| self.complete.is_whole),
        }
    }
}

impl ClassPairs<'_, '_> {
    fn all(mut self) -> Vec<(usize, usize)> {
        if self.ours.len() > 1 || self.theirs.len() > 1 {
            let is_whole = self.pairing.complete.is_whole;
            let external = |g: &TaskGraph, t: Task<'_>| external_content(g, t).filter(|_| is_whole);
            self.pair_by(|g, t, p| Some(hash_of(&(name_of(t)?, producing_pairs(g, t, p), external(g, t)))));
            self.pair_by(|g, t, p| Some(hash_of(&(name_of(t)?, producing_pairs(g, t, p)))));
            self.pair_by(|_, t, _| name_of(t));
            self.pair_by(|g, t, p| Some(hash_of(&(producing_pairs(g, t, p), external(g, t)))));
            self.pair_by(|g, t, p| Some(hash_of(&producing_pairs(g, t, p))));
            self.pair_by(|g, t, _| external(g, t));
        }
        self.pair_by(|_, _, _| Some(0));
        self.pairs
    }

    /// Pairs members with equal keys. A member without a key stays. If several have the same key, those at the same
    /// position of a lane are paired first, then those with equal ids, then the others in order. The order is last
    /// because it depends on which task was dispatched first.
    fn pair_by(&mut self, key: impl Fn(&TaskGraph, Task<'_>, &[Option<usize>]) -> Option<u64>) {
        let Pairing { first, second, pair_of_first, pair_of_second, at_position, .. } = self.pairing;
        let keys = |graph: &TaskGraph, places: &[usize], pairs: &[Option<usize>]| -> BTreeMap<usize, u64> {
            places.iter().filter_map(|&p| Some((p, key(graph, graph.task(p), pairs)?))).collect()
        };
        let key_of_first = keys(first, &self.ours, pair_of_first);
        let key_of_second = keys(second, &self.theirs, pair_of_second);
        let mut waiting: BTreeSet<(u64, usize)> = key_of_second.iter().map(|(&p, &key)| (key, p)).collect();
        self.pair_with(|place| {
            let same = (*key_of_first.get(&place)?, at_position[place]?);
            waiting.remove(&same).then_some(same.1)
        });
        let ids: HashMap<TaskKey, usize> =
            waiting.iter().map(|&(_, place)| (second.task(place).key(), place)).collect();
        self.pair_with(|place| {
            let same = (*key_of_first.get(&place)?, *ids.get(&first.task(place).key())?);
            waiting.remove(&same).then_some(same.1)
        });
        self.pair_with(|place| {
            let key = *key_of_first.get(&place)?;
            let same = *waiting.range((key, 0)..=(key, usize::MAX)).next()?;
            waiting.remove(&same).then_some(same.1)
        });
    }

    fn pair_with(&mut self, mut partner: impl FnMut(usize) -> Option<usize>) {
        let mut taken = HashSet::new();
        let pairs = &mut self.pairs;
        self.ours.retain(|&place| {
            let Some(other) = partner(place) else { return true };
            pairs.push((place, other));
            taken.insert(other);
            false
        });
        self.theirs.retain(|place| !taken.contains(place));
    }
}

/// Hash of the content of the inputs that no task wrote; `None` if there are none.
fn external_content(graph: &TaskGraph, task: Task<'_>) -> Option<u64> {
    let contents: Vec<(u16, u128)> = certain_arguments(task)
        .filter(|&arg| arg.role.reads() && is_external(graph, task, arg))
        .filter_map(|arg| Some((arg.arg_index, arg.hash_before()?)))
        .collect();
    (!contents.is_empty()).then(|| hash_of(&contents))
}

/// Hash of everything that was recorded of a task's contents.
fn recorded_contents(task: Task<'_>) -> u64 {
    let of = |arg: Argument<'_>| (arg.arg_index, arg.scalar_bits, arg.hash_before(), arg.hash_after());
    hash_of(&certain_arguments(task).map(of).collect::<Vec<_>>())
}

/// The kernels of a task, else its name, else its operation.
pub(super) fn kernels_of(task: Task<'_>) -> String {
    let kernels = task.short_kernel_names();
    if kernels.is_empty() {
        return task.task_name().unwrap_or(task.facts().operation.name()).to_owned();
    }
    kernels
}
