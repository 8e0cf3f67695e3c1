//! CUPTI: where it is found, and how the backend subscribes to its callbacks. A process has one CUPTI.

use std::{
    ffi::{CStr, c_void},
    path::{Path, PathBuf},
    ptr,
    sync::OnceLock,
};

use tensortap_library::functions;

use super::{Callback, Library, SUCCESS, Status};
use crate::streams::ContextId;

functions! {
    /// Functions of CUPTI.
    struct Cupti {
        subscribe = "cuptiSubscribe": fn(*mut usize, Callback, *mut c_void) -> Status;
        enable_callback = "cuptiEnableCallback": fn(u32, usize, u32, u32) -> Status;
        get_context_id = "cuptiGetContextId": fn(usize, *mut u32) -> Status;
    }
}

/// Why the backend cannot subscribe.
pub enum SubscribeError {
    /// No CUPTI was found.
    NoCupti,
    /// CUPTI refuses with this status.
    Refused(Status),
}

/// The CUPTI of this process.
static CUPTI: OnceLock<Cupti> = OnceLock::new();

/// CUPTI's number of a context.
pub fn number_of(context: usize) -> Option<ContextId> {
    let (cupti, mut number) = (CUPTI.get()?, 0);
    // SAFETY: the context lives, and the pointer is a local variable.
    let asked = unsafe { (cupti.get_context_id)(context, &raw mut number) };
    (asked == SUCCESS).then_some(number)
}

/// The status if another tool has subscribed.
pub const MULTIPLE_SUBSCRIBERS: Status = 39;

/// Subscribes a function to the callbacks with these domains and ids.
///
/// # Safety
/// The function accepts the data that CUPTI passes for them, from any thread, until the process ends.
pub unsafe fn subscribe(
    function: Callback,
    wanted: impl Iterator<Item = (u32, u32)>,
) -> Result<(), SubscribeError> {
    let cupti = find_cupti().map(|found| CUPTI.get_or_init(|| found)).ok_or(SubscribeError::NoCupti)?;
    let mut subscriber = 0;
    // SAFETY: the caller's guarantee.
    let status = unsafe { (cupti.subscribe)(&raw mut subscriber, function, ptr::null_mut()) };
    if status != SUCCESS {
        return Err(SubscribeError::Refused(status));
    }
    for (domain, id) in wanted {
        // A driver function that this CUPTI does not know does not exist in its driver either.
        // SAFETY: the subscriber was created above.
        let _ = unsafe { (cupti.enable_callback)(1, subscriber, domain, id) };
    }
    Ok(())
}

/// File names of CUPTI, the latest version first.
const CUPTI_NAMES: [&CStr; 4] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so", c"libcupti.so.11.8"];
/// Names the file of CUPTI.
const CUPTI_VARIABLE: &str = "TENSORTAP_CUPTI";

/// The CUPTI that the program has loaded, else one from the usual folders. Two in one process interfere with
/// each other.
fn find_cupti() -> Option<Cupti> {
    let loaded = CUPTI_NAMES.iter().find_map(|name| Library::loaded(name));
    let named = || Library::open(std::env::var_os(CUPTI_VARIABLE)?).ok();
    let nearby = || {
        let files = places().into_iter().flat_map(|place| CUPTI_NAMES.map(|name| place.join(file(name))));
        files.filter(|file| file.is_file()).find_map(|file| Library::open(file).ok())
    };
    let usual = || CUPTI_NAMES.iter().find_map(|name| Library::open(file(name)).ok());
    loaded.or_else(named).or_else(nearby).or_else(usual).and_then(|library| Cupti::find(library).ok())
}

fn file(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Folders that may contain CUPTI: those of Python packages that the program has loaded libraries from, and
/// CUDA installations.
fn places() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut places: Vec<PathBuf> = packages(&maps)
        .into_iter()
        .flat_map(|packages| {
            ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"].map(|place| Path::new(&packages).join(place))
        })
        .collect();
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
        let versions = std::fs::read_dir(Path::new(&environment).join("lib")).into_iter().flatten().flatten();
        let packages = versions.map(|version| version.path().join("site-packages/nvidia"));
        places.extend(packages.flat_map(|nvidia| [nvidia.join("cu13/lib"), nvidia.join("cuda_cupti/lib")]));
    }
    let cuda = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter().chain(["/usr/local/cuda".into()]);
    places.extend(cuda.flat_map(|cuda| [cuda.join("extras/CUPTI/lib64"), cuda.join("lib64")]));
    places
}

/// Python package folders that contain mapped files of this process.
fn packages(maps: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| &line[at..]) else { continue };
        for kind in ["/site-packages/", "/dist-packages/"] {
            if let Some(at) = path.find(kind) {
                let folder = path[..at + kind.len()].to_owned();
                if !found.contains(&folder) {
                    found.push(folder);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_folders_of_a_process_are_found_once() {
        let maps = "7f0 r-xp 00 08:01 1 /opt/venv/lib/python3.12/site-packages/torch/lib/libc10.so\n\
                    7f1 r-xp 00 08:01 1 /opt/venv/lib/python3.12/site-packages/numpy/a.so\n\
                    7f2 rw-p 00 00:00 0 [heap]\n7f3 r--p 00 08:01 2 /usr/lib/python3/dist-packages/x.so\n";
        assert_eq!(
            packages(maps),
            ["/opt/venv/lib/python3.12/site-packages/", "/usr/lib/python3/dist-packages/"]
        );
    }
}
