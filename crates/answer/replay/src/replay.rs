//! Replays a dump, a case or a folder of cases.

use std::time::Instant;

use tensortap_abi::{NO_KERNEL, SLOTS_PER_TASK};
use tensortap_format::{
    KernelTolerance, Task, TaskChoice, TaskKey, func_ids, is_in_steps, is_pattern, task_fits,
};
use tensortap_platform::{Confinement, DeviceMode, PlatformError};
use tensortap_scene::{FaultKind, Scene, Tolerance};
use tensortap_sync::parallel::cpu_count;

use crate::batch::{BATCH_TASKS, Work, pack};
use crate::capture::Capture;
use crate::engine;
use crate::foreign::ForeignOptions;
use crate::item::{Item, Kernels, ReplayOverrides, SingleDispatch, find_scene, with_folders};
use crate::launches;
use crate::library_kernels::{check_options, load_library_kernels, notes, user_code};
use crate::open::{ReplaySource, open};
use crate::{Check, ExpectedSource, Outcome, ReplayConfig, ReplayError, ReplayReport, Selection, TaskReport};

/// Progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Number of tasks to replay.
    pub tasks: u64,
    /// Number of tasks with an outcome.
    pub finished: u64,
    /// Number of devices that crashed or hung and were replaced.
    pub device_failures: u64,
}

/// Default number of runs per task with `--bench`.
const BENCH_RUNS: u32 = 20;

/// Limit on the default number of devices.
const MAX_DEFAULT_JOBS: usize = 4;

/// Receives an output of a completed task: task, argument, and content, packed in row-major order. Several
/// threads call it.
pub type OnOutput<'o> = &'o (dyn Fn(TaskKey, u16, &[u8]) + Sync);

/// Replays captured tasks one at a time and compares their outputs with the captured ones. `observe` is
/// called regularly with the progress and cancels the replay by returning false. `on_output` receives the
/// outputs; if a task runs several times, the last call has the final content.
pub fn replay(
    config: &ReplayConfig,
    observe: &mut dyn FnMut(ReplayProgress) -> bool,
    on_output: OnOutput<'_>,
) -> Result<ReplayReport, ReplayError> {
    let started = Instant::now();
    let mut config = config.clone();
    if config.bench && config.repeat <= 1 {
        config.repeat = BENCH_RUNS;
    }
    let ReplaySource { name, captures, broken, several, is_dump } =
        open(&config.source, ForeignOptions { kernels: &config.kernels, block_num: config.block_num })?;
    if let [capture] = &captures[..]
        && let Some(dump) = capture.launches()
    {
        check_named(&config, &captures)?;
        return launches::replay(&config, &**capture, dump, observe, on_output);
    }
    config.registry =
        with_folders(config.registry, captures.iter().map(|c| &**c), config.open_folder.as_ref())?;
    check_trust(&config)?;
    check_options(&config, &captures)?;
    check_sanitizer(&config, &captures)?;
    let given =
        load_library_kernels(&mut config.registry, config.load_kernels.as_ref(), &config.kernels, &captures)?;
    check_fault(&config, &captures)?;
    check_named(&config, &captures)?;
    let mut replay = Preparation::new(&config, several);
    for capture in &captures {
        replay.add(&**capture)?;
    }
    replay.add_broken(broken);
    let Preparation { mut reports, works, notes: mut remarks, .. } = replay;
    remarks.extend(captures.iter().flat_map(|capture| capture.notes().to_vec()));
    // Another project captures no build id, so there is nothing to compare.
    let is_own = captures.iter().any(|capture| !capture.run().is_foreign);
    remarks.extend(distinct(notes(&given)).into_iter().filter(|_| is_own));
    let total = reports.len() as u64;
    // Each run that is measured has the device to itself.
    let limit = if config.bench { 1 } else { BATCH_TASKS };
    let jobs = if config.bench { 1 } else { config.jobs.unwrap_or_else(default_jobs) };
    let replayed_on = distinct(works.iter().map(|(platform, _)| (*platform).to_string()));
    let batches = pack(works, limit);
    let engine = engine::run(&config, batches, total, jobs, observe, on_output)?;
    for (place, report) in engine.finished {
        reports[place] = Some(report);
    }
    let run = captures.first().filter(|_| !several).map(|capture| capture.run());
    remarks.extend(unconfined(&config, engine.confinement));
    Ok(ReplayReport {
        inject_fault: run.and_then(|run| run.inject_fault.clone()),
        golden: run.and_then(|run| run.golden),
        of_dump: is_dump,
        has_references: captures.iter().any(|capture| !capture.run().is_of_program()),
        source: name,
        scenes: distinct(captures.iter().map(|s| s.run().scene.clone())),
        captured_on: distinct(captures.iter().map(|s| s.run().captured_on().to_owned())),
        replayed_on,
        interrupted: engine.interrupted,
        tasks: reports.into_iter().flatten().collect(),
        notes: remarks,
        library_kernels: given,
        confinement: engine.confinement,
        allow_inexact: config.allow_inexact,
        wall: started.elapsed(),
    })
}

