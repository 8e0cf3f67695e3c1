//! Evidence about candidates: memory that only a word inside a value points to.
//!
//! A kernel may use the memory, or the word may be a stale pointer in an unused part of the value. So a candidate is
//! evidence only if its task changed it in both runs. Otherwise it is at most a possible input: it can excuse its task, but
//! it is no cause by itself. One source is certain anyway: a task that only one of the runs has.

use tensortap_format::{Argument, FormatError, Task};

use super::content::{ChangedElements, changed};
use super::spans::Spans;
use super::{ArgPair, ErrorOrigin, Gatherer, InputEvidence, Marks, OutputEvidence};
use crate::graph::candidates::{covering, shared_arguments};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TensorView};
use crate::provenance::{CompareUnit, SharedRange, shared_ranges};

const MAY_BE_STALE: &str = "only a word inside a value points to it, which may be a stale pointer; so it may be no input of the task";
const CHANGED_IN_ONE_RUN: &str = "only a word inside a value points to it, and the task changed it in only one of the runs, so the word may be stale";

impl<'r> Gatherer<'r> {
    /// Turns causes that require that the task uses its candidate into possible ones.
    pub(super) fn doubt_candidate(&mut self, input: &mut InputEvidence) {
        for mark in &mut input.marks.0 {
            let is_certain = match mark.origin {
                ErrorOrigin::Written(_)
                | ErrorOrigin::Passed(_)
                | ErrorOrigin::NotCompared(_)
                | ErrorOrigin::Unknown(_) => true,
                ErrorOrigin::Misplaced(holder) => self.matching.partner[holder.task].is_none(),
                ErrorOrigin::Unwritten(writer) => !self.matching.partner.contains(&Some(writer.task)),
                ErrorOrigin::Changed(_) | ErrorOrigin::External | ErrorOrigin::Uninitialized => false,
            };
            if !is_certain {
                mark.origin = self.evidence.unknown(MAY_BE_STALE);
            }
        }
    }

    /// A candidate that only the dump has. If the task left it alone, it keeps the origins that it had before the task, and
    /// these are possible causes.
    pub(super) fn visit_candidate_alone(
        &mut self,
        task: Task<'r>,
        arg: Argument<'r>,
    ) -> Result<(), FormatError> {
        if !arg.is_unchanged() {
            self.not_compared(task, arg, "the golden did not capture this argument");
            return Ok(());
        }
        let marks = self.received_marks(task, arg)?;
        if marks.0.is_empty() {
            return Ok(());
        }
        let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
        self.evidence.outputs.insert(output, OutputEvidence::of(marks.clone()));
        let mut input = InputEvidence { marks, ..InputEvidence::default() };
        self.doubt_candidate(&mut input);
        self.evidence.inputs.insert((task.place(), arg.arg_index), input);
        Ok(())
    }

    /// The evidence about a candidate that its task changed in only one of the runs.
    ///
    /// Elements that were right before are judged as in other arguments: the golden's task may have written the same
    /// content again. Elements that other arguments show, too, are left to them.
    pub(super) fn candidate_of_one_run(
        &mut self,
        pair: ArgPair<'r>,
        failing: Option<&Spans>,
        input: Option<&InputEvidence>,
    ) -> Result<OutputEvidence, FormatError> {
        let shown = shown_elsewhere((pair.task, pair.arg), pair.partner)
            .or(&shown_elsewhere((pair.partner, pair.other), pair.task));
        let (ours, theirs) = (changed(self.ours, pair.arg)?, changed(self.golden, pair.other)?);
        let (Some(failing), ChangedElements::Some(ours), ChangedElements::Some(theirs)) =
            (failing, ours, theirs)
        else {
            let was_equal = input.is_none() && pair.arg.hash_before() == pair.other.hash_before();
            let own = ErrorOrigin::Written(pair.output());
            return Ok(match was_equal && shown.is_empty() {
                true => OutputEvidence::of(Marks::all(pair.end(), own)),
                false => self.undecided(pair, CHANGED_IN_ONE_RUN),
            });
        };
        let written = failing.and(&ours.or(&theirs));
        let differed = input.map(|input| input.marks.spans()).unwrap_or_default();
        let (own, hidden) = (written.without(&shown), written.and(&shown));
        let (certain, doubtful) = (own.without(&differed), own.and(&differed));
        let mut marks = Marks::of_spans(&certain, ErrorOrigin::Written(pair.output())).0;
        let reason = self.evidence.number_of(CHANGED_IN_ONE_RUN);
        marks.extend(Marks::of_spans(&doubtful.or(&hidden), ErrorOrigin::Unknown(reason)).0);
        marks.extend(self.kept(pair, &failing.without(&written), input).0);
        let undecided = (!doubtful.is_empty()).then_some(reason);
        Ok(OutputEvidence { undecided, ..OutputEvidence::of(Marks::joined(marks)) })
    }

    /// The output that shows best what a task left in the memory of one of its outputs.
    pub(super) fn best_holder(&self, holder: OutputRef) -> OutputRef {
        let task = self.ours.graph.task(holder.task);
        let partner = self.matching.partner[holder.task].map(|partner| self.golden.graph.task(partner));
        let better = task.argument(holder.arg_index).zip(partner);
        let better = better.and_then(|(arg, partner)| covering(task, arg, partner));
        better.map_or(holder, |better| OutputRef { arg_index: better.arg_index, ..holder })
    }
}

/// The positions of a candidate that other arguments of its task show, too, which both runs have.
fn shown_elsewhere((task, candidate): (Task<'_>, Argument<'_>), partner: Task<'_>) -> Spans {
    let pieces_of = |arg: Argument<'_>| TensorView::of(arg).and_then(|view| pieces(&view));
    let Some(own) = pieces_of(candidate) else { return Spans::default() };
    let others = shared_arguments(task, partner).filter_map(pieces_of);
    let shared = others.flat_map(|other| shared_ranges(&own, &other, CompareUnit::HalfByte));
    let here = |range: SharedRange| range.here as u64..(range.here + range.len) as u64;
    Spans::of_unsorted(shared.map(here).collect())
}
