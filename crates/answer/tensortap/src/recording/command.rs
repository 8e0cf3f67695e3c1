//! Starts the program, waits for it, and explains a run without dumps.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tensortap_platform::with_file_limits_as_given;
use tensortap_record::{LIBRARY_VARIABLE, SOCKET_VARIABLE};

/// File name of the recording library.
pub const LIBRARY: &str = "libtensortap.so";
/// File name of the OpenCL layer.
pub const OPENCL_LAYER: &str = "libtensortap_opencl.so";
/// File name of the library that the CUDA driver loads.
pub const CUDA_LIBRARY: &str = "libtensortap_cuda.so";
/// Environment variable with the library that the CUDA driver loads: one path.
pub const CUDA_INJECTION: &str = "CUDA_INJECTION64_PATH";
/// Environment variable with the library that NVTX loads: one path.
const NVTX_INJECTION: &str = "NVTX_INJECTION64_PATH";
/// Environment variable with the maximum number of captured bytes of a range.
const MAX_RANGE: &str = "TENSORTAP_MAX_RANGE";
/// Environment variable that turns off deduplication in the program, because the collector may no longer
/// have the content.
const STORE_ALL: &str = "TENSORTAP_STORE_ALL";
/// Environment variable with the layers of the OpenCL loader: paths separated by colons.
const OPENCL_LAYERS: &str = "OPENCL_LAYERS";

/// A library that records a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingLibrary {
    /// For programs that use the recording API.
    Program,
    /// For the OpenCL loader.
    OpenCl,
    /// For the CUDA driver.
    Cuda,
}

impl RecordingLibrary {
    /// Its file name.
    pub const fn file(self) -> &'static str {
        match self {
            RecordingLibrary::Program => LIBRARY,
            RecordingLibrary::OpenCl => OPENCL_LAYER,
            RecordingLibrary::Cuda => CUDA_LIBRARY,
        }
    }

    /// The package that cargo builds it from.
    pub const fn package(self) -> &'static str {
        match self {
            RecordingLibrary::Program => "tensortap-capi",
            RecordingLibrary::OpenCl => "tensortap-opencl",
            RecordingLibrary::Cuda => "tensortap-cuda",
        }
    }
}

/// Path of a library of this tensortap: next to the executable, where cargo puts it, or where it is
/// installed.
pub fn find_library(name: &str) -> Option<PathBuf> {
    let executable = fs::canonicalize(std::env::current_exe().ok()?).ok()?;
    let dir = executable.parent()?;
    let places = [dir.join(name), dir.join("deps").join(name)];
    let installed = dir.parent().map(|root| root.join("lib"));
    let installed = installed.iter().flat_map(|lib| [lib.join(name), lib.join("tensortap").join(name)]);
    places.into_iter().chain(installed).find(|path| path.is_file())
}

/// Libraries that a program loads through its environment.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// For programs that use the recording API.
    pub record: Option<PathBuf>,
    /// For the OpenCL loader.
    pub opencl: Option<PathBuf>,
    /// For the CUDA driver.
    pub cuda: Option<PathBuf>,
    /// Maximum number of captured bytes of a range with unknown end.
    pub max_range: Option<u64>,
    /// Whether equal content is sent again, because the collector may no longer have it.
    pub stores_all: bool,
}

/// The value of the layer variable: the user's layers, then tensortap's layer last, next to the program.
/// `None` for a path with a colon, which the variable cannot contain.
fn with_layer(layer: &Path, others: Option<OsString>) -> Option<OsString> {
    if layer.as_os_str().as_encoded_bytes().contains(&b':') {
        return None;
    }
    let mut layers = others.filter(|others| !others.is_empty()).unwrap_or_default();
    if !layers.is_empty() {
        layers.push(":");
    }
    layers.push(layer);
    Some(layers)
}

/// Starts the program with this process's open files, signals and process group.
pub fn start(command: &[OsString], socket: &Path, libraries: &Libraries) -> io::Result<Child> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).env(SOCKET_VARIABLE, socket);
    if let Some(library) = &libraries.record {
        command.env(LIBRARY_VARIABLE, library);
    }
    let layers =
        libraries.opencl.as_deref().and_then(|layer| with_layer(layer, std::env::var_os(OPENCL_LAYERS)));
    if let Some(layers) = layers {
        command.env(OPENCL_LAYERS, layers);
    }
    if let Some(library) = &libraries.cuda {
        command.env(CUDA_INJECTION, library);
        // Without this variable, ranges are not recorded, but everything else is.
        if std::env::var_os(NVTX_INJECTION).is_none_or(|taken| taken.is_empty()) {
            command.env(NVTX_INJECTION, library);
        }
    }
    if let Some(bytes) = libraries.max_range {
        command.env(MAX_RANGE, bytes.to_string());
    }
    if libraries.stores_all {
        command.env(STORE_ALL, "1");
    }
    with_file_limits_as_given(|| command.spawn())
}

/// Sends signals to one process, and never to a later process with the same number.
#[derive(Debug)]
pub struct ProcessSignaler(OwnedFd);

