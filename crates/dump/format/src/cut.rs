//! Writes one task of a dump as a separate dump, together with the image of its program.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tensortap_abi::{
    KernelRecord, ModuleRecord, QueueRecord, RecordKind, ScalarRecord, ScopeRecord, StepRecord, TaskRecord,
    TensorRecord, UncapturedRecord,
};

use crate::{
    Dump, DumpWriter, Footer, FormatError, ImageWriter, IndexRecord, Payload, PayloadState, Record, Status,
};

/// Kinds of records that belong to a task or that it refers to. Other kinds refer to tasks outside the new
/// dump.
const KEPT: [RecordKind; 10] = [
    RecordKind::Tensor,
    RecordKind::Scalar,
    RecordKind::Task,
    RecordKind::Uncaptured,
    RecordKind::String,
    RecordKind::Scope,
    RecordKind::Kernel,
    RecordKind::Queue,
    RecordKind::Step,
    RecordKind::Module,
];

impl Dump {
    /// Writes one task with its arguments, its kernels and their program as a dump in a new folder. Returns the number of
    /// payloads; equal ones count once.
    ///
    /// # Errors
    /// If this dump has no index, if the image of the program differs from the recorded one, or if the
    /// folder cannot be written.
    pub fn cut_task(&self, task_id: u64, out: &Path) -> Result<usize, FormatError> {
        let records = self.records_of(task_id)?;
        if !records.iter().any(|record| record.as_task().is_some()) {
            let reason =
                "it has no index or does not contain the task; name a dump that tensortap recorded".into();
            return Err(FormatError::NotADump { path: self.dir().to_owned(), reason });
        }
        let mut info = self.info().clone();
        info.run_dir.clear();
        info.kernels.retain(|kernel| records.iter().any(|record| defines(record, kernel.func_id)));
        let mut writer = DumpWriter::create(out, &info)?;
        for module in records.iter().filter_map(|record| record.get::<ModuleRecord>()) {
            let known = self.modules().into_iter().find(|known| known.id == module.id && known.has_image);
            let Some(known) = known else { continue };
            let image = known.image(self.dir())?;
            let mut file = ImageWriter::create(out, known.kind, known.hash, known.bytes, (0, 0))?;
            file.write(&image)?;
            file.finish(false)?;
        }
        let mut stored = HashMap::new();
        let records: Vec<IndexRecord> = records
            .into_iter()
            .map(|record| self.copy_payload(record, &mut writer, &mut stored))
            .collect::<Result<_, _>>()?;
        let count = records.len() as u64;
        writer.append(0, 0..count, &records)?;
        writer.finish(&Footer::new(Status::Complete))?;
        Ok(stored.len())
    }

    /// All records of a task in the index.
    fn records_of(&self, task_id: u64) -> Result<Vec<IndexRecord>, FormatError> {
        let mut kept: Vec<IndexRecord> = Vec::new();
        self.for_each_of(&KEPT, |record| {
            let is_its = !record.kind().is_definition() && record.task_id() == task_id;
            if is_its || record.kind().is_definition() && record.kind() != RecordKind::String {
                kept.push(record.clone());
            }
        })?;
        let tasks: Vec<TaskRecord> = kept.iter().filter_map(|record| record.as_task().copied()).collect();
        let runs = |func_id: u32| tasks.iter().any(|task| task.func_id.contains(&func_id));
        kept.retain(|record| record.get().is_none_or(|kernel: &KernelRecord| runs(kernel.func_id)));
        let mut modules: HashSet<u32> = tasks.iter().map(|task| task.module).collect();
        modules.extend(kept.iter().filter_map(|record| Some(record.get::<KernelRecord>()?.module)));
        kept.retain(|record| record.get().is_none_or(|module: &ModuleRecord| modules.contains(&module.id)));
        let queues: HashSet<u32> = tasks.iter().map(|task| task.queue).collect();
        kept.retain(|record| record.get().is_none_or(|queue: &QueueRecord| queues.contains(&queue.id)));
        let steps: HashSet<u32> = tasks.iter().map(|task| task.step).collect();
        kept.retain(|record| record.get().is_none_or(|step: &StepRecord| steps.contains(&step.id)));
        let named: HashSet<u32> = kept.iter().flat_map(strings).collect();
        let mut strings = Vec::new();
        self.for_each_of(&[RecordKind::String], |record| {
            if record.as_string().is_some_and(|(id, _)| named.contains(&id)) {
                strings.push(record.clone());
            }
        })?;
        strings.append(&mut kept);
        Ok(strings)
    }

    /// The record, with its payload copied to the new dump.
    fn copy_payload(
        &self,
        mut record: IndexRecord,
        writer: &mut DumpWriter,
        stored: &mut HashMap<(u64, u64), u64>,
    ) -> Result<IndexRecord, FormatError> {
        let Some((from, bytes)) = record.stored_range() else { return Ok(record) };
        let argument = Record::new(0, 0, 0, [tensortap_abi::NO_KERNEL; 3], &record);
        let Some(argument) = argument else { return Ok(record) };
        let known = stored.get(&(from, bytes)).copied();
        let offset = match known {
            Some(offset) => offset,
            None => {
                let payload = self.payload(&argument)?;
                let offset = writer.reserve(bytes);
                writer.write_payload(offset, &payload)?;
                stored.insert((from, bytes), offset);
                offset
            }
        };
        record.set_payload(match record.payload_state() {
            PayloadState::Truncated => Payload::Truncated { offset, bytes },
            _ if known.is_some() => Payload::Deduplicated { offset, bytes },
            _ => Payload::Stored { offset, bytes },
        });
        Ok(record)
    }
}

fn defines(record: &IndexRecord, func_id: u32) -> bool {
    record.as_kernel().is_some_and(|(kernel, _)| kernel.func_id == func_id)
}

/// Ids of the strings that a record refers to.
fn strings(record: &IndexRecord) -> Vec<u32> {
    if let Some((kernel, args)) = record.as_kernel() {
        return args.iter().map(|arg| arg.name).chain([kernel.name]).collect();
    }
    let task = record.as_task().map(|task| vec![task.name, task.source_file]);
    let tensor = || record.get().map(|tensor: &TensorRecord| vec![tensor.name]);
    let scalar = || record.get().map(|scalar: &ScalarRecord| vec![scalar.name]);
    let uncaptured = || record.get().map(|arg: &UncapturedRecord| vec![arg.name]);
    let scope = || record.get().map(|scope: &ScopeRecord| vec![scope.name]);
    let queue = || record.get().map(|queue: &QueueRecord| vec![queue.name]);
    let step = || record.get().map(|step: &StepRecord| vec![step.name]);
    let module = || record.get().map(|m: &ModuleRecord| vec![m.name, m.options, m.device]);
    let found = task.or_else(tensor).or_else(scalar).or_else(uncaptured);
    found.or_else(scope).or_else(queue).or_else(step).or_else(module).unwrap_or_default()
}
