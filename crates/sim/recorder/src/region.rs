//! Typed access to the dump region in device memory.
//!
//! Only this code turns region addresses into references. Words that both sides use are atomics laid over
//! the region's bytes. Records and payload bytes are plain memory: between reservation and commit they
//! belong to the one thread that holds the lane. After the commit, nothing writes them until the host has
//! released them.
#![expect(unsafe_code, reason = "the region is reached through addresses that the host allocated")]

use core::convert::Infallible;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ops::Range;
use core::ptr;

use tensortap_abi::{
    CACHE_LINE_BYTES, DeviceRange, DumpBufferHeader, DumpBufferState, DumpRecord, DumpSetupHeader, NumberKind,
};
use tensortap_geometry::Layout;
use tensortap_sync::arena::ArenaCursors;
use tensortap_sync::buffers::BufferWords;
use tensortap_sync::enclosure::EnclosureCells;
use tensortap_sync::lease::Lease;
use tensortap_sync::spsc::QueueCells;
use tensortap_sync::{SharedU32, SharedU64};
use zerocopy::FromBytes;

use crate::gather::DenseContent;
use crate::{Gather, GatherError};

const WORD_BYTES: usize = size_of::<u64>();
const STATE_WORDS: usize = size_of::<DumpBufferState>() / WORD_BYTES;
/// The header's last two lines: what changes during a run.
const LIVE_OFFSET: usize = offset_of!(DumpSetupHeader, heartbeat);
const LIVE_WORDS: usize = (size_of::<DumpSetupHeader>() - LIVE_OFFSET) / WORD_BYTES;
const _: () = assert!(LIVE_OFFSET.is_multiple_of(CACHE_LINE_BYTES) && LIVE_WORDS == 16);

/// Memory that holds a region, as its producers have mapped it, and the memory of the tensors that they
/// record. Opens one [`Region`](crate::Region). Each library of a process that records itself has its own.
#[derive(Debug)]
pub struct Memory<'m> {
    /// The addresses that the region uses for its parts.
    range: DeviceRange,
    /// Where the first of these addresses is mapped.
    start: *mut u8,
    tensors: Tensors,
    life: PhantomData<&'m ()>,
}

/// Memory that tensors may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tensors {
    /// Device memory, which also holds the region.
    OfDevice,
    /// Any address of this process that its own code has passed.
    OfProcess,
}

// SAFETY: it represents memory that is mapped for every thread. It hands parts of it out as shared words,
// or to the one thread that has leased a lane.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above; sharing it only shares the addresses.
unsafe impl Sync for Memory<'_> {}

