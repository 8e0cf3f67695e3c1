//! Writes the per-record lines of manifest and graph. The text equals that of the types' serializers, but
//! is written without them for speed.

use std::collections::HashMap;

use tensortap_abi::{CoreType, EdgeRecord, MemorySpace, NO_KERNEL, Operation, SLOTS_PER_TASK, TaskRecord};

use crate::{
    ArgumentKind, Launch, Names, Record, StatsDocument, TaskFacts, join::TaskMeaning, json_text::JsonText,
    manifest::JsonInput, survey::active,
};

/// An argument, in the form in which [`crate::NamedRecord`] serializes. `of_task` is the result of
/// [`JsonNameCache::names`] for its task.
pub(crate) fn write_record(text: &mut JsonText<'_>, record: &Record, arg_name: Option<&str>, of_task: &[u8]) {
    text.raw("{\"task_id\":").hex64(record.task_id);
    text.raw(",\"func_id\":").list(active(&record.func_id), |text, id| {
        text.number(id);
    });
    text.raw(",\"role\":").word(record.role.name());
    text.raw(",\"stage\":").word(record.stage.name());
    text.raw(",\"arg_index\":").number(record.arg_index);
    text.raw(",\"kind\":").word(record.kind.name());
    text.raw(",\"dtype\":").word(record.dtype.name());
    if !record.dtype_known {
        text.raw(",\"dtype_known\":").bool(false);
    }
    if !record.role_known {
        text.raw(",\"role_known\":").bool(false);
    }
    if !record.extent_known {
        text.raw(",\"extent_known\":").bool(false);
    }
    if record.host_writable {
        text.raw(",\"host_writable\":").bool(true);
    }
    if record.space != MemorySpace::Device {
        text.raw(",\"space\":").word(record.space.name());
    }
    if record.marked {
        text.raw(",\"marked\":").bool(true);
    }
    text.raw(",\"ndims\":").number(record.shape().len() as u64);
    text.raw(",\"shape\":").list(record.shape(), |text, dim| {
        text.number(*dim);
    });
    text.raw(",\"strides\":").list(record.strides(), |text, stride| {
        text.signed(*stride);
    });
    text.raw(",\"start_offset\":").number(record.start_offset);
    text.raw(",\"numel\":").number(record.numel);
    text.raw(",\"is_contiguous\":").bool(record.is_contiguous());
    text.raw(",\"truncated\":").bool(record.is_truncated());
    text.raw(",\"overwritten\":").bool(record.is_overwritten());
    text.raw(",\"in_flight\":").bool(record.in_flight);
    text.raw(",\"payload\":").word(record.payload.name());
    if let (Some(bits), Some(value)) = (record.scalar_bits, record.value()) {
        text.raw(",\"scalar_value\":").hex64(bits);
        text.raw(",\"value\":").value(&value);
        if record.is_local {
            text.raw(",\"local_memory\":").bool(true);
        }
    } else {
        text.raw(",\"hash\":");
        match record.hash {
            Some(hash) => text.hex128(hash),
            None => text.raw("null"),
        };
    }
    text.raw(",\"bin_offset\":").number(record.bin_offset);
    text.raw(",\"bin_size\":").number(record.bin_size);
    if record.kind == ArgumentKind::Tensor {
        text.raw(",\"address\":").hex64(record.address).raw(",\"stats\":");
        match record.stats {
            Some(stats) => text.value(&StatsDocument(stats)),
            None => text.raw("null"),
        };
    }
    text.raw(",\"arg_name\":").text(arg_name);
    text.0.extend_from_slice(of_task);
    text.raw("}");
}

/// An edge, in the form in which [`crate::Edge`] serializes.
pub(crate) fn write_edge(text: &mut JsonText<'_>, edge: &EdgeRecord, why: &str) {
    text.raw("{\"from\":").hex64(edge.producer);
    text.raw(",\"to\":").hex64(edge.consumer());
    text.raw(",\"arg_index\":").number(edge.arg_index);
    text.raw(",\"why\":").word(why).raw("}");
}

/// Cache of JSON text that many records share: names, scope and step of a task, and kernels of a task.
pub(crate) struct JsonNameCache<'i> {
    input: &'i JsonInput<'i>,
    names: HashMap<TaskMeaning, Vec<u8>>,
    kernels: HashMap<[u32; SLOTS_PER_TASK], Vec<u8>>,
    /// The last meaning and its text: consecutive records usually belong to one task.
    last: Option<(TaskMeaning, Vec<u8>)>,
}

/// Maximum number of cached texts, in case every task has its own name.
const MAX_SPELLED: usize = 1 << 14;

