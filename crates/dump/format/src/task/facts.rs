//! Facts from single records of a task, and facts about its assembled arguments.

use tensortap_abi::{
    CollectiveKind, CoreType, DType, DumpStage, LAUNCH_COOPERATIVE, NO_KERNEL, Operation, RECORD_EXTENDED,
    RECORD_HAS_PARENT, RECORD_IN_FLIGHT, RECORD_LAUNCH_DETAILS, RECORD_REGION, Role, SLOTS_PER_TASK,
    TaskRecord,
};

use crate::{ArgumentKind, PayloadState, survey::active};

/// Identifies a task within a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Step of the run; 0 if the dump has no steps.
    pub step: u32,
    /// Task id, unique within its step.
    pub task_id: u64,
}

/// An allocation or release of memory. Content that tasks wrote before is unrelated to the content that later
/// tasks find there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllocationEvent {
    /// Device time.
    pub at_ns: u64,
    /// Address of the memory.
    pub address: u64,
    /// Size of the memory.
    pub bytes: u64,
    /// Whether it was freed; otherwise it was allocated.
    pub freed: bool,
    /// Whether the host may change the memory at any time.
    pub host_writable: bool,
    /// Identity of its storage, the same for allocation and release; 0 if not known.
    pub storage: u64,
    /// String id of its pool or allocator; 0 if not known.
    pub pool: u32,
    /// Queue in whose order it takes effect; 0 for the order of the program.
    pub queue: u32,
    /// The last task that was submitted to that queue before it; 0 if not known.
    pub after_task: u64,
}

/// What a task is in a collective operation of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveFacts {
    /// Number of the operation in its group.
    pub sequence: u64,
    /// String id of the name of the group; see [`Tasks::text`](crate::Tasks::text).
    pub group: u32,
    /// Kind of the operation.
    pub kind: CollectiveKind,
}

/// Grid and group sizes of a launch. 0 means not known or chosen by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Dimensions, 1 to 3; 0 if not recorded.
    pub work_dims: u8,
    /// Work groups in each direction.
    pub grid: [u32; 3],
    /// Work items of a group in each direction.
    pub group: [u32; 3],
    /// Work items in each direction, which the group size need not divide.
    pub global_size: [u64; 3],
    /// Number of the first work item in each direction.
    pub global_offset: [u64; 3],
    /// Dynamic shared memory of each work group in bytes, in addition to the memory that the kernel
    /// declares.
    pub shared_bytes: u32,
    /// Work groups of a cluster in each direction; 0 for no cluster.
    pub cluster: [u8; 3],
    /// Whether its work groups may wait for each other.
    pub is_cooperative: bool,
}

impl Launch {
    fn of(record: &TaskRecord) -> Launch {
        let &TaskRecord {
            work_dims,
            grid,
            group,
            global_size,
            global_offset,
            shared_bytes,
            cluster,
            launch_flags,
            ..
        } = record;
        let is_cooperative = launch_flags & LAUNCH_COOPERATIVE != 0;
        Launch { work_dims, grid, group, global_size, global_offset, shared_bytes, cluster, is_cooperative }
    }

    /// Returns `None` if nothing is known.
    pub(crate) fn known(self) -> Option<Box<Launch>> {
        (self != Launch::default()).then(|| Box::new(self))
    }
}

/// Facts from the records of the task itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Step of the run; 0 if the dump has no steps.
    pub step: u32,
    /// Task.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`NO_KERNEL`] where inactive.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Number of blocks.
    pub block_num: u32,
    /// When it was submitted, on the same clock; 0 if not recorded.
    pub submitted_ns: u64,
    /// Device time of the first dispatch; 0 if the dump has no times.
    pub dispatched_ns: u64,
    /// Device time of completion; `None` if the task did not complete.
    pub completed_ns: Option<u64>,
    /// Number of tensor arguments.
    pub tensor_count: u32,
    /// Number of scalar arguments.
    pub scalar_count: u32,
    /// Whether it was recorded as in flight.
    pub in_flight: bool,
    /// Time that its capture took, according to its records: without the part after its completion.
    pub capture_ns: u64,
    /// Core of its first dispatch, if recorded.
    pub core: Option<u32>,
    /// Queue that it was submitted to; 0 for none.
    pub queue: u32,
    /// Its operation.
    pub operation: Operation,
    /// Module that contains its code; 0 if not known.
    pub module: u32,
    /// Grid and group sizes, if recorded.
    pub launch: Option<Box<Launch>>,
    /// The region that contains it, or the task that submitted it.
    pub parent: Option<u64>,
    /// Whether it is a region, which contains the tasks whose parent it is.
    pub is_region: bool,
    /// Thread that recorded its completion, or its start if it did not complete: a position in
    /// [`Tasks::threads`](crate::Tasks::threads), if recorded.
    pub thread: Option<u32>,
}

