//! Opens a path: a dump, a case, or a folder of cases.

use std::path::{Path, PathBuf};

use crate::ReplayError;
use crate::capture::Capture;
use crate::case_capture::{CaseCapture, looks_like_case};
use crate::dump_capture::DumpCapture;
use crate::foreign::ForeignOptions;

/// The captures at a path.
pub struct ReplaySource {
    /// The path, for messages.
    pub name: String,
    /// One dump, or one or more cases.
    pub captures: Vec<Box<dyn Capture>>,
    /// Cases of the folder that cannot be read, with the error.
    pub broken: Vec<(String, ReplayError)>,
    /// Whether the path is a folder of cases.
    pub several: bool,
    /// Whether the path is a dump.
    pub is_dump: bool,
}

/// Opens the dump, case or folder of cases at `path`. `options` apply only to dumps of another project.
pub fn open(path: &Path, options: ForeignOptions<'_>) -> Result<ReplaySource, ReplayError> {
    let name = path.display().to_string();
    let one = |capture: Box<dyn Capture>, is_dump| ReplaySource {
        name: capture.name(),
        captures: vec![capture],
        broken: Vec::new(),
        several: false,
        is_dump,
    };
    if looks_like_case(path) {
        return Ok(one(Box::new(CaseCapture::open(path)?), false));
    }
    let no_dump = match DumpCapture::open(path) {
        Ok(dump) => return Ok(one(Box::new(dump.with_kernels(options)?), true)),
        Err(error) => error,
    };
    let cases = cases_in(path);
    if cases.is_empty() {
        return Err(if path.is_dir() {
            ReplayError::NothingToReplay { path: path.to_owned(), why: no_dump.to_string() }
        } else {
            no_dump
        });
    }
    let mut opened =
        ReplaySource { name, captures: Vec::new(), broken: Vec::new(), several: true, is_dump: false };
    for case in cases {
        match CaseCapture::open(&case) {
            Ok(capture) => opened.captures.push(Box::new(capture)),
            Err(error) => opened.broken.push((case.display().to_string(), error)),
        }
    }
    Ok(opened)
}

/// The entries of a folder that look like cases, sorted by name.
fn cases_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| looks_like_case(path)).collect();
    cases.sort();
    cases
}