impl<'i> JsonNameCache<'i> {
    pub(crate) fn of(input: &'i JsonInput<'i>) -> JsonNameCache<'i> {
        JsonNameCache { input, names: HashMap::new(), kernels: HashMap::new(), last: None }
    }

    /// The end of a line, which names the task: `,"task_name":…,"scope":…,"step":…`.
    pub(crate) fn names(&mut self, task: &TaskMeaning) -> &[u8] {
        if self.last.as_ref().is_none_or(|(last, _)| last != task) {
            if self.names.len() >= MAX_SPELLED {
                self.names.clear();
            }
            let input = self.input;
            let spelled = self.names.entry(*task).or_insert_with(|| {
                let Names { task_name, scope, .. } = input.definitions.of_task(task);
                let mut spelled = Vec::new();
                let mut text = JsonText(&mut spelled);
                text.raw(",\"task_name\":").text(task_name);
                text.raw(",\"scope\":").text(scope);
                text.raw(",\"step\":").number(task.step);
                spelled
            });
            let mut last = self.last.take().map(|(_, buffer)| buffer).unwrap_or_default();
            last.clear();
            last.extend_from_slice(spelled);
            self.last = Some((*task, last));
        }
        self.last.as_ref().map_or(&[], |(_, spelled)| spelled)
    }

    /// The four kernel lists of a task.
    fn kernels(&mut self, func_id: [u32; SLOTS_PER_TASK]) -> &[u8] {
        if self.kernels.len() >= MAX_SPELLED {
            self.kernels.clear();
        }
        let info = &self.input.info;
        self.kernels.entry(func_id).or_insert_with(|| {
            let slots = || func_id.iter().enumerate().filter(|(_, id)| **id != NO_KERNEL);
            let mut spelled = Vec::new();
            let mut text = JsonText(&mut spelled);
            text.raw(",\"kernels\":").list(slots(), |text, (_, id)| {
                text.value(&info.kernel_name(*id));
            });
            text.raw(",\"func_id\":").list(slots(), |text, (_, id)| {
                text.number(*id);
            });
            text.raw(",\"subtask_id\":").list(slots(), |text, (slot, _)| {
                text.number(slot as u64);
            });
            text.raw(",\"core_type\":").list(slots(), |text, (slot, _)| {
                text.word(CoreType::of_slot(slot).name());
            });
            spelled
        })
    }

    /// A task of the graph.
    pub(crate) fn write_task(&mut self, text: &mut JsonText<'_>, record: &TaskRecord, thread: Option<u32>) {
        let task = TaskFacts::from(record);
        text.raw("{\"task_id\":").hex64(task.task_id);
        text.0.extend_from_slice(self.kernels(task.func_id));
        text.raw(",\"block_num\":").number(task.block_num);
        text.raw(",\"tensor_count\":").number(task.tensor_count);
        text.raw(",\"scalar_count\":").number(task.scalar_count);
        text.raw(",\"dispatched_ns\":").decimal(task.dispatched_ns).raw(",\"completed_ns\":");
        match task.completed_ns {
            Some(at) => text.decimal(at),
            None => text.raw("null"),
        };
        text.raw(",\"in_flight\":").bool(task.in_flight || task.completed_ns.is_none());
        // Only if known, so that the files of older versions stay comparable.
        if let Some(core) = task.core {
            text.raw(",\"core_id\":").number(core);
        }
        if task.operation != Operation::Kernel {
            text.raw(",\"operation\":").word(task.operation.name());
        }
        if task.queue != 0 {
            text.raw(",\"queue\":").number(task.queue);
        }
        // Earlier versions of the file did not have these.
        if self.input.index.schema_version() > 1 {
            if let Some(parent) = task.parent {
                text.raw(",\"parent\":").hex64(parent);
            }
            if task.is_region {
                text.raw(",\"region\":true");
            }
            for (name, ns) in
                [(",\"submitted_ns\":", task.submitted_ns), (",\"held_up_ns\":", task.capture_ns)]
            {
                if ns != 0 {
                    text.raw(name).decimal(ns);
                }
            }
            if let Some(thread) = thread {
                text.raw(",\"thread\":").number(thread);
            }
            if record.source_file != 0 {
                let file = self.input.definitions.string(record.source_file).unwrap_or("?");
                text.raw(",\"source_file\":").text(Some(file));
                text.raw(",\"source_line\":").number(record.source_line);
            }
        }
        if task.module != 0 {
            text.raw(",\"module\":").number(task.module);
        }
        if let Some(launch) = task.launch.as_deref() {
            write_launch(text, launch);
        }
        let meaning = TaskMeaning { step: task.step, ..*self.input.tasks.by_id(task.task_id) };
        text.0.extend_from_slice(self.names(&meaning));
        text.raw("}");
    }
}

