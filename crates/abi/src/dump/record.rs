//! What one record says.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{MAX_DIMS, SLOTS_PER_TASK, assert_layout};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A tensor argument.
    Tensor = 1,
    /// A scalar argument; `payload_pos` holds its bits.
    Scalar = 2,
    /// A task that completed (or is in flight): a [`TaskDumpRecord`].
    Task = 3,
    /// A dispatch; its `args[]` lie in the arena, as [`crate::DispatchWords`].
    Dispatch = 4,
    /// A tensor argument whose payload follows in pieces; `payload_bytes` is the total.
    Begin = 5,
    /// A piece of the payload begun last by this thread; `start_offset` is its place in the payload, in bytes.
    Piece = 6,
    /// The end of the payload begun last by this thread, with its hash.
    Commit = 7,
    /// An argument that could not be captured; `start_offset` holds an [`UncapturedReason`] tag.
    Uncaptured = 8,
    /// A dependency: `task_id` waits for `address`; `arg_index`, and an `EdgeCause` tag in `stage`.
    Edge = 9,
    /// One of the orchestration's own arguments: a tensor without payload; `payload_bytes` is the size of its buffer,
    /// `arg_index` its place among them.
    OrchestrationArg = 10,
}

impl RecordKind {
    /// The kind of a tag, `None` when damaged.
    pub const fn from_tag(tag: u8) -> Option<RecordKind> {
        match tag {
            1 => Some(RecordKind::Tensor),
            2 => Some(RecordKind::Scalar),
            3 => Some(RecordKind::Task),
            4 => Some(RecordKind::Dispatch),
            5 => Some(RecordKind::Begin),
            6 => Some(RecordKind::Piece),
            7 => Some(RecordKind::Commit),
            8 => Some(RecordKind::Uncaptured),
            9 => Some(RecordKind::Edge),
            10 => Some(RecordKind::OrchestrationArg),
            _ => None,
        }
    }
}

/// When an argument was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DumpStage {
    /// Before any dispatch of the task.
    BeforeDispatch = 1,
    /// After every dispatch of the task has finished.
    AfterCompletion = 2,
}

impl DumpStage {
    /// The stage of a tag, `None` when damaged.
    pub const fn from_tag(tag: u8) -> Option<DumpStage> {
        match tag {
            1 => Some(DumpStage::BeforeDispatch),
            2 => Some(DumpStage::AfterCompletion),
            _ => None,
        }
    }

    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DumpStage::BeforeDispatch => "before_dispatch",
            DumpStage::AfterCompletion => "after_completion",
        }
    }
}

/// Why an argument could not be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UncapturedReason {
    /// No metadata was registered for it.
    NoTensorInfo = 1,
    /// Registered metadata contradicts the payload.
    Contradiction = 2,
    /// The descriptor is damaged: dtype, dimensions or range.
    BadDescriptor = 3,
    /// No kernel of the task describes it.
    NotInSignature = 4,
    /// The device died, and its memory cannot be read.
    Unreadable = 5,
    /// The device died, and it is more than the host copies from a dead one.
    TooLarge = 6,
}

impl UncapturedReason {
    /// The reason of a tag, `None` when damaged.
    pub const fn from_tag(tag: u8) -> Option<UncapturedReason> {
        match tag {
            1 => Some(UncapturedReason::NoTensorInfo),
            2 => Some(UncapturedReason::Contradiction),
            3 => Some(UncapturedReason::BadDescriptor),
            4 => Some(UncapturedReason::NotInSignature),
            5 => Some(UncapturedReason::Unreadable),
            6 => Some(UncapturedReason::TooLarge),
            _ => None,
        }
    }

    /// In words, as the manifest says it.
    pub const fn text(self) -> &'static str {
        match self {
            UncapturedReason::NoTensorInfo => "no metadata was registered for it",
            UncapturedReason::Contradiction => "the registered metadata contradicts the payload",
            UncapturedReason::BadDescriptor => "its descriptor is damaged",
            UncapturedReason::NotInSignature => "no kernel of the task describes it",
            UncapturedReason::Unreadable => "the device died and its memory cannot be read",
            UncapturedReason::TooLarge => "the device died and it is more than is copied from a dead one",
        }
    }
}

