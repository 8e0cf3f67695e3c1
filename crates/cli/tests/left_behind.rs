//! What a process that ran devices holds while they run, and afterwards. It looks at itself, so it is a program of its own,
//! and its tests take turns.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tensortap::{DeviceMode, PLATFORMS, RUNTIMES, RunConfig};

const MEMORY_NAME: &str = "memfd:tensortap-device-memory";

fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config(scene: &str, platform: &str, runtime: &str) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(common::executable());
    config.device_memory = Some(1 << 30);
    config.platform = platform.into();
    config.runtime = Some(runtime.into());
    if scene == "hang" {
        config.stall_timeout = Some(Duration::from_millis(500));
    }
    config
}

/// Files, mappings, named shared memory and processes of devices.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    files: usize,
    mappings: usize,
    shared: usize,
    children: usize,
}

const NOTHING: Held = Held { files: 0, mappings: 0, shared: 0, children: 0 };

fn held() -> Held {
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_memory =
        |path: PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(MEMORY_NAME));
    let children =
        entries("/proc/self/task").filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    Held {
        files: entries("/proc/self/fd").filter(|file| is_memory(file.path())).count(),
        mappings: mappings(),
        shared: entries("/dev/shm")
            .filter(|file| file.file_name().to_string_lossy().contains("tensortap"))
            .count(),
        children: children.map(|list| list.split_whitespace().count()).sum(),
    }
}

/// Mappings of device memory in this process.
fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    maps.lines().filter(|line| line.contains(MEMORY_NAME)).count()
}

#[test]
fn neither_a_good_run_nor_a_failed_one_leaves_memory_or_processes() {
    let _turn = alone();
    for platform in PLATFORMS {
        for runtime in RUNTIMES {
            for scene in ["vector_example", "crash_segv", "crash_abort", "crash_stack", "hang"] {
                let config = config(scene, platform.name(), runtime.name());
                common::count_run();
                let report =
                    tensortap::run(&config).or_else(tensortap::Error::into_report).expect("it begins");
                assert_eq!(
                    report.failure.is_some(),
                    scene != "vector_example",
                    "{scene}: {:?}",
                    report.failure
                );
                assert_eq!(held(), NOTHING, "{scene} on {}, {}", platform.name(), runtime.name());
            }
        }
    }
}

#[test]
fn while_a_graph_runs_the_host_maps_device_memory_on_a2a3sim_and_never_on_a5sim() {
    let _turn = alone();
    for (platform, mapped) in [("a2a3sim", true), ("a5sim", false)] {
        for runtime in RUNTIMES {
            let mut config = config("hang", platform, runtime.name());
            config.stall_timeout = None;
            assert_eq!(config.device_mode, DeviceMode::Process);
            let mut seen = None;
            // The run goes on until this has looked at it with a task complete.
            common::count_run();
            let report = tensortap::run_observed(&config, &mut |progress| {
                let Held { files, mappings, children, .. } = held();
                seen = (progress.completed > 0).then_some((files > 0 && children == 1, mappings > 0));
                seen.is_none()
            });
            let report = report.or_else(tensortap::Error::into_report);
            assert_eq!(report.expect("it begins").status(), "interrupted");
            assert_eq!(seen, Some((true, mapped)), "{platform}, {}", runtime.name());
        }
    }
}
