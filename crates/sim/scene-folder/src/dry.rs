//! A builder for graphs that do not run: it checks every step of an orchestration and allocates no memory.

use tensortap_abi::TaskId;
use tensortap_scene::{
    ArgSpec, BufferTable, GraphBuilder, GraphError, Location, PlacedArg, TaskHandle, TaskSpec, TensorUse,
};

/// Accepts tasks and discards them.
#[derive(Debug, Default)]
pub struct DryBuilder {
    tasks: u32,
    next_addr: u64,
}

impl DryBuilder {
    /// An argument of the scene at a placeholder address.
    pub fn place(&mut self, spec: ArgSpec) -> PlacedArg {
        let location = self.locate();
        PlacedArg::new(spec, location)
    }

    /// A unique placeholder address. There is never any memory at it.
    fn locate(&mut self) -> Location {
        self.next_addr += 1 << 20;
        Location::permanent(self.next_addr)
    }
}

impl GraphBuilder for DryBuilder {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        for TensorUse { tensor, .. } in &task.tensors {
            let location = self.locate();
            if let Some(buffer) = buffers.get_mut(tensor.buffer()) {
                buffer.location.get_or_insert(location);
            }
        }
        let slot = self.tasks;
        self.tasks += 1;
        Ok(TaskHandle { id: TaskId(slot.into()), slot })
    }

    fn add_edge(&mut self, _from: TaskHandle, _to: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn publish(&mut self, _task: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }

    fn begin_scope(&mut self, _name: &str) -> Result<(), GraphError> {
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        Ok(())
    }
}
