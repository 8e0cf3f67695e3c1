//! A hand-written host: plain reads and writes over the region, following the protocol.

use std::collections::VecDeque;

use core::mem::offset_of;
use tensortap_abi::{
    BeginRecord, CommitRecord, DType, DispatchRecord, DumpBufferHeader, DumpBufferState, DumpRecord,
    DumpSetupHeader, INLINE_TEXT_BYTES, KernelRecord, PieceRecord, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD,
    RECORD_HAS_STATS, RECORD_IN_FLIGHT, RECORD_TRUNCATED, RecordKind, StringRecord, TensorRecord,
};
use zerocopy::FromBytes;

use crate::rig::{RUN_ID, Rig};

/// The result of one recording call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainedRecord {
    /// The record. For a payload in pieces: the tensor with the hash and flags of its commit record.
    pub record: DumpRecord,
    /// The payload in the arena.
    pub payload: Option<Vec<u8>>,
    /// Number of pieces; 0 if the payload was sent whole.
    pub pieces: u32,
}

impl DrainedRecord {
    /// The record of a tensor.
    pub fn tensor(&self) -> TensorRecord {
        *self.record.get().expect("a tensor")
    }

    /// Bytes of a tensor's content, by its shape.
    pub fn content_bytes(&self) -> u64 {
        content_bytes(&self.tensor())
    }
}

/// Bytes of a tensor's content, by its shape.
pub fn content_bytes(tensor: &TensorRecord) -> u64 {
    let numel: u64 = tensor.shape[..usize::from(tensor.ndims)].iter().product();
    DType::from_tag(tensor.dtype).unwrap().packed_bytes(numel).unwrap()
}

/// Arena position and size of a record's data.
pub fn in_arena(record: &DumpRecord) -> Option<(u64, u64)> {
    if let Some(string) = record.get::<StringRecord>() {
        let long = string.text_bytes as usize > INLINE_TEXT_BYTES;
        return long.then_some((string.text_pos, string.text_bytes.into()));
    }
    if let Some(kernel) = record.get::<KernelRecord>() {
        let many = usize::from(kernel.arg_count) > kernel.args.len();
        return many.then_some((kernel.args_pos, u64::from(kernel.arg_count) * 8));
    }
    match record.flags & (RECORD_HAS_PAYLOAD | RECORD_HAS_STATS) {
        0 => record
            .get()
            .filter(|tensor: &&TensorRecord| tensor.payload_pos != 0)
            .map(|tensor| (tensor.payload_pos, 0)),
        RECORD_HAS_STATS => record.get().map(|tensor: &TensorRecord| (tensor.payload_pos, 64)),
        RECORD_HAS_PAYLOAD => {
            let tensor =
                record.get().map(|tensor: &TensorRecord| (tensor.payload_pos, content_bytes(tensor)));
            let piece = record.get().map(|piece: &PieceRecord| (piece.payload_pos, piece.bytes));
            let words = record.get().map(|d: &DispatchRecord| (d.words_pos, d.words_bytes.into()));
            Some(tensor.or(piece).or(words).expect("a kind that has a payload"))
        }
        _ => panic!("payload and statistics"),
    }
}

/// Reads one lane's records.
pub struct FakeHost<'r> {
    rig: &'r Rig,
    lane: u64,
    /// Everything read so far, with copies of the payloads.
    pub taken: Vec<DrainedRecord>,
    /// Record kinds in order of arrival, including the records of a payload in pieces.
    pub kinds: Vec<RecordKind>,
    next_seq: u64,
    place: u64,
    safe_to: u64,
    emptied: VecDeque<u32>,
    begun: Option<(u64, DrainedRecord)>,
}

macro_rules! state_offset {
    ($field:ident) => {
        core::mem::offset_of!(tensortap_abi::DumpBufferState, $field) as u64
    };
}
pub(crate) use state_offset;

impl<'r> FakeHost<'r> {
    pub fn new(rig: &'r Rig, lane: u64) -> Self {
        FakeHost {
            rig,
            lane,
            taken: Vec::new(),
            kinds: Vec::new(),
            next_seq: 0,
            place: 0,
            safe_to: 0,
            emptied: VecDeque::new(),
            begun: None,
        }
    }

    /// A word of the lane's state.
    pub fn state(&self, offset: u64) -> u64 {
        self.rig.word(self.state_at(offset)).see()
    }

    pub fn state_at(&self, offset: u64) -> u64 {
        self.rig.geometry.states_offset() + self.lane * size_of::<DumpBufferState>() as u64 + offset
    }

    fn set_state(&self, offset: u64, value: u64) {
        self.rig.word(self.state_at(offset)).publish(value);
    }

    /// Reads everything and releases everything.
    pub fn drain(&mut self) {
        self.take(usize::MAX);
        self.free_arena();
        self.return_buffers();
    }

    /// Reads up to `limit` committed records and returns how many it read.
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

    /// Releases the arena up to the last payload that was read.
    pub fn free_arena(&self) {
        self.set_state(state_offset!(consumed_cursor), self.safe_to);
    }

    /// Returns emptied buffers.
    pub fn return_buffers(&mut self) {
        for number in std::mem::take(&mut self.emptied) {
            let pushed = self.state(state_offset!(free_pushed));
            self.rig.half_word(self.queue_at(0, pushed)).set(number);
            self.set_state(state_offset!(free_pushed), pushed + 1);
        }
    }

