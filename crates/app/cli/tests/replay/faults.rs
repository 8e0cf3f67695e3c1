//! Tests that a damaged kernel fails exactly the tasks that the damage affects.

use tensortap::format::Dump;
use tensortap::scene::{FaultKind, KernelDef, Scene};
use tensortap::{PLATFORMS, ReplayError};

use crate::oracle::{self, CapturedTask};
use crate::{capture, failed, listed_scenes, replay, replay_of, small};

/// A fault affects a task in the same way wherever it was captured. So each fault uses one of a scene's
/// captures in turn: one per platform, each on another runtime. The first fault of each kernel replays all
/// tasks, to check that others are unaffected. Further faults replay only the kernel's own tasks.
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
    assert!(shown > 1000 && hidden > 0, "{shown} tasks were affected by a fault, {hidden} were not");
}

/// A dump and its tasks.
struct Capture<'d> {
    dump: &'d Dump,
    tasks: Vec<CapturedTask<'d>>,
}

impl<'d> Capture<'d> {
    fn of(scene: &dyn Scene, dump: &'d Dump) -> Capture<'d> {
        let tasks = oracle::tasks(dump);
        let is_right = tasks.iter().all(|task| task.run(scene, None) == Some(true));
        assert!(is_right, "{}: the oracle is right", dump.dir().display());
        Capture { dump, tasks }
    }

    /// Replays with a fault: all tasks or only the kernel's own. Returns how many tasks of the kernel failed
    /// and passed.
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
        // Whether its outputs differ from the captured ones.
        let shows = |task: &&CapturedTask<'_>| {
            task.calls(kernel) && task.run(scene, Some((kernel.func_id, kind))) != Some(true)
        };
        let mut expected: Vec<u64> = self.tasks.iter().filter(shows).map(CapturedTask::id).collect();
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
fn refuses_the_fault_race() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.inject_fault = Some(("mul".into(), FaultKind::Race));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(error.is_usage() && error.to_string().contains("a race needs a second task"), "{error}");
}

#[test]
fn unknown_faults_and_kernels_list_the_valid_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.inject_fault = Some(("mull".into(), FaultKind::Sign));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(matches!(&error, tensortap::Error::Replay(ReplayError::Unknown { .. })), "{error}");
    assert!(error.to_string().contains("add_scalar, mul"), "{error}");
    config.inject_fault = Some(("add_scalar".into(), FaultKind::Sign));
    let error = tensortap::replay(&config).expect_err("refused");
    assert!(error.to_string().contains("use one of: last"), "{error}");
}
