//! Checks whether a task computed the right result from inputs read at the wrong position.

use tensortap_abi::Role;
use tensortap_format::{Dump, FormatError, Task};
use tensortap_scene::{RefTask, Scene};
use tensortap_values::{element_bits, put_element_bits};

use super::ComparedValues;
use crate::blame::ComparedArg;
use crate::reference::{ExpectedTensor, References, apply};

/// The shifts that are tried, in elements.
const STEPS: [i64; 4] = [1, -1, 2, -2];

/// The shift of all inputs for which the references compute the captured output. Beyond the ends of a tensor
/// its first or last element is repeated.
pub fn shifted(
    dump: &Dump,
    task: Task<'_>,
    compared: &ComparedArg,
    values: &ComparedValues,
    scene: &dyn Scene,
) -> Result<Option<i64>, FormatError> {
    let Ok((kernels, given)) = References::of(scene).prepared(dump, task)? else { return Ok(None) };
    let roles: Vec<Role> = task.arguments().filter(|arg| !arg.is_scalar()).map(|arg| arg.role).collect();
    let makes = |by: i64| {
        let expected = apply(&kernels, moved(&given, &roles, by), &roles).ok()?;
        let expected =
            expected.into_iter().find(|one: &ExpectedTensor| one.arg_index == compared.arg_index)?;
        let side = expected.side();
        let expected = super::elements(&side, values.dump.len()).ok()??;
        let agree = values.dump.iter().zip(&expected).all(|(&dump, &expected)| values.agree(dump, expected));
        agree.then_some(by)
    };
    Ok(STEPS.into_iter().find_map(makes))
}

/// A copy of the arguments with all inputs shifted by this many elements.
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
