//! Launches of OpenCL, run again with the programs that a dump keeps, on a device of this machine.
//!
//! Nothing is assumed of what an argument is used for: each range is filled with what it held before the launch, and what it holds
//! afterwards is held against what was captured, bit for bit on the device that it was captured on, by rule on another.

mod plan;

use std::collections::HashMap;
use std::time::Instant;

use tensortap_abi::{DumpStage, Operation};
use tensortap_format::{Dump, Module, Task};
use tensortap_judge::Verdict;
use tensortap_opencl_host::{DeviceName, Launch, LaunchError, Worker, WorkerOptions};
use tensortap_values::content_hash;

use crate::capture::{Capture, Content};
use crate::case_writer::is_file;
use crate::check::{OutputCheck, describe};
use crate::replay::{distinct, select};
use crate::{
    Check, Expect, ExtractConfig, ExtractReport, Grade, OnOutput, Outcome, OutputReport, Placement,
    ReplayConfig, ReplayError, ReplayProgress, ReplayReport, Selection, TaskReport,
};

use self::plan::{Contents, Plan};

/// Which device of OpenCL launches are replayed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OpenClDevice {
    /// The one they were captured on, or else the first.
    #[default]
    Captured,
    /// This one: part of its name, or its place in the loader's list, from 0.
    Named(String),
    /// Any but the one they were captured on.
    Other,
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
    check_options(config)?;
    let (selected, _) = select(config, capture)?;
    let is_launch = |task: &Task<'_>| task.operation == Operation::Kernel;
    // Whoever names a task is told why it is not run; of all, those that launch nothing are not meant.
    let is_named = matches!(config.select, Selection::Tasks(_));
    let (tasks, others): (Vec<_>, Vec<_>) =
        selected.into_iter().partition(|task| is_named || is_launch(task));
    let options =
        WorkerOptions { executable: config.device_executable.clone(), launch_limit: config.stall_timeout };
    let worker = Worker::start(options)
        .map_err(|reason| ReplayError::Option { option: "replaying launches of OpenCL", reason })?;
    let mut session = Session {
        config,
        capture,
        contents: Contents::new(capture, dump),
        modules: dump.modules().into_iter().map(|module| (module.id, module)).collect(),
        images: HashMap::new(),
        dump,
        worker,
        failures: 0,
        used: Vec::new(),
        on_output,
    };
    let mut report = blank(config, capture, &session);
    if !others.is_empty() {
        report.notes.push(format!("{} tasks that launch no kernel are not run", others.len()));
    }
    for task in &tasks {
        let done = session.task(*task)?;
        report.tasks.push(done);
        let progress = ReplayProgress {
            tasks: tasks.len() as u64,
            finished: report.tasks.len() as u64,
            device_failures: session.failures,
        };
        if !observe(progress) {
            report.interrupted = true;
            break;
        }
    }
    report.replayed_on = distinct(session.used.into_iter());
    if !report.replayed_on.is_empty() && !config.trust {
        report.notes.push(NOT_CONFINED.into());
    }
    report.wall = started.elapsed();
    Ok(report)
}

/// Cuts one launch out, with its program, as a dump of its own.
pub fn extract(
    config: &ExtractConfig,
    capture: &dyn Capture,
    dump: &Dump,
    task: Task<'_>,
) -> Result<ExtractReport, ReplayError> {
    let refuse = |option, reason: &str| Err(ReplayError::Option { option, reason: reason.into() });
    if config.redact.is_some() {
        return refuse("--redact", "a launch of OpenCL is cut out as it is");
    }
    if config.expect != Expect::Captured {
        return refuse("--expect reference", "launches of OpenCL have no references");
    }
    if is_file(&config.out) {
        return refuse("--out", "a launch of OpenCL becomes a folder, which its program lies in");
    }
    let not_extracted = |reason: String| ReplayError::NotExtracted { task: task.task_id, reason };
    if let Some(why) = no_launch(task) {
        return Err(not_extracted(why));
    }
    let mut grades = Vec::new();
    let contents = Contents::new(capture, dump);
    Plan::of(capture, dump, &contents, task, &mut grades)?.map_err(not_extracted)?;
    if let Some(arg) = grades.iter().find(|arg| arg.grade != Grade::Exact && !config.allow_inexact) {
        let why = arg.reason.as_deref().unwrap_or("it is not as captured");
        return Err(not_extracted(format!("argument {}: {why}; --allow-inexact", arg.arg_index)));
    }
    let cut = dump.cut_task(task.task_id, &config.out)?;
    Ok(ExtractReport {
        out: config.out.clone(),
        task_id: task.task_id,
        kernels: task.kernel_names(),
        arguments: task.arguments().len(),
        payloads: cut.payloads,
        bytes: cut.bytes,
        redacted: false,
        expect: Expect::Captured,
        outside: None,
        libraries: Vec::new(),
    })
}

