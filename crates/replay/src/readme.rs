//! The text for people in a case.

use std::fmt::Write;
use std::path::Path;

use crate::case_file::{CaseContent, CaseFile, EXPECTS_REFERENCE, hex64};

/// What the case is, what is in it, how to replay it.
pub fn readme(case: &CaseFile, out: &Path) -> String {
    let name = out.file_name().map_or_else(|| "CASE".into(), |n| n.to_string_lossy().into_owned());
    let kernels: Vec<&str> = case.subtasks.iter().map(|s| s.kernel.name.as_str()).collect();
    let (task, scene, kernels) = (hex64(case.task_id), &case.scene, kernels.join(" + "));
    let from_reference = case.expected == EXPECTS_REFERENCE;
    let outputs = if from_reference { "the outputs it should produce" } else { "the outputs it produced" };
    let mut text = format!(
        "# Task {task} of `{scene}`: {kernels}\n\n\
         One task with the arguments it was given and {outputs}, captured on `{}` with runtime\n\
         `{}`. It needs no other file.\n\n\
         ```sh\ntensortap replay {name}\ntensortap replay {name} --platform a5sim\ntensortap replay {name} --debugger\n```\n\n",
        case.platform, case.runtime
    );
    if from_reference {
        text += "Expected outputs are what the f64 references of its kernels make of the inputs, rounded to the element\n\
                 type. They are compared by the kernel's rule on every platform, not bit by bit.\n\n";
    }
    if case.redacted.is_some() {
        text += "**Redacted.** Tensor contents are seeded noise in the range of what was captured. Shapes, dtypes,\n\
                 scalars, statistics and hashes are those of the capture. Outputs cannot be checked; replay with\n\
                 `--allow-inexact`.\n\n";
    }
    text += "| argument | role | dtype | shape | before | after |\n| --- | --- | --- | --- | --- | --- |\n";
    for tensor in &case.tensors {
        let content = |content: &Option<CaseContent>| match content {
            None => String::new(),
            Some(CaseContent { tensor: Some(name), payload, .. }) => format!("`{name}` ({payload})"),
            Some(CaseContent { payload, .. }) => payload.clone(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:?} | {} | {} |",
            tensor.arg_index,
            tensor.role,
            tensor.dtype,
            tensor.shape,
            content(&tensor.before),
            content(&tensor.after)
        );
    }
    for scalar in &case.scalars {
        let value = scalar.value.as_deref().unwrap_or("not known");
        let _ = writeln!(text, "| {} | scalar | {} | | {value} | |", scalar.arg_index, scalar.dtype);
    }
    text += "\nTensor contents are in safetensors form: contiguous, row-major, little endian. Equal contents are stored once.\n\
             4-bit elements are stored as bytes, two to a byte, the low half first.\n";
    if let Some(tolerance) = case.tolerance {
        let (rtol, atol) = (tolerance.rtol, tolerance.atol);
        let when = if from_reference { "Outputs" } else { "On another platform outputs" };
        let _ = writeln!(text, "{when} may be off by rtol {rtol:e}, atol {atol:e}.");
    }
    text
}
