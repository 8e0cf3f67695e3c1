use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{BlockContext, SubtaskContext, assert_layout};

/// First word of [`KernelArgs`].
pub const LAUNCH_MAGIC: u64 = 0x5441_5041_5247_5331;
/// Version of every layout in this crate. Host and device reject each other if their versions differ.
pub const LAYOUT_VERSION: u32 = 2;

/// Bit of [`KernelArgs::dump_enable`]: record tensors.
pub const DUMP_TENSORS: u32 = 1;
/// Bit of [`KernelArgs::dump_enable`]: record the final arguments of dispatches.
pub const DUMP_ARGS: u32 = 2;

/// Bit of [`KernelArgs::call_flags`]: measure how long each kernel takes ([`crate::CoreControl::kernel_ns`]).
pub const CALL_TIMED: u32 = 1;
/// Bit of [`KernelArgs::call_flags`]: call a function where a debugger can stop, right before each kernel.
pub const CALL_ANNOUNCED: u32 = 2;
/// Bit of [`KernelArgs::call_flags`]: kernels find the launch's contexts in slots 48 and 49.
pub const CALL_CONTEXT: u32 = 4;

/// Bit of [`KernelArgs::guard_flags`]: an inaccessible page follows each tensor.
pub const GUARD_PAGES: u32 = 1;
/// Bit of [`KernelArgs::guard_flags`]: the memory between a tensor and the ends of its pages holds a
/// canary, which is checked after each kernel.
pub const GUARD_CANARY: u32 = 2;
/// Bit of [`KernelArgs::guard_flags`]: an address sanitizer in the device process marks the memory between
/// tensors as inaccessible.
pub const GUARD_SHADOW: u32 = 4;

/// Rings of `tensormap_and_ringbuffer`: one per scope depth, the last shared by all deeper scopes.
pub const RING_COUNT: usize = 4;

/// A range of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceRange {
    /// First byte.
    pub addr: u64,
    /// Size.
    pub bytes: u64,
}
assert_layout!(DeviceRange, size 16, align 8, addr @ 0, bytes @ 8);

impl DeviceRange {
    /// Address just after the range.
    pub const fn end(self) -> u64 {
        self.addr + self.bytes
    }
}

/// The launch arguments: everything that the device receives for a run. They contain only numbers and
/// device addresses. Scenes, kernels, runtimes and orchestrations are passed by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct KernelArgs {
    /// [`LAUNCH_MAGIC`].
    pub magic: u64,
    /// [`LAYOUT_VERSION`].
    pub layout_version: u32,
    /// Number of blocks of the device, each with one AIC and two AIV.
    pub blocks: u32,
    /// Number of scheduler threads.
    pub schedulers: u32,
    /// `BuildMode` tag: 0 concurrent, 1 sequential.
    pub build_mode: u32,
    /// Time without progress after which the run counts as stalled; 0 means never.
    pub stall_timeout_ms: u64,
    /// The [`crate::DeviceControl`] and the areas after it.
    pub control: DeviceRange,
    /// UTF-8 name of the scene.
    pub scene: DeviceRange,
    /// UTF-8 name of the runtime.
    pub runtime: DeviceRange,
    /// Scene parameters, UTF-8 `key=value` lines.
    pub params: DeviceRange,
    /// [`crate::KernelName`]s of the scene.
    pub kernels: DeviceRange,
    /// [`crate::TensorDesc`]s of the orchestration's own arguments.
    pub args: DeviceRange,
    /// Room for [`crate::TaskSlot`]s, all rings together.
    pub tasks: DeviceRange,
    /// Room for [`crate::EdgeNode`]s, all rings together.
    pub edges: DeviceRange,
    /// Room for payloads.
    pub payloads: DeviceRange,
    /// Room for intermediate tensors, all rings together.
    pub heap: DeviceRange,
    /// Number of tasks that the host has already built (`host_build_graph`).
    pub task_count: u32,
    /// Slots of each ring, a power of two (`tensormap_and_ringbuffer`).
    pub ring_slots: u32,
    /// Kernel with an injected fault; [`crate::NO_KERNEL`] for none.
    pub fault_func_id: u32,
    /// `FaultKind` tag.
    pub fault_kind: u32,
    /// Start of the dump region. It does not state whether a dump is enabled; `dump_enable` does.
    pub dump_data_base: u64,
    /// [`DUMP_TENSORS`] and [`DUMP_ARGS`].
    pub dump_enable: u32,
    /// Fill pattern of heap memory before it is handed out, which exposes reads of unwritten bytes: 0 for
    /// none, else `0x100
    /// byte`.
    pub poison: u32,
    /// Options of a replay for each kernel call: [`CALL_TIMED`], [`CALL_ANNOUNCED`], [`CALL_CONTEXT`].
    pub call_flags: u32,
    /// Zero.
    pub reserved0: u32,
    /// With [`CALL_CONTEXT`]: the block context that the kernel receives.
    pub call_block: BlockContext,
    /// With [`CALL_CONTEXT`]: the subtask context that the kernel receives.
    pub call_subtask: SubtaskContext,
    /// [`DeviceRange`]s of the tensors that the host has placed according to [`crate::GuardLayout`].
    pub guards: DeviceRange,
    /// How tensors are guarded: [`GUARD_PAGES`], [`GUARD_CANARY`], [`GUARD_SHADOW`]; 0 for no guards.
    pub guard_flags: u32,
    /// Maximum number of guard pages at a time.
    pub guard_most: u32,
    /// Zero.
    pub reserved: [u64; 6],
}
assert_layout!(KernelArgs, size 320, align 64,
    magic @ 0, layout_version @ 8, blocks @ 12, schedulers @ 16, build_mode @ 20, stall_timeout_ms @ 24,
    control @ 32, scene @ 48, runtime @ 64, params @ 80, kernels @ 96, args @ 112, tasks @ 128, edges @ 144,
    payloads @ 160, heap @ 176, task_count @ 192, ring_slots @ 196, fault_func_id @ 200, fault_kind @ 204,
    dump_data_base @ 208, dump_enable @ 216, poison @ 220, call_flags @ 224, call_block @ 232, call_subtask @ 240,
    guards @ 248, guard_flags @ 264, guard_most @ 268, reserved @ 272);
