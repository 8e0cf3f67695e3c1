//! Evidence about arguments before their tasks: who left the wrong elements there?

use tensortap_abi::{DumpStage, EdgeCause};
use tensortap_format::{Argument, ArgumentSnapshot, FormatError, Task};

use super::content::{content, equal_part, written_by};
use super::spans::Spans;
use super::{ArgPair, ErrorOrigin, Gatherer, InputEvidence, Mark, Marks};
use crate::compare::{damage, unless_gone};
use crate::graph::view::{Piece, piece_count, pieces};
use crate::graph::{OriginBasis, OutputRef, TaskGraph, TensorView};
use crate::provenance::{CompareUnit, SharedRange, shared_ranges};

/// Limit on the number of contiguous pieces of one argument and of its holders together.
const MAX_PIECES: usize = 1 << 22;

const BY_HASH: &str = "hashes do not show which of its bytes differ; record both runs with --dump-tensor=full to compare \
    contents";

const GOLDEN_NOT_ORDERED: &str =
    "in the golden, nothing orders the task that received it with another task that may have written it";
const NOT_STORED: &str = "it is only part of what other tasks left, and not all payloads are stored; record with \
    --dump-tensor=full";

/// The argument whose origins are sought.
struct Question<'r> {
    task: Task<'r>,
    arg: Argument<'r>,
    /// The same argument of the golden's task, if it was captured.
    other: Option<Argument<'r>>,
    pieces: Vec<Piece>,
    /// Its captured content before the task.
    content: Option<Vec<u8>>,
    how: Differs,
}

/// What is known about the positions in question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Differs {
    /// All of them differ from the golden.
    All,
    /// Some of them do; contents are missing.
    Some,
    /// Maybe none of them do: there is nothing to compare with.
    Maybe,
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    marks: Vec<Mark>,
    /// The positions without an origin.
    left: Spans,
    /// Whether a recorded task defined some part of the argument.
    is_defined: bool,
}

impl Answer {
    fn mark(&mut self, spans: &Spans, origin: ErrorOrigin) {
        self.marks.extend(Marks::of_spans(spans, origin).0);
    }

    /// Whether the difference may lie in parts that no task of the run wrote, which may differ between two right runs.
    fn may_differ_elsewhere(&self, left: &Spans) -> bool {
        !left.is_empty() || self.marks.iter().any(|mark| !mark.origin.is_of_run())
    }

    /// What was not compared is the origin only if nothing else can be.
    fn forget_not_compared(&mut self) {
        for mark in &mut self.marks {
            if let ErrorOrigin::NotCompared(reason) = mark.origin {
                mark.origin = ErrorOrigin::Unknown(reason);
            }
        }
    }
}

