//! A damaged kernel fails exactly the tasks that the damage shows in.

use tensortap::format::Dump;
use tensortap::scene::{FaultKind, Scene};
use tensortap::{PLATFORMS, ReplayError, RunConfig};

use crate::oracle::{self, Captured};
use crate::{capture, failed, listed_scenes, replay, replay_of, small};

#[test]
fn an_injected_fault_fails_exactly_the_tasks_it_can_show_in() {
    let (mut shown, mut hidden) = (0, 0);
    for name in listed_scenes() {
        let scene = tensortap_cli::scenes().find(name).expect("built in");
        for platform in PLATFORMS {
            for runtime in tensortap::runtimes_of(scene) {
                let mut config = small(name);
                config.platform = platform.name().into();
                config.runtime = Some(runtime.into());
                let (showed, could_not) = faults_of(scene, config);
                (shown, hidden) = (shown + showed, hidden + could_not);
            }
        }
    }
    assert!(shown > 1000 && hidden > 0, "{shown} tasks showed a fault, {hidden} could not");
}

/// Replays a capture with every fault of every kernel; how many tasks of those kernels failed, and how many passed.
fn faults_of(scene: &'static dyn Scene, captured: RunConfig) -> (usize, usize) {
    let label = format!("{} on {}, {:?}", scene.name(), captured.platform, captured.runtime);
    let folder = tempfile::tempdir().expect("a folder");
    capture(captured, &folder.path().join("dump"));
    let dump = Dump::open(folder.path()).expect("a dump");
    let tasks = oracle::tasks(&dump);
    assert!(tasks.iter().all(|task| task.run(scene, None) == Some(true)), "{label}: the oracle is right");
    let (mut shown, mut hidden) = (0, 0);
    for kernel in scene.kernels() {
        for &kind in kernel.faults.iter().filter(|k| **k != FaultKind::Race) {
            let mut config = replay_of(folder.path());
            config.inject_fault = Some((kernel.name.into(), kind));
            // Whether it comes out otherwise than captured.
            let shows = |task: &&Captured<'_>| {
                task.calls(kernel) && task.run(scene, Some((kernel.func_id, kind))) != Some(true)
            };
            let mut expected: Vec<u64> = tasks.iter().filter(shows).map(Captured::id).collect();
            expected.sort_unstable();
            let report = replay(&config);
            assert_eq!(failed(&report), expected, "{kind} in {} of {label}", kernel.name);
            let mut passed: Vec<_> = report.tasks.iter().filter(|t| t.outcome.passed()).collect();
            assert_eq!(passed.len() + expected.len(), tasks.len(), "{label}: nothing else is refused");
            shown += expected.len();
            passed.retain(|t| t.kernels.iter().any(|name| name == kernel.name));
            hidden += passed.len();
        }
    }
    (shown, hidden)
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
