//! Kernels from libraries, in place of those of the scenes: libraries that the user names, and those that a case brought.

use tensortap_format::func_ids;
use tensortap_scene::{Registry, Scene};

use crate::capture::Capture;
use crate::replay::unknown_kernel;
use crate::{GiveKernels, GivenReport, KernelCode, LaunchDevice, ReplayConfig, ReplayError};

/// Options that make no sense with these captures.
pub fn check_options(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    let refuse = |option, reason| Err(ReplayError::Option { option, reason });
    check_block_num(config.block_num, captures)?;
    if let LaunchDevice::Named(_) = config.launch_device {
        let reason = "it is for launches of OpenCL and CUDA, and there are none here; --platform NAME says where these tasks run";
        return refuse("--device", reason.into());
    }
    let is_faulty =
        |code: &&KernelCode| config.inject_fault.as_ref().is_some_and(|(kernel, _)| *kernel == code.name);
    match config.kernels.iter().find(is_faulty) {
        Some(code) => refuse(
            "--inject-fault",
            format!("kernel `{}` is given with --kernel, and is run as it is", code.name),
        ),
        None => Ok(()),
    }
}

/// Only a dump that does not say it takes a number of blocks.
pub fn check_block_num(block_num: Option<u32>, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    // Such a dump is told by its kernels: it has none of its own.
    if block_num.is_none() || captures.iter().all(|capture| !capture.given_code().is_empty()) {
        return Ok(());
    }
    let reason = "it is for dumps that do not say how many blocks tasks have; this one says it";
    Err(ReplayError::Option { option: "--block-num", reason: reason.into() })
}

/// Puts kernels of libraries into the registry, and says which they are. A name that no capture knows is an error, and so is a library
/// that cannot be used; nothing was run then.
pub fn give_kernels(
    registry: &mut Registry,
    give: Option<&GiveKernels>,
    kernels: &[KernelCode],
    captures: &[Box<dyn Capture>],
) -> Result<Vec<GivenReport>, ReplayError> {
    check_names(kernels, captures, registry)?;
    let without = registry.clone();
    let mut seen: Vec<&str> = Vec::new();
    let mut reports = Vec::new();
    for capture in captures {
        let (code, key) = (code_for(&**capture, kernels), capture.scene_key());
        if (code.is_empty() && !capture.run().is_foreign) || seen.contains(&key) {
            continue;
        }
        let Some(give) = give else {
            let reason = "this program cannot load libraries".to_string();
            return Err(ReplayError::Option { option: "--kernel", reason });
        };
        seen.push(key);
        let base = match capture.run().is_foreign {
            true => None,
            false => Some(base_scene(&**capture, &without)?),
        };
        let (scene, loader) = give(base, key, &code).map_err(|reason| ReplayError::Library { reason })?;
        reports.extend(code.iter().filter_map(|code| report(scene, code)));
        *registry = registry.clone().with_instead(scene).with_loader(loader);
    }
    Ok(reports)
}

/// The scene that a capture is of, as it is without libraries.
fn base_scene(capture: &dyn Capture, registry: &Registry) -> Result<&'static dyn Scene, ReplayError> {
    let (scene, is_program) = (capture.run().scene.clone(), capture.run().is_of_program());
    registry.find(&scene).ok_or_else(|| ReplayError::NoScene { from: capture.name(), scene, is_program })
}

/// Libraries for the kernels of a capture: those that the user names, then those that it brought.
pub fn code_for(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<KernelCode> {
    let brought = capture.brought_code();
    let mut code = user_code(capture, kernels);
    for one in &mut code {
        let as_before = brought.iter().find(|earlier| earlier.name == one.name);
        one.abi = one.abi.or_else(|| as_before.and_then(|earlier| earlier.abi));
    }
    let is_left = |one: &&KernelCode| code.iter().all(|given| given.name != one.name);
    let left: Vec<KernelCode> = brought.iter().filter(is_left).cloned().collect();
    code.into_iter().chain(left).collect()
}

/// Those that the user names, each by the name that the capture has for its kernel.
pub fn user_code(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<KernelCode> {
    if !capture.given_code().is_empty() {
        return capture.given_code().to_vec();
    }
    if !capture.run().is_foreign {
        return kernels.to_vec();
    }
    let of = |info: &tensortap_format::KernelInfo| {
        let is_meant =
            |code: &&KernelCode| func_ids(&capture.run().kernels, &code.name).contains(&info.func_id);
        let code = kernels.iter().find(is_meant)?;
        Some(KernelCode { name: info.name.clone(), ..code.clone() })
    };
    capture.run().kernels.iter().filter_map(of).collect()
}

fn report(scene: &dyn Scene, code: &KernelCode) -> Option<GivenReport> {
    let kernel = scene.kernels().iter().find(|kernel| kernel.name == code.name)?;
    let library = scene.library(kernel.func_id)?;
    Some(GivenReport {
        name: code.name.clone(),
        library: library.path.clone(),
        symbol: library.symbol.clone(),
        build_id: library.build_id.clone(),
        abi: code.abi.unwrap_or_default(),
        of_case: code.of_case.clone(),
    })
}

/// Every name must be that of a kernel of a capture, and none twice. Of a dump of another project they were looked at when it
/// was opened.
fn check_names(
    kernels: &[KernelCode],
    captures: &[Box<dyn Capture>],
    registry: &Registry,
) -> Result<(), ReplayError> {
    for (place, code) in kernels.iter().enumerate() {
        if kernels[..place].iter().any(|earlier| earlier.name == code.name) {
            let reason = format!("`{}` is given twice", code.name);
            return Err(ReplayError::Option { option: "--kernel", reason });
        }
    }
    let mut known: Vec<String> = Vec::new();
    for capture in captures.iter().filter(|_| !kernels.is_empty()) {
        if !capture.given_code().is_empty() {
            return Ok(());
        }
        known.extend(match capture.run().is_foreign {
            true => user_named(&**capture, kernels),
            false => base_scene(&**capture, registry)?.kernels().iter().map(|k| k.name.to_owned()).collect(),
        });
    }
    match kernels.iter().find(|code| !known.contains(&code.name)) {
        Some(code) => Err(unknown_kernel(&code.name, captures.iter().map(|capture| &**capture))),
        None => Ok(()),
    }
}

/// Those of the names that mean a kernel of a capture.
fn user_named(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<String> {
    let names = kernels.iter().map(|code| code.name.clone());
    names.filter(|name| !func_ids(&capture.run().kernels, name).is_empty()).collect()
}

/// In words: which kernels are not those that were captured, or not those that a case was made with.
pub fn notes(given: &[GivenReport]) -> impl Iterator<Item = String> + '_ {
    given.iter().filter_map(|GivenReport { name, library, symbol, build_id, of_case, .. }| {
        let library = library.display();
        match of_case {
            None => Some(format!("kernel `{name}` is another build: `{symbol}` of {library}, {build_id}")),
            Some(said) if said != build_id => Some(format!(
                "{library} is not the build of kernel `{name}` that the case names: {build_id}, not {said}"
            )),
            Some(_) => None,
        }
    })
}
