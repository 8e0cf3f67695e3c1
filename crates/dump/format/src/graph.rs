//! `graph.json`: the tasks and their dependencies, streamed from the index.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::{
    AllocationRecord, AttributeRecord, CollectiveKind, CollectiveRecord, EdgeRecord, MemorySpace,
    QueueRecord, RECORD_IN_FLIGHT, RecordKind, StepRecord,
};

use crate::{
    Attribute, Dump, FormatError, RecordingThread, TaskKey,
    attributes::{AttributeJoiner, RawAttribute},
    join::Definitions,
    json::{Decimal, Hex64},
    json_records::{JsonNameCache, write_edge},
    manifest::{JsonInput, JsonListWriter, JsonObjectWriter, StreamError},
    record::edge_cause_name,
    source::Threads,
    survey::OpenTasks,
};

/// A dependency between two tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Step of the waiting task; 0 if the dump has no steps.
    pub step: u32,
    /// Step of the task that it waits for. Differs from `step` only if a step waits for another one.
    pub from_step: u32,
    /// The task that it waits for.
    pub from: u64,
    /// The task that waits.
    pub to: u64,
    /// Argument of the waiting task.
    pub arg_index: u16,
    /// The name of an [`EdgeCause`](tensortap_abi::EdgeCause).
    pub why: &'static str,
}

impl Edge {
    /// The task that it waits for.
    #[must_use]
    pub fn producer(&self) -> TaskKey {
        TaskKey { step: self.from_step, task_id: self.from }
    }

    /// The waiting task.
    #[must_use]
    pub fn consumer(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.to }
    }

    pub(crate) fn new(record: &crate::IndexRecord, step_of: impl Fn(u64) -> u32) -> Option<Edge> {
        let edge: &EdgeRecord = record.get()?;
        let why = edge_cause_name(edge.cause)?;
        let (from, to) = (edge.producer, edge.consumer());
        Some(Edge { step: step_of(to), from_step: step_of(from), from, to, arg_index: edge.arg_index, why })
    }
}

impl Serialize for Edge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("from", &Hex64(self.from))?;
        map.serialize_entry("to", &Hex64(self.to))?;
        map.serialize_entry("arg_index", &self.arg_index)?;
        map.serialize_entry("why", self.why)?;
        map.end()
    }
}

impl JsonInput<'_> {
    pub(crate) fn write_graph(&self, out: impl Write) -> Result<(), StreamError> {
        let info = &self.info;
        let mut lines = JsonObjectWriter::begin(out);
        lines.field("schema_version", &self.index.schema_version())?;
        lines.field("run_dir", &info.run_dir)?;
        lines.field("runtime", &info.runtime)?;
        lines.field("scene", &info.scene)?;
        let mut threads = Threads::default();
        lines.list("tasks", |list| self.write_tasks(list, &mut threads))?;
        lines.list("edges", |list| self.write_edges(list))?;
        // Earlier versions of the file did not have these.
        if self.index.schema_version() > 1 {
            self.write_facts(&mut lines, &threads)?;
        }
        Ok(lines.end()?)
    }

    fn write_facts<W: Write>(
        &self,
        lines: &mut JsonObjectWriter<W>,
        threads: &Threads,
    ) -> Result<(), StreamError> {
        lines.list("threads", |list| threads.known.iter().try_for_each(|thread| list.push(thread)))?;
        let has = |kind| self.rare.contains(&kind);
        for (name, kind) in [("queues", RecordKind::Queue), ("steps", RecordKind::Step)] {
            if has(kind) {
                lines.list(name, |list| self.write_definitions(kind, list))?;
            }
        }
        if has(RecordKind::Attribute) {
            lines.list("attributes", |list| self.write_attributes(list))?;
        }
        if has(RecordKind::Collective) {
            lines.list("collectives", |list| self.write_collectives(list))?;
        }
        if has(RecordKind::Allocation) {
            lines.list("allocations", |list| self.write_allocations(list))?;
        }
        Ok(())
    }

    /// Completed tasks in the order of the index, then tasks that did not complete.
    fn write_tasks<W: Write>(
        &self,
        list: &mut JsonListWriter<'_, W>,
        threads: &mut Threads,
    ) -> Result<(), StreamError> {
        let mut open = OpenTasks::default();
        // Threads of tasks that have not completed. The thread that records a task in flight did not run it.
        let mut open_threads: HashMap<TaskKey, Option<u32>> = HashMap::new();
        let mut spelled = JsonNameCache::of(self);
        self.for_each(&[RecordKind::Lane, RecordKind::Task], |lane, record| {
            let thread = threads.see(lane, record, &self.definitions);
            open.see(record);
            let Some(task) = record.as_task() else { return Ok(()) };
            let key = TaskKey { step: task.step, task_id: task.task_id };
            if task.completed_ns != 0 {
                open_threads.remove(&key);
                return list.push_text(|text| spelled.write_task(text, task, thread));
            }
            let known = open_threads.entry(key).or_insert(thread);
            if task.flags & RECORD_IN_FLIGHT == 0 {
                *known = thread;
            }
            Ok(())
        })?;
        open.into_sorted().iter().try_for_each(|task| {
            let key = TaskKey { step: task.step, task_id: task.task_id };
            let thread = open_threads.get(&key).copied().flatten();
            list.push_text(|text| spelled.write_task(text, task, thread))
        })
    }

    /// Queues or steps.
    fn write_definitions<W: Write>(
        &self,
        kind: RecordKind,
        list: &mut JsonListWriter<'_, W>,
    ) -> Result<(), StreamError> {
        let mut defined = HashSet::new();
        self.for_each(&[kind], |_, record| {
            let queue = record.get().map(|queue: &QueueRecord| (queue.id, queue.name, 0));
            let step = || record.get().map(|step: &StepRecord| (step.id, step.name, step.started_ns));
            match queue.or_else(step) {
                Some((id, name, begin_ns)) if defined.insert(id) => list.push(&Definition {
                    id,
                    name: self.definitions.string(name),
                    begin_ns: (begin_ns != 0).then_some(Decimal(begin_ns)),
                }),
                _ => Ok(()),
            }
        })
    }

    fn write_edges<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        if self.footer.totals.edges == 0 {
            return Ok(());
        }
        self.for_each(&[RecordKind::Edge], |_, record| {
            let edge: Option<&EdgeRecord> = record.get();
            match edge.and_then(|edge| Some((edge, edge_cause_name(edge.cause)?))) {
                Some((edge, why)) => list.push_text(|text| write_edge(text, edge, why)),
                None => Ok(()),
            }
        })
    }

    /// Attributes in the order in which they were completely recorded, then those of which a part is missing.
    fn write_attributes<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        let mut joiner = AttributeJoiner::default();
        let mut write = |raw: &RawAttribute| {
            let attribute = raw.resolve(|id| self.definitions.string(id));
            list.push(&TaskAttribute { task_id: raw.task_id, attribute })
        };
        self.for_each(&[RecordKind::Attribute], |_, record| {
            let attribute: Option<&AttributeRecord> = record.get();
            attribute.and_then(|attribute| joiner.take(attribute)).map_or(Ok(()), |raw| write(&raw))
        })?;
        joiner.finish().iter().try_for_each(write)
    }
}