/// Refuses untrusted code in a thread of this process, which cannot be confined.
fn check_trust(config: &ReplayConfig) -> Result<(), ReplayError> {
    if config.trust || config.device_mode == DeviceMode::Process {
        return Ok(());
    }
    let reason = "kernels would run in this process without confinement; add --trust if you trust their code";
    Err(ReplayError::Option { option: "--device-mode thread", reason: reason.into() })
}

/// Checks `--sanitize`: sanitizers are compiled into kernels and must be loaded when a process starts.
fn check_sanitizer(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    if config.sanitizer.is_none() {
        return Ok(());
    }
    let refuse = |reason: String| Err(ReplayError::Option { option: "--sanitize", reason });
    if config.device_mode == DeviceMode::Thread {
        return refuse(PlatformError::ThreadSanitized.to_string());
    }
    match captures.iter().find(|capture| capture.run().scene_folder.is_none()) {
        Some(capture) => refuse(format!(
            "{} does not come from a scene folder, and only kernels of scene folders can be compiled with a sanitizer; use --guard",
            capture.name()
        )),
        None => Ok(()),
    }
}

/// Describes the confinement that is not in force.
fn unconfined(config: &ReplayConfig, confinement: Option<Confinement>) -> Option<String> {
    let missing = confinement.filter(|now| !config.trust && *now != Confinement::FULL)?;
    let watched = config.sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.address);
    if watched && missing == (Confinement { limits: false, ..Confinement::FULL }) {
        return Some(
            "device memory is not limited, because the address sanitizer needs more address space".into(),
        );
    }
    let missing = missing.means().into_iter().filter(|(_, is)| !is).map(|(name, _)| name);
    let missing = missing.collect::<Vec<_>>().join(", ");
    Some(format!(
        "this system cannot confine the device fully: no {missing}; replay only code that you trust here"
    ))
}

fn default_jobs() -> usize {
    cpu_count().min(MAX_DEFAULT_JOBS)
}

pub fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

/// The tasks of all captures, separated into tasks that can run and tasks that cannot.
struct Preparation<'c, 's> {
    config: &'c ReplayConfig,
    several: bool,
    /// Reports by position; `None` for a task that has not run yet.
    reports: Vec<Option<TaskReport>>,
    works: Vec<(&'static str, Work<'s>)>,
    notes: Vec<String>,
}

impl<'c, 's> Preparation<'c, 's> {
    fn new(config: &'c ReplayConfig, several: bool) -> Self {
        Preparation { config, several, reports: Vec::new(), works: Vec::new(), notes: Vec::new() }
    }

    fn add(&mut self, capture: &'s dyn Capture) -> Result<(), ReplayError> {
        let config = self.config;
        // First, because a dump of another program has neither.
        let scene = find_scene(capture, &config.registry)?;
        let platform =
            engine::platform(config.platform.as_deref().unwrap_or(capture.run().replay_platform()))?.name();
        let (selected, dispatch) = select(config, capture)?;
        self.note_code(capture, scene, &selected);
        let overrides = ReplayOverrides {
            registry: &config.registry,
            set_args: &config.set_args,
            allow_inexact: config.allow_inexact,
            dispatch,
        };
        for task in selected {
            let place = self.reports.len();
            let mut report = self.blank(capture, task);
            match Item::new(place, capture, task, &overrides, &mut report)? {
                Ok(item) => {
                    self.works.push((platform, Work::new(item, report)));
                    self.reports.push(None);
                }
                Err(outcome) => {
                    report.outcome = outcome;
                    self.reports.push(Some(report));
                }
            }
        }
        Ok(())
    }

