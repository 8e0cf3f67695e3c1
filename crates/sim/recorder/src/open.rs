//! Opens a region, after checking everything that the host wrote there.

use tensortap_abi::{
    CACHE_LINE_BYTES, DUMP_LAYOUT_VERSION, DUMP_MAGIC, DeviceRange, DumpBufferHeader, DumpBufferState,
    DumpCollect, DumpFilter, DumpLevel, DumpPolicy, DumpRecord, DumpSetupHeader, DumpStage,
    LARGE_PAYLOAD_ALIGN, MAX_LANES, NumberKind, REGION_OF_PROCESS,
};

use tensortap_sync::enclosure::{EnclosureCells, Enclosures};
use tensortap_sync::signs;

use crate::counters::Ledger;
use crate::filter::Rules;
use crate::region::{LiveWords, Memory, PartTable, Parts};
use crate::{Counters, HostLink, LaneRecorder, RegionError};

/// The open dump region of a device. Gives each device thread its [`LaneRecorder`].
#[derive(Debug)]
pub struct Region<'m> {
    memory: Memory<'m>,
    live: LiveWords<'m>,
    table: PartTable,
    rules: Rules,
    run_id: u64,
    lanes: u32,
}

impl<'m> Region<'m> {
    /// Opens the region at `base`, checking its header and the state of every lane.
    ///
    /// # Errors
    /// If anything differs from what [`crate::setup_bytes`] writes.
    pub fn open(memory: Memory<'m>, base: u64) -> Result<Self, RegionError> {
        let region = Self::join(memory, base)?;
        for lane in 0..region.lanes {
            let state = region.memory.copy(state_addr(&region.table, lane));
            check_fresh(lane, &state, region.table.buffer_count)?;
        }
        Ok(region)
    }

    /// Opens a region that another library of this process opened before, in another mapping of its memory.
    /// Both lease lanes from it, as two threads of one library do.
    ///
    /// # Errors
    /// As [`Region::open`], but lanes may be in use.
    pub fn join(memory: Memory<'m>, base: u64) -> Result<Self, RegionError> {
        let in_memory = memory.contains(base, size_of::<DumpSetupHeader>() as u64);
        if !in_memory || !base.is_multiple_of(CACHE_LINE_BYTES as u64) {
            return Err(RegionError::NotInMemory { addr: base });
        }
        let header: DumpSetupHeader = memory.copy(base);
        check_identity(&header)?;
        let of_process = if memory.is_of_process() { REGION_OF_PROCESS } else { 0 };
        if header.flags != of_process {
            return Err(RegionError::BadField { field: "flags", value: header.flags });
        }
        let rules = rules_of(&header)?;
        let table = table_of(&header, base, &memory)?;
        Ok(Self {
            live: LiveWords::new(&memory, base),
            memory,
            table,
            rules,
            run_id: header.run_id,
            lanes: header.lane_count,
        })
    }

