//! Evidence about candidates: memory that only a word inside a value points to.
//!
//! A kernel may use the memory, or the word may be a stale pointer in an unused part of the value. So a candidate is
//! evidence only if its task changed it in both runs. Otherwise it is at most a possible input: it can excuse its task, but
//! it is no cause by itself. One source is certain anyway: a task that only one of the runs has.

use tensortap_format::{Argument, FormatError, Task};

use super::{ArgPair, ErrorOrigin, Gatherer, InputEvidence, OutputEvidence};
use crate::graph::OutputRef;
use crate::graph::candidates::{covering, is_of_one_run};

const MAY_BE_STALE: &str = "only a word inside a value points to it, which may be a stale pointer; so it may be no input of the task";
const CHANGED_IN_ONE_RUN: &str = "only a word inside a value points to it, and the task changed it in only one of the runs, so the word may be stale";

impl<'r> Gatherer<'r> {
    /// Turns causes that require that the task uses its candidate into possible ones.
    pub(super) fn doubt_candidate(&mut self, arg: Argument<'_>, input: &mut InputEvidence) {
        if !arg.is_candidate() {
            return;
        }
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
        self.doubt_candidate(arg, &mut input);
        self.evidence.inputs.insert((task.place(), arg.arg_index), input);
        Ok(())
    }

    /// The evidence about a candidate that its task changed in only one of the runs; `None` for other arguments.
    pub(super) fn candidate_of_one_run(&mut self, pair: ArgPair<'r>) -> Option<OutputEvidence> {
        if !is_of_one_run(pair.arg, pair.partner) {
            return None;
        }
        Some(match covering(pair.task, pair.arg, pair.partner) {
            Some(_) => OutputEvidence::default(),
            None => self.undecided(pair, CHANGED_IN_ONE_RUN),
        })
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
