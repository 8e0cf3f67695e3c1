//! Did a task use the uninitialized memory that it received?

use tensortap_abi::{DType, DumpStage};
use tensortap_format::FormatError;
use tensortap_values::{decode_block, element_bits};

use super::content::{ChangedElements, changed, content, width};
use super::spans::Spans;
use super::{ArgPair, Gatherer, InputEvidence};

/// How a task used uninitialized memory.
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

/// Bytes of one side before and after the task.
struct OverTask {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl<'r> Gatherer<'r> {
    /// How a task used the uninitialized content of an argument. An argument that the task left alone may have been
    /// read. An argument that changed by the same amount in both runs was added to, so its old content is part of the
    /// result. Elements that neither run changed, next to elements that the task wrote, are slack.
    pub(super) fn uninitialized_use(
        &self,
        pair: ArgPair<'r>,
        input: &InputEvidence,
    ) -> Result<UninitializedUse, FormatError> {
        let ArgPair { arg, other, .. } = pair;
        if !input.is_undefined || arg.is_unchanged() && other.is_unchanged() {
            return Ok(UninitializedUse::MayBeRead);
        }
        let (ChangedElements::Some(ours), ChangedElements::Some(theirs)) =
            (changed(self.ours, arg)?, changed(self.golden, other)?)
        else {
            return Ok(UninitializedUse::MayBeRead);
        };
        let differing = input.marks.spans().whole_elements(width(arg));
        let written = differing.and(&ours.or(&theirs));
        if written.is_empty() {
            return Ok(UninitializedUse::MayBeRead);
        }
        let sides = [(self.ours, arg), (self.golden, other)].map(|(run, arg)| {
            let before = content(run.dump, arg, DumpStage::BeforeDispatch)?;
            let after = content(run.dump, arg, DumpStage::AfterCompletion)?;
            Ok::<_, FormatError>(before.zip(after).map(|(before, after)| OverTask { before, after }))
        });
        let [ours, theirs] = sides;
        let Some((ours, theirs)) = ours?.zip(theirs?) else { return Ok(UninitializedUse::MayBeRead) };
        Ok(match is_added_to(arg.dtype, arg.dtype_known, &written, (&ours, &theirs)) {
            true => UninitializedUse::MayBeRead,
            false if written == differing => UninitializedUse::Overwritten,
            false => UninitializedUse::PartlyOverwritten,
        })
    }
}

/// Whether every written element changed by the same amount in both runs. Bytes of unknown type are tried as the most
/// common types.
fn is_added_to(dtype: DType, is_known: bool, written: &Spans, sides: (&OverTask, &OverTask)) -> bool {
    let tried: &[DType] = match is_known {
        true => &[dtype],
        false => {
            &[DType::Float32, DType::UInt32, DType::Float64, DType::BFloat16, DType::Float16, DType::UInt8]
        }
    };
    tried.iter().any(|&dtype| changed_alike(dtype, written, sides))
}

fn changed_alike(dtype: DType, written: &Spans, (ours, theirs): (&OverTask, &OverTask)) -> bool {
    let halves = u64::from(dtype.bits() / 4).max(1);
    let elements = written.whole_elements(halves);
    let mut positions = elements.iter().flat_map(|span| span.start / halves..span.end / halves);
    positions.all(|at| {
        let Ok(at) = usize::try_from(at) else { return false };
        match (amount(dtype, ours, at), amount(dtype, theirs, at)) {
            (Some(ours), Some(theirs)) => ours.is_close(theirs),
            // The last bytes may be no whole element of this type.
            _ => true,
        }
    })
}

/// By how much an element changed.
#[derive(Clone, Copy)]
enum Amount {
    /// The amount and how far it may be off, because a sum with a large number is rounded.
    Float {
        by: f64,
        rounding: f64,
    },
    Integer(u64),
}

impl Amount {
    fn is_close(self, other: Amount) -> bool {
        match (self, other) {
            (Amount::Float { by, rounding }, Amount::Float { by: other, rounding: other_rounding }) => {
                (by - other).abs() <= rounding.max(other_rounding)
            }
            (Amount::Integer(by), Amount::Integer(other)) => by == other,
            _ => false,
        }
    }
}

fn amount(dtype: DType, side: &OverTask, at: usize) -> Option<Amount> {
    let (before, after) = (element_bits(dtype, &side.before, at)?, element_bits(dtype, &side.after, at)?);
    if !dtype.is_float() {
        let mask = u64::MAX >> (64 - dtype.bits().clamp(1, 64));
        return Some(Amount::Integer(after.wrapping_sub(before) & mask));
    }
    let value = |bits: u64| {
        let mut value = [0.0];
        let bytes = bits.to_le_bytes();
        decode_block(dtype, &bytes[..usize::try_from(dtype.bits().div_ceil(8)).unwrap_or(8)], &mut value);
        value[0]
    };
    let (before, after) = (value(before), value(after));
    // The spacing of numbers of this type, relative to their size.
    let spacing = match dtype {
        DType::Float64 => 1e-15,
        DType::Float32 => 5e-7,
        DType::Float16 => 4e-3,
        DType::BFloat16 => 3e-2,
        _ => 0.25,
    };
    let by = after - before;
    Some(Amount::Float { by, rounding: spacing * before.abs().max(after.abs()).max(by.abs()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(before: [f32; 3], after: [f32; 3]) -> OverTask {
        let bytes = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
        OverTask { before: bytes(before), after: bytes(after) }
    }

    #[test]
    fn adding_to_garbage_is_distinguished_from_overwriting_it() {
        let all = Spans::up_to(24);
        let golden = side([1.0, 2.0, 3.0], [11.0, 12.5, 13.0]);
        for (ours, expected) in [
            (side([7.0, -5.0, 90.0], [17.0, 5.5, 100.0]), true),
            (side([7.0, -5.0, 90.0], [11.0, 12.5, 14.0]), false),
            (side([7.0, -5.0, 90.0], [0.5, 0.25, 0.125]), false),
        ] {
            for is_known in [true, false] {
                let found = is_added_to(DType::Float32, is_known, &all, (&ours, &golden));
                assert_eq!(found, expected, "{:?} {is_known}", ours.after);
            }
        }
        let integers =
            |before: [u8; 3], after: [u8; 3]| OverTask { before: before.into(), after: after.into() };
        let (ours, golden) = (integers([250, 3, 9], [4, 13, 19]), integers([1, 2, 3], [11, 12, 13]));
        assert!(is_added_to(DType::UInt8, true, &Spans::up_to(6), (&ours, &golden)));
    }
}
