use std::time::{Duration, Instant};

use tensortap_abi::{
    ControlLayout, DeviceAddr, DeviceControl, DeviceRange, FailureKind, KernelArgs, TensorDesc,
    ThreadControl, ThreadState,
};
use tensortap_platform::{Device, DeviceEvent, SanitizerReport};
use tensortap_scene::{HostArgs, HostTensor, Params, Scene};
use zerocopy::FromBytes;

use super::dump::{self, DumpSession};
use super::failure::{RunError, RunFailure};
use super::plan::{LaunchOptions, Plan};
use crate::overrun::Overrun;
use crate::runtimes::Runtime;

/// How often the host looks at a running device: for progress, for an interruption.
const LOOK: Duration = Duration::from_millis(50);

/// How much longer than the stall limit the host waits for a device that should have noticed itself.
const HOST_PATIENCE: Duration = Duration::from_secs(5);

/// What a run is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The device runs tasks.
    #[default]
    Running,
    /// The device is done; its results are held against the golden.
    CheckingGolden,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Tasks submitted so far; all of them when the host built the graph.
    pub submitted: u64,
    /// Tasks of the whole graph; `None` while it is being built.
    pub total: Option<u64>,
    /// Tasks complete.
    pub completed: u64,
    /// Dispatches finished.
    pub dispatches: u64,
}

/// What came of a run that ended well.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Outputs and in-outs of the orchestration, as the device left them.
    pub outputs: Vec<HostTensor>,
    /// Tasks and dispatches.
    pub progress: Progress,
    /// From launch to completion, as the host saw it.
    pub wall: Duration,
    /// From the first thread started to the last task complete, by the device's clock.
    pub device_time: Duration,
}

