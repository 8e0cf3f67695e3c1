//! One record in the form of the index.
//!
//! A record consists of the first bytes of the device's record, as many as its kind has fields, followed by
//! the data without a fixed length:
//!
//! | kind | tag | bytes | then |
//! | --- | --- | --- | --- |
//! | tensor | 1 | 64 | shape (u64 each), strides (i64 each); with flag 2, 64 bytes of [`TensorStats`]; with flag 128, the bytes stored (u64) |
//! | scalar | 2 | 32 | |
//! | task | 3 | 136 | with flag 16384, 48 bytes: its exact sizes |
//! | dispatch | 4 | 96 | its words ([`tensortap_abi::DispatchWords`]), `words_bytes` of them |
//! | uncaptured | 8 | 24 | |
//! | edge | 9 | 32 | |
//! | orchestration argument | 10 | 64 | shape, strides |
//! | string | 12 | 32 | the text, zero filled to a multiple of 8 |
//! | scope | 13 | 32 | |
//! | kernel | 14 | 40 | its arguments, 8 bytes each |
//! | queue, lane, step, module, allocation | 15–19 | 24, 32, 32, 48, 48 | with flag 16384, of a module 16 bytes: what its image is; of an allocation 32 bytes: its storage |
//! | finished | 20 | 48 | |
//! | attribute | 22 | 48 | its values, 8 bytes each |
//! | collective | 23 | 32 | |
//!
//! The fields are those of `tensortap_abi`'s records; `docs/reference/file-format-records.md` describes them byte by byte.
//! `payload_pos` of a tensor is its offset in the payload file, or 0 if nothing is stored. Arena positions
//! are 0.
//!
//! Flags of a tensor; a dispatch has 1, 8 and 16, and a scalar has 32768:
//!
//! | flag | meaning |
//! | --- | --- |
//! | 1 | the payload is or was captured |
//! | 2 | statistics follow |
//! | 4 | the hash is valid |
//! | 8 | in flight |
//! | 16 | the payload is lost; with 1: it was overwritten before the host read it |
//! | 32 | a filter excluded it |
//! | 64 | an earlier record stored the same payload |
//! | 128 | stored in part, with the hash of the whole content |
//! | 512 | marked |
//! | 1024, 2048, 4096 | dtype unknown, role unknown, extent guessed |
//! | 32768 | local memory of this size |

mod check;
mod codec;
mod kinds;

use tensortap_abi::{
    DType, DumpRecord, DumpStage, MAX_DIMS, MemorySpace, OrchestrationArgRecord, RECORD_ALREADY_STORED,
    RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS,
    RECORD_IN_FLIGHT, RECORD_LOCAL_MEMORY, RECORD_MARKED, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED,
    RECORD_ROLE_UNKNOWN, RECORD_TRUNCATED, RecordKind, RecordLayout, Role, ScalarRecord, TaskRecord,
    TensorRecord, TensorStats, UncapturedRecord,
};
use zerocopy::{FromBytes, IntoBytes};

use self::codec::STATS_WORDS;
pub(crate) use self::{check::JSON_LIMIT, kinds::edge_cause_name};

/// Flags that a tensor keeps, whatever the state of its payload.
const KEPT_FLAGS: u32 = RECORD_HAS_HASH
    | RECORD_IN_FLIGHT
    | RECORD_PAYLOAD_FILTERED
    | RECORD_MARKED
    | RECORD_DTYPE_UNKNOWN
    | RECORD_ROLE_UNKNOWN
    | RECORD_EXTENT_GUESSED;

macro_rules! view_of {
    ($record:ident) => {
        TensorFields {
            dtype: $record.dtype,
            ndims: $record.ndims,
            role: $record.role,
            start_offset: $record.start_offset,
            shape: &$record.shape,
            strides: &$record.strides,
        }
    };
}
/// State of a tensor's payload, for the writer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    /// Not captured, because of level or filter.
    None,
    /// Not captured, but with statistics of the content.
    Stats(TensorStats),
    /// Stored in the payload file.
    Stored {
        /// Offset from [`crate::DumpWriter::reserve`].
        offset: u64,
        /// Size of the whole content.
        bytes: u64,
    },
    /// Equal to the payload of an earlier record.
    Deduplicated {
        /// Offset of that record's payload.
        offset: u64,
        /// Size of the whole content.
        bytes: u64,
    },
    /// Only the first bytes were stored.
    Truncated {
        /// Offset in the payload file.
        offset: u64,
        /// Number of stored bytes. The hash, if any, covers the whole content.
        bytes: u64,
    },
    /// Captured, but overwritten in the arena before the host read it.
    Overwritten,
    /// Dropped because no space was free.
    Dropped,
}

