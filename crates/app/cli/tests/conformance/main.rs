//! One suite for every platform and every runtime. It iterates over the registries, so a new one is tested by
//! being listed.

mod circle;
#[path = "../common/mod.rs"]
mod common;
mod failure;
mod faults;
mod order;
mod rings;
mod scenes;

use tensortap::{RunConfig, RunReport};

use common::{Venue, listed_scenes, venues};

/// A configuration with the real device executable, because a test binary cannot become one.
fn config(scene: &str) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(common::executable());
    // Sparse, and small enough that many parallel runs do not exceed the memory.
    config.device_memory = Some(2 << 30);
    config
}

fn run(config: &RunConfig) -> RunReport {
    common::count_run();
    let report = tensortap::run(config).or_else(tensortap::Error::into_report);
    report.unwrap_or_else(|error| panic!("{}: {error}", config.scene))
}

fn config_in(scene: &str, venue: Venue) -> RunConfig {
    let mut config = config(scene);
    venue.set(&mut config);
    config
}

/// A configuration for every venue.
fn everywhere(scene: &str) -> Vec<RunConfig> {
    venues(scene).into_iter().map(|venue| config_in(scene, venue)).collect()
}

fn label(config: &RunConfig) -> String {
    let runtime = config.runtime.as_deref().unwrap_or("default runtime");
    format!("{} on {}, {runtime}, {} mode", config.scene, config.platform, config.device_mode)
}