    /// Adds unreadable cases as refused tasks.
    fn add_broken(&mut self, broken: Vec<(String, ReplayError)>) {
        for (case, error) in broken {
            let outcome = Outcome::Refused(error.to_string());
            let check = if self.config.reference { Check::Reference } else { Check::Captured };
            self.reports.push(Some(TaskReport { outcome, ..TaskReport::unknown(Some(case), check) }));
        }
    }

    /// Report of a task before it runs.
    fn blank(&self, capture: &dyn Capture, task: Task<'_>) -> TaskReport {
        let check = match capture.expects() {
            _ if self.config.reference => Check::Reference,
            ExpectedSource::Reference => Check::CaseReference,
            ExpectedSource::Captured => Check::Captured,
        };
        let (kernels, case) = (task.kernel_names(), self.several.then(|| capture.name()));
        let (scope, task_name) = (task.scope().map(str::to_owned), task.task_name().map(str::to_owned));
        let (step, task_id) = (task.step, task.task_id);
        TaskReport { step, task_id, kernels, scope, task_name, ..TaskReport::unknown(case, check) }
    }

    /// Adds a note on kernels that differ from the captured ones.
    fn note_code(&mut self, capture: &dyn Capture, scene: &'static dyn Scene, tasks: &[Task<'_>]) {
        let Some(code_of) = &self.config.code_of else { return };
        let mut used: Vec<u32> = tasks.iter().flat_map(|t| t.facts().func_ids()).collect();
        used.sort_unstable();
        used.dedup();
        let run = capture.run();
        let mut changed: Vec<(&str, &str, String)> = Vec::new();
        for info in used.into_iter().filter_map(|id| run.kernel(id)).filter(|info| !info.code.is_empty()) {
            // Kernels from libraries have their own note.
            let given = self.config.kernels.iter().chain(capture.case_code());
            if given.into_iter().any(|given| given.name == info.name) {
                continue;
            }
            let Some(kernel) = scene.kernels().iter().find(|k| k.name == info.name) else { continue };
            let here = code_of(scene, kernel);
            if here != info.code {
                changed.push((&info.name, &info.code, here));
            }
        }
        let Some((_, captured, here)) = changed.first() else { return };
        let names: Vec<String> = changed.iter().map(|(name, ..)| format!("`{name}`")).collect();
        let note = format!(
            "these kernels were built from different code than the captured ones: {}; captured {captured}, now {here}",
            names.join(", ")
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Checks that every task id and kernel name in the request is in one of the captures.
fn check_named(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    let choices = if let Selection::Tasks(choices) = &config.select { choices.as_slice() } else { &[] };
    for choice in choices.iter().filter(|choice| matches!(choice, TaskChoice::Named(_))) {
        let one = std::slice::from_ref(choice);
        let is_meant = |capture: &dyn Capture| {
            capture.recorded().any(|task| is_chosen(task, capture, one)) || names_kernel(choice, capture)
        };
        // A pattern may match nothing; a name must exist.
        if let TaskChoice::Named(name) = choice
            && !is_pattern(name)
            && !captures.iter().any(|s| is_meant(&**s))
        {
            return Err(unknown_task(name, captures.iter().map(|s| &**s)));
        }
    }
    for name in &config.funcs {
        if !is_pattern(name)
            && captures.iter().all(|capture| func_ids(&capture.run().kernels, name).is_empty())
        {
            return Err(unknown_kernel(name, captures.iter().map(|s| &**s)));
        }
    }
    let ids = choices.iter().filter_map(|choice| match choice {
        TaskChoice::Ids(first, last) if first == last => Some((None, *first)),
        TaskChoice::InStep { step, first, last } if first == last => Some((Some(*step), *first)),
        TaskChoice::Ids(..) | TaskChoice::InStep { .. } | TaskChoice::Named(_) => None,
    });
    let tasks: Vec<TaskKey> =
        captures.iter().flat_map(|s| in_steps(&**s, &config.steps)).map(|t| t.key()).collect();
    let is_there = |(step, id): &(Option<u32>, u64)| {
        tasks.iter().any(|task| task.task_id == *id && step.is_none_or(|step| step == task.step))
    };
    match (ids.into_iter().find(|id| !is_there(id)), captures) {
        (Some((_, task)), [first_capture, ..]) => Err(ReplayError::NoTask {
            from: first_capture.name(),
            task,
            tasks: tasks.len(),
            first: tasks.first().map(|task| task.task_id),
        }),
        _ => Ok(()),
    }
}

/// Whether a kernel has this name, even if no captured task runs it.
pub fn names_kernel(choice: &TaskChoice, capture: &dyn Capture) -> bool {
    matches!(choice, TaskChoice::Named(name) if !func_ids(&capture.run().kernels, name).is_empty())
}

/// Number of names that a message lists.
const LISTED: usize = 20;

/// Error for an unknown task.
pub fn unknown_task<'s>(name: &str, captures: impl Iterator<Item = &'s dyn Capture>) -> ReplayError {
    let mut valid: Vec<String> = Vec::new();
    for capture in captures {
        let names = capture.recorded().filter_map(|task| task.task_name().map(str::to_owned));
        valid.extend(capture.run().kernels.iter().map(|kernel| kernel.name.clone()).chain(names));
    }
    valid.sort();
    valid.dedup();
    valid.truncate(LISTED);
    ReplayError::Unknown { what: "task or kernel", name: name.into(), valid }
}

/// Error for an unknown kernel.
pub fn unknown_kernel<'s>(name: &str, captures: impl Iterator<Item = &'s dyn Capture>) -> ReplayError {
    let mut valid: Vec<String> = Vec::new();
    for kernel in captures.flat_map(|capture| &capture.run().kernels) {
        if !valid.contains(&kernel.name) {
            valid.push(kernel.name.clone());
        }
    }
    ReplayError::Unknown { what: "kernel", name: name.into(), valid }
}

