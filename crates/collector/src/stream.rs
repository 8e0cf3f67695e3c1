//! Follows one device thread: which buffer comes next, which records may be read, what may be given back.
//!
//! Buffers travel in a ring: the device takes them from the free queue in order, the host returns them in the order in
//! which they were filled. Number `n` of the free queue is therefore always buffer `n % buffers`, and the host knows
//! which buffer comes next without being told. What the device says is only checked against that.
//!
//! A buffer's header is read after one of two words has said that it is written: the ready queue holds the buffer, or
//! `current_buffer` names it. The device names no buffer before it hands one over, so that a name that is left over
//! from the last filling is never seen once the buffer was given back.

use tensortap_abi::{DumpBufferHeader, DumpBufferState, DumpGeometry};
use tensortap_platform::PlatformError;
use tensortap_sync::cursor::{CursorError, Follower};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{
    RegionMemory,
    places::{Places, RECORD_BYTES},
};

/// A larger gap between sequence numbers is damage, not loss.
const MAX_MISSING: u64 = 1 << 32;

/// Records copied out by one call.
const MAX_TAKE: u64 = 512;

/// What a thread's half of the region says and cannot be. Collection of that thread ends with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A count or cursor moved back, or further than it can.
    #[error("the {count} of device thread {thread} is damaged: {error}; {SCRIBBLED}")]
    Count {
        /// Device thread.
        thread: u32,
        /// Which count.
        count: &'static str,
        /// How it moved.
        error: CursorError,
    },
    /// The ready queue holds another buffer than the one that is due.
    #[error(
        "the ready queue of device thread {thread} holds buffer {found} where {expected} is due; {SCRIBBLED}"
    )]
    ReadyEntry {
        /// Device thread.
        thread: u32,
        /// Buffer in the queue.
        found: u32,
        /// Buffer that is due.
        expected: u32,
    },
    /// A buffer's header is not that of this run, thread and sequence.
    #[error(
        "the header of buffer {number} of device thread {thread} has {field} {found:#x} where {expected:#x} is due; \
         {SCRIBBLED}"
    )]
    BufferHeader {
        /// Device thread.
        thread: u32,
        /// Buffer.
        number: u32,
        /// Field of the header.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The value it must have, or the least.
        expected: u64,
    },
}

const SCRIBBLED: &str = "a kernel may have written there, and records of this thread end here";

/// Why following failed: the region is damaged, or it cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(transparent)]
    Damaged(#[from] StreamError),
    #[error(transparent)]
    Memory(#[from] PlatformError),
}

/// The buffer being read.
#[derive(Clone, Copy, Debug)]
struct InHand {
    number: u32,
    taken: Follower,
}

/// Records copied out of one buffer.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Sequence number of the first.
    pub(crate) first_seq: u64,
    /// The records, one after another.
    pub(crate) bytes: Vec<u8>,
}

impl Taken {
    pub(crate) fn len(&self) -> u64 {
        (self.bytes.len() / RECORD_BYTES) as u64
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(RECORD_BYTES)
    }
}

/// The host's side of one thread's queues and cursors. Own positions are plain fields; the words are only stored.
#[derive(Debug)]
pub(crate) struct Stream {
    places: Places,
    thread: u32,
    geometry: DumpGeometry,
    run_id: u64,
    /// The device is read once, after its run.
    batch: bool,
    in_hand: Option<InHand>,
    /// Buffers ever read in full and given back.
    returned: u64,
    next_seq: u64,
    missing_records: u64,
    write_cursor: Follower,
    consumed: u64,
    acknowledged: u64,
}

impl Stream {
    /// The stream of a thread at its beginning, `run_id` being that of the region's header.
    pub(crate) fn new(geometry: DumpGeometry, thread: u32, run_id: u64, batch: bool) -> Stream {
        Stream {
            places: Places::new(geometry, thread),
            thread,
            geometry,
            run_id,
            batch,
            in_hand: None,
            returned: 0,
            next_seq: 0,
            missing_records: 0,
            write_cursor: Follower::new(0),
            consumed: 0,
            acknowledged: 0,
        }
    }

    pub(crate) fn places(&self) -> Places {
        self.places
    }

    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// Position behind every byte that a record taken so far can name.
    pub(crate) fn write_cursor(&self) -> u64 {
        self.write_cursor.seen()
    }

