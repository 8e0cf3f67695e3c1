//! What an export says about its files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tensortap_abi::DType;

use crate::InterchangeError;
use crate::arrays::NamedArray;
use crate::error::AtPath;
use crate::storage::{content_bytes, numpy_storage};

/// The file that an export writes beside its arrays.
pub const EXPORT_MANIFEST_FILE: &str = "tensortap_export.json";
/// A million arrays take some 400 MB.
const MAX_MANIFEST_BYTES: u64 = 4 << 30;

/// What an export wrote, and what it left out. It is written last: with it, the export is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportManifest {
    /// 1.
    pub schema_version: u32,
    /// The dump that was exported.
    pub dump: String,
    /// `npy`, `npz`, `safetensors`, `csv`, `txt` or `raw`.
    pub format: String,
    /// Every array written, in the order of the dump.
    pub arrays: Vec<ExportedArray>,
    /// Records that have no content to export.
    pub skipped: Vec<SkippedRecord>,
}

/// One array of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedArray {
    /// The array's name: that of its file, or inside a file that holds several.
    pub name: String,
    /// Its file, below the export's folder.
    pub file: String,
    /// What the bytes mean.
    pub dtype: String,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    /// The dtype that the file names, where the format lacks ours: same bytes, other name.
    pub stored_as: String,
    /// Bytes of content.
    pub bytes: u64,
    /// Position in the dump.
    pub index: u64,
    /// Step of the run that its task belongs to, 0 where the dump knows none.
    #[serde(default)]
    pub step: u32,
    /// Task.
    pub task_id: String,
    /// The task's kernels.
    pub kernels: Vec<String>,
    /// `before_dispatch` or `after_completion`.
    pub stage: String,
    /// `input`, `output` or `inout`.
    pub role: String,
    /// Position in the task's payload.
    pub arg_index: u16,
    /// `tensor` or `scalar`.
    pub kind: String,
    /// Content hash, as the dump has it.
    pub hash: Option<String>,
}

/// A record without content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRecord {
    /// Position in the dump.
    pub index: u64,
    /// The name its array would have had.
    pub name: String,
    /// What became of its payload: `none`, `dropped`, `overwritten` or `truncated`.
    pub payload: String,
}

impl ExportManifest {
    /// Reads a manifest.
    pub fn read(path: &Path) -> Result<ExportManifest, InterchangeError> {
        let file = File::open(path).at("open", path)?;
        let reader = BufReader::new(file.take(MAX_MANIFEST_BYTES));
        let damaged = |error: serde_json::Error| {
            InterchangeError::damaged(path, "an export's manifest", error.to_string())
        };
        serde_json::from_reader(reader).map_err(damaged)
    }
}

impl ExportedArray {
    pub(crate) fn meaning(&self) -> Meaning {
        Meaning { dtype: self.dtype.clone(), shape: self.shape.clone() }
    }
}

/// What bytes mean that a file holds under another dtype.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meaning {
    pub dtype: String,
    pub shape: Vec<u64>,
}

impl Meaning {
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn from_json(text: &str) -> Option<Meaning> {
        serde_json::from_str(text).ok()
    }
}

/// Gives an array its own dtype and shape back. What does not fit its bytes, or is not one of our ways to store a dtype,
/// changes nothing.
pub(crate) fn restore(array: &mut NamedArray, meaning: Option<&Meaning>) {
    let Some(Meaning { dtype, shape }) = meaning else { return };
    let Some(dtype) = DType::parse(dtype) else { return };
    let stands_in = array.dtype != dtype && numpy_storage(dtype, shape).dtype == array.dtype;
    if stands_in && content_bytes(dtype, shape) == Some(array.bytes()) {
        array.dtype = dtype;
        array.shape.clone_from(shape);
    }
}
