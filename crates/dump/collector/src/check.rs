//! Checks records. The region is untrusted, because a kernel may have written anywhere.

use std::fmt;

use tensortap_abi::{
    AllocationRecord, AttributeRecord, BeginRecord, CollectiveRecord, CommitRecord, DType, DeviceRange,
    DispatchRecord, DumpRecord, DumpStage, EdgeCause, EdgeRecord, FilledRecord, FinishedRecord,
    INLINE_KERNEL_ARGS, INLINE_TEXT_BYTES, ImageRecord, KernelArg, KernelRecord, LAUNCH_FLAGS, MAX_DIMS,
    MAX_DISPATCH_WORDS, MAX_IMAGE_BYTES, MAX_RECORD_ARGS, MAX_TEXT_BYTES, MemorySpace, ModuleKind,
    ModuleRecord, Operation, OrchestrationArgRecord, PieceRecord, RECORD_ALREADY_STORED,
    RECORD_DTYPE_UNKNOWN, RECORD_EXTENDED, RECORD_EXTENT_GUESSED, RECORD_FILLED_LATER, RECORD_HAS_HASH,
    RECORD_HAS_PARENT, RECORD_HAS_PAYLOAD, RECORD_HAS_STATS, RECORD_IN_FLIGHT, RECORD_LAUNCH_DETAILS,
    RECORD_LOCAL_MEMORY, RECORD_MARKED, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_FILTERED, RECORD_REGION,
    RECORD_ROLE_UNKNOWN, RECORD_TRUNCATED, RecordKind, RecordLayout, Role, SLOTS_PER_TASK, ScalarRecord,
    StringRecord, TaskRecord, TensorRecord, TensorStats, UncapturedReason, UncapturedRecord,
};
use tensortap_geometry::Layout;
use zerocopy::FromBytes;

/// JSON numbers are exact below this limit. Sizes, strides and offsets must stay below it, or the manifest
/// cannot represent them.
const NUMBER_LIMIT: u64 = 1 << 53;

/// Maximum payload in pieces from memory of unknown size. Its range in the file is reserved before its
/// first byte arrives, so a damaged size must not use up the whole file.
const MAX_PIECED_BYTES: u64 = 1 << 40;

/// Flags of an argument for uncertain facts.
const ARGUMENT_FLAGS: u32 =
    RECORD_IN_FLIGHT | RECORD_MARKED | RECORD_DTYPE_UNKNOWN | RECORD_ROLE_UNKNOWN | RECORD_EXTENT_GUESSED;
/// Flags of a dispatch whose arguments are in the arena.
const CARRIED_ARGS: u32 = RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// Unknown kind.
    Kind,
    /// The flags contradict the kind or each other.
    Flags,
    /// Bytes that the kind does not use are not zero.
    Reserved,
    /// Unknown element type.
    DType,
    /// Unknown role.
    Role,
    /// Unknown stage.
    Stage,
    /// More arguments than a task can have, or an unknown operation.
    Task,
    /// Shape, strides and start offset do not form a view.
    View,
    /// The size does not match the shape or the content.
    Size,
    /// The payload is outside the bytes that the device has written and the host has not released.
    Position,
    /// The buffer is not in device memory, or the memory space is unknown.
    Address,
    /// A part of a payload whose previous part is missing, or a payload that no record waits for.
    Order,
    /// Unknown reason.
    Reason,
    /// No task has such a slot, block or number of arguments, or the arguments differ from what the device
    /// recorded.
    Dispatch,
    /// A definition with invalid text or numbers out of range.
    Definition,
    /// An attribute whose values do not fit their types or their number.
    Attribute,
    /// A collective without a group, or of an unknown kind.
    Collective,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordFault::Kind => "its kind is unknown",
            RecordFault::Flags => "its flags contradict its kind or each other",
            RecordFault::Reserved => "bytes that its kind does not use are not zero",
            RecordFault::DType => "its dtype is unknown",
            RecordFault::Role => "its role is unknown",
            RecordFault::Stage => "its stage is unknown",
            RecordFault::Task => "it has more arguments than a task, or an unknown operation",
            RecordFault::View => "its shape, strides and start offset do not form a view",
            RecordFault::Size => "its size contradicts its shape",
            RecordFault::Position => "its payload is outside the bytes written to the arena",
            RecordFault::Address => "its buffer is outside device memory",
            RecordFault::Order => "it continues a payload whose previous part is missing",
            RecordFault::Reason => "its reason is unknown",
            RecordFault::Dispatch => "it is not a valid dispatch, or its arguments are damaged",
            RecordFault::Definition => "its text or its numbers are damaged",
            RecordFault::Attribute => "its values do not fit their types or their number",
            RecordFault::Collective => "its group or its kind is unknown",
        })
    }
}

