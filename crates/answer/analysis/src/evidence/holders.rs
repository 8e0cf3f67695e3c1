//! What the last tasks that held the memory of an argument left there.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, ArgumentSnapshot, FormatError, Task};

use super::Gatherer;
use super::content::equal_part;
use super::marks::{ErrorOrigin, Mark, Marks};
use super::spans::Spans;
use crate::compare::{damage, unless_gone};
use crate::graph::view::{Piece, pieces};
use crate::graph::{OutputRef, TensorView};
use crate::provenance::{CompareUnit, SharedRange, shared_ranges};

const BY_HASH: &str = "hashes do not show which of its bytes differ; record both runs with --dump-tensor=full to compare \
    contents";
const NOT_STORED: &str = "it is only part of what other tasks left, and not all payloads are stored; record with \
    --dump-tensor=full";

/// The argument whose origins are sought.
pub(super) struct Question<'r> {
    pub task: Task<'r>,
    pub arg: Argument<'r>,
    /// The same argument of the golden's task, if it was captured.
    pub other: Option<Argument<'r>>,
    pub pieces: Vec<Piece>,
    /// Its captured content before the task.
    pub content: Option<Vec<u8>>,
    pub how: Differs,
}

/// What is known about the positions in question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Differs {
    /// All of them differ from the golden.
    All,
    /// Some of them do; contents are missing.
    Some,
    /// Maybe none of them do: there is nothing to compare with.
    Maybe,
}

/// The answer so far.
#[derive(Default)]
pub(super) struct Answer {
    pub marks: Vec<Mark>,
    /// The positions without an origin.
    pub left: Spans,
    /// Whether a recorded task defined some part of the argument.
    pub is_defined: bool,
}

impl Answer {
    pub fn mark(&mut self, spans: &Spans, origin: ErrorOrigin) {
        self.marks.extend(Marks::of_spans(spans, origin).0);
    }

    /// Whether the difference may lie in parts that no task of the run wrote, which may differ between two right runs.
    pub fn may_differ_elsewhere(&self, left: &Spans) -> bool {
        !left.is_empty() || self.marks.iter().any(|mark| !mark.origin.is_of_run())
    }

    /// What was not compared is the origin only if nothing else can be.
    pub fn forget_not_compared(&mut self) {
        for mark in &mut self.marks {
            if let ErrorOrigin::NotCompared(reason) = mark.origin {
                mark.origin = ErrorOrigin::Unknown(reason);
            }
        }
    }
}

impl<'r> Gatherer<'r> {
    /// The origin of differing content that a task left where its own output is within its rule.
    fn right_output(&mut self, question: &Question<'r>, holder: OutputRef) -> ErrorOrigin {
        let Question { task, arg, .. } = *question;
        let own = self.rules.rule(task.place(), arg, DumpStage::BeforeDispatch);
        let written = self.ours.graph.output(holder);
        let theirs = written.map(|written| self.rules.rule(holder.task, written, DumpStage::AfterCompletion));
        self.right_output_of(holder, theirs != Some(own))
    }

    pub(super) fn right_output_of(&mut self, holder: OutputRef, has_other_rule: bool) -> ErrorOrigin {
        let Some(written) = self.ours.graph.output(holder) else { return ErrorOrigin::External };
        let partner = self.matching.partner[holder.task];
        if let Some(reason) = self.matching.uncertain.get(&holder.task) {
            return self.evidence.not_compared(written, reason.clone());
        }
        if partner.is_none() && self.evidence.gap.is_none() {
            return ErrorOrigin::Misplaced(holder);
        }
        let golden = partner.and_then(|partner| self.golden.graph.task(partner).counterpart(written));
        match golden.and_then(|golden| golden.hash_after()).zip(written.hash_after()) {
            None => {
                let task = self.ours.graph.task(holder.task).task_id;
                let reason = format!("what task {task:#x} left there was not captured in both runs");
                self.evidence.not_compared(written, reason)
            }
            Some((golden, ours)) if golden != ours && has_other_rule => {
                let task = self.ours.graph.task(holder.task).task_id;
                let reason = format!(
                    "what task {task:#x} left there is within its rule; this argument has another rule"
                );
                self.evidence.unknown(reason)
            }
            Some(_) => ErrorOrigin::Misplaced(holder),
        }
    }

    /// Assigns the positions that a holder covers.
    pub(super) fn ask_holder(
        &mut self,
        question: &Question<'r>,
        holder: OutputRef,
        answer: &mut Answer,
    ) -> Result<(), FormatError> {
        let holder = self.best_holder(holder);
        let written = self.ours.graph.output(holder);
        let theirs = written.and_then(TensorView::of).and_then(|view| pieces(&view));
        let Some((written, theirs)) = written.zip(theirs) else { return Ok(()) };
        let shared = shared_ranges(&question.pieces, &theirs, CompareUnit::HalfByte);
        let here = |range: &SharedRange| range.here as u64..(range.here + range.len) as u64;
        let covered = Spans::of_unsorted(shared.iter().map(here).collect()).and(&answer.left);
        if covered.is_empty() {
            answer.is_defined |= !shared.is_empty() && self.defines(holder);
            return Ok(());
        }
        answer.left = answer.left.without(&covered);
        let kept = match self.kept_since(question, (holder, written), &shared, &covered)? {
            Ok(kept) => kept,
            Err(reason) => {
                answer.is_defined = true;
                let origin = self.evidence.not_compared(written, reason);
                answer.mark(&covered, origin);
                return Ok(());
            }
        };
        let changed = match question.how == Differs::Some && !self.is_changed_only_here(question, holder) {
            // The rest of the argument may be all that differs.
            true => self.evidence.unknown(BY_HASH),
            false => ErrorOrigin::Changed(holder),
        };
        answer.mark(&covered.without(&kept), changed);
        for range in &shared {
            let here = here(range);
            for span in kept.within(here.clone()) {
                let (offset, len) = (range.there as u64 + (span.start - here.start), span.end - span.start);
                self.look_up(question, holder, (span.start, offset, len), answer);
            }
        }
        answer.is_defined |= self.defines(holder);
        Ok(())
    }

