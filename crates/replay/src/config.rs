use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::LaunchDevice;
use tensortap_abi::KernelAbi;
use tensortap_format::TaskChoice;
use tensortap_platform::{DeviceMode, Sanitizer};
use tensortap_scene::{FaultKind, KernelDef, Loader, Registry, Scene};

/// Identity of a kernel's code, as dumps record it.
pub type CodeOf = Arc<dyn Fn(&dyn Scene, &KernelDef) -> String + Send + Sync>;

/// Opens the scene folder that a capture names; the error is in words for the user.
pub type OpenFolder = Arc<dyn Fn(&Path) -> Result<(&'static dyn Scene, Loader), String> + Send + Sync>;

/// Loads nothing and makes a scene of this name with kernels of libraries in place of another scene's, or of these kernels alone; the
/// error is in words for the user.
pub type GiveKernels = Arc<
    dyn Fn(Option<&'static dyn Scene>, &str, &[KernelCode]) -> Result<(&'static dyn Scene, Loader), String>
        + Send
        + Sync,
>;

/// Where the code of a kernel is to be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCode {
    /// The kernel; of a dump of another project, its name or number, or a task where the dump knows no kernels.
    pub name: String,
    /// A shared library.
    pub path: PathBuf,
    /// The kernel's entry in it.
    pub symbol: String,
    /// How it takes its arguments; `None` for what a case says of its kernel, or as kernels of this project do.
    pub abi: Option<KernelAbi>,
    /// Set when it is not the user who names the library, but a case that brought it: its build, as the case says.
    pub of_case: Option<String>,
}

/// Devices that may fail before the rest of a replay is given up, unless told otherwise.
pub const DEFAULT_DEVICE_FAILURES: u64 = 256;

/// Which of the captured tasks are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every one, each for itself.
    All,
    /// Those that run a kernel which is given.
    Given,
    /// Those that one of these means.
    Tasks(Vec<TaskChoice>),
    /// One dispatch: a slot and a block of a task.
    Dispatch(u64),
}

/// All that `tensortap replay` can be told.
#[derive(Clone)]
pub struct ReplayConfig {
    /// A dump, a case, or a folder of cases.
    pub source: PathBuf,
    /// What of it.
    pub select: Selection,
    /// Only tasks of these steps, each range from its first to its last; empty for all.
    pub steps: Vec<(u64, u64)>,
    /// Only tasks with one of these kernels, by name, pattern or captured `func_id`; empty for all.
    pub funcs: Vec<String>,
    /// Platform to replay on; `None` for the one it was captured on.
    pub platform: Option<String>,
    /// Whether a simulated device is a process of its own.
    pub device_mode: DeviceMode,
    /// Whether what is replayed is trusted: then kernels may do in the device whatever they like. Otherwise the device is a process
    /// that is kept from all they do not need, which a thread of this process cannot be.
    pub trust: bool,
    /// Bytes of device memory; `None` for half of what is available.
    pub device_memory: Option<u64>,
    /// Of launches of OpenCL and CUDA, the device to replay on.
    pub launch_device: LaunchDevice,
    /// Executable to start as the device; `None` for this one.
    pub device_executable: Option<PathBuf>,
    /// Blocks of the device; `None` for one per CPU.
    pub blocks: Option<u32>,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Devices at once when many tasks are replayed; `None` for a default.
    pub jobs: Option<usize>,
    /// Time without progress after which a task is given up; `None` for never.
    pub stall_timeout: Option<Duration>,
    /// Devices that may crash or hang before the tasks that are left are given up: each failure costs a device; `None` for no limit.
    pub max_device_failures: Option<u64>,
    /// Arguments to replace: position and value as text; of a tensor, every element.
    pub set_args: Vec<(u16, String)>,
    /// Hold outputs against the references of the kernels, run on what the tasks were given, instead of what was captured.
    pub reference: bool,
    /// Replay what is not exactly as captured, too.
    pub allow_inexact: bool,
    /// Times each task is run.
    pub repeat: u32,
    /// Measure how long kernels take.
    pub bench: bool,
    /// A kernel to damage on purpose.
    pub inject_fault: Option<(String, FaultKind)>,
    /// Pass by `tensortap_before_kernel`, where a debugger can stop.
    pub stop_at_kernel: bool,
    /// Puts every argument in front of a page that nobody may touch: a kernel that leaves its arguments ends its device, and is named.
    pub guard: bool,
    /// What watches the kernels, which were compiled for it; only those of scene folders can be.
    pub sanitizer: Option<Sanitizer>,
    /// Says what the code of a kernel is here, to be held against what the capture says; `None` when nobody knows.
    pub code_of: Option<CodeOf>,
    /// The folder of the scene, instead of the one that a capture names.
    pub scene_folder: Option<PathBuf>,
    /// Opens the folders that captures name; `None` when nobody can.
    pub open_folder: Option<OpenFolder>,
    /// Kernels to take from libraries.
    pub kernels: Vec<KernelCode>,
    /// Blocks of every task, for dumps of another project.
    pub block_num: Option<u32>,
    /// Makes scenes of libraries; `None` when nobody can.
    pub give_kernels: Option<GiveKernels>,
    /// Scenes whose kernels can be run.
    pub registry: Registry,
}

impl ReplayConfig {
    /// Every task of a dump or case, with everything at its default.
    pub fn new(source: impl Into<PathBuf>, registry: Registry) -> ReplayConfig {
        ReplayConfig {
            source: source.into(),
            select: Selection::All,
            steps: Vec::new(),
            funcs: Vec::new(),
            platform: None,
            device_mode: DeviceMode::default(),
            trust: false,
            device_memory: None,
            launch_device: LaunchDevice::default(),
            device_executable: None,
            blocks: None,
            schedulers: 1,
            jobs: None,
            stall_timeout: Some(Duration::from_secs(10)),
            max_device_failures: Some(DEFAULT_DEVICE_FAILURES),
            set_args: Vec::new(),
            reference: false,
            allow_inexact: false,
            repeat: 1,
            bench: false,
            inject_fault: None,
            stop_at_kernel: false,
            guard: false,
            sanitizer: None,
            code_of: None,
            scene_folder: None,
            open_folder: None,
            kernels: Vec::new(),
            block_num: None,
            give_kernels: None,
            registry,
        }
    }
}
