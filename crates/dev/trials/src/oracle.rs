//! The oracle: judges an answer of `blame` by the truth of both runs and by the facts that the dumps have.
//!
//! # Who may be named
//! A task is *named* if it is in `first_wrong`, labeled `wrong_here` or `fed`, or one of the two tasks of a
//! `raced`. Only the truth decides who may be named, whatever was captured:
//! - `wrong_here`: tasks that did something wrong. Their kernel computed something else, did not write, wrote
//!   outside of its arguments, or got another scalar or buffer; or the task is one too many.
//! - `raced`: the early reader of a race, and a writer that it overtook, as a pair.
//! - `fed`: tasks that may be `wrong_here`, and tasks that *read* an element, or declare that they do, which differs from
//!   the golden run and came from somewhere else: from uninitialized memory, from unrecorded code, from a host write that
//!   provided other data, from a stray write, or from another task than in the golden run. If it came from the
//!   same recorded task in both runs, then that task is wrong or inherits, and `fed` has a false source.
//! - A host that computes what it writes from what it read is a task that reads.
//! - A task that only received such an element, without using it, is innocent. So is one that amplifies an error within a rule.
//!
//! A task is also named if the headline mentions it, if it is the suspect, or if it is one of the two tasks of a likely race.
//! A hedge such as `may be wrong` is the same as `wrong_here`, and a likely race is a race. A task that is said to be
//! missing or one too many must be. A task with a wrong output whose origin is not known must have a wrong output.
//!
//! # What the verdict must be
//! - A right run passes if both dumps have everything that some task left: full content, or equal hashes. Noise and errors
//!   within the tolerance are right. It may be `undecided` if content after a task differs and the dumps do not show whether
//!   the task wrote it: it is no declared output, and a dump lacks the content before the task; or another task wrote to the
//!   same argument at the same time.
//! - No right run fails because something is outside its rule, or because a task stopped.
//! - A wrong run fails if both dumps have the content of an element that a task wrote in one of the runs, the
//!   element is outside its rule, and the two tasks are certainly partners.
//!
//! # When the answer must be decided
//! Partners are certain if both dumps have all tasks, and both runs perform the same launches in the same
//! order and threads or every launch has its own name. Then:
//! - A kernel that deviated must be named if some element that it wrote is visibly outside its rule, and both
//!   dumps have everything that it may have read, within its rule, and equal where it did read. Hashes decide if they are equal. Unequal
//!   hashes decide for integers, if the argument is a declared output or was equal before. If roles are not
//!   declared, the order of all tasks must be known: from the lanes, and between lanes from declared edges. Nothing is decidable
//!   about tasks that run at the same time.
//! - Other faults must be found if, in addition, both dumps are full, a task that may be named has an element outside its
//!   rule, and all roles are declared or all tasks are in one lane.
//! - Everything else may be `unknown`.

use crate::answer::Answer;
use crate::faults::{Fault, Guilt};
use crate::machine::{ArgTrace, Source, TaskTrace};
use crate::mentions::{Claim, Mention};
use crate::program::{Edges, Style};
use crate::recording::{Capture, Content, Facts};

/// One run: the truth and the facts of its dump.
pub struct Run<'c> {
    pub traces: &'c [TaskTrace],
    pub facts: &'c Facts,
    pub capture: Capture,
}

impl Run<'_> {
    pub fn task(&self, id: usize) -> Option<&TaskTrace> {
        self.traces.iter().find(|trace| trace.id == id)
    }
}

/// Everything about one trial except for the answer.
pub struct Case<'c> {
    pub fault: Fault,
    pub guilt: &'c Guilt,
    pub style: &'c Style,
    /// Whether every launch of a step has its own name.
    pub has_names: bool,
    pub actual: Run<'c>,
    pub golden: Run<'c>,
}

/// What a trial shows about the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgment {
    pub is_decidable: bool,
    pub named_first: bool,
    pub named: bool,
    /// Innocent tasks that are named: the task id, its label, and what is true about it.
    pub innocents: Vec<(u64, String)>,
    pub right_run_failed: bool,
    pub wrong_run_passed: bool,
}

impl Judgment {
    pub fn is_violation(&self) -> bool {
        !self.innocents.is_empty() || self.right_run_failed || self.wrong_run_passed
    }

    pub fn undecided_needlessly(&self) -> bool {
        self.is_decidable && !self.named
    }
}

