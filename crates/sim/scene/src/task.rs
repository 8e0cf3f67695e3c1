use tensortap_abi::{DType, MAX_SCALARS, MAX_TENSORS, NO_KERNEL, Role, SLOTS_PER_TASK, TaskId};

use crate::{BufferTable, Element, GraphError, KernelDef, Tensor};

/// A submitted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskHandle {
    /// Its id.
    pub id: TaskId,
    /// Its slot in the runtime's task storage.
    pub slot: u32,
}

/// A scalar argument: raw bits with their dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarArg {
    /// Raw bits, zero-extended.
    pub bits: u64,
    /// Dtype of the bits.
    pub dtype: DType,
}

impl ScalarArg {
    /// A scalar with the dtype of `T`.
    pub fn of<T: Element>(value: T) -> ScalarArg {
        ScalarArg { bits: value.to_bits(), dtype: T::DTYPE }
    }
}

impl<T: Element> From<T> for ScalarArg {
    fn from(value: T) -> ScalarArg {
        ScalarArg::of(value)
    }
}

impl From<bool> for ScalarArg {
    fn from(value: bool) -> ScalarArg {
        ScalarArg { bits: value.into(), dtype: DType::Bool }
    }
}

/// A tensor argument with its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorUse {
    /// The view.
    pub tensor: Tensor,
    /// The role at submission.
    pub role: Role,
}

/// The arguments that the orchestration marks for the dump: `..` for all, `[0, 2]` for some.
pub trait DumpMarks {
    /// A mask with one bit per `arg_index`.
    fn bits(self) -> u64;
}

impl DumpMarks for std::ops::RangeFull {
    fn bits(self) -> u64 {
        u64::MAX
    }
}

impl DumpMarks for &[usize] {
    fn bits(self) -> u64 {
        self.iter().filter(|&&i| i < MAX_TENSORS + MAX_SCALARS).fold(0, |bits, &i| bits | 1 << i)
    }
}

impl<const N: usize> DumpMarks for [usize; N] {
    fn bits(self) -> u64 {
        self.as_slice().bits()
    }
}

/// A task submission.
#[derive(Clone, Debug, Default)]
pub struct TaskSpec {
    /// The kernel of each subtask slot.
    pub kernels: [Option<&'static KernelDef>; SLOTS_PER_TASK],
    /// The name of the task, or empty.
    pub task_name: String,
    /// Tensor arguments, in slot order.
    pub tensors: Vec<TensorUse>,
    /// Scalar arguments. They follow the tensors.
    pub scalars: Vec<ScalarArg>,
    /// Number of blocks.
    pub block_num: u32,
    /// A mask of the marked arguments.
    pub dump_marks: u64,
    /// Explicit predecessors. Runtimes that derive dependencies ignore them.
    pub after: Vec<TaskHandle>,
    /// Whether the metadata for the dump is registered with the task.
    pub with_tensor_info: bool,
}

impl TaskSpec {
    /// Clears the task for the next submission and keeps its allocations.
    pub(crate) fn reset(&mut self) {
        let TaskSpec { kernels, task_name, tensors, scalars, block_num, dump_marks, after, with_tensor_info } =
            self;
        *kernels = [None; SLOTS_PER_TASK];
        task_name.clear();
        tensors.clear();
        scalars.clear();
        *block_num = 1;
        *dump_marks = 0;
        after.clear();
        *with_tensor_info = true;
    }

    /// The name of the first kernel, for messages.
    pub fn kernel_name(&self) -> &'static str {
        self.kernels.iter().flatten().next().map_or("(none)", |k| k.name)
    }

    /// The `func_id` of each subtask slot.
    pub fn func_ids(&self) -> [u32; SLOTS_PER_TASK] {
        self.kernels.map(|k| k.map_or(NO_KERNEL, |k| k.func_id))
    }

    /// A mask of the active subtask slots.
    pub fn active(&self) -> u8 {
        self.kernels.iter().enumerate().fold(0, |bits, (i, k)| bits | u8::from(k.is_some()) << i)
    }

    /// Number of dispatches: active slots times blocks.
    pub fn dispatches(&self) -> u32 {
        self.active().count_ones() * self.block_num
    }

    /// Checks everything that does not depend on the runtime.
    pub(crate) fn check(&self, buffers: &BufferTable) -> Result<(), GraphError> {
        let kernel = self.kernel_name();
        if self.tensors.len() > MAX_TENSORS {
            return Err(GraphError::TooManyTensors { kernel, count: self.tensors.len(), max: MAX_TENSORS });
        }
        if self.scalars.len() > MAX_SCALARS {
            return Err(GraphError::TooManyScalars { kernel, count: self.scalars.len(), max: MAX_SCALARS });
        }
        if self.block_num == 0 {
            return Err(GraphError::NoBlocks { kernel });
        }
        for (arg_index, TensorUse { tensor, role }) in self.tensors.iter().enumerate() {
            let buffer = buffers.get(tensor.buffer).ok_or(GraphError::ScopeEnded { kernel, arg_index })?;
            if buffer.location.is_none() && !role.writes() {
                return Err(GraphError::ReadBeforeWrite { kernel, arg_index });
            }
            tensor.layout.fits(buffer.bytes)?;
        }
        let args = self.tensors.len() + self.scalars.len();
        let role = |arg_index: usize| self.tensors.get(arg_index).map(|given| given.role);
        self.kernels.iter().flatten().try_for_each(|kernel| kernel.check_args(role, args))
    }
}
