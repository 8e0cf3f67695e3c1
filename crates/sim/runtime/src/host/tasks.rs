//! Runs independent tasks without an orchestration, for replay: the host writes them where the device expects
//! a host-built graph.

use std::time::{Duration, Instant};

use tensortap_abi::{
    BlockContext, CALL_ANNOUNCED, CALL_CONTEXT, CALL_TIMED, ControlLayout, CoreControl, DeviceRange,
    KernelArgs, MAX_ARRAY_TASKS, MAX_TENSORS, NO_KERNEL, NO_SLOT, PayloadLayout, Role, SLOTS_PER_TASK,
    SubtaskContext, TaskId, TaskSlot, TaskState, TensorDesc, can_be_passed,
};
use tensortap_geometry::Layout;
use tensortap_platform::Device;
use tensortap_scene::{Params, ScalarArg, Scene};
use tensortap_sync::fanout;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::failure::RunError;
use super::launch::{Progress, free_all, read_control, read_progress, wait};
use super::plan::{LaunchOptions, Plan};
use crate::runtimes::{HostBuildGraph, Runtime};

/// A task whose tensors are in device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTask {
    /// Id of the task, for error messages.
    pub id: TaskId,
    /// Kernel of each subtask slot, or [`NO_KERNEL`].
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Number of blocks.
    pub block_num: u32,
    /// Tensor arguments and their roles.
    pub tensors: Vec<(TensorDesc, Role)>,
    /// Scalar arguments. [`can_be_passed`] limits their number.
    pub scalars: Vec<ScalarArg>,
}

/// Options for the call of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Measure the duration of kernels.
    pub timed: bool,
    /// Call `tensortap_before_kernel` before each kernel, where a debugger can stop.
    pub announced: bool,
    /// The block and subtask that kernels see, instead of the dispatched ones.
    pub context: Option<(BlockContext, SubtaskContext)>,
}

/// The result of tasks that all completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TasksReport {
    /// Counts of tasks and dispatches.
    pub progress: Progress,
    /// Time from launch to completion on the host's clock.
    pub wall: Duration,
    /// Duration of the longest kernel, or zero if it was not measured.
    pub kernel_time: Duration,
}

/// Runs independent tasks on an open device, with the kernels of a scene. Results are in the buffers of the
/// descriptors. `guards` are tensors that [`GuardOptions::allocate`](super::GuardOptions::allocate) placed.
pub fn execute_tasks(
    device: &mut dyn Device,
    scene: &'static dyn Scene,
    options: LaunchOptions,
    call: CallOptions,
    tasks: &[PlacedTask],
    guards: &[DeviceRange],
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<TasksReport, RunError> {
    options.check()?;
    tasks.iter().try_for_each(|task| check(task, scene, device.memory()))?;
    let params =
        Params::resolve(scene.name(), scene.params(), []).map_err(|e| RunError::Tasks(e.to_string()))?;
    let mut plan = Plan::with_names(device, scene, &params, &HostBuildGraph as &dyn Runtime, options)?;
    set_call(&mut plan.args, call);
    upload(&mut plan, tasks)?;
    plan.guard(guards);
    let (addr, args, reserved) = plan.finish()?;
    let started = Instant::now();
    device.launch(addr)?;
    let ended = wait(device, scene, &args, options, None, observe);
    let wall = started.elapsed();
    ended?;
    read_control(device, &args)?;
    let kernel_time = if call.timed { kernel_time(device, &args)? } else { Duration::ZERO };
    let progress = read_progress(device, &args)?;
    free_all(device, &reserved)?;
    Ok(TasksReport { progress, wall, kernel_time })
}

/// Checks that the arguments match the kernel's declaration, and that every view is inside a buffer in device
/// memory. Kernels rely on both.
fn check(task: &PlacedTask, scene: &dyn Scene, memory: DeviceRange) -> Result<(), RunError> {
    let refuse = |why: String| RunError::Tasks(format!("task {}: {why}", task.id));
    for &func_id in task.func_id.iter().filter(|&&id| id != NO_KERNEL) {
        let kernel = scene.kernels().iter().find(|kernel| kernel.func_id == func_id);
        let kernel = kernel.ok_or_else(|| refuse(format!("no kernel has func_id {func_id}")))?;
        let role = |arg_index: usize| task.tensors.get(arg_index).map(|(_, role)| *role);
        let args = task.tensors.len() + task.scalars.len();
        kernel.check_args(role, args).map_err(|error| refuse(error.to_string()))?;
    }
    let bad = task.tensors.iter().position(|(desc, _)| !is_in_memory(desc, memory));
    bad.map_or(Ok(()), |arg| Err(refuse(format!("the buffer of argument {arg} is not inside device memory"))))
}

fn is_in_memory(desc: &TensorDesc, memory: DeviceRange) -> bool {
    let Some(dtype) = desc.dtype().filter(|_| usize::from(desc.ndims) <= desc.shape.len()) else {
        return false;
    };
    let view = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, dtype.bits());
    let end = desc.buffer_addr.checked_add(desc.buffer_bytes);
    let inside = desc.buffer_addr >= memory.addr && end.is_some_and(|end| end <= memory.end());
    view.is_ok_and(|view| view.fits(desc.buffer_bytes).is_ok() && (inside || view.byte_range().is_empty()))
}

