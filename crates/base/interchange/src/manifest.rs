//! The manifest that an export writes next to its files.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tensortap_abi::DType;

use crate::InterchangeError;
use crate::arrays::NamedArray;
use crate::error::AtPath;
use crate::storage::{content_bytes, numpy_storage, safetensors_storage};

/// Name of the manifest file.
pub const EXPORT_MANIFEST_FILE: &str = "tensortap_export.json";
/// Size limit of the manifest; a million arrays take about 400 MB.
const MAX_MANIFEST_BYTES: u64 = 4 << 30;

/// The arrays that an export wrote, and those it skipped. The manifest is written last, so its presence means
/// that the export is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportManifest {
    /// Always 1.
    pub schema_version: u32,
    /// The dump that was exported.
    pub dump: String,
    /// `npy`, `npz`, `safetensors`, `csv`, `txt` or `raw`.
    pub format: String,
    /// Every written array, in the order of the dump.
    pub arrays: Vec<ExportedArray>,
    /// Records without content to export.
    pub skipped: Vec<SkippedRecord>,
}

/// One array of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedArray {
    /// Name of the array: that of its file, or the name inside a file with several arrays.
    pub name: String,
    /// Path of the file in the export's folder.
    pub file: String,
    /// The true dtype.
    pub dtype: String,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    /// The dtype in the file; it differs from `dtype` if the format lacks that. The bytes are the same.
    pub stored_as: String,
    /// Bytes of content.
    pub bytes: u64,
    /// Position in the dump.
    pub index: u64,
    /// Step of the task; 0 if the dump has no steps.
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
    /// Content hash of the dump.
    pub hash: Option<String>,
}

/// A record without content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRecord {
    /// Position in the dump.
    pub index: u64,
    /// The name that its array would have.
    pub name: String,
    /// State of its payload: `none`, `dropped`, `overwritten` or `truncated`.
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

/// Writes a manifest while the export runs, one line per array, without keeping the arrays in memory.
///
/// ```
/// use tensortap_interchange::{ExportManifest, ExportedArray, ManifestWriter};
///
/// let head = ExportManifest { schema_version: 1, dump: "d".into(), format: "npy".into(), ..Default::default() };
/// let mut writer = ManifestWriter::new(Vec::new(), &head)?;
/// writer.array(&ExportedArray::default())?;
/// let text = writer.finish(&[])?;
/// let read: ExportManifest = serde_json::from_slice(&text)?;
/// assert_eq!(read, ExportManifest { arrays: vec![ExportedArray::default()], ..head });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ManifestWriter<W> {
    out: W,
    /// The text between the items of both lists, and the text after them.
    between: String,
    after: String,
    has_items: bool,
}

impl<W: Write> ManifestWriter<W> {
    /// Writes everything before the first array. The lists of `head` are ignored.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W, head: &ExportManifest) -> io::Result<ManifestWriter<W>> {
        let head = ExportManifest { arrays: Vec::new(), skipped: Vec::new(), ..head.clone() };
        let text = serde_json::to_string_pretty(&head)?;
        // The empty lists are the last ones of the text.
        let mut parts = text.rsplitn(3, "[]").map(str::to_owned);
        let (after, between, before) = (parts.next(), parts.next(), parts.next());
        write!(out, "{}[", before.unwrap_or_default())?;
        let (between, after) = (between.unwrap_or_default(), after.unwrap_or_default());
        Ok(ManifestWriter { out, between, after, has_items: false })
    }

    /// Adds an array.
    ///
    /// # Errors
    /// If writing fails.
    pub fn array(&mut self, array: &ExportedArray) -> io::Result<()> {
        self.item(array)
    }

    /// Adds the skipped records, completes the text and returns the output.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, skipped: &[SkippedRecord]) -> io::Result<W> {
        self.end_list()?;
        write!(self.out, "{}[", self.between)?;
        skipped.iter().try_for_each(|record| self.item(record))?;
        self.end_list()?;
        writeln!(self.out, "{}", self.after)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn item(&mut self, item: &impl Serialize) -> io::Result<()> {
        let separator = if std::mem::replace(&mut self.has_items, true) { "," } else { "" };
        write!(self.out, "{separator}\n    {}", serde_json::to_string(item)?)
    }

    fn end_list(&mut self) -> io::Result<()> {
        let end = if std::mem::take(&mut self.has_items) { "\n  ]" } else { "]" };
        self.out.write_all(end.as_bytes())
    }
}

impl ExportedArray {
    pub(crate) fn meaning(&self) -> TrueType {
        TrueType { dtype: self.dtype.clone(), shape: self.shape.clone() }
    }
}

/// The true dtype and shape of an array that is stored under another dtype.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrueType {
    pub dtype: String,
    pub shape: Vec<u64>,
}

impl TrueType {
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn from_json(text: &str) -> Option<TrueType> {
        serde_json::from_str(text).ok()
    }
}

/// Restores the true dtype and shape of an array. Ignores entries that do not fit the bytes or that no export
/// writes.
pub(crate) fn restore(array: &mut NamedArray, meaning: Option<&TrueType>) {
    let Some(TrueType { dtype, shape }) = meaning else { return };
    let Some(dtype) = DType::parse(dtype) else { return };
    let stored = [numpy_storage(dtype, shape), safetensors_storage(dtype, shape)];
    let is_substitute = array.dtype != dtype && stored.iter().any(|stored| stored.dtype == array.dtype);
    if is_substitute && content_bytes(dtype, shape) == Some(array.bytes()) {
        array.dtype = dtype;
        array.shape.clone_from(shape);
    }
}
