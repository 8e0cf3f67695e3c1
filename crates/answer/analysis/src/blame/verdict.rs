//! The verdict on a whole dump: whether the comparison passes, and how much of it was judged.
//!
//! A comparison fails if a record that [counts](Blame::counts) is outside its rule, or if a task stopped
//! unlike in the golden, even if no task can be named as the cause. It also fails if nothing was judged.
//! Tasks that could not be judged fail it only if the user asks for that.

use std::collections::HashSet;

use tensortap_abi::DumpStage;
use tensortap_judge::{Evidence, Verdict};

use super::{BaselineKind, Blame, ComparedArg};
use crate::compare::GONE;
use crate::labels::{Finding, Label};

/// What a verdict requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictOptions {
    /// Tasks that could not be judged, and tasks and arrays without a counterpart, make the verdict fail.
    pub strict: bool,
    /// With `strict`: tasks and arrays without a counterpart do not make the verdict fail.
    pub allow_unmatched: bool,
}

/// Why a comparison fails. The first reason that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// A task was refused or never ended, unlike in the golden, or failed when it ran again.
    Stopped,
    /// A record that counts is outside its rule.
    Outside,
    /// The run crashed or hung, unlike the golden, although no record and no task shows it.
    Crashed,
    /// The run's own golden failed, but every kernel matches its reference.
    Orchestration,
    /// The run's own golden failed, but every kernel that has a reference matches it.
    KernelsWithoutReference,
    /// A record outside its rule may count: the dump does not show whether its task wrote it. This is no FAIL, but the
    /// comparison does not pass either.
    Undecided,
    /// No task could be judged.
    NothingJudged,
    /// With `strict`: tasks or arrays have no counterpart.
    Unmatched,
    /// With `strict`: tasks could not be judged.
    Unjudged,
}

/// The verdict on a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlameVerdict {
    /// Why it fails; `None` if it passes.
    pub failure: Option<FailureReason>,
    /// Number of tasks with a label other than `unknown`.
    pub judged: usize,
    /// Number of tasks.
    pub of: usize,
    /// Number of records that count and are outside their rules.
    pub outside: usize,
    /// The first task, in the order of reports, with such a record, and the position of the record in
    /// [`Blame::compared_args`]. Outputs come before inputs. Without such a record: the first that [may
    /// count](Blame::is_open).
    pub first_outside: Option<(usize, usize)>,
}

impl FailureReason {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FailureReason::Stopped => "stopped",
            FailureReason::Outside => "outside",
            FailureReason::Crashed => "crashed",
            FailureReason::Undecided => "undecided",
            FailureReason::NothingJudged => "nothing_judged",
            FailureReason::Orchestration => "orchestration",
            FailureReason::KernelsWithoutReference => "kernels_without_reference",
            FailureReason::Unmatched => "unmatched",
            FailureReason::Unjudged => "unjudged",
        }
    }
}

impl BlameVerdict {
    /// Whether the comparison passes.
    #[must_use]
    pub const fn passes(&self) -> bool {
        self.failure.is_none()
    }
}

impl Blame {
    /// The verdict on the dump.
    #[must_use]
    pub fn verdict(&self, options: VerdictOptions) -> BlameVerdict {
        let unknown = self.count(Label::Unknown);
        let (judged, of) = (self.findings.len() - unknown, self.findings.len());
        let is_outside = |record: &ComparedArg| record.outcome.verdict == Verdict::Outside;
        let (outside, first_outside) =
            self.first_where(|task, record| is_outside(record) && self.counts(task, record));
        let (open, first_open) = self.first_where(|task, record| {
            is_damaged(record) || is_outside(record) && self.is_open(task, record)
        });
        let failure = self.failure(options, [outside, open].map(|count| count > 0), judged);
        let first_outside = first_outside.or(first_open);
        BlameVerdict { failure, judged, of, outside, first_outside }
    }

