use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tensortap_judge::{Outcome, Rule, Side, Verdict, compare_bytes, detail};
use tensortap_platform::{DeviceMode, DeviceOptions, PLATFORMS, Platform, PlatformError};
use tensortap_runtime::{
    DeviceReport, DumpSession, Fault, GraphProgram, GuardOptions, LaunchOptions, Progress, RUNTIMES,
    RunError, Runtime, execute,
};
use tensortap_runtime::{Phase, RunFailure};
use tensortap_scene::{HostArgs, HostTensor, Params, Registry, Scene};

use crate::dump_session::Session;
use crate::memory;
use crate::{Error, GoldenVerdict, OutputVerdict, RunConfig, RunReport, UnknownName};

/// Turns this process into a device, with the built-in scenes, if a host started it as one; then it never
/// returns. Otherwise it returns at once. Call it at the top of `main`.
///
/// ```no_run
/// fn main() -> Result<(), tensortap::Error> {
///     tensortap::become_device_if_asked();
///     let report = tensortap::run(&tensortap::RunConfig::new("paged_attention"))?;
///     println!("{} tasks, golden: {}", report.tasks, report.golden.name());
///     Ok(())
/// }
/// ```
pub fn become_device_if_asked() {
    become_device_if_asked_with(tensortap_scenes::builtin());
}

/// As [`become_device_if_asked`], with your own scenes. Host and device must know the same ones.
pub fn become_device_if_asked_with(registry: Registry) {
    tensortap_scene_folder::become_worker_if_asked();
    tensortap_replay::become_launch_worker_if_asked();
    let registry = registry.with_loader(tensortap_scene_folder::load_plan);
    tensortap_platform::become_device_if_asked(&GraphProgram::new(registry));
}

/// Runs a scene and checks its golden. A report means that the run completed and that its dump, if any, is
/// complete. [`RunReport::golden`] shows whether its outputs are right. A run that ended early is
/// [`Error::Failed`].
pub fn run(config: &RunConfig) -> Result<RunReport, Error> {
    run_observed(config, &mut |_| true)
}

/// Runs a scene. `observe` is called regularly with the progress and ends the run by returning false. The
/// result is then [`Error::Failed`], with the results so far in its report.
pub fn run_observed(
    config: &RunConfig,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunReport, Error> {
    let request = resolve(config)?;
    memory::check(request.scene, &request.params, config.device_memory)?;
    let mut device = request.platform.open(&device_options(config, request.scene))?;
    let base = device.memory().addr;
    let wanted = config.dump.as_ref().filter(|dump| dump.records_anything());
    let mut session = wanted.map(|dump| Session::create(config, dump, &request, base)).transpose()?;
    let inputs = Arc::new(request.scene.try_host_args(&request.params)?);
    let options = launch_options(config, request.fault);
    let started = Instant::now();
    let live = session.as_ref().map(Session::live_state).unwrap_or_default();
    let dump = session.as_mut().map(|s| s as &mut dyn DumpSession);
    // A run whose tasks are all complete is not ended, because its outputs are about to be available.
    let is_complete = |progress: Progress| progress.total == Some(progress.completed);
    let mut watch = |progress| observe(progress) && (!live.stop() || is_complete(progress));
    let outcome = execute(
        &mut *device,
        request.scene,
        &request.params,
        request.runtime,
        options,
        &inputs,
        dump,
        &mut watch,
    );
    let failure = match &outcome {
        Err(RunError::Failed(failure)) => Some(&**failure),
        _ => None,
    };
    if outcome.is_err() && failure.is_none() {
        // Nothing was launched, so there is nothing to keep.
        session.take().into_iter().for_each(Session::abandon);
    }
    // The clock stops when the last payload is written; manifest, graph and golden come later.
    let launched = started.elapsed();
    session.iter_mut().for_each(|session| session.drain(failure));
    let draining = started.elapsed().saturating_sub(launched);
    let how_it_ended = failure.cloned();
    let mut report = match outcome {
        Ok(report) => complete(config, &request, &inputs, report, observe),
        Err(RunError::Failed(failure)) => {
            let report = blank(config, &request, failure.progress, launched);
            RunReport { failure: Some(*failure), ..report }
        }
        Err(error) => return Err(error.into()),
    };
    report.wall += draining;
    // Judged first, so that the dump contains the verdict. Outputs that were not judged have no verdict in
    // the dump.
    let golden = report.failure.is_none().then_some(report.golden);
    report.dump = session.map(|session| session.close(how_it_ended.as_ref(), golden));
    let judged = report.dump.as_ref().and_then(|dump| dump.live.as_ref()).map(|live| live.judged);
    count_judged(&mut report, judged.unwrap_or(0));
    if report.ended_early() { Err(Error::Failed(Box::new(report))) } else { Ok(report) }
}

/// A configuration with resolved names.
pub struct Request {
    /// The scene.
    pub scene: &'static dyn Scene,
    /// Its parameters.
    pub params: Params,
    /// The platform.
    pub platform: &'static dyn Platform,
    /// The runtime.
    pub runtime: &'static dyn Runtime,
    /// The fault to inject.
    pub fault: Option<Fault>,
}

/// Checks every name in a configuration without running anything.
pub fn resolve(config: &RunConfig) -> Result<Request, Error> {
    let scene = find_scene(&config.registry, &config.scene)?;
    let platform =
        PLATFORMS.iter().copied().find(|p| p.name() == config.platform).ok_or_else(|| {
            UnknownName::new("platform", &config.platform, PLATFORMS.iter().map(|p| p.name()))
        })?;
    let runtimes = runtimes_of(scene);
    let runtime_name = config.runtime.as_deref().or(runtimes.first().copied()).unwrap_or_default();
    let runtime = tensortap_runtime::find(runtime_name)
        .ok_or_else(|| UnknownName::new("runtime", runtime_name, RUNTIMES.iter().map(|r| r.name())))?;
    if !runtimes.contains(&runtime.name()) {
        let (scene, runtime) = (scene.name(), runtime.name());
        return Err(Error::SceneRuntime { scene, runtime, runtimes });
    }
    if config.sanitizer.is_some() && config.device_mode == DeviceMode::Thread {
        return Err(PlatformError::ThreadSanitized.into());
    }
    if config.sanitizer.is_some() && scene.folder().is_none() {
        return Err(Error::SanitizedScene { scene: scene.name() });
    }
    let params = find_params(scene, &config.params)?;
    let fault = find_fault(scene, config)?;
    Ok(Request { scene, params, platform, runtime, fault })
}

/// Names of the runtimes that can run a scene; the first is the default.
///
/// ```
/// let scene = tensortap::builtin().find("bgemm").expect("built in");
/// assert_eq!(tensortap::runtimes_of(scene), ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"]);
/// ```
pub fn runtimes_of(scene: &dyn Scene) -> Vec<&'static str> {
    let runtimes = RUNTIMES.iter().filter(|r| scene.runtimes().include(r.name(), r.builds_on_device()));
    runtimes.map(|runtime| runtime.name()).collect()
}

