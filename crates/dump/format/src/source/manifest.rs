//! Reads a manifest of any version, record by record.

use std::{collections::HashMap, path::Path};

use serde::{
    Deserialize,
    de::{self, DeserializeSeed, MapAccess},
};
use serde_json::{Map, Value};
use tensortap_abi::{NO_KERNEL, RecordKind, SLOTS_PER_TASK, SimplerElements, UncapturedReason};

use super::{
    JsonKind, detect,
    fields::Id,
    manifest_records::{ManifestRecords, Table},
    metered_reader::Meter,
    neighbors::{self, ForEach, MAX_HEAD_BYTES, json_reader},
    normalize::{NormalizedRecord, normalize},
    raw_record::RawRecord,
    simpler,
    task_graph::{self, Slots, TaskGraph},
};
use crate::join::{Definitions, TaskMeaning, TaskTable};
use crate::{
    FormatError, GRAPH_FILE, PayloadState, TaskKey, Totals, UncapturedArgument, index::open_regular,
    json_stream::read_stream, names::folder_of,
};

/// Opens a dump by its manifest, with the files next to it.
pub(crate) fn open_manifest(path: &Path) -> Result<ManifestRecords, FormatError> {
    let dir = folder_of(path);
    let detected = detect(path);
    if detected == JsonKind::OrchestrationArgs {
        return Err(FormatError::OrchestrationArgsAlone { path: path.to_owned() });
    }
    let mut unreadable = Vec::new();
    let graph = readable(read_graph(dir, detected), &mut unreadable)?.flatten();
    let mut graph = graph;
    let meter = Meter::new(MAX_HEAD_BYTES);
    let mut json = json_reader(open_regular(path)?, &meter);
    let mut held = read_manifest(path, graph.as_mut(), &meter, |reader| {
        reader.deserialize(&mut json).and_then(|()| json.end())
    })?;
    if let Some(mut graph) = graph {
        held.info.runtime = graph.runtime.take().unwrap_or(held.info.runtime);
        held.shared = std::mem::take(&mut graph.shared);
        held.facts = Box::new(std::mem::take(&mut graph.facts));
        match graph.in_steps(&held.tasks.steps()) {
            Ok(graph) => held.graph = Some(graph),
            Err(reason) => {
                let name = if detected == JsonKind::Own { GRAPH_FILE } else { simpler::DEPS_FILE };
                unreadable.push((dir.join(name), reason));
            }
        }
    }
    if held.format.is_foreign()
        && let Some(names) = readable(neighbors::names(dir), &mut unreadable)?
    {
        held.info.kernels = names.kernels;
        held.info.scene = names.orchestration.unwrap_or_default();
    }
    held.unreadable = unreadable;
    Ok(held)
}

/// Opens a dump of one task by a manifest and a graph in memory.
pub(super) fn open_documents(
    path: &Path,
    manifest: Value,
    graph: Value,
) -> Result<ManifestRecords, FormatError> {
    let bad = |reason| FormatError::BadManifest { path: path.to_owned(), record: None, reason };
    let mut graph = task_graph::of_document(graph).map_err(bad)?;
    let meter = Meter::new(MAX_HEAD_BYTES);
    let mut held = read_manifest(path, Some(&mut graph), &meter, |reader| reader.deserialize(manifest))?;
    held.facts = Box::new(std::mem::take(&mut graph.facts));
    held.graph = Some(graph.in_steps(&held.tasks.steps()).map_err(bad)?);
    Ok(held)
}

