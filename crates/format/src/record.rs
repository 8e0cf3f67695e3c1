//! One record as the index holds it.
//!
//! A record starts with the first 64 bytes of the device's [`TensorDumpRecord`] (or [`TaskDumpRecord`]):
//!
//! | offset | type | field |
//! | --- | --- | --- |
//! | 0 | u64 | `task_id`; of an edge, the task that waits |
//! | 8 | u64 | tensor: offset of the payload in the payload file, 0 when none is stored; scalar: its bits |
//! | 16 | u64 | tensor: bytes stored, or size of the content when none are; dispatch: bytes of its words; orchestration argument: bytes of its buffer |
//! | 24 | 16 bytes | content hash, little endian |
//! | 40 | u64 | first element of the view; uncaptured: the reason's tag |
//! | 48 | u64 | device address of the buffer; edge: the task that is waited for |
//! | 56 | u8 | kind: 1 tensor, 2 scalar, 3 task, 4 dispatch, 8 uncaptured, 9 edge, 10 orchestration argument |
//! | 57 | u8 | stage: 1 before dispatch, 2 after completion; edge: its cause |
//! | 58 | u8 | role: 1 input, 2 output, 3 in-out |
//! | 59 | u8 | dtype tag |
//! | 60 | u8 | dimensions |
//! | 61 | u8 | flags |
//! | 62 | u16 | `arg_index` |
//!
//! Then follow, for a tensor or an orchestration argument, its shape (u64 each), its strides (i64 each) and, with flag 2, 64 bytes of
//! [`TensorStats`]; for a dispatch, eight numbers (u64: kernel, core, subtask slot, active slots, block, blocks,
//! tensors, scalars) and its words ([`tensortap_abi::DispatchWords`]); for the others nothing.
//!
//! Flags of a tensor, of which a dispatch has 1, 8 and 16: 1 the payload is (or was) captured, 2 statistics follow, 4 the hash holds, 8 in flight,
//! 16 the payload is lost, 32 a filter kept it out, 64 another record had stored the same payload before,
//! 128 stored in part, the hash being that of the whole. 1 and 16 together: it was captured and overwritten before the host read it.

mod dispatch;

use tensortap_abi::{
    DType, DumpStage, MAX_DIMS, RECORD_ALREADY_STORED, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS,
    RECORD_IN_FLIGHT, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED, RECORD_TRUNCATED, RecordKind, Role,
    TaskDumpRecord, TensorDumpRecord, TensorStats, UncapturedReason,
};
use zerocopy::{IntoBytes, transmute};

use crate::{
    FormatError,
    layout::{MAX_RECORD_BYTES, NO_STAGE, RECORD_HEAD_BYTES, is_indexed},
};

/// JSON numbers are exact below this; sizes, offsets and dimensions stay below it.
pub(crate) const JSON_LIMIT: u64 = 1 << 53;

/// What became of a tensor's payload, as a writer says it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    /// None was captured (level or filter).
    None,
    /// None was captured; the content's statistics were.
    Stats(TensorStats),
    /// Stored in the payload file.
    Stored {
        /// Where, as [`crate::DumpWriter::reserve`] gave it.
        offset: u64,
        /// All of the content.
        bytes: u64,
    },
    /// Equal to a payload that an earlier record stored.
    Deduplicated {
        /// Where that record's payload lies.
        offset: u64,
        /// All of the content.
        bytes: u64,
    },
    /// Only the first bytes were stored.
    Truncated {
        /// Where.
        offset: u64,
        /// Bytes stored; the hash, if any, covers all of the content.
        bytes: u64,
    },
    /// Captured, and overwritten in the arena before the host read it.
    Overwritten,
    /// Dropped for want of space.
    Dropped,
}

/// What became of a tensor's payload, as the manifest says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadState {
    /// In the payload file.
    Stored,
    /// Never captured.
    None,
    /// Dropped for want of space.
    Dropped,
    /// Overwritten before the host read it.
    Overwritten,
    /// In the payload file, in part.
    Truncated,
}