/// The ranges that a record may refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Device memory.
    pub(crate) memory: DeviceRange,
    /// Bytes of the arena.
    pub(crate) arena_bytes: u64,
    /// Payloads start at or after this position, which is after the previous record's payload.
    pub(crate) from: u64,
    /// Payloads end at or before this position.
    pub(crate) to: u64,
}

/// A range of bytes in an arena.
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

/// A record that has passed the checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CheckedRecord {
    /// A record without data in the arena, stored as it is.
    Plain(DumpRecord),
    /// A tensor without data in the arena. If its payload was lost after its space was reserved, with that
    /// space.
    Tensor(TensorRecord, Option<Span>),
    /// A tensor whose payload is in the arena.
    Payload(TensorRecord, Span),
    /// A tensor whose statistics are in the arena.
    Stats(TensorRecord, Span),
    /// A tensor whose payload is already stored under the same hash.
    Stored(TensorRecord),
    /// A tensor whose payload comes later.
    Later(TensorRecord),
    /// The payload of an earlier record, unless it was lost.
    Filled(FilledRecord, Option<Span>),
    Begin(BeginRecord),
    Piece(PieceRecord, Span),
    Commit(CommitRecord),
    /// Start of a module's image.
    Image(ImageRecord),
    /// A module, and whether the device has sent its image.
    Module(ModuleRecord),
    /// A dispatch, with its words unless they were dropped.
    Dispatch(DispatchRecord, Option<Span>),
    /// A string, with its text unless the record contains it.
    String(StringRecord, Option<Span>),
    /// A kernel, with its arguments unless the record contains them.
    Kernel(KernelRecord, Option<Span>),
}

impl CheckedRecord {
    /// The arena bytes that it uses.
    pub(crate) fn span(&self) -> Option<Span> {
        match *self {
            CheckedRecord::Payload(_, span)
            | CheckedRecord::Stats(_, span)
            | CheckedRecord::Piece(_, span) => Some(span),
            CheckedRecord::Tensor(_, span)
            | CheckedRecord::Filled(_, span)
            | CheckedRecord::Dispatch(_, span)
            | CheckedRecord::String(_, span)
            | CheckedRecord::Kernel(_, span) => span,
            CheckedRecord::Plain(_)
            | CheckedRecord::Stored(_)
            | CheckedRecord::Later(_)
            | CheckedRecord::Begin(_)
            | CheckedRecord::Commit(_)
            | CheckedRecord::Image(_)
            | CheckedRecord::Module(_) => None,
        }
    }
}

