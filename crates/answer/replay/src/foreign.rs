//! Makes dumps of another project replayable with kernels from the user's libraries.
//!
//! Such a dump has no addresses. Every tensor gets its own buffer, unless `deps.json` next to the dump puts
//! several tensors into one. Other missing facts lower the grade of an argument, so the task is refused
//! unless inexact arguments are allowed.

use std::collections::{BTreeMap, HashMap};

use tensortap_abi::{
    BLOCK_CONTEXT_SLOT, CoreType, DumpStage, KernelName, NO_KERNEL, SLOTS_PER_TASK, SUBTASK_CONTEXT_SLOT,
};
use tensortap_format::{
    Argument, ArgumentRecord, ArgumentSnapshot, Assembler, Dump, DumpFormat, KernelInfo, RunInfo, Task,
    TaskFacts, TaskKey, TaskPart, Tasks, func_ids,
};

use crate::capture::{CapturedRun, layout};
use crate::spans::ALIGN;
use crate::{ArgReport, Grade, KernelCode, ReplayError};

/// Name of the scene that consists of the user's kernels.
pub const FOREIGN_SCENE: &str = "simpler";

/// The platform that such a dump counts as captured on. A replay there compares outputs bit by bit.
pub const FOREIGN_PLATFORM: &str = "a2a3sim";

/// Dump level `marked`.
const MARKED: u32 = 1;

/// Facts from the user that the dump lacks.
#[derive(Clone, Copy)]
pub struct ForeignOptions<'w> {
    /// Kernels, by name, number or task.
    pub kernels: &'w [KernelCode],
    /// Number of blocks per task.
    pub block_num: Option<u32>,
}

/// The replayable form of such a dump.
pub struct ForeignDump {
    /// The run, with a kernel for every `func_id` of its tasks.
    pub run: CapturedRun,
    /// Its tasks, with assigned addresses.
    pub tasks: Tasks,
    /// Tasks with contradictory records, with the contradiction.
    pub contradicted: HashMap<TaskKey, String>,
    /// The libraries, by the name of a kernel of `run`.
    pub code: Vec<KernelCode>,
    /// Facts that the dump lacks.
    pub lacks: MissingFacts,
    /// Arguments whose position is marked as ambiguous in the dump.
    pub doubtful: HashMap<TaskKey, Vec<u16>>,
}

/// Facts that are missing for every task of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFacts {
    /// The number of blocks.
    pub blocks: bool,
    /// The scalars.
    pub scalars: bool,
    /// Arguments that were not marked.
    pub unmarked: bool,
    /// The subtask slots of its kernels.
    pub slots: bool,
}

impl MissingFacts {
    /// The missing facts of a task, as grades.
    pub fn grades(self, task: Task<'_>) -> Vec<ArgReport> {
        let slot = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let (tensors, all) = (task.tensor_count, task.tensor_count.saturating_add(task.scalar_count));
        let (blocks, subtasks) = (slot_number(BLOCK_CONTEXT_SLOT), slot_number(SUBTASK_CONTEXT_SLOT));
        // One kernel is sub-block 0 on either core type. The same kernel twice uses both vector cores. Three
        // kernels use all slots.
        let are_slots_unknown = match *task.func_ids().collect::<Vec<_>>().as_slice() {
            [first, second] => self.slots && first != second,
            _ => false,
        };
        let found = [
            (
                self.scalars,
                slot(tensors),
                Grade::Zero,
                "dumps of the first generation have no scalars; zeros are passed instead",
            ),
            (
                self.unmarked,
                slot(all),
                Grade::Zero,
                "the dump has only marked arguments; zeros are passed for any that follow",
            ),
            (
                self.blocks,
                blocks,
                Grade::Partial,
                "the dump has no block count; 1 is assumed; pass it with --block-num N",
            ),
            (
                are_slots_unknown,
                subtasks,
                Grade::Partial,
                "the dump does not name the cores of its two kernels; AIC and AIV, both sub-block 0, are assumed; \
                     deps.json next to the dump names them",
            ),
        ];
        let lacking = found.into_iter().filter(|(is, ..)| *is);
        lacking
            .map(|(_, arg_index, grade, reason)| ArgReport {
                arg_index,
                role: None,
                grade,
                reason: Some(reason.into()),
            })
            .collect()
    }
}

