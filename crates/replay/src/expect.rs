//! What the outputs of a case should be, and whether the captured ones are.

use tensortap_analysis::reference::Expected;
use tensortap_format::content_hash;
use tensortap_scene::{ScalarArg, Scene, Tolerance};

use crate::capture::{CapturedTask, CapturedTensor, Content, Source};
use crate::check::{OutputCheck, describe};
use crate::item::Kernels;
use crate::reference::{NON_FINITE, expected};
use crate::{Check, ReplayError};

/// What a case expects of its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// What was captured, bit by bit on the same platform.
    #[default]
    Captured,
    /// What the references of the kernels give, rounded to the element type, by the kernel's rule.
    Reference,
}

/// The largest output that memory is taken for without captured content of that size.
const MAX_UNSEEN_BYTES: u64 = 256 << 20;

/// What references make of the captured inputs. The error says why they cannot.
pub fn references(
    source: &dyn Source,
    task: &CapturedTask,
    scene: &'static dyn Scene,
) -> Result<Vec<Expected>, String> {
    let kernels = Kernels::find(source.run(), task, scene)?;
    let mut scalars = Vec::new();
    for scalar in &task.scalars {
        let bits = scalar.bits.clone().map_err(|why| format!("argument {}: {why}", scalar.arg_index))?;
        scalars.push(ScalarArg { bits, dtype: scalar.dtype });
    }
    let all = expected(&kernels, task, scalars, |tensor, content| given(source, tensor, content))?;
    if all.is_empty() {
        return Err("it has no outputs".into());
    }
    if all.iter().any(|e| e.from_non_finite) {
        return Err(NON_FINITE.into());
    }
    Ok(all)
}

/// What a tensor held before the task; of an output, zeros.
fn given(source: &dyn Source, tensor: &CapturedTensor, content: &mut Vec<u8>) -> Result<(), String> {
    let named = |why: &dyn std::fmt::Display| format!("argument {}: {why}", tensor.arg_index);
    if tensor.role.reads() {
        return match &tensor.before {
            Content::Whole(blob) => whole(source, blob, content).map_err(|why| named(&why)),
            Content::Missing(why) => Err(named(why)),
            Content::Part(_) => Err(named(&"only a part of it was stored")),
            Content::Noise(_) => Err(named(&"its content was redacted")),
        };
    }
    let bytes = tensor.content_bytes().unwrap_or(u64::MAX);
    let seen = matches!(&tensor.after, Content::Whole(blob) if blob.bytes == bytes);
    if !seen && bytes > MAX_UNSEEN_BYTES {
        return Err(named(&"its content was not captured and is too large to make up"));
    }
    content.resize(usize::try_from(bytes).map_err(|error| named(&error))?, 0);
    Ok(())
}

fn whole(source: &dyn Source, blob: &crate::capture::Blob, content: &mut Vec<u8>) -> Result<(), String> {
    source.read(blob, content).map_err(|error| error.to_string())?;
    if blob.hash.is_some_and(|hash| content_hash(content) != hash) {
        return Err("its payload is not what was captured, the hash differs".into());
    }
    Ok(())
}

/// The first captured output that is outside the rule of its reference, in words.
pub fn outside(
    source: &dyn Source,
    task: &CapturedTask,
    references: &[Expected],
    tolerance: Option<(f64, f64)>,
) -> Result<Option<String>, ReplayError> {
    let mut captured = Vec::new();
    for expected in references {
        let Some(Ok(tensor)) = task.tensors.get(usize::from(expected.arg_index)) else { continue };
        let Content::Whole(blob) = &tensor.after else { continue };
        source.read(blob, &mut captured)?;
        let comparison = OutputCheck {
            arg_index: tensor.arg_index,
            dtype: tensor.dtype,
            shape: &tensor.shape,
            elements: tensor.shape.iter().product(),
            tolerance: tolerance.map(|(rtol, atol)| Tolerance { rtol, atol }),
            before: None,
        };
        let report = comparison.against_reference(&captured, expected);
        if !report.within_rule() {
            return Ok(Some(describe(&report, Check::Reference)));
        }
    }
    Ok(None)
}
