//! Folders that the user has named: code of a folder that only a dump names is not run.

use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::cache_dir;

/// The file that stands for a folder; `None` where there is no such folder.
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
