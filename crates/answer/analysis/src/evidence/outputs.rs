//! Evidence about arguments after their tasks: which wrong elements did the task write?

use tensortap_abi::{DumpStage, Role};
use tensortap_format::{Argument, FormatError, Task};

use super::content::{ChangedElements, changed};
use super::inputs::covered_by;
use super::spans::Spans;
use super::{ArgPair, ErrorOrigin, Gatherer, InputEvidence, Mark, Marks, OutputEvidence};
use crate::graph::TensorView;
use crate::graph::candidates::is_of_one_run;
use crate::graph::view::pieces;
use crate::labels::Status;

/// Why bytes that a task may or may not have written are no evidence.
const NEEDS_CONTENT: &str = "the content before the task was not captured in both runs, so it is not known which bytes \
    the task wrote; record both runs with --dump-tensor=full";
const MAY_BE_WRITTEN: &str = "it was uninitialized, and the task that had it before wrote the memory around it; that task \
    may have written what was there already";
const NOT_ORDERED: &str =
    "nothing orders the task that received it with another task that may have written it";
const BY_CONTENT: &str =
    "hashes do not show which bytes differ; record both runs with --dump-tensor=full to compare contents";

impl<'r> Gatherer<'r> {
    /// The evidence about an argument that is outside its rule after its task.
    pub(super) fn output_evidence(
        &mut self,
        pair: ArgPair<'r>,
        (before, input): (&Status, Option<&InputEvidence>),
    ) -> Result<OutputEvidence, FormatError> {
        let ArgPair { arg, other, .. } = pair;
        let own = ErrorOrigin::Written(pair.output());
        let found = self.difference(pair, DumpStage::AfterCompletion)?;
        let (failing, near) = found.map(|found| (found.failing, found.near)).unzip();
        let all = || Spans::up_to(pair.end());
        if is_of_one_run(arg, pair.partner) {
            return self.candidate_of_one_run(pair, failing.as_ref(), input);
        }
        let has_before = arg.before.is_some() && other.before.is_some();
        // What was right before is wrong because the task wrote it. Between the tasks of a scene, nothing else writes.
        let was_right = *before == Status::Within || !self.ours.graph.others_write;
        let is_written = arg.role_known && (arg.role == Role::Output || !has_before && was_right);
        if is_written {
            let is_by_hash = failing.is_none();
            let marks = Marks::of_spans(&failing.unwrap_or_else(all), own);
            return Ok(OutputEvidence { is_by_hash, ..OutputEvidence::of(marks) });
        }
        if !has_before {
            return match failing {
                Some(failing) => self.written_in_one_run(pair, &failing),
                // Hashes and statistics are those of the whole argument.
                None => Ok(self.undecided(pair, BY_CONTENT)),
            };
        }
        let is_left_alone = arg.is_unchanged() && other.is_unchanged();
        let (here, there) = (overlapped(pair.task, arg), overlapped(pair.partner, other));
        let Some(failing) = failing else {
            let seen = self.ours.graph.observations();
            let there_seen = self.golden.graph.observations();
            let is_own = seen.is_none_or(|seen| seen.ambiguity(arg).is_none())
                && there_seen.is_none_or(|seen| seen.ambiguity(other).is_none());
            let was_equal = *before == Status::Within && arg.hash_before() == other.hash_before();
            return Ok(match is_left_alone {
                true => OutputEvidence::of(self.kept(pair, &all(), input)),
                false if was_equal && is_own && here == there => {
                    let marks = Marks::all(pair.end(), own);
                    OutputEvidence { is_by_hash: true, ..OutputEvidence::of(marks) }
                }
                false => {
                    let is_open = was_equal;
                    let other = seen.and_then(|seen| seen.ambiguity(arg)?.others.first());
                    let other = other.map(|&other| self.ours.graph.task(other).task_id);
                    let reason = other.map_or_else(
                        || BY_CONTENT.to_owned(),
                        |id| format!("nothing orders the task with task {id:#x}, which may have written there; {BY_CONTENT}"),
                    );
                    OutputEvidence { is_open, ..self.undecided(pair, &reason) }
                }
            });
        };
        if is_left_alone {
            return Ok(OutputEvidence::of(self.kept(pair, &failing, input)));
        }
        let (ours, theirs) = (changed(self.ours, arg)?, changed(self.golden, other)?);
        let (ChangedElements::Some(ours), ChangedElements::Some(theirs)) = (ours, theirs) else {
            return Ok(self.undecided(pair, NEEDS_CONTENT));
        };
        // What overlaps another argument in only one of the runs may have been written through that argument.
        let ours = ours.without(&here.without(&there));
        let theirs = theirs.without(&there.without(&here));
        let written = failing.and(&ours.or(&theirs));
        let is_stale = !written.is_empty() && written.and(&ours).is_empty();
        let mut marks = Marks::of_spans(&written, own).0;
        let mut kept = self.kept(pair, &failing.without(&written), input);
        self.doubt_between(&mut kept, &ours.or(&theirs));
        marks.extend(kept.0);
        let is_near = near.is_some_and(|near| !near.and(&ours.or(&theirs)).is_empty());
        Ok(OutputEvidence { is_stale, is_near, ..OutputEvidence::of(Marks::joined(marks)) })
    }