impl<'r> Gatherer<'r> {
    /// The evidence about an argument that is outside its rule before its task.
    pub(super) fn input_evidence(&mut self, pair: ArgPair<'r>) -> Result<InputEvidence, FormatError> {
        let whole =
            |origin| InputEvidence { marks: Marks::all(pair.end(), origin), ..InputEvidence::default() };
        let graph = self.ours.graph;
        match graph.origin(pair.arg).basis {
            OriginBasis::Bytes => {}
            OriginBasis::Undecided => {
                return Ok(whole(
                    self.evidence
                        .unknown("the task that wrote it was not determined: the search takes too long"),
                ));
            }
            OriginBasis::Nothing => {
                return Ok(whole(self.evidence.unknown("the dump does not record where it came from")));
            }
            OriginBasis::Edges | OriginBasis::Content => {
                let origin = self.origin_without_addresses(pair);
                return Ok(whole(origin));
            }
        }
        if let Some(evidence) = self.same_as_last_holder(pair) {
            return Ok(evidence);
        }
        let Some(own) = TensorView::of(pair.arg).and_then(|view| pieces(&view)) else {
            return Ok(whole(self.evidence.unknown("its view has too many pieces")));
        };
        let (failing, content, how) = match self.difference(pair, DumpStage::BeforeDispatch)? {
            Some(found) => (found.failing, Some(found.content), Differs::All),
            None => (Spans::up_to(pair.end()), None, Differs::Some),
        };
        let mut answer = Answer { left: failing, ..Answer::default() };
        let mut room = MAX_PIECES.saturating_sub(own.len());
        let (task, arg, other) = (pair.task, pair.arg, Some(pair.other));
        let question = Question { task, arg, other, pieces: own, content, how };
        for &holder in graph.last_holders(pair.arg) {
            let Some(written) = graph.output(holder) else { continue };
            let needed = TensorView::of(written).map_or(usize::MAX, |view| piece_count(&view));
            let Some(rest) = room.checked_sub(needed) else {
                return Ok(whole(
                    self.evidence.unknown("the views of the tasks that wrote it have too many pieces"),
                ));
            };
            room = rest;
            self.ask_holder(&question, holder, &mut answer)?;
        }
        let unowned = self.without_holder(pair);
        let left = std::mem::take(&mut answer.left);
        // Without contents, other parts may be all that differs.
        if how == Differs::All || answer.marks.is_empty() {
            let left = match unowned {
                ErrorOrigin::Uninitialized => {
                    let left = self.take_remains(&question, left, &mut answer)?;
                    self.take_unwritten(pair, left, &mut answer)?
                }
                _ => left,
            };
            answer.mark(&left, unowned);
        } else if answer.may_differ_elsewhere(&left) {
            answer.forget_not_compared();
        }
        self.replace_remaining_garbage(pair, &mut answer)?;
        self.doubt_golden(pair, &mut answer);
        Ok(InputEvidence {
            marks: Marks::joined(answer.marks),
            is_undefined: !answer.is_defined,
            ..InputEvidence::default()
        })
    }

    /// What the last task here left uninitialized may have been written by a later task of the golden.
    fn replace_remaining_garbage(
        &mut self,
        pair: ArgPair<'r>,
        answer: &mut Answer,
    ) -> Result<(), FormatError> {
        let is_garbage = |mark: &Mark| mark.origin == ErrorOrigin::Uninitialized;
        if !answer.marks.iter().any(is_garbage) {
            return Ok(());
        }
        let graph = self.ours.graph;
        let known = graph.last_holders(pair.arg).iter().chain(graph.producers_of(pair.arg));
        let partners: Vec<Option<usize>> = known.map(|output| self.matching.partner[output.task]).collect();
        let writers: Vec<OutputRef> = self.golden.graph.producers_of(pair.other).to_vec();
        let writers = writers.into_iter().filter(|writer| !partners.contains(&Some(writer.task)));
        let (garbage, mut marks): (Vec<Mark>, Vec<Mark>) = answer.marks.drain(..).partition(is_garbage);
        let left = Spans::of_unsorted(garbage.into_iter().map(|mark| mark.span).collect());
        answer.marks.append(&mut marks);
        let left = self.take_written_by(pair, writers.collect(), left, answer)?;
        answer.mark(&left, ErrorOrigin::Uninitialized);
        Ok(())
    }

