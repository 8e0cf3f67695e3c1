//! The other side, played by hand: plain reads and writes over the region, in the protocol's own words.

use std::collections::VecDeque;

use core::mem::offset_of;
use tensortap_abi::{
    DumpBufferHeader, DumpBufferState, DumpSetupHeader, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD,
    RECORD_HAS_STATS, RECORD_TRUNCATED, RecordKind, TensorDumpRecord,
};
use zerocopy::FromBytes;

use crate::rig::{RUN_ID, Rig};

/// What the records of one ask amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The record; of a payload in pieces, its begin with the hash and flags of its commit.
    pub record: TensorDumpRecord,
    /// What lay in the arena.
    pub payload: Option<Vec<u8>>,
    /// Pieces it came in; 0 when whole.
    pub pieces: u32,
}

/// Takes one thread's records.
pub struct FakeHost<'r> {
    rig: &'r Rig,
    thread: u64,
    /// Everything taken so far, payloads copied.
    pub taken: Vec<Taken>,
    /// Record kinds as they came, steps of a large payload included.
    pub kinds: Vec<RecordKind>,
    next_seq: u64,
    place: u64,
    safe_to: u64,
    emptied: VecDeque<u32>,
    begun: Option<Taken>,
}

macro_rules! state_offset {
    ($field:ident) => {
        core::mem::offset_of!(tensortap_abi::DumpBufferState, $field) as u64
    };
}
pub(crate) use state_offset;

impl<'r> FakeHost<'r> {
    pub fn new(rig: &'r Rig, thread: u64) -> Self {
        FakeHost {
            rig,
            thread,
            taken: Vec::new(),
            kinds: Vec::new(),
            next_seq: 0,
            place: 0,
            safe_to: 0,
            emptied: VecDeque::new(),
            begun: None,
        }
    }

    /// A word of the thread's state.
    pub fn state(&self, offset: u64) -> u64 {
        self.rig.word(self.state_at(offset)).see()
    }

    pub fn state_at(&self, offset: u64) -> u64 {
        self.rig.geometry.states_offset() + self.thread * size_of::<DumpBufferState>() as u64 + offset
    }

    fn set_state(&self, offset: u64, value: u64) {
        self.rig.word(self.state_at(offset)).publish(value);
    }

    /// Takes everything, and gives everything back.
    pub fn drain(&mut self) {
        self.take(usize::MAX);
        self.free_arena();
        self.return_buffers();
    }

    /// Takes up to `limit` committed records; how many.
    pub fn take(&mut self, limit: usize) -> usize {
        let mut count = 0;
        while count < limit {
            // In this order: a buffer that is no longer current by now is in the queue.
            let current = self.state(state_offset!(current_buffer));
            let popped = self.state(state_offset!(ready_popped));
            let ready = self.state(state_offset!(ready_pushed)) > popped;
            let number = if ready {
                self.rig.half_word(self.queue_at(1, popped)).get()
            } else if current > 0 {
                u32::try_from(current - 1).unwrap()
            } else {
                break;
            };
            let committed = self.check_buffer(number);
            if ready {
                assert_eq!(committed, self.records(), "a buffer in the ready queue is full");
            }
            if self.place == committed && !(ready && committed == self.records()) {
                break;
            }
            if self.place < committed {
                self.take_record(number);
                count += 1;
            }
            if ready && self.place == self.records() {
                self.set_state(state_offset!(ready_popped), popped + 1);
                self.emptied.push_back(number);
                self.place = 0;
            }
        }
        count
    }

    /// Gives back the arena below the last payload taken.
    pub fn free_arena(&self) {
        self.set_state(state_offset!(consumed_cursor), self.safe_to);
    }

    /// Gives emptied buffers back.
    pub fn return_buffers(&mut self) {
        for number in std::mem::take(&mut self.emptied) {
            let pushed = self.state(state_offset!(free_pushed));
            self.rig.half_word(self.queue_at(0, pushed)).set(number);
            self.set_state(state_offset!(free_pushed), pushed + 1);
        }
    }

    /// Says that the host lives.
    pub fn beat(rig: &Rig) {
        rig.word(offset_of!(DumpSetupHeader, heartbeat) as u64).add(1);
    }

    /// Says that nothing can be written any more.
    pub fn discard(rig: &Rig) {
        rig.word(offset_of!(DumpSetupHeader, discard) as u64).set(1);
    }

    fn records(&self) -> u64 {
        self.rig.geometry.records.into()
    }