/// Notes a file that cannot be read, so that the records still can.
fn readable<T>(
    read: Result<T, FormatError>,
    unreadable: &mut Vec<(std::path::PathBuf, String)>,
) -> Result<Option<T>, FormatError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(FormatError::Beside { path, reason } | FormatError::NotADump { path, reason }) => {
            unreadable.push((path, reason));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn read_graph(dir: &Path, detected: JsonKind) -> Result<Option<TaskGraph>, FormatError> {
    let found = match detected {
        JsonKind::Own => neighbors::open_in(dir, GRAPH_FILE)?,
        JsonKind::Foreign => neighbors::find(dir, simpler::DEPS_FILE)?,
        JsonKind::OrchestrationArgs | JsonKind::Other => None,
    };
    let read = found.map(|(path, file)| {
        task_graph::read(file, detected == JsonKind::Own)
            .map_err(|reason| FormatError::Beside { path, reason })
    });
    read.transpose()
}

/// Reads a manifest: `parse` passes all of it to a reader.
fn read_manifest(
    path: &Path,
    mut graph: Option<&mut TaskGraph>,
    meter: &Meter,
    parse: impl FnOnce(Reader<'_>) -> Result<(), serde_json::Error>,
) -> Result<ManifestRecords, FormatError> {
    let mut read = ReadManifest::default();
    if let Some(graph) = &mut graph {
        read.definitions = std::mem::take(&mut graph.facts.definitions);
        read.numbers = std::mem::take(&mut graph.facts.numbers);
    }
    let slots = graph.as_ref().map(|graph| &graph.slots);
    if let Err(error) = parse(Reader { read: &mut read, meter, slots }) {
        let record = read.in_list.then_some(read.table.len() as u64);
        let reason = match error.is_eof() {
            true => {
                format!("the file ends too early, at line {} column {}", error.line(), error.column())
            }
            false => error.to_string(),
        };
        return Err(FormatError::BadManifest { path: path.to_owned(), record, reason });
    }
    read.table.shrink();
    // If a record and the graph disagree, the record is right.
    let meanings = graph.map(|graph| std::mem::take(&mut graph.meanings)).unwrap_or_default();
    meanings.into_iter().for_each(|(task, meaning)| read.tasks.insert(task, meaning));
    read.tasks.finish();
    read.into_held(path)
}

/// Which key contains the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Tensors,
    Args,
}

/// A parsed manifest, before its keys are interpreted.
#[derive(Default)]
pub(super) struct ReadManifest {
    /// Everything but the records.
    pub(super) head: Map<String, Value>,
    pub(super) list: Option<List>,
    /// Whether the first record has a `kind`.
    pub(super) has_kinds: Option<bool>,
    pub(super) uncaptured: Vec<UncapturedArgument>,
    pub(super) totals: Totals,
    /// Number of tensors with a captured payload, whatever its state.
    pub(super) with_payload: u64,
    /// Offset and size of every stored payload.
    pub(super) stored: Vec<(u64, u64)>,
    pub(super) table: Table,
    pub(super) tasks: TaskTable,
    pub(super) definitions: Definitions,
    /// Numbers of the strings in `definitions`.
    numbers: HashMap<Box<str>, u32>,
    in_list: bool,
}

impl ReadManifest {
    /// Whether payloads may be stored. Assumed until the manifest states that there is no payload file.
    fn has_payloads(&self) -> bool {
        self.head.get("bin_file") != Some(&Value::Null)
    }

    fn take(&mut self, mut raw: RawRecord, slots: Option<&Slots>) -> Result<(), String> {
        simpler::spread_pairs(&mut raw)?;
        let mut normal = normalize(&raw, self.has_payloads())?;
        self.has_kinds.get_or_insert(raw.kind.is_some());
        if let Some(known) = slots.and_then(|slots| slots.get(normal.step, normal.record.task_id())) {
            normal.kernels = better(normal.kernels, known);
        }
        self.take_names(&raw, &mut normal);
        self.totals.add(&normal.record);
        let is_tensor = normal.record.kind() == RecordKind::Tensor;
        self.with_payload += u64::from(is_tensor && normal.record.payload_state() != PayloadState::None);
        self.stored.extend(normal.record.stored_range().filter(|(_, bytes)| *bytes > 0));
        if let Some(slot) = raw.subtask_id {
            raw.unknown.insert("subtask_id".into(), slot.into());
        }
        if let Some(name) = raw.dtype.and_then(SimplerElements::only_name) {
            raw.unknown.insert("simpler_dtype".into(), name.into());
        }
        self.table.push(&normal, &raw.unknown);
        Ok(())
    }
}

impl ReadManifest {
    /// Gives names numbers, as in an index.
    fn take_names(&mut self, raw: &RawRecord, normal: &mut NormalizedRecord) {
        let mut number = |name: &Option<Option<String>>| match name {
            Some(Some(text)) => self.definitions.number(text, &mut self.numbers),
            _ => 0,
        };
        let (name, scope) = (number(&raw.task_name), number(&raw.scope));
        normal.record.set_name(number(&raw.arg_name));
        let step = normal.step;
        let meaning = TaskMeaning { func_id: normal.kernels, name, scope, step };
        self.tasks.insert(TaskKey { step, task_id: normal.record.task_id() }, meaning);
    }
}

/// The record's kernels in the slots from the graph. If the two disagree, the record is right.
fn better(record: [u32; SLOTS_PER_TASK], graph: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
    let sorted = |mut set: [u32; SLOTS_PER_TASK]| {
        set.sort_unstable();
        set
    };
    if record == [NO_KERNEL; SLOTS_PER_TASK] || sorted(record) == sorted(graph) { graph } else { record }
}

struct Reader<'r> {
    read: &'r mut ReadManifest,
    meter: &'r Meter,
    slots: Option<&'r Slots>,
}

