//! Files that appear whole or not at all, and the lock that says who writes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::ErrorKind,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use crate::{
    ARGS_FILE, FormatError, GRAPH_FILE, KERNEL_ARGS_FILE, MANIFEST_FILE,
    error::AtPath,
    manifest::{JsonInput, StreamError},
};

/// A reader that asks whether a writer lives holds the lock for a moment; a repair waits that long.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Creates a file that must not exist yet, for reading and writing.
pub(crate) fn create_new(path: &Path) -> Result<File, FormatError> {
    match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(FormatError::Exists { path: path.to_owned() }),
        created => created.at("create", path),
    }
}

/// A name beside `path` for a file that is not whole yet; what an earlier attempt left there is removed.
pub(crate) fn unfinished(path: &Path) -> Result<PathBuf, FormatError> {
    let path = unfinished_name(path);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).at("remove", &path),
        _ => Ok(path),
    }
}

fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Marks the file as being written. File systems without locks are taken at their word.
pub(crate) fn lock_for_writing(file: &File, path: &Path) -> Result<(), FormatError> {
    match file.lock() {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(()),
        locked => locked.at("lock", path),
    }
}

/// Whether somebody writes the file. An answer for this moment.
pub(crate) fn is_being_written(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // Closing the file would release it too; failing to release it now harms nobody.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// Opens a file for repair, with the lock that its writer would hold.
pub(crate) fn open_exclusively(path: &Path) -> Result<File, FormatError> {
    let file = OpenOptions::new().read(true).write(true).open(path).at("open", path)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return still_the_same(file, path),
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(e).at("lock", path),
        }
    }
    Err(FormatError::StillWritten { path: path.to_owned() })
}

/// A writer that moves its window replaces the file; then the lock is on one that nobody uses.
fn still_the_same(file: File, path: &Path) -> Result<File, FormatError> {
    let (ours, named) = (file.metadata().at("open", path)?, fs::metadata(path).at("open", path)?);
    if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
        Ok(file)
    } else {
        Err(FormatError::StillWritten { path: path.to_owned() })
    }
}

/// Makes names in a folder survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), FormatError> {
    File::open(dir).and_then(|d| d.sync_all()).at("sync", dir)
}

/// Writes the JSON files of a dump; each appears whole or stays as it was.
pub(crate) fn write_json_files(dir: &Path, input: &JsonInput<'_>) -> Result<(), FormatError> {
    let info = &input.index.info;
    if info.has_manifest() {
        write_whole(&dir.join(MANIFEST_FILE), |out| input.write_manifest(out))?;
    }
    if info.dump_args {
        write_whole(&dir.join(ARGS_FILE), |out| input.write_args(out))?;
        write_whole(&dir.join(KERNEL_ARGS_FILE), |out| input.write_kernel_args(out))?;
    }
    write_whole(&dir.join(GRAPH_FILE), |out| input.write_graph(out))
}

fn write_whole(path: &Path, fill: impl FnOnce(&File) -> Result<(), StreamError>) -> Result<(), FormatError> {
    let unfinished = unfinished(path)?;
    let written = fill_and_rename(&unfinished, path, fill);
    if written.is_err() {
        // The first error is the one to tell; what is left behind is removed by the next attempt too.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn fill_and_rename(
    unfinished: &Path,
    path: &Path,
    fill: impl FnOnce(&File) -> Result<(), StreamError>,
) -> Result<(), FormatError> {
    let file = create_new(unfinished)?;
    match fill(&file) {
        Ok(()) => {}
        Err(StreamError::Index(error)) => return Err(error),
        Err(StreamError::Output(error)) => return Err(error).at("write", path),
    }
    fs::rename(unfinished, path).at("create", path)
}

/// Appends to a file at a known offset. What a failed write left behind it is cut off, so that the file always ends
/// with what was appended last.
pub(crate) struct Tail {
    pub(crate) end: u64,
    dirty: bool,
}

impl Tail {
    pub(crate) fn at(end: u64) -> Tail {
        Tail { end, dirty: false }
    }

    pub(crate) fn append(&mut self, file: &File, path: &Path, bytes: &[u8]) -> Result<(), FormatError> {
        if self.dirty {
            file.set_len(self.end).at("cut", path)?;
            self.dirty = false;
        }
        let written = file.write_all_at(bytes, self.end);
        if written.is_err() {
            self.dirty = file.set_len(self.end).is_err();
            return written.at("write", path);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_file_that_was_replaced_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let old = create_new(&path).unwrap();
        assert!(still_the_same(old.try_clone().unwrap(), &path).is_ok());
        let new = create_new(&unfinished(&path).unwrap()).unwrap();
        fs::rename(unfinished_name(&path), &path).unwrap();
        assert!(matches!(still_the_same(old, &path), Err(FormatError::StillWritten { .. })));
        assert!(still_the_same(new, &path).is_ok());
    }
}