fn slot_number(slot: usize) -> u16 {
    u16::try_from(slot).expect("a slot of args[]")
}

impl ForeignDump {
    /// Converts a dump of another project. The error names a kernel that the dump does not have.
    pub fn new(dump: &Dump, tasks: &Tasks, options: ForeignOptions<'_>) -> Result<ForeignDump, ReplayError> {
        let mut kernels = KernelNumbers::new(dump, tasks);
        let code = kernels.take(tasks, options.kernels)?;
        let mut assembler = Assembler::default();
        let (mut contradicted, mut doubtful) = (HashMap::new(), HashMap::new());
        // Records of the first generation name the slot of their kernel.
        let has_slots = dump.has_graph() || dump.format() == DumpFormat::SimplerFirst;
        for task in tasks.iter().filter(|task| task.is_recorded()) {
            let mut facts = kernels.facts(task, options.block_num);
            if !has_slots {
                facts.func_id = guessed_slots(facts.func_id);
            }
            assembler.take(TaskPart::Task(facts));
            let odd = task.arguments().find(|argument| !argument.is_consistent || argument.is_repeated);
            if let Some(odd) = odd {
                let why = format!("the records of argument {} contradict each other", odd.arg_index);
                contradicted.insert(task.key(), why);
            }
            let doubts = doubtful_args(dump, task)?;
            if !doubts.is_empty() {
                doubtful.insert(task.key(), doubts);
            }
            place(task, dump.shared_buffers(task.key()), &mut assembler);
        }
        let info = RunInfo {
            scene: FOREIGN_SCENE.into(),
            platform: FOREIGN_PLATFORM.into(),
            kernels: kernels.kernels.clone(),
            ..RunInfo::default()
        };
        let run = CapturedRun { info, is_foreign: true, golden: None };
        let lacks = MissingFacts {
            blocks: options.block_num.is_none() && !dump.has_graph(),
            scalars: dump.format() == DumpFormat::SimplerFirst,
            unmarked: dump.info().dump_level == MARKED,
            slots: !has_slots,
        };
        let tasks = assembler.finish(&kernels.kernels);
        Ok(ForeignDump { run, tasks, contradicted, code, lacks, doubtful })
    }
}

/// The kernels of a dump with their numbers.
pub struct KernelNumbers {
    /// Kernels as passed to a device.
    pub kernels: Vec<KernelInfo>,
    /// Kernels with their names in the dump, which may be too long for a device.
    said: Vec<KernelInfo>,
    /// Numbers assigned to tasks whose kernels have no number in the dump.
    by_task: BTreeMap<u64, u32>,
}

impl KernelNumbers {
    /// Collects the kernels that the tasks run.
    pub fn new(dump: &Dump, tasks: &Tasks) -> KernelNumbers {
        let mut used: Vec<u32> = tasks.iter().flat_map(|task| task.facts().func_ids()).collect();
        used.sort_unstable();
        used.dedup();
        let said = used.into_iter().map(|func_id| kernel(func_id, dump.info().kernel_name(func_id)));
        let said: Vec<KernelInfo> = said.collect();
        let crossing = |info: &KernelInfo| match KernelName::new(info.func_id, &info.name) {
            Some(_) => info.clone(),
            None => kernel(info.func_id, format!("func_{}", info.func_id)),
        };
        KernelNumbers { kernels: said.iter().map(crossing).collect(), said, by_task: BTreeMap::new() }
    }

