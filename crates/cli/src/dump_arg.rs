//! The dump that a verb is about.

use std::cmp::Reverse;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::format::{Dump, FormatError, find_newest};

use crate::error::UsageError;
use crate::program::program;

pub use tensortap::format::quoted;

/// Where runs put their dumps.
const OUTPUTS: &str = "outputs";

/// The dump a verb reads.
#[derive(Args)]
pub struct DumpArg {
    /// Dump: its manifest, its folder, or a run folder that holds it [default: the newest under outputs/]
    #[arg(value_name = "DUMP")]
    dump: Option<PathBuf>,
}

impl DumpArg {
    /// As if it were given so.
    pub fn named(dump: Option<PathBuf>) -> DumpArg {
        DumpArg { dump }
    }

    /// The path that was named, or the newest dump's folder.
    pub fn path(&self) -> Result<PathBuf, FormatError> {
        self.dump.clone().map_or_else(newest, Ok)
    }

    /// Opens it. Where nothing has the name, those that there are stand in the hint.
    pub fn open(&self) -> anyhow::Result<Dump> {
        let path = self.path()?;
        Dump::open(&path).map_err(|error| {
            if path.exists() {
                return error.into();
            }
            UsageError { message: error.to_string(), hint: there_are() }.into()
        })
    }
}

/// As many dumps are named in a hint.
const NAMED: usize = 3;

/// The newest dumps, or how to make one.
fn there_are() -> String {
    let entries = fs::read_dir(OUTPUTS).into_iter().flatten().flatten();
    let written = |entry: &DirEntry| entry.metadata().and_then(|data| data.modified()).ok();
    let mut folders: Vec<_> = entries.map(|entry| (written(&entry), entry.path())).collect();
    // Of the same time, `_10` is later than `_9`.
    folders.sort_by_key(|(time, path)| Reverse((*time, path.as_os_str().len(), path.clone())));
    let dumps = folders.into_iter().map(|(_, path)| path).filter(|path| Dump::open(path).is_ok());
    let names: Vec<String> = dumps.take(NAMED).map(|path| quoted(&path)).collect();
    if names.is_empty() {
        format!("`{} run SCENE --dump-tensor` makes a dump", program())
    } else {
        format!("there are, newest first: {}", names.join(", "))
    }
}

/// The newest dump under `outputs/`.
pub fn newest() -> Result<PathBuf, FormatError> {
    find_newest(Path::new(OUTPUTS))
}

/// How a command line names a dump: not at all where it is the newest under `outputs/`, as one just made there is.
pub fn newest_or(dir: &Path) -> String {
    if dir.parent() == Some(Path::new(OUTPUTS)) { String::new() } else { format!(" {}", quoted(dir)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dump_in_outputs_goes_without_saying() {
        assert_eq!(newest_or(Path::new("outputs/tensor_dump_1")), "");
        assert_eq!(
            newest_or(Path::new("elsewhere/outputs/tensor_dump_1")),
            " elsewhere/outputs/tensor_dump_1"
        );
        assert_eq!(newest_or(Path::new("d")), " d");
    }
}
