//! Dispatches and the orchestration's arguments, with types.

use tensortap_abi::{
    BlockContext, CoreType, DType, DispatchParts, OrchestrationArgRecord, Role, SubtaskContext, TensorDesc,
};

use crate::{IndexRecord, PayloadState, RunInfo, ScalarValue, TaskKey, record::JSON_LIMIT};

/// One (task, slot, block) dispatched to a core, and the arguments of its kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Step of its task; 0 if the dump has no steps.
    pub step: u32,
    /// Task.
    pub task_id: u64,
    /// Kernel.
    pub func_id: u32,
    /// Core of the device.
    pub core_id: u32,
    /// Subtask slot: 0 AIC, 1 AIV0, 2 AIV1.
    pub subtask_id: u32,
    /// Active subtask slots of the task.
    pub subtask_count: u32,
    /// Block.
    pub block_idx: u32,
    /// Blocks of the task.
    pub block_num: u32,
    /// Device time of the dispatch; 0 if not recorded.
    pub handed_ns: u64,
    /// State of the arguments: [`PayloadState::Stored`], dropped, or overwritten before the host read them.
    pub payload: PayloadState,
    /// The arguments in the order the kernel sees them; empty if they were lost.
    pub args: Vec<DispatchArg>,
    /// The context pointers; `None` if the arguments were lost.
    pub context: Option<DispatchContext>,
}

/// One argument of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DispatchArg {
    /// A tensor.
    Tensor {
        /// Slot of `args[]`.
        arg_index: u16,
        /// Value of the slot: the address of the descriptor.
        desc_addr: u64,
        /// The descriptor at that address.
        desc: TensorDesc,
    },
    /// A scalar.
    Scalar {
        /// Slot of `args[]`.
        arg_index: u16,
        /// Value of the slot.
        bits: u64,
        /// Type of the value; `None` if its tag was damaged.
        dtype: Option<DType>,
    },
}

impl DispatchArg {
    /// Slot of `args[]`.
    #[must_use]
    pub fn arg_index(&self) -> u16 {
        match *self {
            DispatchArg::Tensor { arg_index, .. } | DispatchArg::Scalar { arg_index, .. } => arg_index,
        }
    }

    /// The value of a scalar.
    #[must_use]
    pub fn value(&self) -> Option<ScalarValue> {
        match *self {
            DispatchArg::Scalar { bits, dtype, .. } => dtype.map(|dtype| ScalarValue::decode(dtype, bits)),
            DispatchArg::Tensor { .. } => None,
        }
    }
}

/// Slots 48 and 49 of `args[]`, and the contexts that they point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchContext {
    /// Slot 48.
    pub block_addr: u64,
    /// What it points to.
    pub block: BlockContext,
    /// Slot 49.
    pub subtask_addr: u64,
    /// What it points to.
    pub subtask: SubtaskContext,
}

/// Id of a dispatch: the same for the same (task, slot, block) in every run.
///
/// From the highest bit down: block (24 bits), subtask slot (4), task id (36: ring and local number). The
/// id is unique for task ids below 2^36 and blocks below 2^24, which no runtime exceeds in practice.
///
/// ```
/// use tensortap_format::dispatch_id;
/// assert_eq!(dispatch_id(0x1_0000_0003, 2, 5), 0x0000_0521_0000_0003);
/// ```
#[must_use]
pub fn dispatch_id(task_id: u64, subtask_id: u32, block_idx: u32) -> u64 {
    u64::from(block_idx) << 40 | u64::from(subtask_id & 0xf) << 36 | task_id & ((1 << 36) - 1)
}

impl Dispatch {
    /// Returns `None` if the record is not a dispatch.
    pub(crate) fn new(record: &IndexRecord, step: u32) -> Option<Dispatch> {
        let numbers = record.sound_dispatch()?;
        let parts = record.dispatch_parts();
        Some(Dispatch {
            step,
            task_id: record.task_id(),
            func_id: numbers.func_id,
            core_id: numbers.core_id,
            subtask_id: numbers.subtask_id,
            subtask_count: numbers.subtask_count,
            block_idx: numbers.block_idx,
            block_num: numbers.block_num,
            handed_ns: numbers.started_ns,
            payload: record.payload_state(),
            args: parts.map(|parts| args_of(&parts)).unwrap_or_default(),
            context: parts.map(|parts| context_of(&parts)),
        })
    }

