//! Did a task use the uninitialized memory that it received?

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, FormatError, Task};

use super::content::{ChangedElements, changed, width};
use super::inputs::covered_by;
use super::{ArgPair, ErrorOrigin, Gatherer, Spans};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TensorView};

/// How a task used memory that no task defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UninitializedUse {
    /// It may have read it.
    #[default]
    MayBeRead,
    /// It overwrote some of it and left the rest alone.
    PartlyOverwritten,
    /// It overwrote all of it, so the old content is no input.
    Overwritten,
}

/// A result that depends on garbage may be right by chance, but not if the task overwrote this many elements, and at most
/// one of [`MAX_WRONG`] is wrong.
const MIN_ELEMENTS: u64 = 16;
const MAX_WRONG: u64 = 16;

impl Gatherer<'_> {
    /// How a task used those elements of an argument that differ and that no task defined. A task that left it alone in both runs may have
    /// read it. So may a task that left something wrong, unless it turned nearly all of
    /// the garbage into right elements. Elements
    /// that neither run changed, next to elements that the task wrote, are slack.
    pub(super) fn uninitialized_use(&self, pair: ArgPair<'_>) -> Result<UninitializedUse, FormatError> {
        let ArgPair { arg, other, .. } = pair;
        let Some(input) = self.evidence.input(pair.task.place(), arg.arg_index) else {
            return Ok(UninitializedUse::MayBeRead);
        };
        let is_defined_in_golden = !self.golden.graph.producers_of(other).is_empty();
        let is_left_alone = arg.is_unchanged() && other.is_unchanged();
        if input.is_undefined && is_defined_in_golden || is_left_alone {
            return Ok(UninitializedUse::MayBeRead);
        }
        let differing = input.undefined_spans().whole_elements(width(arg));
        if differing.is_empty() || is_defined_in_golden && self.is_defined_there(other, &differing) {
            return Ok(UninitializedUse::MayBeRead);
        }
        let (ChangedElements::Some(ours), ChangedElements::Some(theirs)) =
            (changed(self.ours, arg)?, changed(self.golden, other)?)
        else {
            return Ok(UninitializedUse::MayBeRead);
        };
        let written = differing.and(&ours.or(&theirs));
        let after = self.evidence.differing(pair.task.place(), arg.arg_index, DumpStage::AfterCompletion);
        let overwritten = differing.and(&ours);
        let (all, wrong) = (overwritten.len() / width(arg), overwritten.and(&after).len() / width(arg));
        let is_independent = !arg.role_known && all >= MIN_ELEMENTS && wrong.saturating_mul(MAX_WRONG) <= all;
        let may_be_read = self.leaves_wrong(pair.task) && !is_independent;
        Ok(match written == differing {
            _ if may_be_read || written.is_empty() => UninitializedUse::MayBeRead,
            true => UninitializedUse::Overwritten,
            false => UninitializedUse::PartlyOverwritten,
        })
    }

    /// Whether a task of the golden wrote some of these elements of its argument before.
    fn is_defined_there(&self, arg: Argument<'_>, elements: &Spans) -> bool {
        let Some(own) = TensorView::of(arg).and_then(|view| pieces(&view)) else { return true };
        self.golden.graph.producers_of(arg).iter().any(|&writer| {
            let written = self.golden.graph.output(writer).and_then(TensorView::of);
            let theirs = written.and_then(|view| pieces(&view));
            theirs.is_none_or(|theirs| !covered_by(&own, &theirs).and(elements).is_empty())
        })
    }

    /// Whether a task wrote something wrong, or may have.
    fn leaves_wrong(&self, task: Task<'_>) -> bool {
        task.arguments().any(|arg| {
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            self.evidence.outputs.get(&output).is_some_and(|left| {
                left.undecided.is_some()
                    || left.marks.0.iter().any(|mark| mark.origin == ErrorOrigin::Written(output))
            })
        })
    }
}
