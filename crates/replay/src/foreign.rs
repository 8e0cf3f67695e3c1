//! Dumps of another project as tasks that can be replayed, with kernels from the user's libraries.
//!
//! Such a dump has no addresses: every tensor gets a buffer of its own, but for those that `deps.json` beside it puts into one. What else
//! it does not say is graded, and so refused unless inexact arguments are allowed.

use std::collections::{BTreeMap, HashMap};

use tensortap_abi::{
    BLOCK_CONTEXT_SLOT, CoreType, DumpStage, KernelName, NO_KERNEL, SLOTS_PER_TASK, SUBTASK_CONTEXT_SLOT,
};
use tensortap_format::{
    Argument, ArgumentRecord, Assembler, Captured, Dump, DumpFormat, KernelInfo, Task, TaskFacts, TaskKey,
    TaskPart, Tasks, func_ids,
};

use crate::capture::{CapturedRun, layout};
use crate::spans::ALIGN;
use crate::{ArgReport, Grade, KernelCode, ReplayError};

/// The scene whose kernels are those that a user gives.
pub const FOREIGN_SCENE: &str = "simpler";

/// The platform that such a dump counts as captured on: there outputs must have the captured bits.
pub const FOREIGN_PLATFORM: &str = "a2a3sim";

/// Level of a dump of marked arguments alone.
const MARKED: u32 = 1;

/// What a user says of a dump that it does not say itself.
#[derive(Clone, Copy)]
pub struct ForeignWishes<'w> {
    /// Kernels, by name, number or task.
    pub kernels: &'w [KernelCode],
    /// Blocks of every task.
    pub block_num: Option<u32>,
}

/// What is made of it.
pub struct Foreign {
    /// The run, with a kernel for every number that tasks have.
    pub run: CapturedRun,
    /// Its tasks, with addresses.
    pub tasks: Tasks,
    /// Tasks whose records contradict one another, and how.
    pub contradicted: HashMap<TaskKey, String>,
    /// The libraries, each by the name of a kernel of `run`.
    pub code: Vec<KernelCode>,
    /// What the dump does not say.
    pub lacks: Lacks,
    /// Arguments whose position the dump itself doubts.
    pub doubtful: HashMap<TaskKey, Vec<u16>>,
}

/// What no task of a dump says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacks {
    /// How many blocks it has.
    pub blocks: bool,
    /// Its scalars.
    pub scalars: bool,
    /// Arguments that were not marked.
    pub unmarked: bool,
    /// Which slots its kernels have.
    pub slots: bool,
}

