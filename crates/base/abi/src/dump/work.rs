//! Records of executed work: tasks, their dispatches and their dependencies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::{EdgeCause, SLOTS_PER_TASK};

/// Operation of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Runs kernels.
    #[default]
    Kernel = 0,
    /// Copies memory.
    Copy = 1,
    /// Fills memory.
    Fill = 2,
    /// The host reads device memory.
    HostRead = 3,
    /// The host writes device memory.
    HostWrite = 4,
    /// Launches a graph that was built earlier.
    Graph = 5,
    /// An operator of a framework.
    Operator = 6,
    /// Neither moves nor computes data: it only orders other tasks.
    Barrier = 7,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 8] = [
        Operation::Kernel,
        Operation::Copy,
        Operation::Fill,
        Operation::HostRead,
        Operation::HostWrite,
        Operation::Graph,
        Operation::Operator,
        Operation::Barrier,
    ];

    /// The operation of a tag; `None` if the tag is damaged.
    pub fn from_tag(tag: u8) -> Option<Operation> {
        Operation::ALL.into_iter().find(|&operation| operation as u8 == tag)
    }

    /// The operation of a [name](Operation::name); `None` if there is none.
    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Kernel => "kernel",
            Operation::Copy => "copy",
            Operation::Fill => "fill",
            Operation::HostRead => "host_read",
            Operation::HostWrite => "host_write",
            Operation::Graph => "graph",
            Operation::Operator => "operator",
            Operation::Barrier => "barrier",
        }
    }
}

dump_record! {
    /// One task at one of its stages: what it runs, and when. Times use the device's monotonic clock; 0
    /// means not known.
    TaskRecord = Task {
        /// Kernel of each subtask slot, [`crate::NO_KERNEL`] where inactive.
        func_id: [u32; SLOTS_PER_TASK] = 16,
        /// Blocks.
        block_num: u32 = 28,
        /// When it was submitted.
        submitted_ns: u64 = 32,
        /// When it was first dispatched.
        started_ns: u64 = 40,
        /// When it completed; 0 before, and for a task in flight.
        completed_ns: u64 = 48,
        /// Time that its capture has taken so far.
        capture_ns: u64 = 56,
        /// Number of tensor arguments.
        tensor_count: u32 = 64,
        /// Number of scalar arguments.
        scalar_count: u32 = 68,
        /// Queue that it was submitted to; 0 for none.
        queue: u32 = 72,
        /// Step that it belongs to; 0 for none.
        step: u32 = 76,
        /// String id of its name; 0 for none.
        name: u32 = 80,
        /// Enclosing scope; 0 for none.
        scope: u32 = 84,
        /// Module that contains its code; 0 if not known.
        module: u32 = 88,
        /// String id of the source file that submitted it; 0 when not known.
        source_file: u32 = 92,
        /// Line in that file, from 1; 0 when not known.
        source_line: u32 = 96,
        /// [`Operation`] tag.
        operation: u8 = 100,
        /// Dimensions of the kernel launch, 1 to 3; 0 if not known.
        work_dims: u8 = 101,
        /// Number, plus one, of the core of its first dispatch: the core of its first block and first
        /// active slot. 0 if not known, as before its dispatch.
        core: u16 = 102,
        /// Work groups in each direction; 0 when not known.
        grid: [u32; 3] = 104,
        /// Work items of a group in each direction; 0 if not known or chosen by the device.
        group: [u32; 3] = 116,
        /// With [`RECORD_HAS_PARENT`]: the task that submitted it.
        parent_task: u64 = 128,
        /// With [`RECORD_EXTENDED`]: work items in each direction, which the group size need not divide; 0
        /// if not known.
        global_size: [u64; 3] = 136,
        /// With [`RECORD_EXTENDED`]: number of the first work item in each direction.
        global_offset: [u64; 3] = 160,
        /// With [`RECORD_LAUNCH_DETAILS`]: dynamic shared memory of each work group in bytes, in addition
        /// to the memory that the kernel declares.
        shared_bytes: u32 = 184,
        /// With [`RECORD_LAUNCH_DETAILS`]: work groups of a cluster in each direction; 0 for no cluster.
        cluster: [u8; 3] = 188,
        /// With [`RECORD_LAUNCH_DETAILS`]: `LAUNCH_…` flags.
        launch_flags: u8 = 191,
    }
}

/// Flag of a launch: its work groups may wait for each other.
pub const LAUNCH_COOPERATIVE: u8 = 1 << 0;
/// Flag of a launch: it may start before its predecessor in the queue has ended.
pub const LAUNCH_EARLY: u8 = 1 << 1;
/// All launch flags.
pub const LAUNCH_FLAGS: u8 = LAUNCH_COOPERATIVE | LAUNCH_EARLY;

dump_record! {
    /// One (task, slot, block) dispatched to one core. Its `args[]` are in the arena, as
    /// [`crate::DispatchWords`].
    DispatchRecord = Dispatch {
        /// Arena position of the words.
        words_pos: u64 = 16,
        /// `xxh3_128_tree4k` of the words, little endian.
        hash: [u8; 16] = 24,
        /// Kernel.
        func_id: u32 = 40,
        /// Core of the device.
        core_id: u32 = 44,
        /// Subtask slot.
        subtask_id: u32 = 48,
        /// Active subtask slots of the task.
        subtask_count: u32 = 52,
        /// Block.
        block_idx: u32 = 56,
        /// Blocks of the task.
        block_num: u32 = 60,
        /// Number of tensors in the payload: the first slots of `args[]`.
        tensor_count: u32 = 64,
        /// Number of scalars in the payload: the following slots.
        scalar_count: u32 = 68,
        /// Bytes of the words.
        words_bytes: u32 = 72,
        /// Zero.
        reserved0: u32 = 76,
        /// When the scheduler dispatched it; 0 if not known.
        started_ns: u64 = 80,
        /// When it completed; 0 if not known yet. A later [`FinishedRecord`] then carries the time.
        completed_ns: u64 = 88,
        /// Zero.
        reserved: [u64; 12] = 96,
    }
}

dump_record! {
    /// When one dispatch ran: its core's time right before the kernel was called and right after it
    /// returned. All other times use the same clock. The record is in the lane of the scheduler that
    /// handled the dispatch.
    FinishedRecord = Finished {
        /// Core of the device.
        core_id: u32 = 16,
        /// Subtask slot.
        subtask_id: u32 = 20,
        /// Block.
        block_idx: u32 = 24,
        /// Zero.
        reserved0: u32 = 28,
        /// When the kernel was called.
        started_ns: u64 = 32,
        /// When it returned.
        completed_ns: u64 = 40,
        /// Zero.
        reserved: [u64; 18] = 48,
    }
}

dump_record! {
    /// A dependency. The task in the head waits; `arg_index` in the head is the argument that it waits for.
    EdgeRecord = Edge {
        /// The task that it waits for.
        producer: u64 = 16,
        /// [`EdgeCause`] tag.
        cause: u16 = 24,
        /// Zero.
        reserved0: [u8; 6] = 26,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

impl EdgeRecord {
    /// `consumer` waits for `producer`.
    pub fn new(producer: u64, consumer: u64, cause: EdgeCause, arg_index: u16) -> EdgeRecord {
        EdgeRecord { task_id: consumer, producer, cause: cause as u16, arg_index, ..EdgeRecord::default() }
    }

    /// The task that waits.
    pub const fn consumer(&self) -> u64 {
        self.task_id
    }
}