impl TaskFacts {
    /// A task that is only mentioned by other records.
    #[must_use]
    pub fn unknown(key: TaskKey) -> TaskFacts {
        TaskFacts {
            step: key.step,
            task_id: key.task_id,
            func_id: [NO_KERNEL; SLOTS_PER_TASK],
            block_num: 1,
            submitted_ns: 0,
            dispatched_ns: 0,
            completed_ns: None,
            tensor_count: 0,
            scalar_count: 0,
            in_flight: false,
            capture_ns: 0,
            core: None,
            queue: 0,
            operation: Operation::Kernel,
            module: 0,
            launch: None,
            parent: None,
            is_region: false,
            thread: None,
        }
    }

    /// The key of the task.
    #[must_use]
    pub fn key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }

    /// The active kernels, in slot order.
    pub fn func_ids(&self) -> impl Iterator<Item = u32> + '_ {
        active(&self.func_id)
    }

    /// Device time of the first dispatch, if the dump has times.
    #[must_use]
    pub fn start_time(&self) -> Option<u64> {
        (self.dispatched_ns != 0).then_some(self.dispatched_ns)
    }

    /// When its memory was assigned. Allocations and releases after this time, while it waited in its
    /// queue, concern the tasks after it.
    #[must_use]
    pub fn given_time(&self) -> Option<u64> {
        if self.submitted_ns == 0 { self.start_time() } else { Some(self.submitted_ns) }
    }

    /// Device time of completion, if the dump has times and the task completed.
    #[must_use]
    pub fn end_time(&self) -> Option<u64> {
        self.completed_ns.filter(|_| self.dispatched_ns != 0)
    }
}

impl From<&TaskRecord> for TaskFacts {
    fn from(record: &TaskRecord) -> Self {
        TaskFacts {
            step: record.step,
            task_id: record.task_id,
            func_id: record.func_id,
            block_num: record.block_num,
            submitted_ns: record.submitted_ns,
            dispatched_ns: record.started_ns,
            completed_ns: (record.completed_ns != 0).then_some(record.completed_ns),
            tensor_count: record.tensor_count,
            scalar_count: record.scalar_count,
            in_flight: record.flags & RECORD_IN_FLIGHT != 0,
            capture_ns: record.capture_ns,
            core: record.core.checked_sub(1).map(u32::from),
            queue: record.queue,
            operation: Operation::from_tag(record.operation).unwrap_or_default(),
            module: record.module,
            launch: Launch::of(record).known(),
            parent: (record.flags & RECORD_HAS_PARENT != 0).then_some(record.parent_task),
            is_region: record.flags & RECORD_REGION != 0,
            thread: None,
        }
    }
}

/// The record of a task, without what [`TaskFacts`] does not hold: names, step names and source.
impl From<&TaskFacts> for TaskRecord {
    fn from(facts: &TaskFacts) -> TaskRecord {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let launch = facts.launch.as_deref().copied().unwrap_or_default();
        let Launch {
            work_dims,
            grid,
            group,
            global_size,
            global_offset,
            shared_bytes,
            cluster,
            is_cooperative,
        } = launch;
        let has_sizes = (global_size, global_offset) != ([0; 3], [0; 3]);
        let has_details = shared_bytes != 0 || cluster != [0; 3] || is_cooperative;
        TaskRecord {
            task_id: facts.task_id,
            flags: flag(facts.in_flight, RECORD_IN_FLIGHT)
                | flag(facts.parent.is_some(), RECORD_HAS_PARENT)
                | flag(facts.is_region, RECORD_REGION)
                | flag(has_sizes, RECORD_EXTENDED)
                | flag(has_details, RECORD_LAUNCH_DETAILS),
            func_id: facts.func_id,
            block_num: facts.block_num,
            submitted_ns: facts.submitted_ns,
            started_ns: facts.dispatched_ns,
            completed_ns: facts.completed_ns.unwrap_or(0),
            capture_ns: facts.capture_ns,
            tensor_count: facts.tensor_count,
            scalar_count: facts.scalar_count,
            queue: facts.queue,
            step: facts.step,
            module: facts.module,
            operation: facts.operation as u8,
            core: facts.core.and_then(|core| u16::try_from(core.checked_add(1)?).ok()).unwrap_or(0),
            parent_task: facts.parent.unwrap_or(0),
            work_dims,
            grid,
            group,
            global_size,
            global_offset,
            shared_bytes,
            cluster,
            launch_flags: if is_cooperative { LAUNCH_COOPERATIVE } else { 0 },
            ..TaskRecord::default()
        }
    }
}

/// A recording thread: a scheduler or the orchestrator of a device, or a thread of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingThread {
    /// Its lane.
    pub lane: u32,
    /// Its operating system id; 0 if not known.
    pub tid: u64,
    /// Its name.
    pub name: Option<Box<str>>,
}