    /// Finds the kernels that the user's libraries replace, or the tasks if the dump does not number kernels.
    pub fn take(&mut self, tasks: &Tasks, given: &[KernelCode]) -> Result<Vec<KernelCode>, ReplayError> {
        let by_task = self.kernels.is_empty();
        let mut code: Vec<KernelCode> = Vec::new();
        for one in given {
            let names = if by_task { self.of_task(tasks, &one.name)? } else { self.named(&one.name)? };
            for name in names {
                if code.iter().any(|earlier| earlier.name == name) {
                    return Err(passed_twice(&name));
                }
                code.push(KernelCode { name, ..one.clone() });
            }
        }
        Ok(code)
    }

    fn named(&self, name: &str) -> Result<Vec<String>, ReplayError> {
        let meant = func_ids(&self.said, name);
        if meant.is_empty() {
            let valid = self.said.iter().map(|kernel| kernel.name.clone()).collect();
            return Err(ReplayError::Unknown { what: "kernel", name: name.into(), valid });
        }
        let kernels = self.kernels.iter().filter(|kernel| meant.contains(&kernel.func_id));
        Ok(kernels.map(|kernel| kernel.name.clone()).collect())
    }

    fn of_task(&mut self, tasks: &Tasks, name: &str) -> Result<Vec<String>, ReplayError> {
        let task_id = task_id(name).filter(|id| tasks.iter().any(|task| task.task_id == *id));
        let Some(task_id) = task_id else {
            let ids = tasks.iter().take(LISTED).map(|task| format!("{:#x}", task.task_id)).collect();
            let what = "task (this dump does not name kernels, so --kernel takes TASK=LIB)";
            return Err(ReplayError::Unknown { what, name: name.into(), valid: ids });
        };
        let number = u32::try_from(self.kernels.len()).unwrap_or(NO_KERNEL);
        if self.by_task.insert(task_id, number).is_some() {
            return Err(passed_twice(name));
        }
        self.kernels.push(kernel(number, name.into()));
        Ok(vec![name.into()])
    }

    /// The facts of a task, with the kernel assigned to it.
    pub fn numbered(&self, task: Task<'_>) -> TaskFacts {
        let mut facts = task.facts().clone();
        if let Some(number) = self.by_task.get(&task.task_id) {
            facts.func_id = [NO_KERNEL; SLOTS_PER_TASK];
            facts.func_id[1] = *number;
        }
        facts
    }

    fn facts(&self, task: Task<'_>, block_num: Option<u32>) -> TaskFacts {
        let mut facts = self.numbered(task);
        facts.block_num = block_num.unwrap_or(facts.block_num);
        // The files next to a dump count only tensors.
        let scalars = task.arguments().filter(|argument| argument.is_scalar());
        let end = scalars.map(|scalar| u32::from(scalar.arg_index) + 1).max().unwrap_or(0);
        facts.scalar_count = facts.scalar_count.max(end.saturating_sub(facts.tensor_count));
        facts
    }
}

/// Guesses the slots of kernels that a dump lists without slots. The same kernel twice uses both vector
/// cores.
fn guessed_slots(listed: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
    match listed {
        [first, second, NO_KERNEL] if first == second => [NO_KERNEL, first, second],
        listed => listed,
    }
}

/// Number of tasks that a message lists.
const LISTED: usize = 20;

fn passed_twice(name: &str) -> ReplayError {
    ReplayError::Option { option: "--kernel", reason: format!("`{name}` was passed twice") }
}

fn kernel(func_id: u32, name: String) -> KernelInfo {
    KernelInfo { func_id, name, core_type: CoreType::Aiv.name().into(), ..KernelInfo::default() }
}

/// Parses a task id: hex, decimal, or ring:position.
fn task_id(text: &str) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once(':') {
        Some((ring, local)) => {
            let local = number(local).filter(|local| *local <= u64::from(u32::MAX))?;
            Some(number(ring).filter(|ring| *ring <= u64::from(u32::MAX))? << 32 | local)
        }
        None => number(text),
    }
}

/// Key that `simpler` sets on records with an uncertain position.
const AMBIGUOUS: &str = "arg_index_ambiguous";

