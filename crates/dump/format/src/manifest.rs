//! Writes `tensor_dump.json`, streamed from the index: memory grows with the number of tasks and not with
//! the number of records.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::json;
use tensortap_abi::{DumpStage, RecordKind, UncapturedReason, UncapturedRecord};

use tensortap_values::HASH_ALGORITHM;

use crate::{
    Footer, FormatError, InFlightTask, IndexRecord, RunInfo, Totals,
    error::AtPath,
    index::Index,
    join::{Definitions, TaskTable},
    json::Hex64,
    json_records::{JsonNameCache, write_record},
    json_text::JsonText,
    payload_files::{payload_file_name, split_position},
    survey::active,
    view::Record,
};

/// Version of the JSON files of dumps with one payload file. Files of older versions can be read.
pub const SCHEMA_VERSION: u32 = 2;
/// Version of the JSON files of dumps with several payload files, the newest that can be read.
pub const SEGMENTED_SCHEMA_VERSION: u32 = 3;

/// The input for writing the JSON files.
pub(crate) struct JsonInput<'i> {
    /// The run information, with every kernel that the index defines.
    pub(crate) info: RunInfo,
    /// Tasks and definitions that records refer to.
    pub(crate) tasks: TaskTable,
    pub(crate) definitions: Definitions,
    pub(crate) index: &'i Index,
    /// Offset after the last frame of records.
    pub(crate) end: u64,
    pub(crate) footer: &'i Footer,
    pub(crate) in_flight: &'i [InFlightTask],
    /// Kinds of records in the index that most dumps do not have.
    pub(crate) rare: Vec<RecordKind>,
    /// Numbers of the payload files that records refer to, for an index with several.
    payload_files: BTreeSet<usize>,
}

impl<'i> JsonInput<'i> {
    /// Reads the index once to collect everything that its records refer to.
    pub(crate) fn new(
        index: &'i Index,
        end: u64,
        footer: &'i Footer,
        in_flight: &'i [InFlightTask],
    ) -> Result<JsonInput<'i>, FormatError> {
        let (mut tasks, mut definitions) = (TaskTable::default(), Definitions::default());
        let (mut rare, mut payload_files) = (Vec::new(), BTreeSet::new());
        let tensors = index.is_segmented().then_some(RecordKind::Tensor);
        let kinds: Vec<RecordKind> = REFERRED_TO.into_iter().chain(RARE).chain(tensors).collect();
        index.for_each(&kinds, end, |_, record| {
            let kind = record.kind();
            if kind == RecordKind::Tensor {
                let stored = record.stored_range().filter(|(_, bytes)| *bytes > 0);
                payload_files.extend(stored.map(|(position, _)| split_position(position).0));
                return Ok(());
            }
            if RARE.contains(&kind) {
                if !rare.contains(&kind) {
                    rare.push(kind);
                }
                return Ok(());
            }
            tasks.see(record);
            definitions.see(record);
            Ok::<_, FormatError>(())
        })?;
        tasks.finish();
        let mut info = index.info.clone();
        definitions.finish(&mut info.kernels);
        Ok(JsonInput { info, tasks, definitions, index, end, footer, in_flight, rare, payload_files })
    }
}

/// Kinds of records that have a list of their own in `graph.json`.
const RARE: [RecordKind; 5] = [
    RecordKind::Attribute,
    RecordKind::Collective,
    RecordKind::Allocation,
    RecordKind::Queue,
    RecordKind::Step,
];

/// Kinds of records that other records refer to.
const REFERRED_TO: [RecordKind; 5] =
    [RecordKind::Task, RecordKind::String, RecordKind::Scope, RecordKind::Kernel, RecordKind::Module];

/// Why streaming stopped: the index could not be read, or the output could not be written.
#[derive(Debug)]
pub(crate) enum StreamError {
    Index(FormatError),
    Output(io::Error),
}

impl<T> AtPath<T> for Result<T, StreamError> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FormatError> {
        match self {
            Ok(written) => Ok(written),
            Err(StreamError::Index(error)) => Err(error),
            Err(StreamError::Output(error)) => Err(error).at(action, path),
        }
    }
}

impl From<FormatError> for StreamError {
    fn from(error: FormatError) -> Self {
        StreamError::Index(error)
    }
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        StreamError::Output(error)
    }
}

