//! Offsets of one lane's words in the region. Computed from the host's own geometry, never read from the
//! region.

use std::mem::offset_of;

use tensortap_abi::{DumpBufferHeader, DumpBufferState, DumpGeometry, DumpRecord, DumpSetupHeader};

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = size_of::<DumpRecord>();

/// Offset of the host's heartbeat.
pub(crate) const HEARTBEAT: u64 = offset_of!(DumpSetupHeader, heartbeat) as u64;
/// Offset of the word that makes producers discard.
pub(crate) const DISCARD: u64 = offset_of!(DumpSetupHeader, discard) as u64;

/// Offsets of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOffsets {
    geometry: DumpGeometry,
    lane: u32,
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* pub(crate) fn $name(self) -> u64 {
            self.state() + offset_of!(DumpBufferState, $name) as u64
        })+
    };
}

impl LaneOffsets {
    pub(crate) fn new(geometry: DumpGeometry, lane: u32) -> LaneOffsets {
        LaneOffsets { geometry, lane }
    }

    /// The lane's [`DumpBufferState`].
    pub(crate) fn state(self) -> u64 {
        let index = u64::from(self.lane);
        self.geometry.states_offset() + index * size_of::<DumpBufferState>() as u64
    }

    words! {
        /// Written by the device.
        write_cursor,
        /// Written by the device.
        current_buffer,
        /// Written by the device.
        ready_pushed,
        /// Written by the device.
        free_popped,
        /// Written by the device.
        leases,
        /// Written by the device.
        waits,
        /// Written by the device.
        arena_wanted,
        /// Written by the host.
        consumed_cursor,
        /// Written by the host.
        ready_popped,
        /// Written by the host.
        free_pushed,
        /// Written by the host.
        acknowledged,
        /// Written by the host.
        arena_limit,
    }

    /// Number of buffers of the lane.
    pub(crate) fn buffers(self) -> u32 {
        self.geometry.buffers
    }

    /// Number of records of a buffer.
    pub(crate) fn records(self) -> u32 {
        self.geometry.records
    }

    /// The entries of the free queue, `u32` each.
    pub(crate) fn free_entries(self) -> u64 {
        self.geometry.queues_offset() + u64::from(self.lane) * self.geometry.queue_bytes()
    }

    /// The entries of the ready queue, `u32` each.
    pub(crate) fn ready_entries(self) -> u64 {
        self.free_entries() + u64::from(self.geometry.buffers) * size_of::<u32>() as u64
    }

    /// Header of a buffer.
    pub(crate) fn buffer(self, number: u32) -> u64 {
        let index = u64::from(self.lane) * u64::from(self.geometry.buffers) + u64::from(number);
        self.geometry.buffers_offset() + index * self.geometry.buffer_bytes()
    }

    /// The word that counts the readable records of a buffer.
    pub(crate) fn committed(self, number: u32) -> u64 {
        self.buffer(number) + offset_of!(DumpBufferHeader, committed) as u64
    }

    /// A record of a buffer.
    pub(crate) fn record(self, number: u32, index: u64) -> u64 {
        self.buffer(number) + size_of::<DumpBufferHeader>() as u64 + index * RECORD_BYTES as u64
    }

    /// The arena byte of a position.
    pub(crate) fn arena(self, position: u64) -> u64 {
        let arena_bytes = self.geometry.arena_bytes;
        self.geometry.arenas_offset() + u64::from(self.lane) * arena_bytes + position % arena_bytes
    }
}