impl<'m> Memory<'m> {
    /// The memory of a device, on that device: a device address is the address it is mapped at.
    ///
    /// # Safety
    /// - All of `range` stays mapped for reading and writing during `'m`, and its provenance is exposed.
    /// - While the [`Region`](crate::Region) opened from it is in use, also by one of its recorders, only the host
    ///   writes to it. No other region is opened over the same bytes.
    pub unsafe fn new(range: DeviceRange) -> Self {
        let start = usize::try_from(range.addr).map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut);
        Self { range, start, tensors: Tensors::OfDevice, life: PhantomData }
    }

    /// A memory file in which a process records itself, mapped at `start`. Addresses of its region are
    /// offsets from there, and tensors may be anywhere in the process.
    ///
    /// # Safety
    /// - The `bytes` at `start` stay mapped for reading and writing during `'m`.
    /// - While the [`Region`](crate::Region) opened from it or one of its recorders is in use, only the
    ///   recorder's host and regions that [join](crate::Region::join) it over another mapping write to it.
    /// - The buffer of every [`TensorDesc`](tensortap_abi::TensorDesc) that one of its recorders receives
    ///   can be read during that call.
    pub unsafe fn of_process(start: *mut u8, bytes: u64) -> Self {
        let range = DeviceRange { addr: 0, bytes };
        Self { range, start, tensors: Tensors::OfProcess, life: PhantomData }
    }

    /// Whether the process that has mapped it records itself.
    pub(crate) fn is_of_process(&self) -> bool {
        self.tensors == Tensors::OfProcess
    }

    /// Borrowed memory that acts as a device's memory. A region starts at a multiple of 64.
    ///
    /// ```
    /// use tensortap_recorder::{Memory, Region};
    /// let mut bytes = [0_u8; 128];
    /// let base = bytes.as_ptr().addr().next_multiple_of(64) as u64;
    /// assert!(Region::open(Memory::of_slice(&mut bytes), base).is_err(), "nothing was set up there");
    /// ```
    pub fn of_slice(bytes: &'m mut [u8]) -> Self {
        let range =
            DeviceRange { addr: bytes.as_mut_ptr().expose_provenance() as u64, bytes: bytes.len() as u64 };
        // SAFETY: only this value borrows it, as a whole, during 'm, and it opens one region.
        unsafe { Self::new(range) }
    }

    /// The same memory, for the recorder of one lane.
    pub(crate) fn share(&self) -> Self {
        Self { range: self.range, start: self.start, tensors: self.tensors, life: PhantomData }
    }

    /// Whether all `bytes` at `addr` belong to the memory that holds the region.
    #[inline]
    pub(crate) fn contains(&self, addr: u64, bytes: u64) -> bool {
        addr.checked_sub(self.range.addr)
            .and_then(|offset| offset.checked_add(bytes))
            .is_some_and(|end| end <= self.range.bytes)
    }

    /// A copy of the value at `addr`. No other thread may write it at the moment.
    pub(crate) fn copy<T: FromBytes>(&self, addr: u64) -> T {
        let at = self.pointer(addr, size_of::<T>() as u64).cast::<T>();
        // SAFETY: `pointer` checked that the bytes are mapped; T takes any bytes.
        unsafe { at.read_unaligned() }
    }

    /// Where a tensor's buffer is mapped; `None` if it is not in memory where tensors may be.
    #[inline]
    fn buffer(&self, addr: u64, bytes: u64) -> Option<*mut u8> {
        match self.tensors {
            Tensors::OfDevice => self.contains(addr, bytes).then(|| self.pointer(addr, bytes)),
            Tensors::OfProcess => {
                addr.checked_add(bytes)?;
                let addr = usize::try_from(addr).ok().filter(|&addr| addr != 0 || bytes == 0)?;
                Some(ptr::with_exposed_provenance_mut(addr))
            }
        }
    }

    /// The content of a view of a buffer; `None` if the buffer is not in memory where tensors may be.
    pub(crate) fn gather(
        &self,
        addr: u64,
        bytes: u64,
        layout: &Layout,
    ) -> Option<Result<Gather<'m>, GatherError>> {
        let buffer = self.buffer(addr, bytes)?;
        // SAFETY: the buffer is in device memory, which is readable during 'm. Otherwise its owner
        // guarantees that it is readable during the call that records it, and the returned value is not
        // used after that call.
        Some(unsafe { Gather::new(buffer, bytes, layout) })
    }

    /// The part of a buffer that a contiguous view covers; `None` if it extends past the buffer, or the
    /// buffer is not in memory where tensors may be.
    #[inline]
    pub(crate) fn dense(&self, addr: u64, buffer_bytes: u64, part: &Range<u64>) -> Option<DenseContent<'m>> {
        if part.end > buffer_bytes {
            return None;
        }
        let buffer = self.buffer(addr, buffer_bytes)?;
        let bytes = usize::try_from(part.end.checked_sub(part.start)?).ok()?;
        let base = buffer.wrapping_add(usize::try_from(part.start).ok()?);
        // SAFETY: a part of the buffer, which is readable as in `gather`.
        Some(unsafe { DenseContent::new(base, bytes) })
    }

    #[inline]
    fn pointer(&self, addr: u64, bytes: u64) -> *mut u8 {
        assert!(self.contains(addr, bytes), "{bytes} bytes at {addr:#x} are not in the memory of the region");
        self.start.wrapping_add(
            usize::try_from(addr - self.range.addr).expect("mapped memory fits into the address space"),
        )
    }

    /// Shared words over `N` words at `addr`.
    fn words<const N: usize>(&self, addr: u64) -> &'m [SharedU64; N] {
        let at = self.pointer(addr, (N * WORD_BYTES) as u64).cast::<[SharedU64; N]>();
        assert!(at.is_aligned(), "words at {addr:#x} are not aligned");
        // SAFETY: mapped during 'm and aligned; both sides reach these words through atomics only.
        unsafe { &*at }
    }

    /// Shared half words: `len` of them at `addr`.
    fn cells(&self, addr: u64, len: u32) -> &'m [SharedU32] {
        #[expect(clippy::cast_ptr_alignment, reason = "checked below")]
        let at = self.pointer(addr, u64::from(len) * 4).cast::<SharedU32>();
        assert!(at.is_aligned(), "cells at {addr:#x} are not aligned");
        // SAFETY: as for `words`.
        unsafe { core::slice::from_raw_parts(at, len as usize) }
    }
}