/// Flag of a record: its payload lies in the arena at `payload_pos`.
pub const RECORD_HAS_PAYLOAD: u8 = 1 << 0;
/// Flag: a [`TensorStats`] lies in the arena at `payload_pos`, and `payload_bytes` is the size of the tensor's content.
pub const RECORD_HAS_STATS: u8 = 1 << 1;
/// Flag: `hash` is that of the content.
pub const RECORD_HAS_HASH: u8 = 1 << 2;
/// Flag: the task had not completed; the content may be partial.
pub const RECORD_IN_FLIGHT: u8 = 1 << 3;
/// Flag: the payload was dropped, the metadata stays.
pub const RECORD_PAYLOAD_DROPPED: u8 = 1 << 4;
/// Flag: a filter or cap kept the payload out.
pub const RECORD_PAYLOAD_FILTERED: u8 = 1 << 5;
/// Flag: the payload is already stored under this hash and size; nothing lies in the arena.
pub const RECORD_ALREADY_STORED: u8 = 1 << 6;
/// Flag of a [`RecordKind::Commit`]: the payload is incomplete, because the arena could not take all of it.
pub const RECORD_TRUNCATED: u8 = 1 << 7;

/// One captured argument, or one step of a large one. Three cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct TensorDumpRecord {
    /// Task.
    pub task_id: u64,
    /// Arena position of the payload; the raw bits of a scalar.
    pub payload_pos: u64,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// `xxh3_128_tree4k` of the content, little endian.
    pub hash: [u8; 16],
    /// First element of the view, in elements.
    pub start_offset: u64,
    /// Device address of the buffer.
    pub address: u64,
    /// [`RecordKind`] tag.
    pub kind: u8,
    /// [`DumpStage`] tag.
    pub stage: u8,
    /// [`crate::Role`] tag.
    pub role: u8,
    /// [`crate::DType`] tag.
    pub dtype: u8,
    /// Dimensions in use.
    pub ndims: u8,
    /// `RECORD_…` flags.
    pub flags: u8,
    /// Position in the payload: tensors, then scalars.
    pub arg_index: u16,
    /// Sizes.
    pub shape: [u64; MAX_DIMS],
    /// Strides in elements.
    pub strides: [i64; MAX_DIMS],
}
assert_layout!(TensorDumpRecord, size 192, align 64,
    task_id @ 0, payload_pos @ 8, payload_bytes @ 16, hash @ 24, start_offset @ 40, address @ 48, kind @ 56, stage @ 57,
    role @ 58, dtype @ 59, ndims @ 60, flags @ 61, arg_index @ 62, shape @ 64, strides @ 128);

/// One task: what ran, and when. Same size and same place of `kind` as a [`TensorDumpRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct TaskDumpRecord {
    /// Task.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`crate::NO_KERNEL`] where inactive.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Blocks.
    pub block_num: u32,
    /// Device time of the first dispatch, from the device's monotonic clock.
    pub dispatched_ns: u64,
    /// Device time of completion; 0 for a task in flight.
    pub completed_ns: u64,
    /// Tensors in the payload.
    pub tensor_count: u32,
    /// Scalars in the payload.
    pub scalar_count: u32,
    /// Zero.
    pub reserved0: u64,
    /// [`RecordKind::Task`].
    pub kind: u8,
    /// Zero.
    pub reserved1: [u8; 4],
    /// [`RECORD_IN_FLIGHT`] or nothing.
    pub flags: u8,
    /// Zero.
    pub reserved2: u16,
    /// Zero.
    pub reserved3: [u64; 16],
}
assert_layout!(TaskDumpRecord, size 192, align 64,
    task_id @ 0, func_id @ 8, block_num @ 20, dispatched_ns @ 24, completed_ns @ 32, tensor_count @ 40,
    scalar_count @ 44, kind @ 56, flags @ 61, reserved3 @ 64);

/// Statistics of a tensor's content, for level `hash`. Taken over finite values; all zero when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TensorStats {
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub std: f64,
    /// Elements equal to zero.
    pub zeros: u64,
    /// NaN elements.
    pub nan: u64,
    /// Infinite elements.
    pub inf: u64,
    /// Elements in all.
    pub numel: u64,
}
assert_layout!(TensorStats, size 64, align 8,
    min @ 0, max @ 8, mean @ 16, std @ 24, zeros @ 32, nan @ 40, inf @ 48, numel @ 56);
