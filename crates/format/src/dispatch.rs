//! Dispatches and the orchestration's arguments, typed.

use tensortap_abi::{
    BlockContext, CoreType, DType, DispatchParts, OrchestrationArgRecord, Role, SubtaskContext, TensorDesc,
};

use crate::{IndexRecord, PayloadState, RunInfo, ScalarValue, TaskKey, record::JSON_LIMIT};

/// One (task, slot, block) that was handed to a core, and what its kernel received.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Step of its task, 0 where the dump knows none.
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
    /// Device time at which it was handed over; 0 where the dump does not say.
    pub handed_ns: u64,
    /// Whether the arguments are there: [`PayloadState::Stored`], or dropped, or overwritten before the host read them.
    pub payload: PayloadState,
    /// The arguments in the order the kernel sees them; none when they were lost.
    pub args: Vec<DispatchArg>,
    /// The context pointers; none when the arguments were lost.
    pub context: Option<DispatchContext>,
}

/// One argument of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DispatchArg {
    /// A tensor.
    Tensor {
        /// Slot of `args[]`.
        arg_index: u16,
        /// What the slot holds: the address of the descriptor.
        desc_addr: u64,
        /// The descriptor that lay there.
        desc: TensorDesc,
    },
    /// A scalar.
    Scalar {
        /// Slot of `args[]`.
        arg_index: u16,
        /// What the slot holds.
        bits: u64,
        /// What the bits mean; `None` when its tag was damaged.
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

/// What slots 48 and 49 of `args[]` hold, and what lies there.
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

/// The name of a dispatch: the same for the same (task, slot, block) of every run.
///
/// From the highest bit down: block (24 bits), subtask slot (4), task id (36: ring and local number). So it is unique
/// for task ids below 2^36 and blocks below 2^24, which no runtime exceeds in practice.
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
    /// `None` when the record is no dispatch.
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

    /// Its name; see [`dispatch_id`].
    #[must_use]
    pub fn id(&self) -> u64 {
        dispatch_id(self.task_id, self.subtask_id, self.block_idx)
    }

    /// What names its task.
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

/// One of the orchestration's own arguments, where it lay.
#[derive(Clone, Debug, PartialEq)]
pub struct OrchestrationArg {
    /// Its place among them.
    pub arg_index: u16,
    /// Its name in the scene, when the dump says.
    pub name: Option<String>,
    /// Direction.
    pub role: Role,
    /// Address, size and view.
    pub desc: TensorDesc,
}

impl OrchestrationArg {
    /// `None` when the record is something else.
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

/// One of the orchestration's own scalar arguments; they stand behind its tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct OrchestrationScalar {
    /// Its place among all of them.
    pub arg_index: u16,
    /// Its name in the scene.
    pub name: String,
    /// What the bits mean.
    pub dtype: DType,
    /// Its raw bits.
    pub bits: u64,
}

impl OrchestrationScalar {
    /// Those that a run declared. What makes no sense is left out.
    pub(crate) fn of_run(info: &RunInfo) -> impl Iterator<Item = OrchestrationScalar> + '_ {
        (0_u16..).zip(&info.args).filter(|(_, arg)| arg["kind"] == "scalar").filter_map(|(arg_index, arg)| {
            let (name, dtype) = (arg["name"].as_str()?.to_owned(), arg["dtype"].as_str()?);
            let dtype = DType::ALL.into_iter().find(|known| known.name() == dtype)?;
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

/// The element type of a descriptor that makes sense: known, with numbers that JSON can carry.
pub(crate) fn sound_dtype(desc: &TensorDesc) -> Option<DType> {
    let sizes = desc.dims().iter().copied().chain([desc.start_offset, desc.buffer_bytes]);
    let strides = desc.dim_strides().iter().map(|stride| stride.unsigned_abs());
    desc.dtype().filter(|_| sizes.chain(strides).all(|number| number < JSON_LIMIT))
}