/// Runs a scene's graph on an open device and waits for its end. `observe` is called now and then with how far it has
/// come; when it returns false the run is ended. `dump` collects what is recorded.
#[expect(clippy::too_many_arguments, reason = "each says another thing about the run")]
pub fn execute(
    device: &mut dyn Device,
    scene: &'static dyn Scene,
    params: &Params,
    runtime: &dyn Runtime,
    options: LaunchOptions,
    inputs: &HostArgs,
    mut dump: Option<&mut dyn DumpSession>,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<DeviceReport, RunError> {
    options.check()?;
    let mut plan = Plan::new(device, scene, params, runtime, options, inputs, dump.is_some())?;
    if let Some(session) = &mut dump {
        dump::set_up(&mut plan, *session)?;
    }
    let ranges = plan.arg_ranges();
    let (addr, args, reserved) = plan.finish()?;
    let started = Instant::now();
    device.launch(addr)?;
    let ended = wait(device, scene, &args, options, dump, observe);
    let wall = started.elapsed();
    ended?;

    let control = read_control(device, &args)?;
    let mut outputs = Vec::new();
    for (spec, range) in scene.args(params).iter().zip(ranges).filter(|(spec, _)| spec.role.writes()) {
        let mut tensor = HostTensor::zeros(spec.name, spec.dtype, &spec.shape);
        device.copy_from(range.addr, &mut tensor.bytes)?;
        outputs.push(tensor);
    }
    let progress = read_progress(device, &args)?;
    free_all(device, &reserved)?;
    let device_time = Duration::from_nanos(control.ended_ns.saturating_sub(control.started_ns));
    Ok(DeviceReport { outputs, progress, wall, device_time })
}

pub(super) fn free_all(device: &mut dyn Device, reserved: &[DeviceAddr]) -> Result<(), RunError> {
    reserved.iter().try_for_each(|&addr| Ok(device.free(addr)?))
}

pub(super) fn wait(
    device: &mut dyn Device,
    scene: &'static dyn Scene,
    args: &KernelArgs,
    options: LaunchOptions,
    mut dump: Option<&mut dyn DumpSession>,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<(), RunError> {
    let mut silence = Silence::new(options.stall_timeout);
    let look = dump.as_ref().and_then(|session| session.look()).unwrap_or(LOOK);
    loop {
        let asleep = Instant::now();
        let event = device.wait(look)?;
        if let (DeviceEvent::Woken, Some(session)) = (event, &mut dump) {
            session.woken();
        }
        let death = match event {
            DeviceEvent::Finished => None,
            DeviceEvent::Died(cause) => Some(cause),
            DeviceEvent::Woken | DeviceEvent::TimedOut => {
                let progress = read_progress(device, args)?;
                if !observe(progress) {
                    device.kill();
                    return Err(Box::new(RunFailure::interrupted(progress)).into());
                }
                let interval = if held_up_by_dump(device, args)? {
                    Duration::ZERO
                } else {
                    asleep.elapsed().min(2 * LOOK)
                };
                if silence.is_too_long(progress, interval) {
                    return Err(give_up(device, scene, args));
                }
                continue;
            }
        };
        let control = read_control(device, args)?;
        return match (FailureKind::from_tag(control.failure), death) {
            (None, None) => Ok(()),
            (_, death) => {
                let progress = read_progress(device, args)?;
                let mut failure = RunFailure::read(&control, death, scene.kernels(), progress);
                if death.is_some() {
                    failure.report = device.take_report();
                }
                let reported = failure.report.as_ref().and_then(SanitizerReport::address);
                failure.address = reported.or(failure.address);
                if args.guard_flags != 0 {
                    failure.overrun = overrun(device, args, &failure, scene, control.failure_func_id);
                }
                if death.is_some() {
                    failure.in_flight = dump::in_flight(device, args)?;
                }
                Err(end_failed(device, failure))
            }
        };
    }
}

/// The argument that a kernel left, from what the device left in its memory.
fn overrun(
    device: &dyn Device,
    args: &KernelArgs,
    failure: &RunFailure,
    scene: &'static dyn Scene,
    func_id: u32,
) -> Option<Overrun> {
    let memory = device.memory();
    let address = failure.address.filter(|address| (memory.addr..memory.end()).contains(address))?;
    let in_flight = dump::in_flight(device, args).ok()?;
    let task = in_flight.iter().find(|task| Some(task.id()) == failure.task)?;
    let buffer = |desc: &TensorDesc| DeviceRange { addr: desc.buffer_addr, bytes: desc.buffer_bytes };
    let tensors = task.tensors.iter().map(|(desc, _)| buffer(desc)).enumerate();
    Some(Overrun::nearest(address, tensors)?.named(scene.kernels(), func_id))
}

/// A device that reports its own hangs may itself hang: then the host notices, later.
struct Silence {
    limit: Option<Duration>,
    progress: Progress,
    lasted: Duration,
}

impl Silence {
    fn new(stall: Option<Duration>) -> Silence {
        let limit = stall.map(|limit| limit + HOST_PATIENCE);
        Silence { limit, progress: Progress::default(), lasted: Duration::ZERO }
    }

    fn is_too_long(&mut self, progress: Progress, interval: Duration) -> bool {
        if progress != self.progress {
            (self.progress, self.lasted) = (progress, Duration::ZERO);
            return false;
        }
        self.lasted += interval;
        self.limit.is_some_and(|limit| self.lasted >= limit)
    }
}

/// The device noticed nothing itself: it is ended without its help.
fn give_up(device: &mut dyn Device, scene: &'static dyn Scene, args: &KernelArgs) -> RunError {
    let state = read_control(device, args).and_then(|control| Ok((control, read_progress(device, args)?)));
    let (control, progress) = match state {
        Ok(state) => state,
        Err(error) => return error,
    };
    let mut failure = RunFailure::read(&control, None, scene.kernels(), progress);
    failure.kind = Some(FailureKind::Stall);
    failure.message = "no progress, and the device does not say why".into();
    failure.contained = device.survives_kernel_faults();
    device.kill();
    Box::new(failure).into()
}

/// A kernel that hangs keeps its device busy for ever, so the device is ended with it.
fn end_failed(device: &mut dyn Device, mut failure: RunFailure) -> RunError {
    let hangs = failure.kind == Some(FailureKind::Stall);
    failure.contained = !hangs || device.survives_kernel_faults();
    if hangs {
        device.kill();
    }
    Box::new(failure).into()
}

pub(super) fn read_control(device: &dyn Device, args: &KernelArgs) -> Result<DeviceControl, RunError> {
    let mut bytes = [0; size_of::<DeviceControl>()];
    device.copy_from(args.control.addr, &mut bytes)?;
    Ok(DeviceControl::read_from_bytes(&bytes).expect("the sizes agree"))
}

/// Time held up by the dump is nobody's hang.
fn held_up_by_dump(device: &dyn Device, args: &KernelArgs) -> Result<bool, RunError> {
    for thread in 0..=args.schedulers as usize {
        if ThreadState::is_held_up(read_thread(device, args, thread)?.state) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_thread(device: &dyn Device, args: &KernelArgs, thread: usize) -> Result<ThreadControl, RunError> {
    let mut bytes = [0; size_of::<ThreadControl>()];
    device.copy_from(args.control.addr + ControlLayout::thread_offset(thread) as u64, &mut bytes)?;
    Ok(ThreadControl::read_from_bytes(&bytes).expect("the sizes agree"))
}

pub(super) fn read_progress(device: &dyn Device, args: &KernelArgs) -> Result<Progress, RunError> {
    let mut progress = Progress::default();
    // Before the counts: what is counted once the orchestrator has ended is all there is.
    let builder = read_thread(device, args, 0)?;
    for thread in 0..=args.schedulers as usize {
        let line = read_thread(device, args, thread)?;
        progress.submitted += line.submitted;
        progress.completed += line.completed;
        progress.dispatches += line.dispatches;
    }
    progress.submitted = progress.submitted.max(args.task_count.into());
    // The orchestrator is idle before its first task, too: then it has submitted nothing.
    let has_ended = builder.state == ThreadState::Idle as u32 && builder.submitted > 0;
    let built = args.task_count > 0 || has_ended;
    progress.total = built.then_some(progress.submitted);
    Ok(progress)
}
