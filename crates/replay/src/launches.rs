//! Launches of OpenCL and CUDA, run again with the programs that a dump keeps, on a device of this machine.
//!
//! Nothing is assumed of what an argument is used for: each range is filled with what it held before the launch, and what it holds
//! afterwards is held against what was captured, bit for bit on the device that it was captured on, by rule on another.

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
use self::contents::{Contents, Gathered};
use self::cuda::Cuda;
use self::opencl::OpenCl;

pub use self::cut::extract;

/// Which device launches are replayed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LaunchDevice {
    /// The one they were captured on, or else the first.
    #[default]
    Captured,
    /// This one: part of its name, or its place in the list of its loader or driver, from 0.
    Named(String),
    /// Any but the one they were captured on.
    Other,
}

/// What runs launches of one kind again.
trait Door {
    /// One launch, as the door runs it.
    type Launch;

    /// What a launch was given. The inner error is why it cannot be given again.
    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<Gathered, String>, ReplayError>;

    /// Devices that there are.
    fn devices(&self) -> Devices;

    /// Makes a launch of it, and grades arguments down for what the door knows. The error is why there is none.
    fn plan(
        &self,
        contents: &Contents<'_>,
        task: Task<'_>,
        module: &Module,
        image: &[u8],
        gathered: &Gathered,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Planned<Self::Launch>, String>;

    /// Runs it with these contents of its memories.
    fn run(&mut self, launch: &Self::Launch, image: &[u8], memories: &[Vec<u8>]) -> Result<Ran, LaunchError>;
}

/// A launch that can be run.
struct Planned<L> {
    launch: L,
    /// The device, as a dump names it.
    on: String,
    /// Whether it is the device that it was captured on.
    by_bits: bool,
}

/// What a launch leaves.
struct Ran {
    /// In each memory.
    left: Vec<Vec<u8>>,
    placement: Placement,
    /// An argument that turned out to be less than exact.
    doubt: Option<ArgReport>,
}

/// Whether an image is one of CUDA's.
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
    // Whoever names a task is told why it is not run; of all, those that launch nothing are not meant.
    let is_named = matches!(config.select, Selection::Tasks(_));
    let (tasks, others): (Vec<_>, Vec<_>) =
        selected.into_iter().partition(|task| is_named || is_launch(task));
    let mut report = blank(config, capture, &modules);
    if !others.is_empty() {
        report.notes.push(format!("{} tasks that launch no kernel are not run", others.len()));
    }
    let contents = Contents::new(capture, dump);
    let mut shared = Shared {
        config,
        contents,
        modules,
        images: HashMap::new(),
        failures: 0,
        used: Vec::new(),
        on_output,
    };
    // A program may use both.
    let (of_cuda, of_opencl): (Vec<Task<'_>>, Vec<_>) =
        tasks.iter().partition(|task| shared.module(**task).map_or(what == "CUDA", is_cuda));
    let refused = |option| move |reason| ReplayError::Option { option, reason };
    if what == "OpenCL" {
        let door = OpenCl::start(config).map_err(refused("replaying launches of OpenCL"))?;
        // Of a program that uses both, the device may be the other's.
        if of_cuda.is_empty() {
            check_device("OpenCL device", &door, config)?;
        }
        Session { shared: &mut shared, door }.all(&of_opencl, observe, &mut report)?;
    }
    if (what == "CUDA" || !of_cuda.is_empty()) && !report.interrupted {
        let door = Cuda::start(config).map_err(refused("replaying launches of CUDA"))?;
        if what == "CUDA" {
            check_device("CUDA device", &door, config)?;
        }
        Session { shared: &mut shared, door }.all(&of_cuda, observe, &mut report)?;
    }
    report.replayed_on = distinct(shared.used.into_iter());
    if !report.replayed_on.is_empty() && !config.trust {
        report.notes.push(NOT_CONFINED.into());
    }
    report.wall = started.elapsed();
    Ok(report)
}

/// Whoever replays a dump from elsewhere has to know it.
const NOT_CONFINED: &str = "its programs were built and run by the driver of the device, in a process of their own that is not \
     confined: a driver needs files and threads; replay only dumps that you trust (--trust leaves this sentence out)";

fn check_options(config: &ReplayConfig, what: &str) -> Result<(), ReplayError> {
    let refuse = |option, reason: String| Err(ReplayError::Option { option, reason });
    match () {
        () if config.platform.is_some() => refuse(
            "--platform",
            format!("launches of {what} run on a device of this machine; --device NAME chooses it"),
        ),
        () if config.reference => refuse(
            "--reference",
            format!("launches of {what} have no references; --device NAME holds them against another device"),
        ),
        () if !config.set_args.is_empty() => {
            refuse("--set-arg", format!("launches of {what} run with what was captured"))
        }
        () if config.bench => refuse("--bench", format!("launches of {what} are not measured")),
        () if config.inject_fault.is_some() => {
            refuse("--inject-fault", format!("a program of {what} is run as it is"))
        }
        () if config.guard || config.sanitizer.is_some() => refuse(
            "--guard and --sanitize",
            format!("they watch devices of ours, and launches of {what} run on others"),
        ),
        () if matches!(config.select, Selection::Dispatch(_) | Selection::Given) => {
            refuse("--dispatch", format!("a launch of {what} is one task; name it with --task"))
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
        given: Vec::new(),
        confinement: None,
        allow_inexact: config.allow_inexact,
        interrupted: false,
        wall: std::time::Duration::ZERO,
    }
}

/// What launches of one replay share.
struct Shared<'c> {
    config: &'c ReplayConfig,
    contents: Contents<'c>,
    modules: HashMap<u32, Module>,
    /// Images that were read and proven, or why they are not to be had.
    images: HashMap<u32, Result<Vec<u8>, String>>,
    /// Workers that died.
    failures: u64,
    /// Devices that ran something.
    used: Vec<String>,
    on_output: OnOutput<'c>,
}

/// Launches, and what runs them.
struct Session<'s, 'c, D> {
    shared: &'s mut Shared<'c>,
    door: D,
}

impl<D: Door> Session<'_, '_, D> {
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
                device_failures: self.shared.failures,
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

