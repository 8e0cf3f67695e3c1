//! The template for a new scene.

use std::path::{Path, PathBuf};

use crate::{DESCRIPTION_FILE, FolderError};

const DESCRIPTION: &str = include_str!("../template/scene.toml");
const C: &str = include_str!("../template/kernels.c");
const CPP: &str = include_str!("../template/kernels.cpp");

/// Writes a runnable scene in C or C++ into a new or empty folder. Returns the files.
///
/// # Errors
///
/// If the folder is not empty or cannot be written.
pub fn new_scene(folder: &Path, cpp: bool) -> Result<Vec<PathBuf>, FolderError> {
    let has_files = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if has_files {
        return Err(FolderError::NotEmpty { folder: folder.into() });
    }
    std::fs::create_dir_all(folder).map_err(FolderError::io("create", folder))?;
    let name = std::fs::canonicalize(folder).ok().and_then(|path| Some(path.file_name()?.to_owned()));
    let name = name.map_or_else(|| "scene".into(), |name| word(&name.to_string_lossy()));
    let (ending, kernels) = if cpp { ("cpp", CPP) } else { ("c", C) };
    let description = DESCRIPTION.replace("@NAME@", &name).replace("@ENDING@", ending);
    let files =
        [(DESCRIPTION_FILE.to_owned(), description), (format!("kernels.{ending}"), kernels.to_owned())];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(FolderError::io("write", &path))?;
        written.push(path);
    }
    Ok(written)
}

/// Turns the name of a folder into the name of a scene.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let word: String = name.chars().map(plain).take(48).collect();
    if word.is_empty() { "scene".into() } else { word }
}
