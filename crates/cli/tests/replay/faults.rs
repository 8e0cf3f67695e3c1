//! A damaged kernel fails exactly the tasks that the damage shows in.

use tensortap::format::Dump;
use tensortap::scene::{FaultKind, KernelDef, Scene};
use tensortap::{PLATFORMS, ReplayError};

use crate::oracle::{self, Captured};
use crate::{capture, failed, listed_scenes, replay, replay_of, small};

/// A fault does the same to a task wherever its arguments were captured: each is tried on one of a scene's captures, which
/// take turns. A scene is captured on every platform, on a runtime in turn. With the first fault of each kernel all tasks are
/// replayed, so that it is seen to leave the others alone; with its further ones the kernel's own.
#[test]
fn an_injected_fault_fails_exactly_the_tasks_it_can_show_in() {
    let (mut shown, mut hidden) = (0, 0);
    for (turn, name) in listed_scenes().into_iter().enumerate() {
        let scene = tensortap_cli::scenes().find(name).expect("built in");
        let runtimes = tensortap::runtimes_of(scene);
        let folder = tempfile::tempdir().expect("a folder");
        let mut dumps = Vec::new();
        for (number, platform) in PLATFORMS.iter().enumerate() {
            let mut config = small(name);
            config.platform = platform.name().into();
            config.runtime = Some(runtimes[(turn + number) % runtimes.len()].into());
            let out = folder.path().join(platform.name());
            capture(config, &out);
            dumps.push(Dump::open(&out).expect("a dump"));
        }
        let captures: Vec<Capture<'_>> = dumps.iter().map(|dump| Capture::of(scene, dump)).collect();
        let damages = |kernel: &'static KernelDef| {
            let kinds = kernel.faults.iter().filter(|kind| **kind != FaultKind::Race);
            kinds.enumerate().map(move |(place, &kind)| (kernel, kind, place == 0))
        };
        let damages = scene.kernels().iter().flat_map(damages);
        for ((kernel, kind, with_others), captured) in damages.zip(captures.iter().cycle()) {
            let (showed, could_not) = captured.replay_with(scene, kernel, kind, with_others);
            (shown, hidden) = (shown + showed, hidden + could_not);
        }
    }
    assert!(shown > 1000 && hidden > 0, "{shown} tasks showed a fault, {hidden} could not");
}

/// A dump and its tasks.
struct Capture<'d> {
    dump: &'d Dump,
    tasks: Vec<Captured<'d>>,
}

impl<'d> Capture<'d> {
    fn of(scene: &dyn Scene, dump: &'d Dump) -> Capture<'d> {
        let tasks = oracle::tasks(dump);
        let is_right = tasks.iter().all(|task| task.run(scene, None) == Some(true));
        assert!(is_right, "{}: the oracle is right", dump.dir().display());
        Capture { dump, tasks }
    }

    /// Replays it with a fault, all of it or the kernel's own tasks; how many tasks of the kernel failed, and how many passed.
    fn replay_with(
        &self,
        scene: &dyn Scene,
        kernel: &KernelDef,
        kind: FaultKind,
        with_others: bool,
    ) -> (usize, usize) {
        let info = self.dump.info();
        let label =
            format!("{kind} in {} of {}, {}, {}", kernel.name, info.scene, info.platform, info.runtime);
        let mut config = replay_of(self.dump.dir());
        config.inject_fault = Some((kernel.name.into(), kind));
        config.funcs.extend((!with_others).then(|| kernel.name.into()));
        let replayed = self.tasks.iter().filter(|task| with_others || task.calls(kernel)).count();
        // Whether it comes out otherwise than captured.
        let shows = |task: &&Captured<'_>| {
            task.calls(kernel) && task.run(scene, Some((kernel.func_id, kind))) != Some(true)
        };
        let mut expected: Vec<u64> = self.tasks.iter().filter(shows).map(Captured::id).collect();
        expected.sort_unstable();
        let report = replay(&config);
        assert_eq!(failed(&report), expected, "{label}");
        let mut passed: Vec<_> = report.tasks.iter().filter(|t| t.outcome.passed()).collect();
        assert_eq!(passed.len() + expected.len(), replayed, "{label}: nothing else is refused");
        passed.retain(|t| t.kernels.iter().any(|name| name == kernel.name));
        (expected.len(), passed.len())
    }
}

#[test]
fn a_race_is_refused_because_a_task_alone_has_nobody_to_race_with() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.inject_fault = Some(("mul".into(), FaultKind::Race));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(error.is_usage() && error.to_string().contains("a race needs a successor"), "{error}");
}

#[test]
fn faults_and_kernels_nobody_knows_are_refused_with_those_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.inject_fault = Some(("mull".into(), FaultKind::Sign));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(matches!(&error, tensortap::Error::Replay(ReplayError::Unknown { .. })), "{error}");
    assert!(error.to_string().contains("add_scalar, mul"), "{error}");
    config.inject_fault = Some(("add_scalar".into(), FaultKind::Sign));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(error.to_string().contains("it shows: last"), "{error}");
}