    /// If nothing orders the golden's task with others that may have written there, the golden's content may be wrong. If
    /// the task that left it has overlapping arguments here, and the golden's content is of another of these, it was not
    /// taken from elsewhere.
    fn doubt_golden(&mut self, pair: ArgPair<'r>, answer: &mut Answer) {
        for mark in &mut answer.marks {
            let ErrorOrigin::Misplaced(holder) = mark.origin else { continue };
            let partner = self.matching.partner[holder.task];
            let overlaps = |arg_index: u16| {
                let other = self.ours.graph.output(OutputRef { arg_index, ..holder });
                let views = other.and_then(TensorView::of).zip(TensorView::of(pair.arg));
                views.is_some_and(|(other, own)| other.shares(&own))
            };
            let is_other_arg = |there: OutputRef| {
                let is_other = Some(there.task) == partner && there.arg_index != holder.arg_index;
                is_other && overlaps(there.arg_index)
            };
            let owners = owners_of(self.golden.graph, pair.other, &mark.span);
            if owners.into_iter().any(is_other_arg) {
                let task = self.ours.graph.task(holder.task).task_id;
                let reason = format!("task {task:#x} left it there, in the golden through another argument");
                mark.origin = self.evidence.unknown(reason);
            }
        }
        let graph = self.golden.graph;
        let is_ordered =
            graph.observations().is_none_or(|seen| seen.unordered(pair.partner, pair.other).is_none());
        let depends =
            |mark: &Mark| matches!(mark.origin, ErrorOrigin::Misplaced(_) | ErrorOrigin::Unwritten(_));
        if is_ordered || !answer.marks.iter().any(depends) {
            return;
        }
        let origin = self.evidence.unknown(GOLDEN_NOT_ORDERED);
        answer.marks.iter_mut().filter(|mark| depends(mark)).for_each(|mark| mark.origin = origin);
    }

    /// Assigns the positions of newly allocated memory that a task of the golden wrote. Returns the other positions.
    fn take_unwritten(
        &mut self,
        pair: ArgPair<'r>,
        left: Spans,
        answer: &mut Answer,
    ) -> Result<Spans, FormatError> {
        let writers = self.golden.graph.producers_of(pair.other).to_vec();
        self.take_written_by(pair, writers, left, answer)
    }

    /// Assigns the positions that these outputs of the golden wrote. Returns the other positions.
    fn take_written_by(
        &mut self,
        pair: ArgPair<'r>,
        writers: Vec<OutputRef>,
        left: Spans,
        answer: &mut Answer,
    ) -> Result<Spans, FormatError> {
        let Some(own) = TensorView::of(pair.other).and_then(|view| pieces(&view)) else { return Ok(left) };
        let mut rest = left;
        for writer in writers {
            let Some(written) = self.golden.graph.output(writer) else { continue };
            let unwritten = written_by(self.golden, written, &own)?.and(&rest);
            if !unwritten.is_empty() {
                let id = self.golden.graph.task(writer.task).task_id;
                self.evidence.golden_tasks.insert(writer.task, id);
                answer.mark(&unwritten, ErrorOrigin::Unwritten(writer));
                rest = rest.without(&unwritten);
            }
        }
        Ok(rest)
    }

    /// Assigns the positions of newly allocated memory that still hold what a task left wrong there before. A task may
    /// have written the same there again, which looks as if it had written nothing. Returns the other positions.
    fn take_remains(
        &mut self,
        question: &Question<'r>,
        left: Spans,
        answer: &mut Answer,
    ) -> Result<Spans, FormatError> {
        let holders =
            self.earlier.as_ref().zip(TensorView::of(question.arg)).and_then(|(all, view)| all.last(&view));
        let mut rest = left;
        for holder in holders.unwrap_or_default() {
            let Some(written) = self.ours.graph.output(holder) else { continue };
            let Some(theirs) = TensorView::of(written).and_then(|view| pieces(&view)) else { continue };
            let Some(output) = self.evidence.outputs.get(&holder) else { continue };
            let shared = shared_ranges(&question.pieces, &theirs, CompareUnit::HalfByte);
            let wrong = shared.iter().flat_map(|range| {
                let there = range.there as u64..(range.there + range.len) as u64;
                let (here, from) = (range.here as u64, there.start);
                let marks = output.marks.within(there).0.into_iter();
                let wrong = marks.filter(|mark| mark.origin != ErrorOrigin::Uninitialized);
                wrong.map(move |mark| mark.span.start - from + here..mark.span.end - from + here)
            });
            let wrong = Spans::of_unsorted(wrong.collect()).and(&rest);
            if wrong.is_empty() {
                continue;
            }
            let kept = self.kept_since(question, (holder, written), &shared, &wrong)?;
            let remains = kept.map_or_else(|_| wrong.clone(), |kept| kept.and(&wrong));
            let task = self.ours.graph.task(holder.task).task_id;
            let origin = self.evidence.unknown(format!(
                "it was allocated anew, but still holds what task {task:#x} left there before; a task may have written \
                 the same again"
            ));
            answer.mark(&remains, origin);
            rest = rest.without(&remains);
        }
        Ok(rest)
    }

