//! The runtime `host_build_graph`: the host builds the graph before launch in a fixed array, with explicit
//! edges.

use tensortap_abi::{
    DeviceAddr, DeviceRange, EdgeCause, EdgeNode, FIRST_HOST_ID, MAX_ARRAY_TASKS, PayloadLayout, Role,
    TaskId, TaskSlot, TaskState, TensorDesc,
};
use tensortap_platform::Device;
use tensortap_scene::{
    BufferTable, GraphBuilder, GraphError, Location, Orch, TaskHandle, TaskSpec, TensorUse,
};
use tensortap_sync::fanout;
use zerocopy::IntoBytes;

use super::names::{NameIds, NameTable};
use super::slot::{buffer_of, new_slot, payload_layout, poison_byte};
use super::{DeviceBuilder, DeviceSetup, GraphObserver, Runtime};
use crate::device::run::Run;
use crate::host::{GuardOptions, HostGraph, HostNames, Plan, RunError};

/// The runtime of this module.
pub struct HostBuildGraph;

impl Runtime for HostBuildGraph {
    fn name(&self) -> &'static str {
        "host_build_graph"
    }

    fn about(&self) -> &'static str {
        "built by the host before launch, with explicit edges"
    }

    fn builds_on_device(&self) -> bool {
        false
    }

    fn prepare(&self, plan: &mut Plan<'_>) -> Result<(), RunError> {
        let placed = plan.placed_args();
        let guarding = plan.guarding();
        let mut builder = HostBuilder::new(plan.device, plan.args.poison, plan.is_recorded, guarding);
        let mut orch = Orch::new(&mut builder, placed)?.with_scalars(plan.scene.scalar_args(plan.params));
        plan.scene.orchestrate(&mut orch, plan.params)?;
        drop(orch);
        let HostBuilder { mut tasks, edges, payloads, allocated, tensors, names, .. } = builder;
        plan.adopt(allocated, &tensors);
        plan.graph = HostGraph {
            edges: edges.iter().map(|e| (TaskId(e.producer.into()), TaskId(e.consumer.into()))).collect(),
            names: names.map(|(_, defined)| defined).unwrap_or_default(),
        };
        plan.args.task_count = u32::try_from(tasks.len()).expect("checked against MAX_ARRAY_TASKS");
        plan.args.payloads = plan.upload(&payloads, "task payloads")?;
        for task in &mut tasks {
            task.payload_addr += plan.args.payloads.addr;
            if task.tensor_info_mask != 0 {
                task.tensor_info_addr += plan.args.payloads.addr;
            }
        }
        plan.args.tasks = plan.upload(tasks.as_bytes(), "the task array")?;
        plan.args.edges = plan.upload(edges.as_bytes(), "the edge table")?;
        Ok(())
    }

    fn builder<'r, 'm: 'r>(
        &self,
        _setup: &DeviceSetup<'m>,
        _run: &'r Run<'m>,
        _observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Box<dyn DeviceBuilder + 'r>, GraphError> {
        Err(GraphError::Unsupported { runtime: self.name(), what: "build on the device" })
    }

    fn seed(&self, setup: &DeviceSetup<'_>, run: &Run<'_>) {
        for slot in 0..setup.args.task_count {
            if run.slots.state(slot).get() == TaskState::Published as u32 {
                run.publish(slot);
            }
        }
        run.seal(setup.args.task_count.into());
    }
}

/// The graph in host memory. Payload addresses are relative until the payloads are uploaded.
struct HostBuilder<'d> {
    device: &'d mut dyn Device,
    poison: u32,
    tasks: Vec<TaskSlot>,
    edges: Vec<EdgeNode>,
    payloads: Vec<u8>,
    allocated: Vec<DeviceAddr>,
    /// The tensors in that memory.
    tensors: Vec<DeviceRange>,
    guarding: GuardOptions,
    /// Ids of names, if the graph is recorded.
    names: Option<(NameTable, HostNames)>,
}

