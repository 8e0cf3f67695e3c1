//! Replays OpenCL and CUDA launches with the programs stored in the dump, on a device of this machine.
//!
//! The roles of arguments are unknown. So each range is filled with its content before the launch. Its
//! content after the launch is compared with the captured one: bit by bit on the captured device, by rule on
//! a different one.

mod choice;
mod contents;
mod cuda;
mod cut;
mod judge;
mod opencl;

use std::collections::HashMap;
use std::time::Instant;

use tensortap_abi::Operation;
use tensortap_analysis::blame::refusal;
use tensortap_format::{Dump, Module, Task};
use tensortap_launch_host::{LaunchError, WorkerOptions};
use tensortap_values::content_hash;

use crate::capture::Capture;
use crate::replay::{distinct, select};
use crate::{
    ArgReport, Check, Grade, OnOutput, Outcome, Placement, ReplayConfig, ReplayError, ReplayProgress,
    ReplayReport, Selection, TaskReport,
};

use self::choice::{Devices, check_device};
use self::contents::{Contents, LaunchInputs};
use self::cuda::Cuda;
use self::opencl::OpenCl;

pub use self::cut::extract;

/// Which device launches are replayed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LaunchDevice {
    /// The captured device, or else the first one.
    #[default]
    Captured,
    /// The device with this part of a name, or with this index in the loader's or driver's list.
    Named(String),
    /// Any device except the captured one.
    Other,
}

/// Replays launches of one API: OpenCL or CUDA.
trait LaunchBackend {
    /// Description of one launch.
    type Launch;

    /// Collects the inputs of a launch. The inner error says why they are unusable.
    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<LaunchInputs, String>, ReplayError>;

    /// The available devices.
    fn devices(&self) -> Devices;

    /// Plans a launch, and lowers the grades of arguments that are not exact. The error says why it cannot
    /// run.
    fn plan(
        &self,
        contents: &Contents<'_>,
        task: Task<'_>,
        module: &Module,
        image: &[u8],
        inputs: &LaunchInputs,
        grades: &mut Vec<ArgReport>,
    ) -> Result<LaunchPlan<Self::Launch>, String>;

    /// Runs a launch with this memory content.
    fn run(
        &mut self,
        launch: &Self::Launch,
        image: &[u8],
        memories: &[Vec<u8>],
    ) -> Result<LaunchResult, LaunchError>;
}

/// A launch that is ready to run.
struct LaunchPlan<L> {
    launch: L,
    /// Name of the device, as in dumps.
    on: String,
    /// Whether it is the captured device, so that outputs are compared bit by bit.
    by_bits: bool,
}

/// Result of a launch.
struct LaunchResult {
    /// Content of each memory after the launch.
    left: Vec<Vec<u8>>,
    placement: Placement,
    /// An argument that turned out to be inexact.
    doubt: Option<ArgReport>,
}

/// Whether an image is CUDA code.
fn is_cuda(module: &Module) -> bool {
    module.kind.is_cuda()
}

