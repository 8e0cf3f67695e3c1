use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::LaunchDevice;
use tensortap_abi::KernelAbi;
use tensortap_format::TaskChoice;
use tensortap_platform::{DeviceMode, Sanitizer};
use tensortap_scene::{FaultKind, KernelDef, Loader, Registry, Scene};

/// Returns the identity of a kernel's code, as dumps record it.
pub type CodeIdentity = Arc<dyn Fn(&dyn Scene, &KernelDef) -> String + Send + Sync>;

/// Opens a scene folder. The error is a message for the user.
pub type OpenFolder = Arc<dyn Fn(&Path) -> Result<(&'static dyn Scene, Loader), String> + Send + Sync>;

/// Makes a scene of this name without loading any library: the libraries' kernels replace those of the base
/// scene, or are its only kernels without a base scene. The error is a message for the user.
pub type LoadKernels = Arc<
    dyn Fn(Option<&'static dyn Scene>, &str, &[KernelCode]) -> Result<(&'static dyn Scene, Loader), String>
        + Send
        + Sync,
>;

/// The library that provides a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCode {
    /// The kernel. For a dump of another project: its name or number, or a task if the dump does not name
    /// kernels.
    pub name: String,
    /// A shared library.
    pub path: PathBuf,
    /// Symbol of the kernel's entry.
    pub symbol: String,
    /// ABI of its arguments; `None` for the ABI in the case, or the default ABI.
    pub abi: Option<KernelAbi>,
    /// Set if a case names the library instead of the user: the build id in the case.
    pub of_case: Option<String>,
}

/// Default limit on device failures before the remaining tasks are canceled.
pub const DEFAULT_DEVICE_FAILURES: u64 = 256;

/// Which of the captured tasks are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All tasks.
    All,
    /// Tasks that run a kernel from a library that the user passed.
    LibraryKernels,
    /// Tasks that match one of these.
    Tasks(Vec<TaskChoice>),
    /// One dispatch: a slot and a block of a task.
    Dispatch(u64),
}

/// Options of `tensortap replay`.
#[derive(Clone)]
pub struct ReplayConfig {
    /// A dump, a case, or a folder of cases.
    pub source: PathBuf,
    /// The tasks to replay.
    pub select: Selection,
    /// Only tasks of these steps, each range from its first to its last; empty for all.
    pub steps: Vec<(u64, u64)>,
    /// Only tasks with one of these kernels, by name, pattern or captured `func_id`; empty for all.
    pub funcs: Vec<String>,
    /// Platform to replay on; `None` for the captured one.
    pub platform: Option<String>,
    /// Whether a simulated device runs in its own process.
    pub device_mode: DeviceMode,
    /// Whether the replayed code is trusted. Trusted kernels run without confinement. Otherwise the device
    /// runs in a confined process; a thread of this process cannot be confined.
    pub trust: bool,
    /// Bytes of device memory; `None` for half of what is available.
    pub device_memory: Option<u64>,
    /// Device for OpenCL and CUDA launches.
    pub launch_device: LaunchDevice,
    /// Executable of the device process; `None` for this one.
    pub device_executable: Option<PathBuf>,
    /// Blocks of the device; `None` for one per CPU.
    pub blocks: Option<u32>,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Number of devices to use at once; `None` for a default.
    pub jobs: Option<usize>,
    /// Time without progress after which a task is canceled; `None` for no limit.
    pub stall_timeout: Option<Duration>,
    /// Limit on crashed or hung devices, after which the remaining tasks are canceled; `None` for no limit.
    pub max_device_failures: Option<u64>,
    /// Arguments to replace: position and value as text. For a tensor, the value replaces every element.
    pub set_args: Vec<(u16, String)>,
    /// Compare outputs with the references of the kernels, run on the same inputs, instead of the captured
    /// outputs.
    pub reference: bool,
    /// Also replay tasks with inexact arguments.
    pub allow_inexact: bool,
    /// Number of runs per task.
    pub repeat: u32,
    /// Measure kernel times.
    pub bench: bool,
    /// A kernel to damage, and how.
    pub inject_fault: Option<(String, FaultKind)>,
    /// Call `tensortap_before_kernel` before each kernel, as a place for breakpoints.
    pub stop_at_kernel: bool,
    /// Place every argument directly before an inaccessible page. A kernel that writes past an argument
    /// crashes its device, and the report names it.
    pub guard: bool,
    /// Sanitizer that the kernels were compiled with. Only kernels of scene folders support it.
    pub sanitizer: Option<Sanitizer>,
    /// Identifies the code of a kernel in this executable, for comparison with the capture; `None` if
    /// unknown.
    pub code_of: Option<CodeIdentity>,
    /// Scene folder to use instead of the one in the capture.
    pub scene_folder: Option<PathBuf>,
    /// Opens scene folders; `None` if the program cannot.
    pub open_folder: Option<OpenFolder>,
    /// Kernels from libraries.
    pub kernels: Vec<KernelCode>,
    /// Number of blocks per task, for dumps of another project.
    pub block_num: Option<u32>,
    /// Makes scenes from libraries; `None` if the program cannot.
    pub load_kernels: Option<LoadKernels>,
    /// Known scenes with their kernels.
    pub registry: Registry,
}

impl ReplayConfig {
    /// Replays every task of a dump or case with default options.
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
            load_kernels: None,
            registry,
        }
    }
}
