//! Tests replays: a captured task reproduces its outputs bit by bit on every platform, from a dump and from a
//! case. Tasks that cannot be replayed exactly are refused with a reason.

mod bit_exact;
mod cases;
mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod confined;
mod debugger;
mod dispatches;
mod faults;
mod hostile;
mod old_cases;
mod oracle;
mod references;
mod refused;

use std::path::Path;

use tensortap::{
    DeviceMode, DumpConfig, DumpLevel, Outcome, ReplayConfig, ReplayReport, RunConfig, RunReport, TaskReport,
};

use common::{executable, listed_scenes};

/// A scene with small parameters, so that all scenes together take seconds.
fn small(scene: &str) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    let params: &[(&str, u64)] = match scene {
        "stream" => &[("tasks", 12), ("bytes", 70_000)],
        "tiny_llm" => &[("tokens", 3), ("prompt", 2), ("layers", 1)],
        "bgemm" => &[("m", 64), ("n", 96), ("k", 96), ("batch", 2)],
        "paged_attention" => &[("batch", 2), ("context", 192)],
        _ => &[],
    };
    config.params = params.iter().map(|(name, value)| ((*name).into(), value.to_string())).collect();
    config
}

/// Runs a scene and records everything, until it completes or fails.
fn capture(mut config: RunConfig, out: &Path) -> RunReport {
    config.device_executable = Some(executable());
    config.device_memory = Some(1 << 30);
    config.dump = Some(config.dump.unwrap_or_else(|| DumpConfig::new(DumpLevel::Full)));
    config.out = Some(out.into());
    common::count_run();
    let report = tensortap::run(&config).or_else(tensortap::Error::into_report);
    report.unwrap_or_else(|error| panic!("{}: {error}", config.scene))
}

/// A replay of everything in a dump, in this process.
fn replay_of(source: &Path) -> ReplayConfig {
    let mut config = ReplayConfig::new(source, tensortap_cli::scenes());
    config.device_executable = Some(executable());
    config.device_mode = DeviceMode::Thread;
    config.trust = true;
    config.device_memory = Some(1 << 30);
    config
}

fn replay(config: &ReplayConfig) -> ReplayReport {
    common::count_run();
    tensortap::replay(config).unwrap_or_else(|error| panic!("{}: {error}", config.source.display()))
}

/// The only task of a report.
fn only(report: &ReplayReport) -> &TaskReport {
    let [task] = report.tasks.as_slice() else { panic!("{} tasks", report.tasks.len()) };
    task
}

fn failed(report: &ReplayReport) -> Vec<u64> {
    let failed = report.tasks.iter().filter(|t| matches!(t.outcome, Outcome::Failed(_)));
    let mut ids: Vec<u64> = failed.map(|t| t.task_id).collect();
    ids.sort_unstable();
    ids
}
