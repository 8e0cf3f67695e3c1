//! Reads payloads: completely, in parts, or as a stream. Reads are positioned, so threads can share a
//! [`Dump`], and a file that shrinks meanwhile causes an error and not a signal.

use std::{
    io::{self, ErrorKind, Read},
    path::PathBuf,
};

use crate::{
    Dump, DumpFormat, FormatError, PayloadState, Record, error::AtPath, index::read_up_to, names::quoted,
};

impl Dump {
    /// The stored payload of a record. For a truncated payload, its stored part.
    pub fn payload(&self, record: &Record) -> Result<Vec<u8>, FormatError> {
        let mut payload = Vec::new();
        self.payload_into(record, &mut payload)?;
        Ok(payload)
    }

    /// Replaces the content of `into` with the stored payload of a record. Reuses the memory of `into` if
    /// it is large enough.
    pub fn payload_into(&self, record: &Record, into: &mut Vec<u8>) -> Result<(), FormatError> {
        self.check_stored(record)?;
        let no_memory = || FormatError::NoMemory { record: record.to_string(), bytes: record.bin_size };
        let bytes = usize::try_from(record.bin_size).map_err(|_| no_memory())?;
        into.truncate(bytes);
        into.try_reserve_exact(bytes - into.len()).map_err(|_| no_memory())?;
        into.resize(bytes, 0);
        self.payload_part(record, 0, into)
    }

    /// Fills `into` with the stored payload of a record from byte `offset` on.
    pub fn payload_part(&self, record: &Record, offset: u64, into: &mut [u8]) -> Result<(), FormatError> {
        let bytes = into.len() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > record.bin_size) {
            let have = record.bin_size;
            return Err(FormatError::PayloadRange { record: record.to_string(), offset, bytes, have });
        }
        self.check_stored(record)?;
        if bytes == 0 {
            return Ok(());
        }
        let (number, start) = self.payloads.place(record.bin_offset);
        let at = start + offset;
        let read =
            read_up_to(self.payloads.file(number)?, into, at).at("read", &self.payloads.path(number))?;
        // Checked after the bytes were read, because a hole reads as zeros.
        if self.record_has_left(record)? {
            return Err(self.gone(record));
        }
        if read == into.len() { Ok(()) } else { Err(self.short(record, at + read as u64)) }
    }

    /// The stored payload of a record in pieces of `chunk_bytes`; the last may be shorter. Uses the memory
    /// of one piece.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), tensortap_format::FormatError> {
    /// let dump = tensortap_format::Dump::open("outputs".as_ref())?;
    /// let record = dump.record(0)?;
    /// let mut zeros = 0;
    /// let mut chunks = dump.payload_chunks(&record, 1 << 20)?;
    /// while let Some(bytes) = chunks.next_chunk()? {
    ///     zeros += bytes.iter().filter(|byte| **byte == 0).count();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn payload_chunks(
        &self,
        record: &Record,
        chunk_bytes: usize,
    ) -> Result<PayloadChunks<'_>, FormatError> {
        self.check_stored(record)?;
        Ok(PayloadChunks {
            dump: self,
            record: *record,
            next: 0,
            chunk_bytes: chunk_bytes.max(1),
            buffer: Vec::new(),
        })
    }

    /// The stored payload of a record as a [`Read`]. The stream ends after the whole payload or with an
    /// error that contains a [`FormatError`], and never early.
    pub fn payload_reader(&self, record: &Record) -> Result<PayloadReader<'_>, FormatError> {
        self.check_stored(record)?;
        Ok(PayloadReader { dump: self, record: *record, next: 0 })
    }

    /// Checks that the payload file contains the whole payload of the record.
    fn check_stored(&self, record: &Record) -> Result<(), FormatError> {
        let may_be_read = [PayloadState::Stored, PayloadState::Truncated, PayloadState::Missing];
        if !may_be_read.contains(&record.payload) {
            return Err(FormatError::NoPayload { record: record.to_string(), state: record.payload.name() });
        }
        if record.bin_size == 0 {
            return Ok(());
        }
        let (number, start) = self.payloads.place(record.bin_offset);
        let have = self.payloads.length(number).map_err(|error| self.missing(record, error))?;
        match start.checked_add(record.bin_size) {
            Some(end) if end <= have => Ok(()),
            _ if self.record_has_left(record)? => Err(self.gone(record)),
            _ => Err(self.short(record, have)),
        }
    }

    fn missing(&self, record: &Record, error: FormatError) -> FormatError {
        match error {
            FormatError::Io { source, .. }
                if source.kind() == ErrorKind::NotFound && self.record_has_left(record).unwrap_or(false) =>
            {
                self.gone(record)
            }
            FormatError::Io { path, source, .. } if source.kind() == ErrorKind::NotFound => {
                FormatError::PayloadMissing { path, record: record.to_string() }
            }
            error => error,
        }
    }

    pub(crate) fn short(&self, record: &Record, have: u64) -> FormatError {
        let (path, offset) = self.payload_place(record);
        FormatError::PayloadShort {
            path,
            record: record.to_string(),
            offset,
            bytes: record.bin_size,
            have,
            remedy: self.short_remedy(),
        }
    }

    /// The remedy for a payload file that is too short.
    pub(crate) fn short_remedy(&self) -> String {
        let copy = "copy the dump again";
        if self.format() != DumpFormat::Indexed {
            return copy.into();
        }
        format!("{copy}, or run `tensortap repair {}`, which drops the payload", quoted(self.dir()))
    }

    /// Path of the payload file, which exists if any payload was stored; the first one, if there are several.
    #[must_use]
    pub fn payload_path(&self) -> PathBuf {
        self.payloads.path(0)
    }

    /// The payload file of a record, and the offset of its payload in this file.
    #[must_use]
    pub fn payload_place(&self, record: &Record) -> (PathBuf, u64) {
        let (number, offset) = self.payloads.place(record.bin_offset);
        (self.payloads.path(number), offset)
    }
}

/// A payload in pieces. Made by [`Dump::payload_chunks`].
pub struct PayloadChunks<'d> {
    dump: &'d Dump,
    record: Record,
    /// First byte of the payload that was not returned yet.
    next: u64,
    chunk_bytes: usize,
    buffer: Vec<u8>,
}

impl PayloadChunks<'_> {
    /// The next piece; `None` after the last.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>, FormatError> {
        let left = self.record.bin_size - self.next;
        let bytes = usize::try_from(left).map_or(self.chunk_bytes, |left| left.min(self.chunk_bytes));
        if bytes == 0 {
            return Ok(None);
        }
        self.buffer.resize(bytes, 0);
        self.dump.payload_part(&self.record, self.next, &mut self.buffer)?;
        self.next += bytes as u64;
        Ok(Some(&self.buffer))
    }
}

/// A payload as a stream. Made by [`Dump::payload_reader`].
pub struct PayloadReader<'d> {
    dump: &'d Dump,
    record: Record,
    next: u64,
}

impl Read for PayloadReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.record.bin_size - self.next;
        let bytes = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        self.dump.payload_part(&self.record, self.next, &mut into[..bytes]).map_err(io::Error::other)?;
        self.next += bytes as u64;
        Ok(bytes)
    }
}