    /// Leases a lane and records in it until the recorder is flushed.
    ///
    /// # Errors
    /// If the region has no such lane, or another thread has leased it.
    pub fn recorder<H: HostLink>(&self, lane: u32, link: H) -> Result<LaneRecorder<'m, H>, RegionError> {
        if lane >= self.lanes {
            return Err(RegionError::NoSuchLane { lane, lanes: self.lanes });
        }
        let parts = Parts::lease(&self.memory, &self.table, lane).ok_or(RegionError::LaneTaken { lane })?;
        Ok(LaneRecorder::new(parts, self.memory.share(), self.live, self.rules, self.run_id, lane, link))
    }

    /// Leases the first free lane. The recorder returns the lane when it is [flushed](LaneRecorder::flush).
    /// The next holder continues after it: sequence numbers, positions and counters do not restart.
    ///
    /// # Errors
    /// If every lane is leased.
    pub fn lease<H: HostLink>(&self, link: H) -> Result<LaneRecorder<'m, H>, RegionError> {
        let free = |lane| Some((lane, Parts::lease(&self.memory, &self.table, lane)?));
        let (lane, parts) =
            (0..self.lanes).find_map(free).ok_or(RegionError::NoLaneFree { lanes: self.lanes })?;
        Ok(LaneRecorder::new(parts, self.memory.share(), self.live, self.rules, self.run_id, lane, link))
    }

    /// Number of lanes: how many threads can record at a time.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// How much is captured.
    pub fn level(&self) -> DumpLevel {
        self.rules.level
    }

    /// Whether the filter lets every task pass.
    pub fn wants_all_tasks(&self) -> bool {
        self.rules.passes_all_tasks()
    }

    /// Whether the filter lets an argument pass at a stage, if its task passes.
    pub fn wants_argument(&self, stage: DumpStage, arg_index: u16) -> bool {
        self.rules.passes_arg(stage, arg_index)
    }

    /// Makes every producer discard data from now on, as a host with full files does. For a process whose
    /// host is gone.
    pub fn discard(&self) {
        let Ok(()) = signs::order_discard(self.live.discard());
    }

    /// The next number of a kind, from 1. No other recorder of this region gets it, in any library.
    #[inline]
    pub fn next_number(&self, kind: NumberKind) -> u64 {
        self.live.numbers(kind).add(1).wrapping_add(1)
    }

    /// Lets the numbers of a kind continue after `last`, and returns the last number before.
    pub fn skip_numbers(&self, kind: NumberKind, last: u64) -> u64 {
        self.live.numbers(kind).raise_to(last)
    }

    /// The tasks that threads are inside of, for all libraries that record the process.
    #[inline]
    pub fn enclosures(&self) -> Enclosures<'m, impl Fn(usize) -> Option<EnclosureCells<'m>> + use<'_, 'm>> {
        let place = |place: usize| {
            let lane = u32::try_from(place).ok().filter(|lane| *lane < self.lanes)?;
            Some(Parts::state(&self.memory, &self.table, lane).enclosure())
        };
        Enclosures::new(self.live.enclosure_lanes(), place)
    }

    /// Counts of recorded and lost data in all lanes so far.
    pub fn counters(&self) -> Counters {
        (0..self.lanes)
            .map(|lane| Parts::state(&self.memory, &self.table, lane))
            .fold(Counters::default(), |sum, state| sum.and(&Ledger::new(state).counters()))
    }

    /// Distinguishes this run from others.
    pub fn run_id(&self) -> u64 {
        self.run_id
    }
}

fn check_identity(header: &DumpSetupHeader) -> Result<(), RegionError> {
    if header.magic != DUMP_MAGIC {
        return Err(RegionError::BadMagic { magic: header.magic });
    }
    if header.layout_version != DUMP_LAYOUT_VERSION {
        return Err(RegionError::BadVersion { version: header.layout_version, known: DUMP_LAYOUT_VERSION });
    }
    Ok(())
}

fn rules_of(header: &DumpSetupHeader) -> Result<Rules, RegionError> {
    let bad = |field, value: u32| RegionError::BadField { field, value: value.into() };
    let level = DumpLevel::from_tag(header.level).ok_or(bad("level", header.level))?;
    let waits = match (header.policy, header.collect) {
        (policy, _) if policy != DumpPolicy::Block as u32 && policy != DumpPolicy::Drop as u32 => {
            return Err(bad("policy", policy));
        }
        (_, collect) if collect != DumpCollect::Live as u32 && collect != DumpCollect::Batch as u32 => {
            return Err(bad("collect", collect));
        }
        (policy, collect) => policy == DumpPolicy::Block as u32 && collect == DumpCollect::Live as u32,
    };
    if header.filter.task_ranges > DumpFilter::MAX_TASK_RANGES as u64 {
        return Err(RegionError::BadField { field: "filter.task_ranges", value: header.filter.task_ranges });
    }
    Ok(Rules {
        level,
        waits,
        batch: header.collect == DumpCollect::Batch as u32,
        liveness_ms: header.liveness_ms,
        filter: header.filter,
    })
}

