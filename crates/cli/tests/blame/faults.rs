//! Faults on purpose.

use std::collections::HashMap;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::labels::Label;
use tensortap::format::Dump;
use tensortap::scene::FaultKind;

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
    for scene in listed_scenes() {
        let mut goldens = Goldens { folder: tempfile::tempdir().expect("a folder"), dumps: HashMap::new() };
        for kernel in tensortap::builtin().find(scene).expect("listed").kernels() {
            for &kind in kernel.faults {
                turn += 1;
                let folder = tempfile::tempdir().expect("a folder");
                let here = (place(scene, platform).0, place(scene, turn).1);
                let mut config = config(scene, here.0, here.1, &folder.path().join("dump"));
                config.inject_fault = Some((kernel.name.into(), kind));
                let dump = run(&config);
                // The golden is made on the other platform and another runtime.
                let golden = goldens.get(scene, (place(scene, platform + 1).0, place(scene, turn + 1).1));
                for (how, blame) in
                    [("golden", blame_by_golden(&dump, golden)), ("reference", blame_by_reference(&dump))]
                {
                    if let Err(problem) = check(&blame, kernel.name, kind) {
                        problems.push(format!("{scene} {here:?} {}={kind} by {how}: {problem}", kernel.name));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

fn check(blame: &Blame, kernel: &str, kind: FaultKind) -> Result<(), String> {
    let tasks = || blame.graph.tasks.iter().zip(&blame.findings);
    let runs = |place: usize| blame.graph.tasks[place].kernel_labels().iter().any(|k| k == kernel);
    let all = || complaints(blame).join("; ");
    if kind == FaultKind::Race {
        let raced: Vec<_> = tasks().filter_map(|(_, f)| Some((f.label, f.race?))).collect();
        let first = blame.first_wrong.first().ok_or_else(|| format!("nothing is wrong: {}", all()))?;
        let race = blame.findings[*first].race.ok_or_else(|| format!("the first is not raced: {}", all()))?;
        if raced.is_empty() || !(runs(*first) || runs(race.other)) {
            return Err(format!("another pair: {}", all()));
        }
        if tasks().any(|(_, f)| f.label == Label::WrongHere) {
            return Err(format!("a task is wrong here: {}", all()));
        }
        return Ok(());
    }
    if let Some((task, finding)) =
        tasks().find(|(t, f)| f.label == Label::WrongHere && !t.kernel_labels().iter().any(|k| k == kernel))
    {
        let (task_id, kernels) = (task.task_id, task.kernel_labels());
        return Err(format!("task {task_id:#x} {kernels:?} is {}: {}", finding.label.name(), all()));
    }
    // In some tasks a fault cannot show, and which of them runs first varies: a row of one element has no neighbour to be
    // mistaken for, and a rotation by nothing leaves its in-out as a kernel does that writes nothing.
    let may_hide = matches!(kind, FaultKind::Shift | FaultKind::Stale);
    let shows = |place: usize| !may_hide || blame.findings[place].label != Label::Ok;
    let first = (0..blame.graph.tasks.len()).find(|&p| runs(p) && shows(p)).ok_or("nothing is wrong")?;
    match blame.findings[first].label {
        Label::WrongHere if blame.first_wrong.contains(&first) => Ok(()),
        label => Err(format!("its first task is {}: {}", label.name(), all())),
    }
}