fn find_scene(registry: &Registry, name: &str) -> Result<&'static dyn Scene, UnknownName> {
    let listed = || registry.scenes().iter().filter(|s| !s.hidden()).map(|s| s.name());
    registry.find(name).ok_or_else(|| UnknownName::new("scene", name, listed()))
}

pub(crate) fn find_params(scene: &'static dyn Scene, given: &[(String, String)]) -> Result<Params, Error> {
    let names = || scene.params().iter().map(|p| p.name);
    if let Some((name, _)) = given.iter().find(|(name, _)| !names().any(|n| n == name)) {
        return Err(UnknownName::new("parameter", name, names()).into());
    }
    let pairs = given.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let params = Params::resolve(scene.name(), scene.params(), pairs)?;
    scene.check(&params)?;
    Ok(params)
}

fn find_fault(scene: &'static dyn Scene, config: &RunConfig) -> Result<Option<Fault>, Error> {
    let Some((name, kind)) = &config.inject_fault else { return Ok(None) };
    let kernels = scene.kernels();
    let kernel = kernels
        .iter()
        .find(|k| k.name == name)
        .ok_or_else(|| UnknownName::new("kernel", name, kernels.iter().map(|k| k.name)))?;
    if !kernel.faults.contains(kind) {
        let (scene, kernel, shows) = (scene.name(), kernel.name, kernel.faults);
        return Err(Error::Fault { scene, kernel, kind: *kind, shows });
    }
    Ok(Some(Fault { func_id: kernel.func_id, kind: *kind }))
}

fn device_options(config: &RunConfig, scene: &dyn Scene) -> DeviceOptions {
    let mut options = DeviceOptions::new(Arc::new(GraphProgram::new(config.registry.clone())));
    options.mode = config.device_mode;
    options.memory_bytes = config.device_memory;
    options.program_data = tensortap_scene::plans([scene]);
    options.executable.clone_from(&config.device_executable);
    options.sanitizer.clone_from(&config.sanitizer);
    options
}

fn launch_options(config: &RunConfig, fault: Option<Fault>) -> LaunchOptions {
    LaunchOptions {
        blocks: config.block_count(),
        schedulers: config.schedulers,
        build: config.build,
        ring_slots: config.ring_slots,
        ring_heap_bytes: config.ring_heap,
        stall_timeout: config.stall_timeout,
        fault,
        poison: config.poison,
        guarding: guarding(config),
    }
}

fn guarding(config: &RunConfig) -> GuardOptions {
    let watched = config.sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.address);
    let guarding = if config.guard { GuardOptions::FULL } else { GuardOptions::default() };
    GuardOptions { shadow: watched, ..guarding }
}