impl<'d> HostBuilder<'d> {
    fn new(
        device: &'d mut dyn Device,
        poison: u32,
        is_recorded: bool,
        guarding: GuardOptions,
    ) -> HostBuilder<'d> {
        let (tasks, edges, payloads, allocated, tensors) = Default::default();
        let names = is_recorded.then(|| (NameTable::new(FIRST_HOST_ID), HostNames::default()));
        HostBuilder { device, poison, tasks, edges, payloads, allocated, tensors, guarding, names }
    }

    fn place_buffers(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<(), GraphError> {
        for TensorUse { tensor, .. } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked at submission");
            if buffer.location.is_none() {
                let addr = self.allocate(buffer.bytes)?;
                buffer.location = Some(Location::permanent(addr));
            }
        }
        Ok(())
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, GraphError> {
        let memory_error = |error: tensortap_platform::PlatformError| GraphError::Memory(error.to_string());
        let what = "an intermediate tensor";
        let (tensor, allocated) = self.guarding.allocate(self.device, bytes, what).map_err(memory_error)?;
        self.allocated.push(allocated);
        self.tensors.push(tensor);
        let addr = tensor.addr;
        if let Some(pattern) = poison_byte(self.poison) {
            let fill = vec![pattern; usize::try_from(bytes).map_err(|e| GraphError::Memory(e.to_string()))?];
            self.device.copy_to(addr, &fill).map_err(memory_error)?;
        }
        Ok(addr)
    }

    /// Appends a payload and returns its offset.
    fn encode_payload(&mut self, task: &TaskSpec, buffers: &BufferTable) -> u64 {
        let layout: PayloadLayout = payload_layout(task);
        let base = self.payloads.len();
        self.append_descs(&task.tensors, buffers);
        for scalar in &task.scalars {
            self.payloads.extend_from_slice(scalar.bits.as_bytes());
        }
        self.payloads.extend(task.scalars.iter().map(|s| s.dtype.tag()));
        self.payloads.resize(base + layout.bytes(), 0);
        base as u64
    }

    fn append_descs(&mut self, tensors: &[TensorUse], buffers: &BufferTable) {
        for TensorUse { tensor, .. } in tensors {
            let buffer = buffer_of(buffers, tensor);
            let location = buffer.location.expect("placed before the payload is written");
            let desc: TensorDesc = tensor.descriptor(&location, buffer.bytes);
            self.payloads.extend_from_slice(desc.as_bytes());
        }
    }

    fn task_mut(&mut self, what: &'static str, task: TaskHandle) -> Result<&mut TaskSlot, GraphError> {
        let found = self.tasks.get_mut(task.slot as usize);
        found.ok_or(GraphError::BadTask { what, task: task.id, problem: "does not exist" })
    }
}

impl GraphBuilder for HostBuilder<'_> {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        if self.tasks.len() >= MAX_ARRAY_TASKS {
            return Err(GraphError::TaskArrayFull { capacity: MAX_ARRAY_TASKS });
        }
        self.place_buffers(task, buffers)?;
        let payload = self.encode_payload(task, buffers);
        let index = u32::try_from(self.tasks.len()).expect("checked above");
        let name_ids =
            self.names.as_mut().map_or(NameIds::default(), |(names, defined)| names.name_ids(task, defined));
        let mut slot = new_slot(task, TaskId(index.into()), payload, name_ids);
        if task.with_tensor_info {
            slot.tensor_info_addr = payload;
            slot.tensor_info_mask = (1 << task.tensors.len()) - 1;
        }
        self.tasks.push(slot);
        Ok(TaskHandle { id: TaskId(index.into()), slot: index })
    }

    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        let node = u32::try_from(self.edges.len()).expect("fewer than 2^32 edges");
        let producer = self.task_mut("adding an edge", from)?;
        let next = std::mem::replace(&mut producer.fanout, node);
        debug_assert_ne!(next, fanout::CLOSED);
        self.task_mut("adding an edge", to)?.pending += 1;
        let cause = EdgeCause::Explicit.pack(0);
        self.edges.push(EdgeNode { next, consumer: to.slot, producer: from.slot, cause });
        Ok(())
    }

    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        self.task_mut("publishing", task)?.state = TaskState::Published as u32;
        Ok(())
    }

    fn set_tensor_info(
        &mut self,
        task: TaskHandle,
        tensors: &[TensorUse],
        buffers: &BufferTable,
    ) -> Result<(), GraphError> {
        let what = "registering tensor information";
        let count = usize::from(self.task_mut(what, task)?.tensor_count);
        let described = &tensors[..tensors.len().min(count)];
        let addr = self.payloads.len() as u64;
        self.append_descs(described, buffers);
        let roles: Vec<Role> = described.iter().map(|t| t.role).collect();
        let slot = self.task_mut(what, task)?;
        slot.tensor_info_addr = addr;
        slot.tensor_info_mask = (1 << described.len()) - 1;
        for (tag, role) in slot.roles.iter_mut().zip(roles) {
            *tag = role.tag();
        }
        Ok(())
    }

    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError> {
        if let Some((names, defined)) = &mut self.names {
            names.begin_scope(name, defined);
        }
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        if let Some((names, _)) = &mut self.names {
            names.end_scope();
        }
        Ok(())
    }
}