    /// The inner error is why it was not run.
    fn run(
        &mut self,
        task: Task<'_>,
        report: &mut TaskReport,
    ) -> Result<Result<Outcome, String>, ReplayError> {
        if let Some(why) = no_launch(task).or_else(|| self.shared.given_up()) {
            return Ok(Err(why));
        }
        let programs = match self.shared.programs(task) {
            Ok(programs) => programs,
            Err(why) => return Ok(Err(why)),
        };
        // Where the dump does not say which of several it was, the one that does the same again is as good.
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
        Ok(first.unwrap_or_else(|| Err("there is no program to run it with".into())))
    }

    /// Runs a launch with a program. The inner error is why it was not run.
    fn run_with(
        &mut self,
        task: Task<'_>,
        module: &Module,
        report: &mut TaskReport,
    ) -> Result<Result<Outcome, String>, ReplayError> {
        let image = match self.shared.image(module) {
            Ok(image) => image,
            Err(why) => return Ok(Err(why)),
        };
        let gathered = match D::gather(&self.shared.contents, task, &mut report.args)? {
            Ok(gathered) => gathered,
            Err(why) => return Ok(Err(why)),
        };
        let planned =
            self.door.plan(&self.shared.contents, task, module, &image, &gathered, &mut report.args);
        let planned = match planned {
            Ok(planned) => planned,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = inexact(task, &report.args).filter(|_| !self.shared.config.allow_inexact) {
            return Ok(Err(format!("{why}; --allow-inexact replays it all the same")));
        }
        if !self.shared.used.contains(&planned.on) {
            self.shared.used.push(planned.on.clone());
        }
        self.repeat(task, report, gathered, &planned, &image)
    }

    fn repeat(
        &mut self,
        task: Task<'_>,
        report: &mut TaskReport,
        gathered: Gathered,
        planned: &Planned<D::Launch>,
        image: &[u8],
    ) -> Result<Result<Outcome, String>, ReplayError> {
        let Gathered { memories, ranges, .. } = gathered;
        let memories: Vec<Vec<u8>> = memories.into_iter().map(|memory| memory.content).collect();
        let mut results: Vec<u128> = Vec::new();
        let mut outcome = Outcome::Refused("it was not run".into());
        for _ in 0..self.shared.config.repeat.max(1) {
            let ran = match self.door.run(&planned.launch, image, &memories) {
                Ok(ran) => ran,
                Err(LaunchError::Refused(why)) => return Ok(Err(why)),
                Err(LaunchError::Died(why)) => {
                    self.shared.failures += 1;
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
            let (outputs, judged) = self.shared.judge(task, &ranges, &ran.left, planned.by_bits)?;
            if !matches!(outcome, Outcome::Failed(_)) {
                (report.outputs, outcome) = (outputs, judged);
            }
        }
        report.distinct_results = u32::try_from(results.len()).unwrap_or(u32::MAX);
        Ok(Ok(outcome))
    }
}

impl Shared<'_> {
    /// Why nothing more is run.
    fn given_up(&self) -> Option<String> {
        let most = self.config.max_device_failures.filter(|&most| self.failures >= most)?;
        Some(format!("{most} devices have failed; --max-device-failures allows more"))
    }

    /// The program that a launch's kernel is of, where the dump says it.
    fn module(&self, task: Task<'_>) -> Option<&Module> {
        let id = self.contents.module_of(task);
        self.modules.get(&id)
    }

    /// The programs that may be meant: the one that the dump names, or, of CUDA, those which have a kernel of this name, the newest first.
    fn programs(&mut self, task: Task<'_>) -> Result<Vec<Module>, String> {
        if let Some(module) = self.module(task) {
            return Ok(vec![module.clone()]);
        }
        let mut of_cuda: Vec<Module> =
            self.modules.values().filter(|module| is_cuda(module)).cloned().collect();
        of_cuda.sort_by_key(|module| std::cmp::Reverse(module.id));
        if let [kernel] = &task.kernel_names()[..] {
            of_cuda.retain(|module| {
                self.image(module).is_ok_and(|image| tensortap_cuda_host::has_kernel(&image, kernel))
            });
        }
        match of_cuda.is_empty() {
            true => Err("the dump does not say which program its kernel is of".into()),
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

/// Why a task of a recorded program is no launch that can be run again; `None` where it is one.
#[must_use]
pub fn no_launch(task: Task<'_>) -> Option<String> {
    if let Some((called, status)) = refusal(task) {
        return Some(format!(
            "the driver refused {called} with status {status}, so there is nothing of it to run again"
        ));
    }
    if task.operation != Operation::Kernel {
        return Some(format!("it launches no kernel: it is a {}", task.operation.name().replace('_', " ")));
    }
    (task.launch.is_none()).then(|| "the dump does not say how its work was spread".into())
}

/// Why a launch is not run as it was captured.
fn inexact(task: Task<'_>, args: &[ArgReport]) -> Option<String> {
    if task.is_unfinished() {
        return Some("it had not ended when its recording did: nobody knows what it leaves".into());
    }
    let arg = args.iter().find(|arg| arg.grade != Grade::Exact)?;
    let why = arg.reason.as_deref().unwrap_or("not as captured");
    let is = match arg.grade {
        Grade::Zero => "would be zeros",
        grade => &format!("is {}", grade.name()),
    };
    Some(format!("argument {} {is}: {why}", arg.arg_index))
}

/// How processes that run launches are started and waited for.
fn worker_options(config: &ReplayConfig) -> WorkerOptions {
    WorkerOptions { executable: config.device_executable.clone(), launch_limit: config.stall_timeout }
}

/// Becomes a process that runs launches when whoever started this one asked for it; then it never returns. Otherwise it returns at once.
pub fn become_launch_worker_if_asked() {
    tensortap_launch_host::become_worker_if_asked::<tensortap_opencl_host::OpenCl>();
    tensortap_launch_host::become_worker_if_asked::<tensortap_cuda_host::Cuda>();
}
