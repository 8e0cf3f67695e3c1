//! Finds the dump region in the device memory of a running host, and reads and overwrites it.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tensortap_abi::{
    DUMP_MAGIC, DumpBufferHeader, DumpBufferState, DumpGeometry, DumpRecord, DumpSetupHeader,
};

/// An open dump region. It stays open after host and device have ended.
pub struct Region {
    memory: File,
    base: u64,
    geometry: DumpGeometry,
}

/// A word of the region that can be overwritten.
pub struct FieldPosition {
    /// Its name.
    pub name: &'static str,
    /// Whether it is part of a record or of its content. A changed value there cannot be distinguished from
    /// the original.
    pub is_content: bool,
    offset: u64,
}

/// Fields of one part of the region.
type Fields = &'static [(&'static str, usize)];

macro_rules! fields {
    ($part:ty: $($field:ident)+) => { &[$((concat!(stringify!($part), ".", stringify!($field)), offset_of!($part, $field))),+] };
}

const HEADER: Fields = fields!(DumpSetupHeader: magic layout_version run_id lane_count level records_per_buffer buffers_per_lane
    arena_bytes policy collect liveness_ms flags states queues buffers arenas filter reserved1 heartbeat discard
    tasks_captured bytes_captured enclosure_lanes reserved2 numbers);
const STATE: Fields = fields!(DumpBufferState: write_cursor current_buffer ready_pushed free_popped leases next_seq waits arena_wanted
    consumed_cursor ready_popped free_pushed acknowledged arena_limit reserved1 records payload_bytes held_up_ns dropped_no_buffer
    dropped_no_space dropped_no_host dropped_bytes reserved2 filtered_records filtered_bytes enclosed_thread enclosing_task
    reserved3);
const BUFFER: Fields = fields!(DumpBufferHeader: run_id first_seq lane committed reserved);

impl Region {
    /// Finds the region by its first bytes, once it exists.
    pub fn find(host: u32) -> Option<Region> {
        let files = std::fs::read_dir(format!("/proc/{host}/fd")).ok()?.flatten().map(|entry| entry.path());
        let is_memory = |path: &Path| {
            std::fs::read_link(path)
                .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:tensortap"))
        };
        let path = files.into_iter().find(|path| is_memory(path))?;
        let memory = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let bytes = memory.metadata().ok()?.len();
        let word = |at| -> Option<u32> {
            let mut bytes = [0; 4];
            memory.read_exact_at(&mut bytes, at).ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let base = (0..bytes).step_by(4096).find(|&at| word(at) == Some(DUMP_MAGIC))?;
        let field = |offset: usize| word(base + offset as u64);
        let geometry = DumpGeometry {
            lanes: field(offset_of!(DumpSetupHeader, lane_count))?,
            buffers: field(offset_of!(DumpSetupHeader, buffers_per_lane))?,
            records: field(offset_of!(DumpSetupHeader, records_per_buffer))?,
            arena_bytes: field(offset_of!(DumpSetupHeader, arena_bytes))?.into(),
        };
        (geometry.lanes > 0 && base + geometry.bytes() <= bytes).then_some(Region { memory, base, geometry })
    }

    fn state_offset(&self, lane: u32) -> u64 {
        self.geometry.states_offset() + u64::from(lane) * size_of::<DumpBufferState>() as u64
    }

    /// For each lane, the number of acknowledged records.
    pub fn acknowledged(&self) -> Vec<u64> {
        let word = |lane| {
            let mut bytes = [0; 8];
            let at = self.base + self.state_offset(lane) + offset_of!(DumpBufferState, acknowledged) as u64;
            self.memory.read_exact_at(&mut bytes, at).map_or(0, |()| u64::from_le_bytes(bytes))
        };
        (0..self.geometry.lanes).map(word).collect()
    }

    /// A random word of the region: a field of the header, states or buffer headers, or any word of queues,
    /// records and arenas.
    pub fn place(&self, rng: &mut fastrand::Rng) -> FieldPosition {
        let lane = rng.u32(0..self.geometry.lanes);
        let buffer =
            u64::from(lane) * u64::from(self.geometry.buffers) + rng.u64(0..u64::from(self.geometry.buffers));
        let buffer = self.geometry.buffers_offset() + buffer * self.geometry.buffer_bytes();
        let record = buffer
            + size_of::<DumpBufferHeader>() as u64
            + rng.u64(0..u64::from(self.geometry.records)) * size_of::<DumpRecord>() as u64;
        let field = |fields: Fields, rng: &mut fastrand::Rng| fields[rng.usize(0..fields.len())];
        let (name, is_content, offset) = match rng.u32(0..12) {
            0 | 1 => {
                let (name, at) = field(HEADER, rng);
                (name, false, at as u64)
            }
            2..=6 => {
                let (name, at) = field(STATE, rng);
                (name, false, self.state_offset(lane) + at as u64)
            }
            7 => {
                let (name, at) = field(BUFFER, rng);
                (name, false, buffer + at as u64)
            }
            8 | 9 => {
                let at = u64::from(lane) * self.geometry.queue_bytes();
                let cell = rng.u64(0..2 * u64::from(self.geometry.buffers)) * 4;
                ("queues", false, self.geometry.queues_offset() + at + cell)
            }
            10 => ("records", true, record + rng.u64(0..size_of::<DumpRecord>() as u64 / 8) * 8),
            _ => {
                let at = u64::from(lane) * self.geometry.arena_bytes
                    + rng.u64(0..self.geometry.arena_bytes / 8) * 8;
                ("arena", true, self.geometry.arenas_offset() + at)
            }
        };
        FieldPosition { name, is_content, offset }
    }

    /// Overwrites a word.
    pub fn write(&self, place: &FieldPosition, bytes: &[u8]) {
        let _ = self.memory.write_all_at(bytes, self.base + place.offset);
    }
}
