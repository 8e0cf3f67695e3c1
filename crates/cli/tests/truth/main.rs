//! A dump holds what the tasks really saw: byte for byte what a sequential executor of the same graph computes.
//!
//! Nothing here shares code with recorder, geometry, collector or format: manifests are read with a JSON parser, payloads
//! by offset and size, and the executor indexes views element by element.

mod args;
mod death;
mod expected;
mod killed;
mod levels;
mod live;
mod loss;
mod manifest;
mod values;

use std::path::{Path, PathBuf};

use tensortap::{DeviceMode, DumpConfig, DumpLevel, PLATFORMS, RunConfig, RunReport};

/// A configuration that dumps into a folder, on the real device executable.
fn config(scene: &str, level: DumpLevel, out: &Path) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(PathBuf::from(env!("CARGO_BIN_EXE_tensortap")));
    config.device_memory = Some(2 << 30);
    // New memory is zero here and in the sequential executor, so that unwritten bytes agree, too.
    config.poison = Some(0);
    config.dump = Some(DumpConfig::new(level));
    config.out = Some(out.join("dump"));
    config
}

fn run(config: &RunConfig) -> RunReport {
    tensortap::run(config).unwrap_or_else(|error| panic!("{}: {error}", config.scene))
}

/// Every platform, runtime of the scene, and device mode.
fn everywhere(scene: &str) -> Vec<(&'static str, &'static str, DeviceMode)> {
    let runtimes = tensortap::runtimes_of(tensortap_cli::scenes().find(scene).expect("a built-in scene"));
    let mut all = Vec::new();
    for platform in PLATFORMS {
        for &runtime in &runtimes {
            all.extend(
                [DeviceMode::Process, DeviceMode::Thread].map(|mode| (platform.name(), runtime, mode)),
            );
        }
    }
    all
}

fn listed_scenes() -> Vec<&'static str> {
    tensortap_cli::scenes().scenes().iter().filter(|s| !s.hidden()).map(|s| s.name()).collect()
}
