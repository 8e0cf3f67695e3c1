//! Tests that every captured task of every scene, platform and runtime replays bit by bit, on every platform.

use tensortap::format::Dump;
use tensortap::{DeviceMode, Grade, Outcome, PLATFORMS, Placement, Selection};

use crate::{capture, listed_scenes, only, replay, replay_of, small};

#[test]
fn every_task_of_every_scene_platform_and_runtime_is_bit_exact_on_every_platform() {
    // Includes hidden scenes with other views and mix tasks.
    for scene in listed_scenes().into_iter().chain(["odd_views", "rendezvous"]) {
        let runtimes = tensortap::runtimes_of(tensortap_cli::scenes().find(scene).expect("built in"));
        for captured_on in PLATFORMS {
            for &runtime in &runtimes {
                let folder = tempfile::tempdir().expect("a folder");
                let mut config = small(scene);
                (config.platform, config.runtime) = (captured_on.name().into(), Some(runtime.into()));
                let ran = capture(config, &folder.path().join("dump"));
                for platform in PLATFORMS {
                    let mut config = replay_of(folder.path());
                    config.platform = Some(platform.name().into());
                    let report = replay(&config);
                    let label = format!("{scene}, {runtime}, {} to {}", captured_on.name(), platform.name());
                    assert_eq!(report.tasks.len() as u64, ran.tasks, "{label}");
                    for task in &report.tasks {
                        assert_eq!(task.outcome, Outcome::BitExact, "{label}: {}", task.name());
                        assert_eq!((task.grade(), task.runs), (Grade::Exact, 1), "{label}: {}", task.name());
                        let compared: u64 = task.outputs.iter().map(|o| o.compared).sum();
                        assert_eq!(compared, task.outputs.iter().map(|o| o.elements).sum::<u64>(), "{label}");
                    }
                    assert!(report.passed(), "{label}");
                    assert_eq!(report.captured_on, [captured_on.name()]);
                    assert_eq!(report.replayed_on, [platform.name()]);
                }
            }
        }
    }
}

#[test]
fn device_processes_and_several_devices_replay_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = capture(small("bgemm"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.device_mode = DeviceMode::Process;
    config.jobs = Some(3);
    config.repeat = 2;
    let report = replay(&config);
    assert_eq!(report.count(|o| *o == Outcome::BitExact) as u64, ran.tasks);
    assert!(report.tasks.iter().all(|t| (t.runs, t.distinct_results) == (2, 1)), "runs and results");
    // The device runs the executable that captured the dump.
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn a_single_task_keeps_its_addresses_and_several_are_relocated() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let id = Dump::open(folder.path()).expect("a dump").tasks().expect("tasks").at(1).task_id;
    let mut config = replay_of(folder.path());
    // In process mode the addresses of the first rank are always free.
    config.device_mode = DeviceMode::Process;
    config.select = Selection::Tasks(vec![id.into()]);
    let report = replay(&config);
    assert_eq!(
        (only(&report).placement, &only(&report).outcome),
        (Some(Placement::Captured), &Outcome::BitExact)
    );
    // Too small for the captured addresses, large enough for the task.
    config.device_memory = Some(4 << 20);
    let report = replay(&config);
    assert_eq!(
        (only(&report).placement, &only(&report).outcome),
        (Some(Placement::Relocated), &Outcome::BitExact)
    );
    config.select = Selection::All;
    let report = replay(&config);
    assert!(report.passed() && report.tasks.iter().all(|t| t.placement == Some(Placement::Relocated)));
}

#[test]
fn measures_each_kernel_as_often_as_requested() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.funcs = vec!["mul".into()];
    config.bench = true;
    config.repeat = 3;
    let report = replay(&config);
    let timing = only(&report).timing.as_ref().expect("it was measured");
    assert_eq!((timing.kernel.len(), timing.launch.len()), (3, 3));
    assert!(
        timing.kernel.iter().zip(&timing.launch).all(|(kernel, launch)| !kernel.is_zero() && kernel < launch)
    );
}
