//! Checks that a dump contains what tasks really saw: byte for byte what a sequential executor of the same
//! graph computes.
//!
//! This suite shares no code with recorder, geometry, collector or format. It reads manifests with a JSON
//! parser and payloads by offset and size, and the executor indexes views element by element.

mod args;
#[path = "../common/mod.rs"]
mod common;
mod death;
mod expected;
mod killed;
mod levels;
mod live;
mod loss;
mod manifest;
mod names;
mod scribbled;
mod times;
mod values;

use std::path::Path;

use tensortap::{DumpConfig, DumpLevel, RunConfig, RunReport};

use common::{listed_scenes, venues};

/// A configuration that dumps into a folder and uses the real device executable.
fn config(scene: &str, level: DumpLevel, out: &Path) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(common::executable());
    config.device_memory = Some(2 << 30);
    // New memory is zero here and in the sequential executor, so that unwritten bytes agree, too.
    config.poison = Some(0);
    config.dump = Some(DumpConfig::new(level));
    config.out = Some(out.join("dump"));
    config
}

fn run(config: &RunConfig) -> RunReport {
    common::count_run();
    let report = tensortap::run(config).or_else(tensortap::Error::into_report);
    report.unwrap_or_else(|error| panic!("{}: {error}", config.scene))
}
