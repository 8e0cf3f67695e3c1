//! Full dumps: every tensor byte for byte, every scalar bit for bit.

use std::path::Path;

use tensortap::{DumpLevel, Golden};

use crate::expected::{Content, contents};
use crate::manifest::Manifest;
use crate::{config, everywhere, listed_scenes, run};

fn check(
    scene: &str,
    platform: &str,
    runtime: &str,
    mode: tensortap::DeviceMode,
    tweak: impl Fn(&mut tensortap::RunConfig),
) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(scene, DumpLevel::Full, folder.path());
    config.platform = platform.into();
    config.runtime = Some(runtime.into());
    config.device_mode = mode;
    tweak(&mut config);
    let label = format!("{scene} on {platform}, {runtime}, {mode}");
    let report = run(&config);
    assert_eq!(report.golden, Golden::Pass, "{label}");
    assert_eq!(report.status(), "complete", "{label}: {:?}", report.dump);
    let dump = report.dump.expect("dumped");
    assert_eq!((dump.dropped_records, dump.truncated_tensors, dump.corrupt_records), (0, 0, 0), "{label}");
    compare(&label, &dump.dir, &contents(&config, runtime));
}

fn compare(label: &str, dir: &Path, expected: &std::collections::BTreeMap<crate::expected::Key, Content>) {
    let manifest = Manifest::read(dir);
    let captured = manifest.contents();
    for (key, content) in expected {
        match captured.get(key) {
            Some(found) => assert!(found == content, "{label}: {key:?} differs"),
            None => panic!("{label}: {key:?} was not captured"),
        }
    }
    assert_eq!(captured.len(), expected.len(), "{label}: more was captured than there is");
    let scalars = expected.values().filter(|c| matches!(c, Content::Scalar { .. })).count();
    assert_eq!(manifest.count("total_tensors"), expected.len() as u64, "{label}");
    assert_eq!(manifest.count("scalars"), scalars as u64, "{label}");
    assert_eq!(manifest.json["status"], "complete", "{label}");
}

#[test]
fn every_scene_is_captured_byte_for_byte_everywhere() {
    for scene in listed_scenes() {
        for (platform, runtime, mode) in everywhere(scene) {
            check(scene, platform, runtime, mode, |_| {});
        }
    }
}

#[test]
fn zero_negative_transposed_stepped_and_empty_views_are_captured_as_their_content() {
    for (platform, runtime, mode) in everywhere("odd_views") {
        check("odd_views", platform, runtime, mode, |_| {});
    }
}

#[test]
fn several_schedulers_and_blocks_capture_the_same() {
    for scene in listed_scenes() {
        for (platform, runtime, mode) in everywhere(scene) {
            check(scene, platform, runtime, mode, |config| (config.schedulers, config.blocks) = (3, Some(3)));
        }
    }
}

#[test]
fn without_deduplication_every_payload_is_stored() {
    check("tiny_llm", "a2a3sim", "tensormap_and_ringbuffer", tensortap::DeviceMode::Process, |config| {
        config.dump.as_mut().unwrap().dedup = false;
    });
}

#[test]
fn an_arena_smaller_than_a_tensor_loses_nothing() {
    for platform in ["a2a3sim", "a5sim"] {
        check("stream", platform, "tensormap_and_ringbuffer", tensortap::DeviceMode::Process, |config| {
            let dump = config.dump.as_mut().unwrap();
            (dump.arena_bytes, dump.buffers, dump.records) = (256 << 10, 2, 4);
            *config = config.clone().param("tasks", 40);
        });
    }
}

#[test]
fn the_vector_example_has_thirteen_tensors_and_five_scalars() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(&config("vector_example", DumpLevel::Full, folder.path()));
    let dump = report.dump.expect("dumped");
    assert_eq!((dump.records, dump.tensors, dump.scalars), (18, 13, 5));
    assert_eq!(dump.problem, None);
    let manifest = Manifest::read(&dump.dir);
    let counts = [
        "total_tensors",
        "before_dispatch",
        "after_completion",
        "input_tensors",
        "output_tensors",
        "scalars",
    ];
    assert_eq!(counts.map(|key| manifest.count(key)), [18, 13, 5, 13, 5, 5]);
    assert_eq!(manifest.count("deduplicated_bytes"), 6 * 65_536);
}