impl PayloadState {
    /// Spelled as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PayloadState::Stored => "stored",
            PayloadState::None => "none",
            PayloadState::Dropped => "dropped",
            PayloadState::Overwritten => "overwritten",
            PayloadState::Truncated => "truncated",
        }
    }

    /// The state that a manifest's word means.
    pub(crate) fn parse(word: &str) -> Option<PayloadState> {
        use PayloadState::{Dropped, None, Overwritten, Stored, Truncated};
        [Stored, None, Dropped, Overwritten, Truncated].into_iter().find(|state| state.name() == word)
    }
}

/// A record on its way into or out of an index.
///
/// ```
/// use tensortap_abi::{RecordKind, TensorDumpRecord, DumpStage, Role, DType};
/// use tensortap_format::{IndexRecord, Payload};
///
/// let captured = TensorDumpRecord {
///     task_id: 7, kind: RecordKind::Tensor as u8, stage: DumpStage::BeforeDispatch as u8, role: Role::Input.tag(),
///     dtype: DType::Float32.tag(), ndims: 1, shape: [16, 0, 0, 0, 0, 0, 0, 0], strides: [1, 0, 0, 0, 0, 0, 0, 0],
///     ..Default::default()
/// };
/// let record = IndexRecord::tensor(&captured, Payload::Stored { offset: 4096, bytes: 64 });
/// assert_eq!(record.stored_range(), Some((4096, 64)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRecord {
    // A `TaskDumpRecord`'s bytes where `kind` says so; both have `kind` and `flags` in the same places.
    record: TensorDumpRecord,
    stats: Option<TensorStats>,
    words: Vec<u64>,
}

impl IndexRecord {
    /// A tensor: the device's record (of kind tensor, or the begin of a payload sent in pieces, with the hash of
    /// its commit), and what became of its payload.
    #[must_use]
    pub fn tensor(captured: &TensorDumpRecord, payload: Payload) -> IndexRecord {
        let mut record = TensorDumpRecord { kind: RecordKind::Tensor as u8, payload_pos: 0, ..*captured };
        record.flags &= RECORD_HAS_HASH | RECORD_IN_FLIGHT | RECORD_PAYLOAD_FILTERED;
        if captured.flags & RECORD_HAS_HASH == 0 {
            record.hash = [0; 16];
        }
        let mut index_record = IndexRecord { record, stats: None, words: Vec::new() };
        index_record.set_payload(payload);
        index_record
    }

    /// A scalar, an uncaptured argument or an edge, as the device recorded it.
    #[must_use]
    pub fn plain(captured: &TensorDumpRecord) -> IndexRecord {
        let mut record = TensorDumpRecord { ndims: 0, shape: [0; 8], strides: [0; 8], ..*captured };
        record.flags &= RECORD_IN_FLIGHT;
        if record.kind == RecordKind::Scalar as u8 {
            record.role = Role::Input.tag();
            record.payload_bytes = 0;
        }
        IndexRecord { record, stats: None, words: Vec::new() }
    }

    /// A task.
    #[must_use]
    pub fn task(captured: &TaskDumpRecord) -> IndexRecord {
        let task = TaskDumpRecord { reserved3: [0; 16], ..*captured };
        IndexRecord { record: transmute!(task), stats: None, words: Vec::new() }
    }

    /// The same tensor without its payload; hash and metadata stay.
    #[must_use]
    pub fn without_payload(&self) -> IndexRecord {
        let mut record = self.clone();
        record.set_payload(Payload::None);
        record
    }

    /// The same tensor, its stored payload said to be an earlier record's or its own.
    #[must_use]
    pub fn with_payload_shared(&self, shared: bool) -> IndexRecord {
        let mut record = self.clone();
        if self.payload_state() == PayloadState::Stored && self.kind() == RecordKind::Tensor {
            let (offset, bytes) = (self.record.payload_pos, self.record.payload_bytes);
            record.set_payload(if shared {
                Payload::Deduplicated { offset, bytes }
            } else {
                Payload::Stored { offset, bytes }
            });
        }
        record
    }

