//! Evidence about arguments before their tasks: who left the wrong elements there?

use tensortap_abi::{DumpStage, EdgeCause};
use tensortap_format::{Argument, FormatError, Task};

use super::content::{content, written_by};
use super::holders::{Answer, Differs, Question};
use super::spans::Spans;
use super::{ArgPair, ErrorOrigin, Gatherer, InputEvidence, Mark, Marks};
use crate::graph::view::{Piece, piece_count, pieces};
use crate::graph::{OriginBasis, OutputRef, TaskGraph, TensorView};
use crate::provenance::{CompareUnit, shared_ranges};

/// Limit on the number of contiguous pieces of one argument and of its holders together.
const MAX_PIECES: usize = 1 << 22;

const GOLDEN_NOT_ORDERED: &str =
    "in the golden, nothing orders the task that received it with another task that may have written it";

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
