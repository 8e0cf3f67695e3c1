//! Doubts about finished pairs: another pair would fit better.
//!
//! A program may launch one task more or less. The threads of a program number their tasks as they come, and a pool gives
//! work to any of its queues. So in programs with several of them, tasks that look alike may have changed places.

use std::collections::{HashMap, HashSet};

use super::may_be_reordered;
use super::pairing::Pairing;
use super::signature::{MatchCriteria, hash_of};
use crate::graph::TaskGraph;

/// Limit on the number of tasks that each pair is compared with, and on their distance.
const MAX_RIVALS: usize = 64;

const LONE_TASK: &str =
    "its arguments differ from those of its partner, and a task without a partner fits better";
const INCOMPLETE: &str = "its arguments differ from those of its partner, and a dump is incomplete";
const EXCHANGED: &str = "several tasks of other threads or queues have the same arguments";
const OTHER_OUTPUT: &str = "another task of the golden, of the same kernel, left the same content";

impl Pairing<'_> {
    /// Doubts the pairs that are certain so far.
    pub(super) fn doubt_pairs(&mut self, by_shape: &MatchCriteria) {
        self.doubt(LONE_TASK, self.fitting_lone_tasks(by_shape));
        // Where a dump lacks tasks, an extra or missing launch shifts the others.
        let may_be_shifted = self.complete.lacks_tasks.contains(&true) && !self.has_equal_ids;
        if self.may_be_reordered {
            self.exchange_fitting(by_shape);
        }
        if self.may_be_reordered || may_be_shifted && self.are_programs {
            self.doubt(INCOMPLETE, self.unlike_in_incomplete_dumps(by_shape));
        }
        if self.may_be_reordered {
            self.doubt(OTHER_OUTPUT, self.with_content_of_another(by_shape));
        }
    }

    fn doubt(&mut self, reason: &str, doubted: Vec<usize>) {
        self.uncertain.extend(doubted.into_iter().map(|ours| (ours, reason.to_owned())));
    }

    /// Pairs with different arguments, if a task without a partner fits one of the two.
    fn fitting_lone_tasks(&self, by_shape: &MatchCriteria) -> Vec<usize> {
        if self.is_complete() {
            return Vec::new();
        }
        let fits = |ours: usize, theirs: usize| self.is_compatible((ours, theirs), by_shape);
        let has_rival = |(ours, theirs): &(usize, usize)| {
            !fits(*ours, *theirs)
                && (self.unpaired_first().take(MAX_RIVALS).any(|rival| fits(rival, *theirs))
                    || self.unpaired_second().take(MAX_RIVALS).any(|rival| fits(*ours, rival)))
        };
        self.certain_pairs().filter(has_rival).map(|(ours, _)| ours).collect()
    }

    /// Pairs of another shape without a name of their own. If a dump lacks tasks, other scalars count, too.
    fn unlike_in_incomplete_dumps(&self, by_shape: &MatchCriteria) -> Vec<usize> {
        if self.complete.is_whole {
            return Vec::new();
        }
        let lacks_tasks = self.complete.lacks_tasks.contains(&true);
        let traits = &MatchCriteria { scalars: by_shape.scalars || lacks_tasks, ..*by_shape };
        let is_unlike =
            |pair: &(usize, usize)| !self.identified.contains(&pair.0) && !self.is_compatible(*pair, traits);
        self.certain_pairs().filter(is_unlike).map(|(ours, _)| ours).collect()
    }

    /// Exchanges the partners of two pairs if no argument differs then.
    fn exchange_fitting(&mut self, by_shape: &MatchCriteria) {
        let traits = &MatchCriteria { scalars: true, ..*by_shape };
        let fits = |pairing: &Self, ours, theirs| pairing.is_compatible((ours, theirs), traits);
        let mut unlike: Vec<(usize, usize)> =
            self.certain_pairs().filter(|&(ours, theirs)| !fits(self, ours, theirs)).collect();
        for at in 0..unlike.len() {
            let (ours, theirs) = unlike[at];
            let near = unlike[at + 1..].iter().take_while(|(rival, _)| *rival <= ours + MAX_RIVALS);
            let mut fitting = near.enumerate().filter(|&(_, &(rival, other))| {
                !fits(self, ours, theirs) && fits(self, ours, other) && fits(self, rival, theirs)
            });
            let Some((distance, &(rival, other))) = fitting.next() else { continue };
            let is_single = fitting.next().is_none();
            drop(fitting);
            (unlike[at].1, unlike[at + 1 + distance].1) = (other, theirs);
            let doubt = || (!is_single).then(|| EXCHANGED.to_owned());
            self.pair(ours, other, doubt());
            self.pair(rival, theirs, doubt());
        }
    }

    /// Pairs with different outputs, if the output is that of another task of the golden which looks alike, and whose own
    /// partner left something else.
    fn with_content_of_another(&self, by_shape: &MatchCriteria) -> Vec<usize> {
        let [colors, others] = self.local_colors(by_shape);
        let mut partners = vec![None; self.second.len()];
        for (ours, theirs) in self.partner.iter().enumerate() {
            theirs.iter().for_each(|&theirs| partners[theirs] = Some(ours));
        }
        let is_equal =
            |ours: usize, theirs: usize| outputs_of(self.first, ours) == outputs_of(self.second, theirs);
        let mut unlike: HashMap<(u64, u64), usize> = HashMap::new();
        for theirs in 0..self.second.len() {
            let has_other = partners[theirs].is_none_or(|ours| !is_equal(ours, theirs));
            if let Some(content) = outputs_of(self.second, theirs).filter(|_| has_other) {
                unlike.insert((others[theirs], content), theirs);
            }
        }
        let is_of_another = |&(ours, theirs): &(usize, usize)| {
            let content = outputs_of(self.first, ours).filter(|_| !is_equal(ours, theirs));
            let another = content.and_then(|content| unlike.get(&(colors[ours], content)));
            !self.identified.contains(&ours) && another.is_some_and(|another| *another != theirs)
        };
        self.certain_pairs().filter(is_of_another).map(|(ours, _)| ours).collect()
    }
}

/// Whether several pairs of programs with several threads or queues look alike, left other content and have no names of
/// their own. Then the numbers of tasks do not show which belong together.
pub(super) fn may_be_exchanged(
    (first, second): (&TaskGraph, &TaskGraph),
    partners: &[usize],
    identified: &HashSet<usize>,
    exact: &MatchCriteria,
) -> bool {
    if !may_be_reordered(first, second) {
        return false;
    }
    let differs = |(ours, theirs): &(usize, &usize)| {
        !identified.contains(ours) && outputs_of(first, *ours) != outputs_of(second, **theirs)
    };
    let mut seen = HashSet::new();
    let mut differing = partners.iter().enumerate().filter(differs);
    differing.any(|(ours, _)| !seen.insert(exact.local(first.tasks(), first.task(ours))))
}

/// Hash of everything that a task left in its outputs; `None` if it has none, or if some of it was not captured.
fn outputs_of(graph: &TaskGraph, place: usize) -> Option<u64> {
    let outputs = graph.task(place).outputs().filter(|arg| !arg.is_scalar() && !arg.is_candidate());
    let contents: Vec<(u16, u128)> =
        outputs.map(|arg| Some((arg.arg_index, arg.hash_after()?))).collect::<Option<_>>()?;
    (!contents.is_empty()).then(|| hash_of(&contents))
}
