//! Computes expected outputs with the f64 references of the kernels, and checks captured outputs against
//! them.

use serde::{Deserialize, Serialize};
use tensortap_abi::DumpStage;
use tensortap_analysis::reference::{ExpectedTensor, ReferenceError, apply, ref_tensor};
use tensortap_format::{Argument, KernelTolerance, Task};
use tensortap_judge::Verdict;
use tensortap_scene::{KernelDef, RefTask, ScalarArg, Scene, Tolerance};
use tensortap_values::content_hash;

use crate::capture::{Blob, Capture, Content};
use crate::check::{OutputCheck, describe};
use crate::item::Kernels;
use crate::{Check, ReplayError};

/// Source of a case's expected outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedSource {
    /// The captured outputs, compared bit by bit on the same platform.
    #[default]
    Captured,
    /// The outputs of the references, rounded to the element type and compared by the kernel's rule.
    Reference,
}

/// Size limit of an output without captured content of that size.
const MAX_UNSEEN_BYTES: u64 = 256 << 20;

/// Why a difference from a reference is inconclusive.
pub const NON_FINITE: &str = "an input contains NaN or infinity, where kernel and reference may differ";

/// Runs the references of a task's kernels, slot by slot. `content` fills a buffer with a tensor's content
/// before the task; for an output only the size matters. The error says why the references cannot run.
pub fn expected(
    kernels: &Kernels,
    capture: &dyn Capture,
    task: Task<'_>,
    scalars: Vec<ScalarArg>,
    mut content: impl FnMut(Argument<'_>, &mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<ExpectedTensor>, ReferenceError> {
    let (mut tensors, mut roles) = (Vec::new(), Vec::new());
    let mut packed = Vec::new();
    for (index, tensor) in capture.tensors(task).enumerate() {
        let tensor = tensor.map_err(|why| format!("argument {index}: {why}"))?;
        packed.clear();
        content(tensor, &mut packed)?;
        let given = ref_tensor(tensor.dtype, tensor.shape(), tensor.role, &packed);
        tensors
            .push(given.ok_or_else(|| format!("the content of argument {index} does not match its shape"))?);
        roles.push(tensor.role);
    }
    let kernels: Vec<&'static KernelDef> = kernels.slots.iter().copied().flatten().collect();
    apply(&kernels, RefTask { tensors, scalars, block_num: task.block_num }, &roles)
}

/// Runs the references on the captured inputs. The error says why they cannot run.
pub fn references(
    capture: &dyn Capture,
    task: Task<'_>,
    scene: &'static dyn Scene,
) -> Result<Vec<ExpectedTensor>, ReferenceError> {
    let kernels = Kernels::find(capture.run(), task, scene)?;
    let mut scalars = Vec::new();
    for scalar in capture.scalars(task) {
        let bits = scalar.bits.map_err(|why| format!("argument {}: {why}", scalar.arg_index))?;
        scalars.push(ScalarArg { bits, dtype: scalar.dtype });
    }
    let all =
        expected(&kernels, capture, task, scalars, |tensor, content| given(capture, task, tensor, content))?;
    if all.is_empty() {
        return Err("it has no outputs".to_owned().into());
    }
    if all.iter().any(|e| e.from_non_finite) {
        return Err(NON_FINITE.to_owned().into());
    }
    Ok(all)
}

/// Content of a tensor before the task; zeros for an output.
fn given(
    capture: &dyn Capture,
    task: Task<'_>,
    tensor: Argument<'_>,
    content: &mut Vec<u8>,
) -> Result<(), String> {
    let named = |why: &dyn std::fmt::Display| format!("argument {}: {why}", tensor.arg_index);
    if tensor.role.reads() {
        return match capture.content(task, tensor, DumpStage::BeforeDispatch) {
            Content::Whole(blob) => whole(capture, &blob, content).map_err(|why| named(&why)),
            Content::Missing(why) => Err(named(&why)),
            Content::Part(_) => Err(named(&"only a part of it was stored")),
            Content::Noise(_) => Err(named(&"its content was redacted")),
        };
    }
    let bytes = tensor.content_bytes().unwrap_or(u64::MAX);
    let after = capture.content(task, tensor, DumpStage::AfterCompletion);
    let seen = matches!(after, Content::Whole(blob) if blob.bytes == bytes);
    if !seen && bytes > MAX_UNSEEN_BYTES {
        return Err(named(&"its content was not captured and is too large to fill with zeros"));
    }
    content.resize(usize::try_from(bytes).map_err(|error| named(&error))?, 0);
    Ok(())
}

fn whole(capture: &dyn Capture, blob: &Blob, content: &mut Vec<u8>) -> Result<(), String> {
    capture.read(blob, content).map_err(|error| error.to_string())?;
    if blob.hash.is_some_and(|hash| content_hash(content) != hash) {
        return Err("its payload is corrupt (hash mismatch)".into());
    }
    Ok(())
}

/// Describes the first captured output that violates the rule of its reference.
pub fn outside(
    capture: &dyn Capture,
    task: Task<'_>,
    references: &[ExpectedTensor],
    tolerance: Option<KernelTolerance>,
) -> Result<Option<String>, ReplayError> {
    let mut captured = Vec::new();
    for expected in references {
        let Some(Ok(tensor)) = capture.tensor(task, expected.arg_index) else { continue };
        let after = capture.content(task, tensor, DumpStage::AfterCompletion);
        let Content::Whole(blob) = after else { continue };
        capture.read(&blob, &mut captured)?;
        let comparison = OutputCheck {
            arg_index: tensor.arg_index,
            dtype: tensor.dtype,
            shape: tensor.shape(),
            elements: tensor.shape().iter().product(),
            tolerance: tolerance.map(|KernelTolerance { rtol, atol }| Tolerance { rtol, atol }),
            before: None,
        };
        let report = comparison.against_reference(&captured, expected);
        if report.verdict() != Verdict::Within {
            return Ok(Some(describe(&report, Check::Reference)));
        }
    }
    Ok(None)
}