    /// Copies the origins of part of an output: `len` positions from `there` on, which are at `here` in the argument.
    fn look_up(
        &mut self,
        question: &Question<'r>,
        holder: OutputRef,
        (here, there, len): (u64, u64, u64),
        answer: &mut Answer,
    ) {
        let range = there..there + len;
        let (found, bare) = match self.evidence.outputs.get(&holder) {
            Some(output) => output.marks.within(range),
            None => (Vec::new(), vec![range]),
        };
        let moved = |span: std::ops::Range<u64>| span.start - there + here..span.end - there + here;
        let is_all_right = found.is_empty();
        answer.marks.extend(found.into_iter().map(|mark| Mark { span: moved(mark.span), ..mark }));
        // Without contents it is not known whether these parts differ at all.
        if question.how == Differs::Maybe || question.how == Differs::Some && !is_all_right {
            return;
        }
        if !bare.is_empty() {
            let origin = self.right_output(question, holder);
            answer.marks.extend(bare.into_iter().map(|span| Mark { span: moved(span), origin }));
        }
    }

    /// Whether an argument still is, in the golden, what the holder left there, while it changed in the dump.
    fn is_changed_only_here(&self, question: &Question<'r>, holder: OutputRef) -> bool {
        let is_certain = !self.matching.uncertain.contains_key(&holder.task);
        let is_right = !self.evidence.outputs.contains_key(&holder);
        let partner = self.matching.partner[holder.task].filter(|_| is_certain && is_right);
        let written = self.ours.graph.output(holder);
        let golden = partner.and_then(|partner| self.golden.graph.task(partner).counterpart(written?));
        let left = golden.and_then(|golden| golden.hash_after());
        left.is_some() && left == question.other.and_then(|other| other.hash_before())
    }

    /// Whether an output holds anything but uninitialized memory.
    fn defines(&self, holder: OutputRef) -> bool {
        self.evidence.outputs.get(&holder).is_none_or(|output| {
            let end = output.marks.0.last().map_or(0, |mark| mark.span.end);
            let is_undefined = |mark: &Mark| mark.origin == ErrorOrigin::Uninitialized;
            !output.marks.0.iter().all(is_undefined) || output.marks.spans() != Spans::up_to(end)
        })
    }

    /// The covered positions that still hold what a holder left. The inner error is why that is not known.
    pub(super) fn kept_since(
        &self,
        question: &Question<'r>,
        (holder, written): (OutputRef, Argument<'r>),
        shared: &[SharedRange],
        covered: &Spans,
    ) -> Result<Result<Spans, String>, FormatError> {
        let Question { task, arg, .. } = *question;
        let views = TensorView::of(arg).zip(TensorView::of(written));
        if views.is_some_and(|(own, theirs)| own.is_same_view(&theirs))
            && let Some((before, after)) = arg.hash_before().zip(written.hash_after())
        {
            if before == after {
                return Ok(Ok(covered.clone()));
            }
            if question.content.is_none() || !written.after.as_ref().is_some_and(ArgumentSnapshot::is_stored)
            {
                return Ok(Ok(Spans::default()));
            }
        }
        let snapshot = written.after.filter(ArgumentSnapshot::is_stored);
        let (Some(own), Some(snapshot)) = (&question.content, snapshot) else {
            return Ok(Err(NOT_STORED.into()));
        };
        let record = self.ours.dump.record(snapshot.record)?;
        let Some(theirs) = unless_gone(self.ours.dump.payload(&record))? else {
            return Ok(Err(NOT_STORED.into()));
        };
        let halves = arg.dtype.bits() < 8 || written.dtype.bits() < 8;
        let equal = shared.iter().flat_map(|range| equal_part(own, &theirs, range, halves).into_ranges());
        let kept = covered.and(&Spans::of_unsorted(equal.collect()));
        if kept != *covered
            && let Some(reason) = self.damage_of(task.place(), arg, holder)?
        {
            return Ok(Err(reason));
        }
        Ok(Ok(kept))
    }

    /// The damage of one of two payloads that differ, if any.
    fn damage_of(
        &self,
        task: usize,
        arg: Argument<'_>,
        holder: OutputRef,
    ) -> Result<Option<String>, FormatError> {
        let before = self.ours.graph.task(task).argument(arg.arg_index).and_then(|arg| arg.before);
        let after = self.ours.graph.output(holder).and_then(|output| output.after);
        for snapshot in [before, after].into_iter().flatten() {
            if let Some(reason) = damage(self.ours.dump, &self.ours.dump.record(snapshot.record)?)? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }
}
