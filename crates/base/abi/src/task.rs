use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{MAX_PASSED_TENSORS, MAX_SCALARS, MAX_TENSORS, SLOTS_PER_TASK, TensorDesc, assert_layout};

/// Identity of a task: `ring << 32
/// local` if the runtime has rings, otherwise a plain index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

impl TaskId {
    /// The id of the `local`-th task of a ring.
    pub const fn in_ring(ring: u32, local: u32) -> TaskId {
        TaskId((ring as u64) << 32 | local as u64)
    }

    /// The ring; zero if the runtime has none.
    pub const fn ring(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Position in its ring, or index of the task.
    #[expect(clippy::cast_possible_truncation, reason = "only the low half is needed")]
    pub const fn local(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// Maximum number of tasks in a fixed task array.
pub const MAX_ARRAY_TASKS: usize = 131_072;

/// One node of the graph as the device stores it. Its payload is at `payload_addr`.
///
/// The first cache line holds what scheduler threads share while the task runs (accessed through atomics).
/// The second holds what the submission wrote once, before the task was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct TaskSlot {
    /// [`TaskId`].
    pub task_id: u64,
    /// Predecessors not yet complete, plus one until the task is published.
    pub pending: u32,
    /// Head of the list of edges to successors; see the fan-out protocol.
    pub fanout: u32,
    /// Dispatches (subtask slots times blocks) not yet finished.
    pub remaining: u32,
    /// Number of users that still need the slot or the memory it owns: its execution, its scope, and each
    /// task that uses that memory.
    pub refs: u32,
    /// Next block to dispatch; only the scheduler that took the task from the ready queue touches it.
    pub next_block: u32,
    /// [`TaskState`] tag.
    pub state: u32,
    /// Device time of the first dispatch, when the task is captured.
    pub dispatched_ns: u64,
    /// Whether the dump captures the task. Decided before its first dispatch, read after its last
    /// completion.
    pub captured: u32,
    /// Number, plus one, of the core of its first dispatch, if the task is captured; 0 before.
    pub core: u32,
    /// Time that its capture has taken so far, in nanoseconds.
    pub capture_ns: u64,
    /// Not used.
    pub reserved0: [u32; 2],

    /// Device address of the payload.
    pub payload_addr: u64,
    /// Marked arguments, one bit per `arg_index`; all ones for the whole task.
    pub dump_marks: u64,
    /// Metadata registered for the dump: a [`TensorDesc`] per tensor argument; 0 for none.
    pub tensor_info_addr: u64,
    /// Tensor arguments with registered metadata, one bit each.
    pub tensor_info_mask: u32,
    /// Number of blocks: the task is dispatched once per block.
    pub block_num: u32,
    /// Kernel of each subtask slot, [`NO_KERNEL`] where inactive.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// First of its incoming edges in the edge table.
    pub edges_first: u32,
    /// Number of incoming edges.
    pub edges_len: u32,
    /// Number of tensors in the payload.
    pub tensor_count: u8,
    /// Number of scalars in the payload.
    pub scalar_count: u8,
    /// Active subtask slots, one bit each.
    pub active: u8,
    /// Not used.
    pub reserved1: u8,
    /// String id of the task's name, if it is recorded; 0 for none.
    pub task_name: u32,
    /// The scope it was submitted in, if it is recorded; 0 for none.
    pub scope: u32,

    /// Role tag of each tensor argument.
    pub roles: [u8; MAX_PASSED_TENSORS],
    /// Slots that own the memory of tensor arguments, for releasing them. [`NO_SLOT`] ends the list.
    pub owners: [u32; MAX_TENSORS],
    /// Not used.
    pub reserved2: [u32; 8],
}

assert_layout!(TaskSlot, size 256, align 64,
    task_id @ 0, pending @ 8, fanout @ 12, remaining @ 16, refs @ 20, next_block @ 24, state @ 28,
    dispatched_ns @ 32, captured @ 40, core @ 44, capture_ns @ 48, payload_addr @ 64, dump_marks @ 72, tensor_info_addr @ 80, tensor_info_mask @ 88, block_num @ 92, func_id @ 96,
    edges_first @ 108, edges_len @ 112, tensor_count @ 116, scalar_count @ 117, active @ 118, task_name @ 120, scope @ 124,
    roles @ 128, owners @ 160, reserved2 @ 224);

/// `func_id` of an inactive subtask slot.
pub const NO_KERNEL: u32 = u32::MAX;
/// Index that means no task slot.
pub const NO_SLOT: u32 = u32::MAX;

/// Progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TaskState {
    /// The slot holds no task.
    Free = 0,
    /// Added, not yet published.
    Building = 1,
    /// Published; waits for predecessors or for a core.
    Published = 2,
    /// At least one block was dispatched.
    Running = 3,
    /// Complete; successors were released.
    Complete = 4,
}

impl TaskState {
    /// The state of a tag; `None` if the tag is damaged.
    pub const fn from_tag(tag: u32) -> Option<TaskState> {
        match tag {
            0 => Some(TaskState::Free),
            1 => Some(TaskState::Building),
            2 => Some(TaskState::Published),
            3 => Some(TaskState::Running),
            4 => Some(TaskState::Complete),
            _ => None,
        }
    }
}

/// One dependency. It belongs to the consumer, whose slot outlives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EdgeNode {
    /// Next edge in the producer's fan-out list.
    pub next: u32,
    /// Task slot that waits.
    pub consumer: u32,
    /// Task slot that it waits for.
    pub producer: u32,
    /// [`EdgeCause`] tag in the low half, consumer's `arg_index` in the high half.
    pub cause: u32,
}
assert_layout!(EdgeNode, size 16, align 4, next @ 0, consumer @ 4, producer @ 8, cause @ 12);

