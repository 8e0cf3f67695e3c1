//! What a recorder is asked to record, and the records that become of it.

use tensortap_abi::{
    BlockContext, DType, DumpStage, EdgeCause, RECORD_IN_FLIGHT, RecordKind, Role, SLOTS_PER_TASK,
    TaskDumpRecord, TensorDesc, TensorDumpRecord, UncapturedReason,
};

/// A task, for [`ThreadRecorder::wants_task`](crate::ThreadRecorder::wants_task).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskHead {
    /// Task.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`tensortap_abi::NO_KERNEL`] where inactive.
    pub func_ids: [u32; SLOTS_PER_TASK],
    /// Records that both stages and all dispatches would make; counted as filtered when the task is refused.
    pub records: u32,
}

/// A tensor argument at one stage.
#[derive(Clone, Copy, Debug)]
pub struct TensorCapture<'a> {
    /// Task.
    pub task_id: u64,
    /// Before or after.
    pub stage: DumpStage,
    /// Direction.
    pub role: Role,
    /// Position in the payload.
    pub arg_index: u16,
    /// The view, which lies in device memory. Not trusted: a damaged one is recorded as uncaptured.
    pub desc: &'a TensorDesc,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// Whether the task may still be writing it.
    pub in_flight: bool,
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarCapture {
    /// Task.
    pub task_id: u64,
    /// Before or after.
    pub stage: DumpStage,
    /// Position in the payload.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Its raw bits.
    pub bits: u64,
    /// Whether the orchestration marked it.
    pub marked: bool,
}

/// An argument that cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncapturedArg {
    /// Task.
    pub task_id: u64,
    /// Before or after.
    pub stage: DumpStage,
    /// Direction, as far as known.
    pub role: Role,
    /// Position in the payload.
    pub arg_index: u16,
    /// Why not.
    pub reason: UncapturedReason,
    /// Whether the orchestration marked it.
    pub marked: bool,
}

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeCapture {
    /// Task that waits.
    pub consumer: u64,
    /// Task that is waited for.
    pub producer: u64,
    /// Why.
    pub cause: EdgeCause,
    /// Argument of the consumer.
    pub arg_index: u16,
}

/// One of the orchestration's own arguments.
#[derive(Clone, Copy, Debug)]
pub struct OrchestrationArgCapture<'a> {
    /// Its place among them.
    pub arg_index: u16,
    /// Direction.
    pub role: Role,
    /// Where it lies.
    pub desc: &'a TensorDesc,
}

/// One (task, slot, block) handed to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCapture {
    /// Task.
    pub task_id: u64,
    /// Kernel.
    pub func_id: u32,
    /// Core of the device.
    pub core_id: u32,
    /// Subtask slot.
    pub subtask_id: u32,
    /// Active subtask slots of the task.
    pub subtask_count: u32,
    /// Block.
    pub block: BlockContext,
    /// Tensors in the payload: the first slots of `args[]`.
    pub tensor_count: u32,
    /// Scalars in the payload: the slots behind.
    pub scalar_count: u32,
}

/// Where a [`RecordKind::Dispatch`] record holds its fields: places in [`TensorDumpRecord::shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DispatchFields {
    /// Kernel.
    FuncId = 0,
    /// Core of the device.
    CoreId = 1,
    /// Subtask slot.
    SubtaskId = 2,
    /// Active subtask slots of the task.
    SubtaskCount = 3,
    /// Block.
    BlockIdx = 4,
    /// Blocks of the task.
    BlockNum = 5,
    /// Tensors in the payload.
    TensorCount = 6,
    /// Scalars in the payload.
    ScalarCount = 7,
}

impl DispatchFields {
    /// The field of a record of kind [`RecordKind::Dispatch`].
    pub const fn of(self, record: &TensorDumpRecord) -> u64 {
        record.shape[self as usize]
    }
}