impl From<serde_json::Error> for StreamError {
    fn from(error: serde_json::Error) -> Self {
        StreamError::Output(error.into())
    }
}

/// Size of the write buffer.
const WRITE_BYTES: usize = 1 << 18;

/// Writes a JSON object with one key per line and lists with one element per line.
pub(crate) struct JsonObjectWriter<W> {
    out: W,
    buffer: Vec<u8>,
    first: bool,
}

impl<W: Write> JsonObjectWriter<W> {
    pub(crate) fn begin(out: W) -> JsonObjectWriter<W> {
        JsonObjectWriter { out, buffer: b"{".to_vec(), first: true }
    }

    fn key(&mut self, name: &str) -> Result<(), StreamError> {
        let lead: &[u8] = if std::mem::take(&mut self.first) { b"\n  " } else { b",\n  " };
        self.buffer.extend_from_slice(lead);
        serde_json::to_writer(&mut self.buffer, name)?;
        self.buffer.extend_from_slice(b": ");
        Ok(())
    }

    pub(crate) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), StreamError> {
        self.key(name)?;
        Ok(serde_json::to_writer(&mut self.buffer, value)?)
    }

    /// Writes a list; `fill` writes its elements one by one.
    pub(crate) fn list(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut JsonListWriter<'_, W>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        self.key(name)?;
        self.buffer.push(b'[');
        let mut elements = JsonListWriter { out: &mut self.out, buffer: &mut self.buffer, any: false };
        fill(&mut elements)?;
        let close: &[u8] = if elements.any { b"\n  ]" } else { b"]" };
        self.buffer.extend_from_slice(close);
        Ok(())
    }

    pub(crate) fn end(mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(b"\n}\n");
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }
}

/// Writes the elements of one list.
pub(crate) struct JsonListWriter<'o, W> {
    out: &'o mut W,
    buffer: &'o mut Vec<u8>,
    any: bool,
}

