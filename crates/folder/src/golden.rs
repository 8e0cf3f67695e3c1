//! A golden that a command computes.

use std::path::Path;
use std::process::Command;

use tensortap_interchange::{ArrayHead, ArrayWriter};
use tensortap_scene::{HostArgs, HostTensor, Params};

use crate::arrays;

/// Folder with the inputs as `NAME.npy`, for the command.
const INPUTS_VARIABLE: &str = "TENSORTAP_INPUTS";
/// Folder that the command writes `NAME.npy` to.
const OUTPUTS_VARIABLE: &str = "TENSORTAP_OUTPUTS";
/// What variables that hold parameters begin with.
const PARAM_PREFIX: &str = "TENSORTAP_PARAM_";

/// Runs a command in the scene's folder and reads the outputs it has written.
pub fn by_command(
    command: &[String],
    folder: &Path,
    params: &Params,
    inputs: &HostArgs,
    outputs: Vec<HostTensor>,
) -> Result<Vec<HostTensor>, String> {
    let shown = command.join(" ");
    let odd = |why: &dyn std::fmt::Display| format!("the golden's command `{shown}`: {why}");
    let scratch = tempfile::tempdir().map_err(|error| odd(&error))?;
    let (given, made) = (scratch.path().join("inputs"), scratch.path().join("outputs"));
    for dir in [&given, &made] {
        std::fs::create_dir(dir).map_err(|error| odd(&error))?;
    }
    let mut writer = ArrayWriter::new();
    for HostTensor { name, dtype, shape, bytes } in &inputs.0 {
        let head = ArrayHead { name, dtype: *dtype, shape };
        let path = given.join(format!("{name}.npy"));
        writer.npy(&path, &head, bytes).map_err(|error| odd(&error))?;
    }
    let named = params.iter().map(|(name, value)| (format!("{PARAM_PREFIX}{}", name.to_uppercase()), value));
    let output = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(folder)
        .env(INPUTS_VARIABLE, &given)
        .env(OUTPUTS_VARIABLE, &made)
        .envs(named)
        .output()
        .map_err(|error| odd(&format!("it could not be started: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(odd(&format!("{}: {}", output.status, said.trim())));
    }
    let read = |tensor: HostTensor| {
        let path = made.join(format!("{}.npy", tensor.name));
        if !path.is_file() {
            return Err(odd(&format!("it wrote no {}.npy to ${OUTPUTS_VARIABLE}", tensor.name)));
        }
        let bytes = arrays::read(&path, tensor.dtype, &tensor.shape).map_err(|why| odd(&why))?;
        Ok(HostTensor { bytes, ..tensor })
    };
    outputs.into_iter().map(read).collect()
}