    /// The origin of something wrong that a task received in an argument without a counterpart in the golden: a wrong
    /// output of an earlier task, or a change since.
    pub(super) fn wrong_part(
        &mut self,
        task: Task<'r>,
        arg: Argument<'r>,
    ) -> Result<Option<ErrorOrigin>, FormatError> {
        let counts = |mark: &&Mark| mark.origin != ErrorOrigin::Uninitialized;
        Ok(self.received_marks(task, arg)?.0.iter().filter(counts).map(|mark| mark.origin).min())
    }

    /// The origins of everything wrong that a task received in an argument without a counterpart in the golden.
    pub(super) fn received_marks(&mut self, task: Task<'r>, arg: Argument<'r>) -> Result<Marks, FormatError> {
        let graph = self.ours.graph;
        let own = TensorView::of(arg).and_then(|view| pieces(&view)).filter(|own| own.len() <= MAX_PIECES);
        let Some(pieces) = own else { return Ok(Marks::default()) };
        let end = arg.content_bytes().unwrap_or(0).saturating_mul(2);
        let mut answer = Answer { left: Spans::up_to(end), ..Answer::default() };
        let content = content(self.ours.dump, arg, DumpStage::BeforeDispatch)?;
        let question = Question { task, arg, other: None, pieces, content, how: Differs::Maybe };
        for &holder in graph.last_holders(arg) {
            self.ask_holder(&question, holder, &mut answer)?;
        }
        Ok(Marks::joined(answer.marks))
    }

    /// The common case: one earlier output is the whole argument on both sides, with equal content. Then the origins are
    /// those of that output, and nothing needs to be read.
    fn same_as_last_holder(&self, pair: ArgPair<'r>) -> Option<InputEvidence> {
        let [holder] = self.ours.graph.last_holders(pair.arg) else { return None };
        let written = self.ours.graph.output(*holder)?;
        let partner = self.matching.partner[holder.task]?;
        let golden = self.golden.graph.task(partner).counterpart(written)?;
        let known = self.evidence.outputs.get(holder)?;
        let is_same_view = TensorView::of(pair.arg)?.is_same_view(&TensorView::of(written)?);
        let is_same = |one: Option<u128>, other: Option<u128>| one.is_some() && one == other;
        let is_handed_on = is_same(pair.arg.hash_before(), written.hash_after())
            && is_same(pair.other.hash_before(), golden.hash_after());
        (is_same_view && is_handed_on && pair.arg.dtype == written.dtype).then(|| {
            let is_defined = |mark: &Mark| mark.origin != ErrorOrigin::Uninitialized;
            let covers_all = known.marks.spans() == Spans::up_to(pair.end());
            InputEvidence {
                marks: known.marks.clone(),
                is_undefined: covers_all && !known.marks.0.iter().any(is_defined),
                ..InputEvidence::default()
            }
        })
    }

    /// The origin of an argument without an address: that of an output with the same content.
    fn origin_without_addresses(&mut self, pair: ArgPair<'r>) -> ErrorOrigin {
        let graph = self.ours.graph;
        let holders = graph.last_holders(pair.arg);
        if holders.is_empty() {
            return self.without_holder(pair);
        }
        let hash = pair.arg.hash_before();
        let has_it =
            |output: &&OutputRef| graph.output(**output).and_then(|output| output.hash_after()) == hash;
        match holders.iter().find(has_it).filter(|_| hash.is_some()) {
            Some(&holder) => self.left_by(holder),
            None => self.evidence.unknown("the dump does not record which bytes came from which task"),
        }
    }

