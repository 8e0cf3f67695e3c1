//! Compares outputs assembled from a dump with what the host read back from the device.

use tensortap::analysis::diff::DiffOptions;
use tensortap::analysis::outputs::{ExpectedOutput, OutputDiff, diff_outputs};
use tensortap::format::Dump;
use tensortap::judge::{Profile, RuleBook, Verdict};
use tensortap::scene::{FaultKind, HostTensor};
use tensortap::{PLATFORMS, RunConfig, RunReport, diff_scene_golden};

use crate::{config, listed_scenes, venue};

fn run(config: &RunConfig) -> (RunReport, Dump) {
    crate::common::count_run();
    let report = tensortap::run(config).unwrap_or_else(|error| panic!("{}: {error}", config.scene));
    let dump = Dump::open(&report.dump.as_ref().expect("dumped").dir).expect("a dump");
    (report, dump)
}

/// Compares every output assembled from the dump with the bytes that the host read from device memory.
fn against_device_memory(dump: &Dump, results: &[HostTensor]) -> OutputDiff {
    let args = tensortap_cli::scenes().find(&dump.info().scene).expect("built in");
    let before = args.host_args(&tensortap::resolve(&params_of(dump)).expect("as it ran").params);
    let expected: Vec<ExpectedOutput<'_>> = results
        .iter()
        .map(|result| ExpectedOutput {
            name: &result.name,
            dtype: result.dtype,
            shape: &result.shape,
            golden: &result.bytes,
            initial: before.0.iter().find(|t| t.name == result.name).map(|t| t.bytes.as_slice()),
            tolerance: None,
        })
        .collect();
    let rules = RuleBook { profile: Profile::BitExact, ..RuleBook::default() };
    diff_outputs(dump, &expected, &DiffOptions { rules, ..DiffOptions::default() }).expect("readable")
}

fn params_of(dump: &Dump) -> RunConfig {
    let info = dump.info();
    let with = |config: RunConfig, (name, value): (&String, &serde_json::Value)| {
        config.param(name, value.as_str().expect("parameters are text"))
    };
    let mut config = RunConfig::new(&info.scene);
    config.registry = tensortap_cli::scenes();
    info.params.iter().fold(config, with)
}

fn check(config: &RunConfig, is_raced: bool) -> Result<(), String> {
    let (report, dump) = run(config);
    let memory = against_device_memory(&dump, &report.results);
    let is_same = memory.passes() && memory.rows.len() == report.results.len();
    // If tasks run too early, the last writer is not known.
    if !is_raced && !is_same {
        return Err(format!("the bytes differ from device memory: {:?}", memory.rows));
    }
    let golden = diff_scene_golden(&dump, &tensortap_cli::scenes(), &DiffOptions::default())
        .map_err(|error| error.to_string())?;
    if golden.rows.len() != report.outputs.len() || golden.rows.is_empty() {
        return Err(format!("{} of {} outputs", golden.rows.len(), report.outputs.len()));
    }
    for (row, output) in golden.rows.iter().zip(&report.outputs) {
        let passes = row.outcome.verdict == Verdict::Within;
        if !is_raced && (row.name.as_str(), passes) != (output.name.as_str(), output.passed()) {
            return Err(format!("`{}` has another verdict than in the run: {row:?}", output.name));
        }
        if row.outcome.verdict == Verdict::Outside && row.worst_writer.is_none() {
            return Err(format!("the worst element of `{}` has no writer", row.name));
        }
    }
    Ok(())
}

#[test]
fn assembled_outputs_equal_device_memory() {
    for scene in listed_scenes().into_iter().chain(["odd_views"]) {
        for (turn, platform) in PLATFORMS.iter().enumerate().cycle().take(3) {
            let folder = tempfile::tempdir().expect("a folder");
            let runtime = venue(scene, turn).1;
            let mut config = config(scene, platform.name(), runtime, &folder.path().join("dump"));
            config.schedulers = 2;
            check(&config, false).unwrap_or_else(|problem| panic!("{scene} on {runtime}: {problem}"));
        }
    }
}

#[test]
fn dump_and_run_agree_about_a_fault_in_every_kernel() {
    let mut problems = Vec::new();
    let mut turn = 0;
    for scene in listed_scenes() {
        let kernels = tensortap_cli::scenes().find(scene).expect("listed").kernels();
        for kernel in kernels.iter().filter(|kernel| !kernel.faults.is_empty()) {
            turn += 1;
            let kind = kernel.faults[turn % kernel.faults.len()];
            let folder = tempfile::tempdir().expect("a folder");
            let (platform, runtime) = venue(scene, turn);
            let mut config = config(scene, platform, runtime, &folder.path().join("dump"));
            config.inject_fault = Some((kernel.name.into(), kind));
            if let Err(problem) = check(&config, kind == FaultKind::Race) {
                problems.push(format!("{scene} on {platform}, {runtime}, {}={kind}: {problem}", kernel.name));
            }
        }
    }
    assert!(turn > 0 && problems.is_empty(), "{}", problems.join("\n"));
}

fn verdicts(config: &RunConfig) -> Vec<(Verdict, String)> {
    let (_, dump) = run(config);
    let diff = diff_scene_golden(&dump, &tensortap_cli::scenes(), &DiffOptions::default()).expect("readable");
    assert!(!diff.passes());
    diff.rows.iter().map(|r| (r.outcome.verdict, r.outcome.reason().unwrap_or_default().into())).collect()
}

#[test]
fn outputs_that_were_not_captured_are_unknown_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = |scene: &str, name: &str| {
        config(scene, venue(scene, 0).0, venue(scene, 0).1, &folder.path().join(name))
    };
    // The cache is filled before the run, and the dump discarded what older tasks wrote into it.
    let mut last = new("tiny_llm", "last");
    last.dump.as_mut().expect("dumped").last = Some(100);
    let found = verdicts(&last);
    assert!(
        found.iter().all(|(verdict, why)| *verdict == Verdict::Unknown && why.contains("removed")),
        "{found:?}"
    );
    // Only half of the work was captured, so the outputs have no writers.
    let mut func = new("vector_example", "func");
    func.dump.as_mut().expect("dumped").funcs = vec!["mul".into()];
    let found = verdicts(&func);
    assert_eq!(found[0].0, Verdict::Unknown);
    assert!(found[0].1.contains("no captured task wrote 16384 of its 16384 elements"), "{found:?}");
    // The output is wrong, but a later write may be missing.
    let mut wrong = new("vector_example", "wrong");
    wrong.inject_fault = Some(("add".into(), FaultKind::Sign));
    wrong.dump.as_mut().expect("dumped").funcs = vec!["add".into()];
    let found = verdicts(&wrong);
    assert!(
        found[0].0 == Verdict::Unknown && found[0].1.contains("later writes may be missing"),
        "{found:?}"
    );
}
