//! The oracle of runs of many ranks: judges an answer of `blame` by the truth of both runs and by the facts that the
//! dumps have.
//!
//! # Which tasks may be named
//! A task is *named* if it is in `first_wrong` or labeled `wrong_here`, `fed` or `raced`. Only the truth decides:
//! - `wrong_here`: tasks that computed something else than their inputs on all ranks imply. If some dump is incomplete, also
//!   tasks that amplify an error which is within its rule: nothing shows where it came from.
//! - `fed`: the same, and tasks that read content that differs from the golden run and that no task wrote.
//! - `raced`: never, as no task runs too early.
//!
//! What headlines, suspects and likely races say about a task is judged like its label.
//!
//! A rank is *named* in three further ways. The task of another rank that an `inherited` task got its error from must
//! carry an error that reaches it: through what both have read, and through collectives of their groups. A collective that is wrong as a whole must be wrong on all ranks that are named. A rank that could
//! decide must be missing.
//!
//! # What the verdict must be
//! - A right run passes if no rank is missing and every rank has a task of which both dumps have everything that it left.
//! - A run with a missing rank does not pass, unless that is allowed or nothing shows that the rank exists.
//! - A wrong run does not pass if both dumps of a rank show an element that a task wrote and that is outside its rule.
//!
//! # When the answer must be decided
//! The first wrong task must be found if no filter leaves out tasks, both dumps of its rank exist, and they prove
//! that its inputs are equal and its output is wrong. The inputs of a collective are those on all ranks of its group, so that
//! no rank may be missing, and the group must be recorded if it is not all ranks. If no task did wrong, both dumps must have all contents and roles.

use std::collections::BTreeSet;

use tensortap_record::DumpLevel;

use super::answer::{Answer, Task};
use super::faults::RankFault;
use super::machine::{ArgTrace, Place, Traces};
use super::program::{Phase, Program};
use super::recording::Facts;
use crate::mentions::Claim;
use crate::oracle::Judgment;
use crate::program::Access;
use crate::recording::{Capture, Content};

/// One run: the truth, and by rank the facts of its dump.
pub struct Run<'c> {
    pub traces: &'c Traces,
    pub facts: &'c [Facts],
    pub captures: &'c [Capture],
}

/// A rank without a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    pub rank: usize,
    /// Whether the run lacks it, or only the golden.
    pub in_run: bool,
    pub in_golden: bool,
    /// Whether the run lists its ranks.
    pub is_listed: bool,
    /// Whether the user allows missing ranks.
    pub is_allowed: bool,
}

impl Absence {
    /// Whether something shows that the rank exists.
    pub fn is_known(&self) -> bool {
        self.is_listed || !(self.in_run && self.in_golden)
    }
}

/// Everything about one trial except for the answer.
pub struct Case<'c> {
    pub program: &'c Program,
    pub fault: RankFault,
    pub guilty: &'c [Place],
    pub actual: Run<'c>,
    pub golden: Run<'c>,
    pub absence: Option<Absence>,
}

