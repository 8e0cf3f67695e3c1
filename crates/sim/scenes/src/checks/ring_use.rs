//! Measures how much of the rings an orchestration needs.

use tensortap_abi::TaskId;
use tensortap_scene::{
    BufferTable, GraphBuilder, GraphError, Location, Orch, PlacedArg, Scene, TaskHandle, TaskSpec, TensorUse,
};

use super::{ParamPairs, params};

/// The peak use of the rings by a graph, if nothing is released before its scope ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingUse {
    /// Tasks in simultaneously open scopes.
    pub tasks: usize,
    /// Bytes of intermediates in simultaneously open scopes.
    pub bytes: u64,
    /// Bytes of all intermediates, for runtimes that never reuse memory.
    pub total_bytes: u64,
}

/// Measures [`RingUse`] without running the graph.
pub fn ring_use(scene: &dyn Scene, given: ParamPairs<'_>) -> RingUse {
    let params = params(scene, given);
    let mut meter = RingMeter { open: vec![RingUse::default()], ..RingMeter::default() };
    let args = scene.args(&params).into_iter();
    let args = args.map(|spec| PlacedArg::new(spec, Location::permanent(1 << 20)));
    let mut orch = Orch::new(&mut meter, args).unwrap().with_scalars(scene.scalar_args(&params));
    scene.orchestrate(&mut orch, &params).unwrap();
    meter.most
}

#[derive(Default)]
struct RingMeter {
    open: Vec<RingUse>,
    most: RingUse,
    added: u32,
}

impl GraphBuilder for RingMeter {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        let scope = self.open.last_mut().expect("the outermost scope never ends");
        scope.tasks += 1;
        for TensorUse { tensor, .. } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked before");
            if buffer.location.replace(Location::permanent(1 << 20)).is_none() {
                scope.bytes += buffer.bytes;
                self.most.total_bytes += buffer.bytes;
            }
        }
        self.most.tasks = self.most.tasks.max(self.open.iter().map(|s| s.tasks).sum());
        self.most.bytes = self.most.bytes.max(self.open.iter().map(|s| s.bytes).sum());
        self.added += 1;
        Ok(TaskHandle { id: TaskId(u64::from(self.added)), slot: self.added })
    }

    fn add_edge(&mut self, _: TaskHandle, _: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn publish(&mut self, _: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }

    fn begin_scope(&mut self, _: &str) -> Result<(), GraphError> {
        self.open.push(RingUse::default());
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        self.open.pop();
        Ok(())
    }
}