fn set_call(args: &mut KernelArgs, call: CallOptions) {
    let flag = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
    args.call_flags = flag(call.timed, CALL_TIMED)
        | flag(call.announced, CALL_ANNOUNCED)
        | flag(call.context.is_some(), CALL_CONTEXT);
    (args.call_block, args.call_subtask) = call.context.unwrap_or_default();
}

fn upload(plan: &mut Plan<'_>, tasks: &[PlacedTask]) -> Result<(), RunError> {
    if tasks.len() > MAX_ARRAY_TASKS {
        return Err(RunError::Tasks(format!(
            "{} tasks exceed the limit of {MAX_ARRAY_TASKS} tasks per launch; replay fewer at a time",
            tasks.len()
        )));
    }
    let mut payloads = Vec::new();
    let mut slots = Vec::with_capacity(tasks.len());
    for task in tasks {
        let offset = payloads.len() as u64;
        slots.push(slot(task, offset)?);
        append_payload(&mut payloads, task);
    }
    plan.args.payloads = plan.upload(&payloads, "task payloads")?;
    for slot in &mut slots {
        slot.payload_addr += plan.args.payloads.addr;
    }
    plan.args.task_count = u32::try_from(slots.len()).expect("checked against MAX_ARRAY_TASKS");
    plan.args.tasks = plan.upload(slots.as_bytes(), "the task array")?;
    plan.args.edges = plan.upload(&[], "the edge table")?;
    Ok(())
}

fn slot(task: &PlacedTask, payload: u64) -> Result<TaskSlot, RunError> {
    let active: u8 =
        (0..).zip(task.func_id).filter(|&(_, id)| id != NO_KERNEL).fold(0, |bits, (i, _)| bits | 1 << i);
    if active == 0 || task.block_num == 0 || !can_be_passed(task.tensors.len(), task.scalars.len()) {
        return Err(RunError::Tasks(format!(
            "task {} has no kernel, no block, or too many arguments",
            task.id
        )));
    }
    let mut slot = TaskSlot::new_zeroed();
    slot.task_id = task.id.0;
    slot.pending = 1;
    slot.fanout = fanout::OPEN_EMPTY;
    slot.remaining = active.count_ones().checked_mul(task.block_num).ok_or_else(|| {
        RunError::Tasks(format!(
            "task {} has {} blocks, which is more than a launch can count",
            task.id, task.block_num
        ))
    })?;
    slot.state = TaskState::Published as u32;
    slot.payload_addr = payload;
    slot.block_num = task.block_num;
    slot.func_id = task.func_id;
    slot.tensor_count = u8::try_from(task.tensors.len()).expect("checked: they can be passed");
    slot.scalar_count = u8::try_from(task.scalars.len()).expect("checked: they can be passed");
    slot.active = active;
    for (tag, (_, role)) in slot.roles.iter_mut().zip(&task.tensors) {
        *tag = role.tag();
    }
    slot.owners = [NO_SLOT; MAX_TENSORS];
    Ok(slot)
}

fn append_payload(payloads: &mut Vec<u8>, task: &PlacedTask) {
    let layout = PayloadLayout { tensor_count: task.tensors.len(), scalar_count: task.scalars.len() };
    let base = payloads.len();
    task.tensors.iter().for_each(|(desc, _)| payloads.extend_from_slice(desc.as_bytes()));
    task.scalars.iter().for_each(|scalar| payloads.extend_from_slice(scalar.bits.as_bytes()));
    payloads.extend(task.scalars.iter().map(|scalar| scalar.dtype.tag()));
    payloads.resize(base + layout.bytes(), 0);
}

fn kernel_time(device: &dyn Device, args: &KernelArgs) -> Result<Duration, RunError> {
    let mut longest = 0;
    for core in 0..args.blocks as usize * SLOTS_PER_TASK {
        let mut bytes = [0; size_of::<CoreControl>()];
        device.copy_from(args.control.addr + ControlLayout::core_offset(core) as u64, &mut bytes)?;
        longest = longest.max(CoreControl::read_from_bytes(&bytes).expect("the sizes agree").kernel_ns);
    }
    Ok(Duration::from_nanos(longest))
}
