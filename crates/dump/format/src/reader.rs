//! Reads a dump: finished, still being written, or torn; written by tensortap or by `simpler`.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use tensortap_abi::{SLOTS_PER_TASK, UncapturedReason, UncapturedRecord};

use crate::types::Types;
use crate::{
    Dispatch, DumpFormat, Edge, Footer, FormatError, Gap, IndexRecord, Module, Names, OrchestrationArg,
    OrchestrationScalar, Record, RunInfo, Status, TaskKey, Tasks, Totals,
    concurrent_writer::ConcurrentWriter,
    index::ReadAhead,
    join::TaskMeaning,
    modules::listed_modules,
    names::{DumpLocation, folder_of, locate},
    payload_files::{PayloadFiles, PayloadLimits},
    source::{SkippedIndex, Source, is_case_file, open_case, open_indexed, open_manifest},
};

/// The end of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With a footer: the dump is finished.
    Closed,
    /// A writer is still appending. The dump contains what was there when it was opened.
    Open,
    /// The writer died, or the index is damaged. Records up to `offset` are readable, the rest is lost.
    Torn {
        /// Offset in the index after the last good frame.
        offset: u64,
        /// Number of lost bytes after it.
        lost_bytes: u64,
        /// Why reading stopped.
        reason: String,
    },
}

/// An argument that was not captured, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncapturedArgument {
    /// Step of its task; 0 if the dump has no steps.
    pub step: u32,
    /// Task.
    pub task_id: u64,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// The reason.
    pub reason: UncapturedReason,
}

/// An open dump in any known format. Opening takes time proportional to the number of records; payloads are
/// read from the file on demand. Nothing in the files is trusted. If they change or shrink meanwhile, that
/// causes an error and never a crash. A payload that a `--dump-last` run removed meanwhile causes
/// [`FormatError::RecordGone`]. Threads can share a dump.
///
/// ```no_run
/// # fn main() -> Result<(), tensortap_format::FormatError> {
/// let dump = tensortap_format::Dump::open("outputs/args_dump/args_dump.json".as_ref())?;
/// println!("{}: {} records", dump.format(), dump.len());
/// for record in dump.records() {
///     let record = record?;
///     println!("{record}: {} {:?}", record.dtype, record.shape());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Dump {
    dir: PathBuf,
    /// The folder of its files: `dir`, or that of a case in one file.
    folder: PathBuf,
    source: Source,
    pub(crate) payloads: PayloadFiles,
    /// Lengths of the payload files; unlimited while a process writes them.
    limits: PayloadLimits,
    /// Set if a process writes the dump.
    pub(crate) concurrent_writer: Option<ConcurrentWriter>,
    /// Types for records with unknown types.
    pub(crate) types: Types,
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Dump>();
};

impl Dump {
    /// Opens the dump that `path` names: one of its files, its folder, or a folder that contains it. The
    /// content decides the format, not the name. If the index is damaged or truncated and a complete
    /// manifest has more records, the manifest is read; [`Dump::passed_over`] reports that.
    pub fn open(path: &Path) -> Result<Dump, FormatError> {
        let DumpLocation { dir, file, is_index } = locate(path)?;
        let folder = folder_of(&file).to_owned();
        let source = match is_index {
            true => open_indexed(&file)?,
            false if is_case_file(&file) => Source::Manifest(open_case(&file)?),
            false => Source::Manifest(open_manifest(&file)?),
        };
        let concurrent_writer = match &source {
            Source::Index(indexed) => ConcurrentWriter::of(&indexed.index, &indexed.tail())?,
            Source::Manifest(_) => None,
        };
        let payloads =
            PayloadFiles::new(folder.clone(), source.info().bin_file.clone(), source.is_segmented());
        let mut dump = Dump {
            dir,
            folder,
            source,
            payloads,
            limits: PayloadLimits::Unlimited,
            concurrent_writer,
            types: Types::default(),
        };
        if dump.tail() != Tail::Open {
            let length = |number| Ok(length_of(&dump.payloads.path(number)));
            dump.limits = PayloadLimits::of(dump.payloads.is_segmented(), length)?;
        }
        Ok(dump)
    }

    /// The path that names the dump: its folder, or the file of a case in one file.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The format that the dump was read from.
    #[must_use]
    pub fn format(&self) -> DumpFormat {
        match &self.source {
            Source::Index(_) => DumpFormat::Indexed,
            Source::Manifest(held) => held.format,
        }
    }

