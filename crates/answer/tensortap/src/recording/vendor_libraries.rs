//! Which libraries of GPU vendors a recorded process uses: the loader and the drivers of OpenCL, and the driver of CUDA.
//! The process loads them when it needs them, so the recorder looks several times.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tensortap_scene_folder::exports_symbol;

/// Every driver of OpenCL exports this function, from which the loader gets all others.
const OPENCL_DRIVER: &str = "clGetExtensionFunctionAddress";
/// Pause before the second look. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The libraries found so far.
pub struct VendorLibraries {
    pid: u32,
    /// What each mapped file is; `None` if it is something else.
    seen: BTreeMap<PathBuf, Option<&'static str>>,
    next: Instant,
    pause: Duration,
}

impl VendorLibraries {
    /// Looks at the process for the first time.
    pub fn of(pid: u32) -> VendorLibraries {
        let mut found =
            VendorLibraries { pid, seen: BTreeMap::new(), next: Instant::now(), pause: FIRST_PAUSE };
        found.look();
        found
    }

    /// Looks again if enough time has passed.
    pub fn look_again(&mut self) {
        if Instant::now() >= self.next {
            self.look();
        }
    }

    /// Looks at the memory map of the process. Keeps what it found if the process has ended.
    pub fn look(&mut self) {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        for path in maps.lines().filter_map(mapped_file) {
            if !self.seen.contains_key(path) {
                self.seen.insert(path.to_owned(), kind_of(path));
            }
        }
        self.next = Instant::now() + self.pause;
        self.pause *= 2;
    }

    /// The libraries, as in the manifest; `None` if there are none.
    pub fn document(&self) -> Option<Value> {
        let known = self.seen.iter().filter_map(|(path, kind)| Some((path, (*kind)?)));
        let all: Vec<Value> = known.map(|(path, kind)| json!({"kind": kind, "path": path})).collect();
        (!all.is_empty()).then(|| all.into())
    }
}

/// The file of a line of a memory map, if it is executable.
fn mapped_file(line: &str) -> Option<&Path> {
    let mut words = line.splitn(6, ' ');
    let rights = words.nth(1)?;
    let path = words.nth(3)?.trim_start();
    (rights.contains('x') && path.starts_with('/')).then(|| Path::new(path))
}

/// What a file is, by its name and what it exports.
fn kind_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let may_be_driver = name.to_ascii_lowercase().contains("cl") && name.contains(".so");
    match () {
        // A package may add a hash to the name of the loader that it brings.
        () if name.starts_with("libOpenCL") => Some("opencl_loader"),
        () if name.starts_with("libcuda.so") => Some("cuda_driver"),
        () if may_be_driver && exports_symbol(path, OPENCL_DRIVER).unwrap_or(false) => Some("opencl_driver"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_parts_of_files_count() {
        let file = |line: String| mapped_file(&line).map(|path| path.display().to_string());
        for (line, path) in [
            (
                "r-xp 00001000 08:01 123456                     /usr/lib/libOpenCL.so.1",
                Some("/usr/lib/libOpenCL.so.1"),
            ),
            (
                "r-xp 00000000 08:01 9    /a folder/libcuda.so.1 (deleted)",
                Some("/a folder/libcuda.so.1 (deleted)"),
            ),
            ("r--p 00000000 08:01 123456    /usr/lib/libcuda.so.1", None),
            ("r-xp 00000000 00:00 0         [vdso]", None),
            ("rwxp 00000000 00:00 0 ", None),
            ("", None),
        ] {
            assert_eq!(file(format!("7f2c4a000000-7f2c4a100000 {line}")).as_deref(), path, "{line}");
        }
        assert_eq!((file(String::new()), file("a b c".into())), (None, None));
    }

    #[test]
    fn libraries_are_known_by_name_or_by_what_they_export() {
        for (path, kind) in [
            ("/opt/x/libOpenCL.so.1.0.0", Some("opencl_loader")),
            ("/opt/x/libOpenCL-5519dec5.so.1.0.0", Some("opencl_loader")),
            ("/opt/x/libcuda.so.550.54", Some("cuda_driver")),
            ("/opt/x/libcudart.so.12", None),
            ("/nowhere/libclang.so.1", None),
        ] {
            assert_eq!(kind_of(Path::new(path)), kind, "{path}");
        }
    }

    #[test]
    fn a_process_without_such_libraries_has_no_document_and_an_ended_one_keeps_its_own() {
        let mut libraries = VendorLibraries::of(std::process::id());
        assert!(!libraries.seen.is_empty() && libraries.document().is_none());
        let before = libraries.seen.len();
        libraries.look_again();
        libraries.pid = u32::MAX;
        libraries.look();
        assert!(libraries.seen.len() >= before);
        libraries.seen.insert("/x/libcuda.so.1".into(), Some("cuda_driver"));
        let expected = json!([{"kind": "cuda_driver", "path": "/x/libcuda.so.1"}]);
        assert_eq!(libraries.document(), Some(expected));
    }
}
