//! Tasks.

use std::mem::offset_of;

use tensortap_abi::{
    LAUNCH_FLAGS, NO_KERNEL, Operation, RECORD_EXTENDED, RECORD_HAS_PARENT, RECORD_LAUNCH_DETAILS,
    RECORD_REGION, SLOTS_PER_TASK, TaskRecord,
};
use tensortap_recorder::Outcome;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{KernelId, ModuleId, QueueId, RecordError, ScopeId, StepId, StringId};

/// Description of a task when it begins. Unknown fields keep their value from [`TaskInfo::default`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskInfo {
    /// Its id, unique among the ids that the program sets; 0 for the session's next id, from 1. Set all ids or
    /// none.
    pub id: u64,
    /// What it does.
    pub operation: Operation,
    /// Its kernels: one, or up to three that run at the same time.
    pub kernels: [KernelId; SLOTS_PER_TASK],
    /// Its name.
    pub name: StringId,
    /// Its scope.
    pub scope: ScopeId,
    /// The queue it was submitted to.
    pub queue: QueueId,
    /// Its step.
    pub step: StepId,
    /// Its module.
    pub module: ModuleId,
    /// Source file and line of its submission; lines count from 1.
    pub source: (StringId, u32),
    /// The region that contains it, or the task that submitted it. `None` for the innermost region that is open on
    /// the calling thread, whichever library of the process opened it.
    pub parent: Option<u64>,
    /// Runs per kernel; 0 means 1.
    pub blocks: u32,
    /// Work groups in each dimension.
    pub grid: [u32; 3],
    /// Work items per group in each dimension; 0 if the device chooses.
    pub group: [u32; 3],
    /// Number of dimensions of a launch, 1 to 3.
    pub work_dims: u8,
    /// Work items in each dimension, if `grid` and `group` do not determine them.
    pub global_size: [u64; 3],
    /// Global offset in each dimension.
    pub global_offset: [u64; 3],
    /// Bytes of dynamic local memory per work group.
    pub shared_bytes: u32,
    /// Work groups of a cluster in each dimension; 0 for no clusters.
    pub cluster: [u8; 3],
    /// `LAUNCH_…` flags of [`tensortap_abi`].
    pub launch_flags: u8,
    /// Time of submission, in nanoseconds of `CLOCK_MONOTONIC`.
    pub submitted_ns: u64,
    /// Whether all its arguments are marked, for level `marked`.
    pub marked: bool,
    /// Expected number of records, which is counted as filtered if a filter refuses the task; 0 to count them as they
    /// come.
    pub records: u32,
}

impl TaskInfo {
    /// A task that runs one kernel.
    pub fn of(kernel: KernelId) -> TaskInfo {
        TaskInfo { kernels: [kernel, KernelId::NONE, KernelId::NONE], ..TaskInfo::default() }
    }
}

/// States of a [`Task`]. The values are unlikely in other memory.
const RECORDED: u32 = 0x7474_0001;
const REFUSED: u32 = 0x7474_0002;
const ENDED: u32 = 0x7474_0003;