    /// The origin of an argument that is entirely what a task left.
    fn left_by(&mut self, holder: OutputRef) -> ErrorOrigin {
        match self.evidence.outputs.get(&holder).and_then(|output| output.marks.0.first()) {
            Some(mark) => mark.origin,
            None => self.right_output_of(holder, false),
        }
    }

    /// The origin of differing content that a task left where its own output is within its rule.
    fn right_output(&mut self, question: &Question<'r>, holder: OutputRef) -> ErrorOrigin {
        let Question { task, arg, .. } = *question;
        let own = self.rules.rule(task.place(), arg, DumpStage::BeforeDispatch);
        let written = self.ours.graph.output(holder);
        let theirs = written.map(|written| self.rules.rule(holder.task, written, DumpStage::AfterCompletion));
        self.right_output_of(holder, theirs != Some(own))
    }

    fn right_output_of(&mut self, holder: OutputRef, has_other_rule: bool) -> ErrorOrigin {
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
    fn ask_holder(
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
    fn kept_since(
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

    /// The origin of positions that no recorded task held.
    fn without_holder(&mut self, pair: ArgPair<'r>) -> ErrorOrigin {
        let graph = self.ours.graph;
        let is_whole = self.evidence.gap.is_none();
        // The runtime saw a task write it, but what that task left was not captured.
        let writer = pair.task.producers().find(|edge| {
            let is_read = edge.why == EdgeCause::ReadAfterWrite.name();
            !is_whole && graph.has_derived_edges && is_read && edge.arg_index == pair.arg.arg_index
        });
        if let Some(edge) = writer {
            let task = edge.from;
            let reason = format!("what task {task:#x} left there was not captured in both runs");
            return ErrorOrigin::NotCompared(self.evidence.number_of(reason));
        }
        let is_fresh =
            is_fresh(graph, pair.task, pair.arg) && is_fresh(self.golden.graph, pair.partner, pair.other);
        match is_whole && is_fresh {
            true => ErrorOrigin::Uninitialized,
            false => ErrorOrigin::External,
        }
    }
}

/// The last outputs that held a part of an argument before its task.
fn owners_of(graph: &TaskGraph, arg: Argument<'_>, part: &std::ops::Range<u64>) -> Vec<OutputRef> {
    let Some(own) = TensorView::of(arg).and_then(|view| pieces(&view)) else {
        return graph.last_holders(arg).to_vec();
    };
    let mut owners = Vec::new();
    let mut left = Spans::of_unsorted(vec![part.clone()]);
    for &holder in graph.last_holders(arg).iter() {
        let view = graph.output(holder).and_then(TensorView::of);
        let Some(theirs) = view.and_then(|view| pieces(&view)) else { continue };
        let covered = covered_by(&own, &theirs).and(&left);
        if !covered.is_empty() {
            left = left.without(&covered);
            owners.push(holder);
        }
    }
    owners
}

/// The positions of an argument that share memory with an output.
pub(crate) fn covered_by(own: &[Piece], theirs: &[Piece]) -> Spans {
    let shared = shared_ranges(own, theirs, CompareUnit::HalfByte);
    Spans::of_unsorted(
        shared.iter().map(|range| range.here as u64..(range.here + range.len) as u64).collect(),
    )
}

/// Whether the memory of an argument was allocated during the recording, and neither the host nor a task that nothing
/// orders with this one may have written it unseen.
fn is_fresh(graph: &TaskGraph, task: Task<'_>, arg: Argument<'_>) -> bool {
    let Some(seen) = graph.observations() else { return false };
    let is_new = seen.allocation(task, arg).is_some() && !seen.is_host_writable(task, arg);
    is_new && seen.unordered(task, arg).is_none()
}
