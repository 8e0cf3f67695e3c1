//! A damaged kernel fails exactly the tasks that the damage shows in.

use tensortap::ReplayError;
use tensortap::format::Dump;
use tensortap::scene::FaultKind;

use crate::oracle::{self, Captured};
use crate::{capture, failed, listed_scenes, replay, replay_of, small};

#[test]
fn an_injected_fault_fails_exactly_the_tasks_it_can_show_in() {
    let (mut shown, mut hidden) = (0, 0);
    for scene_name in listed_scenes() {
        let folder = tempfile::tempdir().expect("a folder");
        capture(small(scene_name), &folder.path().join("dump"));
        let scene = tensortap::builtin().find(scene_name).expect("built in");
        let dump = Dump::open(folder.path()).expect("a dump");
        let tasks = oracle::tasks(&dump);
        assert!(
            tasks.iter().all(|task| task.run(scene, None) == Some(true)),
            "{scene_name}: the oracle is right"
        );
        for kernel in scene.kernels() {
            for &kind in kernel.faults.iter().filter(|k| **k != FaultKind::Race) {
                let mut config = replay_of(folder.path());
                config.inject_fault = Some((kernel.name.into(), kind));
                let shows = |task: &&Captured<'_>| task.shows(scene, kernel, kind);
                let mut expected: Vec<u64> = tasks.iter().filter(shows).map(Captured::id).collect();
                expected.sort_unstable();
                let report = replay(&config);
                assert_eq!(failed(&report), expected, "{kind} in {} of {scene_name}", kernel.name);
                let mut passed: Vec<_> = report.tasks.iter().filter(|t| t.outcome.passed()).collect();
                assert_eq!(passed.len() + expected.len(), tasks.len(), "nothing else is refused");
                shown += expected.len();
                passed.retain(|t| t.kernels.iter().any(|name| name == kernel.name));
                hidden += passed.len();
            }
        }
    }
    assert!(shown > 1000 && hidden > 0, "{shown} tasks showed a fault, {hidden} could not");
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
