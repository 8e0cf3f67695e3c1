//! Whether a task did the right thing with inputs that it read in the wrong place.

use tensortap_abi::Role;
use tensortap_format::{Dump, FormatError, Task};
use tensortap_scene::{RefTask, Scene};
use tensortap_values::{element_bits, put_element_bits};

use super::Values;
use crate::blame::ComparedArg;
use crate::reference::{Expected, References, apply};

/// How far off inputs may have been read.
const STEPS: [i64; 4] = [1, -1, 2, -2];

/// By how many elements all inputs were read off, where the references make of such inputs what was captured. Beyond the ends of a
/// tensor its last, or first, element stands.
pub fn shifted(
    dump: &Dump,
    task: Task<'_>,
    compared: &ComparedArg,
    values: &Values,
    scene: &dyn Scene,
) -> Result<Option<i64>, FormatError> {
    let Ok((kernels, given)) = References::of(scene).prepared(dump, task)? else { return Ok(None) };
    let roles: Vec<Role> = task.arguments().filter(|arg| !arg.is_scalar()).map(|arg| arg.role).collect();
    let makes = |by: i64| {
        let expected = apply(&kernels, moved(&given, &roles, by), &roles).ok()?;
        let expected = expected.into_iter().find(|one: &Expected| one.arg_index == compared.arg_index)?;
        let side = expected.side();
        let expected = super::elements(&side, values.dump.len()).ok()??;
        let agree = values.dump.iter().zip(&expected).all(|(&dump, &expected)| values.agree(dump, expected));
        agree.then_some(by)
    };
    Ok(STEPS.into_iter().find_map(makes))
}

/// The same arguments, those that are read moved by so many elements.
fn moved(given: &RefTask, roles: &[Role], by: i64) -> RefTask {
    let mut task = given.clone();
    for (tensor, _) in task.tensors.iter_mut().zip(roles).filter(|(_, role)| role.reads()) {
        let last = tensor.values.len().saturating_sub(1);
        let from = |at: usize| at.saturating_add_signed(isize::try_from(by).unwrap_or(0)).min(last);
        let old = tensor.clone();
        for at in 0..old.values.len() {
            tensor.values[at] = old.values[from(at)];
            if let Some(bits) = element_bits(old.dtype, &old.bytes, from(at)) {
                put_element_bits(old.dtype, &mut tensor.bytes, at, bits);
            }
        }
    }
    task
}