    /// Records made safe, by sequence number.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Records that the sequence numbers say were lost.
    pub(crate) fn missing_records(&self) -> u64 {
        self.missing_records
    }

    /// Copies committed records out; false when there are none now.
    pub(crate) fn take(
        &mut self,
        memory: &impl RegionMemory,
        taken: &mut Taken,
    ) -> Result<bool, FollowError> {
        taken.bytes.clear();
        self.return_buffer(memory)?;
        if self.in_hand.is_none() {
            self.open_buffer(memory)?;
        }
        let Some(InHand { number, taken: mut seen }) = self.in_hand else { return Ok(false) };
        let before = seen.seen();
        let committed = memory.read_u64(self.places.committed(number))?;
        self.follow(&mut seen, "count of committed records", committed, self.geometry.records.into())?;
        let count = (committed - before).min(MAX_TAKE);
        if count == 0 {
            return Ok(false);
        }
        // After `committed`: every position that a committed record names lies below this cursor.
        self.read_cursor(memory)?;
        let len = usize::try_from(count).unwrap_or(0) * RECORD_BYTES;
        taken.bytes.resize(len, 0);
        memory.read(self.places.record(number, before), &mut taken.bytes)?;
        taken.first_seq = self.next_seq;
        self.next_seq += count;
        self.in_hand = Some(InHand { number, taken: Follower::new(before + count) });
        Ok(true)
    }

    /// Gives back arena space below `consumed`, and says that records below `acknowledged` are safe. Tells whether a
    /// device thread may wait for it.
    pub(crate) fn release(
        &mut self,
        memory: &impl RegionMemory,
        consumed: u64,
        acknowledged: u64,
    ) -> Result<bool, FollowError> {
        let mut gave = false;
        if consumed > self.consumed {
            self.consumed = consumed;
            memory.write_u64(self.places.consumed_cursor(), consumed)?;
            gave = true;
        }
        if acknowledged > self.acknowledged {
            self.acknowledged = acknowledged;
            memory.write_u64(self.places.acknowledged(), acknowledged)?;
        }
        Ok(self.return_buffer(memory)? || gave)
    }

    /// Gives back whatever the device has written, without looking at it. For a thread whose records can be followed
    /// no more, so that it does not wait for ever. False when even that makes no sense.
    pub(crate) fn release_unread(&mut self, memory: &impl RegionMemory) -> Result<bool, PlatformError> {
        let cursor = memory.read_u64(self.places.write_cursor())?;
        let pushed = memory.read_u64(self.places.ready_pushed())?;
        let buffers = u64::from(self.geometry.buffers);
        let sane = cursor >= self.consumed
            && cursor - self.consumed <= self.geometry.arena_bytes
            && pushed >= self.returned
            && pushed - self.returned <= buffers;
        if !sane {
            return Ok(false);
        }
        self.in_hand = None;
        self.consumed = cursor;
        memory.write_u64(self.places.consumed_cursor(), cursor)?;
        while self.returned < pushed {
            self.push_free(memory)?;
        }
        Ok(true)
    }

    /// Stores all of the host's words again. A kernel may have written over them, and a device that waits for one of
    /// them to change would wait for ever. The free queue never changes once it was set up; see the module.
    pub(crate) fn restate(&self, memory: &impl RegionMemory) -> Result<(), PlatformError> {
        let buffers = u64::from(self.geometry.buffers);
        let numbers: Vec<u8> = (0..self.geometry.buffers).flat_map(u32::to_le_bytes).collect();
        memory.write(self.places.free_entry(0), &numbers)?;
        memory.write_u64(self.places.free_pushed(), self.returned + buffers)?;
        memory.write_u64(self.places.ready_popped(), self.returned)?;
        memory.write_u64(self.places.consumed_cursor(), self.consumed)?;
        memory.write_u64(self.places.acknowledged(), self.acknowledged)
    }

    /// The counters, whatever they say.
    pub(crate) fn read_state(&self, memory: &impl RegionMemory) -> Result<DumpBufferState, PlatformError> {
        let mut state = DumpBufferState::new_zeroed();
        memory.read(self.places.state(), state.as_mut_bytes())?;
        Ok(state)
    }

