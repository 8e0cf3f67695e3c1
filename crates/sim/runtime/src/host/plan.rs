use std::time::Duration;

use tensortap_abi::{
    ControlLayout, DType, DeviceAddr, DeviceRange, KernelArgs, KernelName, LAUNCH_MAGIC, LAYOUT_VERSION,
    MAX_BLOCKS, MAX_SCHEDULERS, NO_KERNEL, SLOTS_PER_TASK, TensorDesc,
};
use tensortap_platform::Device;
use tensortap_scene::{FaultKind, HostArgs, KernelDef, Location, Params, PlacedArg, Scene};
use zerocopy::IntoBytes;

use super::dump::HostGraph;
use super::failure::{RunError, millis};
use super::guard::GuardOptions;
use crate::runtimes::{BuildMode, Runtime};

/// Default number of task slots per ring.
pub const DEFAULT_RING_SLOTS: u32 = 16_384;
/// Default size of each heap ring, if the device has enough memory.
const DEFAULT_RING_HEAP_BYTES: u64 = 256 << 20;
/// The largest number of task slots per ring.
pub const MAX_RING_SLOTS: u32 = 1 << 20;
const ALIGN: u64 = 64;
/// Threads of a device besides schedulers and cores: main, link, orchestrator, prefaulting.
const DEVICE_THREADS: u64 = 4;

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The damaged kernel.
    pub func_id: u32,
    /// The kind of damage.
    pub kind: FaultKind,
}

/// Options of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// Number of blocks.
    pub blocks: u32,
    /// Number of scheduler threads.
    pub schedulers: u32,
    /// When the graph is built.
    pub build: BuildMode,
    /// Slots of each task ring, rounded up to a power of two.
    pub ring_slots: u32,
    /// Bytes of each heap ring. `None` selects a default that fits the device.
    pub ring_heap_bytes: Option<u64>,
    /// Time without progress after which the run is canceled. `None` means never.
    pub stall_timeout: Option<Duration>,
    /// A fault to inject.
    pub fault: Option<Fault>,
    /// Fill outputs and new memory with this byte, so that reads of uninitialized bytes become visible.
    pub poison: Option<u8>,
    /// Guards around tensors.
    pub guarding: GuardOptions,
}

impl LaunchOptions {
    pub(super) fn check(&self) -> Result<(), RunError> {
        let bad =
            |option, value: String, expected: String| Err(RunError::BadOption { option, value, expected });
        if self.blocks == 0 || self.blocks as usize > MAX_BLOCKS {
            return bad("--blocks", self.blocks.to_string(), format!("valid values are 1 to {MAX_BLOCKS}"));
        }
        if self.schedulers == 0 || self.schedulers as usize > MAX_SCHEDULERS {
            return bad(
                "--schedulers",
                self.schedulers.to_string(),
                format!("valid values are 1 to {MAX_SCHEDULERS}"),
            );
        }
        if self.ring_slots == 0 || self.ring_slots > MAX_RING_SLOTS {
            return bad(
                "--ring-slots",
                self.ring_slots.to_string(),
                format!("valid values are 1 to {MAX_RING_SLOTS}"),
            );
        }
        if self.ring_heap_bytes.is_some_and(|b| !(ALIGN..=1 << 40).contains(&b)) {
            let value = self.ring_heap_bytes.unwrap_or(0).to_string();
            return bad("--ring-heap", value, format!("valid values are {ALIGN} bytes to 1 TiB"));
        }
        Ok(())
    }
}

/// A launch in preparation. Reserves device memory and stores its addresses in the launch arguments.
pub struct Plan<'a> {
    /// The device.
    pub device: &'a mut dyn Device,
    /// The launch arguments so far.
    pub args: KernelArgs,
    /// The scene to run.
    pub scene: &'static dyn Scene,
    /// Its parameters.
    pub params: &'a Params,
    /// Whether the run is dumped.
    pub is_recorded: bool,
    /// The graph, if the host built it.
    pub graph: HostGraph,
    options: LaunchOptions,
    arg_descs: Vec<TensorDesc>,
    reserved: Vec<DeviceAddr>,
    guards: Vec<DeviceRange>,
}