impl<W: Write> JsonListWriter<'_, W> {
    pub(crate) fn push(&mut self, element: &impl Serialize) -> Result<(), StreamError> {
        self.begin();
        serde_json::to_writer(&mut *self.buffer, element)?;
        self.flush_if_full()
    }

    /// Writes an element as text.
    pub(crate) fn push_text(&mut self, write: impl FnOnce(&mut JsonText<'_>)) -> Result<(), StreamError> {
        self.begin();
        write(&mut JsonText(self.buffer));
        self.flush_if_full()
    }

    fn begin(&mut self) {
        let lead: &[u8] = if std::mem::replace(&mut self.any, true) { b",\n    " } else { b"\n    " };
        self.buffer.extend_from_slice(lead);
    }

    fn flush_if_full(&mut self) -> Result<(), StreamError> {
        if self.buffer.len() >= WRITE_BYTES {
            self.out.write_all(self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl JsonInput<'_> {
    pub(crate) fn write_manifest(&self, out: impl Write) -> Result<(), StreamError> {
        let mut lines = JsonObjectWriter::begin(out);
        self.write_before_tensors(&mut lines)?;
        lines.list("tensors", |list| self.write_tensors(list))?;
        Ok(lines.end()?)
    }

    /// The manifest without its records.
    pub(crate) fn write_head(&self, out: impl Write) -> Result<(), StreamError> {
        let mut lines = JsonObjectWriter::begin(out);
        self.write_before_tensors(&mut lines)?;
        Ok(lines.end()?)
    }

    fn write_before_tensors<W: Write>(&self, lines: &mut JsonObjectWriter<W>) -> Result<(), StreamError> {
        self.write_run(lines)?;
        self.write_counters(lines)?;
        lines.list("losses", |list| self.footer.losses.iter().try_for_each(|loss| list.push(loss)))?;
        lines.list("uncaptured", |list| self.write_uncaptured(list))?;
        lines.list("in_flight", |list| {
            self.in_flight.iter().try_for_each(|task| list.push(&self.in_flight_element(task)))
        })?;
        self.write_added(lines)
    }

    fn write_run<W: Write>(&self, lines: &mut JsonObjectWriter<W>) -> Result<(), StreamError> {
        let info = &self.info;
        let totals = &self.footer.totals;
        let has_bin = totals.stored_bytes > 0 || totals.deduplicated_bytes > 0;
        lines.field("schema_version", &self.index.schema_version())?;
        lines.field("run_dir", &info.run_dir)?;
        lines.field("status", self.footer.status.name())?;
        lines.field("platform", &info.platform)?;
        lines.field("runtime", &info.runtime)?;
        lines.field("scene", &info.scene)?;
        lines
            .field("bin_format", &BinFormat { r#type: "logical_contiguous", byte_order: "little_endian" })?;
        lines.field("bin_file", &has_bin.then_some(&info.bin_file))?;
        if self.index.is_segmented() {
            let name = |number: &usize| payload_file_name(&info.bin_file, *number);
            lines.field("bin_files", &self.payload_files.iter().map(name).collect::<Vec<_>>())?;
        }
        lines.field("hash_algorithm", HASH_ALGORITHM)?;
        lines.field("dump_level", &info.dump_level)
    }

    fn write_counters<W: Write>(&self, lines: &mut JsonObjectWriter<W>) -> Result<(), StreamError> {
        let Totals {
            total_tensors,
            before_dispatch,
            after_completion,
            input_tensors,
            output_tensors,
            inout_tensors,
            scalars,
            truncated_tensors,
            dropped_overwrite,
            deduplicated_bytes,
            stored_bytes: _,
            task_records: _,
            edges: _,
            uncaptured: _,
            dispatches: _,
            dispatch_args: _,
            orchestration_args: _,
            finished: _,
        } = &self.footer.totals;
        for (name, count) in [
            ("total_tensors", total_tensors),
            ("before_dispatch", before_dispatch),
            ("after_completion", after_completion),
            ("input_tensors", input_tensors),
            ("output_tensors", output_tensors),
            ("inout_tensors", inout_tensors),
            ("scalars", scalars),
            ("truncated_tensors", truncated_tensors),
            ("dropped_records", &self.footer.dropped_records()),
            ("dropped_overwrite", dropped_overwrite),
            ("corrupt_records", &self.footer.corrupt_records),
            ("deduplicated_bytes", deduplicated_bytes),
        ] {
            lines.field(name, count)?;
        }
        Ok(())
    }

    /// Keys that are not part of the common format. They precede the long list of records.
    fn write_added<W: Write>(&self, lines: &mut JsonObjectWriter<W>) -> Result<(), StreamError> {
        let info = &self.info;
        lines.field("run_id", &Hex64(info.run_id))?;
        lines.field("started_at", &info.started_at)?;
        lines.field("started_monotonic_ns", &info.started_monotonic_ns)?;
        lines.field("finished_at", &self.footer.finished_at)?;
        lines.field("message", &self.footer.message)?;
        lines.field("params", &info.params)?;
        lines.field("device_base", &Hex64(info.device_base))?;
        lines.field("dump_policy", &info.dump_policy)?;
        lines.field("dump_collect", &info.dump_collect)?;
        lines.field("stored_bytes", &self.footer.totals.stored_bytes)?;
        lines.field("filtered_records", &self.footer.filtered_records)?;
        lines.field("filtered_bytes", &self.footer.filtered_bytes)?;
        lines.field("held_up_ns", &self.footer.held_up_ns)?;
        lines.list("kernels", |list| info.kernels.iter().try_for_each(|kernel| list.push(kernel)))?;
        let modules = self.definitions.modules();
        if !modules.is_empty() {
            lines.list("modules", |list| modules.iter().try_for_each(|module| list.push(module)))?;
        }
        lines.list("args", |list| info.args.iter().try_for_each(|arg| list.push(arg)))?;
        if info.dump_args {
            // Absent without dispatches, as in older manifests.
            lines.field("dump_args", &true)?;
            lines.field("total_dispatches", &self.footer.totals.dispatches)?;
        }
        // These keys are also absent if they have no value.
        if let Some(fault) = &info.inject_fault {
            lines.field("inject_fault", fault)?;
        }
        if let Some(folder) = &info.scene_folder {
            lines.field("scene_folder", folder)?;
        }
        if !info.filters.is_empty() {
            lines.field("filters", &info.filters)?;
        }
        if let Some(golden) = self.footer.golden {
            lines.field("golden", golden.name())?;
        }
        let extra = info.extra.iter().chain(&self.footer.extra);
        for (name, value) in extra.filter(|(name, _)| !MANIFEST_KEYS.contains(&name.as_str())) {
            lines.field(name, value)?;
        }
        Ok(())
    }

    fn write_uncaptured<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        if self.footer.totals.uncaptured == 0 {
            return Ok(());
        }
        self.for_each(&[RecordKind::Uncaptured], |_, record| match record.get() {
            Some(arg) => list.push(&self.uncaptured_element(arg)),
            None => Ok(()),
        })
    }

    fn uncaptured_element(&self, arg: &UncapturedRecord) -> serde_json::Value {
        let task = self.tasks.by_id(arg.task_id);
        let names = self.definitions.of_argument(task, &self.info.kernels, arg.name, arg.arg_index);
        json!({
            "task_id": Hex64(arg.task_id),
            "func_id": active(&task.func_id).collect::<Vec<_>>(),
            "stage": DumpStage::from_tag(arg.stage).map(DumpStage::name),
            "arg_index": arg.arg_index,
            "reason": UncapturedReason::from_tag(arg.reason).map(UncapturedReason::text),
            "arg_name": names.arg_name,
            "task_name": names.task_name,
            "scope": names.scope,
            "step": task.step,
        })
    }

    fn in_flight_element(&self, task: &InFlightTask) -> serde_json::Value {
        let kernels: Vec<String> = task.func_id.iter().map(|id| self.info.kernel_name(*id)).collect();
        let meaning = self.tasks.by_id(task.task_id);
        let names = self.definitions.of_task(meaning);
        json!({
            "task_id": Hex64(task.task_id), "func_id": task.func_id, "kernels": kernels, "block_num": task.block_num,
            "task_name": names.task_name, "scope": names.scope, "step": meaning.step,
        })
    }

    fn write_tensors<W: Write>(&self, list: &mut JsonListWriter<'_, W>) -> Result<(), StreamError> {
        let mut spelled = JsonNameCache::of(self);
        let mut index = 0;
        self.for_each(&[RecordKind::Tensor, RecordKind::Scalar], |thread, record| {
            let task = self.tasks.by_id(record.task_id());
            if let Some(record) = Record::new(index, thread, task.step, task.func_id, record) {
                let Record { name, arg_index, .. } = record;
                let arg_name = self.definitions.arg_name(&task.func_id, &self.info.kernels, name, arg_index);
                let of_task = spelled.names(task);
                list.push_text(|text| write_record(text, &record, arg_name, of_task))?;
                index += 1;
            }
            Ok(())
        })
    }

    /// Calls `each` with thread and record, for every record of some kinds. The index must have been read
    /// before.
    pub(crate) fn for_each(
        &self,
        kinds: &[RecordKind],
        each: impl FnMut(u32, &IndexRecord) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        self.index.for_each(kinds, self.end, each)
    }
}

/// The manifest's own keys. Unknown keys must not repeat them.
pub(crate) const MANIFEST_KEYS: [&str; 49] = [
    "schema_version",
    "run_dir",
    "status",
    "platform",
    "runtime",
    "scene",
    "bin_format",
    "bin_file",
    "bin_files",
    "hash_algorithm",
    "dump_level",
    "total_tensors",
    "before_dispatch",
    "after_completion",
    "input_tensors",
    "output_tensors",
    "inout_tensors",
    "scalars",
    "truncated_tensors",
    "dropped_records",
    "dropped_overwrite",
    "corrupt_records",
    "deduplicated_bytes",
    "losses",
    "uncaptured",
    "in_flight",
    "run_id",
    "started_at",
    "started_monotonic_ns",
    "finished_at",
    "message",
    "params",
    "device_base",
    "dump_policy",
    "dump_collect",
    "stored_bytes",
    "filtered_records",
    "filtered_bytes",
    "held_up_ns",
    "kernels",
    "modules",
    "args",
    "dump_args",
    "total_dispatches",
    "inject_fault",
    "scene_folder",
    "filters",
    "golden",
    "tensors",
];

#[derive(Serialize)]
struct BinFormat {
    r#type: &'static str,
    byte_order: &'static str,
}
