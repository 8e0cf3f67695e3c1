//! Computes a golden with a command.

use std::path::Path;
use std::process::Command;

use tensortap_interchange::{ArrayHead, ArrayWriter};
use tensortap_scene::{HostArgs, HostTensor, Params};

use crate::arrays;

/// The folder with the inputs as `NAME.npy`.
const INPUTS_VARIABLE: &str = "TENSORTAP_INPUTS";
/// The folder where the command writes `NAME.npy`.
const OUTPUTS_VARIABLE: &str = "TENSORTAP_OUTPUTS";
/// The prefix of variables with parameters.
const PARAM_PREFIX: &str = "TENSORTAP_PARAM_";

/// Runs the command in the scene's folder and reads the outputs that it wrote.
pub fn by_command(
    command: &[String],
    folder: &Path,
    params: &Params,
    inputs: &HostArgs,
    outputs: Vec<HostTensor>,
) -> Result<Vec<HostTensor>, String> {
    let shown = command.join(" ");
    let failed = |why: &dyn std::fmt::Display| format!("the golden command `{shown}` failed: {why}");
    let scratch = tempfile::tempdir().map_err(|error| failed(&error))?;
    let (input_dir, output_dir) = (scratch.path().join("inputs"), scratch.path().join("outputs"));
    for dir in [&input_dir, &output_dir] {
        std::fs::create_dir(dir).map_err(|error| failed(&error))?;
    }
    let mut writer = ArrayWriter::new();
    for HostTensor { name, dtype, shape, bytes } in &inputs.0 {
        let head = ArrayHead { name, dtype: *dtype, shape };
        let path = input_dir.join(format!("{name}.npy"));
        writer.npy(&path, &head, bytes).map_err(|error| failed(&error))?;
    }
    let named = params.iter().map(|(name, value)| (format!("{PARAM_PREFIX}{}", name.to_uppercase()), value));
    let output = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(folder)
        .env(INPUTS_VARIABLE, &input_dir)
        .env(OUTPUTS_VARIABLE, &output_dir)
        .envs(named)
        .output()
        .map_err(|error| failed(&format!("it could not be started: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(&format!("{}: {}", output.status, said.trim())));
    }
    let read = |tensor: HostTensor| {
        let path = output_dir.join(format!("{}.npy", tensor.name));
        if !path.is_file() {
            return Err(failed(&format!("it did not write {}.npy to ${OUTPUTS_VARIABLE}", tensor.name)));
        }
        let bytes = arrays::read(&path, tensor.dtype, &tensor.shape).map_err(|why| failed(&why))?;
        Ok(HostTensor { bytes, ..tensor })
    };
    outputs.into_iter().map(read).collect()
}