/// Whoever replays a dump from elsewhere has to know it.
const NOT_CONFINED: &str = "its programs were built and run by the driver of the device, in a process of their own that is not \
     confined: a driver needs files and threads; replay only dumps that you trust (--trust leaves this sentence out)";

fn check_options(config: &ReplayConfig) -> Result<(), ReplayError> {
    let refuse = |option, reason: &str| Err(ReplayError::Option { option, reason: reason.into() });
    match () {
        () if config.platform.is_some() => refuse(
            "--platform",
            "launches of OpenCL run on a device of this machine; --device NAME chooses it",
        ),
        () if config.reference => refuse(
            "--reference",
            "launches of OpenCL have no references; --device NAME holds them against another device",
        ),
        () if !config.set_args.is_empty() => {
            refuse("--set-arg", "launches of OpenCL run with what was captured")
        }
        () if config.bench => refuse("--bench", "launches of OpenCL are not measured"),
        () if config.inject_fault.is_some() => {
            refuse("--inject-fault", "a program of OpenCL is run as it is")
        }
        () if config.guard || config.sanitizer.is_some() => refuse(
            "--guard and --sanitize",
            "they watch devices of ours, and launches of OpenCL run on others",
        ),
        () if matches!(config.select, Selection::Dispatch(_) | Selection::Given) => {
            refuse("--dispatch", "a launch of OpenCL is one task; name it with --task")
        }
        () => Ok(()),
    }
}

fn blank(config: &ReplayConfig, capture: &dyn Capture, session: &Session<'_>) -> ReplayReport {
    let devices = session.modules.values().map(|module| module.device.clone());
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
struct Session<'c> {
    config: &'c ReplayConfig,
    capture: &'c dyn Capture,
    dump: &'c Dump,
    contents: Contents<'c>,
    modules: HashMap<u32, Module>,
    /// Images that were read and proven, or why they are not to be had.
    images: HashMap<u32, Result<Vec<u8>, String>>,
    worker: Worker,
    /// Workers that died.
    failures: u64,
    /// Devices that ran something.
    used: Vec<String>,
    on_output: OnOutput<'c>,
}

