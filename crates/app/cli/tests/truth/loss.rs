//! Loss policies: losses are counted, and by default nothing is lost.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tensortap::{DiskGate, DumpCollect, DumpLevel, DumpPolicy, GoldenVerdict, RunConfig};

use crate::expected::{Content, Key, contents};
use crate::manifest::{Manifest, key};
use crate::{config, run};

const RUNTIME: &str = "tensormap_and_ringbuffer";
const MIB: u64 = 1 << 20;

/// A slow disk with limited space.
struct Disk {
    bytes: u64,
    pause: Duration,
}

impl DiskGate for Disk {
    fn before_records(&self) -> io::Result<()> {
        std::thread::sleep(self.pause);
        Ok(())
    }

    fn before_payload(&self, total_bytes: u64) -> io::Result<()> {
        if total_bytes > self.bytes { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

pub fn slow_disk(pause: Duration) -> Arc<dyn DiskGate> {
    Arc::new(Disk { bytes: u64::MAX, pause })
}

/// `tasks` tasks of a MiB each, through an arena of a MiB per thread.
fn narrow_stream(tasks: u64, out: &std::path::Path) -> RunConfig {
    let mut config = config("stream", DumpLevel::Full, out).param("tasks", tasks);
    config.blocks = Some(1);
    let dump = config.dump.as_mut().unwrap();
    (dump.arena_bytes, dump.dedup) = (MIB, false);
    config
}

/// Checks that every stored payload is right.
fn check_stored(manifest: &Manifest, all: &BTreeMap<Key, Content>) {
    for record in manifest.records().iter().filter(|r| r["payload"] == "stored") {
        let Some(Content::Tensor { bytes, .. }) = all.get(&key(record)) else { panic!("{record}") };
        assert!(manifest.payload(record) == bytes, "{record}");
    }
}

fn count_payloads(manifest: &Manifest, state: &str) -> u64 {
    manifest.records().iter().filter(|r| r["payload"] == state).count() as u64
}

#[test]
fn the_device_waits_for_a_slow_host_without_a_reported_hang() {
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = narrow_stream(3, folder.path());
        config.platform = platform.into();
        config.disk = Some(slow_disk(Duration::from_millis(700)));
        config.stall_timeout = Some(Duration::from_millis(350));
        let report = run(&config);
        assert_eq!(
            (report.golden, report.status()),
            (GoldenVerdict::Pass, "complete"),
            "{:?}",
            report.failure
        );
        let dump = report.dump.expect("dumped");
        assert_eq!((dump.counters.dropped_records, dump.counters.truncated_tensors), (0, 0));
        assert!(dump.held_up > Duration::from_millis(350), "it was held up for {:?}", dump.held_up);
        assert!(Manifest::read(&dump.dir).contents() == contents(&config, RUNTIME));
    }
}

#[test]
fn the_drop_policy_counts_exactly_what_is_missing() {
    const TASKS: u64 = 50;
    let all = tempfile::tempdir().expect("a folder");
    let asked = run(&narrow_stream(TASKS, all.path())).dump.expect("dumped").counters.entries;
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = narrow_stream(TASKS, folder.path());
        config.platform = platform.into();
        let dump = config.dump.as_mut().unwrap();
        (dump.policy, dump.buffers, dump.records) = (DumpPolicy::Drop, 2, 8);
        config.disk = Some(slow_disk(Duration::from_millis(30)));
        let report = run(&config);
        assert_eq!(report.golden, GoldenVerdict::Pass);
        let dump = report.dump.expect("dumped");
        let manifest = Manifest::read(&dump.dir);
        let payload_only = count_payloads(&manifest, "dropped");
        assert!(dump.counters.dropped_records > 0, "the host was too fast");
        assert_eq!(
            dump.counters.entries + dump.counters.dropped_records - payload_only,
            asked,
            "{:?}",
            dump.losses
        );
        assert_eq!(dump.losses.iter().map(|l| l.records).sum::<u64>(), dump.counters.dropped_records);
        assert_eq!(manifest.count("dropped_records"), dump.counters.dropped_records);
        check_stored(&manifest, &contents(&config, RUNTIME));
    }
}

#[test]
fn the_batch_policy_marks_exactly_what_was_overwritten() {
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config =
            config("stream", DumpLevel::Full, folder.path()).param("tasks", 40).param("bytes", 65_536);
        (config.platform, config.blocks) = (platform.into(), Some(1));
        let dump = config.dump.as_mut().unwrap();
        (dump.collect, dump.arena_bytes, dump.dedup) = (DumpCollect::Batch, MIB, false);
        let report = run(&config);
        let dump = report.dump.expect("dumped");
        let manifest = Manifest::read(&dump.dir);
        let all = contents(&config, RUNTIME);
        assert_eq!(manifest.records().len(), all.len(), "all metadata is kept");
        check_stored(&manifest, &all);
        // One scheduler records everything in order, so the newest payloads that fit in the arena remain.
        let tensors: Vec<_> = manifest.records().iter().filter(|r| r["kind"] == "tensor").collect();
        let kept = tensors.iter().rev().take_while(|r| r["payload"] == "stored").count();
        assert_eq!(kept as u64, MIB / 65_536, "of {}", tensors.len());
        let overwritten = count_payloads(&manifest, "overwritten");
        assert_eq!(overwritten + kept as u64, tensors.len() as u64);
        assert_eq!(
            (dump.counters.dropped_overwrite, manifest.count("dropped_overwrite")),
            (overwritten, overwritten)
        );
    }
}

#[test]
fn a_full_disk_ends_the_dump_and_not_the_run() {
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = narrow_stream(60, folder.path());
        config.platform = platform.into();
        config.disk = Some(Arc::new(Disk { bytes: 20 * MIB, pause: Duration::ZERO }));
        let report = run(&config);
        assert_eq!((report.golden, report.status()), (GoldenVerdict::Pass, "dump_failed"));
        let dump = report.dump.expect("dumped");
        assert!(dump.problem.is_some());
        let manifest = Manifest::read(&dump.dir);
        assert_eq!(manifest.json["status"], "dump_failed");
        let stored = count_payloads(&manifest, "stored");
        assert!((10..=20).contains(&stored), "{stored} payloads of a MiB were stored");
        check_stored(&manifest, &contents(&config, RUNTIME));
    }
}

#[test]
fn a_gigabyte_goes_through_a_small_arena_without_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("stream", DumpLevel::Full, folder.path()).param("tasks", 512);
    let dump = config.dump.as_mut().unwrap();
    (dump.arena_bytes, dump.dedup) = (64 * MIB, false);
    let report = run(&config);
    let dump = report.dump.expect("dumped");
    assert_eq!(
        (dump.counters.dropped_records, dump.counters.truncated_tensors, dump.counters.corrupt_records),
        (0, 0, 0)
    );
    assert_eq!((dump.counters.tensors, dump.counters.bytes_written), (1024, 1024 * MIB));
    let opened = tensortap::format::Dump::open(&dump.dir).expect("it opens");
    let verdict = tensortap::format::verify(&opened).expect("readable");
    assert!(verdict.is_ok(), "{:?}", verdict.problems);
}