    fn failure(
        &self,
        options: VerdictOptions,
        [is_outside, is_open]: [bool; 2],
        judged: usize,
    ) -> Option<FailureReason> {
        // References and reruns compare no inputs, so the record of a race is not among the comparisons.
        let is_raced = self.basis != BaselineKind::Golden && self.count(Label::Raced) > 0;
        if !self.stopped.is_empty() {
            Some(FailureReason::Stopped)
        } else if is_outside || is_raced {
            Some(FailureReason::Outside)
        } else if self.run.crash.is_some() {
            Some(FailureReason::Crashed)
        } else if self.suspects_orchestration() {
            Some(FailureReason::Orchestration)
        } else if self.suspects_unjudged() {
            Some(FailureReason::KernelsWithoutReference)
        } else if is_open {
            Some(FailureReason::Undecided)
        } else if self.compared == 0 || judged == 0 {
            Some(FailureReason::NothingJudged)
        } else if options.strict {
            self.strict_failure(options.allow_unmatched)
        } else {
            None
        }
    }

    fn strict_failure(&self, allow_unmatched: bool) -> Option<FailureReason> {
        let without_partner: HashSet<usize> =
            self.matching.only_first.iter().map(|unmatched| unmatched.task).collect();
        let is_unjudged =
            |place: usize| self.findings[place].label == Label::Unknown && !without_partner.contains(&place);
        if !allow_unmatched && self.unmatched_count() > 0 {
            Some(FailureReason::Unmatched)
        } else {
            (0..self.findings.len()).any(is_unjudged).then_some(FailureReason::Unjudged)
        }
    }

    /// Whether the orchestration is the suspect: the run's own golden reports wrong outputs, but every kernel
    /// computed what its reference computes.
    fn suspects_orchestration(&self) -> bool {
        let is_right = |finding: &Finding| finding.label == Label::Ok;
        let by_references =
            self.basis == BaselineKind::References && self.agreed_live.is_empty() && self.compared > 0;
        self.run.failed_golden && by_references && self.findings.iter().all(is_right)
    }

    /// Whether the culprit may be a kernel without a reference: the run's own golden reports wrong outputs,
    /// and every kernel with a reference is right.
    fn suspects_unjudged(&self) -> bool {
        let unjudged: HashSet<usize> = self.unjudged.iter().copied().collect();
        let is_open =
            |(place, finding): (usize, &Finding)| finding.label == Label::Ok || unjudged.contains(&place);
        self.run.failed_golden
            && self.basis == BaselineKind::References
            && !unjudged.is_empty()
            && self.findings.iter().enumerate().all(is_open)
    }

    /// Number of tasks and arrays, of the dump and of the golden, without a counterpart.
    #[must_use]
    pub fn unmatched_count(&self) -> usize {
        self.matching.only_first.len() + self.matching.only_second.len() + self.unused_arrays().len()
    }

    /// The number of records that meet a condition, and the first of them.
    fn first_where(&self, is: impl Fn(usize, &ComparedArg) -> bool) -> (usize, Option<(usize, usize)>) {
        let is = &is;
        let counting = |task: usize| {
            let records = self.compared_args[task].iter().enumerate();
            records.filter(move |(_, record)| is(task, record))
        };
        let mut tasks: Vec<usize> = Vec::new();
        let mut count = 0;
        for task in 0..self.compared_args.len() {
            let records = counting(task).count();
            tasks.extend((records > 0).then_some(task));
            count += records;
        }
        self.graph.sort(&mut tasks);
        let is_input = |record: &ComparedArg| record.stage == DumpStage::BeforeDispatch;
        let first = tasks.first().and_then(|&task| {
            let first = counting(task).min_by_key(|(at, record)| (is_input(record), *at));
            first.map(|(at, _)| (task, at))
        });
        (count, first)
    }
}

/// Whether the content of a record differs, but its payload is damaged. A live dump may have discarded it since.
fn is_damaged(record: &ComparedArg) -> bool {
    matches!(&record.outcome.evidence, Evidence::Damaged(reason) if reason != GONE)
}