/// A task that has begun. It is plain data: it can be moved and stored, and another thread can end it.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Task {
    state: u32,
    /// Whether all its arguments are marked.
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
    /// Whether the record of its beginning was dropped.
    dropped: u32,
    work_dims: u32,
    /// Whether a filter refused it without knowing its number of records: they are counted as they come.
    uncounted: u32,
    global_size: [u64; 3],
    global_offset: [u64; 3],
    shared_bytes: u32,
    cluster: [u8; 3],
    launch_flags: u8,
    /// Whether a thread is inside of it.
    entered: u64,
    reserved: [u64; 5],
}
// The C header depends on this size and on the offset of the id.
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
            uncounted: 0,
            global_size: info.global_size,
            global_offset: info.global_offset,
            shared_bytes: info.shared_bytes,
            cluster: info.cluster,
            launch_flags,
            entered: 0,
            reserved: [0; 5],
        }
    }

    /// Notes whether a thread is inside of it.
    pub(crate) fn set_entered(&mut self, is_entered: bool) {
        self.entered = is_entered.into();
    }

    #[inline]
    pub(crate) fn is_entered(&self) -> bool {
        self.entered != 0
    }

    /// Sets its parent, if it has one.
    #[inline]
    pub(crate) fn set_parent(&mut self, parent: Option<u64>) {
        if let Some(parent) = parent {
            (self.parent, self.flags) = (parent, self.flags | RECORD_HAS_PARENT);
        }
    }

    /// Makes it a region.
    pub(crate) fn becomes_region(&mut self) {
        self.flags |= RECORD_REGION;
    }

    /// Whether it is a region.
    #[inline]
    pub fn is_region(&self) -> bool {
        self.flags & RECORD_REGION != 0
    }

    /// Its record, as far as it has progressed.
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

    /// Its id.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether a filter refused it.
    pub fn is_filtered(&self) -> bool {
        self.state == REFUSED
    }

    /// Whether the record of its beginning was dropped. Later records may still be stored.
    pub fn is_dropped(&self) -> bool {
        self.dropped != 0
    }

    pub(crate) fn kernels(&self) -> [u32; SLOTS_PER_TASK] {
        self.func_id
    }

    pub(crate) fn refuse(&mut self, is_counted: bool) {
        self.state = REFUSED;
        self.uncounted = (!is_counted).into();
    }

    /// Whether its refused records are counted as they come.
    #[inline]
    pub(crate) fn is_uncounted(&self) -> bool {
        self.uncounted != 0
    }

    /// Sets the outcome of the record of its beginning.
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
    /// If it has ended or never began.
    #[inline]
    pub(crate) fn check(&self) -> Result<bool, RecordError> {
        match self.state {
            RECORDED => Ok(true),
            REFUSED => Ok(false),
            ENDED => Err(bad(self.id, "it has ended; begin another task")),
            _ => Err(bad(self.id, "it has not begun")),
        }
    }

    /// Counts a tensor at this position.
    #[inline]
    pub(crate) fn has_tensor(&mut self, arg_index: u16) {
        let end = u32::from(arg_index) + 1;
        let all = self.tensor_count.saturating_add(self.scalar_count).max(end);
        self.tensor_count = self.tensor_count.max(end);
        self.scalar_count = all - self.tensor_count;
    }

    /// Counts a scalar at this position.
    pub(crate) fn has_scalar(&mut self, arg_index: u16) {
        let end = u32::from(arg_index) + 1;
        self.scalar_count = self.scalar_count.max(end.saturating_sub(self.tensor_count));
    }

    /// Sets its start time, which may be later than its begin.
    pub(crate) fn starts(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
    }

    /// Turns it into a task without effect.
    pub(crate) fn becomes_nothing(&mut self, name: u32) {
        (self.operation, self.name) = (Operation::Barrier as u32, name);
        self.func_id = [NO_KERNEL; SLOTS_PER_TASK];
    }

    /// Sets its completion time, once.
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

/// Kernel numbers as in records.
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
    fn counts_arguments_in_any_order() {
        let counts = |calls: &[(bool, u16)]| {
            let mut task = Task::new(1, &TaskInfo::default(), 1);
            for &(is_tensor, arg) in calls {
                if is_tensor { task.has_tensor(arg) } else { task.has_scalar(arg) }
            }
            (task.tensor_count, task.scalar_count)
        };
        assert_eq!(counts(&[(true, 0), (true, 1), (false, 2)]), (2, 1));
        assert_eq!(counts(&[(false, 2), (true, 0), (true, 1)]), (2, 1));
        assert_eq!(counts(&[(false, 0), (true, 1), (true, 1)]), (2, 0), "two in total");
        assert_eq!(counts(&[(true, u16::MAX), (false, u16::MAX)]), (65_536, 0));
    }

    #[test]
    fn refuses_memory_that_is_not_a_task() {
        let noise = Task::read_from_bytes(&[0x5a; 256]).unwrap();
        assert!(matches!(noise.check(), Err(RecordError::BadArgument { .. })));
        let mut task = Task::new(7, &TaskInfo::default(), 1);
        assert!(task.check().unwrap());
        task.end();
        assert!(task.check().is_err());
    }
}
