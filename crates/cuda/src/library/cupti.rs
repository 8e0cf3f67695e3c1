//! CUPTI, of which a process has one: where it is found, and how it is asked to tell of calls.

use std::{
    ffi::CStr,
    path::{Path, PathBuf},
    ptr,
    sync::OnceLock,
};

use super::{Callback, Cupti, Library, SUCCESS, Status};
use crate::streams::ContextId;

/// Why nothing can be subscribed to.
pub enum NotSubscribed {
    /// No CUPTI was found.
    NoCupti,
    /// CUPTI refuses with a status.
    Refused(Status),
}

/// The one that tells of calls.
static CUPTI: OnceLock<Cupti> = OnceLock::new();

/// The number of a context, as calls are told of with.
pub fn number_of(context: usize) -> Option<ContextId> {
    let (ask, mut number) = (CUPTI.get()?.context_id?, 0);
    // SAFETY: a context that lives, and a place of this call's.
    let asked = unsafe { ask(context, &raw mut number) };
    (asked == SUCCESS).then_some(number)
}

/// CUPTI's way to say that another tool has subscribed.
pub const MULTIPLE_SUBSCRIBERS: Status = 39;

/// Lets a function be called for these ids of these domains.
///
/// # Safety
/// The function takes whatever CUPTI gives for them, from any thread, as long as the process lives.
pub unsafe fn subscribe(
    function: Callback,
    wanted: impl Iterator<Item = (u32, u32)>,
) -> Result<(), NotSubscribed> {
    let cupti = find_cupti().map(|found| CUPTI.get_or_init(|| found)).ok_or(NotSubscribed::NoCupti)?;
    let (Some(subscribe), Some(enable)) = (cupti.subscribe, cupti.enable) else {
        return Err(NotSubscribed::NoCupti);
    };
    let mut subscriber = 0;
    // SAFETY: the caller's promise.
    let status = unsafe { subscribe(&raw mut subscriber, function, ptr::null_mut()) };
    if status != SUCCESS {
        return Err(NotSubscribed::Refused(status));
    }
    for (domain, id) in wanted {
        // A function that this CUPTI does not know yet is none that its driver has.
        // SAFETY: a subscriber that was made above.
        let _ = unsafe { enable(1, subscriber, domain, id) };
    }
    Ok(())
}

/// Versions of CUPTI, the latest first.
const CUPTI_NAMES: [&CStr; 4] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so", c"libcupti.so.11.8"];
/// The variable that names one.
const CUPTI_VARIABLE: &str = "TENSORTAP_CUPTI";

/// The CUPTI that the program has loaded; otherwise one that lies where they usually do. Two in one process disturb one another.
fn find_cupti() -> Option<Cupti> {
    let loaded = CUPTI_NAMES.iter().find_map(|name| Library::loaded(name));
    let named = || Library::open(std::env::var_os(CUPTI_VARIABLE)?).ok();
    let beside = || {
        let files = places().into_iter().flat_map(|place| CUPTI_NAMES.map(|name| place.join(file(name))));
        files.filter(|file| file.is_file()).find_map(|file| Library::open(file).ok())
    };
    let usual = || CUPTI_NAMES.iter().find_map(|name| Library::open(file(name)).ok());
    loaded.or_else(named).or_else(beside).or_else(usual).map(Cupti::of)
}

fn file(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Folders that may have a CUPTI: beside packages that the program has loaded libraries of, and where CUDA is installed.
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

/// Folders of Python packages that a process has files mapped of.
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
    fn packages_of_a_process_are_found_once_each() {
        let maps = "7f0 r-xp 00 08:01 1 /opt/venv/lib/python3.12/site-packages/torch/lib/libc10.so\n\
                    7f1 r-xp 00 08:01 1 /opt/venv/lib/python3.12/site-packages/numpy/a.so\n\
                    7f2 rw-p 00 00:00 0 [heap]\n7f3 r--p 00 08:01 2 /usr/lib/python3/dist-packages/x.so\n";
        assert_eq!(
            packages(maps),
            ["/opt/venv/lib/python3.12/site-packages/", "/usr/lib/python3/dist-packages/"]
        );
    }
}
