use tensortap_abi::DType;

use crate::{Element, ScalarArg};

/// What a kernel should compute, in f64: reads and replaces the values of its output tensors. It stands for all
/// blocks of a task at once; the kernels of a mix task are applied in slot order.
///
/// A function over a [`RefTask`] is one; a reference that runs elsewhere says why when it cannot.
pub trait Reference: Sync {
    /// Replaces the values of outputs by what they should be.
    ///
    /// # Errors
    /// Why it could not be run.
    fn run(&self, task: &mut RefTask) -> Result<(), String>;
}

impl<F: Fn(&mut RefTask) + Sync> Reference for F {
    fn run(&self, task: &mut RefTask) -> Result<(), String> {
        self(task);
        Ok(())
    }
}

/// A task as its reference sees it: contiguous tensors of f64.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTask {
    /// Tensor arguments, with the content from before the task.
    pub tensors: Vec<RefTensor>,
    /// Scalar arguments.
    pub scalars: Vec<ScalarArg>,
    /// Blocks of the task.
    pub block_num: u32,
}

/// A tensor of f64 that stands for one of another dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTensor {
    /// Dtype in the payload.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub values: Vec<f64>,
    /// The same as they lie in memory, packed.
    pub bytes: Vec<u8>,
}

impl RefTask {
    /// The scalar at an `arg_index`, which counts tensors first.
    ///
    /// # Panics
    /// When there is none.
    pub fn scalar<T: Element>(&self, arg_index: usize) -> T {
        T::from_bits(self.scalars[arg_index - self.tensors.len()].bits)
    }
}
