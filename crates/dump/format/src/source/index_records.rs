//! Records of an index file, read from the file on demand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tensortap_abi::{LaneRecord, RecordKind};

use super::dispatch_table::DispatchTable;
use super::entries::{Entries, Entry};
use crate::{
    ArgumentRecord, Assembler, Dispatch, Edge, FormatError, IndexRecord, OrchestrationArg, PayloadState,
    Record, RecordingThread, Tail, TaskPart, Tasks, UncapturedArgument,
    concurrent_writer::open_as_named,
    error::AtPath,
    files::is_being_written,
    index::{Index, ReadAhead, read_up_to},
    join::{Definitions, TaskTable},
    layout::MAX_ARGUMENT_BYTES,
    payload_files::PayloadLimits,
    survey::Survey,
};

/// Number of records between two calls of the watcher.
const WATCHED: u64 = 4096;

/// An index after its survey.
pub(crate) struct IndexRecords {
    pub(crate) index: Index,
    pub(crate) survey: Survey,
    entries: Entries,
    pub(super) tasks: TaskTable,
    pub(super) definitions: Definitions,
    /// For a dump with dispatch arguments but without tensor records: the arguments as records.
    pub(super) dispatched: Option<DispatchTable>,
    being_written: bool,
}

impl IndexRecords {
    /// Whether its writer was alive when it was opened.
    pub(crate) fn is_being_written(&self) -> bool {
        self.being_written
    }

    pub(crate) fn open(path: &Path) -> Result<IndexRecords, FormatError> {
        // Checked before the length is read: if no process writes the file now, it will not grow.
        let (file, being_written) = open_as_named(path, is_being_written)?;
        let mut index = Index::from_file(file, path)?;
        let mut entries = Entries::default();
        let (mut tasks, mut definitions) = (TaskTable::default(), Definitions::default());
        let mut dispatched = (!index.info.has_manifest()).then(DispatchTable::default);
        let survey = Survey::of(&index, |lane, at, record| match record.kind() {
            RecordKind::Tensor | RecordKind::Scalar => entries.push(at, lane),
            RecordKind::Task => tasks.see(record),
            RecordKind::Dispatch => dispatched.iter_mut().for_each(|args| args.see(lane, at, record)),
            kind if kind.is_definition() => definitions.see(record),
            _ => {}
        })?;
        entries.shrink();
        tasks.finish();
        definitions.finish(&mut index.info.kernels);
        // A dump with records lists them, whatever its header states.
        let dispatched = dispatched.filter(|_| entries.len() == 0);
        Ok(IndexRecords { index, survey, entries, tasks, definitions, dispatched, being_written })
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.index.path
    }

    pub(super) fn len(&self) -> usize {
        self.dispatched.as_ref().map_or(self.entries.len(), DispatchTable::len)
    }

    pub(super) fn record(&self, place: usize) -> Option<Result<Record, FormatError>> {
        if let Some(dispatched) = &self.dispatched {
            return dispatched.record(self, place, &mut ReadAhead::new());
        }
        let entry = self.entries.get(place)?;
        let mut bytes = [0; MAX_ARGUMENT_BYTES];
        let read = read_up_to(&self.index.file, &mut bytes, entry.at).at("read", self.path());
        Some(read.and_then(|read| self.decode(place, entry, &bytes[..read])))
    }

    pub(super) fn next_record(
        &self,
        place: usize,
        window: &mut ReadAhead,
    ) -> Option<Result<Record, FormatError>> {
        if let Some(dispatched) = &self.dispatched {
            return dispatched.record(self, place, window);
        }
        let entry = self.entries.get(place)?;
        let Index { file, path, bytes: limit, .. } = &self.index;
        let bytes = window.get(file, entry.at, MAX_ARGUMENT_BYTES, *limit).at("read", path);
        Some(bytes.and_then(|bytes| self.decode(place, entry, bytes)))
    }

    fn decode(&self, place: usize, entry: Entry, bytes: &[u8]) -> Result<Record, FormatError> {
        let changed = |reason| self.index.changed(entry.at, reason);
        let mut record = IndexRecord::scratch();
        record.decode_from(bytes).map_err(changed)?;
        let task = self.tasks.by_id(record.task_id());
        Record::new(place as u64, entry.lane, task.step, task.func_id, &record)
            .ok_or_else(|| changed("the record has changed"))
    }

