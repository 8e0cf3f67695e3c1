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

/// Interval at which the host checks progress and interruption.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How long after the stall limit the host waits for the device to report its stall.
const STALL_REPORT_GRACE: Duration = Duration::from_secs(5);

/// The current phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The device runs tasks.
    #[default]
    Running,
    /// The device has finished, and its results are being compared with the golden.
    CheckingGolden,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Tasks submitted so far. If the host built the graph, all tasks.
    pub submitted: u64,
    /// Tasks of the whole graph, or `None` while it is being built.
    pub total: Option<u64>,
    /// Completed tasks.
    pub completed: u64,
    /// Finished dispatches.
    pub dispatches: u64,
}

/// The result of a successful run.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Outputs and in-outs of the orchestration, as the device left them.
    pub outputs: Vec<HostTensor>,
    /// Counts of tasks and dispatches.
    pub progress: Progress,
    /// Time from launch to completion on the host's clock.
    pub wall: Duration,
    /// Time from the first thread to the last completed task on the device's clock.
    pub device_time: Duration,
}

/// Runs the graph of a scene on an open device and waits for its end.
///
/// `observe` is called regularly with the progress. If it returns false, the run is interrupted. `dump`
/// collects the records.
#[expect(clippy::too_many_arguments, reason = "each is an independent part of a run")]
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
    let mut silence = HostStallClock::new(options.stall_timeout);
    let check_interval = dump.as_ref().and_then(|session| session.check_interval()).unwrap_or(CHECK_INTERVAL);
    loop {
        let asleep = Instant::now();
        let event = device.wait(check_interval)?;
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
                let interval = if blocked_by_dump(device, args)? {
                    Duration::ZERO
                } else {
                    asleep.elapsed().min(2 * CHECK_INTERVAL)
                };
                if silence.is_too_long(progress, interval) {
                    return Err(report_silent_device(device, scene, args));
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

/// The argument that a kernel overran, from the memory of a dead device.
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

/// The host's stall clock, for a device that hangs without reporting it.
struct HostStallClock {
    limit: Option<Duration>,
    progress: Progress,
    lasted: Duration,
}

impl HostStallClock {
    fn new(stall: Option<Duration>) -> HostStallClock {
        let limit = stall.map(|limit| limit + STALL_REPORT_GRACE);
        HostStallClock { limit, progress: Progress::default(), lasted: Duration::ZERO }
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

/// Ends a device that hangs without reporting it.
fn report_silent_device(device: &mut dyn Device, scene: &'static dyn Scene, args: &KernelArgs) -> RunError {
    let state = read_control(device, args).and_then(|control| Ok((control, read_progress(device, args)?)));
    let (control, progress) = match state {
        Ok(state) => state,
        Err(error) => return error,
    };
    let mut failure = RunFailure::read(&control, None, scene.kernels(), progress);
    failure.kind = Some(FailureKind::Stall);
    failure.message = "no progress, and the device reported no cause".into();
    failure.contained = device.survives_kernel_faults();
    device.kill();
    Box::new(failure).into()
}

/// A hanging kernel keeps its device busy forever, so the device is ended too.
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

/// Whether a thread of the device waits for the dump. Such time does not count as a stall.
fn blocked_by_dump(device: &dyn Device, args: &KernelArgs) -> Result<bool, RunError> {
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
    // Read before the counts: if the orchestrator has ended by now, the counts below include all of its
    // tasks.
    let builder = read_thread(device, args, 0)?;
    for thread in 0..=args.schedulers as usize {
        let line = read_thread(device, args, thread)?;
        progress.submitted += line.submitted;
        progress.completed += line.completed;
        progress.dispatches += line.dispatches;
    }
    progress.submitted = progress.submitted.max(args.task_count.into());
    // Before its first task the orchestrator is idle too, but has submitted nothing.
    let has_ended = builder.state == ThreadState::Idle as u32 && builder.submitted > 0;
    let built = args.task_count > 0 || has_ended;
    progress.total = built.then_some(progress.submitted);
    Ok(progress)
}