/// Whether a task matches one of the choices.
pub fn is_chosen(task: Task<'_>, capture: &dyn Capture, choices: &[TaskChoice]) -> bool {
    choices.iter().any(|choice| match choice {
        TaskChoice::Ids(first, last) => (*first..=*last).contains(&task.task_id),
        TaskChoice::InStep { step, first, last } => {
            task.step == *step && (*first..=*last).contains(&task.task_id)
        }
        TaskChoice::Named(name) => {
            runs(task, capture, name) || task_fits(name, task.scope(), task.task_name(), &task.kernel_names())
        }
    })
}

fn runs(task: Task<'_>, capture: &dyn Capture, name: &str) -> bool {
    let meant = func_ids(&capture.run().kernels, name);
    task.func_ids().any(|id| meant.contains(&id))
}

/// The tasks of a capture in these steps.
pub fn in_steps<'s>(capture: &'s dyn Capture, steps: &[(u64, u64)]) -> Vec<Task<'s>> {
    capture.recorded().filter(|task| is_in_steps(steps, task.step)).collect()
}

/// Refuses a task id that exists in several steps.
pub fn one_step(capture: &dyn Capture, tasks: &[Task<'_>], task_id: u64) -> Result<(), ReplayError> {
    let mut steps: Vec<u32> =
        tasks.iter().filter(|task| task.task_id == task_id).map(|task| task.step).collect();
    steps.sort_unstable();
    steps.dedup();
    if steps.len() < 2 {
        return Ok(());
    }
    let named: Vec<String> = steps.iter().take(MAX_STEPS).map(u32::to_string).collect();
    let more = if steps.len() > MAX_STEPS { ", ..." } else { "" };
    let reason = format!(
        "task {task_id:#x} of {} is in several steps: {}{more}; choose one with --step N",
        capture.name(),
        named.join(", ")
    );
    Err(ReplayError::Option { option: "--task", reason })
}

/// Number of steps that a message lists.
const MAX_STEPS: usize = 8;

pub fn select<'s>(
    config: &ReplayConfig,
    capture: &'s dyn Capture,
) -> Result<(Vec<Task<'s>>, Option<SingleDispatch>), ReplayError> {
    let tasks: Vec<Task<'_>> = in_steps(capture, &config.steps);
    let of_func = |task: &Task<'_>| {
        config.funcs.is_empty() || config.funcs.iter().any(|name| runs(*task, capture, name))
    };
    match &config.select {
        // The tasks in a region are replayed, not the region.
        Selection::All => {
            let all = tasks.into_iter().filter(|task| !task.contains_tasks() && of_func(task));
            Ok((all.collect(), None))
        }
        Selection::LibraryKernels => {
            let code = user_code(capture, &config.kernels);
            let runs_given = |task: &Task<'_>| {
                task.kernel_names().iter().any(|name| code.iter().any(|code| code.name == *name))
            };
            Ok((tasks.into_iter().filter(runs_given).collect(), None))
        }
        Selection::Tasks(choices) => {
            for choice in choices {
                if let TaskChoice::Ids(first, last) = choice
                    && first == last
                {
                    one_step(capture, &tasks, *first)?;
                }
            }
            let chosen = tasks.into_iter().filter(|task| is_chosen(*task, capture, choices));
            Ok((chosen.filter(of_func).collect(), None))
        }
        Selection::Dispatch(dispatch) => {
            let (task_id, one) = parts_of_dispatch(*dispatch);
            let first = tasks.first().map(|t| t.task_id);
            let no_task =
                || ReplayError::NoTask { from: capture.name(), task: task_id, tasks: tasks.len(), first };
            let task = tasks.iter().find(|t| t.task_id == task_id).copied().ok_or_else(no_task)?;
            one_step(capture, &tasks, task_id)?;
            check_dispatch(task, *dispatch, one)?;
            Ok((vec![task], Some(one)))
        }
    }
}

