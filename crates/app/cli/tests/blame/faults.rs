//! Injected faults.

use std::collections::HashMap;

use tensortap::analysis::blame::{Baseline, Blame, BlameOptions};
use tensortap::analysis::kind::{ErrorKind, ErrorRegion, Relation};
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, Task, TaskKey};
use tensortap::scene::{FaultKind, KernelDef, Scene};
use tensortap::{DType, DeviceMode, GoldenVerdict, PLATFORMS};

use crate::common::{Rotation, Venue};
use crate::oracle::{self, CapturedTask};
use crate::races::ExpectedRace;
use crate::{blame_by_golden, blame_by_reference, complaints, config, judged, listed_scenes, run, venue};

/// Goldens of a scene, by platform and runtime.
struct Goldens {
    folder: tempfile::TempDir,
    dumps: HashMap<(&'static str, &'static str), Dump>,
}

impl Goldens {
    fn get(&mut self, scene: &str, (platform, runtime): (&'static str, &'static str)) -> &Dump {
        let Goldens { folder, dumps } = self;
        dumps.entry((platform, runtime)).or_insert_with(|| {
            run(&config(scene, platform, runtime, &folder.path().join(format!("{platform}_{runtime}"))))
        })
    }
}

#[test]
fn every_fault_of_every_kernel_of_tiny_llm_is_found() {
    every_fault_is_found(|scene| scene == "tiny_llm");
}

#[test]
fn every_fault_of_every_kernel_of_the_other_scenes_is_found() {
    every_fault_is_found(|scene| scene != "tiny_llm");
}

/// Injects every fault: data faults in one venue each, in turn; races on every platform, with the runtimes in
/// turn.
fn every_fault_is_found(chosen: impl Fn(&str) -> bool) {
    let mut problems = Vec::new();
    let (mut rotation, mut races) = (Rotation::new(), 0);
    for name in listed_scenes().into_iter().filter(|name| chosen(name)) {
        let scene = tensortap_cli::scenes().find(name).expect("listed");
        let mut goldens = Goldens { folder: tempfile::tempdir().expect("a folder"), dumps: HashMap::new() };
        for kernel in scene.kernels() {
            for &kind in kernel.faults {
                if kind != FaultKind::Race {
                    let here = rotation.next(name, kind);
                    problems.extend(complaint(scene, kernel, kind, here, &mut goldens));
                    continue;
                }
                races += 1;
                for platform in PLATFORMS {
                    let here = Venue { platform: platform.name(), ..process_venue(name, races) };
                    problems.extend(complaint(scene, kernel, kind, here, &mut goldens));
                }
            }
        }
    }
    rotation.assert_complete();
    assert!(races > 0);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// A venue of the scene with a device process, in turn.
fn process_venue(scene: &str, turn: usize) -> Venue {
    let (platform, runtime) = venue(scene, turn);
    Venue { platform, runtime, mode: DeviceMode::Process }
}

/// Runs with a fault and returns the wrong claims of the reports about the dump.
fn complaint(
    scene: &dyn Scene,
    kernel: &KernelDef,
    kind: FaultKind,
    here: Venue,
    goldens: &mut Goldens,
) -> Vec<String> {
    let name = scene.name();
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(name, here.platform, here.runtime, &folder.path().join("dump"));
    config.device_mode = here.mode;
    config.inject_fault = Some((kernel.name.into(), kind));
    let (dump, verdict) = judged(&config);
    if kind != FaultKind::Race && verdict != GoldenVerdict::Fail {
        return vec![format!("{name} on {here}, {}={kind}: the run reports right outputs", kernel.name)];
    }
    let truth = if kind == FaultKind::Race {
        let plain = goldens.get(name, (here.platform, here.runtime));
        ExpectedRace::of(&dump, plain, scene, kernel.name).map(ExpectedCulprit::Raced)
    } else {
        first_shown(&dump, scene, kernel, kind).map(ExpectedCulprit::WrongHere)
    };
    let golden = goldens.get(name, elsewhere(scene, here));
    let mut problems = Vec::new();
    let options = BlameOptions { scene: Some(scene), ..BlameOptions::default() };
    let ways = [
        ("golden", blame_by_golden(&dump, golden), Baseline::Golden(golden)),
        ("reference", blame_by_reference(&dump), Baseline::Reference(scene)),
    ];
    for (how, blame, against) in ways {
        let checked = truth.as_ref().map_err(Clone::clone).and_then(|t| t.check(&blame, kernel));
        let checked = checked.and_then(|()| check_kind(&blame, &dump, &against, &options, kind));
        if let Err(problem) = checked {
            let all = complaints(&blame).join("; ");
            problems.push(format!("{name} on {here}, {}={kind} by {how}: {problem}: {all}", kernel.name));
        }
    }
    problems
}

/// Checks that the first culprit shows the kind of error that the fault causes.
fn check_kind(
    blame: &Blame,
    dump: &Dump,
    against: &Baseline<'_>,
    options: &BlameOptions<'_>,
    fault: FaultKind,
) -> Result<(), String> {
    if fault == FaultKind::Race {
        // The label identifies a race; the values may be arbitrary.
        return Ok(());
    }
    let place = blame.first_wrong[0];
    let mut shown = Vec::new();
    for compared in blame.outside(place) {
        shown.extend(blame.kind(dump, against, place, compared, options).map_err(|error| error.to_string())?);
    }
    // A task may have float and integer outputs; only the size shows which one the kind is about.
    let has_output = |float: bool, kind: &ErrorKind| {
        let mut outputs = blame.graph.task(place).outputs();
        outputs.any(|arg| arg.dtype.is_float() == float && arg.numel() == Some(kind.elements))
    };
    let mut outputs = blame.graph.task(place).outputs();
    let unsigned = outputs.any(|arg| matches!(arg.dtype, DType::UInt8 | DType::UInt16 | DType::UInt32));
    let fits = |kind: &ErrorKind| {
        match (fault, &kind.relation) {
            (FaultKind::Last, _) => matches!(kind.spot, ErrorRegion::One { is_last: true, .. }),
            (FaultKind::Sign, Relation::Sign) | (FaultKind::Nan, Relation::Nan) => true,
            (FaultKind::Overflow, Relation::Infinite) => has_output(true, kind),
            (FaultKind::Overflow, Relation::Wrapped) => has_output(false, kind),
            (FaultKind::Shift, Relation::Shifted(1) | Relation::InputsShifted(1)) => true,
            (FaultKind::Stale, Relation::AsItCame | Relation::Zero | Relation::Earlier { .. }) => true,
            // Unsigned values cannot be negative, so a wrong sign becomes zero.
            (FaultKind::Sign, Relation::Zero) => unsigned,
            _ => false,
        }
    };
    if shown.iter().any(fits) { Ok(()) } else { Err(format!("the reported kinds are {shown:?}")) }
}

/// The other platform with the next runtime of the scene.
fn elsewhere(scene: &dyn Scene, here: Venue) -> (&'static str, &'static str) {
    let after = |names: Vec<&'static str>, name| {
        let at = names.iter().position(|n| *n == name).expect("one of them");
        names[(at + 1) % names.len()]
    };
    let platforms = PLATFORMS.iter().map(|p| p.name()).collect();
    (after(platforms, here.platform), after(tensortap::runtimes_of(scene), here.runtime))
}

