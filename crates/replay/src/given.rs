//! Kernels from libraries that the user names, in place of those of the scenes.

use tensortap_scene::Scene;

use crate::capture::Capture;
use crate::foreign::FOREIGN_SCENE;
use crate::item::find_scene;
use crate::replay::unknown_kernel;
use crate::{GivenReport, KernelCode, ReplayConfig, ReplayError};

/// Puts the kernels that the user names into the registry of a replay, and says which they are. A name that no capture
/// knows is an error, and so is a library that cannot be used; nothing was run then.
pub fn give_kernels(
    config: &mut ReplayConfig,
    captures: &[Box<dyn Capture>],
) -> Result<Vec<GivenReport>, ReplayError> {
    let is_own = captures.iter().any(|capture| !capture.run().is_foreign);
    if config.block_num.is_some() && is_own {
        let reason =
            "it is for dumps that do not say how many blocks tasks have; this one says it".to_string();
        return Err(ReplayError::Option { option: "--block-num", reason });
    }
    if config.kernels.is_empty() {
        return Ok(Vec::new());
    }
    check_names(config, captures)?;
    let Some(give) = config.give_kernels.clone() else {
        let reason = "this program cannot load libraries".to_string();
        return Err(ReplayError::Option { option: "--kernel", reason });
    };
    let mut seen: Vec<String> = Vec::new();
    let mut reports = Vec::new();
    for capture in captures {
        let code = capture.given_code();
        let code = if code.is_empty() { config.kernels.as_slice() } else { code };
        let base = match capture.run().is_foreign {
            true => None,
            false => Some(find_scene(&**capture, &config.registry)?),
        };
        let name = base.map_or(FOREIGN_SCENE, Scene::name);
        if seen.iter().any(|other| other == name) {
            continue;
        }
        seen.push(name.into());
        let (scene, loader) =
            give(base, code, config.abi).map_err(|reason| ReplayError::Library { reason })?;
        reports.extend(report(scene, code, config));
        config.registry = config.registry.clone().with_instead(scene).with_loader(loader);
    }
    Ok(reports)
}

fn report(scene: &dyn Scene, code: &[KernelCode], config: &ReplayConfig) -> Vec<GivenReport> {
    let given = |code: &KernelCode| {
        let kernel = scene.kernels().iter().find(|kernel| kernel.name == code.name)?;
        let library = scene.library(kernel.func_id)?;
        Some(GivenReport {
            name: code.name.clone(),
            library: library.path.clone(),
            symbol: library.symbol.clone(),
            build_id: library.build_id.clone(),
            abi: config.abi,
        })
    };
    code.iter().filter_map(given).collect()
}

/// Every name must be that of a kernel of a scene, and none twice. Of a dump of another project they were looked at when it
/// was opened.
fn check_names(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    let refuse = |option, reason| Err(ReplayError::Option { option, reason });
    for (place, code) in config.kernels.iter().enumerate() {
        if config.kernels[..place].iter().any(|earlier| earlier.name == code.name) {
            return refuse("--kernel", format!("`{}` is given twice", code.name));
        }
        if config.inject_fault.as_ref().is_some_and(|(kernel, _)| *kernel == code.name) {
            let reason = format!("kernel `{}` is given with --kernel, and is run as it is", code.name);
            return refuse("--inject-fault", reason);
        }
    }
    let own: Vec<&dyn Capture> =
        captures.iter().map(|capture| &**capture).filter(|capture| !capture.run().is_foreign).collect();
    let mut scenes = Vec::new();
    for capture in &own {
        scenes.push(find_scene(*capture, &config.registry)?);
    }
    let is_known =
        |name: &str| scenes.iter().any(|scene| scene.kernels().iter().any(|kernel| kernel.name == name));
    match config.kernels.iter().find(|code| !is_known(&code.name)) {
        Some(code) if !own.is_empty() => Err(unknown_kernel(&code.name, own.into_iter())),
        _ => Ok(()),
    }
}

/// In words: which kernels are not those that were captured.
pub fn note(given: &[GivenReport]) -> impl Iterator<Item = String> + '_ {
    given.iter().map(|GivenReport { name, library, symbol, build_id, .. }| {
        format!("kernel `{name}` is another build: `{symbol}` of {}, {build_id}", library.display())
    })
}