/// Grid and group sizes of a task's launch.
fn write_launch(text: &mut JsonText<'_>, launch: &Launch) {
    let &Launch { work_dims, grid, group, global_size, global_offset, shared_bytes, cluster, is_cooperative } =
        launch;
    text.raw(",\"work_dims\":").number(work_dims);
    for (name, sizes) in [
        (",\"grid\":", grid.map(u64::from)),
        (",\"group\":", group.map(u64::from)),
        (",\"global_size\":", global_size),
        (",\"global_offset\":", global_offset),
    ] {
        text.raw(name).list(sizes, |text, size| {
            text.number(size);
        });
    }
    // Most launches have none of these fields.
    if shared_bytes != 0 {
        text.raw(",\"shared_bytes\":").number(shared_bytes);
    }
    if cluster != [0; 3] {
        text.raw(",\"cluster\":").list(cluster, |text, size| {
            text.number(size);
        });
    }
    if is_cooperative {
        text.raw(",\"cooperative\":true");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, IndexRecord, NamedRecord, Payload, json::Hex64};
    use tensortap_abi::{
        DType, DumpStage, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED, RECORD_HAS_HASH, RECORD_ROLE_UNKNOWN,
        Role, ScalarRecord, TensorRecord, TensorStats,
    };

    fn spelled(record: &Record, names: Names<'_>) -> String {
        let mut of_task = Vec::new();
        let mut text = JsonText(&mut of_task);
        text.raw(",\"task_name\":").text(names.task_name).raw(",\"scope\":").text(names.scope);
        text.raw(",\"step\":").number(record.step);
        let mut line = Vec::new();
        write_record(&mut JsonText(&mut line), record, names.arg_name, &of_task);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_record_line_equals_its_serializers_output() {
        let tensor = TensorRecord {
            task_id: u64::MAX,
            stage: DumpStage::AfterCompletion as u8,
            role: Role::InOut.tag(),
            dtype: DType::BFloat16.tag(),
            ndims: 3,
            shape: [16, 1, 100, 0, 0, 0, 0, 0],
            strides: [-200, 0, 1, 0, 0, 0, 0, 0],
            start_offset: 3000,
            address: 0x2000_0000_1234,
            arg_index: 65_534,
            flags: RECORD_HAS_HASH,
            hash: [7; 16],
            ..Default::default()
        };
        let scalar = ScalarRecord {
            task_id: 1,
            stage: DumpStage::BeforeDispatch as u8,
            dtype: DType::Float32.tag(),
            bits: 0x7fc0_0000,
            ..Default::default()
        };
        let plain = TensorRecord { flags: 0, ndims: 0, ..tensor };
        let guesses = RECORD_DTYPE_UNKNOWN | RECORD_ROLE_UNKNOWN | RECORD_EXTENT_GUESSED;
        let guessed = TensorRecord { flags: guesses, space: MemorySpace::Managed as u8, ..tensor };
        let stats = TensorStats { numel: 1600, min: f64::NEG_INFINITY, max: 1.5, ..Default::default() };
        let records = [
            IndexRecord::tensor(&tensor, Payload::Stored { offset: 4096, bytes: 3200 }),
            IndexRecord::tensor(&tensor, Payload::Truncated { offset: 4096, bytes: 100 }),
            IndexRecord::tensor(&tensor, Payload::Overwritten),
            IndexRecord::tensor(&plain, Payload::Stats(stats)),
            IndexRecord::tensor(&guessed, Payload::None),
            IndexRecord::plain(&scalar),
        ];
        let named = Names { arg_name: Some("x"), task_name: Some("a \"b\"\n"), scope: Some("layer 1 / ü") };
        let kernels = [[7, NO_KERNEL, 100], [NO_KERNEL; SLOTS_PER_TASK]];
        for (record, func_id, names) in records
            .iter()
            .flat_map(|record| kernels.map(|func_id| (record, func_id)))
            .flat_map(|(record, func_id)| [Names::default(), named].map(|names| (record, func_id, names)))
        {
            let record = Record::new(3, 0, 12, func_id, record).unwrap();
            assert_eq!(
                spelled(&record, names),
                serde_json::to_string(&NamedRecord { record, names }).unwrap()
            );
        }
    }

    #[test]
    fn an_edge_line_equals_its_serializers_output() {
        let record =
            EdgeRecord { producer: 0x1_0000_0002, task_id: 77, arg_index: 300, ..Default::default() };
        let why = "read_after_write";
        let (from, to) = (record.producer, record.consumer());
        let edge = Edge { step: 0, from_step: 0, from, to, arg_index: record.arg_index, why };
        let mut line = Vec::new();
        write_edge(&mut JsonText(&mut line), &record, why);
        assert_eq!(String::from_utf8(line).unwrap(), serde_json::to_string(&edge).unwrap());
        assert_eq!(serde_json::to_string(&Hex64(to)).unwrap(), "\"0x000000000000004d\"");
    }
}