read_stream!(object Reader<'_>, "a manifest");

impl Reader<'_> {
    fn read<'de, A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tensors" => self.records(List::Tensors, &mut map)?,
                "args" => self.args(&mut map)?,
                "uncaptured" => self.uncaptured(&mut map)?,
                _ => {
                    let value = map.next_value()?;
                    if self.read.head.insert(key.clone(), value).is_some() {
                        return Err(de::Error::custom(format_args!("duplicate key `{key}`")));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Reader<'_> {
    fn begin(&mut self, list: List) -> Result<(), String> {
        if self.read.list.replace(list).is_some() {
            return Err("there are two lists of records".into());
        }
        self.read.in_list = true;
        Ok(())
    }

    fn records<'de, A: MapAccess<'de>>(&mut self, list: List, map: &mut A) -> Result<(), A::Error> {
        self.begin(list).map_err(de::Error::custom)?;
        let (read, slots) = (&mut *self.read, self.slots);
        map.next_value_seed(ForEach::new(self.meter, |raw: RawRecord| read.take(raw, slots)))?;
        self.read.in_list = false;
        Ok(())
    }

    /// The records of the third generation, or the orchestration's own arguments in a manifest of
    /// tensortap. The keys of an object have no order, so if no earlier key decides it, the elements do:
    /// only records have a task.
    fn args<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let stated = |key: &str| self.read.head.contains_key(key);
        if stated("dump_args_level") || stated("total_args") {
            return self.records(List::Args, map);
        }
        let mut orchestration = Vec::new();
        map.next_value_seed(ForEach::new(self.meter, |element: Value| {
            if element.get("task_id").is_none() {
                orchestration.push(element);
                return Ok(());
            }
            if self.read.list != Some(List::Args) {
                self.begin(List::Args)?;
            }
            let raw = RawRecord::deserialize(element).map_err(|e| e.to_string())?;
            self.read.take(raw, self.slots)
        }))?;
        if self.read.in_list && !orchestration.is_empty() {
            return Err(de::Error::custom("`args` holds records with and without `task_id`"));
        }
        if !self.read.in_list && self.read.head.insert("args".into(), orchestration.into()).is_some() {
            return Err(de::Error::custom("duplicate key `args`"));
        }
        self.read.in_list = false;
        Ok(())
    }

    fn uncaptured<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let read = &mut *self.read;
        map.next_value_seed(ForEach::new(self.meter, |raw: RawUncaptured| {
            read.totals.uncaptured += 1;
            read.uncaptured.push(raw.known()?);
            Ok(())
        }))
    }
}

#[derive(Deserialize)]
struct RawUncaptured {
    step: Option<u32>,
    task_id: Id,
    arg_index: u16,
    reason: String,
}

impl RawUncaptured {
    fn known(&self) -> Result<UncapturedArgument, String> {
        let reason = UncapturedReason::from_text(&self.reason);
        let reason = reason.ok_or("the reason of an uncaptured argument is unknown")?;
        Ok(UncapturedArgument {
            step: self.step.unwrap_or(0),
            task_id: self.task_id.0,
            arg_index: self.arg_index,
            reason,
        })
    }
}
