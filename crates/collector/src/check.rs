//! Decides whether a record can be what it claims to be. The region is untrusted: a kernel may have written anywhere.

use std::fmt;

use tensortap_abi::{
    DType, DeviceRange, DumpStage, EdgeCause, MAX_ARGS, MAX_DIMS, MAX_DISPATCH_WORDS, MAX_SCALARS,
    MAX_TENSORS, RECORD_ALREADY_STORED, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS,
    RECORD_IN_FLIGHT, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED, RECORD_TRUNCATED, RecordKind, Role,
    SLOTS_PER_TASK, TaskDumpRecord, TensorDumpRecord, TensorStats, UncapturedReason,
};
use tensortap_geometry::Layout;
use zerocopy::FromBytes;

/// JSON numbers are exact below this: sizes, strides and offsets stay below it, or the manifest cannot hold them.
const NUMBER_LIMIT: u64 = 1 << 53;

/// The largest payload that may come in pieces, as much as a device has memory at the most. Its range in the file is
/// reserved before its first byte has come, so a damaged size must not use the file up.
const MAX_PIECED_BYTES: u64 = 1 << 40;

/// Flags of a dispatch whose arguments lie in the arena.
const CARRIED_ARGS: u8 = RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// Its kind is none.
    Kind,
    /// Its flags contradict its kind or one another.
    Flags,
    /// Its element type is none.
    DType,
    /// Its role is none.
    Role,
    /// Its stage is none.
    Stage,
    /// No payload has an argument of that number.
    ArgIndex,
    /// Its shape, strides and start are no view.
    View,
    /// Its size is not that of its shape, or of what it carries.
    Size,
    /// Its payload is not inside what the device has written and the host not yet given back.
    Position,
    /// Its buffer is not in device memory.
    Address,
    /// A step of a large payload without the one before it.
    Order,
    /// Its reason is none.
    Reason,
    /// No task has such a slot, block or number of arguments, or its arguments are not what the device recorded.
    Dispatch,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordFault::Kind => "its kind is unknown",
            RecordFault::Flags => "its flags contradict its kind or one another",
            RecordFault::DType => "its dtype is unknown",
            RecordFault::Role => "its role is unknown",
            RecordFault::Stage => "its stage is unknown",
            RecordFault::ArgIndex => "its argument index is too large",
            RecordFault::View => "its shape, strides and start offset make no view",
            RecordFault::Size => "its size contradicts its shape",
            RecordFault::Position => "its payload lies outside of what was written to the arena",
            RecordFault::Address => "its buffer lies outside of device memory",
            RecordFault::Order => "it is a step of a large payload and the one before is missing",
            RecordFault::Reason => "its reason is unknown",
            RecordFault::Dispatch => "it is no dispatch of a task, or its arguments are damaged",
        })
    }
}

/// What a record may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Device memory.
    pub(crate) memory: DeviceRange,
    /// Bytes of the arena.
    pub(crate) arena_bytes: u64,
    /// Payloads lie at or above this position, behind that of the record before.
    pub(crate) from: u64,
    /// Payloads end at or below this position.
    pub(crate) to: u64,
}

/// Bytes in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) position: u64,
    pub(crate) bytes: u64,
}

impl Span {
    pub(crate) fn end(self) -> u64 {
        self.position + self.bytes
    }
}

/// A record that can be what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Checked {
    Task(TaskDumpRecord),
    /// Nothing of it lies in the arena.
    Plain(TensorDumpRecord),
    /// Its payload, its statistics or its arguments lie in the arena.
    InArena(TensorDumpRecord, Span),
    /// Its payload was stored before under the same hash.
    Stored(TensorDumpRecord),
    Begin(TensorDumpRecord),
    Piece(TensorDumpRecord, Span),
    Commit(TensorDumpRecord),
}

