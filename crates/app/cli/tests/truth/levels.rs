//! Levels, marks and filters: exactly the requested arguments are captured.

use std::collections::BTreeSet;

use tensortap::{DumpLevel, DumpStage, RunConfig};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::common::smaller;
use crate::expected::{Content, Key, contents};
use crate::manifest::{Manifest, key};
use crate::{config, run};

const RUNTIME: &str = "tensormap_and_ringbuffer";

/// Runs; returns the manifest and the expected content of a full dump.
fn dump(config: &RunConfig) -> (Manifest, std::collections::BTreeMap<Key, Content>) {
    let report = run(config);
    (Manifest::read(&report.dump.expect("dumped").dir), contents(config, RUNTIME))
}

fn captured_keys(manifest: &Manifest) -> BTreeSet<Key> {
    manifest.records().iter().map(key).collect()
}

#[test]
fn without_a_dump_nothing_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("vector_example", DumpLevel::Full, folder.path());
    config.dump = None;
    assert!(run(&config).dump.is_none());
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_scene_without_marks_gives_an_empty_manifest_at_level_marked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manifest, _) = dump(&config("vector_example", DumpLevel::Marked, folder.path()));
    assert_eq!((manifest.records().len(), manifest.count("total_tensors")), (0, 0));
    assert_eq!(manifest.count("dump_level"), 1);
}

#[test]
fn only_marked_arguments_are_captured_and_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manifest, all) = dump(&config("tiny_llm", DumpLevel::Marked, folder.path()));
    let captured = manifest.contents();
    assert!(!captured.is_empty() && captured.len() < all.len() / 10, "{} of {}", captured.len(), all.len());
    for (key, content) in captured {
        assert!(all.get(&key) == Some(&content), "{key:?}");
    }
}

#[test]
fn level_meta_has_all_metadata_and_only_marked_payloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let marked_folder = tempfile::tempdir().expect("a folder");
    let (manifest, all) = dump(&config("tiny_llm", DumpLevel::Meta, folder.path()));
    let (marked, _) = dump(&config("tiny_llm", DumpLevel::Marked, marked_folder.path()));
    assert_eq!(captured_keys(&manifest), all.keys().cloned().collect());
    let marked_tensors: BTreeSet<Key> =
        marked.records().iter().filter(|r| r["kind"] == "tensor").map(key).collect();
    for record in manifest.records().iter().filter(|r| r["kind"] == "tensor") {
        let stored = record["payload"] == "stored";
        assert_eq!(stored, marked_tensors.contains(&key(record)), "{record}");
        if stored {
            let Some(Content::Tensor { bytes, .. }) = all.get(&key(record)) else { panic!("{record}") };
            assert!(manifest.payload(record) == bytes, "{record}");
        }
    }
}

/// An independent version of the specified hash.
fn tree_hash(bytes: &[u8]) -> u128 {
    if bytes.len() <= 4096 {
        return xxh3_128(bytes);
    }
    let mut outer = Xxh3::with_seed(bytes.len() as u64);
    bytes.chunks(4096).for_each(|leaf| outer.update(&xxh3_128(leaf).to_le_bytes()));
    outer.digest128()
}

#[test]
fn level_hash_has_all_hashes_and_no_payload() {
    for (scene, level) in
        [("tiny_llm", DumpLevel::Hash), ("bgemm", DumpLevel::Hash), ("stream", DumpLevel::Full)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let (manifest, all) = dump(&smaller(config(scene, level, folder.path())));
        assert_eq!(captured_keys(&manifest), all.keys().cloned().collect());
        for record in manifest.records().iter().filter(|r| r["kind"] == "tensor") {
            let Some(Content::Tensor { bytes, .. }) = all.get(&key(record)) else { panic!("{record}") };
            assert_eq!(record["hash"], format!("{:#034x}", tree_hash(bytes)), "{record}");
        }
        assert_eq!(folder.path().join("dump/tensor_dump.bin").exists(), level == DumpLevel::Full, "{scene}");
    }
}

