//! Details of tasks besides kernels and arguments: queue, name of the step, source line, parent task,
//! attributes. Read from the index on demand, because most readers do not need them.

use std::collections::HashMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::{
    AttributeRecord, CollectiveKind, CollectiveRecord, Operation, QueueRecord, RECORD_HAS_PARENT,
    RECORD_REGION, RecordKind, StepRecord, TaskRecord,
};

use crate::attributes::{AttributeJoiner, RawAttribute};
use crate::join::{define, define_text};
use crate::json::Decimal;
use crate::{Attribute, FormatError, TaskKey};

/// The details of one task; `None` for details that were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskDetails<'d> {
    /// The queue or stream that it was submitted to.
    pub queue: Option<&'d str>,
    /// The name of its step.
    pub step_name: Option<&'d str>,
    /// The source file and line (from 1, or 0 if not known) that submitted it.
    pub source: Option<(&'d str, u32)>,
    /// The region that contains it, or the task that submitted it.
    pub parent: Option<u64>,
    /// Whether it is a region.
    pub is_region: bool,
    /// What it is in a collective operation.
    pub collective: Option<TaskCollective<'d>>,
    /// Its operation.
    pub operation: Operation,
}

/// What a task is in a collective operation of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskCollective<'d> {
    /// Name of the group; `?` if the dump lost it.
    pub group: &'d str,
    /// Number of the operation in its group.
    pub sequence: u64,
    /// Kind of the operation.
    pub kind: CollectiveKind,
}

impl Serialize for TaskCollective<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("group", self.group)?;
        map.serialize_entry("sequence", &Decimal(self.sequence))?;
        map.serialize_entry("kind", self.kind.name())?;
        map.end()
    }
}

/// The details of all tasks of a dump. See [`Dump::details`](crate::Dump::details).
#[derive(Debug, Default)]
pub struct Details {
    strings: HashMap<u32, Box<str>>,
    queues: HashMap<u32, u32>,
    steps: HashMap<u32, u32>,
    /// By task. If a task has several rows, in the order of recording.
    tasks: Vec<(TaskKey, TaskRow)>,
    /// By task id, in the order of recording.
    attributes: Vec<RawAttribute>,
    joiner: AttributeJoiner,
    /// By task id.
    collectives: HashMap<u64, CollectiveRecord>,
    text_bytes: usize,
}

/// The numbers in a task's record.
#[derive(Clone, Copy, Debug)]
struct TaskRow {
    queue: u32,
    file: u32,
    line: u32,
    parent: Option<u64>,
    is_region: bool,
    has_arguments: bool,
    operation: u8,
}

impl Details {
    pub(crate) const KINDS: [RecordKind; 6] = [
        RecordKind::String,
        RecordKind::Queue,
        RecordKind::Step,
        RecordKind::Task,
        RecordKind::Attribute,
        RecordKind::Collective,
    ];

    pub(crate) fn see(&mut self, record: &crate::IndexRecord) {
        if let Some((id, text)) = record.as_string() {
            define_text(&mut self.strings, &mut self.text_bytes, id, text);
        } else if let Some(&QueueRecord { id, name, .. }) = record.get() {
            define(&mut self.queues, id, name);
        } else if let Some(&StepRecord { id, name, .. }) = record.get() {
            define(&mut self.steps, id, name);
        } else if let Some(task) = record.as_task() {
            self.tasks.push((TaskKey { step: task.step, task_id: task.task_id }, TaskRow::of(task)));
        } else if let Some(attribute) = record.get::<AttributeRecord>() {
            self.attributes.extend(self.joiner.take(attribute));
        } else if let Some(collective) = record.get::<CollectiveRecord>() {
            self.collectives.entry(collective.task_id).or_insert(*collective);
        }
    }

    /// Call it after the whole index was read.
    pub(crate) fn finish(mut self) -> Details {
        // A stable sort: a task is recorded at its start and at its end, with the same details. Its arguments are
        // counted at its end.
        self.tasks.sort_by_key(|(key, _)| *key);
        self.tasks.dedup_by(|(later, row), (key, first)| {
            first.has_arguments |= later == key && row.has_arguments;
            later == key
        });
        self.attributes.extend(std::mem::take(&mut self.joiner).finish());
        self.attributes.sort_by_key(|attribute| attribute.task_id);
        self
    }

    /// The details of a task.
    #[must_use]
    pub fn of(&self, task: TaskKey) -> TaskDetails<'_> {
        let text = |id: &u32| self.strings.get(id).map(|text| &**text).filter(|text| !text.is_empty());
        let step_name = self.step_name(task.step);
        let Ok(place) = self.tasks.binary_search_by_key(&task, |(key, _)| *key) else {
            return TaskDetails { step_name, ..TaskDetails::default() };
        };
        let TaskRow { queue, file, line, parent, is_region, operation, has_arguments: _ } =
            self.tasks[place].1;
        TaskDetails {
            queue: self.queues.get(&queue).and_then(text),
            step_name,
            source: text(&file).map(|file| (file, line)),
            parent,
            is_region,
            collective: self.collective(task.task_id),
            operation: Operation::from_tag(operation).unwrap_or_default(),
        }
    }

    /// The tasks whose records state no arguments, such as a region around other tasks, sorted. A task that did not complete
    /// may have arguments nevertheless.
    pub fn without_arguments(&self) -> impl Iterator<Item = TaskKey> {
        self.tasks.iter().filter(|(_, row)| !row.has_arguments).map(|(key, _)| *key)
    }

    fn collective(&self, task_id: u64) -> Option<TaskCollective<'_>> {
        let &CollectiveRecord { sequence, group, collective, .. } = self.collectives.get(&task_id)?;
        let group = self.strings.get(&group).map_or("?", |text| text);
        Some(TaskCollective { group, sequence, kind: CollectiveKind::from_tag(collective)? })
    }

    /// The attributes of a task, in the order of recording.
    pub fn attributes(&self, task: TaskKey) -> impl Iterator<Item = Attribute<'_>> {
        let text = |id| self.strings.get(&id).map(|text| &**text);
        let first = self.attributes.partition_point(|attribute| attribute.task_id < task.task_id);
        let own = self.attributes[first..].iter().take_while(move |own| own.task_id == task.task_id);
        own.map(move |attribute| attribute.resolve(text))
    }

    /// The name of a step.
    #[must_use]
    pub fn step_name(&self, step: u32) -> Option<&str> {
        let name = self.strings.get(self.steps.get(&step)?)?;
        Some(&**name).filter(|name| !name.is_empty())
    }
}

impl TaskRow {
    fn of(task: &TaskRecord) -> TaskRow {
        TaskRow {
            queue: task.queue,
            file: task.source_file,
            line: task.source_line,
            parent: (task.flags & RECORD_HAS_PARENT != 0).then_some(task.parent_task),
            is_region: task.flags & RECORD_REGION != 0,
            has_arguments: task.tensor_count > 0 || task.scalar_count > 0,
            operation: task.operation,
        }
    }
}

impl crate::Dump {
    /// Details of all tasks, from one walk over the index, or from `graph.json` without one.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn details(&self) -> Result<Details, FormatError> {
        let mut details = Details::default();
        self.for_each_of(&Details::KINDS, |record| details.see(record))?;
        Ok(details.finish())
    }
}