    pub(crate) fn tail(&self) -> Tail {
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

    pub(crate) fn tasks(&self, limits: &PayloadLimits, watch: &dyn Fn()) -> Result<Tasks, FormatError> {
        let mut assembler = Assembler::default();
        let mut threads = Threads::default();
        let mut next = 0;
        let kinds: Vec<RecordKind> = TaskPart::KINDS.into_iter().chain([RecordKind::Lane]).collect();
        self.for_each_in_lanes(&kinds, |lane, record| {
            let thread = threads.see(lane, record, &self.definitions);
            if let Some(mut part) = TaskPart::of(next, thread, record, |task_id| self.step_of(task_id)) {
                if let TaskPart::Argument(argument) = &mut part
                    && record.stored_range().is_some_and(|(at, bytes)| limits.cut(at, bytes))
                {
                    argument.payload = PayloadState::Missing;
                }
                if assembler.taken() % WATCHED == 0 {
                    watch();
                }
                next += u64::from(matches!(part, TaskPart::Argument(_)));
                assembler.take(part);
            }
        })?;
        self.for_each_task_argument(|record| {
            assembler.take(TaskPart::Argument(ArgumentRecord::from(record)));
        })?;
        assembler.know_threads(threads.known);
        Ok(assembler.finish(&self.index.info.kernels))
    }

    /// Modules, sorted by number.
    pub(crate) fn modules(&self) -> Vec<crate::Module> {
        self.definitions.modules()
    }

    pub(crate) fn edges(&self) -> Result<Vec<Edge>, FormatError> {
        let mut edges = Vec::new();
        let kinds = [RecordKind::Edge];
        self.for_each(&kinds, |record| edges.extend(Edge::new(record, |task_id| self.step_of(task_id))))?;
        Ok(edges)
    }

    pub(crate) fn uncaptured(&self) -> Result<Vec<UncapturedArgument>, FormatError> {
        let mut uncaptured = Vec::new();
        self.for_each(&[RecordKind::Uncaptured], |record| {
            uncaptured.extend(UncapturedArgument::new(record, self.step_of(record.task_id())));
        })?;
        Ok(uncaptured)
    }

    pub(crate) fn for_each_dispatch(&self, mut each: impl FnMut(Dispatch)) -> Result<(), FormatError> {
        self.for_each(&[RecordKind::Dispatch], |record| {
            Dispatch::new(record, self.step_of(record.task_id())).into_iter().for_each(&mut each)
        })
    }

    pub(crate) fn orchestration_args(&self) -> Result<Vec<OrchestrationArg>, FormatError> {
        let mut args = Vec::new();
        let kinds = [RecordKind::OrchestrationArg];
        self.for_each(&kinds, |record| args.extend(OrchestrationArg::new(record, &self.index.info)))?;
        args.sort_by_key(|arg| arg.arg_index);
        Ok(args)
    }

    /// Whether a task has a record of its own.
    pub(crate) fn has_task(&self, task_id: u64) -> bool {
        self.tasks.has(task_id)
    }

    /// The step of a task, from its own record.
    fn step_of(&self, task_id: u64) -> u32 {
        self.tasks.by_id(task_id).step
    }

    pub(crate) fn for_each(
        &self,
        kinds: &[RecordKind],
        mut each: impl FnMut(&IndexRecord),
    ) -> Result<(), FormatError> {
        self.for_each_in_lanes(kinds, |_, record| each(record))
    }

    /// As `for_each`, with the lane of each record.
    fn for_each_in_lanes(
        &self,
        kinds: &[RecordKind],
        mut each: impl FnMut(u32, &IndexRecord),
    ) -> Result<(), FormatError> {
        self.index.for_each(kinds, self.survey.end, |lane, record| {
            each(lane, record);
            Ok(())
        })
    }
}

/// Maximum number of threads with names. Records of further threads have no thread.
const MAX_THREADS: usize = 1 << 16;

/// The thread that holds each lane during a walk over the index. A lane is leased by one thread after
/// another.
#[derive(Default)]
pub(crate) struct Threads {
    pub(crate) known: Vec<RecordingThread>,
    holders: HashMap<u32, u32>,
    /// Positions of threads with an operating system id.
    by_tid: HashMap<(u64, Option<Box<str>>), u32>,
}

impl Threads {
    /// The thread that made this record.
    pub(crate) fn see(&mut self, lane: u32, record: &IndexRecord, definitions: &Definitions) -> Option<u32> {
        let thread = match record.get::<LaneRecord>() {
            Some(held) => {
                let name = definitions.string(held.name).map(Box::from);
                RecordingThread { lane, tid: held.tid, name }
            }
            None => match self.holders.get(&lane) {
                Some(&holder) => return Some(holder),
                None => RecordingThread { lane, ..RecordingThread::default() },
            },
        };
        // A thread that returns keeps its entry, whatever lane it has now.
        let key = (thread.tid, thread.name.clone());
        let again = self.by_tid.get(&key).copied();
        let place = again.or_else(|| {
            let place = u32::try_from(self.known.len()).ok().filter(|_| self.known.len() < MAX_THREADS)?;
            if thread.tid != 0 {
                self.by_tid.insert(key, place);
            }
            self.known.push(thread);
            Some(place)
        });
        match place {
            Some(place) => self.holders.insert(lane, place),
            None => self.holders.remove(&lane),
        };
        place
    }
}