    /// The evidence if only one run recorded the content before the task, or none. Elements that changed there are written.
    fn written_in_one_run(
        &mut self,
        pair: ArgPair<'r>,
        failing: &Spans,
    ) -> Result<OutputEvidence, FormatError> {
        let mut written = Spans::default();
        for (run, arg) in [(self.ours, pair.arg), (self.golden, pair.other)] {
            if let ChangedElements::Some(changed) = changed(run, arg)? {
                written = written.or(&failing.and(&changed));
            }
        }
        if written.is_empty() {
            // The run with both contents shows that the task leaves these elements alone.
            let has_both = |arg: Argument<'_>| arg.before.is_some() && arg.after.is_some();
            let is_open = !has_both(pair.arg) && !has_both(pair.other);
            return Ok(OutputEvidence { is_open, ..self.undecided(pair, NEEDS_CONTENT) });
        }
        let (own, rest) = (ErrorOrigin::Written(pair.output()), self.evidence.unknown(NEEDS_CONTENT));
        let mut marks = Marks::of_spans(&written, own).0;
        marks.extend(Marks::of_spans(&failing.without(&written), rest).0);
        Ok(OutputEvidence::of(Marks::joined(marks)))
    }

    /// Uninitialized elements between elements that the task wrote may have been written too, with what was there before.
    fn doubt_between(&mut self, kept: &mut Marks, written: &Spans) {
        let (Some(first), Some(last)) = (written.iter().next(), written.iter().last()) else { return };
        let mut split = Vec::with_capacity(kept.0.len());
        for mark in kept.0.drain(..) {
            let between = mark.span.start.max(first.end)..mark.span.end.min(last.start);
            if mark.origin != ErrorOrigin::Uninitialized || between.is_empty() {
                split.push(mark);
                continue;
            }
            let origin = self.evidence.unknown(MAY_BE_WRITTEN);
            let parts =
                [(mark.span.start..between.start, mark.origin), (between.end..mark.span.end, mark.origin)];
            split.extend(
                parts
                    .into_iter()
                    .filter(|(span, _)| !span.is_empty())
                    .map(|(span, origin)| Mark { span, origin }),
            );
            split.push(Mark { span: between, origin });
        }
        *kept = Marks::joined(split);
    }

    /// The evidence about an argument of which it is not known whether the task wrote the wrong elements.
    pub(super) fn undecided(&mut self, pair: ArgPair<'r>, reason: &str) -> OutputEvidence {
        let reason = self.evidence.number_of(reason);
        let marks = Marks::all(pair.end(), ErrorOrigin::Unknown(reason));
        OutputEvidence { undecided: Some(reason), ..OutputEvidence::of(marks) }
    }

    /// The origins that positions had before the task, which did not write them. What this task was the first to
    /// receive wrong, later readers inherit from it.
    pub(super) fn kept(&mut self, pair: ArgPair<'r>, spans: &Spans, input: Option<&InputEvidence>) -> Marks {
        let passed = ErrorOrigin::Passed(pair.output());
        let is_ordered = self.is_ordered(pair);
        let mut marks = Vec::new();
        for span in spans.iter() {
            let (found, bare) = match input {
                Some(input) => input.marks.within(span),
                None => (Vec::new(), vec![span]),
            };
            for mark in found {
                let origin = match mark.origin {
                    // It is not known whether the task uses it.
                    kept if pair.arg.is_candidate() => kept,
                    ErrorOrigin::Changed(_) | ErrorOrigin::Misplaced(_) | ErrorOrigin::NotCompared(_)
                        if !is_ordered =>
                    {
                        self.evidence.unknown(NOT_ORDERED)
                    }
                    ErrorOrigin::Changed(_) | ErrorOrigin::Misplaced(_) | ErrorOrigin::Unwritten(_) => passed,
                    ErrorOrigin::External if !is_ordered => self.evidence.unknown(NOT_ORDERED),
                    kept => kept,
                };
                marks.push(Mark { origin, ..mark });
            }
            // These were within their rule before, and have the same bytes in both runs' captures: the rule is stricter
            // now. The task did not write them.
            for span in bare {
                let origin = self
                    .evidence
                    .unknown("the element was within its rule before the task, which did not write it");
                marks.push(Mark { span, origin });
            }
        }
        Marks::joined(marks)
    }
}

/// The positions of an argument of unknown role that other arguments of its task may share, because one of the two may be
/// stale or smaller than recorded.
fn overlapped(task: Task<'_>, arg: Argument<'_>) -> Spans {
    let view = |arg: Argument<'_>| TensorView::of(arg).and_then(|view| pieces(&view));
    let Some(own) = view(arg).filter(|_| !arg.role_known) else { return Spans::default() };
    let is_vague = |arg: &Argument<'_>| arg.is_candidate() || !arg.extent_known;
    let others = task.outputs().filter(|other| other.arg_index != arg.arg_index && !other.is_scalar());
    let others = others.filter(|other| is_vague(&arg) || is_vague(other));
    let shared = others.filter_map(|other| Some(covered_by(&own, &view(other)?)));
    shared.fold(Spans::default(), |all, part| all.or(&part))
}
