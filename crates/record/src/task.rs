//! Tasks: what a program does in one go.

use std::mem::offset_of;

use tensortap_abi::{
    LAUNCH_FLAGS, NO_KERNEL, Operation, RECORD_EXTENDED, RECORD_HAS_PARENT, RECORD_LAUNCH_DETAILS,
    SLOTS_PER_TASK, TaskRecord,
};
use tensortap_recorder::Outcome;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{KernelId, ModuleId, QueueId, RecordError, ScopeId, StepId, StringId};

/// What is known of a task when it begins. What is not known is left as [`TaskInfo::default`] has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskInfo {
    /// Its number, unique in the session; 0: the next of the session's own, from 1. Give all or none.
    pub id: u64,
    /// What it does.
    pub operation: Operation,
    /// What runs it: one kernel, or up to three at a time.
    pub kernels: [KernelId; SLOTS_PER_TASK],
    /// What people call it.
    pub name: StringId,
    /// Where it belongs.
    pub scope: ScopeId,
    /// The queue it was submitted to.
    pub queue: QueueId,
    /// The step it is of.
    pub step: StepId,
    /// The code it comes from.
    pub module: ModuleId,
    /// The source file and line that submitted it, from 1.
    pub source: (StringId, u32),
    /// The task that submitted it.
    pub parent: Option<u64>,
    /// Times each kernel is run; 0 is 1.
    pub blocks: u32,
    /// Work groups in each direction.
    pub grid: [u32; 3],
    /// Work items of a group in each direction; 0 where the device chooses.
    pub group: [u32; 3],
    /// Dimensions that a launch has, 1 to 3.
    pub work_dims: u8,
    /// Work items in each direction, where `grid` and `group` do not say it: groups need not divide them, or are not known.
    pub global_size: [u64; 3],
    /// Number of the first work item in each direction.
    pub global_offset: [u64; 3],
    /// Bytes that each work group has for itself beside those which its kernel declares.
    pub shared_bytes: u32,
    /// Work groups of a cluster in each direction; 0 for none.
    pub cluster: [u8; 3],
    /// `LAUNCH_…` flags of [`tensortap_abi`].
    pub launch_flags: u8,
    /// When it was submitted, in nanoseconds of `CLOCK_MONOTONIC`.
    pub submitted_ns: u64,
    /// Whether all of its arguments are marked, for level `marked`.
    pub marked: bool,
    /// Records that it will make, as far as known: counted as filtered when a filter refuses the task.
    pub records: u32,
}

impl TaskInfo {
    /// A task that runs one kernel.
    pub fn of(kernel: KernelId) -> TaskInfo {
        TaskInfo { kernels: [kernel, KernelId::NONE, KernelId::NONE], ..TaskInfo::default() }
    }
}

/// States of a [`Task`], as words that no other memory is likely to hold.
const RECORDED: u32 = 0x7474_0001;
const REFUSED: u32 = 0x7474_0002;
const ENDED: u32 = 0x7474_0003;

/// A task that has begun. Plain words: it may be moved, kept, and ended by another thread than began it.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Task {
    state: u32,
    /// Whether all of its arguments are marked.
    marked: u32,
    id: u64,
    parent: u64,
    submitted_ns: u64,
    started_ns: u64,
    completed_ns: u64,
    capture_ns: u64,
    flags: u32,
    operation: u32,
    func_id: [u32; SLOTS_PER_TASK],
    block_num: u32,
    tensor_count: u32,
    scalar_count: u32,
    queue: u32,
    step: u32,
    name: u32,
    scope: u32,
    module: u32,
    source_file: u32,
    source_line: u32,
    grid: [u32; 3],
    group: [u32; 3],
    /// Whether that it began was dropped.
    dropped: u32,
    work_dims: u32,
    reserved0: u32,
    global_size: [u64; 3],
    global_offset: [u64; 3],
    shared_bytes: u32,
    cluster: [u8; 3],
    launch_flags: u8,
    reserved: [u64; 6],
}
// The header has room for as much, and finds the number where it is.
const _: () = assert!(size_of::<Task>() == 256 && align_of::<Task>() == 8 && offset_of!(Task, id) == 8);

impl Task {
    pub(crate) fn new(id: u64, info: &TaskInfo, started_ns: u64) -> Task {
        let &TaskInfo { operation, kernels, name, scope, queue, step, module, source, parent, .. } = info;
        let is_extended = info.global_size != [0; 3] || info.global_offset != [0; 3];
        let launch_flags = info.launch_flags & LAUNCH_FLAGS;
        let has_details = info.shared_bytes != 0 || info.cluster != [0; 3] || launch_flags != 0;
        Task {
            state: RECORDED,
            marked: info.marked.into(),
            id,
            parent: parent.unwrap_or(0),
            submitted_ns: info.submitted_ns,
            started_ns,
            completed_ns: 0,
            capture_ns: 0,
            flags: if parent.is_some() { RECORD_HAS_PARENT } else { 0 }
                | if is_extended { RECORD_EXTENDED } else { 0 }
                | if has_details { RECORD_LAUNCH_DETAILS } else { 0 },
            operation: operation as u32,
            func_id: kernels_of(kernels),
            block_num: info.blocks.max(1),
            tensor_count: 0,
            scalar_count: 0,
            queue: queue.0,
            step: step.0,
            name: name.0,
            scope: scope.0,
            module: module.0,
            source_file: source.0.0,
            source_line: source.1,
            grid: info.grid,
            group: info.group,
            dropped: 0,
            work_dims: info.work_dims.into(),
            reserved0: 0,
            global_size: info.global_size,
            global_offset: info.global_offset,
            shared_bytes: info.shared_bytes,
            cluster: info.cluster,
            launch_flags,
            reserved: [0; 6],
        }
    }

