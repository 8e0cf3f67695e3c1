//! Full dumps: every tensor byte for byte, every scalar bit for bit.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use tensortap::{DumpLevel, GoldenVerdict, RunConfig};

use crate::common::smaller;
use crate::expected::{Content, Key, contents};
use crate::manifest::Manifest;
use crate::{config, listed_scenes, run, venues};

const RUNTIME: &str = "tensormap_and_ringbuffer";

/// Runs and compares the dump with the expected content.
fn check(config: &RunConfig, expected: &BTreeMap<Key, Content>) {
    let label =
        format!("{} on {}, {:?}, {}", config.scene, config.platform, config.runtime, config.device_mode);
    let report = run(config);
    assert_eq!(report.golden, GoldenVerdict::Pass, "{label}");
    assert_eq!(report.status(), "complete", "{label}: {:?}", report.dump);
    let dump = report.dump.expect("dumped");
    assert_eq!(
        (dump.counters.dropped_records, dump.counters.truncated_tensors, dump.counters.corrupt_records),
        (0, 0, 0),
        "{label}"
    );
    compare(&label, &dump.dir, expected);
}

fn compare(label: &str, dir: &Path, expected: &BTreeMap<Key, Content>) {
    let manifest = Manifest::read(dir);
    let captured = manifest.contents();
    for (key, content) in expected {
        match captured.get(key) {
            Some(found) => assert!(found == content, "{label}: {key:?} differs"),
            None => panic!("{label}: {key:?} was not captured"),
        }
    }
    assert_eq!(captured.len(), expected.len(), "{label}: too many arguments were captured");
    let scalars = expected.values().filter(|c| matches!(c, Content::Scalar { .. })).count();
    assert_eq!(manifest.count("total_tensors"), expected.len() as u64, "{label}");
    assert_eq!(manifest.count("scalars"), scalars as u64, "{label}");
    assert_eq!(manifest.json["status"], "complete", "{label}");
}

/// With one scheduler and with several, in turns: every venue and every scene has both. In one venue a scene
/// has its own size.
#[test]
fn every_scene_is_captured_byte_for_byte_with_one_and_several_schedulers() {
    for (turn, scene) in listed_scenes().into_iter().enumerate() {
        let venues = venues(scene);
        let mut expected = HashMap::new();
        for (number, venue) in venues.iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut config = config(scene, DumpLevel::Full, folder.path());
            venue.set(&mut config);
            let is_whole = number == turn % venues.len();
            if !is_whole {
                config = smaller(config);
            }
            if (number + number / 2 + turn) % 2 == 1 {
                (config.schedulers, config.blocks) = (3, Some(3));
            }
            // Runtimes without rings use the same task ids.
            let expected = expected
                .entry((is_whole, venue.runtime == RUNTIME))
                .or_insert_with(|| contents(&config, venue.runtime));
            check(&config, expected);
        }
    }
}

#[test]
fn zero_negative_transposed_stepped_and_empty_views_are_captured_by_content() {
    for venue in venues("odd_views") {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config("odd_views", DumpLevel::Full, folder.path());
        venue.set(&mut config);
        check(&config, &contents(&config, venue.runtime));
    }
}

#[test]
fn without_deduplication_every_payload_is_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("tiny_llm", DumpLevel::Full, folder.path());
    config.dump.as_mut().unwrap().dedup = false;
    check(&config, &contents(&config, RUNTIME));
}

#[test]
fn an_arena_smaller_than_a_tensor_loses_nothing() {
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config("stream", DumpLevel::Full, folder.path()).param("tasks", 40);
        config.platform = platform.into();
        let dump = config.dump.as_mut().unwrap();
        (dump.arena_bytes, dump.buffers, dump.records, dump.writers) = (256 << 10, 2, 4, 3);
        check(&config, &contents(&config, RUNTIME));
    }
}

#[test]
fn the_vector_example_has_thirteen_tensors_and_five_scalars() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(&config("vector_example", DumpLevel::Full, folder.path()));
    let dump = report.dump.expect("dumped");
    assert_eq!((dump.counters.records, dump.counters.tensors, dump.counters.scalars), (18, 13, 5));
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