fn table_of(header: &DumpSetupHeader, base: u64, memory: &Memory<'_>) -> Result<PartTable, RegionError> {
    let &DumpSetupHeader { lane_count, records_per_buffer, buffers_per_lane, arena_bytes, .. } = header;
    let field = |ok: bool, field, value| ok.then_some(()).ok_or(RegionError::BadField { field, value });
    field((1..=MAX_LANES).contains(&lane_count), "lane_count", lane_count.into())?;
    field(records_per_buffer > 0, "records_per_buffer", records_per_buffer.into())?;
    field(buffers_per_lane > 0, "buffers_per_lane", buffers_per_lane.into())?;
    let pages = arena_bytes > 0 && arena_bytes.is_multiple_of(LARGE_PAYLOAD_ALIGN);
    field(pages, "arena_bytes", arena_bytes)?;

    // No product overflows 64 bits: counts have at most 32 bits, there are few lanes, and sizes above the
    // memory are rejected.
    let per_buffer =
        size_of::<DumpBufferHeader>() as u64 + u64::from(records_per_buffer) * size_of::<DumpRecord>() as u64;
    let queue_stride = (u64::from(buffers_per_lane) * 8).next_multiple_of(CACHE_LINE_BYTES as u64);
    let buffers_stride = u64::from(buffers_per_lane).saturating_mul(per_buffer);
    let parts = [
        ("header", DeviceRange { addr: base, bytes: size_of::<DumpSetupHeader>() as u64 }, 1, HEADER_BYTES),
        ("states", header.states, lane_count, size_of::<DumpBufferState>() as u64),
        ("queues", header.queues, lane_count, queue_stride),
        ("buffers", header.buffers, lane_count, buffers_stride),
        ("arenas", header.arenas, lane_count, arena_bytes),
    ];
    for (index, (part, range, count, stride)) in parts.into_iter().enumerate() {
        let needed = u64::from(count).saturating_mul(stride);
        let alone = parts[..index].iter().all(|(_, other, ..)| apart(*other, range));
        let aligned = range.addr.is_multiple_of(CACHE_LINE_BYTES as u64);
        if range.bytes < needed || !memory.contains(range.addr, range.bytes) || !aligned || !alone {
            return Err(RegionError::BadPart { part, addr: range.addr, bytes: range.bytes, needed });
        }
    }
    Ok(PartTable {
        states: header.states.addr,
        queues: header.queues.addr,
        queue_stride,
        buffers: header.buffers.addr,
        buffers_stride,
        buffer_count: buffers_per_lane,
        records: records_per_buffer,
        arenas: header.arenas.addr,
        arena_bytes,
    })
}

const HEADER_BYTES: u64 = size_of::<DumpSetupHeader>() as u64;

/// Whether two ranges share no byte. Only the first is known to be in memory.
fn apart(known: DeviceRange, other: DeviceRange) -> bool {
    other.addr >= known.end() || other.addr.saturating_add(other.bytes) <= known.addr
}

fn state_addr(table: &PartTable, lane: u32) -> u64 {
    table.states + u64::from(lane) * size_of::<DumpBufferState>() as u64
}

/// Checks the words from which the protocols start. Counters belong to the device and are overwritten.
fn check_fresh(lane: u32, state: &DumpBufferState, buffers: u32) -> Result<(), RegionError> {
    let words = [
        ("write_cursor", state.write_cursor, 0),
        ("current_buffer", state.current_buffer, 0),
        ("ready_pushed", state.ready_pushed, 0),
        ("free_popped", state.free_popped, 0),
        ("leases", state.leases, 0),
        ("consumed_cursor", state.consumed_cursor, 0),
        ("ready_popped", state.ready_popped, 0),
        ("free_pushed", state.free_pushed, u64::from(buffers)),
    ];
    match words.into_iter().find(|(_, value, fresh)| value != fresh) {
        None => Ok(()),
        Some((field, value, fresh)) => Err(RegionError::NotFresh { lane, field, value, fresh }),
    }
}
