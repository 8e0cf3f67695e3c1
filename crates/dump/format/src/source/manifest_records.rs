//! Records read from a manifest into memory, in the compact form of an index.

use std::{collections::HashMap, path::PathBuf};

use serde_json::{Map, Value};
use tensortap_abi::{NO_KERNEL, RecordKind, SLOTS_PER_TASK, ScopeRecord, TaskRecord};

use super::{
    choose::SkippedIndex, graph_facts::GraphFacts, normalize::NormalizedRecord, task_graph::SharedBuffers,
};
use crate::{
    ArgumentKind, ArgumentRecord, Assembler, DumpFormat, Edge, Footer, FormatError, IndexRecord,
    PayloadState, Record, RunInfo, TaskFacts, TaskKey, TaskPart, Tasks, Totals, UncapturedArgument,
    join::{Definitions, TaskMeaning, TaskTable},
    layout::MAX_ARGUMENT_BYTES,
    payload_files::PayloadLimits,
};

/// Number of records between two calls of the watcher.
const WATCHED: u64 = 4096;

/// A counter as the manifest states it, and as its records add up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatedCounter {
    pub(crate) key: &'static str,
    pub(crate) stated: u64,
    pub(crate) counted: u64,
}

/// A manifest that was read into memory.
pub(crate) struct ManifestRecords {
    pub(crate) manifest: PathBuf,
    pub(crate) format: DumpFormat,
    /// Whether there may be several payload files.
    pub(crate) is_segmented: bool,
    pub(crate) info: RunInfo,
    pub(crate) footer: Option<Footer>,
    pub(crate) totals: Totals,
    pub(crate) stated: Vec<StatedCounter>,
    pub(crate) uncaptured: Vec<UncapturedArgument>,
    /// Tasks and edges from a file next to the manifest; `None` if there is no such file.
    pub(super) graph: Option<(Vec<TaskFacts>, Vec<Edge>)>,
    /// Further facts from the same file.
    pub(super) facts: Box<GraphFacts>,
    /// Arguments that share buffers, from the same file.
    pub(crate) shared: SharedBuffers,
    /// Files next to the manifest that could not be read, with the reason.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
    pub(super) table: Table,
    /// Names of tasks, from their records.
    pub(super) tasks: TaskTable,
    pub(super) definitions: Definitions,
    /// An index that exists but was not read.
    pub(crate) passed_over: Option<SkippedIndex>,
}

/// The records.
#[derive(Default)]
pub(super) struct Table {
    /// Start of each record in `records`.
    starts: Vec<u64>,
    /// Position in `shared` of each record's step and kernels.
    numbers: Vec<u32>,
    shared: StepAndKernelsTable,
    records: Vec<u8>,
    /// Keys that no field holds, as JSON; empty for most records.
    unknown: Vec<u8>,
    unknown_ends: Vec<u64>,
}

/// A step and the kernels of a task.
type StepAndKernels = (u32, [u32; SLOTS_PER_TASK]);

/// Numbers for steps with sets of kernels. There are few, however many tasks there are.
#[derive(Default)]
struct StepAndKernelsTable {
    sets: Vec<StepAndKernels>,
    numbers: HashMap<StepAndKernels, u32>,
}

impl StepAndKernelsTable {
    fn number(&mut self, set: StepAndKernels) -> u32 {
        *self.numbers.entry(set).or_insert_with(|| {
            self.sets.push(set);
            u32::try_from(self.sets.len() - 1).expect("a manifest of 2^32 tasks does not fit in memory")
        })
    }
}