/// Replays the launches of a dump.
pub fn replay(
    config: &ReplayConfig,
    capture: &dyn Capture,
    dump: &Dump,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
    on_output: OnOutput<'_>,
) -> Result<ReplayReport, ReplayError> {
    let started = Instant::now();
    let modules: HashMap<u32, Module> =
        dump.modules().into_iter().map(|module| (module.id, module)).collect();
    let what = if modules.values().all(is_cuda) { "CUDA" } else { "OpenCL" };
    check_options(config, what)?;
    let (selected, _) = select(config, capture)?;
    let is_launch = |task: &Task<'_>| task.operation == Operation::Kernel;
    // A task that the user names is reported even if it is not a launch. `--all` skips such tasks.
    let is_named = matches!(config.select, Selection::Tasks(_));
    let (tasks, others): (Vec<_>, Vec<_>) =
        selected.into_iter().partition(|task| is_named || is_launch(task));
    let mut report = blank(config, capture, &modules);
    if !others.is_empty() {
        report.notes.push(format!("skipped {} tasks that do not launch a kernel", others.len()));
    }
    let contents = Contents::new(capture, dump);
    let mut context = LaunchContext {
        config,
        contents,
        modules,
        images: HashMap::new(),
        failures: 0,
        used: Vec::new(),
        on_output,
    };
    // A program may use both APIs.
    let (of_cuda, of_opencl): (Vec<Task<'_>>, Vec<_>) =
        tasks.iter().partition(|task| context.module(**task).map_or(what == "CUDA", is_cuda));
    let refused = |option| move |reason| ReplayError::Option { option, reason };
    if what == "OpenCL" {
        let backend = OpenCl::start(config).map_err(refused("OpenCL replay"))?;
        // If a program uses both APIs, --device may name a CUDA device.
        if of_cuda.is_empty() {
            check_device("OpenCL device", &backend, config)?;
        }
        Session { context: &mut context, backend }.all(&of_opencl, observe, &mut report)?;
    }
    if (what == "CUDA" || !of_cuda.is_empty()) && !report.interrupted {
        let backend = Cuda::start(config).map_err(refused("CUDA replay"))?;
        if what == "CUDA" {
            check_device("CUDA device", &backend, config)?;
        }
        Session { context: &mut context, backend }.all(&of_cuda, observe, &mut report)?;
    }
    report.replayed_on = distinct(context.used.into_iter());
    if !report.replayed_on.is_empty() && !config.trust {
        report.notes.push(NOT_CONFINED.into());
    }
    report.wall = started.elapsed();
    Ok(report)
}

/// Warning for dumps from other people.
const NOT_CONFINED: &str = "the device driver built and ran the dump's programs in a separate process without confinement, because a driver \
     needs files and threads; replay only dumps that you trust (--trust hides this note)";

fn check_options(config: &ReplayConfig, what: &str) -> Result<(), ReplayError> {
    let refuse = |option, reason: String| Err(ReplayError::Option { option, reason });
    match () {
        () if config.platform.is_some() => refuse(
            "--platform",
            format!("{what} launches run on a device of this machine; choose it with --device NAME"),
        ),
        () if config.reference => refuse(
            "--reference",
            format!("{what} launches have no references; compare with another device with --device NAME"),
        ),
        () if !config.set_args.is_empty() => {
            refuse("--set-arg", format!("arguments of {what} launches cannot be replaced"))
        }
        () if config.bench => refuse("--bench", format!("{what} launches cannot be measured")),
        () if config.inject_fault.is_some() => {
            refuse("--inject-fault", format!("{what} programs cannot be damaged"))
        }
        () if config.guard || config.sanitizer.is_some() => refuse(
            "--guard and --sanitize",
            format!("they work on simulated devices only, and {what} launches run on real ones"),
        ),
        () if matches!(config.select, Selection::Dispatch(_) | Selection::LibraryKernels) => {
            refuse("--dispatch", format!("a {what} launch has no separate dispatches; select it with --task"))
        }
        () => Ok(()),
    }
}

fn blank(config: &ReplayConfig, capture: &dyn Capture, modules: &HashMap<u32, Module>) -> ReplayReport {
    let devices = modules.values().map(|module| module.device.clone());
    let mut captured_on: Vec<String> = distinct(devices.filter(|device| !device.is_empty()));
    captured_on.sort();
    ReplayReport {
        source: capture.name(),
        scenes: vec![capture.run().scene.clone()],
        captured_on,
        replayed_on: Vec::new(),
        inject_fault: None,
        golden: capture.run().golden,
        of_dump: true,
        has_references: false,
        tasks: Vec::new(),
        notes: Vec::new(),
        library_kernels: Vec::new(),
        confinement: None,
        allow_inexact: config.allow_inexact,
        interrupted: false,
        wall: std::time::Duration::ZERO,
    }
}

/// State shared by the launches of one replay.
struct LaunchContext<'c> {
    config: &'c ReplayConfig,
    contents: Contents<'c>,
    modules: HashMap<u32, Module>,
    /// Program images with verified hashes, or why an image is unusable.
    images: HashMap<u32, Result<Vec<u8>, String>>,
    /// Number of workers that died.
    failures: u64,
    /// Devices that ran a launch.
    used: Vec<String>,
    on_output: OnOutput<'c>,
}

