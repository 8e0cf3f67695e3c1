//! Finds the wrong kernel of a mix task by running the reference of each kernel separately.

use std::collections::HashMap;

use tensortap_abi::{DumpStage, Role};
use tensortap_format::{Argument, Dump, FormatError};
use tensortap_judge::{Depth, Verdict};
use tensortap_scene::Scene;

use super::{Blame, BlameOptions, RuleTable};
use crate::compare::{compare, unless_gone};
use crate::labels::Label;
use crate::reference::{ExpectedTensor, References, captured_side, ref_tensor};

/// The wrong kernels of every `wrong_here` mix task, by position, if references identify them.
pub(super) fn wrong_slots(
    dump: &Dump,
    blame: &Blame,
    scene: &dyn Scene,
    options: &BlameOptions<'_>,
) -> Result<HashMap<usize, Vec<String>>, FormatError> {
    let references = References::of(scene);
    let mut rules = options.rules.clone();
    rules.kernels.extend(references.tolerances());
    let rules = RuleTable::of(&rules, &blame.graph);
    let mut found = HashMap::new();
    for task in blame.graph.tasks().iter() {
        let is_mixed = task.kernel_names().len() > 1;
        if is_mixed && blame.findings[task.place()].label == Label::WrongHere {
            let wrong = wrong_kernels(dump, blame, task.place(), &references, &rules)?;
            found.extend(wrong.map(|kernels| (task.place(), kernels)));
        }
    }
    Ok(found)
}

/// Runs the reference of each kernel in slot order. Each gets the content captured before the task plus the
/// outputs of the slots before it. A kernel is wrong if an output that only it writes differs from the
/// captured one. `None` if the kernels are indistinguishable or none is wrong.
fn wrong_kernels(
    dump: &Dump,
    blame: &Blame,
    place: usize,
    references: &References,
    rules: &RuleTable<'_>,
) -> Result<Option<Vec<String>>, FormatError> {
    let task = blame.graph.task(place);
    let Ok((kernels, mut given)) = references.prepared(dump, task)? else { return Ok(None) };
    let tensors: Vec<Argument<'_>> = task.arguments().filter(|a| !a.is_scalar()).collect();
    let mut writers = vec![0_u32; tensors.len()];
    let mut made = given.clone();
    for kernel in &kernels {
        let Some(after) = References::run_one(kernel, &made) else { return Ok(None) };
        for (count, (before, after)) in writers.iter_mut().zip(made.tensors.iter().zip(&after.tensors)) {
            *count += u32::from(!same_values(&before.values, &after.values));
        }
        made = after;
    }
    let mut wrong = Vec::new();
    for kernel in &kernels {
        let Some(after) = References::run_one(kernel, &given) else { return Ok(None) };
        for (at, arg) in tensors.iter().enumerate().filter(|(_, arg)| arg.role.writes()) {
            if same_values(&given.tensors[at].values, &after.tensors[at].values) {
                continue;
            }
            let Some(captured) = arg.after.filter(|c| writers[at] == 1 && c.is_stored()) else {
                return Ok(None);
            };
            let expected = ExpectedTensor::of(arg.arg_index, &after.tensors[at]);
            let rule = rules.rule(place, *arg, DumpStage::AfterCompletion);
            let side = captured_side(dump, *arg, captured)?;
            let outcome = compare(&side, &expected.side(), &rule, true, Depth::Quick)?;
            if outcome.verdict == Verdict::Outside && !wrong.contains(&kernel.name.to_string()) {
                wrong.push(kernel.name.to_string());
            }
            // The next slot's kernel reads the captured outputs of this one.
            let Some(bytes) = unless_gone(dump.payload(&dump.record(captured.record)?))? else {
                return Ok(None);
            };
            let Some(tensor) = ref_tensor(arg.dtype, arg.shape(), Role::InOut, &bytes) else {
                return Ok(None);
            };
            given.tensors[at] = tensor;
        }
    }
    Ok((!wrong.is_empty()).then_some(wrong))
}

fn same_values(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
}
