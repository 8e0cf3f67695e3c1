//! Errors of writing and reading dumps.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::names::quoted;

impl FormatError {
    /// Whether the request was wrong or it names something unreadable, as opposed to a failure to create,
    /// write or remove a file or folder.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        const READING: [&str; 5] = ["list", "lock", "measure", "open", "read"];
        !matches!(self, FormatError::Io { action, .. } if !READING.contains(action))
    }
}

/// Why a dump could not be written or read. Every message names the file and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// An operating system error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A record cannot be read with the type from a types file.
    #[error("{said_in}: {reason}")]
    Types {
        /// File and line.
        said_in: String,
        /// The reason.
        reason: String,
    },
    /// The output folder is not empty; a dump never mixes with other files.
    #[error("{} exists and is not empty; name another folder with --out, or empty it", dir.display())]
    OutputNotEmpty {
        /// The requested folder.
        dir: PathBuf,
    },
    /// The folder already holds a dump.
    #[error("{} already exists and is never overwritten; choose another folder", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// A folder contains run folders that are not those of one run.
    #[error("{} has run folders of different runs: {reason}; name one of them, or keep the run folders of each run in a folder of its own", dir.display())]
    DifferentRuns {
        /// The folder.
        dir: PathBuf,
        /// How they differ.
        reason: String,
    },
    /// The file is not part of a dump.
    #[error("{} is not part of a tensor dump: {reason}; name a dump's folder or its tensor_dump.json", path.display())]
    NotADump {
        /// The file.
        path: PathBuf,
        /// How that was detected.
        reason: String,
    },
    /// A file with the orchestration's own arguments, but without the rest of its dump.
    #[error("{} only contains the orchestration's own arguments, and the files of its dump are not next to it; copy the dump's whole folder", path.display())]
    OrchestrationArgsAlone {
        /// The file.
        path: PathBuf,
    },
    /// A manifest cannot be parsed.
    #[error("{} cannot be read as a manifest: {}{reason}; copy the dump again, or record it again", path.display(), record.map(|index| format!("record {index}: ")).unwrap_or_default())]
    BadManifest {
        /// The manifest.
        path: PathBuf,
        /// Position of the invalid record.
        record: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// A case cannot be read.
    #[error("{} is not a valid case: {reason}{} extract it again", path.display(), if reason.ends_with("copy it again") { " or" } else { ";" })]
    BadCase {
        /// The case.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A manifest of a newer version.
    #[error("{} has schema version {found}, but this tensortap reads versions up to {known}; use a newer tensortap", path.display())]
    SchemaVersion {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that this build knows.
        known: u32,
    },
    /// A file next to the manifest cannot be parsed.
    #[error("{} cannot be read: {reason}; the records are readable without it; copy this file again or move it away", path.display())]
    Beside {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Repair only changes regular files in the dump's folder, and never follows a link.
    #[error("{} is {what}; repair only changes regular files in the dump's folder: replace it with the file itself, or move it away", path.display())]
    NotAPlainFile {
        /// The file.
        path: PathBuf,
        /// Type of the file.
        what: &'static str,
    },
    /// The record left the window of a running `--dump-last` run while it was read.
    #[error(
        "{record} is gone: the run is still going and keeps only its newest tasks (--dump-last), and this task is no longer one of them; open the dump again, or wait for the run to end"
    )]
    RecordGone {
        /// Description of the record.
        record: String,
    },
    /// Only tensortap's own dumps with an index can be repaired.
    #[error("{} ({format}) cannot be repaired: {reason}; `tensortap verify` lists what is wrong with it", path.display())]
    NotRepairable {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        format: crate::DumpFormat,
        /// The reason.
        reason: &'static str,
    },
    /// No dump was found.
    #[error("no tensor dump in {}; name a dump's folder or its tensor_dump.json, or create a dump with `tensortap run SCENE --dump-tensor`", path.display())]
    NoDump {
        /// The path that was searched.
        path: PathBuf,
    },
    /// Written by a newer version.
    #[error("{} has index version {found}, but this tensortap reads versions up to {known}; use a newer tensortap", path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this build knows.
        known: u32,
    },
    /// The index's header is damaged, so nothing can be read.
    #[error("the header of {} is damaged: {reason}; {remedy}", path.display())]
    HeaderDamaged {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The next step.
        remedy: String,
    },
    /// The index names a payload file outside the dump's folder.
    #[error(
        "the dump names `{name}` as its payload file; only the name of a file in the dump's folder is allowed"
    )]
    BadBinFile {
        /// The file name in the index.
        name: String,
    },
    /// The image of a module cannot be read.
    #[error("module {id} (`{name}`): {reason}; record the program again, or restore the file")]
    BadModule {
        /// Its number.
        id: u32,
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A record contradicts itself.
    #[error("invalid record of task {task_id:#018x}, argument {arg_index}: {reason}")]
    BadRecord {
        /// Id of its task.
        task_id: u64,
        /// Index of its argument.
        arg_index: u16,
        /// The contradiction.
        reason: &'static str,
    },
    /// More run information than fits into a header.
    #[error(
        "the run information has {bytes} bytes, but a dump's header holds {limit}; use fewer arguments or parameters"
    )]
    InfoTooLarge {
        /// Its size as JSON.
        bytes: u64,
        /// Maximum size.
        limit: u64,
    },
    /// No payload was stored for the record.
    #[error("{record} has no stored payload ({state}); record the dump again with --dump-tensor=full")]
    NoPayload {
        /// Description of the record.
        record: String,
        /// Its payload state, spelled as in the manifest.
        state: &'static str,
    },
    /// The payload file is shorter than the index requires.
    #[error("the payload of {record} has {bytes} bytes at offset {offset} in {}, but that file has only {have} bytes; {remedy}", path.display())]
    PayloadShort {
        /// The payload file.
        path: PathBuf,
        /// Description of the record.
        record: String,
        /// Offset of the payload.
        offset: u64,
        /// Its size.
        bytes: u64,
        /// Size of the file.
        have: u64,
        /// The next step.
        remedy: String,
    },
    /// The stored payload does not match its hash.
    #[error(
        "the payload of {record} is damaged (hash mismatch); `tensortap verify {}` finds every damaged record",
        quoted(dir)
    )]
    PayloadDamaged {
        /// Description of the record.
        record: String,
        /// The dump's folder.
        dir: PathBuf,
    },
    /// The payload file is missing.
    #[error("the payload of {record} is in {}, which is missing; copy the dump again, including this file", path.display())]
    PayloadMissing {
        /// The payload file.
        path: PathBuf,
        /// Description of the record.
        record: String,
    },
    /// The payload file is missing, so repair would drop every payload.
    #[error("{payloads} payloads are in {}, which is missing; copy it from the original dump, or drop the payloads permanently with `tensortap repair --without-payloads {}`", path.display(), quoted(dir))]
    PayloadFileMissing {
        /// The payload file.
        path: PathBuf,
        /// The dump's folder.
        dir: PathBuf,
        /// Number of payloads in it.
        payloads: u64,
    },
    /// A range outside the payload was requested.
    #[error("{record} has a payload of {have} bytes; {bytes} bytes at offset {offset} are outside it")]
    PayloadRange {
        /// Description of the record.
        record: String,
        /// First requested byte.
        offset: u64,
        /// Number of requested bytes.
        bytes: u64,
        /// Size of the payload.
        have: u64,
    },
    /// The payload does not fit in memory.
    #[error("the payload of {record} has {bytes} bytes, which do not fit into memory; read it in parts")]
    NoMemory {
        /// Description of the record.
        record: String,
        /// Its size.
        bytes: u64,
    },
    /// There is no record with this number.
    #[error("no record {index}; the dump has {records} records")]
    NoRecord {
        /// The requested number.
        index: u64,
        /// Number of records.
        records: u64,
    },
    /// The index changed after it was opened.
    #[error("{} changed at byte {offset} while it was read: {reason}; open the dump again", path.display())]
    IndexChanged {
        /// The index.
        path: PathBuf,
        /// Offset of the change.
        offset: u64,
        /// What changed.
        reason: String,
    },
    /// A writer holds the lock of the dump.
    #[error("{} is still being written; wait for the run to end, or stop it", path.display())]
    StillWritten {
        /// The index.
        path: PathBuf,
    },
}

impl FormatError {
    /// Whether the file system is full. The run then continues without its dump.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, FormatError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge))
    }
}

/// Adds the file name to an operating system error.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FormatError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FormatError> {
        self.map_err(|source| FormatError::Io { action, path: path.to_owned(), source })
    }
}
