//! `run.json`: what was run and recorded, beside the folders of the processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tensortap_format::DumpCounters;

/// Name of the file in a run folder.
pub const RUN_FILE: &str = "run.json";
/// Larger files are not what they should be.
const MAX_BYTES: u64 = 256 << 20;

/// What was run, by whom, and every process that was recorded. It is whole at any time, also while the run lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// Version of this file; fields may be added.
    pub schema_version: u32,
    /// `running`, `complete`, or `interrupted`: the recorder was told to end before the program. A recorder that was killed
    /// leaves `running`.
    pub status: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it was started.
    pub working_folder: String,
    /// Name of the machine.
    pub host: String,
    /// The variables that were asked for and those that say rank and devices, as far as they were set.
    pub environment: BTreeMap<String, String>,
    /// UTC.
    pub started_at: String,
    /// UTC; `null` while it lasts.
    pub finished_at: Option<String>,
    /// Process of the command.
    pub pid: u32,
    /// What the command exited with.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Process of the recorder, and its version.
    pub recorder: RecorderInfo,
    /// What went wrong with recording.
    pub problems: Vec<String>,
    /// Every process that attached, in that order.
    pub processes: Vec<ProcessEntry>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Who recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderInfo {
    /// Process.
    pub pid: u32,
    /// Version of tensortap.
    pub version: String,
}

/// One process that attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessEntry {
    /// Its dump, a folder beside this file.
    pub folder: String,
    /// Process, as the recorder knows it.
    pub pid: u32,
    /// Rank, where its environment says one.
    pub rank: Option<u32>,
    /// Name.
    pub name: String,
    /// `running`, or the status of its dump: `complete`, `crashed`, `killed`, `interrupted`, `dump_failed`.
    pub status: String,
    /// How it ended, or what went wrong with its dump.
    pub message: Option<String>,
    /// UTC.
    pub attached_at: String,
    /// UTC; `null` while it lasts.
    pub ended_at: Option<String>,
    /// What its dump holds and lacks.
    pub counts: Option<DumpCounters>,
    /// Threads of it that could not record: as many as could did.
    pub threads_refused: u64,
    /// Calls of it that were refused for what they were given.
    pub calls_refused: u64,
    /// Why the first of them was, as the process says it.
    pub first_refusal: Option<String>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Status of what lasts.
pub const RUNNING: &str = "running";

impl ProcessEntry {
    /// `rank 1 (pid 4711, trainer)`.
    #[must_use]
    pub fn words(&self) -> String {
        let ProcessEntry { pid, rank, name, .. } = self;
        match rank {
            Some(rank) => format!("rank {rank} (pid {pid}, {name})"),
            None => format!("pid {pid} ({name})"),
        }
    }
}

impl RunFile {
    /// Reads that of a run folder.
    ///
    /// # Errors
    /// When there is none, or it is not what it should be.
    pub fn read(folder: &Path) -> io::Result<RunFile> {
        let file = fs::File::open(folder.join(RUN_FILE))?;
        if !file.metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES) {
            return Err(io::Error::other("it is no file, or too large"));
        }
        Ok(serde_json::from_reader(io::BufReader::new(file))?)
    }

    /// Puts this in place of what was there, at once.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(format!(".{RUN_FILE}.new"));
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let written = fs::File::create(&new).and_then(|mut file| file.write_all(&text));
        let placed = written.and_then(|()| fs::rename(&new, folder.join(RUN_FILE)));
        if placed.is_err() {
            // On a full disk it is in the way.
            let _ = fs::remove_file(&new);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_with_keys_of_other_versions() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunFile { command: vec!["prog".into(), "a b".into()], ..RunFile::default() };
        run.extra.insert("later".into(), 5.into());
        run.processes.push(ProcessEntry {
            pid: 9,
            counts: Some(DumpCounters::default()),
            ..ProcessEntry::default()
        });
        run.write(folder.path()).unwrap();
        assert_eq!(RunFile::read(folder.path()).unwrap(), run);
        run.pid = 4;
        run.write(folder.path()).unwrap();
        assert_eq!(RunFile::read(folder.path()).unwrap().pid, 4);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        fs::write(folder.path().join(RUN_FILE), "{").unwrap();
        assert!(RunFile::read(folder.path()).is_err());
    }
}
