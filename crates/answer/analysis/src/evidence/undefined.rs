//! Did a task use the uninitialized memory that it received?

use tensortap_abi::{DType, DumpStage};
use tensortap_format::{Argument, FormatError, Task};
use tensortap_values::{Value, element_bits};

use super::content::{ChangedElements, changed, content, width};
use super::inputs::covered_by;
use super::{ArgPair, ErrorOrigin, Gatherer, Recording, Spans};
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TensorView};

/// How a task used memory that no task defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UninitializedUse {
    /// It may have read it.
    #[default]
    MayBeRead,
    /// It changed some of it, and left wrong elements there. So it may have read that part, even if others are defined.
    Updated,
    /// It overwrote some of it and left the rest alone.
    PartlyOverwritten,
    /// It overwrote all of it, so the old content is no input.
    Overwritten,
}

/// A result that depends on garbage may be right by chance, but not if the task overwrote this many elements, and at most
/// one of [`MAX_WRONG`] is wrong.
const MIN_ELEMENTS: u64 = 16;
const MAX_WRONG: u64 = 16;

/// The types that devices add to memory atomically, for memory of unknown type.
const ADDED: [DType; 4] = [DType::Float64, DType::Float32, DType::Int64, DType::Int32];
/// Limit on the wrong bytes that are searched for sums.
const MOST_BYTES: usize = 4096;

impl Gatherer<'_> {
    /// How a task used those elements of an argument that differ and that no task defined. A task that left them alone in
    /// both runs may have read them. So may a task that left something wrong, unless it turned nearly all of the garbage
    /// into right elements and added to none of it. Elements that neither run changed, next to elements that the task
    /// wrote, are slack.
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
        let wrong = overwritten.and(&after).whole_elements(width(arg));
        let (all, wrong_count) = (overwritten.len() / width(arg), wrong.len() / width(arg));
        let is_mostly_right = all >= MIN_ELEMENTS && wrong_count.saturating_mul(MAX_WRONG) <= all;
        let may_be_read = self.leaves_wrong(pair.task)
            && (arg.role_known || !is_mostly_right || self.may_accumulate(pair, &wrong)?);
        Ok(match written == differing {
            _ if may_be_read && !wrong.is_empty() => UninitializedUse::Updated,
            _ if may_be_read || written.is_empty() => UninitializedUse::MayBeRead,
            true => UninitializedUse::Overwritten,
            false => UninitializedUse::PartlyOverwritten,
        })
    }

    /// Whether a task may have added to the garbage at some of these positions: it changed it by the same amount in both
    /// runs.
    fn may_accumulate(&self, pair: ArgPair<'_>, wrong: &Spans) -> Result<bool, FormatError> {
        let both = |run: Recording<'_>, arg| -> Result<_, FormatError> {
            let before = content(run.dump, arg, DumpStage::BeforeDispatch)?;
            Ok(before.zip(content(run.dump, arg, DumpStage::AfterCompletion)?))
        };
        let (Some(ours), Some(theirs)) = (both(self.ours, pair.arg)?, both(self.golden, pair.other)?) else {
            return Ok(true);
        };
        let dtypes: &[DType] = if pair.arg.dtype_known { &[pair.arg.dtype] } else { &ADDED };
        let may_be_added = |dtype: &DType, byte: u64| {
            let size = dtype.part().bits().div_ceil(8) as usize;
            let Ok(start) = usize::try_from(byte).map(|byte| byte / size * size) else { return false };
            let part = |bytes: &'_ [u8]| bytes.get(start..start.checked_add(size)?).map(<[u8]>::to_vec);
            let parts = [part(&ours.0), part(&ours.1), part(&theirs.0), part(&theirs.1)];
            // At the end, an element of this type may not fit.
            let [Some(before), Some(after), Some(golden_before), Some(golden_after)] = parts else {
                return false;
            };
            is_same_change(dtype.part(), [&before, &after], [&golden_before, &golden_after])
        };
        let mut bytes = wrong.iter().flat_map(|span| span.start / 2..span.end.div_ceil(2)).take(MOST_BYTES);
        Ok(bytes.any(|byte| dtypes.iter().any(|dtype| may_be_added(dtype, byte))))
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

/// Whether an element changed by the same amount in both runs, as far as its type can show.
fn is_same_change(dtype: DType, ours: [&[u8]; 2], theirs: [&[u8]; 2]) -> bool {
    if !dtype.is_float() {
        let bits = |bytes: &[u8]| element_bits(dtype, bytes, 0);
        let change = |[before, after]: [&[u8]; 2]| {
            let mask = u128::MAX >> (128 - dtype.bits().max(1));
            Some(bits(after)?.wrapping_sub(bits(before)?) & mask)
        };
        return change(ours) == change(theirs);
    }
    let value = |bytes: &[u8]| element_bits(dtype, bytes, 0).map(|bits| Value::decode(dtype, bits).to_f64());
    let values = [value(ours[0]), value(ours[1]), value(theirs[0]), value(theirs[1])];
    let [Some(before), Some(after), Some(golden_before), Some(golden_after)] = values else { return true };
    if [before, after, golden_before, golden_after].iter().any(|value| !value.is_finite()) {
        // A sum with NaN or infinity has no amount. It stays what it was.
        return !before.is_finite() && !after.is_finite()
            || !golden_before.is_finite() && !golden_after.is_finite();
    }
    let largest = [before, after, golden_before, golden_after].iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    let rounding = largest * (-f64::from(mantissa_bits(dtype))).exp2();
    ((after - before) - (golden_after - golden_before)).abs() <= 4.0 * rounding
}

/// Bits of the fraction of a float.
fn mantissa_bits(dtype: DType) -> u8 {
    match dtype {
        DType::Float64 => 52,
        DType::Float32 => 23,
        DType::Float16 => 10,
        DType::BFloat16 => 7,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_with_garbage_change_by_the_same_amount() {
        let float = |value: f32| value.to_le_bytes();
        let is_sum = |ours: [f32; 2], theirs: [f32; 2]| {
            let [ours, theirs] = [ours.map(float), theirs.map(float)];
            is_same_change(DType::Float32, [&ours[0], &ours[1]], [&theirs[0], &theirs[1]])
        };
        assert!(is_sum([0.25, 3.25], [7.0, 10.0]));
        assert!(is_sum([1.5e16, 1.5e16], [1e-34, 3.0]), "the sum is lost in rounding");
        assert!(!is_sum([0.25, 5.0], [7.0, 3.0]), "it was overwritten");
        assert!(is_sum([f32::NAN, f32::NAN], [7.0, 10.0]));
        assert!(!is_sum([f32::NAN, 5.0], [7.0, 3.0]));
        let is_sum = |ours: [i32; 2], theirs: [i32; 2]| {
            let [ours, theirs] = [ours.map(i32::to_le_bytes), theirs.map(i32::to_le_bytes)];
            is_same_change(DType::Int32, [&ours[0], &ours[1]], [&theirs[0], &theirs[1]])
        };
        assert!(is_sum([i32::MAX, i32::MIN], [-8, -7]));
        assert!(!is_sum([5, 9], [9, 9]));
    }
}
