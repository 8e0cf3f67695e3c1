//! Did a task use the uninitialized memory that it received?

use tensortap_abi::DumpStage;
use tensortap_format::FormatError;

use super::content::{ChangedElements, changed, width};
use super::{ArgPair, Gatherer, InputEvidence};

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

impl Gatherer<'_> {
    /// How a task used the content of an argument that no task defined. An argument that both runs left alone may have
    /// been read. So may one that is still wrong where it was written: a result that depends on the old content differs.
    /// Elements that neither run changed, next to elements that the task wrote, are slack.
    pub(super) fn uninitialized_use(
        &self,
        pair: ArgPair<'_>,
        input: &InputEvidence,
    ) -> Result<UninitializedUse, FormatError> {
        let ArgPair { task, arg, other, .. } = pair;
        let is_defined_in_golden = !self.golden.graph.producers_of(other).is_empty();
        if !input.is_undefined || is_defined_in_golden || arg.is_unchanged() && other.is_unchanged() {
            return Ok(UninitializedUse::MayBeRead);
        }
        let (ChangedElements::Some(ours), ChangedElements::Some(theirs)) =
            (changed(self.ours, arg)?, changed(self.golden, other)?)
        else {
            return Ok(UninitializedUse::MayBeRead);
        };
        let differing = input.marks.spans().whole_elements(width(arg));
        let written = differing.and(&ours.or(&theirs));
        // The golden's task overwrites it and this one did not write it: it is missing, not read.
        let is_stale = arg.is_unchanged() && written == differing;
        let still_wrong =
            self.evidence.differing(task.place(), arg.arg_index, DumpStage::AfterCompletion).and(&written);
        Ok(match written == differing {
            true if is_stale => UninitializedUse::Overwritten,
            _ if written.is_empty() || !still_wrong.is_empty() => UninitializedUse::MayBeRead,
            true => UninitializedUse::Overwritten,
            false => UninitializedUse::PartlyOverwritten,
        })
    }
}
