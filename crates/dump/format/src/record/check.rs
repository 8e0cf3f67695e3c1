//! Checks whether a record is valid. The same check runs before writing and after reading.

use tensortap_abi::{
    AllocationRecord, AttributeRecord, CollectiveRecord, DumpStage, EdgeRecord, LAUNCH_FLAGS,
    MAX_RECORD_ARGS, MemorySpace, Operation, OrchestrationArgRecord, RECORD_HAS_PARENT, RECORD_HAS_PAYLOAD,
    RECORD_HAS_STATS, RecordKind, Role, TaskRecord, TensorRecord, UncapturedReason, UncapturedRecord,
};

use super::{IndexRecord, PayloadState, codec::TOO_MANY_DIMS, kinds::edge_cause_name};
use crate::{FormatError, layout::is_indexed};

/// JSON numbers are exact below this limit. Sizes, offsets and dimensions stay below it.
pub(crate) const JSON_LIMIT: u64 = 1 << 53;

fn sound(good: bool, otherwise: &'static str) -> Result<(), &'static str> {
    good.then_some(()).ok_or(otherwise)
}

impl IndexRecord {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let kind = RecordKind::from_tag(self.record.kind).ok_or("its kind is unknown")?;
        sound(is_indexed(kind), "an index cannot contain a part of a payload")?;
        sound(self.tail.len() == self.tail_words()?, "it has data that only other kinds have")?;
        let extended = kind.extended_bytes(self.record.flags);
        let in_use = self.view().map_or(extended + self.value_bytes(), |_| 192 - kind.fixed_bytes());
        sound(self.record.has_zero_rest(in_use), "reserved bytes are not zero")?;
        match kind {
            RecordKind::Tensor => self.check_tensor(),
            RecordKind::Scalar => self.check_argument(),
            RecordKind::Task => self.get::<TaskRecord>().map_or(Ok(()), check_task),
            RecordKind::Uncaptured => self.get().map_or(Ok(()), check_uncaptured),
            RecordKind::Edge => {
                let cause = self.get().and_then(|edge: &EdgeRecord| edge_cause_name(edge.cause));
                sound(cause.is_some(), "its cause is unknown")
            }
            RecordKind::Dispatch => self.check_dispatch(),
            RecordKind::Finished => sound(self.as_finished().is_some(), "its subtask slot is out of range"),
            RecordKind::OrchestrationArg => self.check_orchestration_arg(),
            RecordKind::Attribute => {
                let is_sound = self.get().is_some_and(AttributeRecord::is_sound);
                sound(is_sound, "its values do not fit their types or their number")
            }
            RecordKind::Collective => {
                let is_sound = self.get().is_some_and(CollectiveRecord::is_sound);
                sound(is_sound, "its group or its kind is unknown")
            }
            _ => self.check_definition(),
        }
    }

    fn check_argument(&self) -> Result<(), &'static str> {
        sound(self.stage().is_some(), "its stage is unknown")?;
        sound(self.role().is_some(), "its role is unknown")?;
        sound(self.dtype().is_some(), "its dtype is unknown")
    }

    fn check_tensor(&self) -> Result<(), &'static str> {
        self.check_argument()?;
        self.check_view()?;
        let space = self.get::<TensorRecord>().and_then(|tensor| MemorySpace::from_tag(tensor.space));
        sound(space.is_some(), "its memory space is unknown")?;
        let content = self.content_bytes().filter(|b| *b < JSON_LIMIT).ok_or("its size is out of range")?;
        sound(
            !self.has(RECORD_HAS_STATS) || !self.has(RECORD_HAS_PAYLOAD),
            "its flags contradict each other",
        )?;
        let Some((offset, bytes)) = self.stored_range() else { return Ok(()) };
        let truncated = self.payload_state() == PayloadState::Truncated;
        sound(bytes == content || bytes < content && truncated, "its size contradicts its shape")?;
        let end = offset.checked_add(bytes).filter(|end| *end < JSON_LIMIT);
        sound(end.is_some(), "its payload is out of range")
    }

    pub(super) fn check_view(&self) -> Result<(), &'static str> {
        let Some(view) = self.view() else { return Ok(()) };
        let ndims = usize::from(view.ndims);
        let shape = view.shape.get(..ndims).ok_or(TOO_MANY_DIMS)?;
        let strides = &view.strides[..ndims];
        let in_range =
            shape.iter().all(|d| *d < JSON_LIMIT) && strides.iter().all(|s| s.unsigned_abs() < JSON_LIMIT);
        sound(in_range, "a dimension or stride is out of range")?;
        let rest =
            view.shape[ndims..].iter().all(|d| *d == 0) && view.strides[ndims..].iter().all(|s| *s == 0);
        sound(rest, "reserved bytes are not zero")?;
        sound(view.start_offset < JSON_LIMIT, "its start offset is out of range")
    }

    fn check_orchestration_arg(&self) -> Result<(), &'static str> {
        sound(self.role().is_some(), "its role is unknown")?;
        sound(self.dtype().is_some(), "its dtype is unknown")?;
        self.check_view()?;
        let bytes = self.get::<OrchestrationArgRecord>().map_or(0, |arg| arg.buffer_bytes);
        sound(bytes < JSON_LIMIT, "its size is out of range")
    }

    /// Whether a writer would accept it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.check().is_ok()
    }

    /// The error of a record that a writer rejects.
    pub(crate) fn checked(&self) -> Result<(), FormatError> {
        self.check().map_err(|reason| FormatError::BadRecord {
            task_id: self.task_id(),
            arg_index: self.arg_index(),
            reason,
        })
    }
}

fn check_task(task: &TaskRecord) -> Result<(), &'static str> {
    sound(Operation::from_tag(task.operation).is_some(), "its operation is unknown")?;
    let args = task.tensor_count.checked_add(task.scalar_count);
    sound(args.is_some_and(|args| args <= MAX_RECORD_ARGS), "it has more arguments than a task")?;
    sound(task.work_dims <= 3, "it has more than 3 work dimensions")?;
    sound(task.launch_flags & !LAUNCH_FLAGS == 0, "its launch flags are unknown")?;
    let parent = task.flags & RECORD_HAS_PARENT != 0 || task.parent_task == 0;
    sound(parent, "its flags contradict each other")
}

fn check_uncaptured(arg: &UncapturedRecord) -> Result<(), &'static str> {
    let stage = arg.stage == 0 || DumpStage::from_tag(arg.stage).is_some();
    let role = arg.role == 0 || Role::from_tag(arg.role).is_some();
    sound(
        UncapturedReason::from_tag(arg.reason).is_some() && stage && role,
        "its reason, stage or role is unknown",
    )
}

pub(super) fn check_allocation(allocation: &AllocationRecord) -> Result<(), &'static str> {
    let known = MemorySpace::from_tag(allocation.space).is_some() && allocation.freed <= 1;
    sound(known, "its memory space is unknown")?;
    sound(allocation.reserved1 == 0, "reserved bytes are not zero")?;
    sound(allocation.bytes < JSON_LIMIT, "its size is out of range")
}
