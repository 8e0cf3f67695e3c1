//! Scenes that are folders.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensortap_folder::{DESCRIPTION_FILE, FolderScene, GivenKernel, GivenScene, OpenOptions};
use tensortap_format::Dump;
use tensortap_platform::Sanitizer;
use tensortap_replay::{GiveKernels, KernelCode, OpenFolder};
use tensortap_runtime::RUNTIMES;
use tensortap_scene::{Registry, Scene};

use crate::Error;

/// How the code of a scene folder is made and run.
#[derive(Clone, Debug, Default)]
pub struct FolderOptions {
    /// What its code runs in when that is not this executable, as for a device.
    pub executable: Option<PathBuf>,
    /// What its kernels are compiled with; the same must be said of the run ([`RunConfig::sanitizer`](crate::RunConfig)).
    pub sanitizer: Option<Sanitizer>,
}

/// Opens a scene folder: compiles its sources and finds every function, and runs nothing.
///
/// # Errors
/// What is wrong with the description, the sources or the libraries.
pub fn open_folder(path: &Path, options: &FolderOptions) -> Result<&'static FolderScene, Error> {
    let options = OpenOptions {
        executable: options.executable.clone(),
        runtimes: RUNTIMES.iter().map(|runtime| runtime.name()).collect(),
        sanitizer: options.sanitizer.clone(),
    };
    Ok(FolderScene::open(path, &options)?)
}

/// Writes a scene folder that runs, with kernels in C or C++; gives the files.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let files = tensortap::new_scene(&folder.path().join("demo"), false)?;
/// assert!(files.iter().any(|file| file.ends_with("scene.toml")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The folder holds something, or cannot be written.
pub fn new_scene(folder: &Path, cpp: bool) -> Result<Vec<PathBuf>, Error> {
    Ok(tensortap_folder::new_scene(folder, cpp)?)
}

/// A registry with the scene of a folder that the user names, found before others of its name. Dumps of it may name it from now on.
///
/// # Errors
/// As of [`open_folder`].
pub fn with_folder(
    registry: &Registry,
    path: &Path,
    options: &FolderOptions,
) -> Result<(Registry, &'static FolderScene), Error> {
    let scene = open_folder(path, options)?;
    tensortap_folder::remember(path);
    Ok((with_scene(registry, scene), scene))
}

/// The same of a folder that is open.
#[must_use]
pub fn with_scene(registry: &Registry, scene: &'static dyn Scene) -> Registry {
    registry.clone().with_first(scene).with_loader(tensortap_folder::load_plan)
}

/// A registry with the scene that a dump was made of, if that is a folder: the one that the dump names, or `folder`.
///
/// # Errors
/// The folder is not there or cannot be opened, or it is not the user's own.
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

/// How a replay opens the folder that a capture names; `folder` is another one to take instead.
pub(crate) fn opener(folder: Option<PathBuf>, options: FolderOptions) -> OpenFolder {
    Arc::new(move |named: &Path| {
        if folder.is_none() {
            check_named(named)?;
        }
        let path = folder.as_deref().unwrap_or(named);
        let opened = open_folder(path, &options).map_err(|error| error.to_string())?;
        Ok((opened as &'static dyn Scene, tensortap_folder::load_plan))
    })
}

/// How a replay takes kernels from libraries; dumps of another project have no scene beside them.
pub(crate) fn giver() -> GiveKernels {
    Arc::new(|base: Option<&'static dyn Scene>, name: &str, code: &[KernelCode]| {
        code.iter().filter(|code| code.of_case.is_some()).try_for_each(check_brought)?;
        let given = |code: &KernelCode| {
            let KernelCode { name, path, symbol, abi, .. } = code.clone();
            GivenKernel { name, path, symbol, abi: abi.unwrap_or_default() }
        };
        let given: Vec<GivenKernel> = code.iter().map(given).collect();
        let scene = match base {
            Some(base) => GivenScene::instead(base, name, &given),
            None => GivenScene::alone(name, &given),
        };
        let scene = scene.map_err(|error| error.to_string())?;
        code.iter().filter(|code| code.of_case.is_none()).for_each(|code| remember_library(&code.path));
        Ok((scene as &'static dyn Scene, tensortap_folder::load_plan))
    })
}

/// Notes that the user has named a library, as it is now.
pub(crate) fn remember_library(path: &Path) {
    tensortap_folder::remember_file(path);
}

/// A case may come from anywhere, and so may the library in it: only one that is the user's own, and that the user has named as it is
/// now, is taken without being named again.
fn check_brought(code: &KernelCode) -> Result<(), String> {
    let KernelCode { name, path, symbol, .. } = code;
    let file = std::fs::symlink_metadata(path).map_err(|error| {
        format!("{}, which the case says it brought, cannot be opened ({error})", path.display())
    })?;
    let why = match file.is_file() && is_mine_alone(&file) {
        false => "is not a file that is yours alone",
        true if tensortap_folder::is_known_file(path) => return Ok(()),
        true => "is code that came with the case and that you have not named",
    };
    let path = path.display();
    Err(format!(
        "{path} {why}, and a case may come from anywhere; --kernel {name}={path}:{symbol} says that you mean it"
    ))
}

fn is_mine_alone(file: &std::fs::Metadata) -> bool {
    let others_write = 0o022;
    file.uid() == rustix::process::geteuid().as_raw() && file.mode() & others_write == 0
}

/// A dump says which folder to take code from, and a dump may come from anywhere, with a folder beside it: only a folder of the
/// user's own that the user has named before is taken at its word.
fn check_named(folder: &Path) -> Result<(), String> {
    let description = folder.join(DESCRIPTION_FILE);
    let file = std::fs::metadata(&description).map_err(|error| {
        format!(
            "{} cannot be opened ({error}); --scene DIR says where the folder is now",
            description.display()
        )
    })?;
    let why = match is_mine_alone(&file) {
        false => "is not yours alone",
        true if tensortap_folder::is_known(folder) => return Ok(()),
        true => "was never named by you",
    };
    Err(format!(
        "{} {why}, and a dump may come from anywhere; --scene {} says that you mean it",
        description.display(),
        folder.display()
    ))
}
