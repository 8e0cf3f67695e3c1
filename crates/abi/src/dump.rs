//! The dump region: how a device thread hands records and payloads to the host.
//!
//! The region has one header, and per device thread a [`DumpBufferState`], two queues of buffer numbers, a pool of
//! record buffers and a circular arena. All of it is written by one side and only read by the other, field by field; see
//! each field for whose it is. Positions in an arena are monotonic and count bytes; the byte lies at `position % arena_bytes`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{DeviceRange, MAX_DIMS, SLOTS_PER_TASK, assert_layout};

/// First word of [`DumpSetupHeader`]: "DUMP".
pub const DUMP_MAGIC: u32 = 0x4455_4D50;
/// Version of the region's layout.
pub const DUMP_LAYOUT_VERSION: u32 = 1;
/// Payloads this large lie at multiples of [`LARGE_PAYLOAD_ALIGN`] in arena and file.
pub const LARGE_PAYLOAD_BYTES: u64 = 64 << 10;
/// Alignment of large payloads.
pub const LARGE_PAYLOAD_ALIGN: u64 = 4096;
/// Alignment of small payloads.
pub const SMALL_PAYLOAD_ALIGN: u64 = 64;
/// Arguments a filter or a mark can name, a bit each: 16 tensors and 32 scalars.
pub const MAX_ARGS: usize = 48;

/// How much is captured (`--dump-tensor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DumpLevel {
    /// Nothing.
    Off = 0,
    /// Marked arguments only.
    Marked = 1,
    /// Every tensor and scalar.
    Full = 2,
    /// Metadata of every argument, payload of marked ones.
    Meta = 3,
    /// Metadata, hash and statistics of every argument, no payload.
    Hash = 4,
}

impl DumpLevel {
    /// Every level.
    pub const ALL: [DumpLevel; 5] =
        [DumpLevel::Off, DumpLevel::Marked, DumpLevel::Full, DumpLevel::Meta, DumpLevel::Hash];

    /// Spelled as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpLevel::Off => "off",
            DumpLevel::Marked => "marked",
            DumpLevel::Full => "full",
            DumpLevel::Meta => "meta",
            DumpLevel::Hash => "hash",
        }
    }

    /// The level of a number, `None` when there is none.
    pub fn from_tag(tag: u32) -> Option<DumpLevel> {
        DumpLevel::ALL.into_iter().find(|l| *l as u32 == tag)
    }

    /// The level of a name or a number.
    pub fn parse(text: &str) -> Option<DumpLevel> {
        DumpLevel::ALL
            .into_iter()
            .find(|l| l.name() == text)
            .or_else(|| DumpLevel::from_tag(text.parse().ok()?))
    }
}

/// What a full arena or queue does to the producer (`--dump-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum DumpPolicy {
    /// It waits until the host has drained.
    #[default]
    Block = 0,
    /// It drops what does not fit, and counts it.
    Drop = 1,
}

impl DumpPolicy {
    /// Spelled as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpPolicy::Block => "block",
            DumpPolicy::Drop => "drop",
        }
    }
}

/// When the host reads the region (`--dump-collect`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum DumpCollect {
    /// While the device runs.
    #[default]
    Live = 0,
    /// Once, after the run: nothing blocks, a full record pool drops new records, the arena overwrites old payloads.
    Batch = 1,
}

impl DumpCollect {
    /// Spelled as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpCollect::Live => "live",
            DumpCollect::Batch => "batch",
        }
    }
}

/// Narrows what is captured. Evaluated by the device, so that what is filtered out costs next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DumpFilter {
    /// Task ids, first and last of each range; the first `task_ranges` count. None: every task.
    pub tasks: [[u64; 2]; DumpFilter::MAX_TASK_RANGES],
    /// Ranges in use.
    pub task_ranges: u64,
    /// `func_id`s below 256, a bit each; a task passes when any of its kernels does.
    pub funcs: [u64; 4],
    /// `arg_index`es, a bit each.
    pub args: u64,
    /// [`DumpStage`]s, a bit per tag.
    pub stages: u64,
    /// Tasks captured at the most, the first to be dispatched.
    pub first_tasks: u64,
    /// Payload bytes captured at the most, the first.
    pub max_bytes: u64,
}
assert_layout!(DumpFilter, size 328, align 8,
    tasks @ 0, task_ranges @ 256, funcs @ 264, args @ 296, stages @ 304, first_tasks @ 312, max_bytes @ 320);

