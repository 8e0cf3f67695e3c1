//! `.safetensors`: a length, a JSON header, then the bytes of every tensor without gaps.

mod header;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tensortap_abi::DType;

use self::header::{Header, TensorEntry};
use crate::arrays::{ByteSource, NamedArray};
use crate::error::AtPath;
use crate::manifest::{TrueType, restore};
use crate::order::Order;
use crate::storage::{content_bytes, safetensors_storage};
use crate::writer::{check_size, copy};
use crate::{ArrayHead, Content, InterchangeError};

const FORMAT: &str = "safetensors";
/// The limit of the format's reference reader.
const MAX_HEADER_BYTES: u64 = 100_000_000;

pub(crate) fn write(
    file: &mut File,
    path: &Path,
    arrays: &[(ArrayHead<'_>, &dyn Content)],
    notes: &[(&str, &str)],
    buffer: &mut Vec<u8>,
) -> Result<(), InterchangeError> {
    let mut arrays = arrays.to_vec();
    // Wide elements first, like the format's reference writer: then every tensor is aligned to its elements.
    arrays.sort_by_key(|(head, _)| std::cmp::Reverse(head.dtype.bits()));
    let (mut entries, mut end) = (Vec::new(), 0_u64);
    let mut metadata: Vec<(String, String)> =
        notes.iter().map(|(key, text)| ((*key).to_string(), (*text).to_string())).collect();
    for (head, content) in &arrays {
        let bytes = check_size(head, *content)?;
        let stored = safetensors_storage(head.dtype, head.shape);
        if stored.dtype != head.dtype {
            let meaning = TrueType { dtype: head.dtype.name().into(), shape: head.shape.into() };
            metadata.push((head.name.to_string(), meaning.to_json()));
        }
        let data_offsets = [end, end.saturating_add(bytes)];
        end = data_offsets[1];
        let dtype = stored.dtype.safetensors_name().unwrap_or_default().into();
        entries.push((head.name.to_string(), TensorEntry { dtype, shape: stored.shape, data_offsets }));
    }
    file.write_all(&header::encode(&entries, &metadata)).at("write", path)?;
    arrays.iter().try_for_each(|(head, content)| copy(file, path, &[], head, *content, buffer))
}

/// The tensors of a file, and the notes in its header.
pub(crate) type OpenedFile = (Vec<NamedArray>, Vec<(String, String)>);

pub(crate) fn open(path: &Path, mut file: File) -> Result<OpenedFile, InterchangeError> {
    let damaged = |reason: String| InterchangeError::damaged(path, FORMAT, reason);
    let file_bytes = file.metadata().at("measure", path)?.len();
    let mut length = [0; 8];
    if file_bytes < length.len() as u64 {
        return Err(damaged("it ends within its header".into()));
    }
    file.read_exact(&mut length).at("read", path)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES || length > file_bytes - 8 {
        return Err(damaged(format!("its header has {length} bytes, more than the file's {file_bytes}")));
    }
    let mut text = Vec::new();
    (&mut file).take(length).read_to_end(&mut text).at("read", path)?;
    let Header { tensors, metadata } = header::decode(&text).map_err(damaged)?;
    let data_start = 8 + length;
    let mut arrays = Vec::with_capacity(tensors.len());
    for (name, TensorEntry { dtype, shape, data_offsets: [start, end] }) in tensors {
        let Some(dtype) = parse_dtype(&dtype) else {
            return Err(InterchangeError::UnknownDType { path: path.into(), name, dtype });
        };
        let need = content_bytes(dtype, &shape);
        if end.checked_sub(start).is_none_or(|bytes| Some(bytes) != need) {
            return Err(damaged(format!("{name}: its offsets {start} to {end} contradict its shape")));
        }
        let offset = data_start.saturating_add(start);
        let have = file_bytes.saturating_sub(offset);
        let bytes_at = ByteSource::File { offset };
        let mut array = NamedArray::new(path, name, dtype, shape, Order::default(), bytes_at, have)?;
        let meaning = metadata.iter().find(|(key, _)| *key == array.name);
        restore(&mut array, meaning.and_then(|(_, json)| TrueType::from_json(json)).as_ref());
        arrays.push(array);
    }
    Ok((arrays, metadata))
}

fn parse_dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.safetensors_name() == Some(name))
}