/// A tensor's record without payload; `content_bytes` is the size of its logical content.
pub(crate) fn tensor_record(capture: &TensorCapture<'_>, content_bytes: u64) -> TensorDumpRecord {
    let &TensorCapture { task_id, stage, role, arg_index, desc, marked: _, in_flight } = capture;
    TensorDumpRecord {
        task_id,
        payload_bytes: content_bytes,
        start_offset: desc.start_offset,
        address: desc.buffer_addr,
        kind: RecordKind::Tensor as u8,
        stage: stage as u8,
        role: role.tag(),
        dtype: desc.dtype,
        ndims: desc.ndims,
        flags: if in_flight { RECORD_IN_FLIGHT } else { 0 },
        arg_index,
        shape: in_use(desc.shape, desc.ndims),
        strides: in_use(desc.strides, desc.ndims),
        ..TensorDumpRecord::default()
    }
}

/// Keeps what lies behind the dimensions in use out of the dump.
fn in_use<T: Copy + Default, const N: usize>(values: [T; N], ndims: u8) -> [T; N] {
    let mut kept = [T::default(); N];
    let used = usize::from(ndims).min(N);
    kept[..used].copy_from_slice(&values[..used]);
    kept
}

pub(crate) fn scalar_record(capture: &ScalarCapture) -> TensorDumpRecord {
    let &ScalarCapture { task_id, stage, arg_index, dtype, bits, marked: _ } = capture;
    TensorDumpRecord {
        task_id,
        payload_pos: bits,
        kind: RecordKind::Scalar as u8,
        stage: stage as u8,
        role: Role::Input.tag(),
        dtype: dtype.tag(),
        arg_index,
        ..TensorDumpRecord::default()
    }
}

/// The record of an argument that could not be captured.
pub fn uncaptured_record(arg: &UncapturedArg) -> TensorDumpRecord {
    let &UncapturedArg { task_id, stage, role, arg_index, reason, marked: _ } = arg;
    TensorDumpRecord {
        task_id,
        start_offset: reason as u64,
        kind: RecordKind::Uncaptured as u8,
        stage: stage as u8,
        role: role.tag(),
        arg_index,
        ..TensorDumpRecord::default()
    }
}

pub(crate) fn edge_record(edge: &EdgeCapture) -> TensorDumpRecord {
    let &EdgeCapture { consumer, producer, cause, arg_index } = edge;
    let stage = match cause {
        EdgeCause::Explicit => 0,
        EdgeCause::ReadAfterWrite => 1,
        EdgeCause::WriteAfterWrite => 2,
        EdgeCause::WriteAfterRead => 3,
    };
    TensorDumpRecord {
        task_id: consumer,
        address: producer,
        kind: RecordKind::Edge as u8,
        stage,
        arg_index,
        ..TensorDumpRecord::default()
    }
}

pub(crate) fn orchestration_arg_record(arg: &OrchestrationArgCapture<'_>) -> TensorDumpRecord {
    let &OrchestrationArgCapture { arg_index, role, desc } = arg;
    TensorDumpRecord {
        payload_bytes: desc.buffer_bytes,
        start_offset: desc.start_offset,
        address: desc.buffer_addr,
        kind: RecordKind::OrchestrationArg as u8,
        role: role.tag(),
        dtype: desc.dtype,
        ndims: desc.ndims,
        arg_index,
        shape: in_use(desc.shape, desc.ndims),
        strides: in_use(desc.strides, desc.ndims),
        ..TensorDumpRecord::default()
    }
}

pub(crate) fn dispatch_record(dispatch: &DispatchCapture, args_bytes: u64) -> TensorDumpRecord {
    let &DispatchCapture {
        task_id,
        func_id,
        core_id,
        subtask_id,
        subtask_count,
        block,
        tensor_count,
        scalar_count,
    } = dispatch;
    let BlockContext { block_idx, block_num } = block;
    let fields =
        [func_id, core_id, subtask_id, subtask_count, block_idx, block_num, tensor_count, scalar_count];
    TensorDumpRecord {
        task_id,
        payload_bytes: args_bytes,
        kind: RecordKind::Dispatch as u8,
        stage: DumpStage::BeforeDispatch as u8,
        dtype: DType::UInt64.tag(),
        shape: fields.map(u64::from),
        ..TensorDumpRecord::default()
    }
}

/// A task's record, which has the size and the place of `kind` of every other.
pub(crate) fn task_record(task: &TaskDumpRecord) -> TensorDumpRecord {
    zerocopy::transmute!(TaskDumpRecord { kind: RecordKind::Task as u8, ..*task })
}
