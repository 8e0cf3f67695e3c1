//! The bytes that the host writes into the region before a launch. Pure functions: no pointers, no device.

use tensortap_abi::{
    CACHE_LINE_BYTES, DUMP_LAYOUT_VERSION, DUMP_MAGIC, DeviceRange, DumpBufferHeader, DumpBufferState,
    DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy, DumpRecord, DumpSetupHeader,
    LARGE_PAYLOAD_ALIGN, MAX_LANES, REGION_OF_PROCESS,
};
use zerocopy::IntoBytes;

use crate::SetupError;

/// Options of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupOptions {
    /// Device address of the region: a multiple of a cache line, or of a page if large payloads must be
    /// page aligned.
    pub base: u64,
    /// Distinguishes this run from others.
    pub run_id: u64,
    /// How much is captured.
    pub level: DumpLevel,
    /// What a full arena or queue does.
    pub policy: DumpPolicy,
    /// When the host reads.
    pub collect: DumpCollect,
    /// Silence of the heartbeat after which the device stops waiting; 0 for never.
    pub liveness_ms: u64,
    /// The filter.
    pub filter: DumpFilter,
    /// Whether a process records itself. `base` is then the region's offset in a memory file, and tensor
    /// addresses are the process's own.
    pub of_process: bool,
}

/// The initial content of a region. Made by [`setup_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupBytes {
    /// The header, at the region's start.
    pub header: DumpSetupHeader,
    /// The state of every lane, from [`DumpGeometry::states_offset`] on.
    pub state: DumpBufferState,
    geometry: DumpGeometry,
}

/// The initial content of a region.
///
/// ```
/// use tensortap_abi::{DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
/// use tensortap_recorder::{SetupOptions, setup_bytes};
///
/// let geometry = DumpGeometry { lanes: 3, buffers: 4, records: 64, arena_bytes: 1 << 20 };
/// let setup = setup_bytes(geometry, &SetupOptions {
///     base: 0x2000_0000_0000,
///     run_id: 1,
///     level: DumpLevel::Full,
///     policy: DumpPolicy::Block,
///     collect: DumpCollect::Live,
///     liveness_ms: 30_000,
///     filter: DumpFilter::ALL,
///     of_process: false,
/// })?;
/// let mut region = vec![0xee; usize::try_from(geometry.bytes())?];
/// setup.write(|offset, bytes| region[offset as usize..][..bytes.len()].copy_from_slice(bytes));
/// assert_eq!(region[..4], 0x4455_4D50_u32.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If no device would open such a region.
pub fn setup_bytes(geometry: DumpGeometry, options: &SetupOptions) -> Result<SetupBytes, SetupError> {
    let &SetupOptions { base, run_id, level, policy, collect, liveness_ms, filter, of_process } = options;
    check(geometry, options)?;
    let lanes = u64::from(geometry.lanes);
    let part = |offset: u64, bytes: u64| DeviceRange { addr: base + offset, bytes };
    let state_bytes = size_of::<DumpBufferState>() as u64;
    let header = DumpSetupHeader {
        magic: DUMP_MAGIC,
        layout_version: DUMP_LAYOUT_VERSION,
        run_id,
        lane_count: geometry.lanes,
        level: level as u32,
        records_per_buffer: geometry.records,
        buffers_per_lane: geometry.buffers,
        arena_bytes: geometry.arena_bytes,
        policy: policy as u32,
        collect: collect as u32,
        liveness_ms,
        flags: if of_process { REGION_OF_PROCESS } else { 0 },
        states: part(geometry.states_offset(), lanes * state_bytes),
        queues: part(geometry.queues_offset(), lanes * geometry.queue_bytes()),
        buffers: part(
            geometry.buffers_offset(),
            lanes * u64::from(geometry.buffers) * geometry.buffer_bytes(),
        ),
        arenas: part(geometry.arenas_offset(), lanes * geometry.arena_bytes),
        filter,
        reserved1: [0; 7],
        heartbeat: 0,
        discard: 0,
        tasks_captured: 0,
        bytes_captured: 0,
        enclosure_lanes: 0,
        reserved2: [0; 3],
        numbers: [0; 8],
    };
    let state = DumpBufferState { free_pushed: geometry.buffers.into(), ..DumpBufferState::default() };
    Ok(SetupBytes { header, state, geometry })
}