impl DumpFilter {
    /// Ranges of task ids a filter can hold.
    pub const MAX_TASK_RANGES: usize = 16;

    /// Lets everything pass.
    pub const ALL: DumpFilter = DumpFilter {
        tasks: [[0; 2]; DumpFilter::MAX_TASK_RANGES],
        task_ranges: 0,
        funcs: [u64::MAX; 4],
        args: u64::MAX,
        stages: u64::MAX,
        first_tasks: u64::MAX,
        max_bytes: u64::MAX,
    };
}

/// At `dump_data_base`. The host writes it before launch; afterwards only the last line changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpSetupHeader {
    /// [`DUMP_MAGIC`].
    pub magic: u32,
    /// [`DUMP_LAYOUT_VERSION`].
    pub layout_version: u32,
    /// Tells one run from another in one process.
    pub run_id: u64,
    /// Device threads that record: the orchestrator, then the schedulers.
    pub thread_count: u32,
    /// [`DumpLevel`] tag.
    pub level: u32,
    /// Records of each buffer.
    pub records_per_buffer: u32,
    /// Buffers of each thread.
    pub buffers_per_thread: u32,
    /// Bytes of each thread's arena, a multiple of [`LARGE_PAYLOAD_ALIGN`].
    pub arena_bytes: u64,
    /// [`DumpPolicy`] tag.
    pub policy: u32,
    /// [`DumpCollect`] tag.
    pub collect: u32,
    /// Silence of the host's heartbeat after which the device drops; see the loss policy.
    pub liveness_ms: u64,
    /// Zero.
    pub reserved0: u64,
    /// [`DumpBufferState`] per thread.
    pub states: DeviceRange,
    /// Per thread, free queue then ready queue: `buffers_per_thread` `u32` each.
    pub queues: DeviceRange,
    /// Per thread, `buffers_per_thread` buffers of [`DumpBufferHeader`] and records.
    pub buffers: DeviceRange,
    /// Per thread, the arena.
    pub arenas: DeviceRange,
    /// What passes.
    pub filter: DumpFilter,
    /// Zero.
    pub reserved1: [u64; 7],
    /// Host: counts up at least every 50 ms while the host lives.
    pub heartbeat: u64,
    /// Host: 1 when the files can take no more; producers then discard without waiting.
    pub discard: u64,
    /// Device: tasks that passed the filter so far, for `first_tasks`.
    pub tasks_captured: u64,
    /// Device: payload bytes asked for so far, for `max_bytes`.
    pub bytes_captured: u64,
    /// Zero.
    pub reserved2: [u64; 4],
}
assert_layout!(DumpSetupHeader, size 576, align 64,
    magic @ 0, layout_version @ 4, run_id @ 8, thread_count @ 16, level @ 20, records_per_buffer @ 24,
    buffers_per_thread @ 28, arena_bytes @ 32, policy @ 40, collect @ 44, liveness_ms @ 48, states @ 64, queues @ 80,
    buffers @ 96, arenas @ 112, filter @ 128, heartbeat @ 512, discard @ 520, tasks_captured @ 528,
    bytes_captured @ 536);

