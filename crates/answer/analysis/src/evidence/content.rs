//! Captured contents, and which of their elements differ or changed.

use tensortap_abi::{DumpStage, Role};
use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError, Task};
use tensortap_judge::{Comparison, Rule, TensorType};

use super::spans::{Spans, differing};
use super::{ArgPair, Gatherer, Recording};
use crate::blame::GoldenArg;
use crate::compare::unless_gone;
use crate::graph::TensorView;
use crate::graph::view::{Piece, pieces};
use crate::provenance::{CompareUnit, SharedRange, shared_ranges};

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

/// Whether an argument holds at these positions what another task wrote there. Without contents, equal hashes of the
/// same view decide.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn holds_output_of(
    run: Recording<'_>,
    held: (Argument<'_>, DumpStage),
    positions: &Spans,
    other: Task<'_>,
) -> Result<bool, FormatError> {
    let Some(own) = TensorView::of(held.0).and_then(|view| pieces(&view)) else { return Ok(false) };
    for written in other.outputs().filter(|written| !written.is_scalar() && !written.is_unchanged()) {
        match equal_to(run, held, (written, DumpStage::AfterCompletion))? {
            EqualPart::All => return Ok(true),
            EqualPart::Some(equal) if positions.without(&equal).is_empty() => {
                if !written_by(run, written, &own)?.and(positions).is_empty() {
                    return Ok(true);
                }
            }
            EqualPart::Some(_) | EqualPart::Unknown => {}
        }
    }
    Ok(false)
}

/// Whether an argument holds at these positions what was there before another task, which has other content there after
/// it. Without contents, equal hashes of the same view decide.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn holds_content_before(
    run: Recording<'_>,
    held: (Argument<'_>, DumpStage),
    positions: &Spans,
    other: Task<'_>,
) -> Result<bool, FormatError> {
    for written in other.outputs().filter(|written| !written.is_scalar() && !written.is_unchanged()) {
        match equal_to(run, held, (written, DumpStage::BeforeDispatch))? {
            EqualPart::All => return Ok(true),
            EqualPart::Some(equal) if positions.without(&equal).is_empty() => return Ok(true),
            EqualPart::Some(_) | EqualPart::Unknown => {}
        }
    }
    Ok(false)
}

/// What two arguments have in common.
enum EqualPart {
    /// They have the same view and equal hashes.
    All,
    /// The positions of the first one that are equal in the second one.
    Some(Spans),
    /// They share no memory, or not both were captured.
    Unknown,
}

