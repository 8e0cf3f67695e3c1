//! Dumps made for a test, in folders of their own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Outcome, command, outcome};

/// A folder in which commands run and leave what they make.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    /// Calls the binary in the folder with words separated by spaces.
    pub fn tensortap(&self, line: &str) -> Outcome {
        self.tensortap_args(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// The same with arguments that may hold spaces.
    pub fn tensortap_args(&self, args: &[&str]) -> Outcome {
        let mut command = command(args);
        command.current_dir(self.0.path());
        outcome(command)
    }

    /// The same for a call that must be good and say nothing on standard error.
    pub fn good(&self, line: &str) -> Outcome {
        let outcome = self.tensortap(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{line}: {outcome:?}");
        outcome
    }

    /// A line that finds something wrong, and has nothing to complain of.
    pub fn finds(&self, line: &str) -> Outcome {
        let outcome = self.tensortap(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{line}: {outcome:?}");
        outcome
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A manifest, read with nothing but a JSON parser.
    pub fn manifest(&self, dump: &str) -> Value {
        let text = fs::read_to_string(self.path(dump).join("tensor_dump.json")).expect("there is a manifest");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// Names under `outputs/`, oldest first.
    pub fn outputs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("outputs")) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8")).collect();
        // `_10` is later than `_9`.
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }
}

/// A folder with the dump of the vector example, called `d`: 13 tensors, 5 scalars. The scene runs once for all tests; each
/// has files of its own, to read or to damage.
pub fn vector_example() -> Folder {
    static FILES: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let folder = Folder::new();
        folder.good("run vector_example --dump-tensor --out d");
        let entries = fs::read_dir(folder.path("d")).expect("a dump");
        let named = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.expect("readable");
            (entry.file_name(), fs::read(entry.path()).expect("a file"))
        };
        entries.map(named).collect()
    });
    let folder = Folder::new();
    fs::create_dir(folder.path("d")).expect("a new folder");
    for (name, content) in files {
        fs::write(folder.path("d").join(name), content).expect("written");
    }
    folder
}

/// Cuts bytes off the end of a file.
pub fn cut(file: &Path, bytes: u64) {
    let file = File::options().write(true).open(file).expect("it is there");
    let length = file.metadata().expect("it has a length").len();
    file.set_len(length.checked_sub(bytes).expect("it is long enough")).expect("it can be cut");
}

/// Changes one bit of a file.
pub fn flip(file: &Path, at: u64) {
    let mut bytes = fs::read(file).expect("it is there");
    bytes[usize::try_from(at).expect("an offset")] ^= 1;
    fs::write(file, bytes).expect("it can be written");
}