impl Checked {
    /// What it holds of the arena.
    pub(crate) fn span(&self) -> Option<Span> {
        match *self {
            Checked::InArena(_, span) | Checked::Piece(_, span) => Some(span),
            Checked::Task(_)
            | Checked::Plain(_)
            | Checked::Stored(_)
            | Checked::Begin(_)
            | Checked::Commit(_) => None,
        }
    }
}

/// Checks one record as it was copied from the region.
pub(crate) fn check(bytes: &[u8], bounds: &Bounds) -> Result<Checked, RecordFault> {
    let record = TensorDumpRecord::read_from_bytes(bytes).map_err(|_| RecordFault::Kind)?;
    match RecordKind::from_tag(record.kind).ok_or(RecordFault::Kind)? {
        RecordKind::Tensor => check_tensor(record, bounds),
        RecordKind::Begin => check_begin(record, bounds),
        RecordKind::Piece => check_piece(record, bounds),
        RecordKind::Commit => check_commit(record),
        RecordKind::Scalar => check_scalar(record),
        RecordKind::Task => check_task(bytes),
        RecordKind::Dispatch => check_dispatch(record, bounds),
        RecordKind::Uncaptured => check_uncaptured(record),
        RecordKind::Edge => check_edge(record),
        RecordKind::OrchestrationArg => check_orchestration_arg(record, bounds),
    }
}

fn check_tensor(record: TensorDumpRecord, bounds: &Bounds) -> Result<Checked, RecordFault> {
    let content_bytes = check_argument(&record, bounds)?;
    let has = |flag| record.flags & flag != 0;
    let carried = [RECORD_HAS_PAYLOAD, RECORD_HAS_STATS, RECORD_PAYLOAD_DROPPED, RECORD_ALREADY_STORED];
    if carried.into_iter().filter(|&flag| has(flag)).count() > 1 {
        return Err(RecordFault::Flags);
    }
    // What the arena holds and what is known by its hash carries it.
    if (has(RECORD_HAS_PAYLOAD) || has(RECORD_ALREADY_STORED)) && !has(RECORD_HAS_HASH) {
        return Err(RecordFault::Flags);
    }
    check_size(&record, content_bytes)?;
    if has(RECORD_HAS_PAYLOAD) {
        let span = check_span(&record, record.payload_bytes, bounds)?;
        return Ok(Checked::InArena(record, span));
    }
    if has(RECORD_HAS_STATS) {
        let span = check_span(&record, size_of::<TensorStats>() as u64, bounds)?;
        return Ok(Checked::InArena(record, span));
    }
    Ok(if has(RECORD_ALREADY_STORED) { Checked::Stored(record) } else { Checked::Plain(record) })
}

fn check_begin(record: TensorDumpRecord, bounds: &Bounds) -> Result<Checked, RecordFault> {
    let content_bytes = check_argument(&record, bounds)?;
    allow_flags(&record, RECORD_IN_FLIGHT | RECORD_PAYLOAD_FILTERED | RECORD_TRUNCATED)?;
    check_size(&record, content_bytes)?;
    if record.payload_bytes > MAX_PIECED_BYTES {
        return Err(RecordFault::Size);
    }
    Ok(Checked::Begin(record))
}

fn check_piece(record: TensorDumpRecord, bounds: &Bounds) -> Result<Checked, RecordFault> {
    allow_flags(&record, RECORD_HAS_PAYLOAD | RECORD_IN_FLIGHT)?;
    if record.flags & RECORD_HAS_PAYLOAD == 0 {
        return Err(RecordFault::Flags);
    }
    let span = check_span(&record, record.payload_bytes, bounds)?;
    Ok(Checked::Piece(record, span))
}

fn check_commit(record: TensorDumpRecord) -> Result<Checked, RecordFault> {
    allow_flags(&record, RECORD_HAS_HASH | RECORD_TRUNCATED | RECORD_IN_FLIGHT | RECORD_PAYLOAD_FILTERED)?;
    if record.flags & RECORD_HAS_HASH == 0 {
        return Err(RecordFault::Flags);
    }
    Ok(Checked::Commit(record))
}

