//! The arguments of a recorder's calls, and the records made from them.

use tensortap_abi::{
    BlockContext, CoreType, DType, DispatchRecord, DumpStage, EdgeCause, KernelArg, MemorySpace,
    OrchestrationArgRecord, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED, RECORD_IN_FLIGHT,
    RECORD_LOCAL_MEMORY, RECORD_MARKED, RECORD_ROLE_UNKNOWN, Role, SLOTS_PER_TASK, ScalarRecord, TensorDesc,
    TensorRecord, UncapturedReason, UncapturedRecord,
};

/// A task, for [`LaneRecorder::wants_task`](crate::LaneRecorder::wants_task).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskHead {
    /// Id of the task.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`tensortap_abi::NO_KERNEL`] where inactive.
    pub func_ids: [u32; SLOTS_PER_TASK],
    /// Number of records that both stages and all dispatches would make; counted as filtered if the task is
    /// rejected.
    pub records: u32,
}

/// A tensor argument at one stage.
#[derive(Clone, Copy, Debug)]
pub struct TensorCapture<'a> {
    /// Id of the task.
    pub task_id: u64,
    /// Before or after the task.
    pub stage: DumpStage,
    /// Direction.
    pub role: Role,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// The view in device memory. Not trusted: a damaged one is recorded as uncaptured.
    pub desc: &'a TensorDesc,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// Whether the task may still be writing it.
    pub in_flight: bool,
    /// Name, memory space and uncertain facts.
    pub details: TensorDetails,
}

/// Facts about a tensor argument besides its view. The default fits a scene's tensor: its kernel declares
/// the name, it is in device memory, and nothing is uncertain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorDetails {
    /// String id of its name; 0 means that the kernel declares the name.
    pub name: u32,
    /// Memory space of its buffer.
    pub space: MemorySpace,
    /// Flags for uncertain facts: [`RECORD_DTYPE_UNKNOWN`], [`RECORD_ROLE_UNKNOWN`] and
    /// [`RECORD_EXTENT_GUESSED`]. Other flags are ignored.
    pub guessed: u32,
    /// Address of the buffer as the program uses it, if the content is read from a different address; 0
    /// otherwise.
    pub address: u64,
}

const GUESSED: u32 = RECORD_DTYPE_UNKNOWN | RECORD_ROLE_UNKNOWN | RECORD_EXTENT_GUESSED;

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarCapture {
    /// Id of the task.
    pub task_id: u64,
    /// Before or after the task.
    pub stage: DumpStage,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Its raw bits.
    pub bits: u64,
    /// Whether the argument is not a value but `bits` bytes of memory local to each work group.
    pub is_local: bool,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// String id of its name; 0 means that the kernel declares the name.
    pub name: u32,
}

/// An argument that cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncapturedArg {
    /// Id of the task.
    pub task_id: u64,
    /// Before or after the task.
    pub stage: DumpStage,
    /// Direction, if known.
    pub role: Role,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Why it cannot be captured.
    pub reason: UncapturedReason,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// String id of its name; 0 means that the kernel declares the name.
    pub name: u32,
}

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeCapture {
    /// Task that waits.
    pub consumer: u64,
    /// Task that it waits for.
    pub producer: u64,
    /// Reason for the dependency.
    pub cause: EdgeCause,
    /// Argument of the consumer.
    pub arg_index: u16,
}

/// One of the orchestration's own arguments.
#[derive(Clone, Copy, Debug)]
pub struct OrchestrationArgCapture<'a> {
    /// Position among the orchestration's arguments.
    pub arg_index: u16,
    /// Direction.
    pub role: Role,
    /// View of its buffer.
    pub desc: &'a TensorDesc,
}

/// One (task, slot, block) dispatched to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCapture {
    /// Id of the task.
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
    /// Number of tensors in the payload: the first slots of `args[]`.
    pub tensor_count: u32,
    /// Number of scalars in the payload: the following slots.
    pub scalar_count: u32,
    /// When it is dispatched.
    pub handed_ns: u64,
}

/// A kernel, for [`LaneRecorder::define_kernel`](crate::LaneRecorder::define_kernel).
#[derive(Clone, Copy, Debug)]
pub struct KernelDefinition<'a> {
    /// Number by which tasks refer to it.
    pub func_id: u32,
    /// String id of its name.
    pub name: u32,
    /// Module that contains its code; 0 if not known.
    pub module: u32,
    /// Type of the cores that run it, if there are several types.
    pub core_type: Option<CoreType>,
    /// Its declared arguments, in order.
    pub args: &'a [KernelArg],
}

/// The record of a tensor, without payload.
#[inline]
pub fn tensor_record(capture: &TensorCapture<'_>) -> TensorRecord {
    let &TensorCapture { task_id, stage, role, arg_index, desc, marked, in_flight, details } = capture;
    TensorRecord {
        task_id,
        start_offset: desc.start_offset,
        address: if details.address == 0 { desc.buffer_addr } else { details.address },
        stage: stage as u8,
        role: role.tag(),
        dtype: desc.dtype,
        ndims: desc.ndims,
        flags: flag(RECORD_IN_FLIGHT, in_flight) | flag(RECORD_MARKED, marked) | details.guessed & GUESSED,
        arg_index,
        space: details.space as u8,
        name: details.name,
        shape: in_use(&desc.shape, desc.ndims),
        strides: in_use(&desc.strides, desc.ndims),
        ..TensorRecord::default()
    }
}

const fn flag(flag: u32, is_set: bool) -> u32 {
    if is_set { flag } else { 0 }
}

/// Keeps values past the dimensions in use out of the dump.
#[inline]
fn in_use<T: Copy + Default, const N: usize>(values: &[T; N], ndims: u8) -> [T; N] {
    // A select for each of a fixed number of dimensions, which needs neither a branch nor a call.
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
