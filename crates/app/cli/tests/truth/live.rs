//! `--live`: a run that agrees with its golden stores no payload; of one that does not, the differing tasks
//! are stored.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tensortap::scene::FaultKind;
use tensortap::{DumpLevel, LiveConfig, LiveReport, RunConfig};

use crate::manifest::{Manifest, hex, key};
use crate::{config, run};

/// `mul` of `vector_example`, and the `add` that reads its output.
const MUL: u64 = 0x1_0000_0002;
const LAST_ADD: u64 = 0x1_0000_0003;

/// A golden from the other platform.
fn golden(scene: &str, level: DumpLevel, folder: &Path) -> PathBuf {
    let mut config = config(scene, level, folder);
    config.platform = "a5sim".into();
    config.out = Some(folder.join("golden"));
    run(&config).dump.expect("dumped").dir
}

fn live(scene: &str, golden: &Path, folder: &Path) -> RunConfig {
    let mut config = config(scene, DumpLevel::Full, folder);
    config.dump.as_mut().unwrap().live = Some(LiveConfig::new(golden));
    config
}

fn compared(config: &RunConfig) -> (Manifest, LiveReport) {
    let dump = run(config).dump.expect("dumped");
    (Manifest::read(&dump.dir), dump.live.expect("compared"))
}

/// Tasks with all tensors stored. A task is never stored only in part.
fn stored_tasks(manifest: &Manifest) -> BTreeSet<u64> {
    let tensors = || manifest.records().iter().filter(|r| r["kind"] == "tensor");
    let of = |state: &str| -> BTreeSet<u64> {
        tensors().filter(|r| r["payload"] == state).map(|r| hex(&r["task_id"])).collect()
    };
    assert!(of("stored").is_disjoint(&of("none")), "a task is stored only in part");
    of("stored")
}

#[test]
fn a_run_that_agrees_keeps_every_record_and_no_payload() {
    for level in [DumpLevel::Full, DumpLevel::Hash] {
        let folder = tempfile::tempdir().expect("a folder");
        let golden = golden("paged_attention", level, folder.path());
        let (manifest, report) = compared(&live("paged_attention", &golden, folder.path()));
        assert!(report.agrees() && report.judged > 0, "{report:?}");
        let expected = Manifest::read(&golden);
        let hashes = |manifest: &Manifest| -> BTreeSet<(String, String)> {
            manifest.records().iter().map(|r| (format!("{:?}", key(r)), r["hash"].to_string())).collect()
        };
        assert_eq!(hashes(&manifest), hashes(&expected));
        assert_eq!((stored_tasks(&manifest).len(), manifest.json["bin_file"].as_str()), (0, None));
    }
}

#[test]
fn differing_tasks_are_stored_completely_and_are_right() {
    for level in [DumpLevel::Full, DumpLevel::Hash] {
        let folder = tempfile::tempdir().expect("a folder");
        let golden = golden("vector_example", level, folder.path());
        let mut config = live("vector_example", &golden, folder.path());
        config.inject_fault = Some(("mul".into(), FaultKind::Sign));
        let (manifest, report) = compared(&config);
        let [wrong] = report.wrong_here.as_slice() else { panic!("{report:?}") };
        assert_eq!((wrong.task_id, wrong.kernels.as_slice()), (MUL, ["mul".to_string()].as_slice()));
        assert_eq!((report.differing, report.judged), (2, 5));
        assert_eq!(stored_tasks(&manifest), BTreeSet::from([MUL, LAST_ADD]));

        let mut plain = config.clone();
        plain.dump.as_mut().unwrap().live = None;
        plain.out = Some(folder.path().join("plain"));
        let plain = Manifest::read(&run(&plain).dump.expect("dumped").dir);
        let stored = |r: &&serde_json::Value| r["kind"] == "tensor" && r["payload"] == "stored";
        for record in manifest.records().iter().filter(stored) {
            let same = plain.records().iter().find(|r| key(r) == key(record)).expect("recorded");
            assert!(manifest.payload(record) == plain.payload(same), "{record}");
        }
    }
}

#[test]
fn stored_payloads_are_deduplicated_as_in_a_plain_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = golden("paged_attention", DumpLevel::Full, folder.path());
    let mut config = live("paged_attention", &golden, folder.path());
    config.inject_fault = Some(("softmax".into(), FaultKind::Last));
    let live = run(&config).dump.expect("dumped");
    config.dump.as_mut().unwrap().live = None;
    config.out = Some(folder.path().join("plain"));
    let plain = run(&config).dump.expect("dumped");
    assert!(
        live.counters.bytes_written > 0 && live.counters.bytes_written <= plain.counters.bytes_written,
        "{live:?} {plain:?}"
    );
    let released = live.live.as_ref().expect("compared").released_bytes;
    assert!(live.counters.deduplicated_bytes > 0 && released > 0, "{live:?}");
    assert_eq!(
        live.counters.bytes_written + live.counters.deduplicated_bytes + released,
        live.counters.bytes_captured
    );

    let (kept, all) = (Manifest::read(&live.dir), Manifest::read(&plain.dir));
    assert_eq!(kept.json["deduplicated_bytes"], live.counters.deduplicated_bytes);
    let stored = |r: &&serde_json::Value| r["kind"] == "tensor" && r["payload"] == "stored";
    for record in kept.records().iter().filter(stored) {
        let same = all.records().iter().find(|r| key(r) == key(record)).expect("recorded");
        assert!(kept.payload(record) == all.payload(same), "{record}");
    }
}