    /// Replaces what is said about the payload of a tensor.
    pub(crate) fn set_payload(&mut self, payload: Payload) {
        let kept = self.record.flags & (RECORD_HAS_HASH | RECORD_IN_FLIGHT | RECORD_PAYLOAD_FILTERED);
        let content = self.content_bytes().unwrap_or(0);
        let (flags, offset, bytes) = match payload {
            Payload::None => (0, 0, content),
            Payload::Stats(_) => (RECORD_HAS_STATS, 0, content),
            Payload::Stored { offset, bytes } => (RECORD_HAS_PAYLOAD, offset, bytes),
            Payload::Deduplicated { offset, bytes } => {
                (RECORD_HAS_PAYLOAD | RECORD_ALREADY_STORED, offset, bytes)
            }
            Payload::Truncated { offset, bytes } => (RECORD_HAS_PAYLOAD | RECORD_TRUNCATED, offset, bytes),
            Payload::Overwritten => (RECORD_HAS_PAYLOAD | RECORD_PAYLOAD_DROPPED, 0, content),
            Payload::Dropped => (RECORD_PAYLOAD_DROPPED, 0, content),
        };
        self.record.flags = kept | flags;
        self.record.payload_pos = offset;
        self.record.payload_bytes = bytes;
        self.stats = if let Payload::Stats(stats) = payload { Some(stats) } else { None };
    }