/// One thread's half of the dump: a line the device writes, a line the host writes, two lines of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpBufferState {
    /// Device: arena position behind the last byte handed out.
    pub write_cursor: u64,
    /// Device: number of the buffer being filled plus one; 0 before the first.
    pub current_buffer: u64,
    /// Device: entries ever pushed to the ready queue.
    pub ready_pushed: u64,
    /// Device: entries ever popped from the free queue.
    pub free_popped: u64,
    /// Device: 1 once the thread has recorded all it will.
    pub flushed: u64,
    /// Zero.
    pub reserved0: [u64; 3],

    /// Host: arena position below which every byte is safe; the device may reuse it.
    pub consumed_cursor: u64,
    /// Host: entries ever popped from the ready queue.
    pub ready_popped: u64,
    /// Host: entries ever pushed to the free queue.
    pub free_pushed: u64,
    /// Host: records acknowledged, by sequence number.
    pub acknowledged: u64,
    /// Zero.
    pub reserved1: [u64; 4],

    /// Device: records committed.
    pub records: u64,
    /// Device: payload bytes copied or hashed.
    pub payload_bytes: u64,
    /// Device: time spent capturing and waiting for the dump, on the critical path.
    pub held_up_ns: u64,
    /// Device: records dropped for want of a record buffer.
    pub dropped_no_buffer: u64,
    /// Device: records dropped for want of arena space.
    pub dropped_no_space: u64,
    /// Device: records dropped because the host was gone or its files full.
    pub dropped_no_host: u64,
    /// Device: payload bytes of dropped records.
    pub dropped_bytes: u64,
    /// Zero.
    pub reserved2: u64,

    /// Device: arguments that a filter kept out.
    pub filtered_records: u64,
    /// Device: payload bytes that a filter or cap kept out.
    pub filtered_bytes: u64,
    /// Zero.
    pub reserved3: [u64; 6],
}
assert_layout!(DumpBufferState, size 256, align 64,
    write_cursor @ 0, current_buffer @ 8, ready_pushed @ 16, free_popped @ 24, flushed @ 32, consumed_cursor @ 64,
    ready_popped @ 72, free_pushed @ 80, acknowledged @ 88, records @ 128, payload_bytes @ 136, held_up_ns @ 144,
    dropped_no_buffer @ 152, dropped_no_space @ 160, dropped_no_host @ 168, dropped_bytes @ 176,
    filtered_records @ 192, filtered_bytes @ 200);

/// In front of a buffer's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpBufferHeader {
    /// The header's run id.
    pub run_id: u64,
    /// Sequence number of the first record; the others follow.
    pub first_seq: u64,
    /// Device thread.
    pub thread: u64,
    /// Records the host may read; stored with release after each record.
    pub committed: u64,
    /// Zero.
    pub reserved: [u64; 4],
}
assert_layout!(DumpBufferHeader, size 64, align 64, run_id @ 0, first_seq @ 8, thread @ 16, committed @ 24);

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
    /// A dispatch; its `args[]` lie in the arena.
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
}

impl UncapturedReason {
    /// The reason of a tag, `None` when damaged.
    pub const fn from_tag(tag: u8) -> Option<UncapturedReason> {
        match tag {
            1 => Some(UncapturedReason::NoTensorInfo),
            2 => Some(UncapturedReason::Contradiction),
            3 => Some(UncapturedReason::BadDescriptor),
            4 => Some(UncapturedReason::NotInSignature),
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

/// Sizes of a region, and where its parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpGeometry {
    /// Device threads that record.
    pub threads: u32,
    /// Buffers of each.
    pub buffers: u32,
    /// Records of each buffer.
    pub records: u32,
    /// Bytes of each arena.
    pub arena_bytes: u64,
}

impl DumpGeometry {
    /// Bytes of one buffer with its header.
    pub const fn buffer_bytes(self) -> u64 {
        (size_of::<DumpBufferHeader>() + self.records as usize * size_of::<TensorDumpRecord>()) as u64
    }

    /// Bytes of one thread's two queues, a multiple of a cache line.
    pub const fn queue_bytes(self) -> u64 {
        (2 * self.buffers as u64 * size_of::<u32>() as u64).next_multiple_of(crate::CACHE_LINE_BYTES as u64)
    }

    /// Offset of the states from the header.
    pub const fn states_offset(self) -> u64 {
        size_of::<DumpSetupHeader>() as u64
    }

    /// Offset of the queues.
    pub const fn queues_offset(self) -> u64 {
        self.states_offset() + self.threads as u64 * size_of::<DumpBufferState>() as u64
    }

    /// Offset of the record buffers.
    pub const fn buffers_offset(self) -> u64 {
        self.queues_offset() + self.threads as u64 * self.queue_bytes()
    }

    /// Offset of the arenas, on a page.
    pub const fn arenas_offset(self) -> u64 {
        let end = self.buffers_offset() + self.threads as u64 * self.buffers as u64 * self.buffer_bytes();
        end.next_multiple_of(LARGE_PAYLOAD_ALIGN)
    }

    /// Bytes of the whole region; it starts on a page.
    pub const fn bytes(self) -> u64 {
        self.arenas_offset() + self.threads as u64 * self.arena_bytes
    }

    /// Alignment that a payload of this size has in arena and file.
    pub const fn payload_align(payload_bytes: u64) -> u64 {
        if payload_bytes >= LARGE_PAYLOAD_BYTES { LARGE_PAYLOAD_ALIGN } else { SMALL_PAYLOAD_ALIGN }
    }
}