/// Task, slot and block of a dispatch id: block in the high 24 bits, slot in 4, task in the low 36.
fn parts_of_dispatch(dispatch: u64) -> (u64, SingleDispatch) {
    let slot = usize::try_from(dispatch >> 36 & 0xf).expect("four bits");
    let block_idx = u32::try_from(dispatch >> 40).expect("24 bits");
    (dispatch & ((1 << 36) - 1), SingleDispatch { slot, block_idx })
}

fn check_dispatch(task: Task<'_>, dispatch: u64, one: SingleDispatch) -> Result<(), ReplayError> {
    let refuse = |reason: String| ReplayError::NoDispatch { task: task.task_id, dispatch, reason };
    if one.slot >= SLOTS_PER_TASK || task.func_id[one.slot] == NO_KERNEL {
        let active: Vec<_> = (0..SLOTS_PER_TASK).filter(|&s| task.func_id[s] != NO_KERNEL).collect();
        return Err(refuse(format!("slot {} is not active; active slots: {active:?}", one.slot)));
    }
    if one.block_idx >= task.block_num {
        return Err(refuse(format!(
            "block {} is out of range; the task has {} blocks",
            one.block_idx, task.block_num
        )));
    }
    Ok(())
}

fn check_fault(config: &ReplayConfig, captures: &[Box<dyn Capture>]) -> Result<(), ReplayError> {
    let Some((name, kind)) = &config.inject_fault else { return Ok(()) };
    if *kind == FaultKind::Race {
        return Err(ReplayError::RaceInReplay);
    }
    let mut valid = Vec::new();
    for capture in captures {
        let scene = find_scene(&**capture, &config.registry)?;
        if let Some(kernel) = scene.kernels().iter().find(|k| k.name == name) {
            if kernel.faults.contains(kind) {
                return Ok(());
            }
            let shows = kernel.faults.iter().map(|f| f.name()).collect();
            let (scene, kernel) = (scene.name().to_string(), name.clone());
            return Err(ReplayError::Fault { scene, kernel, kind: *kind, shows });
        }
        valid.extend(scene.kernels().iter().map(|k| k.name.to_string()));
    }
    valid.dedup();
    Err(ReplayError::Unknown { what: "kernel", name: name.clone(), valid })
}

/// The tolerance that the task's kernels declare.
pub fn declared_tolerance(
    capture: &dyn Capture,
    task: Task<'_>,
    scene: &'static dyn Scene,
) -> Option<KernelTolerance> {
    let Tolerance { rtol, atol } = Kernels::find(capture.run(), task, scene).ok()?.tolerance()?;
    Some(KernelTolerance { rtol, atol })
}

#[cfg(test)]
mod tests {
    use tensortap_format::dispatch_id;

    use super::*;

    #[test]
    fn splits_a_dispatch_id_into_its_parts() {
        for (task, slot, block_idx) in [(0, 0, 0), (0x3_0000_0007, 2, 5), (0xf_ffff_ffff, 1, 0xff_ffff)] {
            let id = dispatch_id(task, u32::try_from(slot).unwrap(), block_idx);
            assert_eq!(parts_of_dispatch(id), (task, SingleDispatch { slot, block_idx }));
        }
    }
}
