//! A lane that follows a test's script. It follows the layout and shares no code with the recorder.

use std::mem::offset_of;

use tensortap_abi::{
    BeginRecord, CommitRecord, DType, DumpBufferHeader, DumpBufferState, DumpGeometry, DumpStage,
    PieceRecord, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, Role, TaskRecord, TensorRecord,
};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};
use zerocopy::IntoBytes;

use crate::{RegionMemory, testing::TestMemory};

/// The content hash, as the format documentation describes it.
pub fn content_hash(bytes: &[u8]) -> [u8; 16] {
    if bytes.len() <= 4096 {
        return xxh3_128(bytes).to_le_bytes();
    }
    let leaves: Vec<u8> = bytes.chunks(4096).flat_map(|leaf| xxh3_128(leaf).to_le_bytes()).collect();
    xxh3_128_with_seed(&leaves, bytes.len() as u64).to_le_bytes()
}

/// A contiguous vector of bytes right after the region, without payload yet.
pub fn tensor_of(task_id: u64, arg_index: u16, bytes: u64, address: u64) -> TensorRecord {
    TensorRecord {
        task_id,
        address,
        stage: DumpStage::BeforeDispatch as u8,
        role: Role::Input.tag(),
        dtype: DType::UInt8.tag(),
        ndims: 1,
        arg_index,
        shape: [bytes, 0, 0, 0, 0, 0, 0, 0],
        strides: [1, 0, 0, 0, 0, 0, 0, 0],
        ..TensorRecord::default()
    }
}

/// One lane.
pub struct FakeLane {
    pub memory: TestMemory,
    pub geometry: DumpGeometry,
    pub lane: u32,
    pub run_id: u64,
    pub cursor: u64,
    pub seq: u64,
    committed: u64,
    /// Buffer being filled, and the number of records in it.
    current: Option<(u32, u64)>,
    free_popped: u64,
    ready_pushed: u64,
    /// Bytes sent so far of payloads in pieces, by their ids.
    sent: std::collections::HashMap<u64, u64>,
}

impl FakeLane {
    pub fn new(memory: TestMemory, geometry: DumpGeometry, lane: u32, run_id: u64) -> FakeLane {
        FakeLane {
            memory,
            geometry,
            lane,
            run_id,
            cursor: 0,
            seq: 0,
            committed: 0,
            current: None,
            free_popped: 0,
            ready_pushed: 0,
            sent: Default::default(),
        }
    }

    /// Offset of a word of this lane's state, by its offset in [`DumpBufferState`].
    pub fn state_word(&self, field: usize) -> u64 {
        let index = u64::from(self.lane) * size_of::<DumpBufferState>() as u64;
        self.geometry.states_offset() + index + field as u64
    }

    pub fn read_state(&self, field: usize) -> u64 {
        self.memory.read_u64(self.state_word(field)).unwrap()
    }

    fn write_state(&self, field: usize, value: u64) {
        self.memory.write_u64(self.state_word(field), value).unwrap();
    }

    /// Checks for the host, as a waiting thread does.
    pub fn wait(&self) {
        let waits = offset_of!(DumpBufferState, waits);
        self.write_state(waits, self.read_state(waits) + 1);
    }

    fn queue(&self) -> u64 {
        self.geometry.queues_offset() + u64::from(self.lane) * self.geometry.queue_bytes()
    }

    pub fn buffer(&self, number: u32) -> u64 {
        let index = u64::from(self.lane) * u64::from(self.geometry.buffers) + u64::from(number);
        self.geometry.buffers_offset() + index * self.geometry.buffer_bytes()
    }

    pub fn arena(&self, position: u64) -> u64 {
        let arena = self.geometry.arenas_offset() + u64::from(self.lane) * self.geometry.arena_bytes;
        arena + position % self.geometry.arena_bytes
    }