/// Why one task waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum EdgeCause {
    /// The orchestration declared it.
    Explicit = 0,
    /// Reads bytes that the other writes.
    ReadAfterWrite = 1,
    /// Writes bytes that the other writes.
    WriteAfterWrite = 2,
    /// Writes bytes that the other reads.
    WriteAfterRead = 3,
    /// Was enqueued after it into a queue that keeps its order.
    QueueOrder = 4,
    /// Waits for its event, or for a barrier that waits for it.
    Event = 5,
    /// Was submitted after the host had waited for it to complete.
    HostWait = 6,
}

impl EdgeCause {
    /// Every cause, by its tag.
    pub const ALL: [EdgeCause; 7] = [
        EdgeCause::Explicit,
        EdgeCause::ReadAfterWrite,
        EdgeCause::WriteAfterWrite,
        EdgeCause::WriteAfterRead,
        EdgeCause::QueueOrder,
        EdgeCause::Event,
        EdgeCause::HostWait,
    ];

    /// The cause of a tag; `None` if the tag is damaged.
    pub fn from_tag(tag: u32) -> Option<EdgeCause> {
        EdgeCause::ALL.into_iter().find(|&cause| cause as u32 == tag)
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            EdgeCause::Explicit => "explicit",
            EdgeCause::ReadAfterWrite => "read_after_write",
            EdgeCause::WriteAfterWrite => "write_after_write",
            EdgeCause::WriteAfterRead => "write_after_read",
            EdgeCause::QueueOrder => "queue_order",
            EdgeCause::Event => "event",
            EdgeCause::HostWait => "host_wait",
        }
    }

    /// Packs the cause with the consumer's argument, as [`EdgeNode::cause`] holds it.
    pub const fn pack(self, arg_index: u16) -> u32 {
        (arg_index as u32) << 16 | self as u32
    }
}

/// Offsets of the parts of a payload, relative to `payload_addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadLayout {
    /// Number of tensors. Their [`TensorDesc`]s start at offset 0.
    pub tensor_count: usize,
    /// Number of scalars.
    pub scalar_count: usize,
}

impl PayloadLayout {
    /// Bytes of the largest payload of a scene, a multiple of a cache line.
    pub const MAX_BYTES: usize =
        PayloadLayout { tensor_count: MAX_TENSORS, scalar_count: MAX_SCALARS }.bytes();

    /// Offset of the first scalar's 64 raw bits.
    pub const fn scalars_offset(self) -> usize {
        self.tensor_count * size_of::<TensorDesc>()
    }

    /// Offset of the first scalar's dtype tag. Each tag has one byte.
    pub const fn scalar_dtypes_offset(self) -> usize {
        self.scalars_offset() + self.scalar_count * size_of::<u64>()
    }

    /// Size of the payload, a multiple of a cache line.
    pub const fn bytes(self) -> usize {
        (self.scalar_dtypes_offset() + self.scalar_count).next_multiple_of(crate::CACHE_LINE_BYTES)
    }
}
const _: () = assert!(PayloadLayout::MAX_BYTES == 3392);

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ring_and_local_round_trip_through_a_task_id() {
        let id = TaskId::in_ring(3, u32::MAX);
        assert_eq!((id.ring(), id.local()), (3, u32::MAX));
        assert_eq!(TaskId(17).to_string(), "0x0000000000000011");
    }

    #[test]
    fn payload_parts_follow_one_another() {
        let layout = PayloadLayout { tensor_count: 2, scalar_count: 3 };
        assert_eq!(layout.scalars_offset(), 384);
        assert_eq!(layout.scalar_dtypes_offset(), 408);
        assert_eq!(layout.bytes(), 448);
    }
}
