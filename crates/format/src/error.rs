//! Why a dump could not be written or read.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::names::quoted;

impl FormatError {
    /// Whether the request itself was wrong or what it names cannot be read, as opposed to a folder or file that could not be
    /// made, written or removed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        const READING: [&str; 5] = ["list", "lock", "measure", "open", "read"];
        !matches!(self, FormatError::Io { action, .. } if !READING.contains(action))
    }
}

/// Why a dump could not be written or read. Every message names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A record cannot be read as a types file says.
    #[error("{said_in}: {reason}")]
    Types {
        /// File and line.
        said_in: String,
        /// Why not.
        reason: String,
    },
    /// A dump never mixes with other files.
    #[error("{} exists and is not empty; name another folder with --out, or empty it", dir.display())]
    OutputNotEmpty {
        /// The folder asked for.
        dir: PathBuf,
    },
    /// The folder holds a dump already.
    #[error("{} exists; a dump is never overwritten, choose another folder", path.display())]
    Exists {
        /// The file that is there.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not part of a tensor dump: {reason}; name a dump's folder or its tensor_dump.json", path.display())]
    NotADump {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        reason: String,
    },
    /// The orchestration's own arguments, without the dump that they belong to.
    #[error("{} holds the orchestration's own arguments and no records, and the dump that it belongs to is not beside it; copy the dump's whole folder", path.display())]
    OrchestrationArgsAlone {
        /// The file.
        path: PathBuf,
    },
    /// A manifest cannot be understood.
    #[error("{} cannot be read as a manifest: {}{reason}; copy the dump again from where it was taken, or take it again", path.display(), record.map(|index| format!("record {index}: ")).unwrap_or_default())]
    BadManifest {
        /// The manifest.
        path: PathBuf,
        /// The record at fault, by its position.
        record: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// A manifest of a later version.
    #[error("{} has schema version {found}, this program reads up to {known}; use a newer tensortap", path.display())]
    SchemaVersion {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The latest version known here.
        known: u32,
    },
    /// A file that belongs to the manifest cannot be understood.
    #[error("{} cannot be read: {reason}; the records can be, copy this file again or move it away", path.display())]
    Beside {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Repair changes files of the dump's own folder and nothing that they lead to.
    #[error("{} is {what}; repair changes plain files of the dump's own folder only: put the file itself in its place, or move it away", path.display())]
    NotAPlainFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The record left the window of a run that keeps its newest tasks (`--dump-last`) while it was read.
    #[error(
        "{record} is gone: the run goes on and keeps its newest tasks only, and this one left them while it was read; open the dump again, or wait for the run to end"
    )]
    RecordGone {
        /// The record, in words.
        record: String,
    },
    /// Only this project's own dumps, with their index, can be repaired.
    #[error("{} ({format}) cannot be repaired: {reason}; `tensortap verify` says what is wrong with it", path.display())]
    NotRepairable {
        /// The manifest.
        path: PathBuf,
        /// What it is.
        format: crate::DumpFormat,
        /// Why not.
        reason: &'static str,
    },
    /// No dump was found.
    #[error("there is no tensor dump in {}; name a dump's folder or its tensor_dump.json, or make one with `tensortap run SCENE --dump-tensor`", path.display())]
    NoDump {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error("{} has index version {found}, this program reads up to {known}; use a newer tensortap", path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The latest version known here.
        known: u32,
    },
    /// The index's header, without which nothing can be read, is damaged.
    #[error("the header of {} is damaged: {reason}; {remedy}", path.display())]
    HeaderDamaged {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The index says that payloads are in a file outside of the dump's folder.
    #[error(
        "the dump names `{name}` as its payload file; only the plain name of a file in the dump's folder is accepted"
    )]
    BadBinFile {
        /// The name.
        name: String,
    },
    /// The image of a module cannot be had.
    #[error("module {id} (`{name}`): {reason}; record the program again, or put the file back")]
    BadModule {
        /// Its number.
        id: u32,
        /// What it is called.
        name: String,
        /// Why.
        reason: String,
    },
    /// A record contradicts itself.
    #[error("record of task {task_id:#018x}, argument {arg_index}, cannot stand in a dump: {reason}")]
    BadRecord {
        /// Its task.
        task_id: u64,
        /// Its argument.
        arg_index: u16,
        /// The contradiction.
        reason: &'static str,
    },
    /// More run information than a header holds.
    #[error(
        "the run information takes {bytes} bytes, more than the {limit} a dump's header holds; leave out arguments or parameters"
    )]
    InfoTooLarge {
        /// Its size as JSON.
        bytes: u64,
        /// The most there may be.
        limit: u64,
    },
    /// Nothing was stored for the record.
    #[error("{record} has no stored payload ({state}); take the dump again with --dump-tensor=full")]
    NoPayload {
        /// The record, in words.
        record: String,
        /// Its payload state as the manifest says it.
        state: &'static str,
    },
    /// The payload file is shorter than the index says.
    #[error("the payload of {record} is {bytes} bytes at {offset} in {}, which has {have} bytes; {remedy}", path.display())]
    PayloadShort {
        /// The payload file.
        path: PathBuf,
        /// The record, in words.
        record: String,
        /// Where the payload starts.
        offset: u64,
        /// Its size.
        bytes: u64,
        /// Size of the file.
        have: u64,
        /// What to do about it.
        remedy: String,
    },
    /// The payload is there, but it is not what was captured.
    #[error(
        "the payload of {record} is damaged: it does not hash to what was captured; `tensortap verify {}` finds every such record",
        quoted(dir)
    )]
    PayloadDamaged {
        /// The record, in words.
        record: String,
        /// The dump's folder.
        dir: PathBuf,
    },
    /// The payload file is not there.
    #[error("the payload of {record} is in {}, which is not there; copy the dump again, with this file", path.display())]
    PayloadMissing {
        /// The payload file.
        path: PathBuf,
        /// The record, in words.
        record: String,
    },
    /// Repair would give up every payload because the file that has them is not there.
    #[error("{payloads} payloads are in {}, which is not there; copy it from where the dump was taken, or give the payloads up for good with `tensortap repair --without-payloads {}`", path.display(), quoted(dir))]
    PayloadFileMissing {
        /// The payload file.
        path: PathBuf,
        /// The dump's folder.
        dir: PathBuf,
        /// Payloads in it.
        payloads: u64,
    },
    /// A part was asked for that the payload does not have.
    #[error("{record} has a payload of {have} bytes; {bytes} bytes at {offset} are outside of it")]
    PayloadRange {
        /// The record, in words.
        record: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes there are.
        have: u64,
    },
    /// The payload does not fit in memory.
    #[error("the payload of {record} takes {bytes} bytes, more memory than there is; read it in parts")]
    NoMemory {
        /// The record, in words.
        record: String,
        /// Its size.
        bytes: u64,
    },
    /// No record of that number.
    #[error("there is no record {index}; the dump has {records}")]
    NoRecord {
        /// The number asked for.
        index: u64,
        /// Records there are.
        records: u64,
    },
    /// The index is not what it was when it was opened.
    #[error("{} changed at byte {offset} while it was read: {reason}; open the dump again", path.display())]
    IndexChanged {
        /// The index.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What no longer holds.
        reason: String,
    },
    /// A writer holds the dump.
    #[error("{} is still being written; wait for the run to end, or end it", path.display())]
    StillWritten {
        /// The index.
        path: PathBuf,
    },
}

impl FormatError {
    /// Whether the file system had no room: the run goes on without its dump.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, FormatError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge))
    }
}

/// Names the file in an operating system's error.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FormatError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FormatError> {
        self.map_err(|source| FormatError::Io { action, path: path.to_owned(), source })
    }
}