    /// What was known about the run at its start. Unknown keys of a manifest are in its `extra`.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        self.source.info()
    }

    /// What the end of the run added; `None` while the run lasts, or if the dump was not closed. For
    /// another project's dump it contains losses and counters. Such a dump does not state how the run
    /// ended; [`Dump::status`] handles that.
    #[must_use]
    pub fn footer(&self) -> Option<&Footer> {
        match &self.source {
            Source::Index(indexed) => indexed.survey.footer.as_ref(),
            Source::Manifest(held) => held.footer.as_ref(),
        }
    }

    /// How the run ended: the footer's status, or killed if there is no footer. `None` while the run lasts,
    /// or if the format does not contain it.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match (self.tail(), self.footer()) {
            _ if self.format().is_foreign() => None,
            (_, Some(footer)) => Some(footer.status),
            (Tail::Open, None) => None,
            (_, None) => Some(Status::Killed),
        }
    }

    /// The end of the index. A manifest without an index is always complete.
    #[must_use]
    pub fn tail(&self) -> Tail {
        match &self.source {
            Source::Index(indexed) => indexed.tail(),
            Source::Manifest(_) => Tail::Closed,
        }
    }

    /// Counters over the existing records.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        match &self.source {
            Source::Index(indexed) => &indexed.survey.totals,
            Source::Manifest(held) => &held.totals,
        }
    }

    /// Missing sequence numbers, which are lost records.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        match &self.source {
            Source::Index(indexed) => &indexed.survey.gaps,
            Source::Manifest(_) => &[],
        }
    }

    /// Number of records: tensors and scalars.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.source.len() as u64
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.source.len() == 0
    }

    /// The record at a position.
    pub fn record(&self, index: u64) -> Result<Record, FormatError> {
        let no_record = || FormatError::NoRecord { index, records: self.len() };
        let record = self.source.record(index).ok_or_else(no_record)??;
        self.types.read(self, record.within(&self.limits))
    }

    /// Every record, in the order of the index or manifest.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records { dump: self, next: 0, read_ahead: ReadAhead::new(), limits: &self.limits }
    }

    /// Every record as index or manifest state it, ignoring the lengths of the payload files.
    pub(crate) fn stored_records(&self) -> Records<'_> {
        Records { limits: &PayloadLimits::Unlimited, ..self.records() }
    }

    /// Keys of a manifest's record that no field of [`Record`] holds.
    #[must_use]
    pub fn unknown(&self, record: &Record) -> Map<String, Value> {
        match &self.source {
            Source::Index(_) => Map::new(),
            Source::Manifest(held) => held.unknown(record.index),
        }
    }

    /// Every task with its kernels, arguments, dispatches and edges, assembled in one walk over the dump.
    pub fn tasks(&self) -> Result<Tasks, FormatError> {
        self.tasks_watched(&|| ())
    }

    /// As [`tasks`](Self::tasks), but calls `watch` regularly. `watch` may panic to cancel the walk.
    pub fn tasks_watched(&self, watch: &dyn Fn()) -> Result<Tasks, FormatError> {
        let mut tasks = match &self.source {
            Source::Index(indexed) => indexed.tasks(&self.limits, watch)?,
            Source::Manifest(held) => held.tasks(&self.limits, watch)?,
        };
        tasks.give_names(|task| self.task_names(task));
        let definitions = self.source.names().1;
        tasks.give_arg_names(|id| definitions.string(id));
        Ok(tasks)
    }

    /// The name of a queue, if the dump has it.
    #[must_use]
    pub fn queue_name(&self, queue: u32) -> Option<&str> {
        self.source.names().1.queue(queue)
    }

    /// The modules, sorted by number; empty if the dump has none. [`Module::image`] reads an image and
    /// checks its hash.
    #[must_use]
    pub fn modules(&self) -> Vec<Module> {
        match &self.source {
            Source::Index(indexed) => indexed.modules(),
            Source::Manifest(_) => listed_modules(self.info()),
        }
    }

    /// Whether the dump contains OpenCL or CUDA programs, so that launches of their kernels can be
    /// replayed.
    #[must_use]
    pub fn has_programs(&self) -> bool {
        self.modules().iter().any(|module| module.kind.is_opencl() || module.kind.is_cuda())
    }

    /// Calls a function with every entry of the index of these kinds. Without an index, with the strings, tasks, queues,
    /// steps, attributes, collectives and allocations that the JSON files have.
    pub(crate) fn for_each_of(
        &self,
        kinds: &[tensortap_abi::RecordKind],
        each: impl FnMut(&crate::IndexRecord),
    ) -> Result<(), FormatError> {
        match &self.source {
            Source::Index(indexed) => indexed.for_each(kinds, each),
            Source::Manifest(held) => {
                held.for_each(kinds, each);
                Ok(())
            }
        }
    }

    /// Whether the dump has more information on tasks than their argument records: blocks and dependencies.
    /// Without it, [`TaskFacts`] contains assumptions.
    ///
    /// [`TaskFacts`]: crate::TaskFacts
    #[must_use]
    pub fn has_graph(&self) -> bool {
        match &self.source {
            Source::Index(_) => true,
            Source::Manifest(held) => held.has_graph(),
        }
    }

    /// The arguments of a task that share a buffer, grouped by buffer, if a file next to the manifest
    /// contains that. Such dumps have no addresses.
    #[must_use]
    pub fn shared_buffers(&self, task: TaskKey) -> &[Vec<u16>] {
        match &self.source {
            Source::Index(_) => &[],
            Source::Manifest(held) => held.shared.get(task),
        }
    }

    /// An index next to the manifest that was not read because it has an older version or is worse than the
    /// manifest.
    #[must_use]
    pub fn passed_over(&self) -> Option<&SkippedIndex> {
        match &self.source {
            Source::Index(_) => None,
            Source::Manifest(held) => held.passed_over.as_ref(),
        }
    }

    /// Whether any task has a name or a scope.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.source.names().0.has_names()
    }

    /// The distinct steps of its tasks, sorted: the runs in this dump. 0 if the dump has no steps.
    #[must_use]
    pub fn steps(&self) -> Vec<u32> {
        self.source.names().0.steps()
    }

    /// The names of a record.
    #[must_use]
    pub fn names(&self, record: &Record) -> Names<'_> {
        let definitions = self.source.names().1;
        let task = TaskMeaning { func_id: record.func_id, ..*self.source.meaning(record.task_key()) };
        definitions.of_argument(&task, &self.info().kernels, record.name, record.arg_index)
    }

    /// The name of a record's argument: the first part of [`Dump::names`], without the cost of the others.
    #[must_use]
    pub fn arg_name(&self, record: &Record) -> Option<&str> {
        let definitions = self.source.names().1;
        definitions.arg_name(&record.func_id, &self.info().kernels, record.name, record.arg_index)
    }

    /// The names of a task; without an argument name.
    #[must_use]
    pub fn task_names(&self, task: TaskKey) -> Names<'_> {
        self.source.names().1.of_task(self.source.meaning(task))
    }

    /// The kernel of each subtask slot of a task.
    #[must_use]
    pub fn task_kernels(&self, task: TaskKey) -> [u32; SLOTS_PER_TASK] {
        self.source.meaning(task).func_id
    }

    /// All distinct sets of task names, for every task that the dump mentions, captured or not.
    pub fn all_task_names(&self) -> impl Iterator<Item = Names<'_>> {
        let (tasks, definitions) = self.source.names();
        tasks.meanings().iter().map(|task| definitions.of_task(task))
    }

    /// The orchestration's own scalar arguments, in order.
    #[must_use]
    pub fn orchestration_scalars(&self) -> Vec<OrchestrationScalar> {
        OrchestrationScalar::of_run(self.info()).collect()
    }

    /// Every dependency.
    pub fn edges(&self) -> Result<Vec<Edge>, FormatError> {
        match &self.source {
            Source::Index(indexed) => indexed.edges(),
            Source::Manifest(held) => held.edges(),
        }
    }

    /// Every argument that could not be captured.
    pub fn uncaptured(&self) -> Result<Vec<UncapturedArgument>, FormatError> {
        match &self.source {
            Source::Index(indexed) => indexed.uncaptured(),
            Source::Manifest(held) => Ok(held.uncaptured.clone()),
        }
    }

    /// Every dispatch with the arguments of its kernel (`--dump-args`), in the order of the index. A
    /// manifest has none.
    pub fn dispatches(&self) -> Result<Vec<Dispatch>, FormatError> {
        let mut dispatches = Vec::new();
        self.for_each_dispatch(|dispatch| dispatches.push(dispatch))?;
        Ok(dispatches)
    }

    /// Calls `each` with every dispatch, for dumps with more dispatches than fit into memory.
    pub fn for_each_dispatch(&self, each: impl FnMut(Dispatch)) -> Result<(), FormatError> {
        match &self.source {
            Source::Index(indexed) => indexed.for_each_dispatch(each),
            Source::Manifest(_) => Ok(()),
        }
    }

    /// The orchestration's own arguments (`--dump-args`), in order. A manifest has none.
    pub fn orchestration_args(&self) -> Result<Vec<OrchestrationArg>, FormatError> {
        match &self.source {
            Source::Index(indexed) => indexed.orchestration_args(),
            Source::Manifest(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

/// Length of a payload file; 0 if it does not exist. If it cannot be determined, reading will report the
/// reason.
fn length_of(path: &Path) -> u64 {
    match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(_) => u64::MAX,
    }
}

impl UncapturedArgument {
    pub(crate) fn new(record: &IndexRecord, step: u32) -> Option<UncapturedArgument> {
        let arg: &UncapturedRecord = record.get()?;
        let reason = UncapturedReason::from_tag(arg.reason)?;
        Some(UncapturedArgument { step, task_id: arg.task_id, arg_index: arg.arg_index, reason })
    }

    /// The key of its task.
    #[must_use]
    pub fn task_key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }
}

/// Every record of a dump, in order, read in large pieces.
pub struct Records<'d> {
    dump: &'d Dump,
    next: usize,
    read_ahead: ReadAhead,
    limits: &'d PayloadLimits,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = self.dump.source.next_record(self.next, &mut self.read_ahead)?;
        self.next += 1;
        // Changed in place: a record has a few hundred bytes, and there may be millions.
        if let Ok(record) = &mut record {
            record.limit(self.limits);
        }
        match self.dump.types.is_empty() {
            true => Some(record),
            false => Some(record.and_then(|record| self.dump.types.read(self.dump, record))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.dump.source.len().saturating_sub(self.next);
        (left, Some(left))
    }

    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        self.next = self.next.saturating_add(skipped);
        self.next()
    }
}

impl ExactSizeIterator for Records<'_> {}