    /// Reads the write cursor and checks it against what was seen before.
    pub(crate) fn read_cursor(&mut self, memory: &impl RegionMemory) -> Result<u64, FollowError> {
        let now = memory.read_u64(self.places.write_cursor())?;
        // Nothing is given back while a device is read in one batch, so there the arena wraps as it likes.
        let most = if self.batch { u64::MAX } else { self.consumed + self.geometry.arena_bytes };
        let mut cursor = self.write_cursor;
        self.follow(&mut cursor, "write cursor", now, most)?;
        self.write_cursor = cursor;
        Ok(now)
    }

    fn follow(
        &self,
        follower: &mut Follower,
        count: &'static str,
        now: u64,
        most: u64,
    ) -> Result<u64, StreamError> {
        follower.follow(now, most).map_err(|error| StreamError::Count { thread: self.thread, count, error })
    }

    fn expected_buffer(&self) -> u32 {
        let number = self.returned % u64::from(self.geometry.buffers);
        u32::try_from(number).expect("a remainder of a u32")
    }

    fn open_buffer(&mut self, memory: &impl RegionMemory) -> Result<(), FollowError> {
        let number = self.expected_buffer();
        // Not yet opened, or the device went on between the two looks: the next look finds it in the queue.
        if !self.is_ready(memory, number)?
            && memory.read_u64(self.places.current_buffer())? != u64::from(number) + 1
        {
            return Ok(());
        }
        let mut header = DumpBufferHeader::new_zeroed();
        memory.read(self.places.buffer(number), header.as_mut_bytes())?;
        self.check_header(number, &header)?;
        self.missing_records += header.first_seq - self.next_seq;
        self.next_seq = header.first_seq;
        self.in_hand = Some(InHand { number, taken: Follower::new(0) });
        Ok(())
    }

    fn check_header(&self, number: u32, header: &DumpBufferHeader) -> Result<(), StreamError> {
        // `committed` changes meanwhile and has its own read.
        let DumpBufferHeader { run_id, first_seq, thread, committed: _, reserved: _ } = *header;
        let last_seq = self.next_seq.saturating_add(MAX_MISSING);
        let checks = [
            ("run_id", run_id, self.run_id, run_id == self.run_id),
            ("thread", thread, self.thread.into(), thread == u64::from(self.thread)),
            ("first_seq", first_seq, self.next_seq, (self.next_seq..=last_seq).contains(&first_seq)),
        ];
        match checks.into_iter().find(|&(.., good)| !good) {
            None => Ok(()),
            Some((field, found, expected, _)) => {
                Err(StreamError::BufferHeader { thread: self.thread, number, field, found, expected })
            }
        }
    }

    /// Whether the ready queue holds the buffer that is due.
    fn is_ready(&self, memory: &impl RegionMemory, expected: u32) -> Result<bool, FollowError> {
        let (thread, popped) = (self.thread, self.returned);
        let pushed = memory.read_u64(self.places.ready_pushed())?;
        let most = popped + u64::from(self.geometry.buffers);
        if self.follow(&mut Follower::new(popped), "ready queue", pushed, most)? == popped {
            return Ok(false);
        }
        let mut found = [0; size_of::<u32>()];
        memory.read(self.places.ready_entry(popped), &mut found)?;
        let found = u32::read_from_bytes(&found).unwrap_or(u32::MAX);
        if found != expected {
            return Err(StreamError::ReadyEntry { thread, found, expected }.into());
        }
        Ok(true)
    }

    /// Gives the buffer in hand back when it was read in full and the device is done with it.
    fn return_buffer(&mut self, memory: &impl RegionMemory) -> Result<bool, FollowError> {
        let Some(InHand { number, taken }) = self.in_hand else { return Ok(false) };
        if taken.seen() < u64::from(self.geometry.records) || !self.is_ready(memory, number)? {
            return Ok(false);
        }
        self.in_hand = None;
        self.push_free(memory)?;
        Ok(true)
    }

    /// Pops the ready queue and pushes the same buffer to the free queue, which began with all buffers in it.
    fn push_free(&mut self, memory: &impl RegionMemory) -> Result<(), PlatformError> {
        let number = self.expected_buffer();
        let pushed = self.returned + u64::from(self.geometry.buffers);
        self.returned += 1;
        memory.write_u64(self.places.ready_popped(), self.returned)?;
        memory.write(self.places.free_entry(pushed), &number.to_le_bytes())?;
        memory.write_u64(self.places.free_pushed(), pushed + 1)
    }
}
