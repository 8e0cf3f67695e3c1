//! What single records say of a task, and what is known of its arguments when they are put together.

use tensortap_abi::{
    CoreType, DType, DumpStage, LAUNCH_COOPERATIVE, NO_KERNEL, Operation, RECORD_IN_FLIGHT, Role,
    SLOTS_PER_TASK, TaskRecord,
};

use crate::{ArgumentKind, PayloadState, survey::active};

/// What names a task within a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Step of the run, 0 where the dump knows none.
    pub step: u32,
    /// Task, unique within its step.
    pub task_id: u64,
}

/// Memory that was freed or allocated: what tasks left there before has nothing to do with what they find there later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Renewed {
    /// When, in device time.
    pub at_ns: u64,
    /// Where it lies.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Freed; otherwise allocated.
    pub freed: bool,
    /// Whether the host may change what is there at any time.
    pub host_writable: bool,
}

/// How the work of a launch is spread. 0 is not known, or left to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Dimensions, 1 to 3; 0 where the dump does not say.
    pub work_dims: u8,
    /// Work groups in each direction.
    pub grid: [u32; 3],
    /// Work items of a group in each direction.
    pub group: [u32; 3],
    /// Work items in each direction, which groups need not divide.
    pub global_size: [u64; 3],
    /// Number of the first work item in each direction.
    pub global_offset: [u64; 3],
    /// Bytes that each work group has for itself beside those which its kernel declares.
    pub shared_bytes: u32,
    /// Work groups of a cluster in each direction; 0 for none.
    pub cluster: [u8; 3],
    /// Whether its work groups may wait for one another.
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

    /// `None` where nothing is known.
    pub(crate) fn known(self) -> Option<Box<Launch>> {
        (self != Launch::default()).then(|| Box::new(self))
    }
}

/// What the records of a task itself say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Step of the run, 0 where the dump knows none.
    pub step: u32,
    /// Task.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`NO_KERNEL`] where inactive.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Times each kernel is dispatched.
    pub block_num: u32,
    /// When it was submitted, on the same clock; 0 where the dump does not say.
    pub submitted_ns: u64,
    /// Device time of the first dispatch; 0 where the dump has no times.
    pub dispatched_ns: u64,
    /// Device time of completion; `None` for a task that did not complete.
    pub completed_ns: Option<u64>,
    /// Tensor arguments.
    pub tensor_count: u32,
    /// Scalar arguments.
    pub scalar_count: u32,
    /// Recorded as in flight.
    pub in_flight: bool,
    /// How long it was held up to be captured, as far as its records say: without what came after its completion.
    pub capture_ns: u64,
    /// Core that it was first dispatched to, where the dump says.
    pub core: Option<u32>,
    /// Queue that it was submitted to; 0 for none.
    pub queue: u32,
    /// What it does.
    pub operation: Operation,
    /// Module that its code comes from; 0 when not known.
    pub module: u32,
    /// How its work is spread, where the dump says.
    pub launch: Option<Box<Launch>>,
    /// Who recorded that it completed, or that it began where it did not: a place in [`Tasks::threads`](crate::Tasks::threads), where
    /// the dump says.
    pub thread: Option<u32>,
}

impl TaskFacts {
    /// A task of which only its name is known.
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
            thread: None,
        }
    }

    /// What names the task.
    #[must_use]
    pub fn key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }

    /// The active kernels, in the order of their slots.
    pub fn func_ids(&self) -> impl Iterator<Item = u32> + '_ {
        active(&self.func_id)
    }

    /// Device time of the first dispatch, where the dump has times.
    #[must_use]
    pub fn start_time(&self) -> Option<u64> {
        (self.dispatched_ns != 0).then_some(self.dispatched_ns)
    }

    /// When it was given its memory: what was allocated or freed later, while it waited in its queue, concerns those behind it.
    #[must_use]
    pub fn given_time(&self) -> Option<u64> {
        if self.submitted_ns == 0 { self.start_time() } else { Some(self.submitted_ns) }
    }

    /// Device time of completion, where the dump has times and the task completed.
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
            thread: None,
        }
    }
}