/// The lines of the header that change during a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveWords<'m>(&'m [SharedU64; LIVE_WORDS]);

macro_rules! live_word {
    ($name:ident) => {
        pub fn $name(&self) -> &'m SharedU64 {
            &self.0[(offset_of!(DumpSetupHeader, $name) - LIVE_OFFSET) / WORD_BYTES]
        }
    };
}

impl<'m> LiveWords<'m> {
    /// The words of the header at `base`, which must be in `memory` on a cache line.
    pub fn new(memory: &Memory<'m>, base: u64) -> Self {
        Self(memory.words(base + LIVE_OFFSET as u64))
    }

    live_word!(heartbeat);
    live_word!(discard);
    live_word!(tasks_captured);
    live_word!(bytes_captured);
    live_word!(enclosure_lanes);

    /// How many numbers of a kind were handed out.
    pub fn numbers(&self, kind: NumberKind) -> &'m SharedU64 {
        &self.0[(offset_of!(DumpSetupHeader, numbers) - LIVE_OFFSET) / WORD_BYTES + kind as usize]
    }
}

/// One lane's [`DumpBufferState`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateWords<'m>(&'m [SharedU64; STATE_WORDS]);

macro_rules! state_words {
    ($($name:ident)+) => {$(
        pub fn $name(&self) -> &'m SharedU64 {
            &self.0[offset_of!(DumpBufferState, $name) / WORD_BYTES]
        }
    )+};
}

impl<'m> StateWords<'m> {
    state_words! {
        write_cursor current_buffer ready_pushed free_popped leases next_seq waits arena_wanted consumed_cursor ready_popped free_pushed acknowledged arena_limit
        records payload_bytes held_up_ns dropped_no_buffer dropped_no_space dropped_no_host dropped_bytes
        filtered_records filtered_bytes enclosed_thread enclosing_task
    }
}

impl<'m> StateWords<'m> {
    /// The place of a thread and its enclosing task.
    #[inline]
    pub fn enclosure(&self) -> EnclosureCells<'m> {
        EnclosureCells { thread: self.enclosed_thread(), task: self.enclosing_task() }
    }

    /// The cursors of the arena.
    pub fn arena(&self) -> ArenaCursors<'m> {
        ArenaCursors { written: self.write_cursor(), consumed: self.consumed_cursor() }
    }
}

/// The words of one lane's circulating record buffers.
#[derive(Debug)]
pub(crate) struct LaneWords<'m> {
    memory: Memory<'m>,
    state: StateWords<'m>,
    free: &'m [SharedU32],
    ready: &'m [SharedU32],
    /// Address of the first buffer, and distance from one to the next.
    buffers: u64,
    buffer_bytes: u64,
    records: u32,
}

impl<'m> BufferWords for LaneWords<'m> {
    type Error = Infallible;
    type Word = &'m SharedU64;
    type Queue = QueueCells<'m>;