impl Table {
    pub(super) fn push(&mut self, normal: &NormalizedRecord, unknown: &Map<String, Value>) {
        self.starts.push(self.records.len() as u64);
        self.numbers.push(self.shared.number((normal.step, normal.kernels)));
        normal.record.encode(&mut self.records);
        if !unknown.is_empty() {
            serde_json::to_writer(&mut self.unknown, unknown).expect("JSON values can be written to memory");
        }
        self.unknown_ends.push(self.unknown.len() as u64);
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn shrink(&mut self) {
        self.starts.shrink_to_fit();
        self.numbers.shrink_to_fit();
        self.shared.numbers = HashMap::new();
        self.records.shrink_to_fit();
        self.unknown.shrink_to_fit();
        self.unknown_ends.shrink_to_fit();
    }

    fn get(&self, place: usize) -> Option<Record> {
        let at = usize::try_from(*self.starts.get(place)?).expect("an offset in memory");
        let bytes = &self.records[at..self.records.len().min(at + MAX_ARGUMENT_BYTES)];
        let mut record = IndexRecord::scratch();
        record.decode_from(bytes).expect("checked when it was taken in");
        let (step, kernels) = self.shared.sets[self.numbers[place] as usize];
        Record::new(place as u64, 0, step, kernels, &record)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    fn unknown(&self, place: usize) -> Map<String, Value> {
        let end = |place: usize| self.unknown_ends.get(place).and_then(|end| usize::try_from(*end).ok());
        let start = place.checked_sub(1).map_or(Some(0), end);
        let json = start.zip(end(place)).map_or(&[][..], |(start, end)| &self.unknown[start..end]);
        if json.is_empty() {
            return Map::new();
        }
        serde_json::from_slice(json).expect("written by this program")
    }
}

impl ManifestRecords {
    /// Whether a payload file ends before one of its payloads.
    pub(crate) fn lacks_payloads(&self, limits: &PayloadLimits) -> bool {
        self.table.iter().any(|record| record.within(limits).payload == PayloadState::Missing)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn record(&self, place: usize) -> Option<Result<Record, FormatError>> {
        self.table.get(place).map(|record| Ok(self.with_own_name(record)))
    }

    /// A record of tensortap's manifest also names an argument that only its kernel declares. Such a name is not its own.
    fn with_own_name(&self, mut record: Record) -> Record {
        let declared = || self.definitions.arg_name(&record.func_id, &self.info.kernels, 0, record.arg_index);
        if record.name != 0 && self.definitions.string(record.name) == declared() {
            record.name = 0;
        }
        record
    }

    pub(crate) fn unknown(&self, index: u64) -> Map<String, Value> {
        usize::try_from(index).map(|place| self.table.unknown(place)).unwrap_or_default()
    }

    pub(crate) fn tasks(&self, limits: &PayloadLimits, watch: &dyn Fn()) -> Result<Tasks, FormatError> {
        self.check_graph()?;
        let mut assembler = Assembler::default();
        let (tasks, edges) = match &self.graph {
            Some((tasks, edges)) => (tasks.clone(), edges.as_slice()),
            None => (tasks_of(self.table.iter(), self.format), &[][..]),
        };
        tasks.into_iter().for_each(|task| assembler.take(TaskPart::Task(task)));
        for record in self.table.iter().map(|record| self.with_own_name(record).within(limits)) {
            if record.index % WATCHED == 0 {
                watch();
            }
            assembler.take(TaskPart::Argument(ArgumentRecord::from(&record)));
        }
        edges.iter().for_each(|edge| assembler.take(TaskPart::Edge(*edge)));
        let steps: HashMap<u64, u32> =
            self.graph.iter().flat_map(|(tasks, _)| tasks).map(|task| (task.task_id, task.step)).collect();
        let step_of = |task_id| steps.get(&task_id).copied().unwrap_or(0);
        self.facts.for_each(|record| {
            TaskPart::of(0, None, record, step_of).into_iter().for_each(|part| assembler.take(part));
        });
        assembler.know_threads(self.facts.threads.clone());
        self.uncaptured.iter().for_each(|uncaptured| assembler.take(TaskPart::Uncaptured(*uncaptured)));
        let mut tasks = assembler.finish(&self.info.kernels);
        // Counted in a file that omits scalars.
        tasks.counts_are_partial = self.format.is_foreign();
        Ok(tasks)
    }

    /// Calls a function with every string, scope, task and further fact of these kinds, as an index has them.
    pub(crate) fn for_each(&self, kinds: &[RecordKind], mut each: impl FnMut(&IndexRecord)) {
        let is_wanted = |kind| kinds.contains(&kind);
        if is_wanted(RecordKind::String) {
            self.definitions.strings().for_each(|(id, text)| each(&IndexRecord::string(id, text)));
        }
        if is_wanted(RecordKind::Scope) {
            self.definitions.paths().for_each(|id| {
                each(&IndexRecord::plain(&ScopeRecord { id, name: id, ..ScopeRecord::default() }));
            });
        }
        self.facts.for_each(|record| {
            if is_wanted(record.kind()) {
                each(record);
            }
        });
        let tasks = self.graph.iter().flat_map(|(tasks, _)| tasks).filter(|_| is_wanted(RecordKind::Task));
        for task in tasks {
            let (source_file, source_line) = self.facts.source_of(task.key());
            let &TaskMeaning { name, scope, .. } = self.tasks.get(task.key());
            let names = TaskRecord { name, scope, source_file, source_line, ..TaskRecord::from(task) };
            each(&IndexRecord::plain(&names));
        }
    }

    pub(crate) fn has_graph(&self) -> bool {
        self.graph.is_some()
    }

    pub(crate) fn edges(&self) -> Result<Vec<Edge>, FormatError> {
        self.check_graph()?;
        Ok(self.graph.as_ref().map(|(_, edges)| edges.clone()).unwrap_or_default())
    }

    /// A graph that cannot be read is different from no graph.
    fn check_graph(&self) -> Result<(), FormatError> {
        match self.unreadable.iter().find(|_| self.graph.is_none()) {
            Some((path, reason)) => Err(FormatError::Beside { path: path.clone(), reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

/// Tasks as far as the records describe them: those with records, with their captured arguments. In the
/// first generation of `simpler`, a record names the one kernel of a mix task that declares the argument,
/// in its slot.
fn tasks_of(records: impl Iterator<Item = Record>, format: DumpFormat) -> Vec<TaskFacts> {
    let mut places: HashMap<TaskKey, usize> = HashMap::new();
    let mut tasks: Vec<TaskFacts> = Vec::new();
    for record in records {
        let place = *places.entry(record.task_key()).or_insert_with(|| {
            tasks.push(TaskFacts::unknown(record.task_key()));
            tasks.len() - 1
        });
        let task = &mut tasks[place];
        if format == DumpFormat::SimplerFirst {
            let free = task.func_id.iter_mut().zip(record.func_id).filter(|(slot, _)| **slot == NO_KERNEL);
            free.for_each(|(slot, kernel)| *slot = kernel);
        } else if task.func_id == [NO_KERNEL; SLOTS_PER_TASK] {
            task.func_id = record.func_id;
        }
        task.in_flight |= record.in_flight;
        // Arguments are numbered from 0, tensors first.
        let count = u32::from(record.arg_index) + 1;
        match record.kind {
            ArgumentKind::Tensor => task.tensor_count = task.tensor_count.max(count),
            ArgumentKind::Scalar => task.scalar_count = task.scalar_count.max(count),
        }
    }
    for task in &mut tasks {
        task.scalar_count = task.scalar_count.saturating_sub(task.tensor_count);
        task.completed_ns = (!task.in_flight).then_some(0);
    }
    tasks
}
