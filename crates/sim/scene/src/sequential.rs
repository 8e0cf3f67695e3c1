//! The sequential executor: runs the tasks of a graph one after the other in submission order, on the calling
//! thread.

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, SUBTASK_CONTEXT_SLOT, SubtaskContext, TaskId,
};
use tensortap_abi::{Role, TensorDesc};

use crate::{
    Buffer, BufferTable, FaultKind, GraphBuilder, GraphError, HostArgs, KernelDef, Location, Orch, Params,
    PlacedArg, RefTask, RefTensor, ScalarArg, Scene, TaskHandle, TaskSpec, TensorUse, run_kernel,
};

use tensortap_values::{decode_block, element_bits, put_element_bits};
use zerocopy::IntoBytes;

/// A recorded graph in host memory. Tests and benchmarks compare a device's results and speed with it.
///
/// The slots of a mix task run one after the other. So kernels that wait for each other cannot run here.
pub struct SequentialGraph {
    memory: Memory,
    tasks: Vec<SequentialTask>,
    scopes: Vec<Scope>,
    edges: Vec<(u32, u32)>,
    args: Vec<(&'static str, usize, usize)>,
}

/// A scope of the orchestration with its parent.
struct Scope {
    name: String,
    parent: Option<usize>,
}

struct SequentialTask {
    task_name: String,
    scope: Option<usize>,
    kernels: Vec<(u32, &'static KernelDef)>,
    descs: Vec<(TensorDesc, Role)>,
    scalars: Vec<ScalarArg>,
    block_num: u32,
}

/// Buffers that never move, because descriptors hold their addresses.
#[derive(Default)]
struct Memory {
    // Whole 64-bit words, so that every element type is aligned.
    buffers: Vec<Box<[u64]>>,
}

impl Memory {
    fn add(&mut self, bytes: u64) -> u64 {
        let words = usize::try_from(bytes.div_ceil(8).max(1)).expect("fits in memory");
        self.buffers.push(vec![0; words].into_boxed_slice());
        self.buffers.last_mut().map_or(0, |b| b.as_mut_ptr().expose_provenance() as u64)
    }
}

/// A task of a sequential run, for an observer.
pub struct TaskObservation {
    /// Index in submission order.
    pub index: usize,
    /// Its kernels in slot order.
    pub kernels: Vec<&'static KernelDef>,
    /// The name of the task, or empty.
    pub task_name: String,
    /// The names of the enclosing scopes, outermost first.
    pub scope: Vec<String>,
    /// The role of each tensor argument.
    pub roles: Vec<Role>,
    /// Arguments before the task.
    pub before: RefTask,
    /// Arguments after the task.
    pub after: RefTask,
}

impl SequentialGraph {
    /// Records a scene's graph over a copy of its arguments.
    pub fn record(
        scene: &dyn Scene,
        params: &Params,
        inputs: &HostArgs,
    ) -> Result<SequentialGraph, GraphError> {
        let mut recorder = Recorder::default();
        let mut args = Vec::new();
        let mut placed = Vec::new();
        for (spec, tensor) in scene.args(params).into_iter().zip(&inputs.0) {
            let addr = recorder.memory.add(tensor.bytes.len() as u64);
            copy_in(recorder.memory.buffers.last_mut().expect("just added"), &tensor.bytes);
            args.push((spec.name, recorder.memory.buffers.len() - 1, tensor.bytes.len()));
            placed.push(PlacedArg::new(spec, Location::permanent(addr)));
        }
        let mut orch = Orch::new(&mut recorder, placed)?.with_scalars(scene.scalar_args(params));
        scene.orchestrate(&mut orch, params)?;
        let Recorder { memory, tasks, scopes, edges, innermost: _ } = recorder;
        Ok(SequentialGraph { memory, tasks, scopes, edges, args })
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The explicit edges as (from, to), by index in submission order.
    pub fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }

    /// The kernels of a task.
    pub fn kernels(&self, index: usize) -> impl Iterator<Item = &'static KernelDef> {
        self.tasks[index].kernels.iter().map(|&(_, kernel)| kernel)
    }

    /// The tensor arguments of a task with their roles.
    pub fn tensors(&self, index: usize) -> &[(TensorDesc, Role)] {
        &self.tasks[index].descs
    }

    /// Runs every task. The error names the first kernel that failed.
    pub fn run(&mut self) -> Result<(), String> {
        self.run_with_fault(None)
    }

    /// Runs every task, with a fault in the kernel with this `func_id`.
    pub fn run_with_fault(&mut self, fault: Option<(u32, FaultKind)>) -> Result<(), String> {
        (0..).zip(&mut self.tasks).try_for_each(|(index, task)| run_task(index, task, fault))
    }

    /// Runs every task and shows each task's arguments before and after.
    pub fn run_observed(&mut self, mut observe: impl FnMut(&TaskObservation)) -> Result<(), String> {
        for index in 0..self.tasks.len() {
            let before = self.snapshot(index);
            run_task(index, &mut self.tasks[index], None)?;
            let task = &self.tasks[index];
            observe(&TaskObservation {
                index,
                kernels: task.kernels.iter().map(|&(_, k)| k).collect(),
                task_name: task.task_name.clone(),
                scope: self.scope(task),
                roles: task.descs.iter().map(|&(_, r)| r).collect(),
                before,
                after: self.snapshot(index),
            });
        }
        Ok(())
    }

    /// The bytes of a tensor argument of the orchestration.
    pub fn arg_bytes(&self, name: &str) -> Option<Vec<u8>> {
        let &(_, buffer, bytes) = self.args.iter().find(|(n, _, _)| *n == name)?;
        Some(self.memory.buffers[buffer].iter().flat_map(|w| w.to_ne_bytes()).take(bytes).collect())
    }

