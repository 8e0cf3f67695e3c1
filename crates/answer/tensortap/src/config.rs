use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::{DiskGate, DumpConfig};
use tensortap_platform::{DEFAULT_PLATFORM, DeviceMode, Sanitizer};
use tensortap_runtime::{BuildMode, DEFAULT_RING_SLOTS};
use tensortap_scene::{FaultKind, Registry, Tolerance};
use tensortap_sync::parallel::cpu_count;

/// A function that receives warnings during a run, on any thread of the run.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// All options of `tensortap run`.
#[derive(Clone)]
pub struct RunConfig {
    /// Scene to run.
    pub scene: String,
    /// Parameters of the scene, as `(name, value)`.
    pub params: Vec<(String, String)>,
    /// Platform to run on.
    pub platform: String,
    /// Runtime; `None` means the scene's first one.
    pub runtime: Option<String>,
    /// Blocks of the device, each with one AIC and two AIV; `None` means one per CPU, but at least one per
    /// scheduler.
    pub blocks: Option<u32>,
    /// Number of scheduler threads.
    pub schedulers: u32,
    /// Whether a simulated device is a separate process.
    pub device_mode: DeviceMode,
    /// Bytes of device memory; `None` means half of the available memory.
    pub device_memory: Option<u64>,
    /// Executable to start as the device; `None` means this one.
    pub device_executable: Option<PathBuf>,
    /// When the graph is built (`aicpu_build_graph`).
    pub build: BuildMode,
    /// Slots of each task ring (`tensormap_and_ringbuffer`).
    pub ring_slots: u32,
    /// Bytes of each heap ring (`tensormap_and_ringbuffer`); `None` means a default that fits the device.
    pub ring_heap: Option<u64>,
    /// Time without progress after which the run is stopped; `None` means never.
    pub stall_timeout: Option<Duration>,
    /// Tolerances of outputs by name; they override the scene's own.
    pub tolerances: Vec<(String, Tolerance)>,
    /// A fault to inject into a kernel.
    pub inject_fault: Option<(String, FaultKind)>,
    /// Fills outputs and new memory with this byte first, so that reads of unwritten bytes are visible.
    pub poison: Option<u8>,
    /// Places an inaccessible page after every tensor and a canary around it, which is checked after each
    /// kernel. A kernel that accesses memory outside its tensors ends the run.
    pub guard: bool,
    /// The sanitizer of the kernels. The scene's folder must be [opened](crate::FolderOptions) with the
    /// same one.
    pub sanitizer: Option<Sanitizer>,
    /// What to record. `None`, or a configuration that records nothing, means no dump.
    pub dump: Option<DumpConfig>,
    /// Folder for the dump, which must be new or empty; `None` means a new one in `outputs/`.
    pub out: Option<PathBuf>,
    /// Receives warnings during the run, for example that the disk is full.
    pub warn: Option<Warn>,
    /// Called before anything is written to the dump.
    pub disk: Option<Arc<dyn DiskGate>>,
    /// Scenes that can be run.
    pub registry: Registry,
}

impl RunConfig {
    /// A scene with default options.
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

    /// Adds a parameter.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads well with numbers")]
    pub fn param(mut self, name: &str, value: impl ToString) -> RunConfig {
        self.params.push((name.into(), value.to_string()));
        self
    }

    /// Number of blocks, with defaults applied.
    pub(crate) fn block_count(&self) -> u32 {
        let cpus = u32::try_from(cpu_count()).unwrap_or(u32::MAX);
        let most = u32::try_from(tensortap_abi::MAX_BLOCKS).unwrap_or(u32::MAX);
        self.blocks.unwrap_or(cpus.max(self.schedulers).min(most))
    }
}
