//! What a recorder is asked to record, and the records that become of it.

use tensortap_abi::{
    BlockContext, CoreType, DType, DispatchRecord, DumpStage, EdgeCause, KernelArg, MemorySpace,
    OrchestrationArgRecord, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED, RECORD_IN_FLIGHT,
    RECORD_LOCAL_MEMORY, RECORD_MARKED, RECORD_ROLE_UNKNOWN, Role, SLOTS_PER_TASK, ScalarRecord, TensorDesc,
    TensorRecord, UncapturedReason, UncapturedRecord,
};

/// A task, for [`LaneRecorder::wants_task`](crate::LaneRecorder::wants_task).
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
    /// What else is known of it, and what is not.
    pub known: Known,
}

/// What is known of a tensor argument beside its view. The default is that of a scene's: its kernel names it, it lies in device memory,
/// and everything about it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// String id of its name; 0: as its kernel declares it.
    pub name: u32,
    /// Whose memory it lies in.
    pub space: MemorySpace,
    /// What is a guess: [`RECORD_DTYPE_UNKNOWN`], [`RECORD_ROLE_UNKNOWN`] and [`RECORD_EXTENT_GUESSED`]; other flags count for nothing.
    pub guessed: u32,
    /// Where its buffer begins for whoever uses it, when that is not where it is read; 0: there.
    pub address: u64,
}

const GUESSED: u32 = RECORD_DTYPE_UNKNOWN | RECORD_ROLE_UNKNOWN | RECORD_EXTENT_GUESSED;

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
    /// Whether it is no value but memory that each work group has for itself, `bits` bytes of it.
    pub is_local: bool,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// String id of its name; 0: as its kernel declares it.
    pub name: u32,
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
    /// String id of its name; 0: as its kernel declares it.
    pub name: u32,
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
    /// When it is handed over.
    pub handed_ns: u64,
}

/// A kernel, for [`LaneRecorder::define_kernel`](crate::LaneRecorder::define_kernel).
#[derive(Clone, Copy, Debug)]
pub struct KernelDefinition<'a> {
    /// Number by which tasks refer to it.
    pub func_id: u32,
    /// String id of its name.
    pub name: u32,
    /// Module that holds its code; 0 when not known.
    pub module: u32,
    /// The cores that run it, where there are several types.
    pub core_type: Option<CoreType>,
    /// What it declares of its arguments, in order.
    pub args: &'a [KernelArg],
}

/// A tensor's record without payload.
#[inline]
pub fn tensor_record(capture: &TensorCapture<'_>) -> TensorRecord {
    let &TensorCapture { task_id, stage, role, arg_index, desc, marked, in_flight, known } = capture;
    TensorRecord {
        task_id,
        start_offset: desc.start_offset,
        address: if known.address == 0 { desc.buffer_addr } else { known.address },
        stage: stage as u8,
        role: role.tag(),
        dtype: desc.dtype,
        ndims: desc.ndims,
        flags: flag(RECORD_IN_FLIGHT, in_flight) | flag(RECORD_MARKED, marked) | known.guessed & GUESSED,
        arg_index,
        space: known.space as u8,
        name: known.name,
        shape: in_use(&desc.shape, desc.ndims),
        strides: in_use(&desc.strides, desc.ndims),
        ..TensorRecord::default()
    }
}

const fn flag(flag: u32, is_set: bool) -> u32 {
    if is_set { flag } else { 0 }
}

/// Keeps what lies behind the dimensions in use out of the dump.
#[inline]
fn in_use<T: Copy + Default, const N: usize>(values: &[T; N], ndims: u8) -> [T; N] {
    // A choice for each of a fixed number, which needs no branch and no call.
    core::array::from_fn(|dim| if dim < usize::from(ndims) { values[dim] } else { T::default() })
}

pub(crate) fn scalar_record(capture: &ScalarCapture) -> ScalarRecord {
    let &ScalarCapture { task_id, stage, arg_index, dtype, bits, is_local, marked, name } = capture;
    ScalarRecord {
        task_id,
        bits,
        stage: stage as u8,
        dtype: dtype.tag(),
        flags: flag(RECORD_MARKED, marked) | flag(RECORD_LOCAL_MEMORY, is_local),
        arg_index,
        name,
        ..ScalarRecord::default()
    }
}

/// The record of an argument that could not be captured.
pub fn uncaptured_record(arg: &UncapturedArg) -> UncapturedRecord {
    let &UncapturedArg { task_id, stage, role, arg_index, reason, marked, name } = arg;
    UncapturedRecord {
        task_id,
        reason: reason as u8,
        stage: stage as u8,
        role: role.tag(),
        flags: flag(RECORD_MARKED, marked),
        arg_index,
        name,
        ..UncapturedRecord::default()
    }
}

pub(crate) fn orchestration_arg_record(arg: &OrchestrationArgCapture<'_>) -> OrchestrationArgRecord {
    let &OrchestrationArgCapture { arg_index, role, desc } = arg;
    OrchestrationArgRecord {
        buffer_bytes: desc.buffer_bytes,
        start_offset: desc.start_offset,
        address: desc.buffer_addr,
        role: role.tag(),
        dtype: desc.dtype,
        ndims: desc.ndims,
        arg_index,
        shape: in_use(&desc.shape, desc.ndims),
        strides: in_use(&desc.strides, desc.ndims),
        ..OrchestrationArgRecord::default()
    }
}

pub(crate) fn dispatch_record(dispatch: &DispatchCapture, words_bytes: u32) -> DispatchRecord {
    let &DispatchCapture {
        task_id,
        func_id,
        core_id,
        subtask_id,
        subtask_count,
        block: BlockContext { block_idx, block_num },
        tensor_count,
        scalar_count,
        handed_ns,
    } = dispatch;
    DispatchRecord {
        task_id,
        stage: DumpStage::BeforeDispatch as u8,
        func_id,
        core_id,
        subtask_id,
        subtask_count,
        block_idx,
        block_num,
        tensor_count,
        scalar_count,
        words_bytes,
        started_ns: handed_ns,
        ..DispatchRecord::default()
    }
}