#[test]
fn tasks_beyond_the_waiting_limit_are_stored_without_a_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = golden("vector_example", DumpLevel::Full, folder.path());
    let mut config = live("vector_example", &golden, folder.path());
    let dump = config.dump.as_mut().unwrap();
    dump.live.as_mut().unwrap().scratch_bytes = 0;
    // With this few records at a time, no task arrives whole, so each must wait for its rest.
    dump.records = 2;
    let (manifest, report) = compared(&config);
    assert!(report.unjudged > 0 && !report.agrees(), "{report:?}");
    let kept = stored_tasks(&manifest);
    assert_eq!((kept.len() as u64, report.judged), (report.unjudged, 5 - report.unjudged));
}

#[test]
fn tasks_missing_from_the_golden_are_stored_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = config("vector_example", DumpLevel::Full, folder.path());
    first.dump.as_mut().unwrap().tasks = vec![(MUL, MUL)];
    first.out = Some(folder.path().join("golden"));
    let golden = run(&first).dump.expect("dumped").dir;
    let (manifest, report) = compared(&live("vector_example", &golden, folder.path()));
    assert_eq!((report.judged, report.of, report.unmatched, report.unjudged), (1, 1, 4, 0));
    assert!(!report.agrees() && stored_tasks(&manifest).len() == 4, "{report:?}");
}

#[test]
fn disk_use_is_limited_to_waiting_tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let sized = |config: RunConfig| config.param("tasks", 300).param("bytes", 262_144);
    let mut first = sized(config("stream", DumpLevel::Hash, folder.path()));
    first.out = Some(folder.path().join("golden"));
    let golden = run(&first).dump.expect("dumped").dir;
    let mut config = sized(live("stream", &golden, folder.path()));
    config.dump.as_mut().unwrap().live.as_mut().unwrap().scratch_bytes = 1 << 30;
    let (_, report) = compared(&config);
    assert!(report.agrees() && report.released_bytes == 2 * 300 * 262_144, "{report:?}");
    let bytes: u64 = std::fs::read_dir(folder.path().join("dump"))
        .expect("readable")
        .map(|entry| entry.expect("readable").metadata().expect("readable").blocks() * 512)
        .sum();
    assert!(bytes < 2 << 20, "{bytes} bytes on disk");
}

#[test]
fn the_run_can_end_at_the_first_wrong_task() {
    let folder = tempfile::tempdir().expect("a folder");
    const TASKS: u64 = 20_000;
    let sized = |config: RunConfig| config.param("tasks", TASKS).param("bytes", 4096);
    let mut first = sized(config("stream", DumpLevel::Hash, folder.path()));
    first.out = Some(folder.path().join("golden"));
    let golden = run(&first).dump.expect("dumped").dir;
    let mut config = sized(live("stream", &golden, folder.path()));
    config.inject_fault = Some(("advance".into(), FaultKind::Last));
    let dump = config.dump.as_mut().unwrap();
    dump.live.as_mut().unwrap().stop_at_first = true;
    // The device is never further ahead of the comparison than the size of its arena.
    dump.arena_bytes = 1 << 20;
    let report = run(&config);
    let live = report.dump.as_ref().expect("dumped").live.clone().expect("compared");
    assert!(live.stop_found && live.stopped && !live.wrong_here.is_empty(), "{live:?}");
    assert_eq!(report.status(), "interrupted");
    assert!(report.tasks < TASKS, "{} tasks ran", report.tasks);
}

#[test]
fn a_golden_of_another_scene_is_rejected_before_anything_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = golden("vector_example", DumpLevel::Hash, folder.path());
    let mut other_runtime = live("vector_example", &golden, folder.path());
    other_runtime.runtime = Some("host_build_graph".into());
    for (config, reason) in [
        (live("bgemm", &golden, folder.path()), "its scene is `vector_example`"),
        (live("vector_example", &golden, folder.path()).param("n", 64), "different parameters"),
        (other_runtime, "its runtime is `tensormap_and_ringbuffer`"),
        (live("vector_example", &folder.path().join("nothing"), folder.path()), "nothing"),
    ] {
        let refusal = tensortap::run(&config).expect_err(reason).to_string();
        assert!(refusal.contains(reason), "{refusal}");
        assert!(!folder.path().join("dump").exists(), "{reason}");
    }
}
