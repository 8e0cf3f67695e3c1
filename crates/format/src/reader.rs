//! Reading a dump: finished, still being written, or torn; by this project or another.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde_json::{Map, Value};
use tensortap_abi::{UncapturedReason, UncapturedRecord};

use crate::types::Types;
use crate::{
    Dispatch, DumpFormat, Edge, Footer, FormatError, Gap, IndexRecord, Module, Names, OrchestrationArg,
    OrchestrationScalar, Record, RunInfo, Status, TaskKey, Tasks, Totals,
    beside_writer::BesideWriter,
    index::ReadAhead,
    join::TaskMeaning,
    modules::said_modules,
    names::{Located, locate},
    source::{PassedOver, Source, open_indexed, open_manifest},
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
    /// Step of its task, 0 where the dump knows none.
    pub step: u32,
    /// Task.
    pub task_id: u64,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Why.
    pub reason: UncapturedReason,
}

/// A dump that was opened, whichever of the known formats it has. Opening costs time in the number of records; payloads are
/// read from the file when asked for. Nothing in the files is trusted, and they may change or shrink meanwhile: that is an
/// error, never a crash; a payload that a run with `--dump-last` let go meanwhile is [`FormatError::RecordGone`]. Threads can share a dump.
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
    source: Source,
    pub(crate) payloads: OnceLock<File>,
    /// Length of the payload file; no limit while somebody writes it.
    payload_limit: u64,
    /// Set when somebody writes it.
    pub(crate) beside_writer: Option<BesideWriter>,
    /// What records of an unknown type are read as.
    pub(crate) types: Types,
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Dump>();
};

impl Dump {
    /// Opens the dump that `path` names: by one of its files, its folder, or a folder that holds it. What it is is told
    /// from its content, not from its name. An index that is damaged or cut short gives way to a whole manifest that has
    /// more; [`Dump::passed_over`] says so.
    pub fn open(path: &Path) -> Result<Dump, FormatError> {
        let Located { dir, file, is_index } = locate(path)?;
        let source = if is_index { open_indexed(&file)? } else { Source::Held(open_manifest(&file)?) };
        let beside_writer = match &source {
            Source::Indexed(indexed) => BesideWriter::of(&indexed.index, &indexed.tail())?,
            Source::Held(_) => None,
        };
        let mut dump = Dump {
            dir,
            source,
            payloads: OnceLock::new(),
            payload_limit: u64::MAX,
            beside_writer,
            types: Types::default(),
        };
        if dump.tail() != Tail::Open {
            dump.payload_limit = limit(&dump.payload_path());
        }
        Ok(dump)
    }

    /// The dump's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the dump was read from.
    #[must_use]
    pub fn format(&self) -> DumpFormat {
        match &self.source {
            Source::Indexed(_) => DumpFormat::Indexed,
            Source::Held(held) => held.format,
        }
    }