impl<'a> Plan<'a> {
    /// Copies the scene's arguments and names to the device, and lets the runtime reserve its memory.
    pub(super) fn new(
        device: &'a mut dyn Device,
        scene: &'static dyn Scene,
        params: &'a Params,
        runtime: &dyn Runtime,
        options: LaunchOptions,
        inputs: &HostArgs,
        is_recorded: bool,
    ) -> Result<Plan<'a>, RunError> {
        let mut plan = Plan::with_names(device, scene, params, runtime, options)?;
        plan.is_recorded = is_recorded;
        plan.upload_args(inputs)?;
        runtime.prepare(&mut plan)?;
        Ok(plan)
    }

    /// A plan with a control area and names only, without arguments and tasks.
    pub(super) fn with_names(
        device: &'a mut dyn Device,
        scene: &'static dyn Scene,
        params: &'a Params,
        runtime: &dyn Runtime,
        options: LaunchOptions,
    ) -> Result<Plan<'a>, RunError> {
        let mut plan = Plan {
            device,
            args: launch_args(&options),
            scene,
            params,
            is_recorded: false,
            graph: HostGraph::default(),
            options,
            arg_descs: Vec::new(),
            reserved: Vec::new(),
            guards: Vec::new(),
        };
        let control = ControlLayout { cores: options.blocks as usize * SLOTS_PER_TASK }.bytes();
        plan.args.control = plan.upload(&vec![0; control], "the control area")?;
        plan.args.scene = plan.upload(scene.name().as_bytes(), "the scene's name")?;
        plan.args.runtime = plan.upload(runtime.name().as_bytes(), "the runtime's name")?;
        plan.args.params = plan.upload(params.to_lines().as_bytes(), "the scene's parameters")?;
        scene.kernels().iter().try_for_each(KernelDef::check_names)?;
        let names: Result<Vec<KernelName>, RunError> = scene
            .kernels()
            .iter()
            .map(|k| KernelName::new(k.func_id, k.name).ok_or(RunError::KernelName(k.name)))
            .collect();
        plan.args.kernels = plan.upload(names?.as_bytes(), "kernel names")?;
        Ok(plan)
    }

    /// Device memory that is left for the runtime, in bytes.
    pub fn memory_left(&self) -> u64 {
        let used: u64 = self.arg_descs.iter().map(|d| d.buffer_bytes).sum();
        self.device.memory().bytes.saturating_sub(used)
    }

    /// Slots of each task ring.
    pub fn ring_slots(&self) -> u32 {
        self.options.ring_slots.next_power_of_two()
    }

    /// Bytes of each heap ring: a multiple of a cache line, or of a page if tensors are guarded.
    pub fn ring_heap_bytes(&self) -> u64 {
        let default = DEFAULT_RING_HEAP_BYTES.min(self.memory_left() / 16);
        let align = self.options.guarding.layout().map_or(ALIGN, |layout| layout.page_bytes);
        self.options.ring_heap_bytes.unwrap_or(default).next_multiple_of(align)
    }

    /// Reserves device memory without changing its content.
    pub fn reserve(&mut self, bytes: u64, what: &str) -> Result<DeviceRange, RunError> {
        let addr = self.reserve_aligned(bytes, ALIGN, what)?;
        Ok(DeviceRange { addr, bytes })
    }

    /// Like [`Plan::reserve`], at a multiple of `align`.
    pub(super) fn reserve_aligned(
        &mut self,
        bytes: u64,
        align: u64,
        what: &str,
    ) -> Result<DeviceAddr, RunError> {
        let addr = self.device.allocate(bytes.max(1), align, what)?;
        self.reserved.push(addr);
        Ok(addr)
    }

    /// Takes ownership of device memory that a runtime allocated. It is freed after the run. `tensors` are
    /// the tensors in it.
    pub fn adopt(&mut self, allocated: Vec<DeviceAddr>, tensors: &[DeviceRange]) {
        self.reserved.extend(allocated);
        self.guard(tensors);
    }

    /// The guards around tensors.
    pub fn guarding(&self) -> GuardOptions {
        self.options.guarding
    }

    /// Adds tensors for the device to guard, if guards are on.
    pub(super) fn guard(&mut self, tensors: &[DeviceRange]) {
        if self.options.guarding.is_on() {
            self.guards.extend(tensors);
        }
    }

    /// Reserves memory for intermediate tensors that the device places. Whole pages if tensors are guarded.
    pub fn reserve_heap(&mut self, bytes: u64, what: &str) -> Result<DeviceRange, RunError> {
        let align = self.options.guarding.layout().map_or(ALIGN, |layout| layout.page_bytes);
        let addr = self.reserve_aligned(bytes, align, what)?;
        Ok(DeviceRange { addr, bytes })
    }

    /// Reserves and fills memory for a tensor.
    fn upload_tensor(&mut self, bytes: &[u8], what: &str) -> Result<DeviceRange, RunError> {
        let (range, allocated) = self.options.guarding.allocate(self.device, bytes.len() as u64, what)?;
        self.reserved.push(allocated);
        self.guard(&[range]);
        self.device.copy_to(range.addr, bytes)?;
        Ok(range)
    }

    /// Reserves and fills device memory.
    pub fn upload(&mut self, bytes: &[u8], what: &str) -> Result<DeviceRange, RunError> {
        let range = self.reserve(bytes.len() as u64, what)?;
        self.device.copy_to(range.addr, bytes)?;
        Ok(range)
    }

    /// The arguments of the orchestration, with their locations.
    pub fn placed_args(&self) -> Vec<PlacedArg> {
        let specs = self.scene.args(self.params).into_iter();
        specs
            .zip(&self.arg_descs)
            .map(|(s, d)| PlacedArg::new(s, Location::permanent(d.buffer_addr)))
            .collect()
    }

    /// The address ranges of the orchestration's arguments.
    pub(super) fn arg_ranges(&self) -> Vec<DeviceRange> {
        self.arg_descs.iter().map(|d| DeviceRange { addr: d.buffer_addr, bytes: d.buffer_bytes }).collect()
    }

    fn upload_args(&mut self, inputs: &HostArgs) -> Result<(), RunError> {
        for (spec, tensor) in self.scene.args(self.params).iter().zip(&inputs.0) {
            let what = format!("argument `{}`", spec.name);
            let range = match self.options.poison.filter(|_| !spec.role.reads()) {
                Some(pattern) => self.upload_tensor(&vec![pattern; tensor.bytes.len()], &what)?,
                None => self.upload_tensor(&tensor.bytes, &what)?,
            };
            self.arg_descs.push(contiguous_desc(spec.dtype, &spec.shape, range));
        }
        let descs = std::mem::take(&mut self.arg_descs);
        self.args.args = self.upload(descs.as_bytes(), "argument descriptors")?;
        self.arg_descs = descs;
        Ok(())
    }

    /// Writes the launch arguments. Returns their address, and the addresses to free after the run.
    pub(super) fn finish(mut self) -> Result<(DeviceAddr, KernelArgs, Vec<DeviceAddr>), RunError> {
        if self.options.guarding.is_on() {
            let threads = u64::from(self.args.schedulers + self.args.blocks * 3) + DEVICE_THREADS;
            self.args.guard_flags = self.options.guarding.flags();
            self.args.guard_most = self.options.guarding.limit(threads, self.guards.len())?;
            let guards = std::mem::take(&mut self.guards);
            self.args.guards = self.upload(guards.as_bytes(), "guarded tensors")?;
        }
        let args = self.args;
        let addr = self.upload(args.as_bytes(), "the launch arguments")?.addr;
        Ok((addr, args, self.reserved))
    }
}

