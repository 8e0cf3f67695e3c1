//! Elements that `simpler` counts as bytes and that hold two values each.

use tensortap_abi::{MAX_DIMS, SimplerElements};

use super::{fields::Dims, raw_record::RawRecord};
use crate::ArgumentKind;

/// Lets a tensor of pairs count its values: it gets a last dimension of 2, which no view steps over. A scalar has no
/// dimensions, so it stays a byte.
pub(super) fn spread_pairs(raw: &mut RawRecord) -> Result<(), String> {
    let Some(SimplerElements::Pairs(_)) = raw.dtype else { return Ok(()) };
    if raw.kind == Some(ArgumentKind::Scalar) {
        raw.dtype = Some(SimplerElements::Bytes);
        return Ok(());
    }
    let twice = |count: u64| count.checked_mul(2).ok_or("its size is out of range");
    raw.shape = raw.shape.map(|shape| with(shape.as_slice(), 2)).transpose()?;
    raw.raw_shape = raw.raw_shape.map(|shape| with(shape.as_slice(), 2)).transpose()?;
    raw.offsets = raw.offsets.map(|offsets| with(offsets.as_slice(), 0)).transpose()?;
    raw.strides = raw.strides.map(|strides| twice_as_far(strides.as_slice())).transpose()?;
    raw.start_offset = raw.start_offset.map(twice).transpose()?;
    raw.numel = raw.numel.map(twice).transpose()?;
    raw.ndims = raw.ndims.map(|ndims| ndims.saturating_add(1));
    Ok(())
}

/// One dimension more.
fn with<T: Copy + Default>(dims: &[T], last: T) -> Result<Dims<T>, String> {
    if dims.len() == MAX_DIMS {
        return Err(format!("elements of two values each have at most {} dimensions", MAX_DIMS - 1));
    }
    Ok(Dims::of(dims.iter().copied().chain([last])))
}

fn twice_as_far(strides: &[i64]) -> Result<Dims<i64>, String> {
    let far: Option<Vec<i64>> = strides.iter().map(|stride| stride.checked_mul(2)).collect();
    with(&far.ok_or("its strides are out of range")?, 1)
}
