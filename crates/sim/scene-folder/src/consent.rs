//! Consent to run code: the folders and libraries that the user has named. Code that only a dump or a case
//! names is not run.

use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::cache_dir;
use crate::library::hash;

/// The file that stores the consent for a folder or file. `None` if that does not exist.
fn consent_file(folder: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    let name = format!("{:032x}", xxh3_128(folder.as_os_str().as_encoded_bytes()));
    Some(cache_dir().join("named").join(name))
}

/// Stores that the user has named a folder. If the file cannot be written, the user has to name the folder
/// again.
pub fn grant_folder(folder: &Path) {
    if let Some(mark) = consent_file(folder) {
        let _ = mark.parent().map(fs::create_dir_all);
        let _ = fs::write(mark, []);
    }
}

/// Whether the user has named this folder before.
#[must_use]
pub fn is_folder_granted(folder: &Path) -> bool {
    consent_file(folder).is_some_and(|mark| mark.is_file())
}

/// Stores that the user has named a file with code, in its current version. If it cannot be written, the user
/// has to name the file again.
pub fn grant_file(path: &Path) {
    if let Some((mark, content)) = consent_file(path).zip(content(path)) {
        let _ = mark.parent().map(fs::create_dir_all);
        let _ = fs::write(mark, content);
    }
}

/// Whether the user has named this file before, and its content is unchanged.
#[must_use]
pub fn is_file_granted(path: &Path) -> bool {
    let noted = consent_file(path).and_then(|mark| fs::read_to_string(mark).ok());
    noted.filter(|noted| !noted.is_empty()).is_some_and(|noted| content(path) == Some(noted))
}

/// Identifies the content of a file.
fn content(path: &Path) -> Option<String> {
    hash(path).ok().map(|hash| format!("{hash:032x}"))
}
