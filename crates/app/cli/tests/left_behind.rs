//! Checks the resources of a process that runs devices, during and after the runs. The test inspects its own
//! process, so it is a separate binary, and its tests run one at a time.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tensortap::{DeviceMode, PLATFORMS, RUNTIMES, RunConfig};

const MEMORY_NAME: &str = "memfd:tensortap-device-memory";

fn exclusive() -> MutexGuard<'static, ()> {
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

/// Device resources of this process: open files, mappings, named shared memory and child processes.
#[derive(Debug, PartialEq, Eq)]
struct DeviceResources {
    files: usize,
    mappings: usize,
    shared: usize,
    children: usize,
}

const NOTHING: DeviceResources = DeviceResources { files: 0, mappings: 0, shared: 0, children: 0 };

fn device_resources() -> DeviceResources {
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_memory =
        |path: PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(MEMORY_NAME));
    let children =
        entries("/proc/self/task").filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    DeviceResources {
        files: entries("/proc/self/fd").filter(|file| is_memory(file.path())).count(),
        mappings: mappings(),
        shared: entries("/dev/shm")
            .filter(|file| file.file_name().to_string_lossy().contains("tensortap"))
            .count(),
        children: children.map(|list| list.split_whitespace().count()).sum(),
    }
}

/// Number of mappings of device memory in this process.
fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    maps.lines().filter(|line| line.contains(MEMORY_NAME)).count()
}

#[test]
fn no_run_leaves_memory_or_processes_behind() {
    let _turn = exclusive();
    for platform in PLATFORMS {
        for runtime in RUNTIMES {
            for scene in ["vector_example", "crash_segv", "crash_abort", "crash_stack", "hang"] {
                let config = config(scene, platform.name(), runtime.name());
                common::count_run();
                let report =
                    tensortap::run(&config).or_else(tensortap::Error::into_report).expect("the run starts");
                assert_eq!(
                    report.failure.is_some(),
                    scene != "vector_example",
                    "{scene}: {:?}",
                    report.failure
                );
                assert_eq!(device_resources(), NOTHING, "{scene} on {}, {}", platform.name(), runtime.name());
            }
        }
    }
}

#[test]
fn during_a_run_the_host_maps_device_memory_on_a2a3sim_and_never_on_a5sim() {
    let _turn = exclusive();
    for (platform, mapped) in [("a2a3sim", true), ("a5sim", false)] {
        for runtime in RUNTIMES {
            let mut config = config("hang", platform, runtime.name());
            config.stall_timeout = None;
            assert_eq!(config.device_mode, DeviceMode::Process);
            let mut seen = None;
            // The run hangs until the observer has seen it with a completed task.
            common::count_run();
            let report = tensortap::run_observed(&config, &mut |progress| {
                let DeviceResources { files, mappings, children, .. } = device_resources();
                seen = (progress.completed > 0).then_some((files > 0 && children == 1, mappings > 0));
                seen.is_none()
            });
            let report = report.or_else(tensortap::Error::into_report);
            assert_eq!(report.expect("the run starts").status(), "interrupted");
            assert_eq!(seen, Some((true, mapped)), "{platform}, {}", runtime.name());
        }
    }
}
