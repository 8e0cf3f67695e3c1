//! The parts of the region and their offsets.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{DeviceRange, DumpFilter, DumpRecord, assert_layout};

/// First word of [`DumpSetupHeader`]: "DUMP".
pub const DUMP_MAGIC: u32 = 0x4455_4D50;
/// Version of the region's layout.
pub const DUMP_LAYOUT_VERSION: u32 = 4;
/// Payloads of at least this size are aligned to [`LARGE_PAYLOAD_ALIGN`] in arena and file.
pub const LARGE_PAYLOAD_BYTES: u64 = 64 << 10;
/// Alignment of large payloads.
pub const LARGE_PAYLOAD_ALIGN: u64 = 4096;
/// Alignment of small payloads.
pub const SMALL_PAYLOAD_ALIGN: u64 = 64;
/// Maximum number of lanes of a region.
pub const MAX_LANES: u32 = 1024;
/// Flag of a region: a process records itself in it. Addresses in the header are then offsets in the memory
/// file of the region, wherever it is mapped. Tensor addresses are the process's own.
pub const REGION_OF_PROCESS: u64 = 1;

/// Numbers that the recorders of a region hand out, each kind from 1. Libraries of one process share them, so
/// that a number has one meaning in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Tasks to which the program gave no id.
    Task = 0,
    /// Strings.
    String = 1,
    /// Scopes.
    Scope = 2,
    /// Kernels.
    Kernel = 3,
    /// Queues.
    Queue = 4,
    /// Steps.
    Step = 5,
    /// Modules.
    Module = 6,
}

/// The header at `dump_data_base`. The host writes it before the launch. Afterwards only its last two cache
/// lines change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpSetupHeader {
    /// [`DUMP_MAGIC`].
    pub magic: u32,
    /// [`DUMP_LAYOUT_VERSION`].
    pub layout_version: u32,
    /// Distinguishes runs within one process.
    pub run_id: u64,
    /// Lanes, at most [`MAX_LANES`].
    pub lane_count: u32,
    /// [`DumpLevel`] tag.
    pub level: u32,
    /// Records of each buffer.
    pub records_per_buffer: u32,
    /// Buffers of each lane.
    pub buffers_per_lane: u32,
    /// Bytes of each lane's arena, a multiple of [`LARGE_PAYLOAD_ALIGN`].
    pub arena_bytes: u64,
    /// [`DumpPolicy`] tag.
    pub policy: u32,
    /// [`DumpCollect`] tag.
    pub collect: u32,
    /// Silence of the host's heartbeat after which the device drops data; see the loss policy.
    pub liveness_ms: u64,
    /// [`REGION_OF_PROCESS`] or zero.
    pub flags: u64,
    /// [`DumpBufferState`] per lane.
    pub states: DeviceRange,
    /// Per lane, free queue then ready queue: `buffers_per_lane` `u32` each.
    pub queues: DeviceRange,
    /// Per lane, `buffers_per_lane` buffers of [`DumpBufferHeader`] and records.
    pub buffers: DeviceRange,
    /// Per lane, the arena.
    pub arenas: DeviceRange,
    /// The filter.
    pub filter: DumpFilter,
    /// Zero.
    pub reserved1: [u64; 7],
    /// Host: incremented at least every 50 ms while the host is alive.
    pub heartbeat: u64,
    /// Host: 1 if the host accepts no more data; producers then discard data without waiting.
    pub discard: u64,
    /// Device: tasks that passed the filter so far, for `first_tasks`.
    pub tasks_captured: u64,
    /// Device: payload bytes requested so far, for `max_bytes`.
    pub bytes_captured: u64,
    /// Device: lanes up to the last one in which an enclosing task was ever noted. 0 in a program without
    /// tasks that contain others.
    pub enclosure_lanes: u64,
    /// Zero.
    pub reserved2: [u64; 3],
    /// Device: numbers handed out so far, by [`NumberKind`].
    pub numbers: [u64; 8],
}
assert_layout!(DumpSetupHeader, size 640, align 64,
    magic @ 0, layout_version @ 4, run_id @ 8, lane_count @ 16, level @ 20, records_per_buffer @ 24,
    buffers_per_lane @ 28, arena_bytes @ 32, policy @ 40, collect @ 44, liveness_ms @ 48, flags @ 56, states @ 64, queues @ 80,
    buffers @ 96, arenas @ 112, filter @ 128, heartbeat @ 512, discard @ 520, tasks_captured @ 528,
    bytes_captured @ 536, enclosure_lanes @ 544, numbers @ 576);