/// State of a tensor's payload, as in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadState {
    /// In the payload file.
    Stored,
    /// Never captured.
    None,
    /// Dropped because no space was free.
    Dropped,
    /// Overwritten before the host read it.
    Overwritten,
    /// Partly in the payload file.
    Truncated,
    /// The index refers to the payload file, but that file was too short or missing when the dump was
    /// opened. No manifest contains this state.
    Missing,
    /// It left the window of a running `--dump-last` run while it was read. No manifest contains this
    /// state.
    Gone,
}

impl PayloadState {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PayloadState::Stored => "stored",
            PayloadState::None => "none",
            PayloadState::Dropped => "dropped",
            PayloadState::Overwritten => "overwritten",
            PayloadState::Truncated => "truncated",
            PayloadState::Missing => "missing",
            PayloadState::Gone => "gone",
        }
    }

    /// The state with this name in a manifest.
    pub(crate) fn parse(word: &str) -> Option<PayloadState> {
        use PayloadState::{Dropped, None, Overwritten, Stored, Truncated};
        [Stored, None, Dropped, Overwritten, Truncated].into_iter().find(|state| state.name() == word)
    }
}

/// A record to be written to or read from an index.
///
/// ```
/// use tensortap_abi::{TensorRecord, DumpStage, Role, DType};
/// use tensortap_format::{IndexRecord, Payload};
///
/// let captured = TensorRecord {
///     task_id: 7, stage: DumpStage::BeforeDispatch as u8, role: Role::Input.tag(),
///     dtype: DType::Float32.tag(), ndims: 1, shape: [16, 0, 0, 0, 0, 0, 0, 0], strides: [1, 0, 0, 0, 0, 0, 0, 0],
///     ..Default::default()
/// };
/// let record = IndexRecord::tensor(&captured, Payload::Stored { offset: 4096, bytes: 64 });
/// assert_eq!(record.stored_range(), Some((4096, 64)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRecord {
    record: DumpRecord,
    /// Statistics, stored size, words, text or arguments; see the module documentation.
    tail: Vec<u64>,
}

impl IndexRecord {
    /// A tensor as the device recorded it (with the hash of its commit record if it came in pieces), and
    /// the state of its payload.
    #[must_use]
    pub fn tensor(captured: &TensorRecord, payload: Payload) -> IndexRecord {
        let mut record = *captured;
        // Values past the dimensions in use are not part of the dump.
        let ndims = usize::from(record.ndims).min(MAX_DIMS);
        record.shape[ndims..].fill(0);
        record.strides[ndims..].fill(0);
        if captured.flags & RECORD_HAS_HASH == 0 {
            record.hash = [0; 16];
        }
        let mut index_record = IndexRecord { record: record.into(), tail: Vec::new() };
        index_record.set_payload(payload);
        index_record
    }

    /// A record without variable-length data except dimensions, as the device recorded it.
    #[must_use]
    pub fn plain<T: Copy + Into<DumpRecord>>(captured: &T) -> IndexRecord {
        IndexRecord { record: (*captured).into(), tail: Vec::new() }
    }

    /// The same tensor without its payload, but with hash and metadata.
    #[must_use]
    pub fn without_payload(&self) -> IndexRecord {
        let mut record = self.clone();
        record.set_payload(Payload::None);
        record
    }

    /// The same tensor, with its stored payload marked as an earlier record's or its own.
    #[must_use]
    pub fn with_payload_shared(&self, shared: bool) -> IndexRecord {
        let mut record = self.clone();
        if self.payload_state() == PayloadState::Stored
            && let Some((offset, bytes)) = self.stored_range()
        {
            record.set_payload(if shared {
                Payload::Deduplicated { offset, bytes }
            } else {
                Payload::Stored { offset, bytes }
            });
        }
        record
    }

