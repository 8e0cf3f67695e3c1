//! `run.json`: the command and the recorded processes. It is next to the processes' folders.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tensortap_format::DumpCounters;

/// Name of the file in a run folder.
pub const RUN_FILE: &str = "run.json";
/// A larger file is invalid.
const MAX_BYTES: u64 = 256 << 20;

/// The command, the recorder, and every recorded process. The file is complete at any time, even during the
/// run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// Version of this file; fields may be added.
    pub schema_version: u32,
    /// `running`, `complete` or `interrupted` (the recorder was stopped before the program). If the
    /// recorder was killed, it stays `running`.
    pub status: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Folder in which the program was started.
    pub working_folder: String,
    /// Name of the machine.
    pub host: String,
    /// The requested environment variables and those for rank and devices, as far as they were set.
    pub environment: BTreeMap<String, String>,
    /// UTC.
    pub started_at: String,
    /// UTC; `null` while the run lasts.
    pub finished_at: Option<String>,
    /// Process id of the command.
    pub pid: u32,
    /// Exit code of the command.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Process id and version of the recorder.
    pub recorder: RecorderInfo,
    /// Problems of the recording.
    pub problems: Vec<String>,
    /// Number of ranks of the program, as the user or its processes name it. Ranks from 0 that are not among the
    /// processes never attached.
    pub expected_ranks: Option<u32>,
    /// Identity of a run of several hosts, each of which has a run folder; `null` for a run of one host.
    pub run_id: Option<String>,
    /// Every attached process, in the order of attaching.
    pub processes: Vec<ProcessEntry>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The recorder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderInfo {
    /// Process id.
    pub pid: u32,
    /// Version of tensortap.
    pub version: String,
}

/// One process that attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessEntry {
    /// Its dump, a folder next to this file.
    pub folder: String,
    /// Process id, as the recorder knows it.
    pub pid: u32,
    /// Rank, if its environment contains one.
    pub rank: Option<u32>,
    /// Name.
    pub name: String,
    /// `running`, or the status of its dump: `complete`, `crashed`, `killed`, `interrupted`, `dump_failed`.
    pub status: String,
    /// How it ended, or a problem of its dump.
    pub message: Option<String>,
    /// UTC.
    pub attached_at: String,
    /// UTC; `null` while the process lasts.
    pub ended_at: Option<String>,
    /// Counters of its dump.
    pub counts: Option<DumpCounters>,
    /// Bytes that the largest arena of its threads could use in the end; `null` if arenas could not grow, or if it was
    /// not counted.
    pub arena_bytes: Option<u64>,
    /// Bytes by which its arenas grew together.
    pub arena_grown_bytes: u64,
    /// Whether its arenas could not grow further because too little memory was available at its start.
    pub arena_is_short: bool,
    /// Number of its threads that could not record because too many others did.
    pub threads_refused: u64,
    /// Number of its calls that were rejected because of their arguments.
    pub calls_refused: u64,
    /// Reason for the first rejection, from the process.
    pub first_refusal: Option<String>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Status of a run or process that has not ended.
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
    /// Reads the file of a run folder.
    ///
    /// # Errors
    /// If it does not exist or is invalid.
    pub fn read(folder: &Path) -> io::Result<RunFile> {
        let file = fs::File::open(folder.join(RUN_FILE))?;
        if !file.metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES) {
            return Err(io::Error::other("it is not a regular file, or it is too large"));
        }
        Ok(serde_json::from_reader(io::BufReader::new(file))?)
    }

    /// Replaces the file atomically.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(format!(".{RUN_FILE}.new"));
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let written = fs::File::create(&new).and_then(|mut file| file.write_all(&text));
        let placed = written.and_then(|()| fs::rename(&new, folder.join(RUN_FILE)));
        if placed.is_err() {
            // On a full disk it would only use up space.
            let _ = fs::remove_file(&new);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_file_round_trips_with_keys_of_other_versions() {
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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        fs::write(folder.path().join(RUN_FILE), "{").unwrap();
        assert!(RunFile::read(folder.path()).is_err());
    }
}