    /// What is known about the run since its start. Keys of a manifest that this version does not know are in its `extra`.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        match &self.source {
            Source::Indexed(indexed) => &indexed.index.info,
            Source::Held(held) => &held.info,
        }
    }

    /// What the end of the run added; `None` while it lasts, or when nobody closed the dump. Of another project's dump it has
    /// losses and counters; how the run ended such a dump does not say, which [`Dump::status`] knows.
    #[must_use]
    pub fn footer(&self) -> Option<&Footer> {
        match &self.source {
            Source::Indexed(indexed) => indexed.survey.footer.as_ref(),
            Source::Held(held) => held.footer.as_ref(),
        }
    }

    /// How the run ended: as the footer says, killed without one; `None` while it lasts, or when the format does not say.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match (self.tail(), self.footer()) {
            _ if self.format().is_foreign() => None,
            (_, Some(footer)) => Some(footer.status),
            (Tail::Open, None) => None,
            (_, None) => Some(Status::Killed),
        }
    }

    /// How the index ends. A manifest without index is there whole or not at all.
    #[must_use]
    pub fn tail(&self) -> Tail {
        match &self.source {
            Source::Indexed(indexed) => indexed.tail(),
            Source::Held(_) => Tail::Closed,
        }
    }

    /// Counters over the records that are there.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        match &self.source {
            Source::Indexed(indexed) => &indexed.survey.totals,
            Source::Held(held) => &held.totals,
        }
    }

    /// Sequence numbers that are missing: records that were lost.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        match &self.source {
            Source::Indexed(indexed) => &indexed.survey.gaps,
            Source::Held(_) => &[],
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
        self.types.read(self, record.within(self.payload_limit))
    }

    /// Every record, in the order of the index or manifest.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records { dump: self, next: 0, read_ahead: ReadAhead::new(), payload_limit: self.payload_limit }
    }

    /// The same as index or manifest say them, whatever the payload file has.
    pub(crate) fn records_as_said(&self) -> Records<'_> {
        Records { payload_limit: u64::MAX, ..self.records() }
    }

    /// What a record of the manifest says that no field of [`Record`] holds, key by key.
    #[must_use]
    pub fn unknown(&self, record: &Record) -> Map<String, Value> {
        match &self.source {
            Source::Indexed(_) => Map::new(),
            Source::Held(held) => held.unknown(record.index),
        }
    }

    /// Every task with its kernels, arguments, dispatches and edges, put together from one walk over the dump.
    pub fn tasks(&self) -> Result<Tasks, FormatError> {
        self.tasks_watched(&|| ())
    }

    /// The same; `watch` is called again and again meanwhile, and may unwind to give it up.
    pub fn tasks_watched(&self, watch: &dyn Fn()) -> Result<Tasks, FormatError> {
        let mut tasks = match &self.source {
            Source::Indexed(indexed) => indexed.tasks(self.payload_limit, watch)?,
            Source::Held(held) => held.tasks(self.payload_limit, watch)?,
        };
        tasks.give_names(|task| self.task_names(task));
        let definitions = self.source.names().1;
        tasks.give_arg_names(|id| definitions.string(id));
        Ok(tasks)
    }

    /// The name of a queue that tasks were submitted to, where the dump says.
    #[must_use]
    pub fn queue_name(&self, queue: u32) -> Option<&str> {
        match &self.source {
            Source::Indexed(indexed) => indexed.queue_name(queue),
            Source::Held(_) => None,
        }
    }

    /// The code that kernels come from, by number; nothing of a dump that says nothing of it. An image is read with
    /// [`Module::image`], which proves it.
    #[must_use]
    pub fn modules(&self) -> Vec<Module> {
        match &self.source {
            Source::Indexed(indexed) => indexed.modules(),
            Source::Held(_) => said_modules(self.info()),
        }
    }

    /// Whether it keeps programs of OpenCL or CUDA, so that launches of their kernels can be run again.
    #[must_use]
    pub fn has_programs(&self) -> bool {
        self.modules().iter().any(|module| module.kind.is_opencl() || module.kind.is_cuda())
    }

    /// Hands over every entry of the index that is of one of these kinds; none of a dump that has no index.
    pub(crate) fn for_each_of(
        &self,
        kinds: &[tensortap_abi::RecordKind],
        each: impl FnMut(&crate::IndexRecord),
    ) -> Result<(), FormatError> {
        match &self.source {
            Source::Indexed(indexed) => indexed.for_each(kinds, each),
            Source::Held(_) => Ok(()),
        }
    }

    /// Whether the dump says of tasks more than their records do: blocks and dependencies. Otherwise [`TaskFacts`] has
    /// assumptions in their place.
    ///
    /// [`TaskFacts`]: crate::TaskFacts
    #[must_use]
    pub fn has_graph(&self) -> bool {
        match &self.source {
            Source::Indexed(_) => true,
            Source::Held(held) => held.has_graph(),
        }
    }

    /// The arguments of a task that lie in one buffer, buffer by buffer, where a dump without addresses says it in a file beside it.
    #[must_use]
    pub fn shared_buffers(&self, task: TaskKey) -> &[Vec<u16>] {
        match &self.source {
            Source::Indexed(_) => &[],
            Source::Held(held) => held.shared.get(task),
        }
    }

    /// An index beside the manifest that the dump was read from in its place: of an earlier version, or worse than it.
    #[must_use]
    pub fn passed_over(&self) -> Option<&PassedOver> {
        match &self.source {
            Source::Indexed(_) => None,
            Source::Held(held) => held.passed_over.as_ref(),
        }
    }

    /// Whether any task has a name or lies in a scope.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.source.names().0.has_names()
    }

    /// The steps that its tasks belong to, each once, in order: the runs that one dump holds. 0 where it knows none.
    #[must_use]
    pub fn steps(&self) -> Vec<u32> {
        self.source.names().0.steps()
    }

    /// What people call a record.
    #[must_use]
    pub fn names(&self, record: &Record) -> Names<'_> {
        let definitions = self.source.names().1;
        let task = TaskMeaning { func_id: record.func_id, ..*self.source.meaning(record.task_key()) };
        definitions.of_argument(&task, &self.info().kernels, record.name, record.arg_index)
    }

    /// What people call the argument of a record: what [`Dump::names`] has first, without looking for the others.
    #[must_use]
    pub fn arg_name(&self, record: &Record) -> Option<&str> {
        let definitions = self.source.names().1;
        definitions.arg_name(&record.func_id, &self.info().kernels, record.name, record.arg_index)
    }

    /// What people call a task; without the name of an argument.
    #[must_use]
    pub fn task_names(&self, task: TaskKey) -> Names<'_> {
        self.source.names().1.of_task(self.source.meaning(task))
    }

    /// The names that tasks have, each set of them once: of every task that the dump tells of, captured or not.
    pub fn all_task_names(&self) -> impl Iterator<Item = Names<'_>> {
        let (tasks, definitions) = self.source.names();
        tasks.meanings().iter().map(|task| definitions.of_task(task))
    }

    /// The orchestration's own scalar arguments, in their order.
    #[must_use]
    pub fn orchestration_scalars(&self) -> Vec<OrchestrationScalar> {
        OrchestrationScalar::of_run(self.info()).collect()
    }

    /// Every dependency.
    pub fn edges(&self) -> Result<Vec<Edge>, FormatError> {
        match &self.source {
            Source::Indexed(indexed) => indexed.edges(),
            Source::Held(held) => held.edges(),
        }
    }

    /// Every argument that could not be captured.
    pub fn uncaptured(&self) -> Result<Vec<Uncaptured>, FormatError> {
        match &self.source {
            Source::Indexed(indexed) => indexed.uncaptured(),
            Source::Held(held) => Ok(held.uncaptured.clone()),
        }
    }

    /// Every dispatch with the arguments its kernel received (`--dump-args`), in the order of the index; a manifest has
    /// none.
    pub fn dispatches(&self) -> Result<Vec<Dispatch>, FormatError> {
        let mut dispatches = Vec::new();
        self.for_each_dispatch(|dispatch| dispatches.push(dispatch))?;
        Ok(dispatches)
    }

    /// The same one by one, for dumps that have more of them than memory.
    pub fn for_each_dispatch(&self, each: impl FnMut(Dispatch)) -> Result<(), FormatError> {
        match &self.source {
            Source::Indexed(indexed) => indexed.for_each_dispatch(each),
            Source::Held(_) => Ok(()),
        }
    }

    /// The orchestration's own arguments (`--dump-args`), in their order; a manifest has none.
    pub fn orchestration_args(&self) -> Result<Vec<OrchestrationArg>, FormatError> {
        match &self.source {
            Source::Indexed(indexed) => indexed.orchestration_args(),
            Source::Held(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

/// Length of a payload file: nothing when there is none. Where it cannot be told, reading will say why.
fn limit(path: &Path) -> u64 {
    match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(_) => u64::MAX,
    }
}

impl Uncaptured {
    pub(crate) fn new(record: &IndexRecord, step: u32) -> Option<Uncaptured> {
        let arg: &UncapturedRecord = record.get()?;
        let reason = UncapturedReason::from_tag(arg.reason)?;
        Some(Uncaptured { step, task_id: arg.task_id, arg_index: arg.arg_index, reason })
    }

    /// What names its task.
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
    payload_limit: u64,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = self.dump.source.next_record(self.next, &mut self.read_ahead)?;
        self.next += 1;
        // Changed in place: a record is some hundred bytes, and there may be millions.
        if let Ok(record) = &mut record {
            record.limit(self.payload_limit);
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