    fn free(&self) -> QueueCells<'m> {
        let (pushed, popped) = (self.state.free_pushed(), self.state.free_popped());
        QueueCells { pushed, popped, cells: self.free }
    }

    fn ready(&self) -> QueueCells<'m> {
        let (pushed, popped) = (self.state.ready_pushed(), self.state.ready_popped());
        QueueCells { pushed, popped, cells: self.ready }
    }

    fn current(&self) -> &'m SharedU64 {
        self.state.current_buffer()
    }

    fn committed(&self, number: u32) -> &'m SharedU64 {
        let buffer = self.buffers + u64::from(number) * self.buffer_bytes;
        let [word] = self.memory.words(buffer + offset_of!(DumpBufferHeader, committed) as u64);
        word
    }

    #[expect(clippy::cast_possible_truncation, reason = "made of a u32")]
    fn buffers(&self) -> u32 {
        self.free.len() as u32
    }

    fn records(&self) -> u32 {
        self.records
    }
}

/// One lane's record buffers, for the thread that holds the lane.
#[derive(Debug)]
pub(crate) struct Buffers<'m> {
    base: *mut u8,
    count: u32,
    records: u32,
    life: PhantomData<&'m ()>,
}

// SAFETY: an exclusive handle to memory that is mapped for every thread.
unsafe impl Send for Buffers<'_> {}

impl Buffers<'_> {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn records(&self) -> u32 {
        self.records
    }

    /// Range of all buffers.
    pub fn range(&self) -> DeviceRange {
        DeviceRange {
            addr: self.base.addr() as u64,
            bytes: u64::from(self.count) * buffer_bytes(self.records),
        }
    }

    /// Bytes from the start of the first buffer to the end of the given record of a buffer.
    #[inline]
    pub fn bytes_to(&self, number: u32, records: u32) -> u64 {
        u64::from(number) * buffer_bytes(self.records) + buffer_bytes(records)
    }

    /// Writes a buffer's header except for `committed`.
    pub fn write_header(&mut self, number: u32, header: &DumpBufferHeader) {
        let DumpBufferHeader { run_id, first_seq, lane, committed: _, reserved } = *header;
        let at = self.header(number);
        // SAFETY: `header` is in bounds and aligned. The buffer came from the free queue, so the host reads
        // nothing in it until it is current again. The host accesses `committed` through atomics only.
        unsafe {
            (&raw mut (*at).run_id).write(run_id);
            (&raw mut (*at).first_seq).write(first_seq);
            (&raw mut (*at).lane).write(lane);
            (&raw mut (*at).reserved).write(reserved);
        }
    }

    /// Writes a record that is not committed yet.
    #[inline]
    pub fn write_record(&mut self, number: u32, place: u32, record: &DumpRecord) {
        assert!(place < self.records, "place {place} in a buffer of {}", self.records);
        let records = self.header(number).wrapping_add(1).cast::<DumpRecord>();
        // SAFETY: `place` is inside the buffer, and records follow the header with the same alignment. The
        // host reads the record only after its commit.
        unsafe { records.add(place as usize).write(*record) }
    }

    #[inline]
    fn header(&self, number: u32) -> *mut DumpBufferHeader {
        assert!(number < self.count, "buffer {number} of {}", self.count);
        let offset = u64::from(number) * buffer_bytes(self.records);
        let offset = usize::try_from(offset).expect("mapped memory fits into the address space");
        // SAFETY: `Memory::pointer` checked that `count` buffers of this size are mapped from `base` on.
        unsafe { self.base.add(offset).cast() }
    }
}

/// One lane's arena, for the thread that holds the lane.
#[derive(Debug)]
pub(crate) struct Arena<'m> {
    base: *mut u8,
    bytes: u64,
    life: PhantomData<&'m ()>,
}

// SAFETY: an exclusive handle to memory that is mapped for every thread.
unsafe impl Send for Arena<'_> {}

