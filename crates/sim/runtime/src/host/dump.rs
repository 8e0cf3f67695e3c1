//! The host's part in dumping: setting up the dump region, and reading tasks that were running when the
//! device died.

use std::sync::Arc;
use std::time::Duration;

use tensortap_abi::{
    ControlLayout, CoreControl, DeviceRange, DumpGeometry, KernelArgs, LARGE_PAYLOAD_ALIGN, PayloadLayout,
    Role, TaskId, TaskSlot, TensorDesc,
};
use tensortap_platform::{Device, DeviceAccess, PlatformError};
use tensortap_recorder::{SetupOptions, setup_bytes};
use zerocopy::FromBytes;

use super::failure::RunError;
use super::plan::Plan;
use crate::runtimes::DefineNames;

/// Number of device threads that record: the orchestrator, the schedulers, and the monitor, which records
/// tasks that hang.
pub const fn recording_threads(schedulers: u32) -> u32 {
    schedulers + 2
}

/// A dump region to set up before launch.
pub struct RegionPlan {
    /// Sizes of its parts.
    pub geometry: DumpGeometry,
    /// Setup options. `base` is filled in once the region is allocated.
    pub options: SetupOptions,
    /// Which records to write: [`DUMP_TENSORS`](tensortap_abi::DUMP_TENSORS),
    /// [`DUMP_ARGS`](tensortap_abi::DUMP_ARGS) or both.
    pub enable: u32,
}

/// The part of a host-built graph that the dump needs. Empty if the device builds the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostGraph {
    /// Edges as (from, to).
    pub edges: Vec<(TaskId, TaskId)>,
    /// The names that the ids in its task slots refer to.
    pub names: HostNames,
}

/// The names that a host orchestration used, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    /// Strings with their ids.
    pub strings: Vec<(u32, String)>,
    /// Scopes.
    pub scopes: Vec<HostScope>,
}

/// A scope that a host orchestration opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostScope {
    /// Id of the scope.
    pub id: u32,
    /// String id of its name.
    pub name: u32,
    /// Id of the enclosing scope, or 0.
    pub parent: u32,
}

impl DefineNames for HostNames {
    fn string(&mut self, id: u32, text: &str) {
        self.strings.push((id, text.into()));
    }

    fn scope(&mut self, id: u32, name: u32, parent: u32) {
        self.scopes.push(HostScope { id, name, parent });
    }
}

/// Collects the records of a launch.
pub trait DumpSession {
    /// Returns the region for this number of recording threads.
    fn plan(&mut self, threads: u32) -> Result<RegionPlan, RunError>;

    /// Called when the region is set up, before the launch. `graph` is the host-built graph, or empty.
    fn begin(
        &mut self,
        device: Arc<dyn DeviceAccess>,
        region: DeviceRange,
        graph: &HostGraph,
    ) -> Result<(), RunError>;

    /// Called when the device has woken the host because there are records to collect.
    fn woken(&mut self);

    /// How often the host should call its observer. `None` means the default interval.
    fn check_interval(&self) -> Option<Duration> {
        None
    }
}

/// Allocates and initializes the region, and stores its address in the launch arguments.
pub(super) fn set_up(plan: &mut Plan<'_>, session: &mut dyn DumpSession) -> Result<(), RunError> {
    let RegionPlan { geometry, mut options, enable } =
        session.plan(recording_threads(plan.args.schedulers))?;
    let bytes = geometry.bytes();
    options.base = plan.reserve_aligned(bytes, LARGE_PAYLOAD_ALIGN, "the dump region (--dump-arena)")?;
    let setup = setup_bytes(geometry, &options).map_err(|error| RunError::Dump(error.to_string()))?;
    setup.try_write(|offset, content| plan.device.copy_to(options.base + offset, content))?;
    plan.args.dump_data_base = options.base;
    plan.args.dump_enable = enable;
    session.begin(plan.device.access(), DeviceRange { addr: options.base, bytes }, &plan.graph)
}

/// A task that was running when its device died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightTask {
    /// The slot, as the device left it.
    pub slot: TaskSlot,
    /// Tensor arguments and their roles.
    pub tensors: Vec<(TensorDesc, Role)>,
}

impl InFlightTask {
    /// The id of the task.
    pub fn id(&self) -> TaskId {
        TaskId(self.slot.task_id)
    }
}

/// The tasks that cores were running, read from the memory of a dead device. Damaged tasks are skipped.
pub(super) fn in_flight(device: &dyn Device, args: &KernelArgs) -> Result<Vec<InFlightTask>, PlatformError> {
    let mut found: Vec<InFlightTask> = Vec::new();
    for core in 0..args.blocks as usize * tensortap_abi::SLOTS_PER_TASK {
        let control: CoreControl = read(device, args.control.addr + ControlLayout::core_offset(core) as u64)?;
        if control.posted == control.done || found.iter().any(|t| t.slot.task_id == control.task_id) {
            continue;
        }
        let offset = u64::from(control.task_slot) * size_of::<TaskSlot>() as u64;
        if offset + size_of::<TaskSlot>() as u64 > args.tasks.bytes {
            continue;
        }
        let slot: TaskSlot = read(device, args.tasks.addr + offset)?;
        if slot.task_id == control.task_id {
            found.extend(read_task(device, slot));
        }
    }
    Ok(found)
}

fn read_task(device: &dyn Device, slot: TaskSlot) -> Option<InFlightTask> {
    let layout =
        PayloadLayout { tensor_count: slot.tensor_count.into(), scalar_count: slot.scalar_count.into() };
    let roles = slot.roles.iter().map(|&tag| Role::from_tag(tag)).take(layout.tensor_count);
    let mut tensors = Vec::new();
    for (index, role) in roles.enumerate() {
        let addr = slot.payload_addr.checked_add((index * size_of::<TensorDesc>()) as u64)?;
        tensors.push((read(device, addr).ok()?, role?));
    }
    Some(InFlightTask { slot, tensors })
}

fn read<T: FromBytes>(device: &dyn Device, addr: u64) -> Result<T, PlatformError> {
    let mut bytes = vec![0; size_of::<T>()];
    device.copy_from(addr, &mut bytes)?;
    Ok(T::read_from_bytes(&bytes).expect("the sizes agree"))
}
