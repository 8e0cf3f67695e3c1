//! Reading beside a writer that lets old tasks go (`--dump-last`): a payload is read whole, or its record is gone.
//!
//! The writer replaces the index first and gives space back only then, and what an index no longer refers to no later one
//! does. So bytes that were read while the index which names them was still in its place are those that were captured; and
//! where another has taken its place since, they are if that one names them, too.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{
    Dump, FormatError, Record, Tail,
    error::AtPath,
    index::{Index, open_regular},
    survey::Survey,
};

/// What tells a file from the one that took its name.
type FileId = (u64, u64);

/// The index of a dump that was being written when it was opened.
pub(crate) struct BesideWriter {
    path: PathBuf,
    run_id: u64,
    opened: FileId,
    latest: Mutex<Option<Latest>>,
}

/// The index that was last seen in its place.
struct Latest {
    id: FileId,
    /// Held open, so that no later file gets its number.
    _file: File,
    /// Ranges of the payload file that it refers to, in order.
    kept: Vec<(u64, u64)>,
}

impl BesideWriter {
    /// `None` when nobody writes.
    pub(crate) fn of(index: &Index, tail: &Tail) -> Result<Option<BesideWriter>, FormatError> {
        if *tail != Tail::Open {
            return Ok(None);
        }
        let (path, run_id) = (index.path.clone(), index.info.run_id);
        let opened = id_of(&index.file).at("open", &path)?;
        Ok(Some(BesideWriter { path, run_id, opened, latest: Mutex::new(None) }))
    }

    fn has_left(&self, range: &Range<u64>) -> Result<bool, FormatError> {
        let named = named_id(&self.path).at("open", &self.path)?;
        if named == self.opened {
            return Ok(false);
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.as_ref().is_none_or(|latest| latest.id != named) {
            *latest = Some(self.look_again()?);
        }
        let kept = latest.as_ref().map(|latest| latest.kept.as_slice()).unwrap_or_default();
        Ok(kept.binary_search(&(range.start, range.end)).is_err())
    }

    fn look_again(&self) -> Result<Latest, FormatError> {
        let file = open_regular(&self.path)?;
        let id = id_of(&file).at("open", &self.path)?;
        let index = Index::from_file(file, &self.path)?;
        let mut kept = Vec::new();
        Survey::of(&index, |_, _, record| {
            kept.extend(record.stored_range().map(|(offset, bytes)| (offset, offset.saturating_add(bytes))));
        })?;
        // Another run in the same folder has nothing of this one.
        if index.info.run_id != self.run_id {
            kept.clear();
        }
        kept.sort_unstable();
        kept.dedup();
        Ok(Latest { id, _file: index.file, kept })
    }
}

/// Opens an index and says whether somebody writes it. A writer that moves its window replaces the file and lets go of the old
/// one's lock; to be told that nobody writes a file which was replaced says nothing.
pub(crate) fn open_as_named(
    path: &Path,
    is_being_written: impl Fn(&File) -> bool,
) -> Result<(File, bool), FormatError> {
    loop {
        let file = open_regular(path)?;
        let being_written = is_being_written(&file);
        if being_written || id_of(&file).at("open", path)? == named_id(path).at("open", path)? {
            return Ok((file, being_written));
        }
    }
}

fn id_of(file: &File) -> io::Result<FileId> {
    file.metadata().map(|file| (file.dev(), file.ino()))
}

fn named_id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

impl Dump {
    /// Whether a stored range that was read belongs to records that have left the window of the run meanwhile: what was read
    /// may be the zeros of space that was given back. To be asked after the bytes were read.
    pub(crate) fn has_left(&self, range: &Range<u64>) -> Result<bool, FormatError> {
        self.beside_writer.as_ref().map_or(Ok(false), |beside| beside.has_left(range))
    }

    /// Whether the payload of a record that was read has left the window of a run which goes on (`--dump-last`).
    ///
    /// # Errors
    /// The index cannot be read again.
    pub fn record_has_left(&self, record: &Record) -> Result<bool, FormatError> {
        self.has_left(&(record.bin_offset..record.bin_offset.saturating_add(record.bin_size)))
    }

    pub(crate) fn gone(&self, record: &Record) -> FormatError {
        FormatError::RecordGone { record: record.to_string() }
    }
}
