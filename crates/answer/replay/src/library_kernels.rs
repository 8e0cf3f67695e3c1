//! Kernels from libraries that replace those of the scenes: libraries that the user passes, and libraries in
//! a case.

use tensortap_format::func_ids;
use tensortap_scene::{Registry, Scene};

use crate::capture::Capture;
use crate::replay::unknown_kernel;
use crate::{KernelCode, LaunchDevice, LibraryKernel, LoadKernels, ReplayConfig, ReplayError};

/// Refuses options that do not apply to these captures.
pub fn check_options(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    let refuse = |option, reason| Err(ReplayError::Option { option, reason });
    check_block_num(config.block_num, captures)?;
    if let LaunchDevice::Named(_) = config.launch_device {
        let reason = "it applies to OpenCL and CUDA launches, and there are none here; choose a platform with --platform NAME";
        return refuse("--device", reason.into());
    }
    let is_faulty =
        |code: &&KernelCode| config.inject_fault.as_ref().is_some_and(|(kernel, _)| *kernel == code.name);
    match config.kernels.iter().find(is_faulty) {
        Some(code) => refuse(
            "--inject-fault",
            format!(
                "kernel `{}` comes from --kernel and cannot be damaged; remove one of the two options",
                code.name
            ),
        ),
        None => Ok(()),
    }
}

/// Only a dump without block counts accepts a number of blocks.
pub fn check_block_num(block_num: Option<u32>, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    // Such a dump has no kernels of its own.
    if block_num.is_none() || captures.iter().all(|capture| !capture.library_code().is_empty()) {
        return Ok(());
    }
    let reason = "it applies only to dumps without block counts, and this one has them";
    Err(ReplayError::Option { option: "--block-num", reason: reason.into() })
}

/// Adds the libraries' kernels to the registry and returns them. A name that no capture knows and an unusable
/// library are errors; no code has run then.
pub fn load_library_kernels(
    registry: &mut Registry,
    give: Option<&LoadKernels>,
    kernels: &[KernelCode],
    captures: &[Box<dyn Capture>],
) -> Result<Vec<LibraryKernel>, ReplayError> {
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

/// The scene of a capture, without libraries.
fn base_scene(capture: &dyn Capture, registry: &Registry) -> Result<&'static dyn Scene, ReplayError> {
    let (scene, is_program) = (capture.run().scene.clone(), capture.run().is_of_program());
    registry.find(&scene).ok_or_else(|| ReplayError::NoScene { from: capture.name(), scene, is_program })
}

/// Libraries for the kernels of a capture: the user's libraries first, then those in the case.
pub fn code_for(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<KernelCode> {
    let brought = capture.case_code();
    let mut code = user_code(capture, kernels);
    for one in &mut code {
        let as_before = brought.iter().find(|earlier| earlier.name == one.name);
        one.abi = one.abi.or_else(|| as_before.and_then(|earlier| earlier.abi));
    }
    let is_left = |one: &&KernelCode| code.iter().all(|given| given.name != one.name);
    let left: Vec<KernelCode> = brought.iter().filter(is_left).cloned().collect();
    code.into_iter().chain(left).collect()
}

/// The user's libraries, by the kernel's name in the capture.
pub fn user_code(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<KernelCode> {
    if !capture.library_code().is_empty() {
        return capture.library_code().to_vec();
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

fn report(scene: &dyn Scene, code: &KernelCode) -> Option<LibraryKernel> {
    let kernel = scene.kernels().iter().find(|kernel| kernel.name == code.name)?;
    let library = scene.library(kernel.func_id)?;
    Some(LibraryKernel {
        name: code.name.clone(),
        library: library.path.clone(),
        symbol: library.symbol.clone(),
        build_id: library.build_id.clone(),
        abi: code.abi.unwrap_or_default(),
        of_case: code.of_case.clone(),
    })
}

/// Checks that every name is a kernel of a capture and appears once. For a dump of another project, opening
/// it checked this.
fn check_names(
    kernels: &[KernelCode],
    captures: &[Box<dyn Capture>],
    registry: &Registry,
) -> Result<(), ReplayError> {
    for (place, code) in kernels.iter().enumerate() {
        if kernels[..place].iter().any(|earlier| earlier.name == code.name) {
            let reason = format!("`{}` was passed twice", code.name);
            return Err(ReplayError::Option { option: "--kernel", reason });
        }
    }
    let mut known: Vec<String> = Vec::new();
    for capture in captures.iter().filter(|_| !kernels.is_empty()) {
        if !capture.library_code().is_empty() {
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

/// The names that match a kernel of a capture.
fn user_named(capture: &dyn Capture, kernels: &[KernelCode]) -> Vec<String> {
    let names = kernels.iter().map(|code| code.name.clone());
    names.filter(|name| !func_ids(&capture.run().kernels, name).is_empty()).collect()
}

/// Notes on kernels that differ from the captured ones, or from those that the case was made with.
pub fn notes(given: &[LibraryKernel]) -> impl Iterator<Item = String> + '_ {
    given.iter().filter_map(|LibraryKernel { name, library, symbol, build_id, of_case, .. }| {
        let library = library.display();
        match of_case {
            None => Some(format!("kernel `{name}` is replaced by `{symbol}` of {library}, {build_id}")),
            Some(said) if said != build_id => Some(format!(
                "{library} is a different build of kernel `{name}` than the case names: {build_id}, not {said}"
            )),
            Some(_) => None,
        }
    })
}