    fn scope(&self, task: &SequentialTask) -> Vec<String> {
        let scopes = std::iter::successors(task.scope, |&scope| self.scopes[scope].parent);
        let mut names: Vec<_> = scopes.map(|scope| self.scopes[scope].name.clone()).collect();
        names.reverse();
        names
    }

    fn snapshot(&self, index: usize) -> RefTask {
        let task = &self.tasks[index];
        RefTask {
            tensors: task.descs.iter().map(|(desc, _)| self.read(desc)).collect(),
            scalars: task.scalars.clone(),
            block_num: task.block_num,
        }
    }

    /// Reads element by element with coordinates, independently of the code that kernels and recorders use.
    fn read(&self, desc: &TensorDesc) -> RefTensor {
        let dtype = desc.dtype().expect("recorded from a checked tensor");
        let buffer = self.memory.buffers.iter().find(|b| b.as_ptr().addr() as u64 == desc.buffer_addr);
        let bytes = buffer.expect("descriptors name recorded buffers").as_bytes();
        let shape: Vec<usize> = desc.dims().iter().map(|&d| usize::try_from(d).expect("fits")).collect();
        let numel: usize = shape.iter().product();
        let mut packed = vec![0; (numel * dtype.bits() as usize).div_ceil(8)];
        for linear in 0..numel {
            let (mut rest, mut offset) = (linear, i128::from(desc.start_offset));
            for dim in (0..shape.len()).rev() {
                offset += i128::from(desc.strides[dim]) * (rest % shape[dim]) as i128;
                rest /= shape[dim];
            }
            let at = usize::try_from(offset).expect("inside the buffer");
            let element = element_bits(dtype, bytes, at).expect("inside the buffer");
            put_element_bits(dtype, &mut packed, linear, element);
        }
        let mut values = vec![0.0; numel * dtype.parts() as usize];
        decode_block(dtype, &packed, &mut values);
        RefTensor { dtype, shape, values, bytes: packed }
    }
}

fn run_task(index: usize, task: &mut SequentialTask, fault: Option<(u32, FaultKind)>) -> Result<(), String> {
    let subtask_count = u32::try_from(task.kernels.len()).expect("at most three");
    for block_idx in 0..task.block_num {
        for &(subtask_id, kernel) in &task.kernels {
            let block = BlockContext { block_idx, block_num: task.block_num };
            let subtask = SubtaskContext { subtask_id, subtask_count };
            let mut args = [0; ARG_SLOTS];
            let addresses =
                task.descs.iter().map(|(desc, _)| std::ptr::from_ref(desc).expose_provenance() as u64);
            for (slot, word) in addresses.chain(task.scalars.iter().map(|s| s.bits)).enumerate() {
                args[slot] = word;
            }
            args[BLOCK_CONTEXT_SLOT] = std::ptr::from_ref(&block).expose_provenance() as u64;
            args[SUBTASK_CONTEXT_SLOT] = std::ptr::from_ref(&subtask).expose_provenance() as u64;
            let damage = fault.filter(|&(func_id, _)| func_id == kernel.func_id).map(|(_, kind)| kind);
            // SAFETY: descriptors and contexts are in this frame and in `task`, and buffers are in `Memory`.
            // Every view was checked to be inside its buffer. Nothing else runs.
            let outcome = unsafe { run_kernel(kernel.entry, args.as_mut_ptr(), damage) };
            outcome.map_err(|panic| format!("task {index}, kernel {}: {panic}", kernel.name))?;
        }
    }
    Ok(())
}

fn copy_in(words: &mut [u64], bytes: &[u8]) {
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut full = [0; 8];
        full[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(full);
    }
}

#[derive(Default)]
struct Recorder {
    memory: Memory,
    tasks: Vec<SequentialTask>,
    scopes: Vec<Scope>,
    innermost: Option<usize>,
    edges: Vec<(u32, u32)>,
}

impl Recorder {
    fn locate(&mut self, buffer: &mut Buffer) -> Location {
        *buffer.location.get_or_insert_with(|| Location::permanent(self.memory.add(buffer.bytes)))
    }
}

impl GraphBuilder for Recorder {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        let mut descs = Vec::with_capacity(task.tensors.len());
        for TensorUse { tensor, role } in &task.tensors {
            let buffer = buffers.get_mut(tensor.buffer()).expect("checked before");
            let location = self.locate(buffer);
            descs.push((tensor.descriptor(&location, buffer.bytes), *role));
        }
        let kernels = (0_u32..).zip(&task.kernels).filter_map(|(slot, k)| Some((slot, (*k)?))).collect();
        self.tasks.push(SequentialTask {
            task_name: task.task_name.clone(),
            scope: self.innermost,
            kernels,
            descs,
            scalars: task.scalars.clone(),
            block_num: task.block_num,
        });
        let slot = u32::try_from(self.tasks.len() - 1).expect("fewer than 2^32 tasks");
        Ok(TaskHandle { id: TaskId(slot.into()), slot })
    }

    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        self.edges.push((from.slot, to.slot));
        Ok(())
    }

    fn publish(&mut self, _task: TaskHandle) -> Result<(), GraphError> {
        Ok(())
    }

    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }

    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError> {
        self.scopes.push(Scope { name: name.into(), parent: self.innermost });
        self.innermost = Some(self.scopes.len() - 1);
        Ok(())
    }

    fn end_scope(&mut self) -> Result<(), GraphError> {
        self.innermost = self.innermost.and_then(|scope| self.scopes[scope].parent);
        Ok(())
    }
}
