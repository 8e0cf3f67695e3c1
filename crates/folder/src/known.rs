//! Folders and libraries that the user has named: code that only a dump or a case names is not run.

use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::cache_dir;
use crate::library::hash;

/// The file that stands for a folder or a file; `None` where there is none.
fn mark(folder: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    let name = format!("{:032x}", xxh3_128(folder.as_os_str().as_encoded_bytes()));
    Some(cache_dir().join("named").join(name))
}

/// Notes that the user has named a folder. Where that cannot be written it has to be named again.
pub fn remember(folder: &Path) {
    if let Some(mark) = mark(folder) {
        let _ = mark.parent().map(fs::create_dir_all);
        let _ = fs::write(mark, []);
    }
}

/// Whether the user has named this folder before.
#[must_use]
pub fn is_known(folder: &Path) -> bool {
    mark(folder).is_some_and(|mark| mark.is_file())
}

/// Notes that the user has named a file with code, as it is now. Where that cannot be written it has to be named again.
pub fn remember_file(path: &Path) {
    if let Some((mark, content)) = mark(path).zip(content(path)) {
        let _ = mark.parent().map(fs::create_dir_all);
        let _ = fs::write(mark, content);
    }
}

/// Whether the user has named this file before, and it is what it was.
#[must_use]
pub fn is_known_file(path: &Path) -> bool {
    let noted = mark(path).and_then(|mark| fs::read_to_string(mark).ok());
    noted.filter(|noted| !noted.is_empty()).is_some_and(|noted| content(path) == Some(noted))
}

/// What tells a file from others under its name.
fn content(path: &Path) -> Option<String> {
    hash(path).ok().map(|hash| format!("{hash:032x}"))
}