/// A thread that recorded: a scheduler or the orchestrator of a device, or a thread of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingThread {
    /// The lane that it had.
    pub lane: u32,
    /// The operating system's number of it; 0 when not known.
    pub tid: u64,
    /// What it calls itself.
    pub name: Option<Box<str>>,
}

/// What was captured of an argument at one stage: a record, without the content it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Number by which the owner of the records knows it; of a dump, its position there.
    pub record: u64,
    /// Bytes of the payload that are stored.
    pub bytes: u64,
    /// Little endian bytes, so that an entry is no larger than it must be.
    pub(super) hash: [u8; 16],
    pub(super) has_hash: bool,
    /// What became of the payload.
    pub payload: PayloadState,
    /// The task had not completed: what it has written is no output.
    pub in_flight: bool,
}

impl Captured {
    /// Hash of all of the content.
    #[must_use]
    pub fn hash(&self) -> Option<u128> {
        self.has_hash.then_some(u128::from_le_bytes(self.hash))
    }

    /// The same with another hash, for whoever computed one that the dump does not have.
    #[must_use]
    pub fn with_hash(self, hash: Option<u128>) -> Captured {
        Captured { hash: hash.unwrap_or(0).to_le_bytes(), has_hash: hash.is_some(), ..self }
    }

    /// Whether all of the content is stored.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.payload == PayloadState::Stored
    }
}

/// What is known of an argument over both stages. Of what its records say differently, that before the task counts.
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
    /// Whether that is what the elements are; where not, they are bytes.
    pub dtype_known: bool,
    /// Whether the task is known to read or write it as its role says; where not, what was captured before and after is all that is
    /// known.
    pub role_known: bool,
    /// Whether it is known how far it reaches.
    pub extent_known: bool,
    /// Whether it lies in memory that the host may change at any time.
    pub host_writable: bool,
    /// Whether the records of both stages describe the same kind, direction, element type and view.
    pub is_consistent: bool,
    /// Whether a stage was recorded more than once; then the first record counts, and one of a task that completed before
    /// one of a task in flight.
    pub is_repeated: bool,
    /// First element of the view.
    pub start_offset: u64,
    /// Device address of the buffer, 0 where the dump does not say.
    pub address: u64,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// Before dispatch.
    pub before: Option<Captured>,
    /// After completion.
    pub after: Option<Captured>,
    /// Where its dimensions are kept.
    pub(super) dims_at: usize,
    pub(super) ndims: u32,
    /// String id of its own name.
    pub(super) name: u32,
}

impl ArgumentFacts {
    /// What was captured at a stage.
    #[must_use]
    pub fn captured(&self, stage: DumpStage) -> Option<&Captured> {
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

    /// Hash of what the task was given.
    #[must_use]
    pub fn hash_before(&self) -> Option<u128> {
        self.before.and_then(|captured| captured.hash())
    }

    /// Hash of what the task left.
    #[must_use]
    pub fn hash_after(&self) -> Option<u128> {
        self.after.and_then(|captured| captured.hash())
    }

    /// Whether it left its task with the bytes it came with.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.hash_before().is_some() && self.hash_before() == self.hash_after()
    }
}

/// One (slot, block) of a task that was handed to a core. What its kernel received is read with
/// [`Dump::for_each_dispatch`](crate::Dump::for_each_dispatch).
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

/// When a dispatch was handed over and ran. Device times, 0 where the dump has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchTimes {
    /// When its scheduler handed it over.
    pub handed_ns: u64,
    /// When its kernel was called, as its core says.
    pub started_ns: u64,
    /// When it returned.
    pub completed_ns: u64,
    /// Who handed it over: a place in [`Tasks::threads`](crate::Tasks::threads), where the dump says.
    pub thread: Option<u32>,
}

impl DispatchFacts {
    /// Type of its core.
    #[must_use]
    pub fn core_type(&self) -> CoreType {
        CoreType::of_slot(self.subtask_id as usize)
    }
}