    /// What is recorded of it, as far as it has come.
    pub(crate) fn record(&self) -> TaskRecord {
        TaskRecord {
            task_id: self.id,
            flags: self.flags,
            func_id: self.func_id,
            block_num: self.block_num,
            submitted_ns: self.submitted_ns,
            started_ns: self.started_ns,
            completed_ns: self.completed_ns,
            capture_ns: self.capture_ns,
            tensor_count: self.tensor_count,
            scalar_count: self.scalar_count,
            queue: self.queue,
            step: self.step,
            name: self.name,
            scope: self.scope,
            module: self.module,
            source_file: self.source_file,
            source_line: self.source_line,
            operation: u8::try_from(self.operation).unwrap_or(u8::MAX),
            grid: self.grid,
            group: self.group,
            work_dims: u8::try_from(self.work_dims).unwrap_or(u8::MAX),
            global_size: self.global_size,
            global_offset: self.global_offset,
            shared_bytes: self.shared_bytes,
            cluster: self.cluster,
            launch_flags: self.launch_flags,
            parent_task: self.parent,
            ..TaskRecord::default()
        }
    }

    /// Its number.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether a filter has kept it out.
    pub fn is_filtered(&self) -> bool {
        self.state == REFUSED
    }

    /// Whether the record of its beginning was dropped. What follows may be recorded all the same.
    pub fn is_dropped(&self) -> bool {
        self.dropped != 0
    }

    pub(crate) fn kernels(&self) -> [u32; SLOTS_PER_TASK] {
        self.func_id
    }

    pub(crate) fn refuse(&mut self) {
        self.state = REFUSED;
    }

    /// What became of the record of its beginning.
    #[inline]
    pub(crate) fn began(&mut self, outcome: Outcome) {
        self.dropped = matches!(outcome, Outcome::Dropped(_)).into();
    }

    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.marked != 0
    }

    /// Whether it is recorded.
    ///
    /// # Errors
    /// When it has ended, or never began.
    #[inline]
    pub(crate) fn check(&self) -> Result<bool, RecordError> {
        match self.state {
            RECORDED => Ok(true),
            REFUSED => Ok(false),
            ENDED => Err(bad(self.id, "it has ended; begin another")),
            _ => Err(bad(self.id, "it has not begun")),
        }
    }

    /// It has a tensor at this position.
    #[inline]
    pub(crate) fn has_tensor(&mut self, arg_index: u16) {
        let behind = u32::from(arg_index) + 1;
        let all = self.tensor_count.saturating_add(self.scalar_count).max(behind);
        self.tensor_count = self.tensor_count.max(behind);
        self.scalar_count = all - self.tensor_count;
    }

    /// It has a scalar at this position.
    pub(crate) fn has_scalar(&mut self, arg_index: u16) {
        let behind = u32::from(arg_index) + 1;
        self.scalar_count = self.scalar_count.max(behind.saturating_sub(self.tensor_count));
    }

    /// What it does begins by then: later than it was begun, where others waited before.
    pub(crate) fn starts(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
    }

    /// It does nothing after all.
    pub(crate) fn becomes_nothing(&mut self, name: u32) {
        (self.operation, self.name) = (Operation::Barrier as u32, name);
        self.func_id = [NO_KERNEL; SLOTS_PER_TASK];
    }

    /// What it does was done by then; the first time that is said counts.
    pub(crate) fn completed(&mut self, now_ns: u64) {
        if self.completed_ns == 0 {
            self.completed_ns = now_ns;
        }
    }

    #[inline]
    pub(crate) fn captured_for(&mut self, ns: u64) {
        self.capture_ns = self.capture_ns.saturating_add(ns);
    }

    pub(crate) fn end(&mut self) {
        self.state = ENDED;
    }
}

/// Kernels by the numbers that records have.
#[inline]
pub(crate) fn kernels_of(kernels: [KernelId; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
    kernels.map(|kernel| if kernel == KernelId::NONE { NO_KERNEL } else { kernel.0 })
}

fn bad(task: u64, remedy: &'static str) -> RecordError {
    RecordError::BadArgument { what: "task", value: task, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_counted_up_to_the_last_whatever_their_order() {
        let counts = |calls: &[(bool, u16)]| {
            let mut task = Task::new(1, &TaskInfo::default(), 1);
            for &(is_tensor, arg) in calls {
                if is_tensor { task.has_tensor(arg) } else { task.has_scalar(arg) }
            }
            (task.tensor_count, task.scalar_count)
        };
        assert_eq!(counts(&[(true, 0), (true, 1), (false, 2)]), (2, 1));
        assert_eq!(counts(&[(false, 2), (true, 0), (true, 1)]), (2, 1));
        assert_eq!(counts(&[(false, 0), (true, 1), (true, 1)]), (2, 0), "two in all");
        assert_eq!(counts(&[(true, u16::MAX), (false, u16::MAX)]), (65_536, 0));
    }

    #[test]
    fn memory_that_is_no_task_is_told_from_one() {
        let noise = Task::read_from_bytes(&[0x5a; 256]).unwrap();
        assert!(matches!(noise.check(), Err(RecordError::BadArgument { .. })));
        let mut task = Task::new(7, &TaskInfo::default(), 1);
        assert!(task.check().unwrap());
        task.end();
        assert!(task.check().is_err());
    }
}
