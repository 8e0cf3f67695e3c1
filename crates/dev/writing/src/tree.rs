//! The files of the project whose prose is checked.

use std::path::{Path, PathBuf};

/// Folders that hold no prose of the project's own.
const SKIPPED: &[&str] = &["target", "outputs", ".git", "proptest-regressions", "corpus", "seeds"];
/// The lists of phrases themselves.
const LISTS: &[&str] = &["crates/dev/writing/", "CONTRIBUTING.md"];

/// Every file below the project's root that may hold prose, relative to it, in order.
///
/// # Errors
/// A folder cannot be read.
pub fn files(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(root, root, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let relative = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref()) {
                collect(root, &path, found)?;
            }
        } else if !LISTS.iter().any(|list| relative.starts_with(list)) {
            found.push(relative);
        }
    }
    Ok(())
}
