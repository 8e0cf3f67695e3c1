//! The dump that a verb is about.

use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::format::{Dump, FormatError, Tail, find_newest};

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

    /// Opens it.
    pub fn open(&self) -> Result<Dump, FormatError> {
        Dump::open(&self.path()?)
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

/// A path that a shell takes for one word.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// One word for how a dump ends.
pub fn state_name(tail: &Tail) -> &'static str {
    match tail {
        Tail::Closed => "closed",
        Tail::Open => "open",
        Tail::Torn { .. } => "torn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        for (path, word) in [
            ("outputs/tensor_dump_20260415_101500_2", "outputs/tensor_dump_20260415_101500_2"),
            ("my dump", "'my dump'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }

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
