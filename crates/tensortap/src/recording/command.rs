//! The program: started, waited for, and what came of it.

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

/// What the library's file is called.
pub const LIBRARY: &str = "libtensortap.so";
/// What the file of OpenCL's layer is called.
pub const OPENCL_LAYER: &str = "libtensortap_opencl.so";
/// What the file that CUDA's driver loads is called.
pub const CUDA_LIBRARY: &str = "libtensortap_cuda.so";
/// The variable by which CUDA's driver finds a library to load: one path.
pub const CUDA_INJECTION: &str = "CUDA_INJECTION64_PATH";
/// The variable that says how many bytes of a range are captured at most.
const MAX_RANGE: &str = "TENSORTAP_MAX_RANGE";
/// The variable that says that content which was sent may be stored no more.
const STORE_ALL: &str = "TENSORTAP_STORE_ALL";
/// The variable by which OpenCL's loader finds layers: paths with colons between.
const OPENCL_LAYERS: &str = "OPENCL_LAYERS";

/// A library that programs are recorded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingLibrary {
    /// For programs that record themselves.
    Program,
    /// For OpenCL's loader.
    OpenCl,
    /// For CUDA's driver.
    Cuda,
}

impl RecordingLibrary {
    /// What its file is called.
    pub const fn file(self) -> &'static str {
        match self {
            RecordingLibrary::Program => LIBRARY,
            RecordingLibrary::OpenCl => OPENCL_LAYER,
            RecordingLibrary::Cuda => CUDA_LIBRARY,
        }
    }
}

/// Where a library lies that goes with this program: beside it, where cargo puts it, or where it is installed.
pub fn find_library(name: &str) -> Option<PathBuf> {
    let executable = fs::canonicalize(std::env::current_exe().ok()?).ok()?;
    let dir = executable.parent()?;
    let places = [dir.join(name), dir.join("deps").join(name)];
    let installed = dir.parent().map(|root| root.join("lib"));
    let installed = installed.iter().flat_map(|lib| [lib.join(name), lib.join("tensortap").join(name)]);
    places.into_iter().chain(installed).find(|path| path.is_file())
}

/// Libraries that a program is told of.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// For programs that record themselves.
    pub record: Option<PathBuf>,
    /// For OpenCL's loader.
    pub opencl: Option<PathBuf>,
    /// For CUDA's driver.
    pub cuda: Option<PathBuf>,
    /// Bytes of a range that are captured at most, where its end is not known.
    pub max_range: Option<u64>,
    /// Whether equal content is sent again: the collector may not have it any more.
    pub stores_all: bool,
}

/// Layers that a loader takes: those it takes anyway, and ours before them, next to the program. A path with a colon cannot be said.
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

/// Starts the program with this process's files, signals and group.
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
    }
    if let Some(bytes) = libraries.max_range {
        command.env(MAX_RANGE, bytes.to_string());
    }
    if libraries.stores_all {
        command.env(STORE_ALL, "1");
    }
    with_file_limits_as_given(|| command.spawn())
}

/// Sends signals to one process, and never to another that has its number later.
#[derive(Debug)]
pub struct Signaller(OwnedFd);

impl Signaller {
    /// For a child that nobody has waited for yet.
    pub fn new(child: &Child) -> io::Result<Signaller> {
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Signaller(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends one; a process that has ended needs none.
    pub fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = pidfd_send_signal(&self.0, signal);
        }
    }
}

/// How the command ended, for those who wait to know.
#[derive(Debug, Default)]
pub struct Ended {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Ended {
    pub fn tell(&self, status: ExitStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.changed.notify_all();
    }

    /// Waits for it at most so long.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// As a shell says it: the code, or 128 and the signal.
pub fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1)
}

/// Why nothing may have attached to a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNothing {
    /// The program is linked statically: the library cannot be loaded into it.
    Static,
    /// It runs with other rights than the user's, and then takes no library from the environment.
    SetUser,
    /// It starts processes on other hosts, which cannot attach.
    Launcher,
    /// The library that programs record with was not found.
    NoLibrary,
    /// It does not call the recording API, or ended before.
    NoCall,
}

/// Programs that start others, on other machines perhaps.
const LAUNCHERS: [&str; 8] = ["mpirun", "mpiexec", "srun", "aprun", "jsrun", "prun", "orterun", "ssh"];

/// The likeliest reason.
pub fn why_nothing(program: &OsStr, library: Option<&Path>) -> WhyNothing {
    let file = in_path(program);
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let starts_others =
        LAUNCHERS.iter().any(|launcher| name == *launcher || name.starts_with(&format!("{launcher}.")));
    let mode =
        file.as_ref().and_then(|file| fs::metadata(file).ok()).map_or(0, |data| data.permissions().mode());
    match () {
        () if starts_others => WhyNothing::Launcher,
        () if mode & 0o6000 != 0 => WhyNothing::SetUser,
        () if file.is_some_and(|file| is_static(&file)) => WhyNothing::Static,
        () if library.is_none() => WhyNothing::NoLibrary,
        () => WhyNothing::NoCall,
    }
}

/// The file that is meant by a program's name.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Headers of programs lie within so much of the file.
const HEAD_BYTES: u64 = 4096;

/// Whether a file is an ELF program of 64 bits that names no interpreter. What cannot be read is not.
fn is_static(file: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_ok() && has_interpreter(&head) == Some(false)
}

/// `None`: this is no such program, or its headers lie elsewhere.
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

    /// An ELF header with program headers of these kinds behind it.
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
        assert_eq!(why(&program, library), WhyNothing::Static);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(why(&program, library), WhyNothing::SetUser);
        assert_eq!(why(Path::new("/opt/mpi/bin/mpiexec.hydra"), None), WhyNothing::Launcher);
        assert_eq!(why(Path::new("/bin/sh"), None), WhyNothing::NoLibrary);
        assert_eq!(why(Path::new("/bin/sh"), library), WhyNothing::NoCall);
    }

    #[test]
    fn a_layer_stands_behind_those_that_are_there_already() {
        let layer = Path::new("/lib/libtensortap_opencl.so");
        let with = |others: Option<&str>| with_layer(layer, others.map(Into::into));
        assert_eq!(with(None), Some(layer.into()));
        assert_eq!(with(Some("")), Some(layer.into()));
        assert_eq!(with(Some("/a.so")), Some("/a.so:/lib/libtensortap_opencl.so".into()));
        assert_eq!(with_layer(Path::new("/a:b/layer.so"), None), None);
    }

    #[test]
    fn a_status_is_as_a_shell_says_it() {
        assert_eq!(shell_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(shell_status(ExitStatus::from_raw(9)), 137);
        assert_eq!(shell_status(ExitStatus::from_raw(0)), 0);
    }
}