impl Case<'_> {
    pub fn judge(&self, answer: &Answer) -> Judgment {
        let mut judgment = Judgment { is_decidable: self.is_decidable(), ..Judgment::default() };
        self.judge_labels(answer, &mut judgment);
        self.judge_first(answer, &mut judgment);
        self.judge_ranks(answer, &mut judgment);
        self.judge_mentions(answer, &mut judgment);
        let passes = answer.verdict == "pass";
        judgment.right_run_failed = self.fault.is_right() && self.must_not_fail(answer);
        judgment.wrong_run_passed = passes && (self.is_visibly_wrong() || self.lacks_a_rank());
        judgment
    }

    fn judge_labels(&self, answer: &Answer, judgment: &mut Judgment) {
        for labeled in &answer.tasks {
            let task = labeled.task;
            let Some(place) = self.place(task) else {
                accuse(judgment, task, "in the answer, but not in the run");
                continue;
            };
            if is_cause(&labeled.label) {
                match self.may_be(place, &labeled.label) {
                    true => judgment.named = true,
                    false => {
                        accuse(judgment, task, &format!("{}: {}", labeled.label, self.truth_about(place)))
                    }
                }
            }
            let carries_error = |from: Task| {
                self.place(from).is_some_and(|from| self.carries_error(from) && self.reaches(from, place))
            };
            if let Some(from) = labeled.from.filter(|from| !carries_error(*from)) {
                accuse(judgment, from, &format!("the source of an error on rank {}", task.rank));
            }
        }
    }

    fn judge_first(&self, answer: &Answer, judgment: &mut Judgment) {
        for (position, (task, label)) in answer.first_wrong.iter().enumerate() {
            let place = self.place(*task);
            let is_right = match is_cause(label) {
                true => place.is_some_and(|place| self.may_be(place, label)),
                false => place.is_some_and(|place| self.guilty.contains(&place)),
            };
            if !is_right {
                accuse(judgment, *task, &format!("in first_wrong as {label}"));
            }
            judgment.named |= is_right;
            judgment.named_first |= position == 0 && is_right;
        }
    }

    /// Judges ranks that are named without a task.
    fn judge_ranks(&self, answer: &Answer, judgment: &mut Judgment) {
        let first = answer.first_wrong.first().and_then(|(task, _)| self.place(*task));
        for &rank in &answer.collective {
            if !first.is_some_and(|first| self.guilty.contains(&Place { rank, ..first })) {
                accuse(judgment, Task { rank, id: 0 }, "named with the whole collective");
            }
        }
        for &rank in &answer.undecided {
            if !self.is_missing(rank) {
                accuse(
                    judgment,
                    Task { rank, id: 0 },
                    "of a rank that could decide, but the rank is not missing",
                );
            }
        }
    }

    /// Judges tasks that headlines, suspects and likely races name.
    fn judge_mentions(&self, answer: &Answer, judgment: &mut Judgment) {
        for (rank, mention) in &answer.mentions {
            let task = Task { rank: *rank, id: mention.task };
            let has_wrong_output = |place: Place| {
                self.args(place).any(|(_, left, right)| {
                    left.access.writes() && left.outside(right, true).next().is_some()
                })
            };
            let label = match mention.claim {
                Claim::Wrong | Claim::Other => "wrong_here",
                Claim::Fed => "fed",
                // No task runs too early or stops, and both runs have the same tasks.
                Claim::WrongOutput | Claim::Raced | Claim::Extra | Claim::Missing | Claim::Stopped => "",
            };
            let is_true = self.place(task).is_some_and(|place| match mention.claim {
                Claim::WrongOutput => has_wrong_output(place),
                _ => self.may_be(place, label),
            });
            let is_judged = judgment
                .innocents
                .iter()
                .any(|(innocent, of)| *innocent == task.id && of.ends_with(&format!("(rank {rank})")));
            if !is_true && !is_judged {
                accuse(judgment, task, &format!("{:?} in `{}`", mention.claim, mention.words));
            }
        }
    }

    fn must_not_fail(&self, answer: &Answer) -> bool {
        let is_undecided_rightly =
            answer.verdict == "undecided" && (self.lacks_a_rank() || self.has_open_difference());
        let ranks = 0..self.program.ranks;
        let mut present = ranks.filter(|&rank| !self.is_missing(rank));
        answer.verdict != "pass" && !is_undecided_rightly && present.all(|rank| self.is_comparable(rank))
    }

    /// Whether a rank is missing that must not.
    fn lacks_a_rank(&self) -> bool {
        self.absence.is_some_and(|absence| absence.is_known() && !absence.is_allowed)
    }

    /// Whether a rank is not in both runs.
    fn is_missing(&self, rank: usize) -> bool {
        self.absence.is_some_and(|absence| absence.rank == rank)
    }

    fn place(&self, task: Task) -> Option<Place> {
        let job = self.actual.facts.get(task.rank)?.ids.iter().position(|id| *id == task.id)?;
        Some(Place { job, rank: task.rank })
    }

    fn may_be(&self, place: Place, label: &str) -> bool {
        match label {
            "wrong_here" => self.guilty.contains(&place) || self.hides_an_error() && self.amplifies(place),
            "fed" => self.guilty.contains(&place) || self.reads_from_elsewhere(place),
            _ => false,
        }
    }

    /// The arguments of a task in both runs.
    fn args(&self, place: Place) -> impl Iterator<Item = (usize, &ArgTrace, &ArgTrace)> {
        let [actual, golden] = [&self.actual, &self.golden].map(|run| &run.traces[place.rank][place.job]);
        actual.iter().zip(golden).enumerate().map(|(arg, (left, right))| (arg, left, right))
    }

    /// Whether some dump lacks what shows that an error within its rule came from another task.
    fn hides_an_error(&self) -> bool {
        let is_incomplete = |run: &Run<'_>| {
            let full = |capture: &Capture| capture.is_complete() && capture.level == DumpLevel::Full;
            !run.captures.iter().all(full)
        };
        self.absence.is_some() || is_incomplete(&self.actual) || is_incomplete(&self.golden)
    }

    /// Whether everything that a task read is within its rule, but not equal, and something that it wrote is not.
    fn amplifies(&self, place: Place) -> bool {
        let is_outside = |is_after: bool| {
            move |(_, left, right): (usize, &ArgTrace, &ArgTrace)| {
                let is_used = if is_after { left.access.writes() } else { left.access.reads() };
                is_used && left.outside(right, is_after).next().is_some()
            }
        };
        let differs = |(_, left, right): (usize, &ArgTrace, &ArgTrace)| {
            left.access.reads() && left.before != right.before
        };
        let is_wrong = self.args(place).any(is_outside(true)) && !self.args(place).any(is_outside(false));
        self.fault == RankFault::Slight && is_wrong && self.args(place).any(differs)
    }

    /// Whether a task reads content that differs from the golden run and that no task wrote.
    fn reads_from_elsewhere(&self, place: Place) -> bool {
        self.args(place).any(|(_, left, right)| {
            left.access.reads() && left.source.is_none() && left.before != right.before
        })
    }

    /// Whether a task read or wrote something that differs from the golden run.
    fn carries_error(&self, place: Place) -> bool {
        self.args(place).any(|(_, left, right)| {
            left.access.reads() && left.before != right.before
                || left.access.writes() && left.after != right.after
        })
    }

    /// Whether an error of one task can have come to another one.
    fn reaches(&self, from: Place, to: Place) -> bool {
        let (mut known, mut next) = (BTreeSet::new(), vec![to]);
        while let Some(place) = next.pop() {
            let job = &self.program.jobs[place.job];
            let parts = match job.phase {
                Phase::Collective(_) => self.program.members(job.layer, place.rank),
                _ => vec![place.rank],
            };
            for part in parts.into_iter().map(|rank| Place { rank, ..place }) {
                let mut wrong = self
                    .args(part)
                    .filter(|(_, left, right)| left.access.reads() && left.before != right.before)
                    .peekable();
                if wrong.peek().is_some() && part != to {
                    known.insert(part);
                }
                // A task that did not write is a source only in the golden run.
                let sources = wrong.flat_map(|(_, left, right)| [left.source, right.source]).flatten();
                let sources = sources.map(|job| Place { job, rank: part.rank });
                next.extend(sources.filter(|source| known.insert(*source)));
            }
        }
        known.contains(&from)
    }

    fn truth_about(&self, place: Place) -> String {
        let Place { job, rank } = place;
        let phase = self.program.jobs[job].phase;
        let is_wrong = |is_after| {
            self.args(place).any(|(_, left, right)| left.outside(right, is_after).next().is_some())
        };
        format!(
            "{phase:?} on rank {rank}, input wrong: {}, output wrong: {}",
            is_wrong(false),
            is_wrong(true)
        )
    }

    fn content(&self, place: Place, arg: usize, is_after: bool) -> (Content, Content) {
        let of = |run: &Run<'_>| run.facts[place.rank].content(place.job, arg, is_after);
        (of(&self.actual), of(&self.golden))
    }

    /// Whether both dumps of a rank have everything that some task left, and it proves to be equal or right.
    fn is_comparable(&self, rank: usize) -> bool {
        let is_proven = |job: usize| {
            let place = Place { job, rank };
            let mut written =
                self.args(place).filter(|(_, left, _)| !self.is_known_role(job) || left.access.writes());
            written.all(|(arg, left, right)| match self.content(place, arg, true) {
                (Content::Full, Content::Full) => true,
                (Content::None, _) | (_, Content::None) => false,
                _ => left.after == right.after,
            })
        };
        self.has_all_tasks(rank) && (0..self.program.jobs.len()).any(is_proven)
    }

    /// Whether a dump does not show if a task wrote what differs: its role is unknown, and its content before the task was
    /// not captured.
    fn has_open_difference(&self) -> bool {
        self.places().filter(|place| !self.is_missing(place.rank) && !self.is_known_role(place.job)).any(
            |place| {
                self.args(place).any(|(arg, left, right)| {
                    let (before, after) = (self.content(place, arg, false), self.content(place, arg, true));
                    let lacks_before = before.0 == Content::None || before.1 == Content::None;
                    let has_after = after.0 != Content::None && after.1 != Content::None;
                    lacks_before && has_after && left.after != right.after
                })
            },
        )
    }

    fn is_known_role(&self, job: usize) -> bool {
        self.program.style.roles_known || self.program.jobs[job].kernel.is_none()
    }

    fn has_all_tasks(&self, rank: usize) -> bool {
        [&self.actual, &self.golden].iter().all(|run| !run.captures[rank].filters_tasks())
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let ranks = self.program.ranks;
        (0..self.program.jobs.len()).flat_map(move |job| (0..ranks).map(move |rank| Place { job, rank }))
    }

    fn is_visibly_wrong(&self) -> bool {
        self.places().any(|place| self.has_all_tasks(place.rank) && self.has_visible_error(place))
    }

    /// Whether both dumps show an element outside its rule that the task wrote in one of the runs.
    fn has_visible_error(&self, place: Place) -> bool {
        !self.is_missing(place.rank)
            && self.args(place).any(|(arg, left, right)| {
                let is_declared = self.is_known_role(place.job) && left.access.writes();
                let size = left.element.bytes();
                let is_changed = |trace: &ArgTrace, at: usize| {
                    trace.before[at * size..(at + 1) * size] != trace.after[at * size..(at + 1) * size]
                };
                let counts = |at: usize| is_declared || is_changed(left, at) || is_changed(right, at);
                let is_wrong = left.outside(right, true).any(counts);
                let (before_left, before_right) = self.content(place, arg, false);
                let is_output = is_declared && left.access == Access::Write;
                match self.content(place, arg, true) {
                    (Content::Full, Content::Full) => {
                        is_wrong
                            && (is_output || (before_left, before_right) == (Content::Full, Content::Full))
                    }
                    (Content::None, _) | (_, Content::None) => false,
                    _ => {
                        let has_both = before_left != Content::None && before_right != Content::None;
                        let was_equal = has_both && left.before == right.before;
                        is_wrong && !left.element.is_float() && (is_output || was_equal)
                    }
                }
            })
    }

    /// Whether the facts decide which task is at fault, as the documentation of this module says.
    fn is_decidable(&self) -> bool {
        let mut present = (0..self.program.ranks).filter(|&rank| !self.is_missing(rank));
        if self.fault.is_right() || !present.all(|rank| self.has_all_tasks(rank)) {
            return false;
        }
        let is_wrong = |place: &Place| {
            self.args(*place)
                .any(|(_, left, right)| left.access.writes() && left.outside(right, true).next().is_some())
        };
        let Some(first) = self.places().find(is_wrong) else { return false };
        let same = (0..self.program.ranks).map(|rank| Place { rank, ..first });
        same.filter(is_wrong).any(|place| self.proves_guilt(place))
    }

    fn proves_guilt(&self, place: Place) -> bool {
        let is_collective = matches!(self.program.jobs[place.job].phase, Phase::Collective(_));
        let layer = self.program.jobs[place.job].layer;
        // Without recorded groups, the collectives of subgroups look like those of all ranks.
        let is_unclear = self.program.is_local[layer] && !self.program.records_group(layer);
        if is_collective && (self.absence.is_some() || is_unclear) || !self.has_visible_error(place) {
            return false;
        }
        // A host computes what it loads from what it read, and a filter may have removed its reads.
        let is_load = self.program.jobs[place.job].phase == Phase::Load;
        let is_filtered =
            [&self.actual, &self.golden].iter().any(|run| !run.captures[place.rank].is_complete());
        if is_load && is_filtered {
            return false;
        }
        let mut ranks = self.program.members(layer, place.rank).into_iter();
        match self.guilty.contains(&place) {
            true => ranks.all(|rank| {
                rank != place.rank && !is_collective || self.has_right_inputs(Place { rank, ..place })
            }),
            false => self.reads_from_elsewhere(place) && self.has_all_contents(place.rank),
        }
    }

    /// Whether both dumps prove that everything that a task may have read is right.
    fn has_right_inputs(&self, place: Place) -> bool {
        let is_known = self.is_known_role(place.job);
        let is_declared =
            self.program.jobs[place.job].kernel.is_some_and(|kernel| self.program.declares(kernel));
        self.args(place).all(|(arg, left, right)| {
            if is_known && !left.access.reads() {
                // If nothing of it was captured, only the kernel's declaration shows that it is an output.
                let (here, there) = self.content(place, arg, true);
                return is_declared || here != Content::None && there != Content::None;
            }
            match self.content(place, arg, false) {
                (Content::None, _) | (_, Content::None) => false,
                // A right kernel may amplify what is not equal.
                _ if left.access.reads() => left.before == right.before,
                (Content::Full, Content::Full) => left.outside(right, false).next().is_none(),
                _ => left.before == right.before,
            }
        })
    }

    fn has_all_contents(&self, rank: usize) -> bool {
        let is_full = |run: &Run<'_>| {
            run.captures[rank].is_complete()
                && run.facts[rank].content.values().all(|content| *content == Content::Full)
        };
        self.program.style.roles_known && is_full(&self.actual) && is_full(&self.golden)
    }
}

fn is_cause(label: &str) -> bool {
    matches!(label, "wrong_here" | "fed" | "raced")
}

fn accuse(judgment: &mut Judgment, task: Task, label: &str) {
    judgment.innocents.push((task.id, format!("{label} (rank {})", task.rank)));
}

#[cfg(test)]
mod tests;
