//! Opening a region: everything the host wrote there is checked before it is used.

use tensortap_abi::{
    CACHE_LINE_BYTES, DUMP_LAYOUT_VERSION, DUMP_MAGIC, DeviceRange, DumpBufferHeader, DumpBufferState,
    DumpCollect, DumpFilter, DumpLevel, DumpPolicy, DumpSetupHeader, LARGE_PAYLOAD_ALIGN, MAX_DEVICE_THREADS,
    TensorDumpRecord,
};

use crate::filter::Rules;
use crate::region::{Claims, LiveWords, Memory, PartTable, Parts};
use crate::{HostLink, RegionError, ThreadRecorder};

/// The dump region, as the device has it. Gives each device thread its [`ThreadRecorder`].
#[derive(Debug)]
pub struct Region<'m> {
    memory: Memory<'m>,
    live: LiveWords<'m>,
    table: PartTable,
    rules: Rules,
    run_id: u64,
    threads: u32,
    claims: Claims,
}

impl<'m> Region<'m> {
    /// Opens the region at `base`, checking its header and the state of every thread.
    ///
    /// # Errors
    /// When anything there is not what [`crate::setup_bytes`] makes.
    pub fn open(memory: Memory<'m>, base: u64) -> Result<Self, RegionError> {
        let in_memory = memory.contains(base, size_of::<DumpSetupHeader>() as u64);
        if !in_memory || !base.is_multiple_of(CACHE_LINE_BYTES as u64) {
            return Err(RegionError::NotInMemory { addr: base });
        }
        let header: DumpSetupHeader = memory.copy(base);
        check_identity(&header)?;
        let rules = rules_of(&header)?;
        let table = table_of(&header, base, &memory)?;
        for thread in 0..header.thread_count {
            check_fresh(thread, &memory.copy(state_addr(&table, thread)), header.buffers_per_thread)?;
        }
        Ok(Self {
            live: LiveWords::new(&memory, base),
            memory,
            table,
            rules,
            run_id: header.run_id,
            threads: header.thread_count,
            claims: Claims::none(),
        })
    }

    /// The recorder of a device thread, once per thread.
    ///
    /// # Errors
    /// When the region has no such thread, or its recorder was given out before.
    pub fn recorder<H: HostLink>(&self, thread: u32, link: H) -> Result<ThreadRecorder<'m, H>, RegionError> {
        if thread >= self.threads {
            return Err(RegionError::NoSuchThread { thread, threads: self.threads });
        }
        let parts = Parts::claim(&self.memory, &self.table, &self.claims, thread)
            .ok_or(RegionError::ThreadTaken { thread })?;
        Ok(ThreadRecorder::new(parts, self.memory.share(), self.live, self.rules, self.run_id, thread, link))
    }

    /// Device threads that record.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// How much is captured.
    pub fn level(&self) -> DumpLevel {
        self.rules.level
    }

    /// Tells one run from another.
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
    let &DumpSetupHeader { thread_count, records_per_buffer, buffers_per_thread, arena_bytes, .. } = header;
    let field = |ok: bool, field, value| ok.then_some(()).ok_or(RegionError::BadField { field, value });
    field((1..=MAX_DEVICE_THREADS).contains(&(thread_count as usize)), "thread_count", thread_count.into())?;
    field(records_per_buffer > 0, "records_per_buffer", records_per_buffer.into())?;
    field(buffers_per_thread > 0, "buffers_per_thread", buffers_per_thread.into())?;
    let pages = arena_bytes > 0 && arena_bytes.is_multiple_of(LARGE_PAYLOAD_ALIGN);
    field(pages, "arena_bytes", arena_bytes)?;

    // No product overflows 64 bits: counts are at most 32 bits, threads few, and sizes above the memory are refused.
    let per_buffer = size_of::<DumpBufferHeader>() as u64
        + u64::from(records_per_buffer) * size_of::<TensorDumpRecord>() as u64;
    let queue_stride = (u64::from(buffers_per_thread) * 8).next_multiple_of(CACHE_LINE_BYTES as u64);
    let buffers_stride = u64::from(buffers_per_thread).saturating_mul(per_buffer);
    let parts = [
        ("header", DeviceRange { addr: base, bytes: size_of::<DumpSetupHeader>() as u64 }, 1, HEADER_BYTES),
        ("states", header.states, thread_count, size_of::<DumpBufferState>() as u64),
        ("queues", header.queues, thread_count, queue_stride),
        ("buffers", header.buffers, thread_count, buffers_stride),
        ("arenas", header.arenas, thread_count, arena_bytes),
    ];
    for (index, (part, range, threads, stride)) in parts.into_iter().enumerate() {
        let needed = u64::from(threads).saturating_mul(stride);
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
        buffer_count: buffers_per_thread,
        records: records_per_buffer,
        arenas: header.arenas.addr,
        arena_bytes,
    })
}

const HEADER_BYTES: u64 = size_of::<DumpSetupHeader>() as u64;

/// Whether two ranges share no byte. Only the first is known to lie in memory.
fn apart(known: DeviceRange, other: DeviceRange) -> bool {
    other.addr >= known.end() || other.addr.saturating_add(other.bytes) <= known.addr
}

fn state_addr(table: &PartTable, thread: u32) -> u64 {
    table.states + u64::from(thread) * size_of::<DumpBufferState>() as u64
}

/// The words that the protocols start from. Counters are the device's own and are overwritten.
fn check_fresh(thread: u32, state: &DumpBufferState, buffers: u32) -> Result<(), RegionError> {
    let words = [
        ("write_cursor", state.write_cursor, 0),
        ("current_buffer", state.current_buffer, 0),
        ("ready_pushed", state.ready_pushed, 0),
        ("free_popped", state.free_popped, 0),
        ("flushed", state.flushed, 0),
        ("consumed_cursor", state.consumed_cursor, 0),
        ("ready_popped", state.ready_popped, 0),
        ("free_pushed", state.free_pushed, u64::from(buffers)),
    ];
    match words.into_iter().find(|(_, value, fresh)| value != fresh) {
        None => Ok(()),
        Some((field, value, fresh)) => Err(RegionError::NotFresh { thread, field, value, fresh }),
    }
}
