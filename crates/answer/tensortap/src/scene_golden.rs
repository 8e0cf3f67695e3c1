//! Compares the outputs of a dumped run with the golden of its scene.

use serde_json::Value;
use tensortap_abi::Role;
use tensortap_analysis::diff::DiffOptions;
use tensortap_analysis::outputs::{ExpectedOutput, OutputDiff, diff_outputs};
use tensortap_format::{Dump, RunInfo};
use tensortap_scene::{HostArgs, HostTensor, Params, Registry, Scene};

use crate::run::find_params;
use crate::{Error, memory};

/// Compares the outputs of a dumped run with the golden of its scene, which is computed from the parameters
/// in the dump. The outputs are assembled from what the tasks wrote.
///
/// ```
/// use tensortap::analysis::diff::DiffOptions;
/// use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("vector_example");
/// config.device_mode = DeviceMode::Thread;
/// config.dump = Some(DumpConfig::new(DumpLevel::Full));
/// config.out = Some(folder.path().join("dump"));
/// tensortap::run(&config)?;
///
/// let dump = tensortap::format::Dump::open(&folder.path().join("dump"))?;
/// let diff = tensortap::diff_scene_golden(&dump, &tensortap::builtin(), &DiffOptions::default())?;
/// assert!(diff.passes() && diff.compared() == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the scene or its parameters are unknown, if it has no golden, or if the dump cannot be read or does
/// not contain the addresses of the outputs.
pub fn diff_scene_golden(
    dump: &Dump,
    registry: &Registry,
    options: &DiffOptions<'_>,
) -> Result<OutputDiff, Error> {
    let refuse = |reason: String| Error::SceneGolden { dump: dump.dir().to_path_buf(), reason };
    let info = dump.info();
    let scene = registry.find(&info.scene).ok_or_else(|| {
        let whose = match info.scene.as_str() {
            "" => "it names no scene".into(),
            scene => format!("its scene `{scene}` is unknown"),
        };
        refuse(format!("{whose}; compare with a golden dump or files"))
    })?;
    let params = params_of(scene, info)?;
    memory::check(scene, &params, None)?;
    let before = scene.try_host_args(&params)?;
    let golden = scene.try_golden(&params, &before).map_err(refuse)?.ok_or_else(|| {
        refuse(format!("scene `{}` has no golden; compare with a golden dump", scene.name()))
    })?;
    let expected: Vec<_> = golden.iter().map(|g| expected(scene, &params, g, &before)).collect();
    Ok(diff_outputs(dump, &expected, options)?)
}

/// The parameters of a run, checked like a user's.
fn params_of(scene: &'static dyn Scene, info: &RunInfo) -> Result<Params, Error> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let given: Vec<_> = info.params.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    find_params(scene, &given)
}

fn expected<'a>(
    scene: &dyn Scene,
    params: &Params,
    golden: &'a HostTensor,
    before: &'a HostArgs,
) -> ExpectedOutput<'a> {
    let is_filled =
        scene.args(params).iter().any(|spec| spec.name == golden.name && spec.role == Role::InOut);
    let initial = before.0.iter().find(|tensor| tensor.name == golden.name).filter(|_| is_filled);
    ExpectedOutput {
        name: &golden.name,
        dtype: golden.dtype,
        shape: &golden.shape,
        golden: &golden.bytes,
        initial: initial.map(|tensor| tensor.bytes.as_slice()),
        tolerance: scene.tolerance(&golden.name),
    }
}
