//! Dumps of one task whose manifest is not a file of its own: a case in one `.safetensors` file, and a case of version 1.
//!
//! | case | manifest | payloads |
//! | --- | --- | --- |
//! | one file | note `tensor_dump.json` in the header, with the names of tensors instead of offsets | tensors of the file |
//! | version 1, one file | note `tensortap_case`: a description of its own, which [`super::old_case`] translates | tensors of the file |
//! | version 1, folder | `case.json`: the same description | `tensors.safetensors` next to it |

use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ManifestRecords, manifest::open_documents, neighbors::MAX_HEAD_BYTES, old_case};
use crate::{FormatError, GRAPH_FILE, MANIFEST_FILE, error::AtPath, index::open_regular, names::folder_of};

/// Description file of a case of version 1.
pub(crate) const OLD_CASE_FILE: &str = "case.json";
/// Payloads of a case of version 1.
const OLD_PAYLOADS: &str = "tensors.safetensors";
/// Note with the description of a case of version 1.
const OLD_NOTE: &str = "tensortap_case";
/// Key of a record in a file without offsets: the name of the tensor that is its payload.
const TENSOR_KEY: &str = "tensor";

/// Whether a file is one of these by its name.
pub(crate) fn is_case_file(path: &Path) -> bool {
    is_single_file(path) || path.file_name().is_some_and(|name| name == OLD_CASE_FILE)
}

/// Whether a file has the name of a case in one file.
pub(crate) fn is_single_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "safetensors")
}

/// Opens such a file.
pub(crate) fn open_case(path: &Path) -> Result<ManifestRecords, FormatError> {
    let bad = |reason: String| FormatError::BadCase { path: path.to_owned(), reason };
    let (payloads, description) = if is_single_file(path) {
        (path.to_owned(), None)
    } else {
        (folder_of(path).join(OLD_PAYLOADS), Some(read_head(path, MAX_HEAD_BYTES as u64)?))
    };
    let mut header = Header::read(&payloads)?;
    let opened = match (description, header.notes.remove(MANIFEST_FILE)) {
        (None, Some(manifest)) => header.documents(&manifest),
        (Some(description), _) => old_case::documents(&description, &header.tensors),
        (None, None) => match header.notes.remove(OLD_NOTE) {
            Some(description) => old_case::documents(description.as_bytes(), &header.tensors),
            None => {
                let reason =
                    format!("its metadata has no key `{MANIFEST_FILE}`: this safetensors file is not a case");
                return Err(bad(reason));
            }
        },
    };
    let (mut manifest, graph) = opened.map_err(bad)?;
    // The file may have been renamed.
    let bin_file = payloads
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| bad("its name is not UTF-8".into()))?;
    manifest.insert("bin_file".into(), bin_file.into());
    open_documents(path, manifest.into(), graph).map_err(|error| match error {
        FormatError::BadManifest { record: Some(record), reason, .. } => {
            bad(format!("record {record}: {reason}"))
        }
        FormatError::BadManifest { reason, .. } | FormatError::NotADump { reason, .. } => bad(reason),
        other => other,
    })
}

/// A small file, as bytes.
fn read_head(path: &Path, most: u64) -> Result<Vec<u8>, FormatError> {
    let mut text = Vec::new();
    open_regular(path)?.take(most).read_to_end(&mut text).at("read", path)?;
    Ok(text)
}

/// Where the payload of a tensor is: its first byte in the file, and its size.
pub(super) type PayloadRange = (u64, u64);

/// The header of a safetensors file.
pub(super) struct Header {
    notes: HashMap<String, String>,
    pub(super) tensors: HashMap<String, PayloadRange>,
}

#[derive(Deserialize)]
struct Tensor {
    data_offsets: [u64; 2],
}

impl Header {
    fn read(path: &Path) -> Result<Header, FormatError> {
        let mut length = [0; 8];
        let mut file = open_regular(path)?;
        let bytes = file.metadata().at("measure", path)?.len();
        file.read_exact(&mut length).at("read", path)?;
        let length = u64::from_le_bytes(length);
        let damaged = |reason: String| FormatError::BadCase { path: path.to_owned(), reason };
        if length > MAX_HEAD_BYTES as u64 || length > bytes.saturating_sub(8) {
            return Err(damaged(format!(
                "its header has {length} bytes, but the file has {bytes}; copy it again"
            )));
        }
        let mut text = Vec::new();
        file.take(length).read_to_end(&mut text).at("read", path)?;
        Header::parse(&text, 8 + length, bytes).map_err(damaged)
    }

    /// `start` is the offset of the data, and `end` the size of the file.
    fn parse(text: &[u8], start: u64, end: u64) -> Result<Header, String> {
        let mut entries: HashMap<String, Value> =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let notes = entries.remove("__metadata__").unwrap_or_else(|| Map::new().into());
        let notes = serde_json::from_value(notes).map_err(|error| error.to_string())?;
        let mut tensors = HashMap::new();
        for (name, entry) in entries {
            let Tensor { data_offsets: [first, last] } =
                serde_json::from_value(entry).map_err(|error| format!("tensor `{name}`: {error}"))?;
            let place = last.checked_sub(first).zip(start.checked_add(first));
            let place = place.filter(|(bytes, at)| at.checked_add(*bytes).is_some_and(|last| last <= end));
            let (bytes, at) = place.ok_or_else(|| {
                format!("tensor `{name}` is at {first} to {last}, past the end of the file; copy it again")
            })?;
            tensors.insert(name, (at, bytes));
        }
        Ok(Header { notes, tensors })
    }

    /// Manifest and graph of a case in one file, with the offsets of its payloads.
    fn documents(&self, manifest: &str) -> Result<(Map<String, Value>, Value), String> {
        let graph =
            self.notes.get(GRAPH_FILE).ok_or_else(|| format!("its metadata has no key `{GRAPH_FILE}`"))?;
        let graph = serde_json::from_str(graph).map_err(|error| format!("`{GRAPH_FILE}`: {error}"))?;
        let mut manifest: Map<String, Value> =
            serde_json::from_str(manifest).map_err(|error| format!("`{MANIFEST_FILE}`: {error}"))?;
        let records = manifest.get_mut("tensors").and_then(Value::as_array_mut).into_iter().flatten();
        for record in records.filter_map(Value::as_object_mut) {
            if let Some(Value::String(name)) = record.remove(TENSOR_KEY) {
                place(record, &name, &self.tensors)?;
            }
        }
        Ok((manifest, graph))
    }
}

/// Makes a tensor of the file the payload of a record.
pub(super) fn place(
    record: &mut Map<String, Value>,
    name: &str,
    tensors: &HashMap<String, PayloadRange>,
) -> Result<(), String> {
    let (at, bytes) = tensors.get(name).ok_or_else(|| format!("tensor `{name}` is not in the file"))?;
    record.insert("bin_offset".into(), (*at).into());
    record.insert("bin_size".into(), (*bytes).into());
    Ok(())
}

/// The file of a case that `path` names, if it names one. A link to a file is followed, because its target has the payloads.
pub(crate) fn case_at(path: &Path) -> Option<PathBuf> {
    let old = path.join(OLD_CASE_FILE);
    if old.is_file() {
        return Some(old);
    }
    let is_file = is_case_file(path) && !path.is_dir();
    is_file.then(|| if path.is_symlink() { path.canonicalize().ok() } else { Some(path.to_owned()) })?
}
