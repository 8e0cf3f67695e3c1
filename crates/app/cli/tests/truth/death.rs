//! Everything captured before a failure is on disk and opens.

use std::time::Duration;

use serde_json::Value;
use tensortap::{DumpLevel, PLATFORMS, RunConfig};

use crate::expected::{Content, Key, contents};
use crate::manifest::{Manifest, hex, key};
use crate::{config, run};

const RUNTIMES: [&str; 3] = ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"];

fn everywhere(scene: &str, out: &std::path::Path) -> Vec<RunConfig> {
    let mut all = Vec::new();
    for platform in PLATFORMS {
        for runtime in RUNTIMES {
            let mut config = config(scene, DumpLevel::Full, &out.join(platform.name()).join(runtime));
            (config.platform, config.runtime) = (platform.name().into(), Some(runtime.into()));
            config.stall_timeout = Some(Duration::from_millis(300));
            all.push(config);
        }
    }
    all
}

fn floats(manifest: &Manifest, record: &Value) -> Vec<f32> {
    manifest.payload(record).chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Records of a task, by stage.
fn of_task<'a>(manifest: &'a Manifest, task: u64, stage: &str) -> Vec<&'a Value> {
    manifest.records().iter().filter(|r| hex(&r["task_id"]) == task && r["stage"] == stage).collect()
}

#[test]
fn a_hang_leaves_the_partial_output_marked_as_in_flight() {
    let folder = tempfile::tempdir().expect("a folder");
    for config in everywhere("hang", folder.path()) {
        let report = run(&config);
        let failure = report.failure.expect("it hangs");
        let manifest = Manifest::read(&report.dump.expect("dumped").dir);
        assert_eq!(manifest.json["status"], "stalled");
        let stuck = failure.task.expect("named").0;
        let in_flight = manifest.json["in_flight"].as_array().expect("in_flight[]");
        assert_eq!(in_flight.iter().map(|t| hex(&t["task_id"])).collect::<Vec<_>>(), [stuck]);
        let outputs = of_task(&manifest, stuck, "after_completion");
        let [output] = outputs[..] else { panic!("one output: {outputs:?}") };
        assert_eq!(output["in_flight"], true);
        // Rows hold 1, 2, 3, 4; the fifth task should write 5 and stopped halfway.
        let values = floats(&manifest, output);
        assert_eq!(values.len(), 1024);
        assert!(
            values[..512].iter().all(|&v| v == 5.0) && values[512..].iter().all(|&v| v == 0.0),
            "{values:?}"
        );
    }
}

#[test]
fn a_crash_leaves_every_input_and_the_partial_output() {
    let folder = tempfile::tempdir().expect("a folder");
    for scene in ["crash_segv", "crash_abort", "crash_stack"] {
        for config in everywhere(scene, &folder.path().join(scene)) {
            let report = run(&config);
            let failure = report.failure.expect("it crashes");
            let manifest = Manifest::read(&report.dump.expect("dumped").dir);
            assert_eq!(manifest.json["status"], "crashed");
            let crashed = failure.task.expect("named").0;
            let inputs = of_task(&manifest, crashed, "before_dispatch");
            assert!(inputs.iter().any(|r| floats(&manifest, r) == vec![4.0; 1024]), "{scene}: {inputs:?}");
            let outputs = of_task(&manifest, crashed, "after_completion");
            assert!(
                outputs.iter().all(|r| r["in_flight"] == true) && !outputs.is_empty(),
                "{scene}: {outputs:?}"
            );
            check_earlier(&manifest, &config, crashed);
        }
    }
}

/// Checks that everything before the crash was captured: rows of ones, twos, threes and fours.
fn check_earlier(manifest: &Manifest, config: &RunConfig, crashed: u64) {
    let outputs: Vec<f32> = manifest
        .records()
        .iter()
        .filter(|r| r["stage"] == "after_completion" && hex(&r["task_id"]) != crashed)
        .map(|r| {
            let values = floats(manifest, r);
            assert!(values.iter().all(|v| *v == values[0]), "{}: {r}", config.scene);
            values[0]
        })
        .collect();
    let mut sorted = outputs.clone();
    sorted.sort_by(f32::total_cmp);
    assert_eq!(sorted, [1.0, 2.0, 3.0, 4.0], "{}", config.scene);
}

#[test]
fn a_dump_after_a_failed_one_contains_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = config("crash_segv", DumpLevel::Full, &folder.path().join("first"));
    first.stall_timeout = Some(Duration::from_secs(5));
    assert!(run(&first).failure.is_some());
    for mode in [tensortap::DeviceMode::Process, tensortap::DeviceMode::Thread] {
        let mut second = config("vector_example", DumpLevel::Full, &folder.path().join(mode.name()));
        second.device_mode = mode;
        let dump = run(&second).dump.expect("dumped");
        assert_eq!(
            (
                dump.counters.records,
                dump.counters.dropped_records,
                dump.counters.corrupt_records,
                dump.losses.len()
            ),
            (18, 0, 0, 0)
        );
        let manifest = Manifest::read(&dump.dir);
        let all = contents(&second, "tensormap_and_ringbuffer");
        assert!(manifest.contents() == all);
        let keys: Vec<Key> = manifest.records().iter().map(key).collect();
        assert_eq!(keys.len(), all.values().filter(|c| !matches!(c, Content::Scalar { .. })).count() + 5);
    }
}