impl JsonInput<'_> {
    fn write_collectives<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        self.for_each(&[RecordKind::Collective], |_, record| {
            let Some(&CollectiveRecord { task_id, sequence, group, collective, .. }) = record.get() else {
                return Ok(());
            };
            let kind = CollectiveKind::from_tag(collective).map_or("other", CollectiveKind::name);
            let group = self.definitions.string(group).unwrap_or("?");
            list.push(&CollectiveEntry { task_id: Hex64(task_id), group, sequence: Decimal(sequence), kind })
        })
    }

    fn write_allocations<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        self.for_each(&[RecordKind::Allocation], |_, record| {
            let event = record.get().map(|event| AllocationEntry::of(event, &self.definitions));
            event.map_or(Ok(()), |event| list.push(&event))
        })
    }
}

/// A queue or a step.
#[derive(Serialize)]
struct Definition<'d> {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begin_ns: Option<Decimal<u64>>,
}

impl Serialize for RecordingThread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("lane", &self.lane)?;
        map.serialize_entry("tid", &Decimal(self.tid))?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        map.end()
    }
}

/// A task that is a part of a collective operation.
#[derive(Serialize)]
struct CollectiveEntry<'d> {
    task_id: Hex64,
    group: &'d str,
    sequence: Decimal<u64>,
    kind: &'static str,
}

/// An allocation or a release, as in `graph.json`.
#[derive(Serialize)]
pub struct AllocationEntry<'d> {
    at_ns: Decimal<u64>,
    freed: bool,
    address: Hex64,
    bytes: u64,
    space: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Hex64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_task: Option<Hex64>,
}

impl<'d> AllocationEntry<'d> {
    fn of(event: &AllocationRecord, definitions: &'d Definitions) -> AllocationEntry<'d> {
        let some = |number: u64| (number != 0).then_some(Hex64(number));
        AllocationEntry {
            at_ns: Decimal(event.at_ns),
            freed: event.freed != 0,
            address: Hex64(event.address),
            bytes: event.bytes,
            space: MemorySpace::from_tag(event.space).unwrap_or_default().name(),
            storage: some(event.storage),
            pool: (event.pool != 0).then(|| definitions.string(event.pool).unwrap_or("?")),
            queue: (event.queue != 0).then_some(event.queue),
            after_task: some(event.after_task),
        }
    }
}

impl Dump {
    /// Every allocation and release of memory as an entry of `graph.json`, in the order of the dump.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn allocations(&self) -> Result<Vec<AllocationEntry<'_>>, FormatError> {
        let definitions = self.source().names().1;
        let mut entries = Vec::new();
        self.for_each_of(&[RecordKind::Allocation], |record| {
            entries.extend(record.get().map(|event| AllocationEntry::of(event, definitions)));
        })?;
        Ok(entries)
    }
}

/// An attribute with its task.
struct TaskAttribute<'d> {
    task_id: u64,
    attribute: Attribute<'d>,
}

impl Serialize for TaskAttribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("task_id", &Hex64(self.task_id))?;
        self.attribute.serialize_fields(&mut map)?;
        map.end()
    }
}