impl Session<'_> {
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
        if let Some(why) = no_launch(task).or_else(|| self.given_up()) {
            return Ok(Err(why));
        }
        let module = match self.module(task) {
            Ok(module) => module,
            Err(why) => return Ok(Err(why)),
        };
        let device = match self.device(&module) {
            Ok(device) => device,
            Err(why) => return Ok(Err(why)),
        };
        let plan = match Plan::of(self.capture, self.dump, &self.contents, task, &mut report.args)? {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(arg) = report.args.iter().find(|arg| arg.grade != Grade::Exact)
            && !self.config.allow_inexact
        {
            let why = arg.reason.as_deref().unwrap_or("not as captured");
            let (at, grade) = (arg.arg_index, arg.grade.name());
            return Ok(Err(format!(
                "argument {at} is {grade}: {why}; --allow-inexact replays it all the same"
            )));
        }
        let image = match self.image(&module) {
            Ok(image) => image,
            Err(why) => return Ok(Err(why)),
        };
        let launch = plan.launch(device, &module, self.config.allow_inexact);
        let here = self.worker.devices().get(device).map(DeviceName::text).unwrap_or_default();
        if !self.used.contains(&here) {
            self.used.push(here.clone());
        }
        let by_bits = here == module.device;
        self.repeat(task, report, &plan, &launch, &image, by_bits)
    }

    fn repeat(
        &mut self,
        task: Task<'_>,
        report: &mut TaskReport,
        plan: &Plan,
        launch: &Launch,
        image: &[u8],
        by_bits: bool,
    ) -> Result<Result<Outcome, String>, ReplayError> {
        let mut results: Vec<u128> = Vec::new();
        let mut outcome = Outcome::Refused("it was not run".into());
        report.placement = Some(Placement::Relocated);
        for _ in 0..self.config.repeat.max(1) {
            let left = match self.worker.launch(launch, image, &plan.memories) {
                Ok(left) => left,
                Err(LaunchError::Refused(why)) => return Ok(Err(why)),
                Err(LaunchError::Died(why)) => {
                    self.failures += 1;
                    return Ok(Ok(Outcome::Failed(why)));
                }
            };
            report.runs += 1;
            let result = content_hash(&left.concat());
            if !results.contains(&result) {
                results.push(result);
            }
            let (outputs, judged) = self.judge(task, plan, &left, by_bits)?;
            if !matches!(outcome, Outcome::Failed(_)) {
                (report.outputs, outcome) = (outputs, judged);
            }
        }
        report.distinct_results = u32::try_from(results.len()).unwrap_or(u32::MAX);
        Ok(Ok(outcome))
    }

    /// Holds what a launch left against what was captured.
    fn judge(
        &self,
        task: Task<'_>,
        plan: &Plan,
        left: &[Vec<u8>],
        by_bits: bool,
    ) -> Result<(Vec<OutputReport>, Outcome), ReplayError> {
        let (mut outputs, mut unknown, mut other_hash) = (Vec::new(), None, None);
        for range in &plan.ranges {
            let Some(argument) = task.argument(range.arg_index) else { continue };
            let actual = range.of(left);
            (self.on_output)(task.key(), range.arg_index, actual);
            let content = self.contents.of(task, argument, DumpStage::AfterCompletion);
            let (expected, elements) = match content {
                Content::Whole(blob) | Content::Part(blob) => {
                    let mut bytes = Vec::new();
                    self.capture.read(&blob, &mut bytes)?;
                    (bytes, argument.numel().unwrap_or(0))
                }
                // What is known by its hash alone is known well enough to be the same.
                Content::Missing(_) if argument.hash_after() == Some(content_hash(actual)) => {
                    (actual.to_vec(), argument.numel().unwrap_or(0))
                }
                Content::Missing(_) if argument.hash_after().is_some() => {
                    other_hash.get_or_insert(range.arg_index);
                    continue;
                }
                Content::Missing(why) => {
                    unknown.get_or_insert(format!("argument {}: {why}", range.arg_index));
                    continue;
                }
                Content::Noise(_) => continue,
            };
            let check = OutputCheck {
                arg_index: range.arg_index,
                dtype: argument.dtype,
                shape: argument.shape(),
                elements,
                tolerance: None,
                before: None,
            };
            outputs.push(check.report(actual, &expected));
        }
        let outcome = outcome(&outputs, by_bits, other_hash, unknown);
        Ok((outputs, outcome))
    }

    /// Why nothing more is run.
    fn given_up(&self) -> Option<String> {
        let most = self.config.max_device_failures.filter(|&most| self.failures >= most)?;
        Some(format!("{most} devices have failed; --max-device-failures allows more"))
    }

    fn module(&self, task: Task<'_>) -> Result<Module, String> {
        let of_kernel =
            || task.func_ids().find_map(|id| self.capture.run().kernel(id)).map_or(0, |k| k.module);
        let id = if task.module == 0 { of_kernel() } else { task.module };
        let module = self.modules.get(&id).ok_or("the dump does not say which program its kernel is of")?;
        Ok(module.clone())
    }

    fn image(&mut self, module: &Module) -> Result<Vec<u8>, String> {
        let dir = self.dump.dir();
        let image =
            self.images.entry(module.id).or_insert_with(|| module.image(dir).map_err(|e| e.to_string()));
        image.clone()
    }

    fn device(&self, module: &Module) -> Result<usize, String> {
        let devices = self.worker.devices();
        choose(devices, &self.config.opencl_device, &module.device)
    }
}

