use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use tensortap_abi::DType;
use tensortap_values::{element_bits, elements_in};

use crate::error::AtPath;
use crate::storage::content_bytes;
use crate::{Content, InterchangeError, csv, npy, npz, safetensors, txt};

/// Bytes read and written at a time.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Name and type of an array.
#[derive(Clone, Copy, Debug)]
pub struct ArrayHead<'a> {
    /// Name inside a file with several arrays.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension; empty for a scalar.
    pub shape: &'a [u64],
}

/// Writes arrays to files in pieces. Keeps its buffer for the next array; use one writer per thread.
///
/// Every method replaces an existing file of that name. A link is replaced, never followed. An incomplete
/// file is removed after an error. Methods return the size of the file.
#[derive(Debug, Default)]
pub struct ArrayWriter {
    buffer: Vec<u8>,
}

impl ArrayWriter {
    /// A writer without a buffer yet.
    #[must_use]
    pub fn new() -> ArrayWriter {
        ArrayWriter::default()
    }

    /// One array as `.npy`, version 1.
    pub fn npy(
        &mut self,
        path: &Path,
        head: &ArrayHead<'_>,
        content: &dyn Content,
    ) -> Result<u64, InterchangeError> {
        let header = npy::encode(head.dtype, head.shape);
        self.write_file(path, |buffer, file| copy(file, path, &header, head, content, buffer))
    }

    /// The bytes of one array without a header.
    pub fn raw(
        &mut self,
        path: &Path,
        head: &ArrayHead<'_>,
        content: &dyn Content,
    ) -> Result<u64, InterchangeError> {
        self.write_file(path, |buffer, file| copy(file, path, &[], head, content, buffer))
    }

    /// Several arrays as `.npz`, stored without compression.
    pub fn npz(
        &mut self,
        path: &Path,
        arrays: &[(ArrayHead<'_>, &dyn Content)],
    ) -> Result<u64, InterchangeError> {
        self.write_file(path, |buffer, file| npz::write(file, path, arrays, buffer))
    }

    /// Several arrays as `.safetensors`, with `notes` (key and text) in the header.
    pub fn safetensors(
        &mut self,
        path: &Path,
        arrays: &[(ArrayHead<'_>, &dyn Content)],
        notes: &[(&str, &str)],
    ) -> Result<u64, InterchangeError> {
        self.write_file(path, |buffer, file| safetensors::write(file, path, arrays, notes, buffer))
    }

    /// One array as comma-separated values, one line per row of the last dimension. Values read back exactly.
    pub fn csv(
        &mut self,
        path: &Path,
        head: &ArrayHead<'_>,
        content: &dyn Content,
    ) -> Result<u64, InterchangeError> {
        self.write_text(path, |buffer, out| csv::write(out, path, head, content, buffer))
    }

    /// One array as text for reading and line-by-line comparison: `#` lines with `notes`, an overview, and
    /// every element on its own line. Values read back exactly.
    pub fn txt(
        &mut self,
        path: &Path,
        head: &ArrayHead<'_>,
        notes: &[(&str, String)],
        content: &dyn Content,
    ) -> Result<u64, InterchangeError> {
        self.write_text(path, |buffer, out| txt::write(out, path, head, notes, content, buffer))
    }

    fn write_text(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut Vec<u8>, &mut dyn Write) -> Result<(), InterchangeError>,
    ) -> Result<u64, InterchangeError> {
        self.write_file(path, |buffer, file| {
            let mut out = BufWriter::with_capacity(1 << 16, &*file);
            write(buffer, &mut out)?;
            out.flush().at("write", path)
        })
    }

    fn write_file(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut Vec<u8>, &mut File) -> Result<(), InterchangeError>,
    ) -> Result<u64, InterchangeError> {
        let mut file = create(path).at("create", path)?;
        let written =
            write(&mut self.buffer, &mut file).and_then(|()| Ok(file.metadata().at("measure", path)?.len()));
        if written.is_err() {
            // An incomplete file could be mistaken for a complete one; the error explains why there is no
            // file.
            let _ = fs::remove_file(path);
        }
        written
    }
}

fn create(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// Fails if the content does not have the size of the shape.
pub(crate) fn check_size(head: &ArrayHead<'_>, content: &dyn Content) -> Result<u64, InterchangeError> {
    let (need, have) = (content_bytes(head.dtype, head.shape).unwrap_or(u64::MAX), content.bytes());
    if need == have {
        Ok(need)
    } else {
        Err(InterchangeError::ContentSize { name: head.name.into(), need, have })
    }
}

/// Writes `lead` and then the content, in pieces that end at multiples of their size.
pub(crate) fn copy(
    out: &mut dyn Write,
    path: &Path,
    lead: &[u8],
    head: &ArrayHead<'_>,
    content: &dyn Content,
    buffer: &mut Vec<u8>,
) -> Result<(), InterchangeError> {
    let total = check_size(head, content)?;
    // An array of exactly one piece is written together with its header.
    buffer.resize(buffer.len().max(lead.len() + PIECE_BYTES), 0);
    buffer[..lead.len()].copy_from_slice(lead);
    let whole = usize::try_from(total).is_ok_and(|total| total <= PIECE_BYTES);
    let (mut filled, mut offset) = (lead.len(), 0);
    loop {
        let room = if whole { PIECE_BYTES } else { PIECE_BYTES.saturating_sub(filled).max(1) };
        let bytes = usize::try_from(total - offset).map_or(room, |left| left.min(room));
        let into = &mut buffer[filled..filled + bytes];
        read(head, content, offset, into)?;
        out.write_all(&buffer[..filled + bytes]).at("write", path)?;
        offset += bytes as u64;
        filled = 0;
        if offset == total {
            return Ok(());
        }
    }
}

pub(crate) fn read(
    head: &ArrayHead<'_>,
    content: &dyn Content,
    offset: u64,
    into: &mut [u8],
) -> Result<(), InterchangeError> {
    let content_error = |source| InterchangeError::Content { name: head.name.into(), source };
    if into.is_empty() { Ok(()) } else { content.read_at(offset, into).map_err(content_error) }
}

/// Calls `each` with the bits of every element, in order.
pub(crate) fn each_element(
    head: &ArrayHead<'_>,
    content: &dyn Content,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(u128) -> Result<(), InterchangeError>,
) -> Result<(), InterchangeError> {
    let total = check_size(head, content)?;
    let mut left = crate::storage::numel(head.shape).unwrap_or(u64::MAX);
    buffer.resize(buffer.len().max(PIECE_BYTES), 0);
    let mut offset = 0;
    while offset < total {
        let bytes = usize::try_from(total - offset).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let piece = &mut buffer[..bytes];
        read(head, content, offset, piece)?;
        let held = elements_in(head.dtype, bytes);
        // The byte of a last odd 4-bit element has an unused half.
        let count = usize::try_from(left).map_or(held, |left| left.min(held));
        left -= count as u64;
        for position in 0..count {
            each(element_bits(head.dtype, piece, position).unwrap_or_default())?;
        }
        offset += bytes as u64;
    }
    Ok(())
}
