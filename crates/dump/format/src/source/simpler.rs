//! Names and conventions of the dump files of the public project `simpler`. The layouts and numbers that its
//! kernels see are in the crate `tensortap-abi`, in `simpler`.

use std::path::{Path, PathBuf};

use tensortap_abi::{MAX_DIMS, SimplerElements};

use super::{fields::Dims, raw_record::RawRecord};
use crate::{ArgumentKind, names::folder_of};

/// File names of manifests: the third generation, and the first one according to its documentation. The second
/// generation has tensortap's own name.
pub(crate) const MANIFEST_FILES: [&str; 2] = ["args_dump.json", "manifest.json"];

/// The file with tasks and dependencies.
pub(crate) const DEPS_FILE: &str = "deps.json";

/// Level of a name map whose callables are kernels.
pub(super) const KERNEL_LEVEL: u64 = 2;

/// Keys of manifests that tensortap interprets. It keeps the others as unknown keys.
pub(super) const KEYS: [&str; 14] = [
    "bin_format",
    "total_tensors",
    "total_args",
    "before_dispatch",
    "after_completion",
    "input_tensors",
    "input_args",
    "output_tensors",
    "output_args",
    "inout_tensors",
    "inout_args",
    "truncated_tensors",
    "truncated_args",
    "dropped_overwrite",
];

/// Start of the names of files that map numbers to names.
pub(crate) const NAME_MAP: &str = "name_map";

/// The payload file of a manifest that does not name it: named like the manifest, or as `simpler`'s
/// documentation states.
pub(super) fn payload_file(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("tensor_dump");
    let names = [format!("{stem}.bin"), "tensors.bin".into()];
    let exists = |name: &&String| folder_of(path).join(PathBuf::from(name)).exists();
    names.iter().find(exists).unwrap_or(&names[0]).clone()
}

/// Makes a tensor of pairs count its values: it gets an additional last dimension of 2. A scalar has no
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

/// Adds a dimension.
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