fn check_scalar(record: TensorDumpRecord) -> Result<Checked, RecordFault> {
    allow_flags(&record, RECORD_IN_FLIGHT)?;
    DType::from_tag(record.dtype).ok_or(RecordFault::DType)?;
    Role::from_tag(record.role).ok_or(RecordFault::Role)?;
    check_place(&record)?;
    if record.ndims != 0 {
        return Err(RecordFault::View);
    }
    Ok(Checked::Plain(record))
}

fn check_task(bytes: &[u8]) -> Result<Checked, RecordFault> {
    let task = TaskDumpRecord::read_from_bytes(bytes).map_err(|_| RecordFault::Kind)?;
    let reserved = task.reserved0 == 0 && task.reserved1 == [0; 4] && task.reserved2 == 0;
    if task.flags & !RECORD_IN_FLIGHT != 0 || !reserved {
        return Err(RecordFault::Flags);
    }
    Ok(Checked::Task(task))
}

fn check_dispatch(record: TensorDumpRecord, bounds: &Bounds) -> Result<Checked, RecordFault> {
    check_dispatched(&record)?;
    match record.flags & !RECORD_IN_FLIGHT {
        RECORD_PAYLOAD_DROPPED => return Ok(Checked::Plain(record)),
        CARRIED_ARGS => {}
        _ => return Err(RecordFault::Flags),
    }
    let most = (MAX_DISPATCH_WORDS * size_of::<u64>()) as u64;
    if record.payload_bytes > most || !record.payload_bytes.is_multiple_of(8) {
        return Err(RecordFault::Size);
    }
    let span = check_span(&record, record.payload_bytes, bounds)?;
    Ok(Checked::InArena(record, span))
}

/// A dispatch is one of a task's slots and blocks, with no more arguments than a payload holds.
fn check_dispatched(record: &TensorDumpRecord) -> Result<(), RecordFault> {
    let [func_id, core_id, subtask_id, subtask_count, block_idx, block_num, tensors, scalars] = record.shape;
    let slots = SLOTS_PER_TASK as u64;
    let numbers = [func_id, core_id, block_num].into_iter().all(|number| u32::try_from(number).is_ok());
    let place = subtask_id < slots && subtask_count <= slots && block_idx < block_num;
    let args = tensors <= MAX_TENSORS as u64 && scalars <= MAX_SCALARS as u64;
    (numbers && place && args).then_some(()).ok_or(RecordFault::Dispatch)
}

/// One of the orchestration's own arguments: a view, and a buffer that lies in device memory.
fn check_orchestration_arg(record: TensorDumpRecord, bounds: &Bounds) -> Result<Checked, RecordFault> {
    allow_flags(&record, 0)?;
    check_view(&record, bounds)?;
    if record.payload_bytes >= NUMBER_LIMIT {
        return Err(RecordFault::Size);
    }
    Ok(Checked::Plain(record))
}

fn check_uncaptured(record: TensorDumpRecord) -> Result<Checked, RecordFault> {
    allow_flags(&record, RECORD_IN_FLIGHT)?;
    let reason = u8::try_from(record.start_offset).ok().and_then(UncapturedReason::from_tag);
    reason.ok_or(RecordFault::Reason)?;
    check_arg_index(&record)?;
    if record.stage != 0 {
        DumpStage::from_tag(record.stage).ok_or(RecordFault::Stage)?;
    }
    Ok(Checked::Plain(record))
}

fn check_edge(record: TensorDumpRecord) -> Result<Checked, RecordFault> {
    allow_flags(&record, 0)?;
    let causes = [
        EdgeCause::Explicit,
        EdgeCause::ReadAfterWrite,
        EdgeCause::WriteAfterWrite,
        EdgeCause::WriteAfterRead,
    ];
    if !causes.into_iter().any(|cause| cause as u16 == u16::from(record.stage)) {
        return Err(RecordFault::Reason);
    }
    Ok(Checked::Plain(record))
}

