//! Faults on purpose.

use std::collections::HashMap;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, Task, TaskKey};
use tensortap::scene::{FaultKind, KernelDef, Scene};

use crate::oracle::{self, Captured};
use crate::races::Raced;
use crate::{blame_by_golden, blame_by_reference, complaints, config, listed_scenes, place, run};

/// Goldens of a scene, by where they were made.
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
fn every_fault_of_every_kernel_is_found_where_it_is_with_shared_memory() {
    every_fault_is_found_on(0);
}

#[test]
fn every_fault_of_every_kernel_is_found_where_it_is_with_copied_memory() {
    every_fault_is_found_on(1);
}

/// Injects every fault on one platform, on the scene's runtimes in turn.
fn every_fault_is_found_on(platform: usize) {
    let mut problems = Vec::new();
    let mut turn = platform;
    for name in listed_scenes() {
        let scene = tensortap_cli::scenes().find(name).expect("listed");
        let mut goldens = Goldens { folder: tempfile::tempdir().expect("a folder"), dumps: HashMap::new() };
        for kernel in scene.kernels() {
            for &kind in kernel.faults {
                turn += 1;
                let folder = tempfile::tempdir().expect("a folder");
                let here = (place(name, platform).0, place(name, turn).1);
                let mut config = config(name, here.0, here.1, &folder.path().join("dump"));
                config.inject_fault = Some((kernel.name.into(), kind));
                let dump = run(&config);
                let truth = if kind == FaultKind::Race {
                    Raced::of(&dump, goldens.get(name, here), scene, kernel.name).map(Truth::Raced)
                } else {
                    first_shown(&dump, scene, kernel, kind).map(Truth::WrongHere)
                };
                // The golden is made on the other platform and another runtime.
                let golden = goldens.get(name, (place(name, platform + 1).0, place(name, turn + 1).1));
                for (how, blame) in
                    [("golden", blame_by_golden(&dump, golden)), ("reference", blame_by_reference(&dump))]
                {
                    let checked = truth.as_ref().map_err(Clone::clone).and_then(|t| t.check(&blame, kernel));
                    if let Err(problem) = checked {
                        let all = complaints(&blame).join("; ");
                        problems.push(format!(
                            "{name} {here:?} {}={kind} by {how}: {problem}: {all}",
                            kernel.name
                        ));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// What a report has to say.
enum Truth {
    Raced(Raced),
    /// The task that is wrong here, first of all.
    WrongHere(u64),
}

impl Truth {
    fn check(&self, blame: &Blame, kernel: &KernelDef) -> Result<(), String> {
        match self {
            Truth::Raced(raced) => raced.check(blame),
            Truth::WrongHere(first) => check(blame, kernel.name, *first),
        }
    }
}

/// The first task of a kernel, by the time of dispatch, that is damaged by a fault.
///
/// That is the first at all, but for two kinds: a row of one element has no neighbour to be mistaken for, and a rotation by
/// nothing leaves its in-out as a kernel does that writes nothing. Those are passed over when, and only when, the kernel
/// without the fault, called here on what the task was given, makes every byte that was captured.
fn first_shown(dump: &Dump, scene: &dyn Scene, kernel: &KernelDef, kind: FaultKind) -> Result<u64, String> {
    let started: HashMap<u64, u64> =
        dump.tasks().expect("readable").iter().map(|t| (t.task_id, t.dispatched_ns)).collect();
    let mut tasks: Vec<Captured<'_>> = oracle::tasks(dump);
    tasks.retain(|task| task.calls(kernel));
    tasks.sort_by_key(|task| started[&task.id()]);
    let may_hide = matches!(kind, FaultKind::Shift | FaultKind::Stale);
    let shows = |task: &&Captured<'_>| !may_hide || task.run(scene, None) != Some(true);
    tasks.iter().find(shows).map(Captured::id).ok_or_else(|| "it shows nowhere".into())
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
    // Those before it show nothing.
    if let Some(task) = tasks().take(place).find(|(_, f)| f.label != Label::Ok) {
        return Err(format!("task {:#x}, before {first:#x}, is {}", task.0.task_id, task.1.label.name()));
    }
    match blame.findings[place].label {
        Label::WrongHere if blame.first_wrong.first() == Some(&place) => Ok(()),
        label => Err(format!("its first task {first:#x} is {}", label.name())),
    }
}
