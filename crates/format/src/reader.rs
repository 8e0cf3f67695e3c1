//! Reading a dump: finished, still being written, or torn.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use tensortap_abi::{RecordKind, SLOTS_PER_TASK, UncapturedReason};

use crate::{
    Edge, Footer, FormatError, Gap, INDEX_FILE, IndexRecord, Record, RunInfo, Status, Task, Totals,
    error::AtPath,
    files::is_being_written,
    index::{Index, ReadAhead, open_regular, read_up_to},
    layout::MAX_RECORD_BYTES,
    names::locate,
    survey::{LastTasks, Survey},
};

/// How the index ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With a footer: the dump is finished.
    Closed,
    /// A writer is still appending; the dump is what there was when it was opened.
    Open,
    /// Its writer died, or it is damaged. Records up to `offset` are there, the rest is gone.
    Torn {
        /// Offset in the index behind the last good frame.
        offset: u64,
        /// Bytes behind it that are lost.
        lost_bytes: u64,
        /// Why reading stopped there.
        reason: String,
    },
}

/// An argument that was not captured, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncaptured {
    /// Task.
    pub task_id: u64,
    /// Position in the task's payload.
    pub arg_index: u16,
    /// Why.
    pub reason: UncapturedReason,
}

/// Where a record lies, and what its own bytes do not say.
struct Entry {
    at: u64,
    thread: u32,
    /// Position in `Dump::kernels`.
    kernels: u32,
}

/// A dump that was opened. Opening reads the index once; records and payloads are read from the files when asked for.
/// Nothing in the files is trusted, and both may change or shrink meanwhile: that is an error, never a crash.
pub struct Dump {
    dir: PathBuf,
    index: Index,
    survey: Survey,
    entries: Vec<Entry>,
    /// The different sets of kernels that tasks have.
    kernels: Vec<[u32; SLOTS_PER_TASK]>,
    being_written: bool,
    pub(crate) payloads: OnceLock<File>,
}

impl Dump {
    /// Opens the dump that `path` names: by one of its files, its folder, or a folder that holds it.
    pub fn open(path: &Path) -> Result<Dump, FormatError> {
        let dir = locate(path)?;
        let path = dir.join(INDEX_FILE);
        let file = open_regular(&path)?;
        // Asked before the length: what nobody wrote then is all there will be.
        let being_written = is_being_written(&file);
        Dump::from_index(dir, Index::from_file(file, &path)?, being_written)
    }

    fn from_index(dir: PathBuf, index: Index, being_written: bool) -> Result<Dump, FormatError> {
        let mut entries = Vec::new();
        let mut kernels = KernelSets::default();
        let mut tasks = LastTasks::default();
        let survey = Survey::of(&index, |thread, at, record| {
            tasks.see(thread, record);
            if matches!(record.kind(), RecordKind::Tensor | RecordKind::Scalar) {
                let kernels = kernels.number(tasks.func_id(thread, record.task_id()));
                entries.push(Entry { at, thread, kernels });
            }
        })?;
        let payloads = OnceLock::new();
        Ok(Dump { dir, index, survey, entries, kernels: kernels.sets, being_written, payloads })
    }