/// Checks what every tensor says of itself; returns the bytes of its logical content.
fn check_argument(record: &TensorDumpRecord, bounds: &Bounds) -> Result<u64, RecordFault> {
    check_place(record)?;
    check_view(record, bounds)
}

/// Checks dtype, role, view and address; returns the bytes of the logical content.
fn check_view(record: &TensorDumpRecord, bounds: &Bounds) -> Result<u64, RecordFault> {
    let dtype = DType::from_tag(record.dtype).ok_or(RecordFault::DType)?;
    Role::from_tag(record.role).ok_or(RecordFault::Role)?;
    let ndims = usize::from(record.ndims);
    if ndims > MAX_DIMS {
        return Err(RecordFault::View);
    }
    let (shape, strides) = (&record.shape[..ndims], &record.strides[..ndims]);
    let sizes = shape.iter().copied().chain(strides.iter().map(|stride| stride.unsigned_abs()));
    if sizes.chain([record.start_offset]).any(|size| size >= NUMBER_LIMIT) {
        return Err(RecordFault::View);
    }
    let view =
        Layout::new(shape, strides, record.start_offset, dtype.bits()).map_err(|_| RecordFault::View)?;
    check_address(record.address, &view, bounds.memory)?;
    content_bytes(record).filter(|&bytes| bytes < NUMBER_LIMIT).ok_or(RecordFault::Size)
}

/// Bytes of a tensor's logical content; `None` when its fields make none.
pub(crate) fn content_bytes(record: &TensorDumpRecord) -> Option<u64> {
    let shape = record.shape.get(..usize::from(record.ndims))?;
    let zero = shape.contains(&0);
    let numel = shape.iter().try_fold(1u64, |numel, &size| numel.checked_mul(if zero { 0 } else { size }))?;
    DType::from_tag(record.dtype)?.packed_bytes(numel)
}

/// The bytes that a view touches lie in device memory.
fn check_address(address: u64, view: &Layout, memory: DeviceRange) -> Result<(), RecordFault> {
    let touched = view.byte_range();
    if touched.is_empty() {
        return Ok(());
    }
    let end = address.checked_add(touched.end).ok_or(RecordFault::Address)?;
    let inside = address >= memory.addr && end <= memory.end();
    inside.then_some(()).ok_or(RecordFault::Address)
}

fn check_place(record: &TensorDumpRecord) -> Result<(), RecordFault> {
    DumpStage::from_tag(record.stage).ok_or(RecordFault::Stage)?;
    check_arg_index(record)
}

fn check_arg_index(record: &TensorDumpRecord) -> Result<(), RecordFault> {
    (usize::from(record.arg_index) < MAX_ARGS).then_some(()).ok_or(RecordFault::ArgIndex)
}

/// A payload has the size of its content, unless a cap cut it.
fn check_size(record: &TensorDumpRecord, content_bytes: u64) -> Result<(), RecordFault> {
    let cut = record.flags & (RECORD_PAYLOAD_FILTERED | RECORD_TRUNCATED) != 0;
    let fits = record.payload_bytes == content_bytes || cut && record.payload_bytes < content_bytes;
    fits.then_some(()).ok_or(RecordFault::Size)
}

fn check_span(record: &TensorDumpRecord, bytes: u64, bounds: &Bounds) -> Result<Span, RecordFault> {
    let span = Span { position: record.payload_pos, bytes };
    let ends = record.payload_pos.checked_add(bytes).is_some_and(|end| end <= bounds.to);
    let starts = span.position >= bounds.from;
    let in_one_piece =
        bytes <= bounds.arena_bytes && span.position % bounds.arena_bytes <= bounds.arena_bytes - bytes;
    (starts && ends && in_one_piece).then_some(span).ok_or(RecordFault::Position)
}

fn allow_flags(record: &TensorDumpRecord, allowed: u8) -> Result<(), RecordFault> {
    (record.flags & !allowed == 0).then_some(()).ok_or(RecordFault::Flags)
}

#[cfg(test)]
mod tests;