/// Runs with a filter: exactly what `keep` accepts must be captured, and the rest counted.
fn filtered(scene: &str, set: impl Fn(&mut RunConfig), keep: impl Fn(&Key) -> bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(scene, DumpLevel::Full, folder.path());
    set(&mut config);
    let report = run(&config).dump.expect("dumped");
    let all = contents(&config, RUNTIME);
    let expected: BTreeSet<Key> = all.keys().filter(|k| keep(k)).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < all.len(), "the filter has an effect");
    let manifest = Manifest::read(&report.dir);
    assert_eq!(captured_keys(&manifest), expected);
    for (key, content) in manifest.contents() {
        assert!(all.get(&key) == Some(&content), "{key:?}");
    }
    assert_eq!(
        report.counters.records + report.counters.filtered_records,
        all.len() as u64,
        "filtered records are counted"
    );
}

#[test]
fn filters_by_task_argument_and_stage_keep_exactly_the_selected_records() {
    let in_ranges = |id: u64| id == 0 || (0x1_0000_0001..=0x1_0000_0002).contains(&id);
    filtered(
        "vector_example",
        |c| c.dump.as_mut().unwrap().tasks = vec![(0, 0), (0x1_0000_0001, 0x1_0000_0002)],
        |k| in_ranges(k.task_id),
    );
    filtered(
        "vector_example",
        |c| c.dump.as_mut().unwrap().args = vec![0, 2],
        |k| [0, 2].contains(&k.arg_index),
    );
    filtered("bgemm", |c| c.dump.as_mut().unwrap().stage = Some(DumpStage::AfterCompletion), |k| !k.before);
}

#[test]
fn kernel_filters_accept_names_and_numbers() {
    for name in ["mul", "2"] {
        filtered(
            "vector_example",
            |c| c.dump.as_mut().unwrap().funcs = vec![name.into()],
            |k| k.task_id == 0x1_0000_0002,
        );
    }
}

#[test]
fn the_first_tasks_are_kept_completely() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("tiny_llm", DumpLevel::Full, folder.path());
    config.dump.as_mut().unwrap().first = Some(10);
    let (manifest, all) = dump(&config);
    let tasks: BTreeSet<u64> = captured_keys(&manifest).iter().map(|k| k.task_id).collect();
    assert_eq!(tasks.len(), 10);
    let whole: BTreeSet<Key> = all.keys().filter(|k| tasks.contains(&k.task_id)).cloned().collect();
    assert_eq!(captured_keys(&manifest), whole);
}

#[test]
fn the_last_tasks_are_kept_and_disk_use_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config =
        config("stream", DumpLevel::Full, folder.path()).param("tasks", 300).param("bytes", 262_144);
    config.dump.as_mut().unwrap().last = Some(5);
    let (manifest, all) = dump(&config);
    let kept: BTreeSet<u64> = captured_keys(&manifest).iter().map(|k| k.task_id).collect();
    assert_eq!(kept.len(), 5);
    // Two chains run in parallel at their own speed, so only each chain has a newest task.
    let every: BTreeSet<u64> = all.keys().map(|k| k.task_id).collect();
    for chain in [0, 1] {
        let of_chain =
            |ids: &BTreeSet<u64>| ids.iter().copied().filter(|id| id % 2 == chain).collect::<Vec<_>>();
        let (kept, every) = (of_chain(&kept), of_chain(&every));
        assert!(every.ends_with(&kept), "{kept:?} are not the newest of chain {chain}");
    }
    for (key, content) in manifest.contents() {
        assert!(all.get(&key) == Some(&content), "{key:?}");
    }
    let used: u64 = std::fs::read_dir(folder.path().join("dump"))
        .expect("readable")
        .map(|e| {
            std::os::unix::fs::MetadataExt::blocks(&e.expect("readable").metadata().expect("readable")) * 512
        })
        .sum();
    assert!(used < 40 * 262_144, "{used} bytes on disk for 5 tasks");
}