impl Lacks {
    /// The same as grades of a task.
    pub fn grades(self, task: Task<'_>) -> Vec<ArgReport> {
        let slot = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let (tensors, all) = (task.tensor_count, task.tensor_count.saturating_add(task.scalar_count));
        let (blocks, subtasks) = (slot_number(BLOCK_CONTEXT_SLOT), slot_number(SUBTASK_CONTEXT_SLOT));
        // One kernel is sub-block 0 on either core, one kernel twice has both vector cores, three have all slots.
        let are_slots_unknown = match *task.func_ids().collect::<Vec<_>>().as_slice() {
            [first, second] => self.slots && first != second,
            _ => false,
        };
        let found = [
            (
                self.scalars,
                slot(tensors),
                Grade::Zero,
                "dumps of the first generation have no scalars: zeros are in their place",
            ),
            (
                self.unmarked,
                slot(all),
                Grade::Zero,
                "the dump has marked arguments alone: zeros are in place of those that may follow",
            ),
            (
                self.blocks,
                blocks,
                Grade::Partial,
                "the dump does not say how many blocks the task has: 1 is assumed; --block-num N says it",
            ),
            (
                are_slots_unknown,
                subtasks,
                Grade::Partial,
                "the dump does not say which cores its two kernels have: AIC and AIV, both sub-block 0, are assumed; \
                 deps.json beside it says it",
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

impl Foreign {
    /// Takes a dump of another project. The error is a kernel that it does not have.
    pub fn new(dump: &Dump, tasks: &Tasks, wishes: ForeignWishes<'_>) -> Result<Foreign, ReplayError> {
        let mut kernels = Numbered::new(dump, tasks);
        let code = kernels.take(tasks, wishes.kernels)?;
        let mut assembler = Assembler::default();
        let (mut contradicted, mut doubtful) = (HashMap::new(), HashMap::new());
        // Records of the first generation name the slot of their kernel.
        let has_slots = dump.has_graph() || dump.format() == DumpFormat::SimplerFirst;
        for task in tasks.iter().filter(|task| task.is_recorded()) {
            let mut facts = kernels.facts(task, wishes.block_num);
            if !has_slots {
                facts.func_id = guessed_slots(facts.func_id);
            }
            assembler.take(TaskPart::Task(facts));
            let odd = task.arguments().find(|argument| !argument.is_consistent || argument.is_repeated);
            if let Some(odd) = odd {
                let why = format!("the records of argument {} contradict one another", odd.arg_index);
                contradicted.insert(task.key(), why);
            }
            let doubts = doubtful_args(dump, task)?;
            if !doubts.is_empty() {
                doubtful.insert(task.key(), doubts);
            }
            place(task, dump.shared_buffers(task.key()), &mut assembler);
        }
        let run = CapturedRun {
            scene: FOREIGN_SCENE.into(),
            platform: FOREIGN_PLATFORM.into(),
            kernels: kernels.kernels.clone(),
            is_foreign: true,
            ..CapturedRun::default()
        };
        let lacks = Lacks {
            blocks: wishes.block_num.is_none() && !dump.has_graph(),
            scalars: dump.format() == DumpFormat::SimplerFirst,
            unmarked: dump.info().dump_level == MARKED,
            slots: !has_slots,
        };
        let tasks = assembler.finish(&kernels.kernels);
        Ok(Foreign { run, tasks, contradicted, code, lacks, doubtful })
    }
}

/// The kernels of a dump, each with a number.
pub struct Numbered {
    /// As they cross to a device.
    pub kernels: Vec<KernelInfo>,
    /// As the dump names them, which may be longer than what crosses.
    said: Vec<KernelInfo>,
    /// Numbers made up for tasks whose kernels the dump does not number.
    by_task: BTreeMap<u64, u32>,
}

impl Numbered {
    /// The kernels that tasks of a dump run.
    pub fn new(dump: &Dump, tasks: &Tasks) -> Numbered {
        let mut used: Vec<u32> = tasks.iter().flat_map(|task| task.facts().func_ids()).collect();
        used.sort_unstable();
        used.dedup();
        let said = used.into_iter().map(|func_id| kernel(func_id, dump.info().kernel_name(func_id)));
        let said: Vec<KernelInfo> = said.collect();
        let crossing = |info: &KernelInfo| match KernelName::new(info.func_id, &info.name) {
            Some(_) => info.clone(),
            None => kernel(info.func_id, format!("func_{}", info.func_id)),
        };
        Numbered { kernels: said.iter().map(crossing).collect(), said, by_task: BTreeMap::new() }
    }

    /// Finds the kernels that libraries are given for; where the dump numbers none, tasks.
    pub fn take(&mut self, tasks: &Tasks, given: &[KernelCode]) -> Result<Vec<KernelCode>, ReplayError> {
        let by_task = self.kernels.is_empty();
        let mut code: Vec<KernelCode> = Vec::new();
        for one in given {
            let names = if by_task { self.of_task(tasks, &one.name)? } else { self.named(&one.name)? };
            for name in names {
                if code.iter().any(|earlier| earlier.name == name) {
                    return Err(given_twice(&name));
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
            let what = "task (the dump does not say which kernel a task runs, so --kernel takes TASK=LIB)";
            return Err(ReplayError::Unknown { what, name: name.into(), valid: ids });
        };
        let number = u32::try_from(self.kernels.len()).unwrap_or(NO_KERNEL);
        if self.by_task.insert(task_id, number).is_some() {
            return Err(given_twice(name));
        }
        self.kernels.push(kernel(number, name.into()));
        Ok(vec![name.into()])
    }

    /// What a task's own records say, with the kernel that it was given.
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
        // Files beside a dump count tensors alone.
        let scalars = task.arguments().filter(|argument| argument.is_scalar());
        let end = scalars.map(|scalar| u32::from(scalar.arg_index) + 1).max().unwrap_or(0);
        facts.scalar_count = facts.scalar_count.max(end.saturating_sub(facts.tensor_count));
        facts
    }
}

/// The slots of kernels that a dump only lists: one that is there twice has both vector cores.
fn guessed_slots(listed: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
    match listed {
        [first, second, NO_KERNEL] if first == second => [NO_KERNEL, first, second],
        listed => listed,
    }
}

/// Tasks that a message lists.
const LISTED: usize = 20;

fn given_twice(name: &str) -> ReplayError {
    ReplayError::Option { option: "--kernel", reason: format!("`{name}` is given twice") }
}

fn kernel(func_id: u32, name: String) -> KernelInfo {
    KernelInfo { func_id, name, core_type: CoreType::Aiv.name().into(), ..KernelInfo::default() }
}

/// A task as people write it: in hex, in decimal, or as ring and position.
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

/// Key of records whose position `simpler` could not tell for certain.
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

/// An argument that may stand elsewhere.
pub fn doubt(arg_index: u16) -> ArgReport {
    let reason = Some("the dump says that its position is ambiguous".into());
    ArgReport { arg_index, role: None, grade: Grade::Partial, reason }
}

/// Hands over the arguments of a task, each tensor in memory of its own, but for those that share a buffer.
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
        let stages = [DumpStage::BeforeDispatch, DumpStage::AfterCompletion];
        for (stage, captured) in
            stages.into_iter().filter_map(|stage| argument.captured(stage).map(|captured| (stage, *captured)))
        {
            assembler.take(TaskPart::Argument(ArgumentRecord {
                address,
                ..record(task, argument, stage, captured)
            }));
        }
    }
}

/// A captured argument as it is handed over.
pub fn record<'t>(
    task: Task<'t>,
    argument: Argument<'t>,
    stage: DumpStage,
    captured: Captured,
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
    fn a_kernel_that_is_listed_twice_has_both_vector_cores() {
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
    fn tasks_are_named_as_everywhere() {
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
