//! Facts of `graph.json` besides kernels and dependencies: names of queues and steps, threads, attributes, collectives
//! and allocations. They become the records that an index has for them, so that every reader takes them from both.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use tensortap_abi::{
    AllocationRecord, AttributeRecord, AttributeType, CollectiveKind, CollectiveRecord, DType,
    MAX_ATTRIBUTE_VALUES, MemorySpace, QueueRecord, RECORD_EXTENDED, StepRecord, VALUES_PER_ATTRIBUTE,
};

use super::{fields::Id, normalize::float_of};
use crate::{IndexRecord, RecordingThread, TaskKey, join::Definitions};

/// String id of a text that the dump lost, which the file shows as [`LOST_TEXT`], or for which the definitions have no room.
const LOST: u32 = u32::MAX;
const LOST_TEXT: &str = "?";

/// The facts, with the texts that they refer to.
#[derive(Default)]
pub(super) struct GraphFacts {
    /// Encoded records, in the order of the file.
    records: Vec<u8>,
    pub(super) threads: Vec<RecordingThread>,
    /// String id and line of the source of tasks.
    sources: HashMap<TaskKey, (u32, u32)>,
    pub(super) definitions: Definitions,
    /// Numbers of the strings in `definitions`.
    pub(super) numbers: HashMap<Box<str>, u32>,
}

/// A queue or a step.
#[derive(Deserialize)]
pub(super) struct RawDefinition {
    id: u32,
    name: Option<String>,
    begin_ns: Option<Id>,
}

#[derive(Deserialize)]
pub(super) struct RawThread {
    lane: u32,
    tid: Id,
    name: Option<Box<str>>,
}

#[derive(Deserialize)]
pub(super) struct RawAttribute {
    task_id: Id,
    name: String,
    r#type: String,
    value: Value,
    total: Option<u32>,
}

#[derive(Deserialize)]
struct RawValue {
    r#type: String,
    value: Value,
}

#[derive(Deserialize)]
pub(super) struct RawCollective {
    task_id: Id,
    group: String,
    sequence: Id,
    kind: String,
}

#[derive(Deserialize)]
pub(super) struct RawAllocation {
    at_ns: Id,
    freed: bool,
    address: Id,
    bytes: u64,
    space: String,
    storage: Option<Id>,
    pool: Option<String>,
    queue: Option<u32>,
    after_task: Option<Id>,
}

