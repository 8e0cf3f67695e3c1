//! Follows one lane: which records may be read, and what may be released.
//!
//! The protocols are those of [`tensortap_sync::buffers`], [`tensortap_sync::arena`] and
//! [`tensortap_sync::lease`]. This module gives them the lane's words in the region and uses their results.
//! The device's words are only checked, never trusted; see there.

use std::sync::Arc;

use tensortap_abi::{DumpBufferHeader, DumpBufferState, DumpGeometry};
use tensortap_platform::PlatformError;
use tensortap_sync::{
    Word, arena,
    arena::ArenaWords,
    buffers::{BufferWords, Damage, DrainError, Drainer},
    cursor::{CursorError, ReadError},
    lease::{Tenancy, Watcher},
    spsc::QueueWords,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    lane_offsets::{LaneOffsets, RECORD_BYTES},
    memory::{RegionWord, SharedRegion},
};

/// A larger gap between sequence numbers is damage and not loss.
const MAX_MISSING: u64 = 1 << 32;

/// Maximum number of records that one call copies.
const MAX_TAKE: u64 = 512;

/// Impossible values in a lane's words. The collection of that lane ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A count or cursor moved back, or further than possible.
    #[error("the {count} of lane {lane} is damaged: {error}; {SCRIBBLED}")]
    Count {
        /// Lane.
        lane: u32,
        /// Name of the count.
        count: &'static str,
        /// How it moved.
        error: CursorError,
    },
    /// The ready queue holds a different buffer than the one that is due.
    #[error("the ready queue of lane {lane} holds buffer {found}, expected {expected}; {SCRIBBLED}")]
    ReadyEntry {
        /// Lane.
        lane: u32,
        /// Buffer number in the queue.
        found: u32,
        /// Buffer number that is due.
        expected: u32,
    },
    /// The ready queue holds a buffer that was never taken from the free queue.
    #[error("lane {lane} handed over more buffers than it took; {SCRIBBLED}")]
    NeverTaken {
        /// Lane.
        lane: u32,
    },
    /// A buffer's header does not match this run, lane and sequence.
    #[error(
        "the header of buffer {number} of lane {lane} has {field} {found:#x}, expected {expected:#x}; \
         {SCRIBBLED}"
    )]
    BufferHeader {
        /// Lane.
        lane: u32,
        /// Buffer.
        number: u32,
        /// Field of the header.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The value it must have, or the minimum.
        expected: u64,
    },
    /// The thread waits for the host, but nothing of its lane can be taken or released.
    #[error(
        "the thread of lane {lane} waits for the dump, but the host has nothing to take or release: {why}; \
         {SCRIBBLED}"
    )]
    Standstill {
        /// Lane.
        lane: u32,
        /// The impossible word.
        why: ImpossibleWord,
    },
}

/// The word with an impossible value, when a device thread and the host wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImpossibleWord {
    /// A buffer was taken from the free queue, but it is neither handed over nor named as the one being
    /// filled.
    #[error(
        "the word current_buffer is {found}, expected {due}: {taken} buffers were taken and {ready} handed over"
    )]
    CurrentBuffer {
        /// Value of the word.
        found: u64,
        /// The value it must have.
        due: u64,
        /// The word `free_popped`.
        taken: u64,
        /// The word `ready_pushed`.
        ready: u64,
    },
    /// Arena space is in use, but no committed record names it.
    #[error(
        "the word write_cursor is {written}, but only {consumed} bytes are released and no record names the rest"
    )]
    WriteCursor {
        /// Value of the word.
        written: u64,
        /// Bytes that the host has released.
        consumed: u64,
    },
    /// All buffers and all arena bytes are free according to the words.
    #[error("all {buffers} buffers and the whole arena are free, so there is nothing to wait for")]
    AllFree {
        /// Number of buffers of the lane.
        buffers: u32,
    },
}

const SCRIBBLED: &str = "a kernel may have written there; no more records of this lane are stored";

