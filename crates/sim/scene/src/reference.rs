use tensortap_abi::DType;

use crate::{Element, ScalarArg};

/// Computes the correct outputs of a kernel in f64. It replaces the values of the output tensors for all
/// blocks of a task at once. For a mix task, the references of its kernels run in slot order.
///
/// Any function over a [`RefTask`] is a reference. A reference that runs in another process can fail.
pub trait Reference: Sync {
    /// Replaces the values of the outputs.
    ///
    /// # Errors
    ///
    /// The reason why the reference could not run.
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
    /// Tensor arguments, with their content from before the task.
    pub tensors: Vec<RefTensor>,
    /// Scalar arguments.
    pub scalars: Vec<ScalarArg>,
    /// Blocks of the task.
    pub block_num: u32,
}

/// A tensor as f64 values.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTensor {
    /// The original dtype.
    pub dtype: DType,
    /// The sizes of all dimensions.
    pub shape: Vec<usize>,
    /// Elements in row-major order. A complex number is two values: real part, imaginary part.
    pub values: Vec<f64>,
    /// The original elements, packed.
    pub bytes: Vec<u8>,
}

impl RefTask {
    /// The scalar at `arg_index`, which counts tensors first.
    ///
    /// # Panics
    ///
    /// If there is no such scalar.
    pub fn scalar<T: Element>(&self, arg_index: usize) -> T {
        T::from_bits(self.scalars[arg_index - self.tensors.len()].bits)
    }

    /// Computes each element of the tensor at `arg_index` from its position.
    pub fn compute(&mut self, arg_index: usize, element: impl Fn(&RefTask, usize) -> f64) {
        let count = self.tensors[arg_index].values.len();
        self.tensors[arg_index].values = (0..count).map(|at| element(self, at)).collect();
    }
}
