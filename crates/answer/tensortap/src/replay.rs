//! Replays captured tasks, one by one.

use std::path::PathBuf;
use std::sync::Arc;

use tensortap_format::Dump;
use tensortap_replay::{ExtractConfig, ExtractReport, OnOutput, ReplayConfig, ReplayProgress, ReplayReport};

use crate::Error;
use crate::build_id::of_executable;
use crate::dump_session::kernel_info;
use crate::folder::{FolderOptions, giver, open_folder, opener, remember_library};

/// Replays captured tasks, each separately with its captured arguments, and compares their outputs with the
/// captured ones.
///
/// ```
/// use tensortap::{DeviceMode, DumpConfig, DumpLevel, ReplayConfig, RunConfig};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("vector_example");
/// // A documentation test cannot become a device process; your `main` can.
/// config.device_mode = DeviceMode::Thread;
/// config.dump = Some(DumpConfig::new(DumpLevel::Full));
/// config.out = Some(folder.path().join("dump"));
/// tensortap::run(&config)?;
///
/// let mut config = ReplayConfig::new(folder.path().join("dump"), tensortap::builtin());
/// config.device_mode = DeviceMode::Thread;
/// // This dump is our own. Of one from elsewhere, tasks are replayed in a process that is confined.
/// config.trust = true;
/// config.platform = Some("a5sim".into());
/// let report = tensortap::replay(&config)?;
/// assert!(report.passed());
/// assert_eq!(report.tasks.len(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay(config: &ReplayConfig) -> Result<ReplayReport, Error> {
    replay_observed(config, &mut |_| true)
}

/// As [`replay`]. `observe` is called regularly with the progress and cancels the replay by returning
/// false.
pub fn replay_observed(
    config: &ReplayConfig,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
) -> Result<ReplayReport, Error> {
    replay_outputs(config, observe, &|_, _, _| {})
}

/// As [`replay_observed`]. `on_output` receives the outputs of the tasks.
pub(crate) fn replay_outputs(
    config: &ReplayConfig,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
    on_output: OnOutput<'_>,
) -> Result<ReplayReport, Error> {
    let mut config = config.clone();
    if config.code_of.is_none() {
        let build_id = of_executable(config.device_mode, config.device_executable.as_deref());
        config.code_of = Some(Arc::new(move |scene, kernel| kernel_info(scene, kernel, &build_id).code));
    }
    if config.open_folder.is_none() {
        config.open_folder = Some(opener(
            config.scene_folder.clone(),
            FolderOptions {
                executable: config.device_executable.clone(),
                sanitizer: config.sanitizer.clone(),
            },
        ));
    }
    if config.load_kernels.is_none() {
        config.load_kernels = Some(giver());
    }
    Ok(tensortap_replay::replay(&config, observe, on_output)?)
}

/// Name of the folder in a case with the code of its scene.
const CASE_SCENE: &str = "scene";

/// Copies the code of a scene folder into a case. To replay the case elsewhere, the user must name the code
/// (`--scene CASE/scene`), because code from a case is not run without consent.
fn keep_code(config: &ExtractConfig, report: &ExtractReport) -> Result<(), Error> {
    if !report.out.is_dir() {
        return Ok(());
    }
    let dump = Dump::open(&config.source)?;
    let named = dump.info().scene_folder.as_ref().map(PathBuf::from);
    let Some(folder) = config.scene_folder.clone().filter(|_| named.is_some()).or(named) else {
        return Ok(());
    };
    Ok(open_folder(&folder, &FolderOptions::default())?.copy_code(&report.out.join(CASE_SCENE))?)
}

/// Extracts one task of a dump as a case that can be replayed anywhere.
pub fn extract(config: &ExtractConfig) -> Result<ExtractReport, Error> {
    let mut config = config.clone();
    if config.open_folder.is_none() {
        config.open_folder = Some(opener(config.scene_folder.clone(), FolderOptions::default()));
    }
    if config.load_kernels.is_none() {
        config.load_kernels = Some(giver());
    }
    let report = tensortap_replay::extract(&config)?;
    // The user has named the libraries that these are copies of.
    report.libraries.iter().for_each(|library| remember_library(library));
    keep_code(&config, &report)?;
    Ok(report)
}