impl Case<'_> {
    pub fn judge(&self, answer: &Answer) -> Judgment {
        let mut judgment = Judgment { is_decidable: self.is_decidable(), ..Judgment::default() };
        for labeled in &answer.tasks {
            let is_named = matches!(labeled.label.as_str(), "wrong_here" | "fed" | "raced");
            let Some(id) = self.actual.facts.identity(labeled.task) else {
                // A read by the host at the end of a run. It may be fed by a missing task, but it writes nothing.
                if is_named && labeled.label != "fed" {
                    judgment.innocents.push((labeled.task, format!("{}: it only reads", labeled.label)));
                }
                continue;
            };
            let partner = labeled.raced_with.and_then(|task| self.actual.facts.identity(task));
            match labeled.label.as_str() {
                "wrong_here" | "fed" | "raced" if self.may_be(id, &labeled.label, partner) => {
                    judgment.named = true;
                }
                "wrong_here" | "fed" | "raced" => {
                    judgment
                        .innocents
                        .push((labeled.task, format!("{}: {}", labeled.label, self.truth_about(id))));
                }
                _ => {}
            }
        }
        for (position, &task) in answer.first_wrong.iter().enumerate() {
            let Some(id) = self.actual.facts.identity(task) else { continue };
            let label = answer.label(task);
            let is_cause = matches!(label, "wrong_here" | "fed" | "raced");
            let may_be_named = match is_cause {
                true => !judgment.innocents.iter().any(|(innocent, _)| *innocent == task),
                false => self.is_guilty(id) || self.is_of_race(id),
            };
            if !may_be_named && !is_cause {
                judgment.innocents.push((task, format!("first_wrong, {label}: {}", self.truth_about(id))));
            }
            judgment.named |= may_be_named;
            judgment.named_first |= position == 0 && may_be_named;
        }
        for mention in answer.mentions.iter().filter(|mention| !self.is_true(mention)) {
            let Mention { task, claim, .. } = *mention;
            // A false label counts once.
            if !judgment.innocents.iter().any(|(innocent, _)| *innocent == task) {
                judgment
                    .innocents
                    .push((task, format!("{claim:?} in `{}`: {}", mention.words, self.truth_of(mention))));
            }
        }
        let passes = answer.verdict == "pass";
        let is_accepted = passes || answer.verdict == "undecided" && self.has_unattributed_difference();
        let is_accused =
            answer.verdict == "fail" && ["outside", "stopped"].contains(&answer.failure.as_str());
        judgment.right_run_failed =
            self.fault.is_right() && (is_accused || !is_accepted && self.is_comparable());
        judgment.wrong_run_passed = passes && self.is_visibly_wrong();
        judgment
    }

    /// Whether what an answer claims about a task besides its label is true.
    fn is_true(&self, mention: &Mention) -> bool {
        let run = if mention.of_golden { &self.golden } else { &self.actual };
        let Some(id) = run.facts.identity(mention.task) else {
            // A read by the host at the end of a run.
            return mention.claim == Claim::Fed;
        };
        match mention.claim {
            Claim::Wrong | Claim::Other => self.is_guilty(id),
            Claim::WrongOutput => self.is_guilty(id) || self.has_wrong_output(id),
            Claim::Fed => self.is_guilty(id) || self.reads_from_elsewhere(id),
            Claim::Raced => self.is_of_race(id),
            Claim::Extra => self.golden.task(id).is_none(),
            Claim::Missing => self.actual.task(id).is_none(),
            Claim::Stopped => false,
        }
    }

    fn has_wrong_output(&self, id: usize) -> bool {
        let (Some(actual), Some(golden)) = (self.actual.task(id), self.golden.task(id)) else { return false };
        let mut args = actual.args.iter().zip(&golden.args);
        args.any(|(left, right)| (0..common(left, right)).any(|at| is_visible_error(left, right, at)))
    }

    fn truth_of(&self, mention: &Mention) -> String {
        let run = if mention.of_golden { &self.golden } else { &self.actual };
        run.facts.identity(mention.task).map_or_else(|| "it only reads".to_owned(), |id| self.truth_about(id))
    }

    fn is_guilty(&self, id: usize) -> bool {
        self.guilt.guilty.contains(&id)
    }

    fn is_of_race(&self, id: usize) -> bool {
        let is_of = |(writer, reader)| writer == id || reader == id || self.is_overtaken(id, reader);
        self.guilt.race.is_some_and(is_of)
    }

    /// Whether a launch wrote something before the early reader read it in the golden run, and only after that in this run.
    fn is_overtaken(&self, id: usize, reader: usize) -> bool {
        let position = |id: usize| self.actual.traces.iter().position(|trace| trace.id == id);
        let is_later = position(id).zip(position(reader)).is_some_and(|(writer, reader)| reader < writer);
        let Some(golden) = self.golden.task(reader).filter(|_| is_later) else { return false };
        golden.args.iter().any(|arg| {
            let is_read = |at: usize| arg.read[at] || arg.role_known && arg.access.reads();
            (0..arg.sources.len()).any(|at| arg.sources[at] == Source::Launch(id) && is_read(at))
        })
    }

    fn may_be(&self, id: usize, label: &str, partner: Option<usize>) -> bool {
        match label {
            "raced" => {
                self.is_of_race(id) && partner.is_none_or(|other| other != id && self.is_of_race(other))
            }
            "fed" => self.is_guilty(id) || self.reads_from_elsewhere(id),
            _ => self.is_guilty(id),
        }
    }

    /// Whether a task reads an element that differs and has another source than in the golden run.
    pub fn reads_from_elsewhere(&self, id: usize) -> bool {
        let (Some(actual), Some(golden)) = (self.actual.task(id), self.golden.task(id)) else { return false };
        actual.with_hidden().zip(golden.with_hidden()).any(|(actual, golden)| {
            let count = common(actual, golden);
            // What a program declares as an input, it may read.
            let may_read = |at: usize| actual.read[at] || actual.role_known && actual.access.reads();
            let mut read =
                (0..count).filter(|&at| may_read(at) && actual.before_of(at) != golden.before_of(at));
            read.any(|at| self.is_elsewhere(actual.sources[at], golden.sources[at]))
        })
    }

    fn is_elsewhere(&self, actual: Source, golden: Source) -> bool {
        let is_of_task = match actual {
            Source::Launch(_) => true,
            Source::Host(id) => self.actual.facts.ids.iter().any(|(of, _)| *of == id) && !self.is_guilty(id),
            Source::Garbage | Source::Stray(_) => false,
        };
        actual != golden || !is_of_task
    }

    /// What is true about a task that did nothing wrong.
    fn truth_about(&self, id: usize) -> String {
        let (Some(actual), Some(golden)) = (self.actual.task(id), self.golden.task(id)) else {
            return "it is only in this run".to_owned();
        };
        let is_written_wrong = self.has_wrong_output(id);
        let mut inputs = Vec::new();
        for (arg, (left, right)) in actual.args.iter().zip(&golden.args).enumerate() {
            let differs = |at: &usize| {
                left.read[*at] && left.element.is_outside(left.before_of(*at), right.before_of(*at))
            };
            let Some(at) = (0..common(left, right)).find(differs) else { continue };
            let source = match left.sources[at] {
                Source::Launch(of) if right.sources[at] == left.sources[at] => {
                    let is_recorded = self.actual.facts.content.keys().any(|(task, _, _)| *task == of);
                    format!("a launch that {} recorded", if is_recorded { "is" } else { "is not" })
                }
                Source::Launch(_) => "another launch than in the golden run".to_owned(),
                Source::Garbage => "uninitialized memory".to_owned(),
                Source::Host(_) => "the host".to_owned(),
                Source::Stray(_) => "a launch that wrote outside of its arguments".to_owned(),
            };
            let (left, right) = self.content(id, arg, false);
            let captured =
                if left == Content::None || right == Content::None { ", not captured" } else { "" };
            inputs.push(format!("argument {arg} from {source}{captured}"));
        }
        match (is_written_wrong, inputs.is_empty()) {
            (false, _) => "everything that it wrote is right".to_owned(),
            (true, true) => "what it wrote differs although what it read does not".to_owned(),
            (true, false) => format!("it read wrong elements: {}", inputs.join(", ")),
        }
    }

    /// Launches of both runs that are certainly partners. Writes by the host have no names, so those of a pool look alike.
    fn pairs(&self) -> impl Iterator<Item = (&TaskTrace, &TaskTrace)> {
        let is_certain = |actual: &&TaskTrace| actual.kernel.is_some() || !self.style.is_pool;
        let actual = self.actual.traces.iter().filter(is_certain);
        actual.filter_map(|actual| Some((actual, self.golden.task(actual.id)?)))
    }

    fn is_certain(&self) -> bool {
        let has_all = !self.actual.capture.filters_tasks() && !self.golden.capture.filters_tasks();
        has_all && (self.has_names || !self.fault.changes_structure() && !self.style.is_pool)
    }

    /// Whether both dumps have everything that some task left, and it proves to be equal or right.
    fn is_comparable(&self) -> bool {
        self.is_certain()
            && self.pairs().any(|(actual, golden)| {
                let args = actual.args.iter().zip(&golden.args).enumerate();
                let mut written =
                    args.filter(|(_, (left, _))| !left.role_known || left.access.writes()).peekable();
                written.peek().is_some()
                    && written.all(|(arg, (left, right))| match self.content(actual.id, arg, true) {
                        (Content::Full, Content::Full) => true,
                        (Content::None, _) | (_, Content::None) => false,
                        _ => left.after == right.after,
                    })
            })
    }

    /// Whether content after a task differs, and the dumps do not show whether the task wrote it.
    fn has_unattributed_difference(&self) -> bool {
        self.pairs().any(|(actual, golden)| {
            if (actual.overlaps.is_some() || golden.overlaps.is_some())
                && has_foreign_difference(actual, golden)
            {
                return true;
            }
            actual.args.iter().zip(&golden.args).enumerate().any(|(arg, (left, right))| {
                let has_none = |(of_actual, of_golden)| [of_actual, of_golden].contains(&Content::None);
                let is_output = left.role_known && !left.access.reads();
                !is_output
                    && left.after != right.after
                    && !has_none(self.content(actual.id, arg, true))
                    && has_none(self.content(actual.id, arg, false))
            })
        })
    }

    fn content(&self, id: usize, arg: usize, is_after: bool) -> (Content, Content) {
        let of = |run: &Run<'_>| run.facts.content(id, arg, is_after);
        (of(&self.actual), of(&self.golden))
    }

    fn is_visibly_wrong(&self) -> bool {
        self.is_certain() && self.pairs().any(|(actual, golden)| self.has_visible_error(actual, golden))
    }

    /// Whether both dumps show an element outside its rule that the task wrote in one of the runs.
    fn has_visible_error(&self, actual: &TaskTrace, golden: &TaskTrace) -> bool {
        actual.args.iter().zip(&golden.args).enumerate().any(|(arg, (left, right))| {
            if left.places.len() != right.places.len() {
                return false;
            }
            let is_wrong = (0..left.places.len()).any(|at| is_visible_error(left, right, at));
            match self.content(actual.id, arg, true) {
                (Content::Full, Content::Full) => is_wrong && self.shows_writes(actual.id, arg, left),
                (Content::None, _) | (_, Content::None) => false,
                // Another task may have written what differs at the same time.
                _ if actual.overlaps.is_some() || golden.overlaps.is_some() => false,
                _ => is_wrong && !left.element.is_float() && self.hash_accuses(actual.id, arg, left, right),
            }
        })
    }

    /// Whether the dumps show which elements were written: the role says so, or both contents are there.
    fn shows_writes(&self, id: usize, arg: usize, trace: &ArgTrace) -> bool {
        let is_output = trace.role_known && !trace.access.reads();
        is_output || self.content(id, arg, false) == (Content::Full, Content::Full)
    }

    fn hash_accuses(&self, id: usize, arg: usize, actual: &ArgTrace, golden: &ArgTrace) -> bool {
        let (left, right) = self.content(id, arg, false);
        let was_equal = left != Content::None && right != Content::None && actual.before == golden.before;
        (actual.role_known && actual.access == crate::program::Access::Write) || was_equal
    }

    /// Whether the facts decide who is at fault, as the documentation of this module says.
    fn is_decidable(&self) -> bool {
        if self.fault.is_right() || !self.is_certain() {
            return false;
        }
        let is_ordered = self.is_ordered();
        if self.style.shares {
            return false;
        }
        let roles_known = self.actual.traces.iter().flat_map(|trace| &trace.args).all(|arg| arg.role_known);
        if !is_ordered && !roles_known {
            return false;
        }
        match self.fault {
            Fault::Value
            | Fault::Last
            | Fault::Nan
            | Fault::Stale
            | Fault::Code
            | Fault::Scalar
            | Fault::Two => {
                self.first_guilty().is_some_and(|(actual, golden)| self.proves_guilt(actual, golden))
            }
            // Without declared roles, an access that the program does not order may be a write.
            _ => {
                let is_known = roles_known || self.style.lanes == 1;
                self.has_all_contents() && is_known && is_ordered && self.shows_cause()
            }
        }
    }

    /// Whether the facts show the order of all tasks. The commands of a queue are ordered only if the program says so, and
    /// no edge orders a write by the host with launches of other lanes.
    fn is_ordered(&self) -> bool {
        let style = self.style;
        let has_lane_order = !style.queues || style.declares_lane_order;
        let has_host_writes = self.actual.traces.iter().any(|trace| trace.kernel.is_none());
        has_lane_order && (style.lanes == 1 || style.edges == Edges::Complete && !has_host_writes)
    }

    /// The first launch that wrote something wrong, if it is guilty.
    fn first_guilty(&self) -> Option<(&TaskTrace, &TaskTrace)> {
        let is_wrong = |(actual, golden): &(&TaskTrace, &TaskTrace)| {
            let mut args = actual.args.iter().zip(&golden.args);
            args.any(|(left, right)| {
                (0..common(left, right))
                    .any(|at| left.after_of(at) != right.after_of(at) && is_visible_error(left, right, at))
            })
        };
        let may_prove = |actual: &TaskTrace, golden: &TaskTrace| {
            self.is_guilty(actual.id) && actual.overlaps.is_none() && golden.overlaps.is_none()
        };
        self.pairs().find(is_wrong).filter(|(actual, golden)| may_prove(actual, golden))
    }

    fn proves_guilt(&self, actual: &TaskTrace, golden: &TaskTrace) -> bool {
        let inputs_are_right =
            actual.args.iter().zip(&golden.args).enumerate().all(|(arg, (left, right))| {
                if left.role_known && !left.access.reads() {
                    // If nothing of it was captured, only the kernel's declaration shows that it is an output. A
                    // declaration ends before the first argument of unknown role.
                    let (here, there) = self.content(actual.id, arg, true);
                    let is_declared =
                        self.style.declares_args && actual.args[..arg].iter().all(|arg| arg.role_known);
                    return here != Content::None && there != Content::None || is_declared;
                }
                match self.content(actual.id, arg, false) {
                    (Content::None, _) | (_, Content::None) => false,
                    (Content::Full, Content::Full) if left.places.len() != right.places.len() => false,
                    (Content::Full, Content::Full) => (0..left.places.len()).all(|at| {
                        let (here, there) = (left.before_of(at), right.before_of(at));
                        // A right kernel may amplify what is not equal.
                        here == there || !left.read[at] && !left.element.is_outside(here, there)
                    }),
                    _ => left.before == right.before,
                }
            });
        let has_scalars = |run: &Run<'_>| run.facts.scalars.get(&actual.id).copied().unwrap_or(true);
        inputs_are_right
            && has_scalars(&self.actual)
            && has_scalars(&self.golden)
            && self.has_visible_error(actual, golden)
    }

    fn has_all_contents(&self) -> bool {
        let is_full = |run: &Run<'_>| {
            run.capture.is_complete() && run.facts.content.values().all(|content| *content == Content::Full)
        };
        is_full(&self.actual) && is_full(&self.golden)
    }

    /// Whether a task that may be named wrote something that is visibly wrong.
    fn shows_cause(&self) -> bool {
        self.pairs().any(|(actual, golden)| {
            let may_be_named = self.is_guilty(actual.id)
                || self.guilt.race.is_some_and(|(_, reader)| reader == actual.id)
                || self.reads_from_elsewhere(actual.id);
            may_be_named && self.has_visible_error(actual, golden)
        })
    }
}

/// Number of elements that an argument has in both runs. It has fewer in one of them if it is in another buffer.
fn common(actual: &ArgTrace, golden: &ArgTrace) -> usize {
    actual.places.len().min(golden.places.len())
}

/// Whether what a task left differs in an element that it did not write.
fn has_foreign_difference(actual: &TaskTrace, golden: &TaskTrace) -> bool {
    actual.args.iter().zip(&golden.args).any(|(left, right)| {
        (0..common(left, right))
            .any(|at| !left.written[at] && !right.written[at] && left.after_of(at) != right.after_of(at))
    })
}

/// Whether an element counts as written and is outside its rule.
fn is_visible_error(actual: &ArgTrace, golden: &ArgTrace, at: usize) -> bool {
    let (left, right) = (actual.after_of(at), golden.after_of(at));
    let changed = |trace: &ArgTrace| trace.written[at] && trace.before_of(at) != trace.after_of(at);
    let declared = actual.role_known && (actual.written[at] || golden.written[at]);
    (declared || changed(actual) || changed(golden)) && actual.element.is_outside(left, right)
}

#[cfg(test)]
mod tests;