/// Why following failed: the region is damaged or cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(transparent)]
    Damaged(#[from] StreamError),
    #[error(transparent)]
    Memory(#[from] PlatformError),
}

/// One of a lane's queues.
#[derive(Debug)]
struct Queue {
    memory: SharedRegion,
    offsets: LaneOffsets,
    pushed: u64,
    popped: u64,
    /// Offset of the first entry.
    entries: u64,
}

impl Queue {
    fn entry_at(&self, cell: u64) -> u64 {
        self.entries + cell * size_of::<u32>() as u64
    }
}

impl QueueWords for Queue {
    type Error = PlatformError;

    fn pushed(&self) -> impl Word<Error = PlatformError> {
        RegionWord { memory: &*self.memory, offset: self.pushed }
    }

    fn popped(&self) -> impl Word<Error = PlatformError> {
        RegionWord { memory: &*self.memory, offset: self.popped }
    }

    fn capacity(&self) -> u64 {
        self.offsets.buffers().into()
    }

    fn entry(&self, cell: u64) -> Result<u32, PlatformError> {
        let mut entry = [0; size_of::<u32>()];
        self.memory.read(self.entry_at(cell), &mut entry)?;
        Ok(u32::from_le_bytes(entry))
    }

    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), PlatformError> {
        self.memory.write(self.entry_at(cell), &entry.to_le_bytes())
    }
}

/// A lane's words, as the host accesses them.
#[derive(Clone, Debug)]
struct HostWords {
    memory: SharedRegion,
    offsets: LaneOffsets,
}

impl HostWords {
    fn word(&self, offset: u64) -> RegionWord<SharedRegion> {
        RegionWord { memory: Arc::clone(&self.memory), offset }
    }

    fn queue(&self, pushed: u64, popped: u64, entries: u64) -> Queue {
        Queue { memory: Arc::clone(&self.memory), offsets: self.offsets, pushed, popped, entries }
    }
}

impl BufferWords for HostWords {
    type Error = PlatformError;
    type Word = RegionWord<SharedRegion>;
    type Queue = Queue;

    fn free(&self) -> Queue {
        let Self { offsets, .. } = self;
        self.queue(offsets.free_pushed(), offsets.free_popped(), offsets.free_entries())
    }

    fn ready(&self) -> Queue {
        let Self { offsets, .. } = self;
        self.queue(offsets.ready_pushed(), offsets.ready_popped(), offsets.ready_entries())
    }

    fn current(&self) -> Self::Word {
        self.word(self.offsets.current_buffer())
    }

    fn committed(&self, number: u32) -> Self::Word {
        self.word(self.offsets.committed(number))
    }

    fn buffers(&self) -> u32 {
        self.offsets.buffers()
    }

    fn records(&self) -> u32 {
        self.offsets.records()
    }
}

impl ArenaWords for HostWords {
    type Error = PlatformError;

    fn written(&self) -> impl Word<Error = PlatformError> {
        RegionWord { memory: &*self.memory, offset: self.offsets.write_cursor() }
    }

    fn consumed(&self) -> impl Word<Error = PlatformError> {
        RegionWord { memory: &*self.memory, offset: self.offsets.consumed_cursor() }
    }
}

/// Records copied out of one buffer.
#[derive(Debug, Default)]
pub(crate) struct RecordBatch {
    /// Sequence number of the first record.
    pub(crate) first_seq: u64,
    /// The records, one after another.
    pub(crate) bytes: Vec<u8>,
}

impl RecordBatch {
    pub(crate) fn len(&self) -> u64 {
        (self.bytes.len() / RECORD_BYTES) as u64
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(RECORD_BYTES)
    }
}

/// The host's half of one lane's queues and cursors.
#[derive(Debug)]
pub(crate) struct Stream {
    memory: SharedRegion,
    offsets: LaneOffsets,
    lane: u32,
    run_id: u64,
    buffers: Drainer<HostWords>,
    arena: arena::Consumer<HostWords>,
    leases: Watcher<RegionWord<SharedRegion>>,
    next_seq: u64,
    missing_records: u64,
    acknowledged: u64,
    /// How many bytes of the arena the device may use; 0 means all.
    arena_limit: u64,
}

impl Stream {
    /// The stream of a new lane. `run_id` is that of the region's header. In `batch` mode the host reads
    /// once after the run, and nothing is released before, so the arena may wrap any number of times.
    /// The device may use `arena_start` bytes of its arena until that is raised; 0 means all.
    pub(crate) fn new(
        memory: SharedRegion,
        geometry: DumpGeometry,
        lane: u32,
        run_id: u64,
        batch: bool,
        arena_start: u64,
    ) -> Stream {
        let offsets = LaneOffsets::new(geometry, lane);
        let words = HostWords { memory: Arc::clone(&memory), offsets };
        let arena = if batch { arena::Consumer::overwritten } else { arena::Consumer::new };
        Stream {
            memory,
            offsets,
            lane,
            run_id,
            arena: arena(words.clone(), geometry.arena_bytes),
            leases: Watcher::new(words.word(offsets.leases())),
            buffers: Drainer::new(words),
            next_seq: 0,
            missing_records: 0,
            acknowledged: 0,
            arena_limit: arena_start,
        }
    }