/// Why a task is no launch.
fn no_launch(task: Task<'_>) -> Option<String> {
    if task.operation != Operation::Kernel {
        return Some(format!("it launches no kernel: it is a {}", task.operation.name().replace('_', " ")));
    }
    (task.launch.is_none()).then(|| "the dump does not say how its work was spread".into())
}

/// The device to run on.
fn choose(devices: &[DeviceName], wish: &OpenClDevice, captured: &str) -> Result<usize, String> {
    let is_captured = |device: &DeviceName| device.text() == captured;
    let listed = || {
        let names = devices.iter().enumerate().map(|(at, device)| format!("{at} ({})", device.text()));
        names.collect::<Vec<_>>().join(", ")
    };
    match wish {
        OpenClDevice::Captured => Ok(devices.iter().position(is_captured).unwrap_or(0)),
        OpenClDevice::Other => devices.iter().position(|device| !is_captured(device)).ok_or_else(|| {
            format!("there is no OpenCL device here but the one it was captured on, {captured}; --rerun runs it there again")
        }),
        OpenClDevice::Named(name) => {
            let by_place = name.parse().ok().filter(|&at: &usize| at < devices.len());
            let fits = |device: &DeviceName| {
                let words = format!("{} / {}", device.platform, device.text());
                words.to_lowercase().contains(&name.to_lowercase())
            };
            let found = by_place.or_else(|| devices.iter().position(fits));
            found.ok_or_else(|| format!("there is no OpenCL device `{name}`; there are: {}", listed()))
        }
    }
}

fn outcome(
    outputs: &[OutputReport],
    by_bits: bool,
    other_hash: Option<u16>,
    unknown: Option<String>,
) -> Outcome {
    let is_wrong = |output: &&OutputReport| {
        if by_bits { !output.bitexact() } else { output.verdict() != Verdict::Within }
    };
    if let Some(output) = outputs.iter().find(is_wrong) {
        return Outcome::Failed(describe(output, Check::Captured));
    }
    if let Some(arg_index) = other_hash {
        let why = format!("argument {arg_index}: its content has another hash than captured");
        return if by_bits {
            Outcome::Failed(why)
        } else {
            Outcome::Unchecked(format!("{why}, and the content, which a rule needs, was not stored"))
        };
    }
    match unknown {
        Some(why) => Outcome::Unchecked(format!("its outputs cannot be checked: {why}")),
        None if outputs.is_empty() => Outcome::Unchecked("it was given no memory".into()),
        None if outputs.iter().all(|output| output.different == 0) => Outcome::BitExact,
        None => Outcome::WithinRule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_chosen_by_place_name_or_what_was_captured() {
        let device = |name: &str| DeviceName { platform: "P".into(), name: name.into(), driver: "1".into() };
        let devices = [device("gpu"), device("cpu")];
        let chosen = |wish: &OpenClDevice, captured: &str| choose(&devices, wish, captured);
        let named = |name: &str| OpenClDevice::Named(name.into());
        assert_eq!(chosen(&OpenClDevice::Captured, "cpu / 1"), Ok(1));
        assert_eq!(chosen(&OpenClDevice::Captured, "cpu / 2"), Ok(0), "another driver is another device");
        assert_eq!(chosen(&OpenClDevice::Other, "gpu / 1"), Ok(1));
        assert!(choose(&devices[..1], &OpenClDevice::Other, "gpu / 1").is_err());
        assert_eq!(chosen(&named("1"), ""), Ok(1));
        assert_eq!(chosen(&named("CPU"), "gpu / 1"), Ok(1));
        let refused = chosen(&named("fpga"), "").unwrap_err();
        assert!(refused.contains("0 (gpu / 1), 1 (cpu / 1)"), "{refused}");
    }
}