    /// Takes arena space; `None` if the host has not released enough.
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let arena = self.geometry.arena_bytes;
        let mut position = self.cursor.next_multiple_of(align);
        if position % arena + bytes > arena {
            position = position.next_multiple_of(arena);
        }
        let consumed = self.read_state(offset_of!(DumpBufferState, consumed_cursor));
        if position + bytes - consumed > arena {
            return None;
        }
        self.move_cursor(position + bytes);
        Some(position)
    }

    pub fn move_cursor(&mut self, cursor: u64) {
        self.cursor = cursor;
        self.write_state(offset_of!(DumpBufferState, write_cursor), cursor);
    }

    /// Commits a record; false if the host has returned no buffer.
    pub fn commit(&mut self, record: &[u8]) -> bool {
        if self.current.is_none() && !self.open_buffer() {
            return false;
        }
        let (number, count) = self.current.unwrap();
        let header_bytes = size_of::<DumpBufferHeader>() as u64;
        let place = self.buffer(number) + header_bytes + count * record.len() as u64;
        self.memory.write(place, record).unwrap();
        let committed = self.buffer(number) + offset_of!(DumpBufferHeader, committed) as u64;
        self.memory.write_u64(committed, count + 1).unwrap();
        self.seq += 1;
        self.committed += 1;
        self.write_state(offset_of!(DumpBufferState, records), self.committed);
        self.current = Some((number, count + 1));
        if count + 1 == u64::from(self.geometry.records) {
            self.hand_over(number);
        }
        true
    }

    fn open_buffer(&mut self) -> bool {
        if self.read_state(offset_of!(DumpBufferState, free_pushed)) == self.free_popped {
            return false;
        }
        let entry = self.queue() + self.free_popped % u64::from(self.geometry.buffers) * 4;
        let mut number = [0; 4];
        self.memory.read(entry, &mut number).unwrap();
        let number = u32::from_le_bytes(number);
        self.free_popped += 1;
        self.write_state(offset_of!(DumpBufferState, free_popped), self.free_popped);
        let header = DumpBufferHeader {
            run_id: self.run_id,
            first_seq: self.seq,
            lane: self.lane.into(),
            ..DumpBufferHeader::default()
        };
        self.memory.write(self.buffer(number), header.as_bytes()).unwrap();
        self.write_state(offset_of!(DumpBufferState, current_buffer), u64::from(number) + 1);
        self.current = Some((number, 0));
        true
    }

    fn hand_over(&mut self, number: u32) {
        self.current = None;
        self.write_state(offset_of!(DumpBufferState, current_buffer), 0);
        let buffers = u64::from(self.geometry.buffers);
        let entry = self.queue() + (buffers + self.ready_pushed % buffers) * 4;
        self.memory.write(entry, &number.to_le_bytes()).unwrap();
        self.ready_pushed += 1;
        self.write_state(offset_of!(DumpBufferState, ready_pushed), self.ready_pushed);
    }

    /// Records a task, as at the start of every stage.
    pub fn task(&mut self, task_id: u64) -> bool {
        let task = TaskRecord {
            task_id,
            func_id: [task_id as u32 % 7, u32::MAX, u32::MAX],
            block_num: 1,
            started_ns: 1000 + task_id,
            completed_ns: 2000 + task_id,
            tensor_count: 1,
            ..TaskRecord::default()
        };
        self.commit(task.as_bytes())
    }

    /// Records a tensor with its payload in one piece; false if there is no space now.
    pub fn tensor(&mut self, task_id: u64, arg_index: u16, content: &[u8]) -> bool {
        let bytes = content.len() as u64;
        let has_buffer = self.current.is_some()
            || self.read_state(offset_of!(DumpBufferState, free_pushed)) > self.free_popped;
        if !has_buffer {
            return false;
        }
        let Some(payload_pos) = self.reserve(bytes, DumpGeometry::payload_align(bytes)) else { return false };
        self.memory.write(self.arena(payload_pos), content).unwrap();
        let record = TensorRecord {
            payload_pos,
            hash: content_hash(content),
            flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
            ..tensor_of(task_id, arg_index, bytes, self.address())
        };
        self.commit(record.as_bytes())
    }

    /// Address of the tensors of these tests: right after the region.
    pub fn address(&self) -> u64 {
        self.memory.range().addr + self.geometry.bytes()
    }

    /// The begin record of a payload in pieces, whose id is that of its task.
    pub fn begin(&mut self, task_id: u64, bytes: u64) -> bool {
        self.sent.insert(task_id, 0);
        let begin = BeginRecord::new(&tensor_of(task_id, 0, bytes, self.address()), task_id);
        self.commit(begin.as_bytes())
    }

    /// A piece; false if there is no space now.
    pub fn piece(&mut self, task_id: u64, offset: u64, content: &[u8]) -> bool {
        let bytes = content.len() as u64;
        let Some(payload_pos) = self.reserve(bytes, 64) else { return false };
        self.memory.write(self.arena(payload_pos), content).unwrap();
        *self.sent.entry(task_id).or_default() += bytes;
        let piece = PieceRecord {
            task_id,
            stage: DumpStage::BeforeDispatch as u8,
            payload_id: task_id,
            payload_pos,
            offset,
            bytes,
            flags: RECORD_HAS_PAYLOAD,
            ..PieceRecord::default()
        };
        self.commit(piece.as_bytes())
    }

    /// The commit record.
    pub fn end(&mut self, task_id: u64, whole: &[u8], flags: u32) -> bool {
        let end = CommitRecord {
            task_id,
            stage: DumpStage::BeforeDispatch as u8,
            payload_id: task_id,
            stored_bytes: self.sent.remove(&task_id).unwrap_or(0),
            hash: content_hash(whole),
            flags: RECORD_HAS_HASH | flags,
            ..CommitRecord::default()
        };
        self.commit(end.as_bytes())
    }
}
