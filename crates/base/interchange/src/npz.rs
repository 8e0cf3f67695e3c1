//! `.npz`: a zip archive of `.npy` files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZIP64_BYTES_THR, ZipArchive, ZipWriter};

use crate::arrays::{ByteSource, NamedArray};
use crate::error::AtPath;
use crate::npy::{self, NpyRefusal};
use crate::writer::{check_size, copy};
use crate::{ArrayHead, Content, InterchangeError};

const FORMAT: &str = "npz";
const EXTENSION: &str = ".npy";
/// The maximum compression ratio of deflate.
const MAX_INFLATION: u64 = 1100;

/// An archive whose compressed entries are read one at a time.
pub(crate) type SharedArchive = Arc<Mutex<ZipArchive<File>>>;

pub(crate) fn write(
    file: &mut File,
    path: &Path,
    arrays: &[(ArrayHead<'_>, &dyn Content)],
    buffer: &mut Vec<u8>,
) -> Result<(), InterchangeError> {
    let zipped = |error: zip::result::ZipError| InterchangeError::Io {
        action: "write",
        path: path.into(),
        source: io::Error::other(error),
    };
    let mut archive = ZipWriter::new(BufWriter::with_capacity(1 << 16, file));
    for (head, content) in arrays {
        let header = npy::encode(head.dtype, head.shape);
        let bytes = check_size(head, *content)?.saturating_add(header.len() as u64);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes >= ZIP64_BYTES_THR)
            .with_alignment(64);
        archive.start_file(format!("{}{EXTENSION}", head.name), options).map_err(zipped)?;
        copy(&mut archive, path, &header, head, *content, buffer)?;
    }
    archive.finish().map_err(zipped)?.flush().at("write", path)
}

/// The arrays of an archive.
pub(crate) fn open(path: &Path, file: File) -> Result<Vec<NamedArray>, InterchangeError> {
    let file_bytes = file.metadata().at("measure", path)?.len();
    let archive = ZipArchive::new(file).map_err(|error| zip_error(path, error))?;
    let entries = archive.len();
    let archive = Arc::new(Mutex::new(archive));
    let mut arrays = Vec::new();
    for entry in 0..entries {
        arrays.extend(open_entry(path, &archive, entry, file_bytes)?);
    }
    Ok(arrays)
}

/// Opens an entry if it is an array; other entries are skipped.
fn open_entry(
    path: &Path,
    archive: &SharedArchive,
    entry: usize,
    file_bytes: u64,
) -> Result<Option<NamedArray>, InterchangeError> {
    let shared = archive;
    let mut archive = lock(shared);
    let mut member = archive.by_index(entry).map_err(|error| zip_error(path, error))?;
    let name = member.name().map_err(|error| zip_error(path, error))?.into_owned();
    let Some(name) = name.strip_suffix(EXTENSION).map(str::to_string) else { return Ok(None) };
    let damaged = |reason: String| InterchangeError::damaged(path, FORMAT, format!("{name}: {reason}"));
    let (size, packed) = (member.size(), member.compressed_size());
    if packed > file_bytes || size > packed.saturating_mul(MAX_INFLATION).saturating_add(MAX_INFLATION) {
        return Err(damaged(format!("{packed} compressed bytes cannot expand to {size}")));
    }
    let mut prefix = Vec::new();
    let most = npy::MAX_PREFIX_BYTES as u64;
    (&mut member).take(most.min(size)).read_to_end(&mut prefix).at("read", path)?;
    let header = npy::decode(&prefix).map_err(|refusal| match refusal {
        NpyRefusal::Damaged(reason) => damaged(reason),
        NpyRefusal::DType(dtype) => {
            InterchangeError::UnknownDType { path: path.into(), name: name.clone(), dtype }
        }
    })?;
    let stored = member.compression() == CompressionMethod::Stored;
    let bytes_at = match member.data_start() {
        Some(start) if stored => ByteSource::File { offset: start.saturating_add(header.data_offset) },
        _ => ByteSource::Zip { archive: Arc::clone(shared), entry, skip: header.data_offset },
    };
    drop(member);
    drop(archive);
    let have = size.saturating_sub(header.data_offset);
    NamedArray::new(path, name, header.dtype, header.shape, header.order, bytes_at, have).map(Some)
}

/// Reads `into.len()` bytes of a compressed entry, after the first `skip`.
pub(crate) fn read_entry(
    path: &Path,
    archive: &SharedArchive,
    entry: usize,
    skip: u64,
    into: &mut [u8],
) -> Result<(), InterchangeError> {
    let mut archive = lock(archive);
    let mut member = archive.by_index(entry).map_err(|error| zip_error(path, error))?;
    io::copy(&mut (&mut member).take(skip), &mut io::sink()).at("read", path)?;
    member.read_exact(into).at("read", path)
}

/// Locks the archive. A panic of another reader leaves no inconsistent state, because every read starts at an
/// entry.
fn lock(archive: &SharedArchive) -> std::sync::MutexGuard<'_, ZipArchive<File>> {
    archive.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn zip_error(path: &Path, error: zip::result::ZipError) -> InterchangeError {
    match error {
        zip::result::ZipError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            InterchangeError::Io { action: "read", path: path.into(), source }
        }
        other => InterchangeError::damaged(path, FORMAT, other.to_string()),
    }
}
