//! Scene folders.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensortap_format::Dump;
use tensortap_platform::Sanitizer;
use tensortap_replay::{KernelCode, LoadKernels, OpenFolder};
use tensortap_runtime::RUNTIMES;
use tensortap_scene::{Registry, Scene};
use tensortap_scene_folder::{DESCRIPTION_FILE, FolderScene, OpenOptions, UserKernel, UserKernelScene};

use crate::Error;

/// How the code of a scene folder is compiled and run.
#[derive(Clone, Debug, Default)]
pub struct FolderOptions {
    /// The executable that runs its code if it is not this one, as for a device.
    pub executable: Option<PathBuf>,
    /// The sanitizer for its kernels. The run must use the same one
    /// ([`RunConfig::sanitizer`](crate::RunConfig)).
    pub sanitizer: Option<Sanitizer>,
}

/// Opens a scene folder: compiles its sources and finds every function, without running anything.
///
/// # Errors
/// If the description, the sources or the libraries are invalid.
pub fn open_folder(path: &Path, options: &FolderOptions) -> Result<&'static FolderScene, Error> {
    let options = OpenOptions {
        executable: options.executable.clone(),
        runtimes: RUNTIMES.iter().map(|runtime| runtime.name()).collect(),
        sanitizer: options.sanitizer.clone(),
    };
    Ok(FolderScene::open(path, &options)?)
}

/// Writes a scene folder that runs, with kernels in C or C++. Returns the files.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let files = tensortap::new_scene(&folder.path().join("demo"), false)?;
/// assert!(files.iter().any(|file| file.ends_with("scene.toml")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the folder is not empty or cannot be written.
pub fn new_scene(folder: &Path, cpp: bool) -> Result<Vec<PathBuf>, Error> {
    Ok(tensortap_scene_folder::new_scene(folder, cpp)?)
}

/// Adds the scene of a folder that the user names to a registry, with precedence over other scenes of that
/// name. From now on, dumps may refer to this folder.
///
/// # Errors
/// Those of [`open_folder`].
pub fn with_folder(
    registry: &Registry,
    path: &Path,
    options: &FolderOptions,
) -> Result<(Registry, &'static FolderScene), Error> {
    let scene = open_folder(path, options)?;
    tensortap_scene_folder::grant_folder(path);
    Ok((with_scene(registry, scene), scene))
}

/// As [`with_folder`], for a folder that is already open.
#[must_use]
pub fn with_scene(registry: &Registry, scene: &'static dyn Scene) -> Registry {
    registry.clone().with_first(scene).with_loader(tensortap_scene_folder::load_plan)
}

/// Adds the scene that a dump was recorded from, if it is a folder: the folder that the dump names, or
/// `folder`.
///
/// # Errors
/// If the folder does not exist, cannot be opened, or is not owned by the user.
pub fn with_scene_of(registry: &Registry, dump: &Dump, folder: Option<&Path>) -> Result<Registry, Error> {
    match (folder, &dump.info().scene_folder) {
        (Some(folder), _) => {
            with_folder(registry, folder, &FolderOptions::default()).map(|(registry, _)| registry)
        }
        (None, Some(named)) => {
            let named = Path::new(named);
            check_named(named).map_err(|reason| Error::DumpFolder { folder: named.into(), reason })?;
            open_folder(named, &FolderOptions::default()).map(|scene| with_scene(registry, scene))
        }
        (None, None) => Ok(registry.clone()),
    }
}

/// How a replay opens the folder that a capture names; `folder` overrides it.
pub(crate) fn opener(folder: Option<PathBuf>, options: FolderOptions) -> OpenFolder {
    Arc::new(move |named: &Path| {
        if folder.is_none() {
            check_named(named)?;
        }
        let path = folder.as_deref().unwrap_or(named);
        let opened = open_folder(path, &options).map_err(|error| error.to_string())?;
        Ok((opened as &'static dyn Scene, tensortap_scene_folder::load_plan))
    })
}

/// How a replay loads kernels from libraries. Dumps of other projects have no scene.
pub(crate) fn giver() -> LoadKernels {
    Arc::new(|base: Option<&'static dyn Scene>, name: &str, code: &[KernelCode]| {
        code.iter().filter(|code| code.of_case.is_some()).try_for_each(check_brought)?;
        let given = |code: &KernelCode| {
            let KernelCode { name, path, symbol, abi, .. } = code.clone();
            UserKernel { name, path, symbol, abi: abi.unwrap_or_default() }
        };
        let given: Vec<UserKernel> = code.iter().map(given).collect();
        let scene = match base {
            Some(base) => UserKernelScene::replacing(base, name, &given),
            None => UserKernelScene::standalone(name, &given),
        };
        let scene = scene.map_err(|error| error.to_string())?;
        code.iter().filter(|code| code.of_case.is_none()).for_each(|code| remember_library(&code.path));
        Ok((scene as &'static dyn Scene, tensortap_scene_folder::load_plan))
    })
}

/// Records that the user has named a library with this content.
pub(crate) fn remember_library(path: &Path) {
    tensortap_scene_folder::grant_file(path);
}

/// A case may come from anywhere, and so may the library in it. A library is accepted only if the user owns
/// it and has named exactly this content before.
fn check_brought(code: &KernelCode) -> Result<(), String> {
    let KernelCode { name, path, symbol, .. } = code;
    let file = std::fs::symlink_metadata(path)
        .map_err(|error| format!("cannot open {}, which the case refers to ({error})", path.display()))?;
    let why = match file.is_file() && is_mine_alone(&file) {
        false => "is a file that other users can change",
        true if tensortap_scene_folder::is_file_granted(path) => return Ok(()),
        true => "is code from the case that you have not approved",
    };
    let path = path.display();
    Err(format!(
        "{path} {why}, and a case may come from anywhere; pass --kernel {name}={path}:{symbol} to run it"
    ))
}

fn is_mine_alone(file: &std::fs::Metadata) -> bool {
    let others_write = 0o022;
    file.uid() == rustix::process::geteuid().as_raw() && file.mode() & others_write == 0
}

/// A dump may come from anywhere, together with the folder that it names. A folder is accepted only if the
/// user owns it and has named it before.
fn check_named(folder: &Path) -> Result<(), String> {
    let description = folder.join(DESCRIPTION_FILE);
    let file = std::fs::metadata(&description).map_err(|error| {
        format!("cannot open {} ({error}); pass its current location with --scene DIR", description.display())
    })?;
    let why = match is_mine_alone(&file) {
        false => "can be changed by other users",
        true if tensortap_scene_folder::is_folder_granted(folder) => return Ok(()),
        true => "was not approved by you before",
    };
    Err(format!(
        "{} {why}, and a dump may come from anywhere; pass --scene {} to use it",
        description.display(),
        folder.display()
    ))
}
