use tensortap_abi::{DType, MAX_SCALARS, MAX_TENSORS, NO_KERNEL, Role, SLOTS_PER_TASK, TaskId};

use crate::{BufferTable, Element, GraphError, KernelDef, Tensor};

/// A submitted task, as orchestrations refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskHandle {
    /// Its identity.
    pub id: TaskId,
    /// Its slot in the runtime's task storage.
    pub slot: u32,
}

/// A scalar argument: raw bits and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarArg {
    /// Raw bits, zero-extended.
    pub bits: u64,
    /// What they mean.
    pub dtype: DType,
}

impl ScalarArg {
    /// A typed scalar.
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

/// A tensor argument and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorUse {
    /// The view.
    pub tensor: Tensor,
    /// How it was submitted.
    pub role: Role,
}

/// Which arguments the orchestration marks for the dump: `dump(..)` for the whole task, `dump([0, 2])` for some.
pub trait Marks {
    /// A bit per `arg_index`.
    fn bits(self) -> u64;
}

impl Marks for std::ops::RangeFull {
    fn bits(self) -> u64 {
        u64::MAX
    }
}

impl Marks for &[usize] {
    fn bits(self) -> u64 {
        self.iter().filter(|&&i| i < MAX_TENSORS + MAX_SCALARS).fold(0, |bits, &i| bits | 1 << i)
    }
}

impl<const N: usize> Marks for [usize; N] {
    fn bits(self) -> u64 {
        self.as_slice().bits()
    }
}

/// Everything one submission says about a task.
#[derive(Clone, Debug, Default)]
pub struct TaskSpec {
    /// Kernel of each subtask slot.
    pub kernels: [Option<&'static KernelDef>; SLOTS_PER_TASK],
    /// What people call the task; empty when it has no name.
    pub task_name: String,
    /// Tensor arguments, in slot order.
    pub tensors: Vec<TensorUse>,
    /// Scalar arguments, behind the tensors.
    pub scalars: Vec<ScalarArg>,
    /// Times the task is dispatched.
    pub block_num: u32,
    /// Marked arguments, a bit per `arg_index`.
    pub dump_marks: u64,
    /// Explicit predecessors; runtimes that derive dependencies have no use for them.
    pub after: Vec<TaskHandle>,
    /// Whether metadata for the dump is registered with the task.
    pub with_tensor_info: bool,
}

impl TaskSpec {
    /// Empties the task for the next submission and keeps its memory.
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

    /// Name of the first kernel, for messages.
    pub fn kernel_name(&self) -> &'static str {
        self.kernels.iter().flatten().next().map_or("(none)", |k| k.name)
    }

    /// `func_id` of each subtask slot.
    pub fn func_ids(&self) -> [u32; SLOTS_PER_TASK] {
        self.kernels.map(|k| k.map_or(NO_KERNEL, |k| k.func_id))
    }

    /// Active subtask slots, a bit each.
    pub fn active(&self) -> u8 {
        self.kernels.iter().enumerate().fold(0, |bits, (i, k)| bits | u8::from(k.is_some()) << i)
    }

    /// Times any core is given this task: active slots times blocks.
    pub fn dispatches(&self) -> u32 {
        self.active().count_ones() * self.block_num
    }

    /// Everything about the submission that can be checked without a runtime.
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