impl GraphFacts {
    /// The string id of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        match text {
            LOST_TEXT => LOST,
            _ => Some(self.definitions.number(text, &mut self.numbers)).filter(|&id| id != 0).unwrap_or(LOST),
        }
    }

    fn optional(&mut self, text: Option<&str>) -> u32 {
        text.map_or(0, |text| self.number(text))
    }

    fn push(&mut self, record: &IndexRecord) -> Result<(), String> {
        record.check()?;
        self.definitions.see(record);
        record.encode(&mut self.records);
        Ok(())
    }

    pub(super) fn queue(&mut self, raw: &RawDefinition) -> Result<(), String> {
        let name = self.optional(raw.name.as_deref());
        self.push(&IndexRecord::plain(&QueueRecord { id: raw.id, name, ..QueueRecord::default() }))
    }

    pub(super) fn step(&mut self, raw: &RawDefinition) -> Result<(), String> {
        let (name, started_ns) = (self.optional(raw.name.as_deref()), raw.begin_ns.unwrap_or_default().0);
        self.push(&IndexRecord::plain(&StepRecord { id: raw.id, name, started_ns, ..StepRecord::default() }))
    }

    pub(super) fn thread(&mut self, raw: RawThread) {
        let RawThread { lane, tid, name } = raw;
        self.threads.push(RecordingThread { lane, tid: tid.0, name });
    }

    pub(super) fn source(&mut self, task: TaskKey, file: &str, line: u32) {
        let file = self.number(file);
        self.sources.insert(task, (file, line));
    }

    /// String id and line of a task's source.
    pub(super) fn source_of(&self, task: TaskKey) -> (u32, u32) {
        self.sources.get(&task).copied().unwrap_or_default()
    }

    pub(super) fn collective(&mut self, raw: &RawCollective) -> Result<(), String> {
        let kind = CollectiveKind::named(&raw.kind).ok_or("the kind of a collective is unknown")?;
        let (task_id, group, sequence) = (raw.task_id.0, self.number(&raw.group), raw.sequence.0);
        let collective = kind as u8;
        self.push(&IndexRecord::plain(&CollectiveRecord {
            task_id,
            group,
            sequence,
            collective,
            ..CollectiveRecord::default()
        }))
    }

    pub(super) fn allocation(&mut self, raw: &RawAllocation) -> Result<(), String> {
        let &RawAllocation { at_ns, freed, address, bytes, storage, queue, after_task, .. } = raw;
        let space = MemorySpace::named(&raw.space).ok_or("the memory space of an allocation is unknown")?;
        let is_extended = storage.is_some() || raw.pool.is_some() || queue.is_some() || after_task.is_some();
        let pool = self.optional(raw.pool.as_deref());
        self.push(&IndexRecord::plain(&AllocationRecord {
            flags: if is_extended { RECORD_EXTENDED } else { 0 },
            address: address.0,
            bytes,
            at_ns: at_ns.0,
            space: space as u8,
            freed: freed.into(),
            storage: storage.unwrap_or_default().0,
            after_task: after_task.unwrap_or_default().0,
            queue: queue.unwrap_or(0),
            pool,
            ..AllocationRecord::default()
        }))
    }

    pub(super) fn attribute(&mut self, raw: RawAttribute) -> Result<(), String> {
        let RawAttribute { task_id, name, r#type, value, total } = raw;
        let is_list = r#type == "list";
        let values: Vec<RawValue> = match is_list {
            true => serde_json::from_value(value).map_err(|error| error.to_string())?,
            false => vec![RawValue { r#type, value }],
        };
        if values.len() > MAX_ATTRIBUTE_VALUES as usize {
            return Err(format!("an attribute has more than {MAX_ATTRIBUTE_VALUES} values"));
        }
        let values = values.iter().map(|value| self.value(value)).collect::<Result<Vec<_>, _>>()?;
        let total = total.unwrap_or(u32::try_from(values.len()).unwrap_or(u32::MAX));
        let name = self.number(&name);
        let head = AttributeRecord {
            task_id: task_id.0,
            name,
            total,
            is_list: is_list.into(),
            ..Default::default()
        };
        if values.is_empty() {
            // The list is empty, or its first part was lost: then this record of a later part states its length.
            let (first, count) = if total == 0 { (0, 0) } else { (1, 1) };
            let mut record = AttributeRecord { first, count, ..head };
            record.types[0] = if count == 0 { 0 } else { AttributeType::None as u8 };
            return self.push(&IndexRecord::plain(&record));
        }
        for (first, part) in (0..).step_by(VALUES_PER_ATTRIBUTE).zip(values.chunks(VALUES_PER_ATTRIBUTE)) {
            let mut record = AttributeRecord { first, ..head };
            record.count = u8::try_from(part.len()).unwrap_or(u8::MAX);
            for ((tag, bits), value) in record.types.iter_mut().zip(&mut record.values).zip(part) {
                (*tag, *bits) = (value.0 as u8, value.1);
            }
            self.push(&IndexRecord::plain(&record))?;
        }
        Ok(())
    }

    fn value(&mut self, raw: &RawValue) -> Result<(AttributeType, u64), String> {
        let ty = AttributeType::named(&raw.r#type).ok_or("the type of an attribute is unknown")?;
        let text = raw.value.as_str();
        let bits = match ty {
            AttributeType::None => raw.value.is_null().then_some(0),
            AttributeType::Bool => raw.value.as_bool().map(u64::from),
            AttributeType::Integer => {
                text.and_then(|text| text.parse().ok()).map(|value: i64| value.cast_unsigned())
            }
            AttributeType::Float => serde_json::from_value(raw.value.clone())
                .ok()
                .and_then(|value| float_of(&value))
                .map(f64::to_bits),
            AttributeType::DType => text.and_then(DType::parse).map(|dtype| dtype.tag().into()),
            AttributeType::Text | AttributeType::Uncaptured => text.map(|text| self.number(text).into()),
        };
        let bits = bits.ok_or_else(|| format!("an attribute's value is not of type {}", ty.name()))?;
        Ok((ty, bits))
    }

    /// Calls a function with every record.
    pub(super) fn for_each(&self, mut each: impl FnMut(&IndexRecord)) {
        let (mut rest, mut record) = (self.records.as_slice(), IndexRecord::scratch());
        while !rest.is_empty() {
            let bytes = record.decode_from(rest).expect("checked when it was taken in");
            each(&record);
            rest = &rest[bytes..];
        }
    }
}
