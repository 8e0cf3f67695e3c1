//! Files that appear completely or not at all, and the lock of the writer.

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

/// A reader that checks for a live writer holds the lock for a moment; a repair waits that long.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Creates a new file for reading and writing. Fails if it exists.
pub(crate) fn create_new(path: &Path) -> Result<File, FormatError> {
    match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(FormatError::Exists { path: path.to_owned() }),
        created => created.at("create", path),
    }
}

/// A name next to `path` for an incomplete file. Removes a leftover of an earlier attempt.
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

/// Marks the file as being written. On file systems without locks this has no effect.
pub(crate) fn lock_for_writing(file: &File, path: &Path) -> Result<(), FormatError> {
    match file.lock() {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(()),
        locked => locked.at("lock", path),
    }
}

/// Whether a process writes the file at this moment.
pub(crate) fn is_being_written(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // Closing the file would release the lock too, so a failure here is harmless.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// Opens a file for repair and takes the writer's lock.
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

/// A writer that moves its window replaces the file. The lock would then be on a file that is no longer
/// used.
fn still_the_same(file: File, path: &Path) -> Result<File, FormatError> {
    let (ours, named) = (file.metadata().at("open", path)?, fs::metadata(path).at("open", path)?);
    if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
        Ok(file)
    } else {
        Err(FormatError::StillWritten { path: path.to_owned() })
    }
}

/// Makes the names in a folder survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), FormatError> {
    File::open(dir).and_then(|d| d.sync_all()).at("sync", dir)
}

/// Writes the JSON files of a dump. Each one is replaced completely or not at all.
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
        // Report the first error. The next attempt also removes the leftover.
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
    fill(&file).at("write", path)?;
    fs::rename(unfinished, path).at("create", path)
}

/// Appends to a file at a known offset. Cuts off what a failed write left, so that the file always ends
/// with the last successful append.
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
    fn a_lock_on_a_replaced_file_does_not_count() {
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