/// The captured state of an argument at one stage: a record without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentSnapshot {
    /// Number of the record, assigned by the owner of the records. In a dump, its position.
    pub record: u64,
    /// Number of stored payload bytes.
    pub bytes: u64,
    /// Little endian bytes, which keeps an entry as small as possible.
    pub(super) hash: [u8; 16],
    pub(super) has_hash: bool,
    /// State of the payload.
    pub payload: PayloadState,
    /// Whether the task had not completed; its writes are then not an output.
    pub in_flight: bool,
}

impl ArgumentSnapshot {
    /// Hash of the whole content.
    #[must_use]
    pub fn hash(&self) -> Option<u128> {
        self.has_hash.then_some(u128::from_le_bytes(self.hash))
    }

    /// The same snapshot with a different hash, for a hash that was computed later.
    #[must_use]
    pub fn with_hash(self, hash: Option<u128>) -> ArgumentSnapshot {
        ArgumentSnapshot { hash: hash.unwrap_or(0).to_le_bytes(), has_hash: hash.is_some(), ..self }
    }

    /// Whether the whole content is stored.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.payload == PayloadState::Stored
    }
}

/// Facts about an argument over both stages. If its records differ, the one before the task counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentFacts {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Tensor or scalar.
    pub kind: ArgumentKind,
    /// Direction.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Whether the element type is certain. If not, the elements are bytes.
    pub dtype_known: bool,
    /// Whether the role is certain. If not, only the captured contents show what the task did.
    pub role_known: bool,
    /// Whether the kernel declares that it only reads the memory, although its role is not certain: a `const` pointer,
    /// which the kernel can cast.
    pub is_const: bool,
    /// Whether its extent is known.
    pub extent_known: bool,
    /// Whether the host may change its memory at any time.
    pub host_writable: bool,
    /// Whether the records of both stages agree on kind, direction, element type and view.
    pub is_consistent: bool,
    /// Whether a stage was recorded more than once. The first record then counts, and a completed task's
    /// record counts before one of a task in flight.
    pub is_repeated: bool,
    /// First element of the view.
    pub start_offset: u64,
    /// Device address of the buffer; 0 if not recorded.
    pub address: u64,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// State before dispatch.
    pub before: Option<ArgumentSnapshot>,
    /// State after completion.
    pub after: Option<ArgumentSnapshot>,
    /// Position of its dimensions.
    pub(super) dims_at: usize,
    pub(super) ndims: u32,
    /// String id of its own name.
    pub(super) name: u32,
}

impl ArgumentFacts {
    /// The captured state at a stage.
    #[must_use]
    pub fn captured(&self, stage: DumpStage) -> Option<&ArgumentSnapshot> {
        match stage {
            DumpStage::BeforeDispatch => self.before.as_ref(),
            DumpStage::AfterCompletion => self.after.as_ref(),
        }
    }

    /// Whether it is a scalar.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.kind == ArgumentKind::Scalar
    }

    /// Hash of the content before the task.
    #[must_use]
    pub fn hash_before(&self) -> Option<u128> {
        self.before.and_then(|captured| captured.hash())
    }

    /// Hash of the content after the task.
    #[must_use]
    pub fn hash_after(&self) -> Option<u128> {
        self.after.and_then(|captured| captured.hash())
    }

    /// Whether the task may have written it: by its role, or by its contents if the role is not certain. A task with a
    /// `const` argument has written it only if its content changed.
    #[must_use]
    pub fn may_be_written(&self) -> bool {
        match (self.role_known, self.is_const) {
            (true, _) => self.role.writes(),
            (false, true) => !self.is_unchanged(),
            (false, false) => true,
        }
    }

    /// Whether the task left its content unchanged.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.hash_before().is_some() && self.hash_before() == self.hash_after()
    }
}

/// One (slot, block) of a task dispatched to a core.
/// [`Dump::for_each_dispatch`](crate::Dump::for_each_dispatch) reads its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DispatchFacts {
    /// Subtask slot: 0 AIC, 1 AIV0, 2 AIV1.
    pub subtask_id: u32,
    /// Block.
    pub block_idx: u32,
    /// Kernel.
    pub func_id: u32,
    /// Core of the device.
    pub core_id: u32,
}

/// Times of a dispatch. Device times; 0 if not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchTimes {
    /// When its scheduler dispatched it.
    pub handed_ns: u64,
    /// When its kernel was called, according to its core.
    pub started_ns: u64,
    /// When the kernel returned.
    pub completed_ns: u64,
    /// Thread that dispatched it: a position in [`Tasks::threads`](crate::Tasks::threads), if recorded.
    pub thread: Option<u32>,
}

impl DispatchFacts {
    /// Type of its core.
    #[must_use]
    pub fn core_type(&self) -> CoreType {
        CoreType::of_slot(self.subtask_id as usize)
    }
}