impl ProcessSignaler {
    /// For a child that was not waited for yet.
    pub fn new(child: &Child) -> io::Result<ProcessSignaler> {
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(ProcessSignaler(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal. Has no effect after the process has ended.
    pub fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = pidfd_send_signal(&self.0, signal);
        }
    }
}

/// How the command ended, for threads that wait for it.
#[derive(Debug, Default)]
pub struct CommandExit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl CommandExit {
    pub fn tell(&self, status: ExitStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.changed.notify_all();
    }

    /// Waits at most `limit`.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The exit status as a shell reports it: the code, or 128 plus the signal.
pub fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1)
}

/// Why no process has attached to the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoDumpReason {
    /// The program is linked statically, so the library cannot be loaded into it.
    Static,
    /// It runs with different privileges than the user and ignores libraries from the environment.
    SetUser,
    /// It starts processes on other hosts, which cannot attach.
    Launcher,
    /// The recording library was not found.
    NoLibrary,
    /// It does not call the recording API, or it ended before.
    NoCall,
}

/// Programs that start other programs, possibly on other machines.
const LAUNCHERS: [&str; 8] = ["mpirun", "mpiexec", "srun", "aprun", "jsrun", "prun", "orterun", "ssh"];

/// The most likely reason.
pub fn why_nothing(program: &OsStr, library: Option<&Path>) -> NoDumpReason {
    let file = in_path(program);
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let starts_others =
        LAUNCHERS.iter().any(|launcher| name == *launcher || name.starts_with(&format!("{launcher}.")));
    let mode =
        file.as_ref().and_then(|file| fs::metadata(file).ok()).map_or(0, |data| data.permissions().mode());
    match () {
        () if starts_others => NoDumpReason::Launcher,
        () if mode & 0o6000 != 0 => NoDumpReason::SetUser,
        () if file.is_some_and(|file| is_static(&file)) => NoDumpReason::Static,
        () if library.is_none() => NoDumpReason::NoLibrary,
        () => NoDumpReason::NoCall,
    }
}

/// The file that a program name refers to.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Program headers are within this many bytes of the file.
const HEAD_BYTES: u64 = 4096;

/// Whether a file is a 64-bit ELF program without an interpreter. False if it cannot be read.
fn is_static(file: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_ok() && has_interpreter(&head) == Some(false)
}

/// Returns `None` if this is not such a program, or its headers are elsewhere.
fn has_interpreter(head: &[u8]) -> Option<bool> {
    const INTERPRETER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    // 64 bits, little endian.
    head.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let first = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    let (first, size, count) = (usize::try_from(first).ok()?, usize::from(half(54)?), half(56)?);
    for number in 0..usize::from(count) {
        let at = first.checked_add(number.checked_mul(size)?)?;
        if u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?) == INTERPRETER {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header followed by program headers of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56 * kinds.len()];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[32] = 64;
        head[54] = 56;
        head[56] = u8::try_from(kinds.len()).unwrap();
        for (number, kind) in kinds.iter().enumerate() {
            head[64 + 56 * number..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert_eq!(has_interpreter(&elf(&[1, 1, 6])), Some(false));
        assert_eq!(has_interpreter(&elf(&[6, 3, 1])), Some(true));
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
        let mut cut = elf(&[1, 3]);
        cut.truncate(70);
        assert_eq!(has_interpreter(&cut), None);
        cut.truncate(20);
        assert_eq!(has_interpreter(&cut), None);
    }

    #[test]
    fn the_likeliest_reason_is_named_first() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, elf(&[1])).unwrap();
        let library = Some(Path::new("/lib/libtensortap.so"));
        let why = |program: &Path, library| why_nothing(program.as_os_str(), library);
        assert_eq!(why(&program, library), NoDumpReason::Static);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(why(&program, library), NoDumpReason::SetUser);
        assert_eq!(why(Path::new("/opt/mpi/bin/mpiexec.hydra"), None), NoDumpReason::Launcher);
        assert_eq!(why(Path::new("/bin/sh"), None), NoDumpReason::NoLibrary);
        assert_eq!(why(Path::new("/bin/sh"), library), NoDumpReason::NoCall);
    }

    #[test]
    fn our_layer_follows_the_existing_ones() {
        let layer = Path::new("/lib/libtensortap_opencl.so");
        let with = |others: Option<&str>| with_layer(layer, others.map(Into::into));
        assert_eq!(with(None), Some(layer.into()));
        assert_eq!(with(Some("")), Some(layer.into()));
        assert_eq!(with(Some("/a.so")), Some("/a.so:/lib/libtensortap_opencl.so".into()));
        assert_eq!(with_layer(Path::new("/a:b/layer.so"), None), None);
    }

    #[test]
    fn a_status_is_reported_as_by_a_shell() {
        assert_eq!(shell_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(shell_status(ExitStatus::from_raw(9)), 137);
        assert_eq!(shell_status(ExitStatus::from_raw(0)), 0);
    }
}
