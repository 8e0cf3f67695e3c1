//! Temporary folders with dumps for tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Outcome, command, outcome};

/// A temporary folder in which commands run.
pub struct Folder {
    dir: TempDir,
    /// How often each line was recorded here.
    recorded: Mutex<BTreeMap<String, usize>>,
}

impl Folder {
    pub fn new() -> Folder {
        Folder { dir: tempfile::tempdir().expect("a folder"), recorded: Mutex::default() }
    }

    /// Calls the binary in the folder with words separated by spaces.
    pub fn tensortap(&self, line: &str) -> Outcome {
        self.tensortap_args(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// The same with arguments that may contain spaces.
    pub fn tensortap_args(&self, args: &[&str]) -> Outcome {
        let mut command = command(args);
        command.current_dir(self.dir.path());
        outcome(command)
    }

    /// The same for a call that must succeed without output on standard error.
    pub fn good(&self, line: &str) -> Outcome {
        let outcome = self.tensortap(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{line}: {outcome:?}");
        outcome
    }

    /// The same for a call that must find a difference, without output on standard error.
    pub fn finds(&self, line: &str) -> Outcome {
        let outcome = self.tensortap(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{line}: {outcome:?}");
        outcome
    }

    /// Puts the dump of `run LINE` into the folder `out`. Tests share the run, but every folder gets its own files, to
    /// read or to damage. `LINE` must not refer to files.
    pub fn record(&self, line: &str, out: &str) {
        self.record_with(line, out, 0);
    }

    /// The same for a run whose result is wrong.
    pub fn record_wrong(&self, line: &str, out: &str) {
        self.record_with(line, out, 1);
    }

    fn record_with(&self, line: &str, out: &str, code: i32) {
        let number = {
            let mut recorded = self.recorded.lock().expect("no test panics while it holds the lock");
            let count = recorded.entry(line.to_owned()).or_default();
            *count += 1;
            *count
        };
        let files = recorded_files(line, number, code);
        fs::create_dir_all(self.path(out)).expect("a new folder");
        for (name, content) in files.get().expect("recorded above") {
            fs::write(self.path(out).join(name), content).expect("written");
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A manifest, read by a plain JSON parser.
    pub fn manifest(&self, dump: &str) -> Value {
        let text = fs::read_to_string(self.path(dump).join("tensor_dump.json")).expect("there is a manifest");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// Names under `outputs/`, oldest first.
    pub fn outputs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("outputs")) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8")).collect();
        // `_10` is newer than `_9`.
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }
}

/// A folder with the dump of the vector example, called `d`: 13 tensors, 5 scalars.
pub fn vector_example() -> Folder {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    folder
}

/// The files of a recorded dump.
type DumpFiles = Vec<(OsString, Vec<u8>)>;

/// A dump that the first test that needs it records.
type SharedDump = Arc<OnceLock<DumpFiles>>;

/// The shared dumps: by the arguments of `run`, then by how often a folder records them.
static RECORDED: Mutex<BTreeMap<(String, usize), SharedDump>> = Mutex::new(BTreeMap::new());

/// The files of the dump of `run LINE`, which must exit with `code`. The scene runs once for all tests. A folder that
/// records the same line again gets the dump of another run, because two runs differ in their ids and times.
fn recorded_files(line: &str, number: usize, code: i32) -> SharedDump {
    let entry = {
        let mut recorded = RECORDED.lock().expect("no test panics while it holds the lock");
        Arc::clone(recorded.entry((line.to_owned(), number)).or_default())
    };
    entry.get_or_init(|| {
        let folder = Folder::new();
        let outcome = folder.tensortap(&format!("run {line} --out d"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), ""), "{line}: {outcome:?}");
        let entries = fs::read_dir(folder.path("d")).expect("a dump");
        let named = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.expect("readable");
            (entry.file_name(), fs::read(entry.path()).expect("a file"))
        };
        entries.map(named).collect()
    });
    entry
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