impl SetupBytes {
    /// The words of one lane's queues, one `u32` each: every buffer is free, none is ready; zeros up to the
    /// end of the cache line.
    pub fn queue_words(&self) -> impl Iterator<Item = u32> + use<> {
        let (buffers, bytes) = (self.geometry.buffers, self.geometry.queue_bytes());
        (0..buffers).chain(core::iter::repeat(0)).take(usize::try_from(bytes / 4).unwrap_or(usize::MAX))
    }

    /// Calls `write` with everything that must be written: offset in the region and bytes. The header comes
    /// last. Record buffers and arenas need no setup, whatever an earlier run left there.
    pub fn write(&self, mut write: impl FnMut(u64, &[u8])) {
        let Ok(()) = self.try_write(|offset, bytes| {
            write(offset, bytes);
            Ok::<(), core::convert::Infallible>(())
        });
    }

    /// As [`write`](Self::write), but stops at the first error.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn try_write<E>(&self, mut write: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        for lane in 0..u64::from(self.geometry.lanes) {
            let state_bytes = size_of::<DumpBufferState>() as u64;
            write(self.geometry.states_offset() + lane * state_bytes, self.state.as_bytes())?;
            let queues = self.geometry.queues_offset() + lane * self.geometry.queue_bytes();
            self.write_queues(queues, &mut write)?;
        }
        write(0, self.header.as_bytes())
    }

    fn write_queues<E>(
        &self,
        offset: u64,
        write: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        const WORDS: usize = 64;
        let mut words = self.queue_words();
        let mut at = offset;
        loop {
            let mut piece = [0_u32; WORDS];
            let len = piece.iter_mut().zip(&mut words).map(|(slot, word)| *slot = word).count();
            if len == 0 {
                return Ok(());
            }
            write(at, piece[..len].as_bytes())?;
            at += (len * size_of::<u32>()) as u64;
        }
    }
}

fn check(geometry: DumpGeometry, options: &SetupOptions) -> Result<(), SetupError> {
    let DumpGeometry { lanes, buffers, records, arena_bytes } = geometry;
    let align = CACHE_LINE_BYTES as u64;
    if !options.base.is_multiple_of(align) {
        return Err(SetupError::Unaligned { base: options.base, align });
    }
    let size = |ok: bool, field, value: u64, remedy| {
        ok.then_some(()).ok_or(SetupError::BadSize { field, value, remedy })
    };
    size((1..=MAX_LANES).contains(&lanes), "lanes", lanes.into(), "from 1 to 1024")?;
    size(buffers > 0, "buffers", buffers.into(), "at least 1")?;
    size(records > 0, "records", records.into(), "at least 1")?;
    let pages = arena_bytes > 0 && arena_bytes.is_multiple_of(LARGE_PAYLOAD_ALIGN);
    size(pages, "arena bytes", arena_bytes, "a multiple of 4096")?;
    let (ranges, most) = (options.filter.task_ranges, DumpFilter::MAX_TASK_RANGES as u64);
    if ranges > most {
        return Err(SetupError::TooManyTaskRanges { ranges, most });
    }
    match region_end(geometry, options.base) {
        Some(_) => Ok(()),
        None => Err(SetupError::TooLarge),
    }
}

/// End of the region; `None` if it exceeds 64 bits. Only if this succeeds may the geometry's own sums be
/// used.
fn region_end(geometry: DumpGeometry, base: u64) -> Option<u64> {
    let DumpGeometry { lanes, buffers, records, arena_bytes } = geometry;
    let per_buffer = u64::from(records) * size_of::<DumpRecord>() as u64 + BUFFER_HEADER_BYTES;
    let per_lane = per_buffer
        .checked_add(2 * size_of::<u32>() as u64)?
        .checked_mul(buffers.into())?
        .checked_add((size_of::<DumpBufferState>() + CACHE_LINE_BYTES) as u64)?
        .checked_add(arena_bytes)?;
    per_lane
        .checked_mul(lanes.into())?
        .checked_add(size_of::<DumpSetupHeader>() as u64 + LARGE_PAYLOAD_ALIGN)?
        .checked_add(base)
}

const BUFFER_HEADER_BYTES: u64 = size_of::<DumpBufferHeader>() as u64;

#[cfg(test)]
mod tests;
