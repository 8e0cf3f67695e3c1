//! Makes recorded programs replayable with kernels from the user's libraries.
//!
//! A program numbers its arguments in any order, but a kernel takes tensors first and then scalars. So
//! tensors are moved before scalars, and each kind keeps its recorded order. Addresses are those of the
//! program's memory: overlaps are kept, but all memory is relocated.

use std::collections::HashMap;

use tensortap_abi::{BLOCK_CONTEXT_SLOT, DumpStage};
use tensortap_format::{
    Argument, ArgumentRecord, Assembler, Dump, KernelInfo, Task, TaskKey, TaskPart, Tasks, UncapturedArgument,
};

use crate::foreign::{KernelNumbers, record};
use crate::{KernelCode, ReplayError};

/// Limit on arguments of a kernel. A record with more is refused without reading them.
const MAX_ARGS: usize = BLOCK_CONTEXT_SLOT;

/// The replayable form of a recorded program.
pub struct Program {
    /// A kernel for every `func_id` of its tasks.
    pub kernels: Vec<KernelInfo>,
    /// The libraries, by the name of a kernel of `kernels`.
    pub code: Vec<KernelCode>,
    /// For tasks with moved arguments: the recorded argument at each position.
    moved: HashMap<TaskKey, Vec<u16>>,
    /// Notes on moved arguments.
    pub notes: Vec<String>,
}

impl Program {
    /// Converts the tasks of a program. The error names a kernel that the program does not have.
    pub fn new(dump: &Dump, tasks: &Tasks, given: &[KernelCode]) -> Result<(Program, Tasks), ReplayError> {
        let mut numbered = KernelNumbers::new(dump, tasks);
        let code = numbered.take(tasks, given)?;
        let mut assembler = Assembler::default();
        let mut moved = HashMap::new();
        for task in tasks.iter().filter(|task| task.is_recorded()) {
            let mut facts = numbered.numbered(task);
            let order = passed_order(task);
            (facts.tensor_count, facts.scalar_count) = order.counts;
            assembler.take(TaskPart::Task(facts));
            hand_over(task, &order, &mut assembler);
            if order.is_moved() {
                moved.insert(task.key(), order.recorded);
            }
        }
        let mut passed = assembler.finish(&numbered.kernels);
        passed.give_names(|task| dump.task_names(task));
        let notes = notes_on_moved_args(&passed, &moved, &code);
        Ok((Program { kernels: numbered.kernels, code, moved, notes }, passed))
    }

    /// The recorded argument that is passed at a position.
    pub fn recorded_index(&self, task: TaskKey, arg_index: u16) -> u16 {
        let recorded = self.moved.get(&task).and_then(|recorded| recorded.get(usize::from(arg_index)));
        recorded.copied().unwrap_or(arg_index)
    }
}

/// Number of kernels with a note.
const MAX_NOTES: usize = 4;

/// One note per kernel from a library whose arguments are moved. Other kernels do not run.
fn notes_on_moved_args(
    tasks: &Tasks,
    moved: &HashMap<TaskKey, Vec<u16>>,
    code: &[KernelCode],
) -> Vec<String> {
    let mut seen: Vec<(Vec<String>, &[u16])> = Vec::new();
    for task in tasks.iter() {
        let Some(recorded) = moved.get(&task.key()) else { continue };
        let one = (task.kernel_names(), recorded.as_slice());
        if !one.0.iter().any(|name| code.iter().any(|given| given.name == *name)) {
            continue;
        }
        if seen.len() < MAX_NOTES && !seen.contains(&one) {
            seen.push(one);
        }
    }
    let note = |(kernels, recorded): (Vec<String>, &[u16])| {
        let recorded: Vec<String> = recorded.iter().map(u16::to_string).collect();
        format!(
            "`{}` takes tensors, then scalars: its arguments 0, 1, ... are the recorded arguments {}",
            kernels.join("`, `"),
            recorded.join(", ")
        )
    };
    seen.into_iter().map(note).collect()
}

/// Order in which the arguments of a task are passed.
struct Order {
    /// The recorded argument at each position.
    recorded: Vec<u16>,
    /// Number of tensors and scalars for the task's record.
    counts: (u32, u32),
}

impl Order {
    fn is_moved(&self) -> bool {
        (0..).zip(&self.recorded).any(|(slot, &recorded)| slot != recorded)
    }
}

/// Tensors and unknown arguments first, then scalars.
fn passed_order(task: Task<'_>) -> Order {
    let all = task.tensor_count.saturating_add(task.scalar_count);
    let count = usize::try_from(all).unwrap_or(usize::MAX);
    if count > MAX_ARGS {
        return Order { recorded: Vec::new(), counts: (task.tensor_count, task.scalar_count) };
    }
    let is_scalar = |at: &u16| task.argument(*at).is_some_and(|argument| argument.is_scalar());
    let (scalars, mut recorded): (Vec<u16>, Vec<u16>) = (0..=u16::MAX).take(count).partition(is_scalar);
    let scalar_count = u32::try_from(scalars.len()).unwrap_or(all);
    recorded.extend(scalars);
    Order { recorded, counts: (all - scalar_count, scalar_count) }
}

fn hand_over(task: Task<'_>, order: &Order, assembler: &mut Assembler) {
    for (slot, &at) in (0_u16..=u16::MAX).zip(&order.recorded) {
        let Some(argument) = task.argument(at) else {
            if let Some(reason) = task.uncaptured(at) {
                assembler.take(TaskPart::Uncaptured(UncapturedArgument {
                    step: task.step,
                    task_id: task.task_id,
                    arg_index: slot,
                    reason,
                }));
            }
            continue;
        };
        for part in stages(task, argument) {
            assembler.take(TaskPart::Argument(ArgumentRecord { arg_index: slot, ..part }));
        }
    }
}

/// The captured records of an argument, before and after the task.
fn stages<'t>(task: Task<'t>, argument: Argument<'t>) -> impl Iterator<Item = ArgumentRecord<'t>> {
    DumpStage::ALL.into_iter().filter_map(move |stage| {
        argument.captured(stage).map(|captured| record(task, argument, stage, *captured))
    })
}