fn blank(config: &RunConfig, request: &Request, progress: Progress, wall: Duration) -> RunReport {
    RunReport {
        scene: request.scene.name(),
        platform: request.platform.name(),
        runtime: request.runtime.name(),
        blocks: config.block_count(),
        schedulers: config.schedulers,
        tasks: progress.completed,
        dispatches: progress.dispatches,
        wall,
        golden: GoldenVerdict::None,
        outputs: Vec::new(),
        results: Vec::new(),
        dump: None,
        failure: None,
    }
}

fn complete(
    config: &RunConfig,
    request: &Request,
    inputs: &Arc<HostArgs>,
    report: DeviceReport,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> RunReport {
    let blank = blank(config, request, report.progress, report.wall);
    let Some(golden) = golden(request, inputs, report.progress, observe) else {
        let failure = Some(RunFailure::interrupted(report.progress));
        return RunReport { failure, results: report.outputs, ..blank };
    };
    let outputs: Option<Vec<_>> = match golden {
        Ok(golden) => golden
            .map(|g| g.iter().map(|expected| judge(config, request, expected, &report.outputs)).collect()),
        Err(why) => Some(report.outputs.iter().map(|output| not_judged(output, &why)).collect()),
    };
    let verdict = match &outputs {
        None => GoldenVerdict::None,
        Some(all) if !all.is_empty() && all.iter().all(OutputVerdict::passed) => GoldenVerdict::Pass,
        Some(_) => GoldenVerdict::Fail,
    };
    RunReport { golden: verdict, outputs: outputs.unwrap_or_default(), results: report.outputs, ..blank }
}

/// Tasks that were compared have run. A task is captured before it counts as complete, so an ended run may
/// have compared more tasks than it had counted.
fn count_judged(report: &mut RunReport, judged: u64) {
    report.tasks = report.tasks.max(judged);
    if let Some(failure) = &mut report.failure {
        failure.progress.completed = failure.progress.completed.max(judged);
    }
}

/// How often the observer is called while the golden is computed.
const GOLDEN_LOOK: Duration = Duration::from_millis(50);

/// The scene's golden, computed in a separate thread so that the observer can cancel the wait. Returns
/// `None` then.
fn golden(
    request: &Request,
    inputs: &Arc<HostArgs>,
    progress: Progress,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Option<Result<Option<Vec<HostTensor>>, String>> {
    let (scene, params, inputs) = (request.scene, request.params.clone(), Arc::clone(inputs));
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(scene.try_golden(&params, &inputs)));
    loop {
        match wait.recv_timeout(GOLDEN_LOOK) {
            Ok(golden) => return Some(golden),
            Err(RecvTimeoutError::Timeout)
                if observe(Progress { phase: Phase::CheckingGolden, ..progress }) => {}
            // Interrupted, or the golden panicked, which its thread has reported.
            Err(_) => return None,
        }
    }
}

/// An output whose golden could not be computed.
fn not_judged(output: &HostTensor, why: &str) -> OutputVerdict {
    OutputVerdict { name: output.name.clone(), outcome: Outcome::unknown(why), first_outside: None }
}

/// Compares an output with the golden. An output without elements proves nothing.
fn judge(
    config: &RunConfig,
    request: &Request,
    expected: &HostTensor,
    outputs: &[HostTensor],
) -> OutputVerdict {
    let &HostTensor { ref name, dtype, ref shape, ref bytes } = expected;
    let mut verdict =
        OutputVerdict { name: name.clone(), outcome: Outcome::unknown(""), first_outside: None };
    let Some(actual) = outputs.iter().find(|o| o.name == *name && o.dtype == dtype) else {
        verdict.outcome = Outcome::unknown("the run has no output of that name and dtype");
        return verdict;
    };
    let own = config.tolerances.iter().find(|(output, _)| output == name).map(|&(_, tolerance)| tolerance);
    let rule = Rule::declared(dtype, own.or_else(|| request.scene.tolerance(name)));
    verdict.outcome = match shape.contains(&0) {
        true => Outcome::unknown("it has no elements"),
        false => compare_bytes(dtype, shape, &actual.bytes, bytes, &rule),
    };
    if verdict.outcome.verdict == Verdict::Outside {
        let (actual, golden): (Side<'_>, Side<'_>) =
            (Side::of_bytes(dtype, shape, &actual.bytes), Side::of_bytes(dtype, shape, bytes));
        let Ok(detail) = detail(&actual, &golden, &rule, false);
        verdict.first_outside = detail.and_then(|detail| detail.first_failing);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_tasks_were_compared_than_had_run() {
        let config = RunConfig::new("vector_example");
        let request = resolve(&config).expect("built in");
        let progress = Progress { completed: 48, ..Progress::default() };
        let failure = Some(RunFailure::interrupted(progress));
        let mut report =
            RunReport { failure, ..blank(&config, &request, progress, Duration::from_millis(1)) };
        count_judged(&mut report, 50);
        assert_eq!((report.tasks, report.failure.map(|f| f.progress.completed)), (50, Some(50)));
        let mut report = blank(&config, &request, progress, Duration::from_millis(1));
        count_judged(&mut report, 40);
        assert_eq!(report.tasks, 48);
    }
}
