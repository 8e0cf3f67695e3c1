//! One suite for every platform and every runtime: it walks the registries, so a new one is tested by being listed.

mod circle;
mod failure;
mod faults;
mod order;
mod rings;
mod scenes;

use std::path::PathBuf;

use tensortap::{DeviceMode, PLATFORMS, RunConfig, RunReport};

/// A configuration whose device is the real executable: a test binary cannot become one.
fn config(scene: &str) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(PathBuf::from(env!("CARGO_BIN_EXE_tensortap")));
    // Sparse, and small enough that many runs at once do not promise more than there is.
    config.device_memory = Some(2 << 30);
    config
}

fn run(config: &RunConfig) -> RunReport {
    tensortap::run(config).unwrap_or_else(|error| panic!("{}: {error}", config.scene))
}

/// Every combination of platform, runtime the scene makes sense for, and device mode.
fn everywhere(scene: &str) -> Vec<RunConfig> {
    let runtimes = tensortap::runtimes_of(tensortap_cli::scenes().find(scene).expect("a built-in scene"));
    let mut all = Vec::new();
    for platform in PLATFORMS {
        for runtime in &runtimes {
            for mode in [DeviceMode::Process, DeviceMode::Thread] {
                let mut config = config(scene);
                config.platform = platform.name().into();
                config.runtime = Some((*runtime).into());
                config.device_mode = mode;
                all.push(config);
            }
        }
    }
    assert!(all.len() >= 4, "{scene} runs on every platform in both modes");
    all
}

fn label(config: &RunConfig) -> String {
    let runtime = config.runtime.as_deref().unwrap_or("default runtime");
    format!("{} on {}, {runtime}, {} mode", config.scene, config.platform, config.device_mode)
}

/// Names of the scenes a user sees.
fn listed_scenes() -> Vec<&'static str> {
    tensortap_cli::scenes().scenes().iter().filter(|s| !s.hidden()).map(|s| s.name()).collect()
}