/// What two captured contents have in common.
fn equal_to(
    run: Recording<'_>,
    (arg, stage): (Argument<'_>, DumpStage),
    (other, other_stage): (Argument<'_>, DumpStage),
) -> Result<EqualPart, FormatError> {
    let views = TensorView::of(arg).zip(TensorView::of(other));
    let Some((own, theirs)) = views.filter(|(own, theirs)| theirs.shares(own)) else {
        return Ok(EqualPart::Unknown);
    };
    let hash = |arg: Argument<'_>, stage| arg.captured(stage).and_then(ArgumentSnapshot::hash);
    let hashes = hash(arg, stage).zip(hash(other, other_stage));
    if own.is_same_view(&theirs) && hashes.is_some_and(|(one, other)| one == other) {
        return Ok(EqualPart::All);
    }
    let pieces = pieces(&own).zip(pieces(&theirs));
    let Some(held) = content(run.dump, arg, stage)? else { return Ok(EqualPart::Unknown) };
    let found = content(run.dump, other, other_stage)?;
    let Some(((own, theirs), found)) = pieces.zip(found) else { return Ok(EqualPart::Unknown) };
    let halves = arg.dtype.bits() < 8 || other.dtype.bits() < 8;
    let shared = shared_ranges(&own, &theirs, CompareUnit::HalfByte);
    let equal = shared.iter().flat_map(|range| equal_part(&held, &found, range, halves).into_ranges());
    Ok(EqualPart::Some(Spans::of_unsorted(equal.collect())))
}

/// The positions of an argument that an output certainly or probably wrote: those that it changed, or all that it covers if
/// that is not known.
pub(super) fn written_by(
    run: Recording<'_>,
    written: Argument<'_>,
    own: &[Piece],
) -> Result<Spans, FormatError> {
    let Some(theirs) = TensorView::of(written).and_then(|view| pieces(&view)) else {
        return Ok(Spans::default());
    };
    let shared = shared_ranges(own, &theirs, CompareUnit::HalfByte);
    let is_output = written.role_known && written.role == Role::Output;
    let changed = if is_output { ChangedElements::Unknown } else { changed(run, written)? };
    let spans = shared.iter().flat_map(|range| {
        let (from, to, len) = (range.there as u64, range.here as u64, range.len as u64);
        let mut all = Spans::default();
        all.push(from..from + len);
        let changed = match &changed {
            ChangedElements::Unknown => all,
            ChangedElements::Some(changed) => all.and(changed),
        };
        changed.into_ranges().into_iter().map(move |span| span.start - from + to..span.end - from + to)
    });
    Ok(Spans::of_unsorted(spans.collect()))
}

/// The positions of a shared range at which two contents are equal.
pub(super) fn equal_part(own: &[u8], theirs: &[u8], range: &SharedRange, halves: bool) -> Spans {
    let (here, len) = (range.here as u64, range.len as u64);
    let mut all = Spans::default();
    all.push(here..here + len);
    let is_byte_aligned = [range.here, range.there, range.len].iter().all(|at| at.is_multiple_of(2));
    if is_byte_aligned {
        let bytes = |content: &[u8], at: usize| content.get(at / 2..(at + range.len) / 2).map(<[u8]>::to_vec);
        let Some((own, theirs)) = bytes(own, range.here).zip(bytes(theirs, range.there)) else {
            return Spans::default();
        };
        let differs = differing(&own, &theirs, halves);
        let moved = differs.iter().map(|span| span.start + here..span.end + here).collect();
        return all.without(&Spans::of_unsorted(moved));
    }
    let half = |content: &[u8], at: usize| {
        content.get(at / 2).map(|byte| if at.is_multiple_of(2) { byte & 0xf } else { byte >> 4 })
    };
    let mut same = Spans::default();
    for n in 0..range.len {
        let (one, other) = (half(own, range.here + n), half(theirs, range.there + n));
        if one.is_some() && one == other {
            same.push(here + n as u64..here + n as u64 + 1);
        }
    }
    same
}

impl Gatherer<'_> {
    /// How the contents of a pair differ at a stage; `None` if contents are missing.
    pub(super) fn difference(
        &self,
        pair: ArgPair<'_>,
        stage: DumpStage,
    ) -> Result<Option<ContentDifference>, FormatError> {
        let ArgPair { task, arg, partner, other } = pair;
        let rule = self.rules.rule(task.place(), arg, stage);
        let sides = ((self.ours.dump, arg), (self.golden.dump, other));
        let Some(found) = difference_between(sides.0, sides.1, (stage, rule, self.across))? else {
            return Ok(None);
        };
        if self.right_runs.is_empty() {
            return Ok(Some(found));
        }
        let golden = GoldenArg { dump: self.golden.dump, task: partner.place(), arg: other, stage };
        let noise = self.right_runs.differing(golden, rule)?.whole_elements(width(arg));
        Ok(Some(ContentDifference { failing: found.failing.without(&noise), ..found }))
    }
}

/// How two contents differ.
pub(crate) struct ContentDifference {
    /// The differing positions of elements outside the rule.
    pub failing: Spans,
    /// The differing positions of elements within the rule.
    pub near: Spans,
    /// The content of the first side.
    pub content: Vec<u8>,
}

/// All positions of an argument, in half-bytes.
pub(crate) fn all_positions(arg: Argument<'_>) -> Spans {
    Spans::up_to(arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1))
}

/// How two contents differ; `None` if contents are missing.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn difference_between(
    (dump, arg): (&Dump, Argument<'_>),
    (golden, other): (&Dump, Argument<'_>),
    (stage, rule, across): (DumpStage, Rule, bool),
) -> Result<Option<ContentDifference>, FormatError> {
    let Some(ours) = content(dump, arg, stage)? else { return Ok(None) };
    let Some(theirs) = content(golden, other, stage)? else { return Ok(None) };
    let types = (TensorType::new(arg.dtype, arg.shape()), TensorType::new(other.dtype, other.shape()));
    let comparison = match across {
        true => Comparison::across_dtypes(&types.0, &types.1, rule),
        false => Comparison::new(&types.0, &types.1, rule),
    };
    let failing = comparison.and_then(|comparison| comparison.failing(&ours, &theirs, 1));
    let Ok(failing) = failing else { return Ok(None) };
    let width = width(arg);
    let mut spans = Spans::default();
    failing.into_iter().for_each(|range| spans.push(range.start * width..range.end * width));
    let mut near = Spans::default();
    // Only bytes that differ can carry the error of another task.
    if arg.dtype == other.dtype && ours.len() == theirs.len() {
        let differing = differing(&ours, &theirs, arg.dtype.bits() < 8);
        near = differing.without(&spans);
        let bytes = spans.and(&differing);
        // An element of equal bytes can still fail: NaN under a rule that treats NaN as unequal.
        spans = if bytes.is_empty() { spans } else { bytes };
    }
    Ok(Some(ContentDifference { failing: spans, near, content: ours }))
}
