//! `blame` and `diff` on real runs: every fault of every scene is found at its task, and nothing else is
//! reported.

mod alarms;
#[path = "../common/mod.rs"]
mod common;
mod every_dtype;
mod evidence;
mod faults;
mod garbage;
#[path = "../replay/oracle.rs"]
mod oracle;
mod outputs;
mod peers;
mod races;

use std::path::Path;

use tensortap::analysis::blame::{Baseline, Blame, BlameOptions, VerdictOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::analysis::labels::Label;
use tensortap::format::Dump;
use tensortap::judge::{RuleBook, Verdict};
use tensortap::{DumpConfig, DumpLevel, GoldenVerdict, PLATFORMS, RunConfig};

use common::{listed_scenes, smaller};

/// A configuration that dumps into a folder and uses the real device executable.
fn config(scene: &str, platform: &str, runtime: &str, out: &Path) -> RunConfig {
    let mut config = RunConfig::new(scene);
    config.registry = tensortap_cli::scenes();
    config.device_executable = Some(common::executable());
    config.device_memory = Some(2 << 30);
    config.platform = platform.into();
    config.runtime = Some(runtime.into());
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(out.into());
    smaller(config)
}

fn run(config: &RunConfig) -> Dump {
    judged(config).0
}

/// Runs a scene; returns its dump and the verdict of its golden.
fn judged(config: &RunConfig) -> (Dump, GoldenVerdict) {
    common::count_run();
    let report = tensortap::run(config).unwrap_or_else(|error| panic!("{}: {error}", config.scene));
    assert!(report.failure.is_none(), "{}", config.scene);
    (Dump::open(&report.dump.expect("dumped").dir).expect("a dump"), report.golden)
}

fn blame_by_golden(dump: &Dump, golden: &Dump) -> Blame {
    let rules = with_kernels_of(RuleBook::default(), dump.info());
    let options = BlameOptions { rules, ..BlameOptions::default() };
    Blame::of(dump, &Baseline::Golden(golden), &options).expect("readable")
}

fn blame_by_reference(dump: &Dump) -> Blame {
    let scene = tensortap_cli::scenes().find(&dump.info().scene).expect("a built-in scene");
    Blame::of(dump, &Baseline::Reference(scene), &BlameOptions::default()).expect("readable")
}

fn passes(blame: &Blame) -> bool {
    blame.verdict(VerdictOptions::default()).passes()
}

/// Whether the verdict also passes with `--strict`.
fn passes_strictly(blame: &Blame) -> bool {
    blame.verdict(VerdictOptions { strict: true, ..VerdictOptions::default() }).passes()
}

/// A platform and a runtime of the scene, in turn.
fn venue(scene: &str, turn: usize) -> (&'static str, &'static str) {
    let runtimes = tensortap::runtimes_of(tensortap_cli::scenes().find(scene).expect("built in"));
    (PLATFORMS[turn % PLATFORMS.len()].name(), runtimes[turn % runtimes.len()])
}

/// Describes the first tasks that are not `ok`.
fn complaints(blame: &Blame) -> Vec<String> {
    let tasks = blame.graph.tasks().iter().zip(&blame.findings).zip(&blame.compared_args);
    let wrong = tasks.filter(|((_, f), _)| f.label != Label::Ok);
    let words = wrong.map(|((t, f), compared)| {
        let outside: Vec<_> = compared
            .iter()
            .filter(|c| c.outcome.verdict != Verdict::Within)
            .map(|c| (c.stage.name(), c.arg_index, c.outcome.max_abs()))
            .collect();
        format!(
            "{:#x} {:?}: {} {:?} {:?} {outside:?}",
            t.task_id,
            t.kernel_names(),
            f.label.name(),
            f.race,
            f.reason
        )
    });
    words.take(8).collect()
}