/// The correct result of a report.
enum ExpectedCulprit {
    Raced(ExpectedRace),
    /// The first task that is `wrong_here`.
    WrongHere(u64),
}

impl ExpectedCulprit {
    fn check(&self, blame: &Blame, kernel: &KernelDef) -> Result<(), String> {
        match self {
            ExpectedCulprit::Raced(raced) => raced.check(blame),
            ExpectedCulprit::WrongHere(first) => check(blame, kernel.name, *first),
        }
    }
}

/// The first task of a kernel, by dispatch time, whose output a fault changes.
///
/// That is its first task, except for two kinds of fault. A row with a single element has no neighbor to
/// shift from, and a rotation by nothing equals a kernel that writes nothing. Such tasks are skipped if the
/// kernel without the fault, called here on the task's inputs, reproduces every captured byte.
fn first_shown(dump: &Dump, scene: &dyn Scene, kernel: &KernelDef, kind: FaultKind) -> Result<u64, String> {
    let started: HashMap<u64, u64> =
        dump.tasks().expect("readable").iter().map(|t| (t.task_id, t.dispatched_ns)).collect();
    let mut tasks: Vec<CapturedTask<'_>> = oracle::tasks(dump);
    tasks.retain(|task| task.calls(kernel));
    tasks.sort_by_key(|task| started[&task.id()]);
    let may_hide = matches!(kind, FaultKind::Shift | FaultKind::Stale);
    let shows = |task: &&CapturedTask<'_>| !may_hide || task.run(scene, None) != Some(true);
    tasks.iter().find(shows).map(CapturedTask::id).ok_or_else(|| "the fault changes no output".into())
}

fn check(blame: &Blame, kernel: &str, first: u64) -> Result<(), String> {
    let tasks = || blame.graph.tasks().iter().zip(&blame.findings);
    let runs = |task: &Task<'_>| task.kernel_names().iter().any(|k| k == kernel);
    if let Some((task, _)) = tasks().find(|(t, f)| f.label == Label::WrongHere && !runs(t)) {
        return Err(format!("task {:#x} is wrong here", task.task_id));
    }
    let place = blame
        .graph
        .position(TaskKey { step: 0, task_id: first })
        .ok_or_else(|| format!("{first:#x} is not in the graph"))?;
    // Earlier tasks are all right.
    if let Some(task) = tasks().take(place).find(|(_, f)| f.label != Label::Ok) {
        return Err(format!("task {:#x}, before {first:#x}, is {}", task.0.task_id, task.1.label.name()));
    }
    let label = blame.findings[place].label;
    if label != Label::WrongHere || !blame.first_wrong.contains(&place) {
        return Err(format!("its first task {first:#x} is {}", label.name()));
    }
    // Which of equal culprits ran first changes from run to run; the order of reports does not.
    let order = |&place: &usize| (blame.graph.depth(place), blame.graph.task(place).task_id);
    let is_wrong = |&place: &usize| blame.findings[place].label == Label::WrongHere;
    if !blame.first_wrong.is_sorted_by_key(order) || !blame.first_wrong.first().is_some_and(is_wrong) {
        return Err(format!("culprits are reported in the order {:?}", blame.first_wrong));
    }
    Ok(())
}
