use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::{DiskGate, DumpConfig};
use tensortap_platform::{DEFAULT_PLATFORM, DeviceMode, Sanitizer};
use tensortap_runtime::{BuildMode, DEFAULT_RING_SLOTS};
use tensortap_scene::{FaultKind, Registry, Tolerance};

/// Told, on some thread of the run, what the user should know at once.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// All that `tensortap run` can be told.
#[derive(Clone)]
pub struct RunConfig {
    /// Scene to run.
    pub scene: String,
    /// Parameters of the scene, as `(name, value)`.
    pub params: Vec<(String, String)>,
    /// Platform to run on.
    pub platform: String,
    /// Runtime; `None` for the scene's first.
    pub runtime: Option<String>,
    /// Blocks of the device, each one AIC and two AIV; `None` for one per CPU, at least one per scheduler.
    pub blocks: Option<u32>,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Whether a simulated device is a process of its own.
    pub device_mode: DeviceMode,
    /// Bytes of device memory; `None` for half of what is available.
    pub device_memory: Option<u64>,
    /// Executable to start as the device; `None` for this one.
    pub device_executable: Option<PathBuf>,
    /// When the graph is built (`aicpu_build_graph`).
    pub build: BuildMode,
    /// Slots of each task ring (`tensormap_and_ringbuffer`).
    pub ring_slots: u32,
    /// Bytes of each heap ring (`tensormap_and_ringbuffer`); `None` for a default that fits the device.
    pub ring_heap: Option<u64>,
    /// Time without progress after which the run is given up; `None` for never.
    pub stall_timeout: Option<Duration>,
    /// Tolerances of outputs, by name, in place of the scene's own.
    pub tolerances: Vec<(String, Tolerance)>,
    /// A kernel to damage on purpose.
    pub inject_fault: Option<(String, FaultKind)>,
    /// Fills outputs and new memory with this byte first, so that reads of unwritten bytes show.
    pub poison: Option<u8>,
    /// Lets every tensor end at a page that nobody may touch, with a canary around it that is looked at after each kernel: a kernel that
    /// leaves its tensors ends the run.
    pub guard: bool,
    /// What watches the kernels; the folder of the scene was [opened](crate::FolderOptions) with the same.
    pub sanitizer: Option<Sanitizer>,
    /// What to record; `None`, or one that records nothing, for no dump at all.
    pub dump: Option<DumpConfig>,
    /// Folder for the dump, which must not exist or be empty; `None` for a new one under `outputs/`.
    pub out: Option<PathBuf>,
    /// Hears at once what the user should know during the run: that the disk is full, say.
    pub warn: Option<Warn>,
    /// Asked before anything of the dump is written; `None` for nobody.
    pub disk: Option<Arc<dyn DiskGate>>,
    /// Scenes that can be run.
    pub registry: Registry,
}

impl RunConfig {
    /// A scene with everything at its default.
    pub fn new(scene: &str) -> RunConfig {
        RunConfig {
            scene: scene.into(),
            params: Vec::new(),
            platform: DEFAULT_PLATFORM.into(),
            runtime: None,
            blocks: None,
            schedulers: 1,
            device_mode: DeviceMode::default(),
            device_memory: None,
            device_executable: None,
            build: BuildMode::default(),
            ring_slots: DEFAULT_RING_SLOTS,
            ring_heap: None,
            stall_timeout: Some(Duration::from_secs(10)),
            tolerances: Vec::new(),
            inject_fault: None,
            poison: None,
            guard: false,
            sanitizer: None,
            dump: None,
            out: None,
            warn: None,
            disk: None,
            registry: tensortap_scenes::builtin(),
        }
    }

    /// The same with one parameter more.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads well with numbers")]
    pub fn param(mut self, name: &str, value: impl ToString) -> RunConfig {
        self.params.push((name.into(), value.to_string()));
        self
    }

    /// Blocks after defaults.
    pub(crate) fn block_count(&self) -> u32 {
        let cpus = available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
        let most = u32::try_from(tensortap_abi::MAX_BLOCKS).unwrap_or(u32::MAX);
        self.blocks.unwrap_or(cpus.max(self.schedulers).min(most))
    }
}