    pub(crate) fn offsets(&self) -> LaneOffsets {
        self.offsets
    }

    pub(crate) fn lane(&self) -> u32 {
        self.lane
    }

    /// Position after every byte that a record taken so far can name.
    pub(crate) fn write_cursor(&self) -> u64 {
        self.arena.seen()
    }

    /// Number of durable records, by sequence number.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of records that are missing in the sequence.
    pub(crate) fn missing_records(&self) -> u64 {
        self.missing_records
    }

    /// Copies committed records. Returns false if there are none now.
    pub(crate) fn take(&mut self, taken: &mut RecordBatch) -> Result<bool, FollowError> {
        taken.bytes.clear();
        self.return_buffer()?;
        if let Some(number) = self.buffers.open().map_err(|error| self.damage(error))? {
            self.read_header(number)?;
        }
        let Some(records) = self.buffers.poll(MAX_TAKE).map_err(|error| self.damage(error))? else {
            return Ok(false);
        };
        // After the count of committed records: every position that one of them names is below this cursor.
        self.read_cursor()?;
        let count = records.places.end - records.places.start;
        taken.bytes.resize(usize::try_from(count).unwrap_or(0) * RECORD_BYTES, 0);
        self.memory.read(self.offsets.record(records.number, records.places.start), &mut taken.bytes)?;
        taken.first_seq = self.next_seq;
        self.next_seq += count;
        Ok(true)
    }

    /// Releases arena space below `consumed` and acknowledges records below `acknowledged`. Returns whether
    /// a device thread may be waiting for it.
    pub(crate) fn release(&mut self, consumed: u64, acknowledged: u64) -> Result<bool, FollowError> {
        let mut gave = false;
        if consumed > self.arena.consumed() {
            self.arena.release_to(consumed).map_err(|error| self.cursor_damage(error))?;
            gave = true;
        }
        if acknowledged > self.acknowledged {
            self.acknowledged = acknowledged;
            self.memory.write_u64(self.offsets.acknowledged(), acknowledged)?;
        }
        Ok(self.return_buffer()? || gave)
    }

    /// Releases everything that the device has written, without reading it. For a lane that can no longer
    /// be followed, so that its thread does not wait forever. Returns false if the words do not even allow
    /// that.
    pub(crate) fn release_unread(&mut self) -> Result<bool, PlatformError> {
        self.arena.forget_seen();
        let released = self.arena.poll().and_then(|cursor| self.arena.release_to(cursor));
        let given_back = self.buffers.give_back_unread();
        match (released, given_back) {
            (Err(ReadError::Unreachable(error)), _) | (_, Err(DrainError::Unreachable(error))) => Err(error),
            (released, given_back) => Ok(released.is_ok() && given_back.is_ok()),
        }
    }

    /// Stores all of the host's words again. A kernel may have overwritten them, and a device that waits
    /// for one of them would wait forever. The entries of the free queue never change after setup.
    pub(crate) fn restate(&self) -> Result<(), PlatformError> {
        let numbers: Vec<u8> = (0..self.offsets.buffers()).flat_map(u32::to_le_bytes).collect();
        self.memory.write(self.offsets.free_entries(), &numbers)?;
        self.buffers.restate()?;
        self.arena.restate()?;
        self.memory.write_u64(self.offsets.arena_limit(), self.arena_limit)?;
        self.memory.write_u64(self.offsets.acknowledged(), self.acknowledged)
    }

    /// How many bytes of the arena the device may use, if that can be raised.
    pub(crate) fn arena_limit(&self) -> Option<u64> {
        (self.arena_limit > 0).then_some(self.arena_limit)
    }

    /// Whether the device found no space within the limit.
    pub(crate) fn wants_more_arena(&self) -> Result<bool, PlatformError> {
        Ok(self.arena_limit > 0 && self.memory.read_u64(self.offsets.arena_wanted())? == self.arena_limit)
    }

    /// Allows the device more bytes of the arena.
    pub(crate) fn raise_arena_limit(&mut self, bytes: u64) -> Result<(), PlatformError> {
        self.arena_limit += bytes;
        self.memory.write_u64(self.offsets.arena_limit(), self.arena_limit)
    }