    /// The dump's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is known about the run since its start.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.index.info
    }

    /// What the end of the run added; `None` while it lasts, or when nobody closed the dump.
    #[must_use]
    pub fn footer(&self) -> Option<&Footer> {
        self.survey.footer.as_ref()
    }

    /// How the run ended: as the footer says, killed without one, `None` while it lasts.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match (self.tail(), self.footer()) {
            (_, Some(footer)) => Some(footer.status),
            (Tail::Open, None) => None,
            (_, None) => Some(Status::Killed),
        }
    }

    /// How the index ends.
    #[must_use]
    pub fn tail(&self) -> Tail {
        match &self.survey.damage {
            None => Tail::Closed,
            Some(damage) if damage.at_end && self.being_written => Tail::Open,
            Some(damage) => Tail::Torn {
                offset: damage.offset,
                lost_bytes: self.index.bytes.saturating_sub(damage.offset),
                reason: damage.reason.clone(),
            },
        }
    }

    /// Counters over the records that are there.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.survey.totals
    }

    /// Sequence numbers that are missing: records that were lost.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.survey.gaps
    }

    /// Number of records: tensors and scalars.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The record at a position.
    pub fn record(&self, index: u64) -> Result<Record, FormatError> {
        let no_record = || FormatError::NoRecord { index, records: self.len() };
        let place = usize::try_from(index).map_err(|_| no_record())?;
        let entry = self.entries.get(place).ok_or_else(no_record)?;
        let mut bytes = [0; MAX_RECORD_BYTES];
        let read = read_up_to(&self.index.file, &mut bytes, entry.at).at("read", &self.index.path)?;
        self.decode(index, entry, &bytes[..read])
    }

    /// Every record, in the order of the index.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records { dump: self, next: 0, window: ReadAhead::new() }
    }

    fn decode(&self, index: u64, entry: &Entry, bytes: &[u8]) -> Result<Record, FormatError> {
        let changed = |reason: &str| self.index.changed(entry.at, reason);
        let (record, _) = IndexRecord::decode(bytes).map_err(changed)?;
        let kernels = self.kernels[entry.kernels as usize];
        Record::new(index, entry.thread, kernels, &record).ok_or_else(|| changed("the record became another"))
    }

    /// Every task, in the order in which the index first mentions it.
    pub fn tasks(&self) -> Result<Vec<Task>, FormatError> {
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut tasks: Vec<Task> = Vec::new();
        self.for_each(|record| {
            let Some(task) = record.as_task().map(|task| Task::from(&task)) else { return };
            match places.get(&task.task_id) {
                // The later stage knows more; a completion may be indexed before its dispatch.
                Some(&place) if tasks[place].completed_ns.is_none() => tasks[place] = task,
                Some(_) => {}
                None => {
                    places.insert(task.task_id, tasks.len());
                    tasks.push(task);
                }
            }
        })?;
        Ok(tasks)
    }

    /// Every dependency.
    pub fn edges(&self) -> Result<Vec<Edge>, FormatError> {
        let mut edges = Vec::new();
        self.for_each(|record| edges.extend(Edge::new(record)))?;
        Ok(edges)
    }

    /// Every argument that could not be captured.
    pub fn uncaptured(&self) -> Result<Vec<Uncaptured>, FormatError> {
        let mut uncaptured = Vec::new();
        self.for_each(|record| uncaptured.extend(Uncaptured::new(record)))?;
        Ok(uncaptured)
    }

    /// Every dispatch, as recorded.
    pub fn dispatches(&self) -> Result<Vec<IndexRecord>, FormatError> {
        let mut dispatches = Vec::new();
        self.for_each(|record| {
            if record.kind() == RecordKind::Dispatch {
                dispatches.push(record.clone());
            }
        })?;
        Ok(dispatches)
    }

    fn for_each(&self, mut each: impl FnMut(&IndexRecord)) -> Result<(), FormatError> {
        self.index.for_each(self.survey.end, |_, record| {
            each(record);
            Ok(())
        })
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn survey(&self) -> &Survey {
        &self.survey
    }
}

impl Uncaptured {
    fn new(record: &IndexRecord) -> Option<Uncaptured> {
        let fields = record.fields();
        if record.kind() != RecordKind::Uncaptured {
            return None;
        }
        let reason = u8::try_from(fields.start_offset).ok().and_then(UncapturedReason::from_tag)?;
        Some(Uncaptured { task_id: fields.task_id, arg_index: fields.arg_index, reason })
    }
}

/// Numbers for sets of kernels; there are few, however many tasks there are.
#[derive(Default)]
struct KernelSets {
    sets: Vec<[u32; SLOTS_PER_TASK]>,
    numbers: HashMap<[u32; SLOTS_PER_TASK], u32>,
}

impl KernelSets {
    fn number(&mut self, set: [u32; SLOTS_PER_TASK]) -> u32 {
        *self.numbers.entry(set).or_insert_with(|| {
            self.sets.push(set);
            u32::try_from(self.sets.len() - 1).expect("an index of 2^32 tasks does not fit in memory")
        })
    }
}

/// Every record of a dump, in order, read in large pieces.
pub struct Records<'d> {
    dump: &'d Dump,
    next: usize,
    window: ReadAhead,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Records { dump, next, window } = self;
        let entry = dump.entries.get(*next)?;
        let index = *next as u64;
        *next += 1;
        let Index { file, path, bytes: limit, .. } = &dump.index;
        let bytes = window.get(file, entry.at, MAX_RECORD_BYTES, *limit).at("read", path);
        Some(bytes.and_then(|bytes| dump.decode(index, entry, bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.dump.entries.len() - self.next.min(self.dump.entries.len());
        (left, Some(left))
    }

    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        self.next = self.next.saturating_add(skipped);
        self.next()
    }
}

impl ExactSizeIterator for Records<'_> {}
