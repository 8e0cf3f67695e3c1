//! Reading while a writer removes old tasks (`--dump-last`): a payload is read completely, or its record is
//! reported as gone.
//!
//! The writer first replaces the index and only then frees space. A range that one index no longer refers
//! to is never referred to again. So if the index that names a range is still in place after the read, the
//! bytes are the captured ones. If a new index has taken its place, the bytes are the captured ones if that
//! index names the range too.

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

/// Identifies a file, also after another file has taken its name.
type FileId = (u64, u64);

/// The index of a dump that was still being written when it was opened.
pub(crate) struct ConcurrentWriter {
    path: PathBuf,
    run_id: u64,
    opened: FileId,
    latest: Mutex<Option<LatestIndex>>,
}

/// The last known index under this name.
struct LatestIndex {
    id: FileId,
    /// Held open, so that the operating system does not reuse its inode number.
    _file: File,
    /// Ranges of the payload file that it refers to, sorted.
    kept: Vec<(u64, u64)>,
}

impl ConcurrentWriter {
    /// Returns `None` if no process writes the dump.
    pub(crate) fn of(index: &Index, tail: &Tail) -> Result<Option<ConcurrentWriter>, FormatError> {
        if *tail != Tail::Open {
            return Ok(None);
        }
        let (path, run_id) = (index.path.clone(), index.info.run_id);
        let opened = id_of(&index.file).at("open", &path)?;
        Ok(Some(ConcurrentWriter { path, run_id, opened, latest: Mutex::new(None) }))
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

    fn look_again(&self) -> Result<LatestIndex, FormatError> {
        let file = open_regular(&self.path)?;
        let id = id_of(&file).at("open", &self.path)?;
        let index = Index::from_file(file, &self.path)?;
        let mut kept = Vec::new();
        Survey::of(&index, |_, _, record| {
            kept.extend(record.stored_range().map(|(offset, bytes)| (offset, offset.saturating_add(bytes))));
        })?;
        // A different run in the same folder shares nothing with this one.
        if index.info.run_id != self.run_id {
            kept.clear();
        }
        kept.sort_unstable();
        kept.dedup();
        Ok(LatestIndex { id, _file: index.file, kept })
    }
}

/// Opens an index and determines whether a process writes it. A writer that moves its window replaces the
/// file and releases the lock of the old one, so an unlocked file that was replaced proves nothing.
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
    /// Whether records with this range have left the window of the run meanwhile, so that the bytes may be
    /// zeros of freed space. Call it after reading the bytes.
    pub(crate) fn has_left(&self, range: &Range<u64>) -> Result<bool, FormatError> {
        self.concurrent_writer.as_ref().map_or(Ok(false), |beside| beside.has_left(range))
    }

    /// Whether a record's payload has left the window of a run that is still going (`--dump-last`). Call it
    /// after reading the payload.
    ///
    /// # Errors
    /// If the index cannot be read again.
    pub fn record_has_left(&self, record: &Record) -> Result<bool, FormatError> {
        self.has_left(&(record.bin_offset..record.bin_offset.saturating_add(record.bin_size)))
    }

    pub(crate) fn gone(&self, record: &Record) -> FormatError {
        FormatError::RecordGone { record: record.to_string() }
    }
}