/// State of one lane: one cache line that the device writes, one that the host writes, and two of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpBufferState {
    /// Device: arena position after the last byte handed out.
    pub write_cursor: u64,
    /// Device: number of the buffer being filled plus one; 0 before the first.
    pub current_buffer: u64,
    /// Device: entries ever pushed to the ready queue.
    pub ready_pushed: u64,
    /// Device: entries ever popped from the free queue.
    pub free_popped: u64,
    /// Device: how often the lane changed hands. 0 before the first lease, odd while a thread records in
    /// it. Sequence numbers, positions and counters continue with the next holder.
    pub leases: u64,
    /// Device: sequence number of the next record; stored when the lane is returned.
    pub next_seq: u64,
    /// Device: incremented at least every 50 ms while the thread waits for the host to release something.
    pub waits: u64,
    /// Device: the bytes of the arena in use when it last found no space; 0 before the first time.
    pub arena_wanted: u64,

    /// Host: arena position below which every byte is stored; the device may reuse it.
    pub consumed_cursor: u64,
    /// Host: entries ever popped from the ready queue.
    pub ready_popped: u64,
    /// Host: entries ever pushed to the free queue.
    pub free_pushed: u64,
    /// Host: records acknowledged, by sequence number.
    pub acknowledged: u64,
    /// Host: how many bytes of the arena the device may use, a multiple of [`LARGE_PAYLOAD_ALIGN`]. It only grows.
    /// 0 means all.
    pub arena_limit: u64,
    /// Zero.
    pub reserved1: [u64; 3],

    /// Device: records committed.
    pub records: u64,
    /// Device: payload bytes copied or hashed.
    pub payload_bytes: u64,
    /// Device: time spent capturing and waiting for the dump, on the critical path.
    pub held_up_ns: u64,
    /// Device: records dropped because no record buffer was free.
    pub dropped_no_buffer: u64,
    /// Device: records dropped because no arena space was free.
    pub dropped_no_space: u64,
    /// Device: records dropped because the host was gone or its files were full.
    pub dropped_no_host: u64,
    /// Device: payload bytes of dropped records.
    pub dropped_bytes: u64,
    /// Zero.
    pub reserved2: u64,

    /// Device: arguments that a filter excluded.
    pub filtered_records: u64,
    /// Device: payload bytes that a filter or cap excluded.
    pub filtered_bytes: u64,
    /// Device: a thread of the process whose enclosing task is noted here; 0 for none. It need not be the
    /// thread that holds the lane.
    pub enclosed_thread: u64,
    /// Device: the innermost open task that contains what this thread submits; 0 for none.
    pub enclosing_task: u64,
    /// Zero.
    pub reserved3: [u64; 4],
}
assert_layout!(DumpBufferState, size 256, align 64,
    write_cursor @ 0, current_buffer @ 8, ready_pushed @ 16, free_popped @ 24, leases @ 32, next_seq @ 40, waits @ 48,
    arena_wanted @ 56, consumed_cursor @ 64,
    ready_popped @ 72, free_pushed @ 80, acknowledged @ 88, arena_limit @ 96, records @ 128, payload_bytes @ 136, held_up_ns @ 144,
    dropped_no_buffer @ 152, dropped_no_space @ 160, dropped_no_host @ 168, dropped_bytes @ 176,
    filtered_records @ 192, filtered_bytes @ 200, enclosed_thread @ 208, enclosing_task @ 216);

/// Header before a buffer's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpBufferHeader {
    /// The run id of the region's header.
    pub run_id: u64,
    /// Sequence number of the first record. The others follow in order.
    pub first_seq: u64,
    /// Number of the lane.
    pub lane: u64,
    /// Number of records that the host may read; stored with release after each record.
    pub committed: u64,
    /// Zero.
    pub reserved: [u64; 4],
}
assert_layout!(DumpBufferHeader, size 64, align 64, run_id @ 0, first_seq @ 8, lane @ 16, committed @ 24);

/// Sizes of a region and the offsets of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpGeometry {
    /// Number of lanes: how many threads can record at a time.
    pub lanes: u32,
    /// Buffers of each lane.
    pub buffers: u32,
    /// Records of each buffer.
    pub records: u32,
    /// Bytes of each arena.
    pub arena_bytes: u64,
}

impl DumpGeometry {
    /// Bytes of one buffer with its header.
    pub const fn buffer_bytes(self) -> u64 {
        (size_of::<DumpBufferHeader>() + self.records as usize * size_of::<DumpRecord>()) as u64
    }

    /// Bytes of one lane's two queues, a multiple of a cache line.
    pub const fn queue_bytes(self) -> u64 {
        (2 * self.buffers as u64 * size_of::<u32>() as u64).next_multiple_of(crate::CACHE_LINE_BYTES as u64)
    }

    /// Offset of the states from the header.
    pub const fn states_offset(self) -> u64 {
        size_of::<DumpSetupHeader>() as u64
    }

    /// Offset of the queues.
    pub const fn queues_offset(self) -> u64 {
        self.states_offset() + self.lanes as u64 * size_of::<DumpBufferState>() as u64
    }

    /// Offset of the record buffers.
    pub const fn buffers_offset(self) -> u64 {
        self.queues_offset() + self.lanes as u64 * self.queue_bytes()
    }

    /// Offset of the arenas, page aligned.
    pub const fn arenas_offset(self) -> u64 {
        let end = self.buffers_offset() + self.lanes as u64 * self.buffers as u64 * self.buffer_bytes();
        end.next_multiple_of(LARGE_PAYLOAD_ALIGN)
    }

    /// Bytes of the whole region. It starts on a page.
    pub const fn bytes(self) -> u64 {
        self.arenas_offset() + self.lanes as u64 * self.arena_bytes
    }

    /// Alignment of a payload of this size in arena and file.
    pub const fn payload_align(payload_bytes: u64) -> u64 {
        if payload_bytes >= LARGE_PAYLOAD_BYTES { LARGE_PAYLOAD_ALIGN } else { SMALL_PAYLOAD_ALIGN }
    }
}
