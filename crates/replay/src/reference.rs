//! What a task should write, by the f64 references of its kernels.

use tensortap_analysis::reference::{Expected, apply, ref_tensor};
use tensortap_scene::{KernelDef, RefTask, ScalarArg};

use crate::capture::{CapturedTask, CapturedTensor};
use crate::item::Kernels;

/// Why a difference from a reference may say nothing.
pub const NON_FINITE: &str = "an input holds NaN or infinities, on which kernel and reference need not agree";

/// Runs the references of a task's kernels, slot by slot. `content` replaces a buffer by what a tensor held before the
/// task; of an output only its size counts. The error says why references cannot be run.
pub fn expected(
    kernels: &Kernels,
    task: &CapturedTask,
    scalars: Vec<ScalarArg>,
    mut content: impl FnMut(&CapturedTensor, &mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<Expected>, String> {
    let (mut tensors, mut roles) = (Vec::new(), Vec::new());
    let mut packed = Vec::new();
    for (index, tensor) in task.tensors.iter().enumerate() {
        let tensor = tensor.as_ref().map_err(|why| format!("argument {index}: {why}"))?;
        packed.clear();
        content(tensor, &mut packed)?;
        let given = ref_tensor(tensor.dtype, &tensor.shape, tensor.role, &packed);
        tensors
            .push(given.ok_or_else(|| format!("the content of argument {index} is not that of its shape"))?);
        roles.push(tensor.role);
    }
    let kernels: Vec<&KernelDef> = kernels.slots.iter().copied().flatten().collect();
    apply(&kernels, RefTask { tensors, scalars, block_num: task.block_num }, &roles)
}