/// Replays launches with one backend.
struct Session<'s, 'c, D> {
    context: &'s mut LaunchContext<'c>,
    backend: D,
}

impl<D: LaunchBackend> Session<'_, '_, D> {
    fn all(
        mut self,
        tasks: &[Task<'_>],
        observe: &mut dyn FnMut(ReplayProgress) -> bool,
        report: &mut ReplayReport,
    ) -> Result<(), ReplayError> {
        for task in tasks {
            let done = self.task(*task)?;
            report.tasks.push(done);
            let progress = ReplayProgress {
                tasks: tasks.len() as u64,
                finished: report.tasks.len() as u64,
                device_failures: self.context.failures,
            };
            if !observe(progress) {
                report.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    fn task(&mut self, task: Task<'_>) -> Result<TaskReport, ReplayError> {
        let mut report = TaskReport {
            step: task.step,
            task_id: task.task_id,
            kernels: task.kernel_names(),
            scope: task.scope().map(str::to_owned),
            task_name: task.task_name().map(str::to_owned),
            ..TaskReport::unknown(None, Check::Captured)
        };
        report.outcome = match self.run(task, &mut report)? {
            Ok(outcome) => outcome,
            Err(why) => Outcome::Refused(why),
        };
        Ok(report)
    }

    /// Replays one launch. The inner error says why it was not run.
    fn run(
        &mut self,
        task: Task<'_>,
        report: &mut TaskReport,
    ) -> Result<Result<Outcome, String>, ReplayError> {
        if let Some(why) = why_no_launch(task).or_else(|| self.context.cancel_reason()) {
            return Ok(Err(why));
        }
        let programs = match self.context.programs(task) {
            Ok(programs) => programs,
            Err(why) => return Ok(Err(why)),
        };
        // If the dump does not name the program, use the one that reproduces the outputs.
        let mut first = None;
        for module in &programs {
            let mut attempt = TaskReport { args: Vec::new(), ..report.clone() };
            let outcome = self.run_with(task, module, &mut attempt)?;
            let is_same = matches!(outcome, Ok(Outcome::BitExact));
            if is_same || first.is_none() {
                (*report, first) = (attempt, Some(outcome));
            }
            if is_same {
                break;
            }
        }
        Ok(first.unwrap_or_else(|| Err("the dump has no program for it".into())))
    }

    /// Runs a launch with a program. The inner error says why it was not run.
    fn run_with(
        &mut self,
        task: Task<'_>,
        module: &Module,
        report: &mut TaskReport,
    ) -> Result<Result<Outcome, String>, ReplayError> {
        let image = match self.context.image(module) {
            Ok(image) => image,
            Err(why) => return Ok(Err(why)),
        };
        let inputs = match D::gather(&self.context.contents, task, &mut report.args)? {
            Ok(inputs) => inputs,
            Err(why) => return Ok(Err(why)),
        };
        let plan = self.backend.plan(&self.context.contents, task, module, &image, &inputs, &mut report.args);
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = inexact(task, &report.args).filter(|_| !self.context.config.allow_inexact) {
            return Ok(Err(format!("{why}; add --allow-inexact to replay it anyway")));
        }
        if !self.context.used.contains(&plan.on) {
            self.context.used.push(plan.on.clone());
        }
        self.repeat(task, report, inputs, &plan, &image)
    }

    fn repeat(
        &mut self,
        task: Task<'_>,
        report: &mut TaskReport,
        inputs: LaunchInputs,
        plan: &LaunchPlan<D::Launch>,
        image: &[u8],
    ) -> Result<Result<Outcome, String>, ReplayError> {
        let LaunchInputs { memories, ranges, .. } = inputs;
        let memories: Vec<Vec<u8>> = memories.into_iter().map(|memory| memory.content).collect();
        let mut results: Vec<u128> = Vec::new();
        let mut outcome = Outcome::Refused("it was not run".into());
        for _ in 0..self.context.config.repeat.max(1) {
            let ran = match self.backend.run(&plan.launch, image, &memories) {
                Ok(ran) => ran,
                Err(LaunchError::Refused(why)) => return Ok(Err(why)),
                Err(LaunchError::Died(why)) => {
                    self.context.failures += 1;
                    return Ok(Ok(Outcome::Failed(why)));
                }
            };
            report.placement = Some(ran.placement);
            if let Some(doubt) = ran.doubt {
                report.args.retain(|arg| arg.arg_index != doubt.arg_index);
                report.args.push(doubt);
            }
            report.runs += 1;
            let result = content_hash(&ran.left.concat());
            if !results.contains(&result) {
                results.push(result);
            }
            let (outputs, judged) = self.context.judge(task, &ranges, &ran.left, plan.by_bits)?;
            if !matches!(outcome, Outcome::Failed(_)) {
                (report.outputs, outcome) = (outputs, judged);
            }
        }
        report.distinct_results = u32::try_from(results.len()).unwrap_or(u32::MAX);
        Ok(Ok(outcome))
    }
}

impl LaunchContext<'_> {
    /// Why the remaining launches are canceled, if they are.
    fn cancel_reason(&self) -> Option<String> {
        let most = self.config.max_device_failures.filter(|&most| self.failures >= most)?;
        Some(format!("the limit of {most} device failures was reached; raise it with --max-device-failures"))
    }

    /// The program of a launch, if the dump names it.
    fn module(&self, task: Task<'_>) -> Option<&Module> {
        let id = self.contents.module_of(task);
        self.modules.get(&id)
    }

    /// The candidate programs of a launch: the one that the dump names, or else the CUDA programs with a
    /// kernel of this name, newest first.
    fn programs(&mut self, task: Task<'_>) -> Result<Vec<Module>, String> {
        if let Some(module) = self.module(task) {
            return Ok(vec![module.clone()]);
        }
        let mut of_cuda: Vec<Module> =
            self.modules.values().filter(|module| is_cuda(module)).cloned().collect();
        of_cuda.sort_by_key(|module| std::cmp::Reverse(module.id));
        if let [kernel] = &task.kernel_names()[..] {
            of_cuda.retain(|module| {
                self.image(module).is_ok_and(|image| tensortap_driver::cubin::may_have_kernel(&image, kernel))
            });
        }
        match of_cuda.is_empty() {
            true => Err("the dump does not name the program of its kernel".into()),
            false => Ok(of_cuda),
        }
    }

    fn image(&mut self, module: &Module) -> Result<Vec<u8>, String> {
        let dir = self.contents.dump.dir();
        let image =
            self.images.entry(module.id).or_insert_with(|| module.image(dir).map_err(|e| e.to_string()));
        image.clone()
    }
}

/// Why a task of a recorded program is not a launch that can be replayed; `None` if it is one.
#[must_use]
pub fn why_no_launch(task: Task<'_>) -> Option<String> {
    if let Some((called, status)) = refusal(task) {
        return Some(format!("the driver refused {called} with status {status}, so nothing ran"));
    }
    if task.operation != Operation::Kernel {
        return Some(format!("it is a {} and launches no kernel", task.operation.name().replace('_', " ")));
    }
    (task.launch.is_none()).then(|| "the dump does not have its grid size".into())
}

/// Why a launch cannot be replayed exactly, if it cannot.
fn inexact(task: Task<'_>, args: &[ArgReport]) -> Option<String> {
    if task.is_unfinished() {
        return Some("it was still running when the recording ended, so its outputs are unknown".into());
    }
    let arg = args.iter().find(|arg| arg.grade != Grade::Exact)?;
    let why = arg.reason.as_deref().unwrap_or("it is inexact");
    let is = match arg.grade {
        Grade::Zero => "would be zeros",
        grade => &format!("is {}", grade.name()),
    };
    Some(format!("argument {} {is}: {why}", arg.arg_index))
}

/// Options of the worker process.
fn worker_options(config: &ReplayConfig) -> WorkerOptions {
    WorkerOptions { executable: config.device_executable.clone(), launch_limit: config.stall_timeout }
}

/// Runs as a launch worker and never returns, if this process was started as one. Otherwise returns at once.
pub fn become_launch_worker_if_asked() {
    tensortap_launch_host::become_worker_if_asked::<tensortap_opencl_host::OpenCl>();
    tensortap_launch_host::become_worker_if_asked::<tensortap_cuda_host::Cuda>();
}