    /// Sets the name of an argument.
    pub(crate) fn set_name(&mut self, name: u32) {
        if let Some(tensor) = self.record.get_mut::<TensorRecord>() {
            tensor.name = name;
        } else if let Some(scalar) = self.record.get_mut::<ScalarRecord>() {
            scalar.name = name;
        }
    }

    /// Makes it the record that stored its payload.
    pub(crate) fn set_owner(&mut self) {
        self.record.flags &= !RECORD_ALREADY_STORED;
    }

    /// Replaces the payload state of a tensor.
    pub(crate) fn set_payload(&mut self, payload: Payload) {
        let Some(tensor) = self.record.get_mut::<TensorRecord>() else { return };
        let (flags, offset) = match payload {
            Payload::None => (0, 0),
            Payload::Stats(_) => (RECORD_HAS_STATS, 0),
            Payload::Stored { offset, .. } => (RECORD_HAS_PAYLOAD, offset),
            Payload::Deduplicated { offset, .. } => (RECORD_HAS_PAYLOAD | RECORD_ALREADY_STORED, offset),
            Payload::Truncated { offset, .. } => (RECORD_HAS_PAYLOAD | RECORD_TRUNCATED, offset),
            Payload::Overwritten => (RECORD_HAS_PAYLOAD | RECORD_PAYLOAD_DROPPED, 0),
            Payload::Dropped => (RECORD_PAYLOAD_DROPPED, 0),
        };
        tensor.flags = tensor.flags & KEPT_FLAGS | flags;
        tensor.payload_pos = offset;
        self.tail.clear();
        match payload {
            Payload::Stats(stats) => {
                self.tail.resize(STATS_WORDS, 0);
                self.tail.as_mut_bytes().copy_from_slice(stats.as_bytes());
            }
            Payload::Truncated { bytes, .. } => self.tail.push(bytes),
            // The size of the content follows from its shape, whatever the caller passes.
            Payload::Stored { bytes, .. } | Payload::Deduplicated { bytes, .. }
                if self.content_bytes() != Some(bytes) =>
            {
                self.tail.push(bytes);
            }
            _ => {}
        }
    }