    /// Sends one heartbeat.
    pub fn beat(rig: &Rig) {
        rig.word(offset_of!(DumpSetupHeader, heartbeat) as u64).add(1);
    }

    /// Orders producers to discard data.
    pub fn discard(rig: &Rig) {
        rig.word(offset_of!(DumpSetupHeader, discard) as u64).set(1);
    }

    fn records(&self) -> u64 {
        self.rig.geometry.records.into()
    }

    fn queue_at(&self, queue: u64, count: u64) -> u64 {
        let buffers = u64::from(self.rig.geometry.buffers);
        let start = self.rig.geometry.queues_offset() + self.lane * self.rig.geometry.queue_bytes();
        start + (queue * buffers + count % buffers) * 4
    }

    fn buffer_at(&self, number: u32) -> u64 {
        let geometry = self.rig.geometry;
        let index = self.lane * u64::from(geometry.buffers) + u64::from(number);
        geometry.buffers_offset() + index * geometry.buffer_bytes()
    }

    /// Checks a buffer's header against the records read so far. Returns its number of committed records.
    fn check_buffer(&self, number: u32) -> u64 {
        assert!(number < self.rig.geometry.buffers);
        let at = self.buffer_at(number);
        let committed = self.rig.word(at + offset_of!(DumpBufferHeader, committed) as u64).see();
        assert!(self.place <= committed && committed <= self.records());
        let field = |offset| self.rig.word(at + offset).get();
        assert_eq!(field(0), RUN_ID);
        assert_eq!(field(offset_of!(DumpBufferHeader, first_seq) as u64), self.next_seq - self.place);
        assert_eq!(field(offset_of!(DumpBufferHeader, lane) as u64), self.lane);
        committed
    }

    fn take_record(&mut self, number: u32) {
        let at = self.buffer_at(number) + size_of::<DumpBufferHeader>() as u64 + self.place * 192;
        let record = DumpRecord::read_from_bytes(&self.rig.read(at, 192)).unwrap();
        self.place += 1;
        self.next_seq += 1;
        let kind = RecordKind::from_tag(record.kind).expect("a kind");
        self.kinds.push(kind);
        let payload = self.payload(&record);
        match (kind, self.begun.take()) {
            (RecordKind::Begin, None) => {
                assert_eq!(payload, None);
                let begin: &BeginRecord = record.get().unwrap();
                assert_eq!(begin.reserved, [0; 16]);
                let taken =
                    DrainedRecord { record: begin.tensor().into(), payload: Some(Vec::new()), pieces: 0 };
                self.begun = Some((begin.payload_id, taken));
            }
            (RecordKind::Piece, Some((id, mut begun))) => {
                let piece: &PieceRecord = record.get().unwrap();
                let in_flight = begun.record.flags & RECORD_IN_FLIGHT;
                assert_eq!((piece.flags, piece.payload_id), (in_flight | RECORD_HAS_PAYLOAD, id));
                let so_far = begun.payload.as_mut().unwrap();
                assert_eq!(piece.offset, so_far.len() as u64);
                so_far.extend(payload.expect("a piece has a payload"));
                begun.pieces += 1;
                self.begun = Some((id, begun));
            }
            (RecordKind::Commit, Some((id, mut begun))) => {
                let commit: &CommitRecord = record.get().unwrap();
                let so_far = begun.payload.as_ref().unwrap().len() as u64;
                assert_eq!((commit.payload_id, commit.stored_bytes), (id, so_far));
                let ending = RECORD_HAS_HASH | RECORD_TRUNCATED;
                let in_flight = begun.record.flags & RECORD_IN_FLIGHT;
                assert_eq!(commit.flags & !ending, in_flight, "what was in flight stays so");
                let tensor: &mut TensorRecord = begun.record.get_mut().unwrap();
                assert_eq!((commit.task_id, commit.arg_index), (tensor.task_id, tensor.arg_index));
                tensor.hash = commit.hash;
                tensor.flags |= commit.flags;
                self.taken.push(begun);
            }
            (RecordKind::Begin | RecordKind::Piece | RecordKind::Commit, begun) => {
                panic!("{kind:?} after {begun:?}")
            }
            (_, begun) => {
                assert_eq!(begun, None, "pieces of one payload are consecutive records");
                self.taken.push(DrainedRecord { record, payload, pieces: 0 });
            }
        }
    }

    /// Copies a payload from the arena, after checking that it is within the range the device may have
    /// written.
    fn payload(&mut self, record: &DumpRecord) -> Option<Vec<u8>> {
        let (position, bytes) = in_arena(record)?;
        let arena = self.rig.geometry.arena_bytes;
        let written = self.state(state_offset!(write_cursor));
        assert!(self.safe_to <= position && position + bytes <= written, "outside the bytes handed out");
        assert_eq!(position % 64, 0);
        assert!(position % arena + bytes <= arena, "straddles the arena's end");
        self.safe_to = position + bytes;
        Some(self.read_arena(position, bytes))
    }

    /// Bytes of the arena, whether they are valid or not.
    pub fn read_arena(&self, position: u64, bytes: u64) -> Vec<u8> {
        let arena = self.rig.geometry.arena_bytes;
        let start = self.rig.geometry.arenas_offset() + self.lane * arena;
        self.rig.read(start + position % arena, bytes)
    }
}