/// Checks the bytes of one record.
pub(crate) fn check(bytes: &[u8], bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    let record = DumpRecord::read_from_bytes(bytes).map_err(|_| RecordFault::Kind)?;
    let kind = record.kind().ok_or(RecordFault::Kind)?;
    good(record.has_zero_rest(bytes_in_use(&record)), RecordFault::Reserved)?;
    match kind {
        RecordKind::Tensor => check_tensor(*fields(&record)?, bounds),
        RecordKind::Begin => check_begin(*fields(&record)?, bounds),
        RecordKind::Piece => check_piece(*fields(&record)?, bounds),
        RecordKind::Commit => check_commit(*fields(&record)?),
        RecordKind::Filled => check_filled(*fields(&record)?, bounds),
        RecordKind::Dispatch => check_dispatch(*fields(&record)?, bounds),
        RecordKind::String => check_string(*fields(&record)?, bounds),
        RecordKind::Kernel => check_kernel(*fields(&record)?, bounds),
        RecordKind::Scalar => check_scalar(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::Task => check_task(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::Uncaptured => check_uncaptured(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::Edge => check_edge(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::OrchestrationArg => {
            check_orchestration_arg(fields(&record)?, bounds).map(|()| CheckedRecord::Plain(record))
        }
        RecordKind::Attribute => check_sound(&record, AttributeRecord::is_sound, RecordFault::Attribute),
        RecordKind::Collective => check_sound(&record, CollectiveRecord::is_sound, RecordFault::Collective),
        RecordKind::Finished => check_finished(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::Module => check_module(*fields(&record)?),
        RecordKind::Image => check_image(*fields(&record)?),
        RecordKind::Allocation => check_allocation(fields(&record)?).map(|()| CheckedRecord::Plain(record)),
        RecordKind::Scope | RecordKind::Queue | RecordKind::Lane | RecordKind::Step => {
            good(record.flags == 0, RecordFault::Flags).map(|()| CheckedRecord::Plain(record))
        }
    }
}

fn good(is_good: bool, otherwise: RecordFault) -> Result<(), RecordFault> {
    is_good.then_some(()).ok_or(otherwise)
}

fn fields<T: RecordLayout>(record: &DumpRecord) -> Result<&T, RecordFault> {
    record.get().ok_or(RecordFault::Kind)
}

/// Used bytes after a record's fixed fields: a text, arguments, or dimensions. `check_view` checks the
/// dimensions.
fn bytes_in_use(record: &DumpRecord) -> usize {
    if matches!(record.kind(), Some(RecordKind::Tensor | RecordKind::Begin | RecordKind::OrchestrationArg)) {
        return 2 * MAX_DIMS * size_of::<u64>();
    }
    if let Some(kind @ (RecordKind::Task | RecordKind::Module | RecordKind::Allocation)) = record.kind() {
        return kind.extended_bytes(record.flags);
    }
    if let Some(attribute) = record.get::<AttributeRecord>() {
        return attribute.value_bytes();
    }
    if let Some(string) = record.get::<StringRecord>() {
        return Some(string.text_bytes as usize).filter(|&bytes| bytes <= INLINE_TEXT_BYTES).unwrap_or(0);
    }
    let kernel_args = record.get::<KernelRecord>().map_or(0, |kernel| usize::from(kernel.arg_count));
    if kernel_args <= INLINE_KERNEL_ARGS { kernel_args * size_of::<KernelArg>() } else { 0 }
}

fn check_tensor(record: TensorRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    let content_bytes = check_argument(&record, bounds)?;
    let has = |flag| record.flags & flag != 0;
    let carried = [
        RECORD_HAS_PAYLOAD,
        RECORD_HAS_STATS,
        RECORD_PAYLOAD_DROPPED,
        RECORD_ALREADY_STORED,
        RECORD_FILLED_LATER,
    ];
    let alone = carried.into_iter().filter(|&flag| has(flag)).count() <= 1;
    // A payload in the arena, or one identified by its hash, must carry the hash. A payload that comes
    // later brings its hash then.
    let hashed = has(RECORD_HAS_HASH);
    let needs_hash = has(RECORD_HAS_PAYLOAD) || has(RECORD_ALREADY_STORED);
    let known = ARGUMENT_FLAGS
        | RECORD_HAS_HASH
        | RECORD_PAYLOAD_FILTERED
        | carried.into_iter().fold(0, |flags, flag| flags | flag);
    good(
        alone
            && (hashed || !needs_hash)
            && !(hashed && has(RECORD_FILLED_LATER))
            && record.flags & !known == 0,
        RecordFault::Flags,
    )?;
    if has(RECORD_HAS_PAYLOAD) {
        return Ok(CheckedRecord::Payload(record, check_span(record.payload_pos, content_bytes, bounds)?));
    }
    if has(RECORD_HAS_STATS) {
        let bytes = size_of::<TensorStats>() as u64;
        return Ok(CheckedRecord::Stats(record, check_span(record.payload_pos, bytes, bounds)?));
    }
    if has(RECORD_PAYLOAD_DROPPED) && record.payload_pos != 0 {
        return Ok(CheckedRecord::Tensor(record, Some(check_span(record.payload_pos, 0, bounds)?)));
    }
    good(record.payload_pos == 0, RecordFault::Position)?;
    Ok(match () {
        () if has(RECORD_ALREADY_STORED) => CheckedRecord::Stored(record),
        () if has(RECORD_FILLED_LATER) => CheckedRecord::Later(record),
        () => CheckedRecord::Tensor(record, None),
    })
}

fn check_begin(record: BeginRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    let content_bytes = check_argument(&record.tensor(), bounds)?;
    allow_flags(record.flags, ARGUMENT_FLAGS)?;
    // A view that repeats elements has more content than memory, but a tensor never has more content than
    // its device has memory.
    let in_device = MemorySpace::from_tag(record.tensor().space) == Some(MemorySpace::Device);
    let most = if in_device { bounds.memory.bytes } else { MAX_PIECED_BYTES };
    good(content_bytes <= most, RecordFault::Size)?;
    Ok(CheckedRecord::Begin(record))
}

fn check_piece(record: PieceRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    good(record.flags & !RECORD_IN_FLIGHT == RECORD_HAS_PAYLOAD, RecordFault::Flags)?;
    check_stage(record.stage)?;
    Ok(CheckedRecord::Piece(record, check_span(record.payload_pos, record.bytes, bounds)?))
}

fn check_commit(record: CommitRecord) -> Result<CheckedRecord, RecordFault> {
    allow_flags(record.flags, RECORD_HAS_HASH | RECORD_TRUNCATED | RECORD_IN_FLIGHT)?;
    good(record.flags & RECORD_HAS_HASH != 0, RecordFault::Flags)?;
    check_stage(record.stage)?;
    Ok(CheckedRecord::Commit(record))
}

fn check_filled(record: FilledRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    check_stage(record.stage)?;
    match record.flags & !RECORD_IN_FLIGHT {
        CARRIED_ARGS => {
            let span = check_span(record.payload_pos, record.payload_bytes, bounds)?;
            Ok(CheckedRecord::Filled(record, Some(span)))
        }
        flags
            if flags == RECORD_ALREADY_STORED | RECORD_HAS_HASH
                || flags & !RECORD_HAS_HASH == RECORD_PAYLOAD_DROPPED =>
        {
            good(record.payload_pos == 0, RecordFault::Position)?;
            Ok(CheckedRecord::Filled(record, None))
        }
        _ => Err(RecordFault::Flags),
    }
}

fn check_scalar(record: &ScalarRecord) -> Result<(), RecordFault> {
    allow_flags(record.flags, ARGUMENT_FLAGS | RECORD_LOCAL_MEMORY)?;
    DType::from_tag(record.dtype).filter(|dtype| dtype.fits_scalar()).ok_or(RecordFault::DType)?;
    check_stage(record.stage)
}

fn check_task(task: &TaskRecord) -> Result<(), RecordFault> {
    let known =
        RECORD_IN_FLIGHT | RECORD_HAS_PARENT | RECORD_EXTENDED | RECORD_LAUNCH_DETAILS | RECORD_REGION;
    allow_flags(task.flags, known)?;
    good(task.work_dims <= 3 && task.launch_flags & !LAUNCH_FLAGS == 0, RecordFault::Task)?;
    good(task.flags & RECORD_HAS_PARENT != 0 || task.parent_task == 0, RecordFault::Flags)?;
    Operation::from_tag(task.operation).ok_or(RecordFault::Task)?;
    check_counts(task.tensor_count, task.scalar_count, RecordFault::Task)
}

fn check_counts(tensors: u32, scalars: u32, otherwise: RecordFault) -> Result<(), RecordFault> {
    good(tensors.checked_add(scalars).is_some_and(|args| args <= MAX_RECORD_ARGS), otherwise)
}

fn check_dispatch(record: DispatchRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    good(record.stage == DumpStage::BeforeDispatch as u8, RecordFault::Stage)?;
    let within = |count: u32| usize::try_from(count).is_ok_and(|count| count <= SLOTS_PER_TASK);
    let place = within(record.subtask_id.saturating_add(1)) && within(record.subtask_count);
    good(place && record.block_idx < record.block_num, RecordFault::Dispatch)?;
    check_counts(record.tensor_count, record.scalar_count, RecordFault::Dispatch)?;
    match record.flags & !RECORD_IN_FLIGHT {
        RECORD_PAYLOAD_DROPPED => return Ok(CheckedRecord::Dispatch(record, None)),
        CARRIED_ARGS => {}
        _ => return Err(RecordFault::Flags),
    }
    let words = record.words_bytes as usize / size_of::<u64>();
    good(record.words_bytes.is_multiple_of(8) && words <= MAX_DISPATCH_WORDS, RecordFault::Size)?;
    let span = check_span(record.words_pos, record.words_bytes.into(), bounds)?;
    Ok(CheckedRecord::Dispatch(record, Some(span)))
}

/// Checks a record without payload whose layout knows when it is sound.
fn check_sound<T: RecordLayout>(
    record: &DumpRecord,
    is_sound: impl FnOnce(&T) -> bool,
    otherwise: RecordFault,
) -> Result<CheckedRecord, RecordFault> {
    allow_flags(record.flags, 0)?;
    good(is_sound(fields(record)?), otherwise)?;
    Ok(CheckedRecord::Plain(*record))
}

fn check_finished(finished: &FinishedRecord) -> Result<(), RecordFault> {
    allow_flags(finished.flags, 0)?;
    let within = usize::try_from(finished.subtask_id).is_ok_and(|slot| slot < SLOTS_PER_TASK);
    good(within, RecordFault::Dispatch)
}

fn check_string(record: StringRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    allow_flags(record.flags, 0)?;
    let bytes = record.text_bytes as usize;
    good(record.id != 0 && bytes <= MAX_TEXT_BYTES, RecordFault::Definition)?;
    let span = check_overflow(bytes > INLINE_TEXT_BYTES, record.text_pos, bytes as u64, bounds)?;
    Ok(CheckedRecord::String(record, span))
}

fn check_kernel(record: KernelRecord, bounds: &Bounds) -> Result<CheckedRecord, RecordFault> {
    allow_flags(record.flags, 0)?;
    good(KernelRecord::core_of(record.core_type).is_some(), RecordFault::Definition)?;
    let args = usize::from(record.arg_count);
    let bytes = (args * size_of::<KernelArg>()) as u64;
    let span = check_overflow(args > INLINE_KERNEL_ARGS, record.args_pos, bytes, bounds)?;
    Ok(CheckedRecord::Kernel(record, span))
}

/// The arena range of the part of a definition that does not fit into its record.
fn check_overflow(
    outside: bool,
    position: u64,
    bytes: u64,
    bounds: &Bounds,
) -> Result<Option<Span>, RecordFault> {
    if outside {
        return check_span(position, bytes, bounds).map(Some);
    }
    good(position == 0, RecordFault::Position).map(|()| None)
}

fn check_module(module: ModuleRecord) -> Result<CheckedRecord, RecordFault> {
    allow_flags(module.flags, RECORD_EXTENDED | RECORD_HAS_PAYLOAD)?;
    good(module.flags != RECORD_HAS_PAYLOAD, RecordFault::Flags)?;
    good(module.bytes < NUMBER_LIMIT, RecordFault::Size)?;
    good(module.reserved0 == [0; 7], RecordFault::Reserved)?;
    ModuleKind::from_tag(module.image_kind).ok_or(RecordFault::Definition)?;
    Ok(CheckedRecord::Module(module))
}

fn check_image(image: ImageRecord) -> Result<CheckedRecord, RecordFault> {
    allow_flags(image.flags, 0)?;
    good(image.bytes <= MAX_IMAGE_BYTES, RecordFault::Size)?;
    ModuleKind::from_tag(image.image_kind).ok_or(RecordFault::Definition)?;
    Ok(CheckedRecord::Image(image))
}

fn check_allocation(allocation: &AllocationRecord) -> Result<(), RecordFault> {
    allow_flags(allocation.flags, RECORD_EXTENDED)?;
    good(allocation.reserved1 == 0, RecordFault::Reserved)?;
    good(allocation.bytes < NUMBER_LIMIT, RecordFault::Size)?;
    MemorySpace::from_tag(allocation.space).ok_or(RecordFault::Address)?;
    good(allocation.freed <= 1, RecordFault::Definition)
}

/// One of the orchestration's own arguments: a view whose buffer is in device memory.
fn check_orchestration_arg(record: &OrchestrationArgRecord, bounds: &Bounds) -> Result<(), RecordFault> {
    allow_flags(record.flags, 0)?;
    let &OrchestrationArgRecord { start_offset, address, dtype, ndims, role, space, shape, strides, .. } =
        record;
    let view = TensorRecord {
        start_offset,
        address,
        dtype,
        ndims,
        role,
        space,
        shape,
        strides,
        ..TensorRecord::default()
    };
    check_view(&view, bounds)?;
    good(record.buffer_bytes < NUMBER_LIMIT, RecordFault::Size)
}

fn check_uncaptured(record: &UncapturedRecord) -> Result<(), RecordFault> {
    allow_flags(record.flags, ARGUMENT_FLAGS)?;
    UncapturedReason::from_tag(record.reason).ok_or(RecordFault::Reason)?;
    if record.role != 0 {
        Role::from_tag(record.role).ok_or(RecordFault::Role)?;
    }
    if record.stage == 0 { Ok(()) } else { check_stage(record.stage) }
}

fn check_edge(record: &EdgeRecord) -> Result<(), RecordFault> {
    allow_flags(record.flags, 0)?;
    EdgeCause::from_tag(record.cause.into()).map(|_| ()).ok_or(RecordFault::Reason)
}

/// Checks the facts that every tensor record has. Returns the size of its logical content.
fn check_argument(record: &TensorRecord, bounds: &Bounds) -> Result<u64, RecordFault> {
    check_stage(record.stage)?;
    check_view(record, bounds)
}

/// Checks dtype, role, view and address. Returns the size of the logical content.
fn check_view(record: &TensorRecord, bounds: &Bounds) -> Result<u64, RecordFault> {
    let dtype = DType::from_tag(record.dtype).ok_or(RecordFault::DType)?;
    Role::from_tag(record.role).ok_or(RecordFault::Role)?;
    let space = MemorySpace::from_tag(record.space).ok_or(RecordFault::Address)?;
    let ndims = usize::from(record.ndims);
    good(ndims <= MAX_DIMS, RecordFault::View)?;
    let rest = record.shape[ndims..].iter().all(|&size| size == 0)
        && record.strides[ndims..].iter().all(|&stride| stride == 0);
    good(rest, RecordFault::Reserved)?;
    let (shape, strides) = (&record.shape[..ndims], &record.strides[..ndims]);
    let sizes = shape.iter().copied().chain(strides.iter().map(|stride| stride.unsigned_abs()));
    good(sizes.chain([record.start_offset]).all(|size| size < NUMBER_LIMIT), RecordFault::View)?;
    let view =
        Layout::new(shape, strides, record.start_offset, dtype.bits()).map_err(|_| RecordFault::View)?;
    check_address(record.address, &view, space, bounds.memory)?;
    content_bytes(record).filter(|&bytes| bytes < NUMBER_LIMIT).ok_or(RecordFault::Size)
}

/// Size of a tensor's logical content; `None` if its fields are invalid.
pub(crate) fn content_bytes(record: &TensorRecord) -> Option<u64> {
    let shape = record.shape.get(..usize::from(record.ndims))?;
    let zero = shape.contains(&0);
    let numel = shape.iter().try_fold(1u64, |numel, &size| numel.checked_mul(if zero { 0 } else { size }))?;
    DType::from_tag(record.dtype)?.packed_bytes(numel)
}

/// The bytes of a view must be in device memory if the record states that.
fn check_address(
    address: u64,
    view: &Layout,
    space: MemorySpace,
    memory: DeviceRange,
) -> Result<(), RecordFault> {
    let touched = view.byte_range();
    if touched.is_empty() {
        return Ok(());
    }
    let end = address.checked_add(touched.end).ok_or(RecordFault::Address)?;
    let inside = address >= memory.addr && end <= memory.end();
    good(inside || space != MemorySpace::Device, RecordFault::Address)
}

fn check_stage(stage: u8) -> Result<(), RecordFault> {
    good(DumpStage::from_tag(stage).is_some(), RecordFault::Stage)
}

fn check_span(position: u64, bytes: u64, bounds: &Bounds) -> Result<Span, RecordFault> {
    let ends = position.checked_add(bytes).is_some_and(|end| end <= bounds.to);
    let in_one_piece =
        bytes <= bounds.arena_bytes && position % bounds.arena_bytes <= bounds.arena_bytes - bytes;
    good(position >= bounds.from && ends && in_one_piece, RecordFault::Position)?;
    Ok(Span { position, bytes })
}

fn allow_flags(flags: u32, allowed: u32) -> Result<(), RecordFault> {
    good(flags & !allowed == 0, RecordFault::Flags)
}

#[cfg(test)]
mod tests;