fn launch_args(options: &LaunchOptions) -> KernelArgs {
    KernelArgs {
        magic: LAUNCH_MAGIC,
        layout_version: LAYOUT_VERSION,
        blocks: options.blocks,
        schedulers: options.schedulers,
        build_mode: options.build as u32,
        stall_timeout_ms: options.stall_timeout.map_or(0, millis),
        fault_func_id: options.fault.map_or(NO_KERNEL, |f| f.func_id),
        fault_kind: options.fault.map_or(0, |f| f.kind.tag()),
        poison: options.poison.map_or(0, |byte| 0x100 | u32::from(byte)),
        ..KernelArgs::default()
    }
}

fn contiguous_desc(dtype: DType, shape: &[u64], range: DeviceRange) -> TensorDesc {
    let mut desc = TensorDesc {
        buffer_addr: range.addr,
        buffer_bytes: range.bytes,
        owner_task: TensorDesc::NO_OWNER,
        dtype: dtype.tag(),
        ndims: u8::try_from(shape.len()).unwrap_or(u8::MAX),
        ..TensorDesc::default()
    };
    let mut stride = 1;
    for (dim, &size) in shape.iter().enumerate().rev() {
        desc.shape[dim] = size;
        desc.strides[dim] = stride;
        stride *= size.cast_signed();
    }
    desc
}