fn doubtful_args(dump: &Dump, task: Task<'_>) -> Result<Vec<u16>, ReplayError> {
    let mut doubtful = Vec::new();
    for argument in task.arguments() {
        for captured in [argument.before, argument.after].into_iter().flatten() {
            let said = dump.unknown(&dump.record(captured.record)?);
            if said.get(AMBIGUOUS).is_some_and(|said| said == true) && !doubtful.contains(&argument.arg_index)
            {
                doubtful.push(argument.arg_index);
            }
        }
    }
    Ok(doubtful)
}

/// Report for an argument with an uncertain position.
pub fn doubt(arg_index: u16) -> ArgReport {
    let reason = Some("the dump marks its position as ambiguous".into());
    ArgReport { arg_index, role: None, grade: Grade::Partial, reason }
}

/// Assigns addresses to the arguments of a task. Each tensor gets its own buffer, except those that share
/// one.
fn place(task: Task<'_>, shared: &[Vec<u16>], assembler: &mut Assembler) {
    let end = |argument: Argument<'_>| layout(argument).map_or(0, |view| view.byte_range().end);
    let buffer_end = |args: &Vec<u16>| {
        args.iter().filter_map(|&arg_index| task.argument(arg_index)).map(end).max().unwrap_or(0)
    };
    let mut bases: Vec<Option<u64>> = vec![None; shared.len()];
    let mut next = ALIGN;
    let mut take = |bytes: u64| {
        let base = next;
        let end = base.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(ALIGN));
        next = end.unwrap_or(u64::MAX);
        base
    };
    for argument in task.arguments() {
        let buffer = shared.iter().position(|args| args.contains(&argument.arg_index));
        let address = match buffer {
            Some(buffer) => *bases[buffer].get_or_insert_with(|| take(buffer_end(&shared[buffer]))),
            None => take(end(argument)),
        };
        for (stage, captured) in DumpStage::ALL
            .into_iter()
            .filter_map(|stage| argument.captured(stage).map(|captured| (stage, *captured)))
        {
            assembler.take(TaskPart::Argument(ArgumentRecord {
                address,
                ..record(task, argument, stage, captured)
            }));
        }
    }
}

/// Converts a captured argument into a record.
pub fn record<'t>(
    task: Task<'t>,
    argument: Argument<'t>,
    stage: DumpStage,
    captured: ArgumentSnapshot,
) -> ArgumentRecord<'t> {
    ArgumentRecord {
        number: captured.record,
        task: task.key(),
        func_id: [NO_KERNEL; SLOTS_PER_TASK],
        stage,
        arg_index: argument.arg_index,
        kind: argument.kind,
        role: argument.role,
        dtype: argument.dtype,
        dtype_known: argument.dtype_known,
        role_known: argument.role_known,
        extent_known: argument.extent_known,
        host_writable: argument.host_writable,
        shape: argument.shape(),
        strides: argument.strides(),
        start_offset: argument.start_offset,
        address: argument.address,
        scalar_bits: argument.scalar_bits,
        hash: captured.hash(),
        payload: captured.payload,
        bytes: captured.bytes,
        in_flight: captured.in_flight,
        name: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_listed_twice_gets_both_vector_cores() {
        const NONE: u32 = NO_KERNEL;
        for (listed, slots) in [
            ([4, NONE, NONE], [4, NONE, NONE]),
            ([4, 4, NONE], [NONE, 4, 4]),
            ([4, 5, NONE], [4, 5, NONE]),
            ([4, 5, 5], [4, 5, 5]),
            ([NONE; 3], [NONE; 3]),
        ] {
            assert_eq!(guessed_slots(listed), slots);
        }
    }

    #[test]
    fn parses_task_ids_in_every_notation() {
        for (text, id) in [
            ("7", Some(7)),
            ("0x100000002", Some(0x1_0000_0002)),
            ("1:2", Some(0x1_0000_0002)),
            ("1:0x100000000", None),
            ("QK", None),
        ] {
            assert_eq!(task_id(text), id, "{text}");
        }
    }
}