    fn queue_at(&self, queue: u64, count: u64) -> u64 {
        let buffers = u64::from(self.rig.geometry.buffers);
        let start = self.rig.geometry.queues_offset() + self.thread * self.rig.geometry.queue_bytes();
        start + (queue * buffers + count % buffers) * 4
    }

    fn buffer_at(&self, number: u32) -> u64 {
        let geometry = self.rig.geometry;
        let index = self.thread * u64::from(geometry.buffers) + u64::from(number);
        geometry.buffers_offset() + index * geometry.buffer_bytes()
    }

    /// Checks a buffer's header against what was taken so far; its committed records.
    fn check_buffer(&self, number: u32) -> u64 {
        assert!(number < self.rig.geometry.buffers);
        let at = self.buffer_at(number);
        let committed = self.rig.word(at + offset_of!(DumpBufferHeader, committed) as u64).see();
        assert!(self.place <= committed && committed <= self.records());
        let field = |offset| self.rig.word(at + offset).get();
        assert_eq!(field(0), RUN_ID);
        assert_eq!(field(offset_of!(DumpBufferHeader, first_seq) as u64), self.next_seq - self.place);
        assert_eq!(field(offset_of!(DumpBufferHeader, thread) as u64), self.thread);
        committed
    }

    fn take_record(&mut self, number: u32) {
        let at = self.buffer_at(number) + size_of::<DumpBufferHeader>() as u64 + self.place * 192;
        let record = TensorDumpRecord::read_from_bytes(&self.rig.read(at, 192)).unwrap();
        self.place += 1;
        self.next_seq += 1;
        let kind = RecordKind::from_tag(record.kind).expect("a kind");
        self.kinds.push(kind);
        let payload = self.payload(&record);
        match (kind, self.begun.take()) {
            (RecordKind::Begin, None) => {
                assert_eq!(payload, None);
                self.begun = Some(Taken { record, payload: Some(Vec::new()), pieces: 0 });
            }
            (RecordKind::Piece, Some(mut begun)) => {
                assert_eq!(record.flags, begun.record.flags | RECORD_HAS_PAYLOAD);
                let so_far = begun.payload.as_mut().unwrap();
                assert_eq!(record.start_offset, so_far.len() as u64);
                so_far.extend(payload.expect("a piece has a payload"));
                begun.pieces += 1;
                self.begun = Some(begun);
            }
            (RecordKind::Commit, Some(mut begun)) => {
                assert_eq!(record.payload_bytes, begun.record.payload_bytes);
                assert_eq!(
                    (record.task_id, record.arg_index),
                    (begun.record.task_id, begun.record.arg_index)
                );
                let ending = RECORD_HAS_HASH | RECORD_TRUNCATED;
                assert_eq!(record.flags & !ending, begun.record.flags, "what was in flight stays so");
                begun.record.hash = record.hash;
                begun.record.flags |= record.flags;
                self.taken.push(begun);
            }
            (RecordKind::Begin | RecordKind::Piece | RecordKind::Commit, begun) => {
                panic!("{kind:?} after {begun:?}")
            }
            (_, begun) => {
                assert_eq!(begun, None, "pieces of one payload are consecutive records");
                self.taken.push(Taken { record, payload, pieces: 0 });
            }
        }
    }

    /// Copies what lies in the arena, after checking that it lies where the device may have written.
    fn payload(&mut self, record: &TensorDumpRecord) -> Option<Vec<u8>> {
        let bytes = match record.flags & (RECORD_HAS_PAYLOAD | RECORD_HAS_STATS) {
            0 => return None,
            RECORD_HAS_PAYLOAD => record.payload_bytes,
            RECORD_HAS_STATS => 64,
            _ => panic!("payload and statistics"),
        };
        let (position, arena) = (record.payload_pos, self.rig.geometry.arena_bytes);
        let written = self.state(state_offset!(write_cursor));
        assert!(self.safe_to <= position && position + bytes <= written, "outside the bytes handed out");
        assert_eq!(position % 64, 0);
        assert!(position % arena + bytes <= arena, "straddles the arena's end");
        self.safe_to = position + bytes;
        Some(self.read_arena(position, bytes))
    }

    /// Bytes of the arena, wherever they are valid or not.
    pub fn read_arena(&self, position: u64, bytes: u64) -> Vec<u8> {
        let arena = self.rig.geometry.arena_bytes;
        let start = self.rig.geometry.arenas_offset() + self.thread * arena;
        self.rig.read(start + position % arena, bytes)
    }
}
