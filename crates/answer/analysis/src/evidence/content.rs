//! Captured contents, and which of their elements differ or changed.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError};
use tensortap_judge::{Comparison, TensorType};

use super::spans::{Spans, differing};
use super::{ArgPair, Gatherer, Recording};
use crate::compare::unless_gone;

/// Larger contents are not read: such an argument is judged as one piece.
const MAX_BYTES: u64 = 256 << 20;

/// Number of half-bytes of one element.
pub(super) fn width(arg: Argument<'_>) -> u64 {
    u64::from(arg.dtype.bits() / 4).max(1)
}

/// The stored content of an argument at a stage; `None` if it is not stored or too large.
pub(super) fn content(
    dump: &Dump,
    arg: Argument<'_>,
    stage: DumpStage,
) -> Result<Option<Vec<u8>>, FormatError> {
    let readable = |snapshot: &&ArgumentSnapshot| snapshot.is_stored() && snapshot.bytes <= MAX_BYTES;
    let Some(snapshot) = arg.captured(stage).filter(readable) else { return Ok(None) };
    unless_gone(dump.payload(&dump.record(snapshot.record)?))
}

/// The elements that changed over a task.
pub(super) enum ChangedElements {
    Some(Spans),
    /// Not known: some content is missing.
    Unknown,
}

/// The elements of an argument whose bytes changed over its task.
pub(super) fn changed(run: Recording<'_>, arg: Argument<'_>) -> Result<ChangedElements, FormatError> {
    if arg.is_unchanged() {
        return Ok(ChangedElements::Some(Spans::default()));
    }
    let before = content(run.dump, arg, DumpStage::BeforeDispatch)?;
    let after = match before {
        Some(_) => content(run.dump, arg, DumpStage::AfterCompletion)?,
        None => None,
    };
    Ok(match before.zip(after) {
        Some((before, after)) if before.len() == after.len() => {
            let bytes = differing(&before, &after, arg.dtype.bits() < 8);
            ChangedElements::Some(bytes.whole_elements(width(arg)))
        }
        _ => ChangedElements::Unknown,
    })
}

impl Gatherer<'_> {
    /// The differing positions of elements outside the rule at a stage, and the dump's content; `None` if contents are
    /// missing.
    pub(super) fn failing(
        &self,
        pair: ArgPair<'_>,
        stage: DumpStage,
    ) -> Result<Option<(Spans, Vec<u8>)>, FormatError> {
        let ArgPair { task, arg, other, .. } = pair;
        let Some(ours) = content(self.ours.dump, arg, stage)? else { return Ok(None) };
        let Some(theirs) = content(self.golden.dump, other, stage)? else { return Ok(None) };
        let rule = self.rules.rule(task.place(), arg, stage);
        let types = (TensorType::new(arg.dtype, arg.shape()), TensorType::new(other.dtype, other.shape()));
        let comparison = match self.across {
            true => Comparison::across_dtypes(&types.0, &types.1, rule),
            false => Comparison::new(&types.0, &types.1, rule),
        };
        let failing = comparison.and_then(|comparison| comparison.failing(&ours, &theirs, 1));
        let Ok(failing) = failing else { return Ok(None) };
        let width = width(arg);
        let mut spans = Spans::default();
        failing.into_iter().for_each(|range| spans.push(range.start * width..range.end * width));
        // Only bytes that differ can carry the error of another task.
        if arg.dtype == other.dtype && ours.len() == theirs.len() {
            let bytes = spans.and(&differing(&ours, &theirs, arg.dtype.bits() < 8));
            // An element of equal bytes can still fail: NaN under a rule that treats NaN as unequal.
            spans = if bytes.is_empty() { spans } else { bytes };
        }
        Ok(Some((spans, ours)))
    }
}
