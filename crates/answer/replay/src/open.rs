//! Opens a path: a dump, a case, or a folder of cases.

use std::path::{Path, PathBuf};

use tensortap_format::{FormatError, INDEX_FILE, MANIFEST_FILE};

use crate::ReplayError;
use crate::capture::Capture;
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
    let opened = DumpCapture::open(path);
    // A case in a folder of cases is not the dump of that folder.
    let is_inside = |dump: &DumpCapture| dump.case().is_some() && path.is_dir() && !dump.is_in(path);
    let cases = match &opened {
        Ok(dump) if !is_inside(dump) => Vec::new(),
        Err(_) if holds_case(path) => Vec::new(),
        _ => cases_in(path),
    };
    if cases.is_empty() {
        let dump = match opened {
            Err(why) if path.is_dir() && !matches!(why, ReplayError::Format(FormatError::BadCase { .. })) => {
                return Err(ReplayError::NothingToReplay { path: path.to_owned(), why: why.to_string() });
            }
            opened => opened?.with_kernels(options)?,
        };
        let (name, is_dump) = (dump.name(), dump.case().is_none());
        let captures: Vec<Box<dyn Capture>> = vec![Box::new(dump)];
        return Ok(ReplaySource { name, captures, broken: Vec::new(), several: false, is_dump });
    }
    let name = path.display().to_string();
    let mut opened =
        ReplaySource { name, captures: Vec::new(), broken: Vec::new(), several: true, is_dump: false };
    for case in cases {
        match DumpCapture::open(&case) {
            Ok(capture) if capture.case().is_some() => opened.captures.push(Box::new(capture)),
            Ok(dump) => {
                let reason = "it is a dump next to cases; replay it by its own path".into();
                opened.broken.push((dump.name(), FormatError::BadCase { path: case, reason }.into()));
            }
            Err(error) => opened.broken.push((case.display().to_string(), error)),
        }
    }
    Ok(opened)
}

/// The entries of a folder that may be cases, sorted by name.
fn cases_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_file = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "safetensors");
    let mut cases: Vec<PathBuf> = entries.filter(|path| holds_case(path) || is_file(path)).collect();
    cases.sort();
    cases
}

/// Whether a folder has a file of a dump or of a case of version 1.
fn holds_case(folder: &Path) -> bool {
    [INDEX_FILE, MANIFEST_FILE, "case.json"].iter().any(|name| folder.join(name).is_file())
}