    /// Its id; see [`dispatch_id`].
    #[must_use]
    pub fn id(&self) -> u64 {
        dispatch_id(self.task_id, self.subtask_id, self.block_idx)
    }

    /// The key of its task.
    #[must_use]
    pub fn task_key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }

    /// Type of its core.
    #[must_use]
    pub fn core_type(&self) -> CoreType {
        CoreType::of_slot(self.subtask_id as usize)
    }
}

fn args_of(parts: &DispatchParts<'_>) -> Vec<DispatchArg> {
    let tensors = (0_u16..).zip(parts.tensors()).map(|(arg_index, desc)| DispatchArg::Tensor {
        arg_index,
        desc_addr: parts.slot(arg_index.into()),
        desc,
    });
    let scalars = (0..parts.scalar_count()).map(|index| {
        let (bits, tag) = parts.scalar(index);
        let arg_index = u16::try_from(parts.tensor_count() + index).expect("at most 65,535");
        DispatchArg::Scalar { arg_index, bits, dtype: DType::from_tag(tag) }
    });
    tensors.chain(scalars).collect()
}

fn context_of(parts: &DispatchParts<'_>) -> DispatchContext {
    let [block_addr, subtask_addr] = parts.context_addrs();
    DispatchContext { block_addr, block: parts.block(), subtask_addr, subtask: parts.subtask() }
}

/// One of the orchestration's own arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct OrchestrationArg {
    /// Position among these arguments.
    pub arg_index: u16,
    /// Its name in the scene, if the dump has it.
    pub name: Option<String>,
    /// Direction.
    pub role: Role,
    /// Address, size and view.
    pub desc: TensorDesc,
}

impl OrchestrationArg {
    /// Returns `None` if the record has a different kind.
    pub(crate) fn new(record: &IndexRecord, info: &RunInfo) -> Option<OrchestrationArg> {
        let fields: &OrchestrationArgRecord = record.get()?;
        let declared = info.args.get(usize::from(fields.arg_index));
        Some(OrchestrationArg {
            arg_index: fields.arg_index,
            name: declared.and_then(|arg| arg["name"].as_str()).map(str::to_owned),
            role: record.role()?,
            desc: TensorDesc {
                buffer_addr: fields.address,
                buffer_bytes: fields.buffer_bytes,
                start_offset: fields.start_offset,
                owner_task: TensorDesc::NO_OWNER,
                dtype: fields.dtype,
                ndims: fields.ndims,
                shape: fields.shape,
                strides: fields.strides,
                ..TensorDesc::default()
            },
        })
    }
}

/// One of the orchestration's own scalar arguments. They follow its tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct OrchestrationScalar {
    /// Position among all arguments.
    pub arg_index: u16,
    /// Its name in the scene.
    pub name: String,
    /// Type of the value.
    pub dtype: DType,
    /// Its raw bits.
    pub bits: u64,
}

impl OrchestrationScalar {
    /// The scalars that a run declared. Invalid ones are skipped.
    pub(crate) fn of_run(info: &RunInfo) -> impl Iterator<Item = OrchestrationScalar> + '_ {
        (0_u16..).zip(&info.args).filter(|(_, arg)| arg["kind"] == "scalar").filter_map(|(arg_index, arg)| {
            let (name, dtype) = (arg["name"].as_str()?.to_owned(), arg["dtype"].as_str()?);
            let is_it = |known: &DType| known.name() == dtype && known.fits_scalar();
            let dtype = DType::ALL.into_iter().find(is_it)?;
            let bits = u64::from_str_radix(arg["bits"].as_str()?.strip_prefix("0x")?, 16).ok()?;
            Some(OrchestrationScalar { arg_index, name, dtype, bits })
        })
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> ScalarValue {
        ScalarValue::decode(self.dtype, self.bits)
    }
}

/// The element type of a valid descriptor: a known type, and numbers that JSON can represent.
pub(crate) fn sound_dtype(desc: &TensorDesc) -> Option<DType> {
    let sizes = desc.dims().iter().copied().chain([desc.start_offset, desc.buffer_bytes]);
    let strides = desc.dim_strides().iter().map(|stride| stride.unsigned_abs());
    desc.dtype().filter(|_| sizes.chain(strides).all(|number| number < JSON_LIMIT))
}