    /// Kind of the record.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        // `check` rejects a damaged kind. Before that, a kind that no index contains is a harmless answer.
        self.record.kind().unwrap_or(RecordKind::Piece)
    }

    /// Task.
    #[must_use]
    pub fn task_id(&self) -> u64 {
        self.record.task_id
    }

    /// Position of the argument among those of its task.
    #[must_use]
    pub fn arg_index(&self) -> u16 {
        self.record.arg_index
    }

    /// The fields, if the record is of that kind.
    #[must_use]
    pub fn get<T: RecordLayout>(&self) -> Option<&T> {
        self.record.get()
    }

    /// Changes the fields of a record of one kind; leaves other kinds as they are.
    pub(crate) fn change<T: RecordLayout>(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(mut fields) = self.get::<T>().copied() {
            change(&mut fields);
            self.record = fields.into();
        }
    }

    /// The task, if the record is one.
    #[must_use]
    pub fn as_task(&self) -> Option<&TaskRecord> {
        self.get()
    }

    /// Statistics of the content, at level `hash`.
    #[must_use]
    pub fn stats(&self) -> Option<&TensorStats> {
        let has_stats = self.kind() == RecordKind::Tensor && self.record.flags & RECORD_HAS_STATS != 0;
        has_stats.then(|| TensorStats::ref_from_bytes(self.tail.as_bytes()).ok()).flatten()
    }

    /// Stage of an argument.
    #[must_use]
    pub fn stage(&self) -> Option<DumpStage> {
        DumpStage::from_tag(self.record.stage)
    }

    /// Element type of a tensor, a scalar or an orchestration argument.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        match self.get::<ScalarRecord>() {
            Some(scalar) => DType::from_tag(scalar.dtype).filter(|dtype| dtype.fits_scalar()),
            None => DType::from_tag(self.view()?.dtype),
        }
    }

    /// Role of an argument; a scalar is an input.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        match self.kind() {
            RecordKind::Scalar => Some(Role::Input),
            RecordKind::Uncaptured => Role::from_tag(self.get::<UncapturedRecord>()?.role),
            _ => Role::from_tag(self.view()?.role),
        }
    }

    /// Whether an earlier record had stored the same payload.
    #[must_use]
    pub fn is_deduplicated(&self) -> bool {
        self.has(RECORD_ALREADY_STORED)
    }

    /// Whether the task had not completed.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.has(RECORD_IN_FLIGHT)
    }

    /// Whether the element type is known; if not, the elements are bytes.
    #[must_use]
    pub fn is_dtype_known(&self) -> bool {
        !self.has(RECORD_DTYPE_UNKNOWN)
    }

    /// Whether it is memory local to each work group.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.kind() == RecordKind::Scalar && self.has(RECORD_LOCAL_MEMORY)
    }

    /// Whether it is known if the task reads or writes it. If not, only the captured contents show it.
    #[must_use]
    pub fn is_role_known(&self) -> bool {
        !self.has(RECORD_ROLE_UNKNOWN)
    }

    /// Whether its extent is known.
    #[must_use]
    pub fn is_extent_known(&self) -> bool {
        !self.has(RECORD_EXTENT_GUESSED)
    }

    /// Whether its memory may be changed by the host at any time.
    #[must_use]
    pub fn is_host_writable(&self) -> bool {
        let tensor: Option<&TensorRecord> = self.get();
        tensor
            .and_then(|tensor| MemorySpace::from_tag(tensor.space))
            .is_some_and(MemorySpace::is_host_writable)
    }

    /// Whether the orchestration marked it.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.has(RECORD_MARKED)
    }

    fn has(&self, flag: u32) -> bool {
        self.record.flags & flag != 0
    }

    /// The content's hash.
    #[must_use]
    pub fn hash(&self) -> Option<u128> {
        let tensor = self.get::<TensorRecord>()?;
        (tensor.flags & RECORD_HAS_HASH != 0).then(|| u128::from_le_bytes(tensor.hash))
    }

    /// State of a tensor's payload or a dispatch's words; `None` for all other kinds.
    #[must_use]
    pub fn payload_state(&self) -> PayloadState {
        match (self.has(RECORD_HAS_PAYLOAD), self.has(RECORD_PAYLOAD_DROPPED)) {
            _ if !matches!(self.kind(), RecordKind::Tensor | RecordKind::Dispatch) => PayloadState::None,
            (true, true) => PayloadState::Overwritten,
            (false, true) => PayloadState::Dropped,
            (false, false) => PayloadState::None,
            (true, false) if self.has(RECORD_TRUNCATED) => PayloadState::Truncated,
            (true, false) => PayloadState::Stored,
        }
    }

    /// Offset and bytes in the payload file.
    #[must_use]
    pub fn stored_range(&self) -> Option<(u64, u64)> {
        let tensor = self.get::<TensorRecord>()?;
        let bytes = match self.payload_state() {
            PayloadState::Stored => self.content_bytes()?,
            PayloadState::Truncated => *self.tail.first()?,
            _ => return None,
        };
        Some((tensor.payload_pos, bytes))
    }

    /// Number of elements of a tensor; 1 for a scalar.
    pub(crate) fn numel(&self) -> Option<u64> {
        let Some(view) = self.view() else { return Some(1) };
        let shape = view.shape.get(..usize::from(view.ndims))?;
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1u64, |numel, dim| numel.checked_mul(*dim))
    }

    /// Bytes of the content of a tensor.
    pub(crate) fn content_bytes(&self) -> Option<u64> {
        self.dtype()?.packed_bytes(self.numel()?)
    }

    /// The fields that tensors and orchestration arguments share.
    pub(crate) fn view(&self) -> Option<TensorFields<'_>> {
        match self.kind() {
            RecordKind::Tensor => self.get::<TensorRecord>().map(|t| view_of!(t)),
            RecordKind::OrchestrationArg => self.get::<OrchestrationArgRecord>().map(|t| view_of!(t)),
            _ => None,
        }
    }
}

/// The fields that a tensor and an orchestration argument have at the same offsets.
#[derive(Clone, Copy)]
pub(crate) struct TensorFields<'r> {
    pub(crate) dtype: u8,
    pub(crate) ndims: u8,
    pub(crate) role: u8,
    pub(crate) start_offset: u64,
    pub(crate) shape: &'r [u64; MAX_DIMS],
    pub(crate) strides: &'r [i64; MAX_DIMS],
}