    /// What the record is about.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        // A damaged kind never gets past `check`; before it, the harmless answer is a kind no index holds.
        RecordKind::from_tag(self.record.kind).unwrap_or(RecordKind::Piece)
    }

    /// Task.
    #[must_use]
    pub fn task_id(&self) -> u64 {
        self.record.task_id
    }

    /// The fixed fields; for a task they are [`IndexRecord::as_task`]'s.
    #[must_use]
    pub fn fields(&self) -> &TensorDumpRecord {
        &self.record
    }

    /// The task, when the record is one.
    #[must_use]
    pub fn as_task(&self) -> Option<TaskDumpRecord> {
        (self.kind() == RecordKind::Task).then(|| transmute!(self.record))
    }

    /// Statistics of the content, at level `hash`.
    #[must_use]
    pub fn stats(&self) -> Option<&TensorStats> {
        self.stats.as_ref()
    }

    /// Stage of an argument.
    #[must_use]
    pub fn stage(&self) -> Option<DumpStage> {
        DumpStage::from_tag(self.record.stage)
    }

    /// Role of an argument.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        Role::from_tag(self.record.role)
    }

    /// Whether an earlier record had stored the same payload.
    #[must_use]
    pub fn is_deduplicated(&self) -> bool {
        self.record.flags & RECORD_ALREADY_STORED != 0
    }

    /// Whether the task had not completed.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.record.flags & RECORD_IN_FLIGHT != 0
    }

    /// The content's hash.
    #[must_use]
    pub fn hash(&self) -> Option<u128> {
        (self.record.flags & RECORD_HAS_HASH != 0).then(|| u128::from_le_bytes(self.record.hash))
    }

    /// What became of the payload of a tensor, or of the words of a dispatch; `None` for everything else.
    #[must_use]
    pub fn payload_state(&self) -> PayloadState {
        let flags = self.record.flags;
        match (flags & RECORD_HAS_PAYLOAD != 0, flags & RECORD_PAYLOAD_DROPPED != 0) {
            _ if !matches!(self.kind(), RecordKind::Tensor | RecordKind::Dispatch) => PayloadState::None,
            (true, true) => PayloadState::Overwritten,
            (false, true) => PayloadState::Dropped,
            (false, false) => PayloadState::None,
            (true, false) if flags & RECORD_TRUNCATED != 0 => PayloadState::Truncated,
            (true, false) => PayloadState::Stored,
        }
    }

    /// Offset and bytes in the payload file.
    #[must_use]
    pub fn stored_range(&self) -> Option<(u64, u64)> {
        let stored = matches!(self.payload_state(), PayloadState::Stored | PayloadState::Truncated);
        (stored && self.kind() == RecordKind::Tensor)
            .then_some((self.record.payload_pos, self.record.payload_bytes))
    }

    /// Elements of a tensor.
    pub(crate) fn numel(&self) -> Option<u64> {
        let shape = self.record.shape.get(..usize::from(self.record.ndims))?;
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1u64, |numel, dim| numel.checked_mul(*dim))
    }

    fn content_bytes(&self) -> Option<u64> {
        DType::from_tag(self.record.dtype)?.packed_bytes(self.numel()?)
    }

    fn encoded_bytes(&self) -> usize {
        let words = match self.kind() {
            RecordKind::Tensor | RecordKind::OrchestrationArg => 2 * usize::from(self.record.ndims),
            RecordKind::Dispatch => MAX_DIMS,
            _ => 0,
        };
        RECORD_HEAD_BYTES
            + words * size_of::<u64>()
            + self.stats.map_or(0, |_| size_of::<TensorStats>())
            + self.words.len() * size_of::<u64>()
    }

    /// Appends the record's bytes.
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        let ndims = usize::from(self.record.ndims);
        let start = body.len();
        body.extend_from_slice(&self.record.as_bytes()[..RECORD_HEAD_BYTES]);
        match self.kind() {
            RecordKind::Tensor | RecordKind::OrchestrationArg => {
                body.extend_from_slice(self.record.shape[..ndims].as_bytes());
                body.extend_from_slice(self.record.strides[..ndims].as_bytes());
            }
            RecordKind::Dispatch => body.extend_from_slice(self.record.shape.as_bytes()),
            _ => {}
        }
        if let Some(stats) = &self.stats {
            body.extend_from_slice(stats.as_bytes());
        }
        body.extend_from_slice(self.words.as_bytes());
        debug_assert_eq!(body.len() - start, self.encoded_bytes());
        debug_assert!(self.encoded_bytes() <= MAX_RECORD_BYTES);
    }

    /// A record to decode into.
    pub(crate) fn scratch() -> IndexRecord {
        IndexRecord { record: TensorDumpRecord::default(), stats: None, words: Vec::new() }
    }

    /// Becomes the record at the start of `bytes`, checked, and returns its length. Decoding in place: of millions of records,
    /// moving them around would cost more than reading them. After an error the record is nothing to rely on.
    pub(crate) fn decode_from(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let (head, mut rest) =
            bytes.split_at_checked(RECORD_HEAD_BYTES).ok_or("it ends within its fixed part")?;
        let (fixed, variable) = self.record.as_mut_bytes().split_at_mut(RECORD_HEAD_BYTES);
        fixed.copy_from_slice(head);
        variable.fill(0);
        self.stats = None;
        self.words.clear();
        match self.kind() {
            RecordKind::Tensor => self.decode_tensor(&mut rest)?,
            RecordKind::OrchestrationArg => self.decode_view(&mut rest)?,
            RecordKind::Dispatch => self.decode_dispatch(&mut rest)?,
            _ => {}
        }
        self.check()?;
        Ok(bytes.len() - rest.len())
    }

    fn decode_view(&mut self, rest: &mut &[u8]) -> Result<(), &'static str> {
        let ndims = usize::from(self.record.ndims);
        let shape = self.record.shape.get_mut(..ndims).ok_or(TOO_MANY_DIMS)?;
        take_into(rest, shape.as_mut_bytes())?;
        take_into(rest, self.record.strides[..ndims].as_mut_bytes())
    }

    fn decode_tensor(&mut self, rest: &mut &[u8]) -> Result<(), &'static str> {
        self.decode_view(rest)?;
        if self.record.flags & RECORD_HAS_STATS != 0 {
            let mut stats = TensorStats::default();
            take_into(rest, stats.as_mut_bytes())?;
            self.stats = Some(stats);
        }
        Ok(())
    }

    /// Whether the record makes sense; the same before it is written and after it was read.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let record = &self.record;
        let kind = RecordKind::from_tag(record.kind).ok_or("its kind is unknown")?;
        if !is_indexed(kind) {
            return Err("a step of a payload sent in pieces has no place in an index");
        }
        if kind != RecordKind::Tensor && self.stats.is_some()
            || kind != RecordKind::Dispatch && !self.words.is_empty()
        {
            return Err("it carries what only another kind has");
        }
        match kind {
            RecordKind::Tensor => self.check_tensor(),
            RecordKind::Scalar => self.check_argument(),
            RecordKind::Task => {
                let task: TaskDumpRecord = transmute!(*record);
                (task.reserved0 == 0 && task.reserved1 == [0; 4] && task.reserved2 == 0)
                    .then_some(())
                    .ok_or("reserved bytes are not zero")
            }
            RecordKind::Uncaptured => {
                let reason = u8::try_from(record.start_offset).ok().and_then(UncapturedReason::from_tag);
                let stage = record.stage == NO_STAGE || self.stage().is_some();
                (reason.is_some() && stage).then_some(()).ok_or("its reason or stage is unknown")
            }
            RecordKind::Edge => edge_cause_name(record.stage).map(|_| ()).ok_or("its cause is unknown"),
            RecordKind::Dispatch => self.check_dispatch(),
            RecordKind::OrchestrationArg => self.check_orchestration_arg(),
            RecordKind::Begin | RecordKind::Piece | RecordKind::Commit => Ok(()),
        }
    }

    fn check_argument(&self) -> Result<(), &'static str> {
        self.stage().ok_or("its stage is unknown")?;
        self.role().ok_or("its role is unknown")?;
        DType::from_tag(self.record.dtype).ok_or("its dtype is unknown")?;
        if self.kind() == RecordKind::Scalar && self.record.ndims != 0 {
            return Err("a scalar has no dimensions");
        }
        Ok(())
    }

    fn check_tensor(&self) -> Result<(), &'static str> {
        self.check_argument()?;
        self.check_view()?;
        let record = &self.record;
        let content = self.content_bytes().filter(|b| *b < JSON_LIMIT).ok_or("its size is out of range")?;
        let expected_stats = record.flags & RECORD_HAS_STATS != 0;
        if expected_stats != self.stats.is_some() || expected_stats && record.flags & RECORD_HAS_PAYLOAD != 0
        {
            return Err("its flags contradict one another");
        }
        self.check_payload(content)
    }

    fn check_view(&self) -> Result<(), &'static str> {
        let ndims = usize::from(self.record.ndims);
        let shape = self.record.shape.get(..ndims).ok_or(TOO_MANY_DIMS)?;
        let strides = &self.record.strides[..ndims];
        if shape.iter().any(|d| *d >= JSON_LIMIT) || strides.iter().any(|s| s.unsigned_abs() >= JSON_LIMIT) {
            return Err("a dimension or stride is out of range");
        }
        (self.record.start_offset < JSON_LIMIT).then_some(()).ok_or("its start offset is out of range")
    }

    fn check_payload(&self, content: u64) -> Result<(), &'static str> {
        let Some((offset, bytes)) = self.stored_range() else {
            return (self.record.payload_bytes == content)
                .then_some(())
                .ok_or("its size contradicts its shape");
        };
        let truncated = self.payload_state() == PayloadState::Truncated;
        if bytes > content || bytes < content && !truncated {
            return Err("its size contradicts its shape");
        }
        let end = offset.checked_add(bytes).filter(|end| *end < JSON_LIMIT);
        end.map(|_| ()).ok_or("its payload is out of range")
    }

    /// The typed error of a record that a writer refuses.
    pub(crate) fn checked(&self) -> Result<(), FormatError> {
        self.check().map_err(|reason| FormatError::BadRecord {
            task_id: self.record.task_id,
            arg_index: self.record.arg_index,
            reason,
        })
    }
}

const TOO_MANY_DIMS: &str = "it has more than 8 dimensions";

fn take_into(rest: &mut &[u8], into: &mut [u8]) -> Result<(), &'static str> {
    let (taken, left) = rest.split_at_checked(into.len()).ok_or("it ends within its variable part")?;
    into.copy_from_slice(taken);
    *rest = left;
    Ok(())
}

/// Why one task waits for another, as `graph.json` says it, in the order of the tags.
pub(crate) const EDGE_CAUSES: [&str; 4] =
    ["explicit", "read_after_write", "write_after_write", "write_after_read"];

/// The cause of a tag; `None` when the tag is damaged.
pub(crate) fn edge_cause_name(tag: u8) -> Option<&'static str> {
    EDGE_CAUSES.get(usize::from(tag)).copied()
}
