//! The runtime `aicpu_build_graph`: a device thread builds the graph in a fixed array, with explicit edges.

use tensortap_abi::{
    DeviceRange, EdgeCause, EdgeNode, KernelArgs, MAX_ARRAY_TASKS, TaskId, TaskSlot, TaskState,
};
use tensortap_scene::{BufferTable, GraphBuilder, GraphError, Location, TaskHandle, TaskSpec, TensorUse};

use super::slot::{ALIGN, new_slot, payload_layout, poison_new, write_payload};
use super::{DeviceBuilder, DeviceSetup, GraphObserver, Recording, Runtime};
use crate::device::run::Run;
use crate::host::{Plan, RunError};

/// Capacity of the edge table per task.
const EDGES_PER_TASK: u64 = 16;

/// The runtime of this module.
pub struct AicpuBuildGraph;

impl Runtime for AicpuBuildGraph {
    fn name(&self) -> &'static str {
        "aicpu_build_graph"
    }

    fn about(&self) -> &'static str {
        "built by a device thread in a fixed task array, with explicit edges"
    }

    fn builds_on_device(&self) -> bool {
        true
    }

    fn prepare(&self, plan: &mut Plan<'_>) -> Result<(), RunError> {
        let tasks = MAX_ARRAY_TASKS as u64;
        // Device memory is sparse, so untouched parts cost nothing. Each part gets a share of the free
        // memory.
        let left = plan.memory_left();
        let edges = (tasks * EDGES_PER_TASK * size_of::<EdgeNode>() as u64).min(left / 8);
        plan.args.tasks =
            plan.reserve((tasks * size_of::<TaskSlot>() as u64).min(left / 4), "the task array")?;
        plan.args.edges = plan.reserve(edges, "the edge table")?;
        plan.args.payloads = plan.reserve((tasks * 1024).min(left / 8), "task payloads")?;
        plan.args.heap = plan.reserve_heap(left / 4, "intermediate tensors")?;
        Ok(())
    }

    fn builder<'r, 'm: 'r>(
        &self,
        setup: &DeviceSetup<'m>,
        run: &'r Run<'m>,
        observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Box<dyn DeviceBuilder + 'r>, GraphError> {
        let KernelArgs { payloads, heap, .. } = setup.args;
        Ok(Box::new(ArrayBuilder {
            setup: *setup,
            run,
            recording: Recording::new(observer),
            tasks: 0,
            edges: 0,
            published: 0,
            payloads: Bump::new(payloads, "the payload area"),
            heap: Bump::new(heap, "the memory for intermediate tensors"),
        }))
    }
}

/// A bump allocator: memory is handed out once and never freed.
struct Bump {
    area: DeviceRange,
    next: u64,
    what: &'static str,
}

impl Bump {
    fn new(area: DeviceRange, what: &'static str) -> Bump {
        Bump { area, next: area.addr, what }
    }

    fn take(&mut self, bytes: u64) -> Result<u64, GraphError> {
        let addr = self.next.next_multiple_of(ALIGN);
        match addr.checked_add(bytes).filter(|&end| end <= self.area.end()) {
            Some(end) => {
                self.next = end;
                Ok(addr)
            }
            None => Err(GraphError::TableFull { what: self.what, capacity: self.area.bytes, unit: "bytes" }),
        }
    }
}

struct ArrayBuilder<'r, 'm> {
    setup: DeviceSetup<'m>,
    run: &'r Run<'m>,
    recording: Recording<'r>,
    tasks: u32,
    edges: u32,
    published: u64,
    payloads: Bump,
    heap: Bump,
}

impl ArrayBuilder<'_, '_> {
    fn place_buffers(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<(), GraphError> {
        for TensorUse { tensor, .. } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked at submission");
            if buffer.location.is_none() {
                let addr = self.take_heap(buffer.bytes)?;
                poison_new(self.setup.memory, self.setup.args.poison, addr, buffer.bytes)?;
                buffer.location = Some(Location::permanent(addr));
            }
        }
        Ok(())
    }

    fn take_heap(&mut self, bytes: u64) -> Result<u64, GraphError> {
        let Some(guard) = &self.run.guard else { return self.heap.take(bytes) };
        let layout = guard.layout();
        let piece = self.heap.take(layout.piece_bytes(bytes).unwrap_or(u64::MAX))?;
        let tensor = DeviceRange { addr: layout.tensor_addr(piece, bytes), bytes };
        guard.place(tensor).map_err(|error| GraphError::Memory(error.to_string()))?;
        Ok(tensor.addr)
    }

    fn check_unpublished(&self, what: &'static str, task: TaskHandle) -> Result<(), GraphError> {
        if task.slot >= self.tasks {
            return Err(GraphError::BadTask { what, task: task.id, problem: "does not exist" });
        }
        if self.run.slots.state(task.slot).get() != TaskState::Building as u32 {
            return Err(GraphError::BadTask { what, task: task.id, problem: "is already published" });
        }
        Ok(())
    }
}

impl GraphBuilder for ArrayBuilder<'_, '_> {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        if self.run.stopped() {
            return Err(GraphError::Stopped);
        }
        let slot = self.tasks;
        if slot >= self.run.slots.len() {
            return Err(GraphError::TaskArrayFull { capacity: self.run.slots.len() as usize });
        }
        self.place_buffers(task, buffers)?;
        let payload = self.payloads.take(payload_layout(task).bytes() as u64)?;
        write_payload(self.setup.memory, payload, task, buffers)?;
        let id = TaskId(slot.into());
        let name_ids = self.recording.name_ids(task);
        self.run.slots.write(slot, new_slot(task, id, payload, name_ids));
        self.tasks += 1;
        Ok(TaskHandle { id, slot })
    }

    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        self.check_unpublished("adding an edge", to)?;
        if from.slot >= self.tasks {
            return Err(GraphError::BadTask {
                what: "adding an edge",
                task: from.id,
                problem: "does not exist",
            });
        }
        if self.edges >= self.run.edges.len() {
            let capacity = self.run.edges.len().into();
            return Err(GraphError::TableFull { what: "the edge table", capacity, unit: "edges" });
        }
        let node = self.edges;
        self.edges += 1;
        self.recording.edges(to.id, [(from.id, EdgeCause::Explicit, 0)].into_iter());
        self.run.link(from.slot, to.slot, node, EdgeCause::Explicit.pack(0));
        Ok(())
    }

    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        self.check_unpublished("publishing", task)?;
        self.published += 1;
        self.run.control.thread(0).submitted().set(self.published);
        self.run.publish(task.slot);
        Ok(())
    }

    // Tensor metadata comes from the payload.
    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }

    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError> {
        self.recording.begin_scope(name);
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        self.recording.end_scope();
        Ok(())
    }
}

impl DeviceBuilder for ArrayBuilder<'_, '_> {
    fn finish(&mut self) -> Result<u64, GraphError> {
        Ok(self.tasks.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_area_is_an_error_with_its_size() {
        let mut bump = Bump::new(DeviceRange { addr: 1 << 45, bytes: 256 }, "the heap");
        assert_eq!(bump.take(1).ok(), Some(1 << 45));
        assert_eq!(bump.take(64).ok(), Some((1 << 45) + ALIGN));
        let refusal = bump.take(256).unwrap_err().to_string();
        assert!(refusal.starts_with("the heap is full: it holds 256 bytes"), "{refusal}");
    }
}
