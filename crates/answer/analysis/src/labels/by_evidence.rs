//! Labels for a dump that was compared with a golden dump: causes follow from the origin of every differing element.

use std::ops::Range;

use tensortap_format::{Argument, ArgumentSnapshot, Task};

use super::labeler::{Cause, Labeler, finding};
use super::{ArgStatus, Finding, Label, Race, RaceKind, Status, TaskStatus};
use crate::evidence::{ErrorOrigin, Evidence, UninitializedUse};
use crate::graph::OutputRef;
use crate::provenance::InputProvenance;

const UNINITIALIZED: &str = "uninitialized memory: no task of either run wrote it since its allocation";

impl<C: Fn(usize, Argument<'_>) -> InputProvenance> Labeler<'_, C> {
    /// Why an argument is outside its rule before its task: the strongest of the causes of its elements.
    pub(super) fn cause_by_evidence(&self, evidence: &Evidence, task: usize, arg: Argument<'_>) -> Cause {
        self.strongest_cause(evidence, (task, arg), |_| true)
    }

    /// The strongest of the causes of elements whose origin is wanted.
    fn strongest_cause(
        &self,
        evidence: &Evidence,
        (task, arg): (usize, Argument<'_>),
        is_wanted: impl Fn(ErrorOrigin) -> bool,
    ) -> Cause {
        let Some(input) = evidence.input(task, arg.arg_index) else { return Cause::Within };
        let is_cause = match input.uninitialized {
            UninitializedUse::Updated => true,
            UninitializedUse::MayBeRead => input.is_undefined,
            UninitializedUse::PartlyOverwritten | UninitializedUse::Overwritten => false,
        };
        let cause = |(origin, bytes): (ErrorOrigin, Range<u64>)| match origin {
            ErrorOrigin::Written(_) => Cause::Inherited,
            ErrorOrigin::Passed(output) => self.passed_cause(evidence, output),
            ErrorOrigin::Changed(output) => self.changed_cause(task, arg, (output, &bytes)),
            ErrorOrigin::Misplaced(output) => self.misplaced_cause(evidence, task, arg, output),
            ErrorOrigin::Unwritten(output) => self.unwritten_cause(evidence, (task, arg), output),
            // Whatever the memory held before, the task overwrote it.
            ErrorOrigin::External if input.uninitialized == UninitializedUse::Overwritten => Cause::Within,
            ErrorOrigin::External | ErrorOrigin::Uninitialized if self.is_of_other_buffer(arg) => {
                Cause::Inherited
            }
            ErrorOrigin::External => self.external_cause(evidence, task, arg),
            ErrorOrigin::Uninitialized if is_cause => self.uninitialized_cause(task, arg),
            ErrorOrigin::Uninitialized => Cause::Within,
            ErrorOrigin::NotCompared(reason) | ErrorOrigin::Unknown(reason) => Cause::Unknown(format!(
                "argument {} before the task: {}",
                arg.arg_index,
                evidence.reason(reason)
            )),
        };
        let origins = input.origins().into_iter().filter(|(origin, _)| is_wanted(*origin));
        origins.map(cause).min_by_key(strength).unwrap_or(Cause::Within)
    }

    /// Whether the last task that held an argument used the memory in place of another buffer. What it left there was
    /// compared with that other buffer, so it is not known who wrote it before.
    fn is_of_other_buffer(&self, arg: Argument<'_>) -> bool {
        self.graph.last_holders(arg).iter().any(|holder| {
            let is_named = self.labels.get(holder.task).is_some_and(|label| label.is_root());
            is_named && self.inputs.other_buffers.contains_key(&(holder.task, holder.arg_index))
        })
    }

    /// Content that a task received wrong and did not change. If everything that this task wrote is right, the error did
    /// not begin there: the reader is the first task that shows it, and its cause is that of the task that passed it on.
    fn passed_cause(&self, evidence: &Evidence, output: OutputRef) -> Cause {
        let is_right = matches!(self.labels.get(output.task), Some(Label::Ok | Label::Masked));
        let passer = self.graph.task(output.task).argument(output.arg_index).filter(|_| is_right);
        let is_own = |origin: ErrorOrigin| !matches!(origin, ErrorOrigin::Passed(_));
        match passer.map(|arg| self.strongest_cause(evidence, (output.task, arg), is_own)) {
            Some(Cause::Fed(words)) => Cause::Fed(words),
            _ => Cause::Inherited,
        }
    }

    /// Content that is not what the last task left there.
    fn changed_cause(
        &self,
        task: usize,
        arg: Argument<'_>,
        (output, bytes): (OutputRef, &Range<u64>),
    ) -> Cause {
        let node = self.graph.task(task);
        if let Some(seen) = self.graph.observations() {
            if seen.unattributed(self.graph, task, arg, output).is_none() {
                return self.unordered_cause(seen, node, arg);
            }
        } else {
            let is_usual = self.inputs.golden_times.is_early(task, output.task);
            let is_early = self.races.started_before_end(task, output.task);
            if is_early && is_usual {
                return Cause::Unknown(format!(
                    "argument {} is not what task {:#x} left, which ran at the same time, as in the golden",
                    arg.arg_index,
                    self.graph.task(output.task).task_id
                ));
            }
            if is_early {
                return Cause::Raced(Race { other: output.task, kind: RaceKind::ReadTooEarly });
            }
            if let Some(race) = self.overwriter(task, arg).or_else(|| self.lost_order(task, arg)) {
                return Cause::Raced(race);
            }
            let overlap = |one: usize, other: usize| {
                self.races.started_before_end(one, other) && self.races.started_before_end(other, one)
            };
            let others = self.races.possible_overwriters(task, arg, Some(output));
            let is_meanwhile = |other: &&usize| overlap(**other, task) || overlap(**other, output.task);
            if let Some(&other) = others.iter().find(is_meanwhile) {
                let [left, other] = [output.task, other].map(|place| self.graph.task(place).task_id);
                return Cause::Unknown(format!(
                    "argument {} is not what task {left:#x} left; task {other:#x} ran at the same time and \
                     declares that it writes there",
                    arg.arg_index
                ));
            }
        }
        let left = self.graph.task(output.task).task_id;
        match &self.graph.gap {
            Some(gap) => Cause::Unknown(format!(
                "argument {} is not what task {left:#x} left; {gap}, so a task that was not captured may have written it",
                arg.arg_index
            )),
            None => Cause::Fed(self.unattributed_words(task, arg, (output, Some(bytes)))),
        }
    }

    /// Example: `an unattributed change: bytes 0 to 15 are not what task 0x1 left there, and no recorded task changed that
    /// since. Task 0x2, which ran in between, used the memory right next to it`.
    pub(super) fn unattributed_words(
        &self,
        task: usize,
        arg: Argument<'_>,
        (output, bytes): (OutputRef, Option<&Range<u64>>),
    ) -> String {
        let left = self.graph.task(output.task).task_id;
        let neighbor = self.neighbor_between((output.task, task), arg);
        let neighbor = neighbor.map_or_else(String::new, |neighbor| {
            let id = self.graph.task(neighbor).task_id;
            format!(". Task {id:#x}, which ran in between, used the memory right next to it")
        });
        // Hashes do not show which bytes changed.
        let is_stored = |snapshot: Option<ArgumentSnapshot>| snapshot.is_some_and(|one| one.is_stored());
        let written = self.graph.output(output);
        let has_bytes = is_stored(arg.before) && is_stored(written.and_then(|written| written.after));
        let what = match bytes.filter(|_| has_bytes) {
            Some(bytes) => {
                let last = bytes.end.saturating_sub(1).max(bytes.start);
                format!("bytes {} to {last} are", bytes.start)
            }
            None => "its content is".into(),
        };
        let seen = self.graph.observations();
        let host = match seen.is_some_and(|seen| seen.is_host_writable(self.graph.task(task), arg)) {
            true => "; the host may change that memory at any time",
            false => "",
        };
        format!(
            "an unattributed change: {what} not what task {left:#x} left there, and no recorded task changed that \
             since{host}{neighbor}"
        )
    }

    /// A task between two others that used memory next to an argument and may have written past its end.
    fn neighbor_between(&self, (from, to): (usize, usize), arg: Argument<'_>) -> Option<usize> {
        /// Larger gaps are rarely crossed by an index that is off by a little.
        const NEAR: u64 = 4096;
        /// Limit on the number of tasks looked at.
        const MOST: usize = 10_000;
        let (start, end) = span(arg)?;
        let is_next = |other: Argument<'_>| {
            let writes = other.may_be_written();
            span(other).is_some_and(|(first, past)| {
                writes && (past <= start && start - past < NEAR || end <= first && first - end < NEAR)
            })
        };
        (from + 1..to).take(MOST).find(|&place| self.graph.task(place).arguments().any(is_next))
    }

    /// Content that is right where the last task left it: the golden's content came from another task.
    fn misplaced_cause(
        &self,
        evidence: &Evidence,
        task: usize,
        arg: Argument<'_>,
        output: OutputRef,
    ) -> Cause {
        if let Some(race) = self.lost_order(task, arg) {
            return Cause::Raced(race);
        }
        let node = self.graph.task(task);
        let left = self.graph.task(output.task).task_id;
        if let Some(seen) = self.graph.observations() {
            if !seen.unordered(node, arg).is_none() {
                return self.unordered_cause(seen, node, arg);
            }
            if self.inputs.other_sources.contains_key(&(task, arg.arg_index)) {
                return self.other_source_cause(task, arg);
            }
        }
        if self.has_other_wiring(task, arg) {
            let words = self.other_buffer(task, arg);
            return Cause::Fed(
                words.unwrap_or_else(|| format!("taken differently than in the golden, from task {left:#x}")),
            );
        }
        let words = match self.statuses[output.task] {
            TaskStatus::Unmatched(_) => {
                format!("what task {left:#x} left there, which has no partner in the golden")
            }
            TaskStatus::Compared(_) => format!(
                "what task {left:#x} left there, where it is right; the golden's task received other content"
            ),
        };
        match evidence.gap() {
            Some(gap) => Cause::Unknown(format!("argument {} is {words}; {gap}", arg.arg_index)),
            None => Cause::Fed(words),
        }
    }

    /// Newly allocated memory that a task writes in the golden, and no task in the dump.
    fn unwritten_cause(
        &self,
        evidence: &Evidence,
        (task, arg): (usize, Argument<'_>),
        golden: OutputRef,
    ) -> Cause {
        if let Some(race) = self.lost_order(task, arg) {
            return Cause::Raced(race);
        }
        let (seen, node) = (self.graph.observations(), self.graph.task(task));
        if let Some(seen) = seen.filter(|seen| !seen.unordered(node, arg).is_none()) {
            return self.unordered_cause(seen, node, arg);
        }
        let writer = evidence.golden_task(golden);
        let words = format!("uninitialized memory, which task {writer:#x} of the golden writes before");
        match evidence.gap() {
            Some(gap) => Cause::Unknown(format!("argument {} is {words}; {gap}", arg.arg_index)),
            None => Cause::Fed(words),
        }
    }

    /// Content that no recorded task left there.
    fn external_cause(&self, evidence: &Evidence, task: usize, arg: Argument<'_>) -> Cause {
        let node = self.graph.task(task);
        if let Some(race) = self.lost_order(task, arg) {
            return Cause::Raced(race);
        }
        let seen = self.graph.observations();
        if let Some(seen) = seen.filter(|seen| !seen.unordered(node, arg).is_none()) {
            return self.unordered_cause(seen, node, arg);
        }
        if let Some(gap) = evidence.gap() {
            return Cause::Unknown(format!(
                "no captured task wrote argument {}; {gap}, so an uncaptured task may have written it",
                arg.arg_index
            ));
        }
        if let Some(seen) = seen {
            return self.without_producer_cause(seen, node, arg);
        }
        if let Some(&other) = self.inputs.unordered_writers.get(&(task, arg.arg_index)) {
            let other = self.graph.task(other).task_id;
            return Cause::Unknown(format!(
                "no earlier task wrote argument {}, but task {other:#x} declares to write there, and nothing orders the two",
                arg.arg_index
            ));
        }
        self.overwriter(task, arg).map_or_else(|| self.external_words(task, arg), Cause::Raced)
    }

    fn uninitialized_cause(&self, task: usize, arg: Argument<'_>) -> Cause {
        let node = self.graph.task(task);
        match self.graph.observations() {
            Some(seen) => self.without_producer_cause(seen, node, arg),
            None => Cause::Fed(UNINITIALIZED.into()),
        }
    }

    /// A task out of order whose output an argument holds.
    fn overwriter(&self, task: usize, arg: Argument<'_>) -> Option<Race> {
        let &other = self.inputs.overwriters.get(&(task, arg.arg_index))?;
        Some(Race { other, kind: RaceKind::Overwritten })
    }

    /// The task that should have written an argument before, as in the golden, but that nothing orders with this one.
    fn lost_order(&self, task: usize, arg: Argument<'_>) -> Option<Race> {
        let &other = self.inputs.lost_order.get(&(task, arg.arg_index))?;
        Some(Race { other, kind: RaceKind::Unordered })
    }

    /// The argument that shows that a task is wrong, and whether the task itself wrote the wrong elements.
    pub(super) fn wrong_argument<'a>(
        &self,
        evidence: &Evidence,
        task: usize,
        args: &[(Argument<'a>, &ArgStatus)],
    ) -> Option<(Argument<'a>, bool)> {
        let wrote = args.iter().find(|(arg, _)| evidence.wrote_wrong(task, arg.arg_index));
        let passed = || {
            args.iter().find(|(arg, status)| {
                arg.role_known
                    && status.after == Status::Outside
                    && evidence.is_left_wrong(task, arg.arg_index)
            })
        };
        wrote.map(|(arg, _)| (*arg, true)).or_else(|| passed().map(|(arg, _)| (*arg, false)))
    }

    /// The label of a task with an argument for which it is not known whether the task wrote it wrong.
    pub(super) fn undecided_output(
        &self,
        evidence: &Evidence,
        task: Task<'_>,
        args: &[(Argument<'_>, &ArgStatus)],
    ) -> Option<Finding> {
        args.iter().filter(|(_, status)| status.after == Status::Outside).find_map(|(arg, _)| {
            let reason = evidence.unknown_output(task.place(), arg.arg_index)?;
            let reason = format!("argument {} after the task: {reason}", arg.arg_index);
            Some(finding(Label::Unknown, Some(reason), Some(arg.arg_index)))
        })
    }
}

/// The order of causes: the smallest decides.
fn strength(cause: &Cause) -> u8 {
    match cause {
        Cause::Raced(_) => 0,
        Cause::Inherited => 1,
        Cause::Unknown(_) => 2,
        Cause::Fed(_) => 3,
        Cause::Within => 4,
    }
}

/// First address and end of the memory of an argument.
fn span(arg: Argument<'_>) -> Option<(u64, u64)> {
    let footprint = crate::graph::TensorView::of(arg)?.footprint;
    Some((footprint.start(), footprint.start().checked_add(footprint.span_bytes())?))
}
