//! Writes one task of a dump as a separate dump, together with the image of its program.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tensortap_abi::{
    AllocationRecord, AttributeRecord, AttributeType, CollectiveRecord, KernelRecord, ModuleRecord,
    QueueRecord, RECORD_HAS_PARENT, RecordKind, ScalarRecord, ScopeRecord, StepRecord, TaskRecord,
    TensorRecord, UncapturedRecord,
};

use crate::{
    Dump, DumpWriter, Footer, FormatError, ImageWriter, IndexRecord, Payload, PayloadState, Record, Status,
    Task,
};

/// Kinds of records that belong to one task.
const OWN: [RecordKind; 4] =
    [RecordKind::Task, RecordKind::Tensor, RecordKind::Scalar, RecordKind::Uncaptured];
/// Kinds of records that describe a task and its surroundings. [`Dump::facts_of`] chooses from them.
const FACTS: [RecordKind; 7] = [
    RecordKind::Task,
    RecordKind::Attribute,
    RecordKind::Collective,
    RecordKind::Allocation,
    RecordKind::Scope,
    RecordKind::Queue,
    RecordKind::Step,
];

impl Dump {
    /// Writes one task with its arguments, its kernels and their program as a dump in a new folder. Returns the number of
    /// payloads; equal ones count once.
    ///
    /// # Errors
    /// If this dump has no index, if the image of the program differs from the recorded one, or if the
    /// folder cannot be written.
    pub fn cut_task(&self, task: Task<'_>, out: &Path) -> Result<usize, FormatError> {
        let records = self.records_of(task)?;
        if !records.iter().any(|record| record.as_task().is_some_and(|own| own.task_id == task.task_id)) {
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

    /// All records of a task in the index, with everything that they refer to.
    fn records_of(&self, task: Task<'_>) -> Result<Vec<IndexRecord>, FormatError> {
        let mut kept: Vec<IndexRecord> = Vec::new();
        self.for_each_of(&OWN, |record| {
            if record.task_id() == task.task_id {
                kept.push(with_known_parent(record, task));
            }
        })?;
        let mut modules: HashSet<u32> = [task.module].into();
        self.for_each_of(&[RecordKind::Kernel], |record| {
            let kernel = record.get().filter(|kernel: &&KernelRecord| task.func_id.contains(&kernel.func_id));
            if let Some(kernel) = kernel {
                modules.insert(kernel.module);
                kept.push(record.clone());
            }
        })?;
        self.for_each_of(&[RecordKind::Module], |record| {
            if record.get().is_some_and(|module: &ModuleRecord| modules.contains(&module.id)) {
                kept.push(record.clone());
            }
        })?;
        kept.append(&mut self.surroundings(task)?);
        self.with_strings(kept)
    }

    /// The records about a task besides its own record, its arguments and its kernels: the regions that contain it,
    /// without their arguments; attributes and collectives of the task and these regions; allocations and releases of
    /// the memory of its arguments; and the definitions that these records and the task's record refer to.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn facts_of(&self, task: Task<'_>) -> Result<Vec<IndexRecord>, FormatError> {
        self.with_strings(self.surroundings(task)?)
    }

    fn surroundings(&self, task: Task<'_>) -> Result<Vec<IndexRecord>, FormatError> {
        let family: Vec<Task<'_>> = std::iter::once(task).chain(task.regions()).collect();
        let memory: Vec<_> = task.arguments().filter_map(|argument| argument.memory()).collect();
        let member = |task_id: u64| family.iter().find(|member| member.task_id == task_id);
        let (mut kept, mut scopes) = (Vec::<IndexRecord>::new(), HashSet::new());
        self.for_each_of(&FACTS, |record| match record.kind() {
            RecordKind::Task if record.task_id() == task.task_id => {
                scopes.extend(record.as_task().map(|task| task.scope));
            }
            RecordKind::Task => kept.extend(member(record.task_id()).map(|region| {
                let mut record = with_known_parent(record, *region);
                record.change(|region: &mut TaskRecord| (region.tensor_count, region.scalar_count) = (0, 0));
                record
            })),
            RecordKind::Allocation => {
                let Some(&AllocationRecord { address, bytes, after_task, .. }) = record.get() else { return };
                let end = address.saturating_add(bytes);
                if memory.iter().any(|own| own.start < end && address < own.end) {
                    let mut event = record.clone();
                    if member(after_task).is_none() {
                        event.change(|event: &mut AllocationRecord| event.after_task = 0);
                    }
                    kept.push(event);
                }
            }
            kind if kind.is_definition() || member(record.task_id()).is_some() => kept.push(record.clone()),
            _ => {}
        })?;
        scopes.extend(kept.iter().filter_map(|record| Some(record.as_task()?.scope)));
        retain_scopes(&mut kept, scopes);
        let queues: HashSet<u32> = family.iter().map(|task| task.queue).collect();
        kept.retain(|record| record.get().is_none_or(|queue: &QueueRecord| queues.contains(&queue.id)));
        let steps: HashSet<u32> = family.iter().map(|task| task.step).collect();
        kept.retain(|record| record.get().is_none_or(|step: &StepRecord| steps.contains(&step.id)));
        Ok(kept)
    }

    /// The records after the strings that they refer to.
    fn with_strings(&self, mut records: Vec<IndexRecord>) -> Result<Vec<IndexRecord>, FormatError> {
        let named: HashSet<u32> = records.iter().flat_map(strings).collect();
        let mut strings = Vec::new();
        self.for_each_of(&[RecordKind::String], |record| {
            if record.as_string().is_some_and(|(id, _)| named.contains(&id)) {
                strings.push(record.clone());
            }
        })?;
        strings.append(&mut records);
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

/// Removes the scopes that are neither used nor enclose a used one.
fn retain_scopes(records: &mut Vec<IndexRecord>, mut used: HashSet<u32>) {
    let parents: HashMap<u32, u32> =
        records.iter().filter_map(|record| record.get().map(|s: &ScopeRecord| (s.id, s.parent))).collect();
    let mut next: Vec<u32> = used.iter().copied().collect();
    while let Some(scope) = next.pop() {
        next.extend(parents.get(&scope).filter(|&&parent| used.insert(parent)));
    }
    records.retain(|record| record.get().is_none_or(|scope: &ScopeRecord| used.contains(&scope.id)));
}

/// The record of a task. Only a region that contains the task is kept as its parent.
fn with_known_parent(record: &IndexRecord, task: Task<'_>) -> IndexRecord {
    let mut record = record.clone();
    if task.regions().next().is_none() {
        record.change(|task: &mut TaskRecord| {
            (task.flags, task.parent_task) = (task.flags & !RECORD_HAS_PARENT, 0);
        });
    }
    record
}

/// Ids of the strings that a record refers to.
fn strings(record: &IndexRecord) -> Vec<u32> {
    if let Some((kernel, args)) = record.as_kernel() {
        return args.iter().map(|arg| arg.name).chain([kernel.name]).collect();
    }
    if let Some(attribute) = record.get::<AttributeRecord>() {
        let is_text = |ty| matches!(ty, AttributeType::Text | AttributeType::Uncaptured);
        let texts = attribute.values().filter(|&(ty, _)| is_text(ty));
        return texts.filter_map(|(_, id)| u32::try_from(id).ok()).chain([attribute.name]).collect();
    }
    let task = record.as_task().map(|task| vec![task.name, task.source_file]);
    let tensor = || record.get().map(|tensor: &TensorRecord| vec![tensor.name]);
    let scalar = || record.get().map(|scalar: &ScalarRecord| vec![scalar.name]);
    let uncaptured = || record.get().map(|arg: &UncapturedRecord| vec![arg.name]);
    let scope = || record.get().map(|scope: &ScopeRecord| vec![scope.name]);
    let queue = || record.get().map(|queue: &QueueRecord| vec![queue.name]);
    let step = || record.get().map(|step: &StepRecord| vec![step.name]);
    let module = || record.get().map(|m: &ModuleRecord| vec![m.name, m.options, m.device]);
    let group = || record.get().map(|collective: &CollectiveRecord| vec![collective.group]);
    let pool = || record.get().map(|event: &AllocationRecord| vec![event.pool]);
    let found = task.or_else(tensor).or_else(scalar).or_else(uncaptured).or_else(group).or_else(pool);
    found.or_else(scope).or_else(queue).or_else(step).or_else(module).unwrap_or_default()
}