    /// The counters, unchecked.
    pub(crate) fn read_state(&self) -> Result<DumpBufferState, PlatformError> {
        let mut state = DumpBufferState::new_zeroed();
        self.memory.read(self.offsets.state(), state.as_mut_bytes())?;
        Ok(state)
    }

    /// Whether the lane is leased; `None` if its word is impossible.
    pub(crate) fn tenancy(&mut self) -> Result<Option<Tenancy>, PlatformError> {
        match self.leases.look() {
            Ok(tenancy) => Ok(Some(tenancy)),
            Err(ReadError::Damaged(_)) => Ok(None),
            Err(ReadError::Unreachable(error)) => Err(error),
        }
    }

    /// Reads the write cursor and compares it with earlier values.
    pub(crate) fn read_cursor(&mut self) -> Result<u64, FollowError> {
        self.arena.poll().map_err(|error| self.cursor_damage(error))
    }

    /// The thread's count of checks while it waits.
    pub(crate) fn read_waits(&self) -> Result<u64, PlatformError> {
        self.memory.read_u64(self.offsets.waits())
    }

    /// The reason why a thread waits although the host can do nothing for it.
    pub(crate) fn standstill(&self) -> Result<StreamError, PlatformError> {
        let DumpBufferState { write_cursor, current_buffer, ready_pushed, free_popped, .. } =
            self.read_state()?;
        let (buffers, consumed) = (self.offsets.buffers(), self.arena.consumed());
        let due = ready_pushed % u64::from(buffers) + 1;
        let why = if free_popped != ready_pushed && current_buffer != due {
            ImpossibleWord::CurrentBuffer {
                found: current_buffer,
                due,
                taken: free_popped,
                ready: ready_pushed,
            }
        } else if write_cursor != consumed {
            ImpossibleWord::WriteCursor { written: write_cursor, consumed }
        } else {
            ImpossibleWord::AllFree { buffers }
        };
        Ok(StreamError::Standstill { lane: self.lane, why })
    }

    fn return_buffer(&mut self) -> Result<bool, FollowError> {
        self.buffers.give_back().map_err(|error| self.damage(error))
    }

    fn read_header(&mut self, number: u32) -> Result<(), FollowError> {
        let mut header = DumpBufferHeader::new_zeroed();
        self.memory.read(self.offsets.buffer(number), header.as_mut_bytes())?;
        self.check_header(number, &header)?;
        self.missing_records += header.first_seq - self.next_seq;
        self.next_seq = header.first_seq;
        Ok(())
    }

    fn check_header(&self, number: u32, header: &DumpBufferHeader) -> Result<(), StreamError> {
        // `committed` changes meanwhile and is read separately.
        let DumpBufferHeader { run_id, first_seq, lane, committed: _, reserved: _ } = *header;
        let last_seq = self.next_seq.saturating_add(MAX_MISSING);
        let checks = [
            ("run_id", run_id, self.run_id, run_id == self.run_id),
            ("lane", lane, self.lane.into(), lane == u64::from(self.lane)),
            ("first_seq", first_seq, self.next_seq, (self.next_seq..=last_seq).contains(&first_seq)),
        ];
        match checks.into_iter().find(|&(.., good)| !good) {
            None => Ok(()),
            Some((field, found, expected, _)) => {
                Err(StreamError::BufferHeader { lane: self.lane, number, field, found, expected })
            }
        }
    }

    fn damage(&self, error: DrainError<PlatformError>) -> FollowError {
        let lane = self.lane;
        let damage = match error {
            DrainError::Unreachable(error) => return FollowError::Memory(error),
            DrainError::Damaged(damage) => damage,
        };
        FollowError::Damaged(match damage {
            Damage::Ready(error) => StreamError::Count { lane, count: "ready queue", error },
            Damage::Free(error) => StreamError::Count { lane, count: "free queue", error },
            Damage::Committed(error) => {
                StreamError::Count { lane, count: "count of committed records", error }
            }
            Damage::Entry { found, due } => StreamError::ReadyEntry { lane, found, expected: due },
            Damage::NeverTaken => StreamError::NeverTaken { lane },
        })
    }

    fn cursor_damage(&self, error: ReadError<PlatformError>) -> FollowError {
        match error {
            ReadError::Unreachable(error) => FollowError::Memory(error),
            ReadError::Damaged(error) => {
                FollowError::Damaged(StreamError::Count { lane: self.lane, count: "write cursor", error })
            }
        }
    }
}