impl Arena<'_> {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Range of the arena.
    pub fn range(&self) -> DeviceRange {
        DeviceRange { addr: self.base.addr() as u64, bytes: self.bytes }
    }

    /// The bytes of a reserved piece that starts at an arena offset. The piece must not straddle the
    /// arena's end.
    #[inline]
    pub fn piece(&mut self, start: u64, bytes: u64) -> &mut [MaybeUninit<u8>] {
        assert!(
            start <= self.bytes && bytes <= self.bytes - start,
            "a piece of {bytes} bytes at {start} straddles the arena's end"
        );
        let fits = "mapped memory fits into the address space";
        let (start, len) = (usize::try_from(start).expect(fits), usize::try_from(bytes).expect(fits));
        // SAFETY: in bounds of the arena. The piece is reserved and not committed, so the host does not
        // read it. `&mut self` is the only handle to the arena.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(start).cast(), len) }
    }

    /// The same bytes after they were filled.
    pub fn content(&mut self, start: u64, bytes: u64) -> &[u8] {
        let piece = self.piece(start, bytes);
        // SAFETY: mapped memory of a file is initialized everywhere. The filler received this address and
        // has finished.
        unsafe { piece.assume_init_ref() }
    }
}

/// Offsets and sizes of the parts of a region. Checked by [`crate::Region::open`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartTable {
    pub states: u64,
    pub queues: u64,
    pub queue_stride: u64,
    pub buffers: u64,
    pub buffers_stride: u64,
    pub buffer_count: u32,
    pub records: u32,
    pub arenas: u64,
    pub arena_bytes: u64,
}

/// One lane's parts of the region.
#[derive(Debug)]
pub(crate) struct Parts<'m> {
    pub lease: Lease<'m>,
    pub state: StateWords<'m>,
    pub words: LaneWords<'m>,
    pub buffers: Buffers<'m>,
    pub arena: Arena<'m>,
}

impl<'m> Parts<'m> {
    /// The parts of `lane`, or `None` if another thread has leased it. The parts in `table` do not overlap.
    pub fn lease(memory: &Memory<'m>, table: &PartTable, lane: u32) -> Option<Self> {
        let lease = Lease::take(state_words(memory, table, lane.into()).leases())?;
        Some(Self::new(memory, table, lane, lease))
    }

    /// The words of `lane`, whether it is leased or not.
    pub fn state(memory: &Memory<'m>, table: &PartTable, lane: u32) -> StateWords<'m> {
        state_words(memory, table, lane.into())
    }

    fn new(memory: &Memory<'m>, table: &PartTable, lane: u32, lease: Lease<'m>) -> Self {
        let lane = u64::from(lane);
        let state = state_words(memory, table, lane);
        let queues = table.queues + lane * table.queue_stride;
        let ready = queues + u64::from(table.buffer_count) * 4;
        let buffers = table.buffers + lane * table.buffers_stride;
        assert!(buffers.is_multiple_of(CACHE_LINE_BYTES as u64), "buffers at {buffers:#x} are not aligned");
        let arena = table.arenas + lane * table.arena_bytes;
        Self {
            lease,
            state,
            words: LaneWords {
                memory: memory.share(),
                state,
                free: memory.cells(queues, table.buffer_count),
                ready: memory.cells(ready, table.buffer_count),
                buffers,
                buffer_bytes: buffer_bytes(table.records),
                records: table.records,
            },
            buffers: Buffers {
                base: memory.pointer(buffers, table.buffers_stride),
                count: table.buffer_count,
                records: table.records,
                life: PhantomData,
            },
            arena: Arena {
                base: memory.pointer(arena, table.arena_bytes),
                bytes: table.arena_bytes,
                life: PhantomData,
            },
        }
    }
}

/// Distance from one buffer to the next.
fn buffer_bytes(records: u32) -> u64 {
    size_of::<DumpBufferHeader>() as u64 + u64::from(records) * size_of::<DumpRecord>() as u64
}

fn state_words<'m>(memory: &Memory<'m>, table: &PartTable, lane: u64) -> StateWords<'m> {
    StateWords(memory.words(table.states + lane * size_of::<DumpBufferState>() as u64))
}
