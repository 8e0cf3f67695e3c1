//! Records of what runs: tasks, their dispatches, and what they wait for.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::{EdgeCause, SLOTS_PER_TASK};

/// What a task does.
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
    /// Launches a graph that was built before.
    Graph = 5,
    /// An operator of a framework.
    Operator = 6,
    /// Moves and computes nothing: waits for others, and others for it.
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

    /// The operation of a tag, `None` when damaged.
    pub fn from_tag(tag: u8) -> Option<Operation> {
        Operation::ALL.into_iter().find(|&operation| operation as u8 == tag)
    }

    /// The operation of a [name](Operation::name), `None` when there is none.
    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Spelled as in JSON.
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
    /// One task at one of its stages: what runs, and when. Times are those of the device's monotonic clock, 0 when not known.
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
        /// How long it was held up so far to be captured.
        capture_ns: u64 = 56,
        /// Tensors among its arguments.
        tensor_count: u32 = 64,
        /// Scalars among its arguments.
        scalar_count: u32 = 68,
        /// Queue that it was submitted to; 0 for none.
        queue: u32 = 72,
        /// Step that it belongs to; 0 for none.
        step: u32 = 76,
        /// String id of its name; 0 for none.
        name: u32 = 80,
        /// Scope that it lies in; 0 for none.
        scope: u32 = 84,
        /// Module that its code comes from; 0 when not known.
        module: u32 = 88,
        /// String id of the source file that submitted it; 0 when not known.
        source_file: u32 = 92,
        /// Line in that file, from 1; 0 when not known.
        source_line: u32 = 96,
        /// [`Operation`] tag.
        operation: u8 = 100,
        /// Dimensions that the launch of a kernel has, 1 to 3; 0 when not known.
        work_dims: u8 = 101,
        /// Number, plus one, of the core that it was first dispatched to: that of its first block and first active slot. 0 when
        /// not known, as before its dispatch.
        core: u16 = 102,
        /// Work groups in each direction; 0 when not known.
        grid: [u32; 3] = 104,
        /// Work items of a group in each direction; 0 when not known, or left to the device.
        group: [u32; 3] = 116,
        /// With [`RECORD_HAS_PARENT`]: the task that submitted it.
        parent_task: u64 = 128,
        /// With [`RECORD_EXTENDED`]: work items in each direction, which groups need not divide; 0 when not known.
        global_size: [u64; 3] = 136,
        /// With [`RECORD_EXTENDED`]: number of the first work item in each direction.
        global_offset: [u64; 3] = 160,
        /// With [`RECORD_LAUNCH_DETAILS`]: bytes that each work group has for itself beside those which its kernel declares.
        shared_bytes: u32 = 184,
        /// With [`RECORD_LAUNCH_DETAILS`]: work groups of a cluster in each direction; 0 for none.
        cluster: [u8; 3] = 188,
        /// With [`RECORD_LAUNCH_DETAILS`]: `LAUNCH_…` flags.
        launch_flags: u8 = 191,
    }
}

/// Flag of a launch: its work groups may wait for one another.
pub const LAUNCH_COOPERATIVE: u8 = 1 << 0;
/// Flag of a launch: it may begin before the one in front of it in its queue has ended.
pub const LAUNCH_EARLY: u8 = 1 << 1;
/// All of them.
pub const LAUNCH_FLAGS: u8 = LAUNCH_COOPERATIVE | LAUNCH_EARLY;

dump_record! {
    /// One (task, slot, block) handed to one core. Its `args[]` lie in the arena, as [`crate::DispatchWords`].
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
        /// Tensors in the payload: the first slots of `args[]`.
        tensor_count: u32 = 64,
        /// Scalars in the payload: the slots behind.
        scalar_count: u32 = 68,
        /// Bytes of the words.
        words_bytes: u32 = 72,
        /// Zero.
        reserved0: u32 = 76,
        /// When the scheduler handed it over; 0 when not known.
        started_ns: u64 = 80,
        /// When it completed; 0 when not known by then: a [`FinishedRecord`] says it.
        completed_ns: u64 = 88,
        /// Zero.
        reserved: [u64; 12] = 96,
    }
}

dump_record! {
    /// When one dispatch ran. Times are those of its core, right before its kernel was called and right after it returned, of the
    /// clock that everything else is timed with. It stands in the lane of the scheduler that handled the dispatch.
    FinishedRecord = Finished {
        /// Core of the device.
        core_id: u32 = 16,
        /// Subtask slot.
        subtask_id: u32 = 20,
        /// Block.
        block_idx: u32 = 24,
        /// Zero.
        reserved0: u32 = 28,
        /// When its kernel was called.
        started_ns: u64 = 32,
        /// When it returned.
        completed_ns: u64 = 40,
        /// Zero.
        reserved: [u64; 18] = 48,
    }
}

dump_record! {
    /// A dependency. The task of the head waits, at its argument of the head.
    EdgeRecord = Edge {
        /// The task that is waited for.
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
