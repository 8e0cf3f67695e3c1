//! `--dump-last`: only the newest tasks stay, and disk use stays bounded by them.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

use crate::common::*;
use tensortap_abi::Role;
use tensortap_format::{
    Dump, DumpWriter, FormatError, IndexRecord, Payload, Record, Status, Tail, WriterOptions, repair, verify,
};

const KEEP: u64 = 8;

fn scribe(dir: &Path, sync: bool) -> TestWriter {
    let options = WriterOptions { keep_last_tasks: Some(KEEP), sync };
    TestWriter::over(DumpWriter::create_with(dir, &info(), options).unwrap())
}

fn disk_bytes(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().flatten().map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

fn tasks_in(dir: &Path) -> BTreeSet<u64> {
    Dump::open(dir).unwrap().records().map(|r| r.unwrap().task_id).collect()
}

fn assert_whole(dir: &Path) {
    let dump = Dump::open(dir).unwrap();
    let verdict = verify(&dump).unwrap();
    assert!(verdict.is_ok(), "{:?}", verdict.problems);
    assert_eq!((dump.gaps(), verdict.unverifiable), (&[][..], 0));
}

#[test]
fn exactly_the_newest_tasks_stay_and_disk_use_is_bounded_by_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let payload = 70_000;
    let mut most = 0;
    for task in 0..500 {
        scribe.task(u32::try_from(task % 3).unwrap(), task, payload);
        scribe.writer.free_before_window().unwrap();
        most = most.max(disk_bytes(dir.path()));
    }
    // Each task stores two payloads of 18 pages. At most 16 tasks accumulate beyond the window.
    let bound = (KEEP + 16 + 1) * 2 * 18 * 4096 + (256 << 10);
    assert!(most <= bound, "{most} of {bound} bytes");
    assert!(most > KEEP * 2 * 18 * 4096);
    scribe.finish(Status::Complete);
    assert_eq!(tasks_in(dir.path()), (492..500).collect());
    assert_whole(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.tail(), dump.len(), dump.tasks().unwrap().len()), (Tail::Closed, 24, 8));
    assert_eq!(manifest(dir.path())["total_tensors"], 24);
    let least = disk_bytes(dir.path());
    assert!(least <= KEEP * 2 * 18 * 4096 + (128 << 10), "{least}");
}

#[test]
fn late_records_of_removed_tasks_do_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    for task in 0..100 {
        scribe.task(0, task, 100);
        scribe.writer.free_before_window().unwrap();
    }
    // Another thread records the same tasks later.
    (0..100).for_each(|task| scribe.task(1, task, 100));
    scribe.finish(Status::Complete);
    assert_eq!(tasks_in(dir.path()), (92..100).collect());
    assert_whole(dir.path());
}

#[test]
fn after_a_kill_at_any_moment_every_record_has_its_payload() {
    for tasks in 20..60 {
        let dir = tempfile::tempdir().unwrap();
        let mut scribe = scribe(dir.path(), tasks % 2 == 0);
        for task in 0..tasks {
            scribe.task(0, task, 5000);
            scribe.writer.free_before_window().unwrap();
        }
        drop(scribe);
        let kept = tasks_in(dir.path());
        assert!(kept.len() as u64 >= KEEP, "{kept:?}");
        assert!((tasks - KEEP..tasks).all(|task| kept.contains(&task)), "{kept:?}");
        repair(dir.path()).unwrap();
        assert_whole(dir.path());
        assert_eq!(tasks_in(dir.path()), kept);
    }
}

#[test]
fn a_payload_that_a_kept_record_shares_with_an_old_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let shared = content(77, 100_000);
    let first = scribe.stored(0, BEFORE, Role::Input, 0, &shared);
    let (offset, bytes) = first.stored_range().unwrap();
    scribe.append(0, &[IndexRecord::plain(&task_fields(0, 1, 1, 0)), first]);
    for task in 1..100 {
        let fields = tensor_fields(task, BEFORE, Role::Input, 0, &shared);
        let again = IndexRecord::tensor(&fields, Payload::Deduplicated { offset, bytes });
        scribe.append(0, &[IndexRecord::plain(&task_fields(task, 1, task * 10, 0)), again]);
        scribe.task(0, task, 300);
        let dead = scribe.writer.free_before_window().unwrap();
        assert!(dead.iter().all(|range| range.start >= offset + bytes || range.end <= offset), "{dead:?}");
    }
    scribe.finish(Status::Complete);
    assert_whole(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    let record = dump.records().map(Result::unwrap).find(|r| r.bin_size == bytes).unwrap();
    assert!(dump.payload(&record).unwrap() == shared);
}

#[test]
fn a_range_that_was_reserved_and_not_indexed_yet_is_not_freed() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let bytes = content(3, 90_000);
    let offset = scribe.writer.reserve(90_000);
    scribe.writer.write_payload(offset, &bytes).unwrap();
    for task in 0..100 {
        scribe.task(0, task, 300);
        scribe.writer.free_before_window().unwrap();
    }
    let late = IndexRecord::tensor(
        &tensor_fields(100, BEFORE, Role::Input, 0, &bytes),
        Payload::Stored { offset, bytes: 90_000 },
    );
    scribe.append(0, &[IndexRecord::plain(&task_fields(100, 1, 1_000_000, 0)), late]);
    scribe.finish(Status::Complete);
    assert_whole(dir.path());
}

#[test]
fn dependencies_of_kept_tasks_stay_although_they_were_recorded_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let edges: Vec<IndexRecord> =
        (1..200).map(|to| IndexRecord::plain(&edge_fields(to - 1, to, 1, 0))).collect();
    scribe.append(0, &edges);
    // The same thread continues with tasks. Another thread records one of the last edges, then an early
    // task, then a late one.
    scribe.append(7, &[IndexRecord::plain(&edge_fields(0, 199, 3, 1))]);
    scribe.task(7, 0, 64);
    for task in 1..200 {
        scribe.task(if task == 199 { 7 } else { 0 }, task, 64);
        scribe.writer.free_before_window().unwrap();
        assert_eq!(Dump::open(dir.path()).unwrap().gaps(), []);
    }
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    let kept: Vec<u64> = dump.edges().unwrap().iter().map(|edge| edge.to).collect();
    assert_eq!(kept, (192..200).chain([199]).collect::<Vec<_>>());
    assert_whole(dir.path());
}

#[test]
fn a_canceled_range_is_freed_and_a_reserved_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let (canceled, awaited) = (scribe.writer.reserve(100_000), scribe.writer.reserve(100_000));
    scribe.writer.cancel(canceled);
    let mut freed = Vec::new();
    for task in 0..100 {
        scribe.task(0, task, 300);
        freed.extend(scribe.writer.free_before_window().unwrap());
    }
    let is_freed = |offset: u64| freed.iter().any(|range| range.contains(&offset));
    assert!(is_freed(canceled) && !is_freed(awaited), "{freed:?}");
}

/// Reads every payload of a dump and compares it with the expected one. Returns the number of payloads
/// read, and of payloads that are gone.
fn read_all(dump: &Dump, expected: impl Fn(&Record) -> Vec<u8>) -> (u64, u64) {
    let (mut whole, mut gone) = (0, 0);
    for record in dump.records().map(Result::unwrap).filter(|record| record.bin_size > 0) {
        match dump.payload(&record) {
            Ok(bytes) => {
                assert!(bytes == expected(&record), "{record} is neither complete nor gone");
                whole += 1;
            }
            Err(FormatError::RecordGone { .. }) => gone += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (whole, gone)
}

/// The payload that [`TestWriter::task`] stored.
fn stored_by_task(record: &Record) -> Vec<u8> {
    let bytes = usize::try_from(record.bin_size).unwrap();
    content(2 * record.task_id + u64::from(record.stage == AFTER), bytes)
}

#[test]
fn a_dump_opened_before_the_window_moved_has_complete_or_gone_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    (0..20).for_each(|task| scribe.task(0, task, 9000));
    let before = Dump::open(dir.path()).unwrap();
    assert_eq!(read_all(&before, stored_by_task), (40, 0));
    (20..30).for_each(|task| scribe.task(0, task, 9000));
    assert!(!scribe.writer.free_before_window().unwrap().is_empty());
    assert_eq!(read_all(&before, stored_by_task), (0, 40), "every task of that time has left");
    let now = Dump::open(dir.path()).unwrap();
    assert_eq!((now.tail(), read_all(&now, stored_by_task)), (Tail::Open, (16, 0)));
    // Sixteen more tasks: none of the eight kept now stays, but the newest of the later ones do.
    (30..40).for_each(|task| scribe.task(0, task, 9000));
    let later = Dump::open(dir.path()).unwrap();
    (40..46).for_each(|task| scribe.task(0, task, 9000));
    scribe.writer.free_before_window().unwrap();
    assert_eq!(
        read_all(&later, stored_by_task),
        (2 * 2, 16 * 2),
        "tasks 38 and 39 are among the newest eight"
    );
    let findings = verify(&later).unwrap();
    assert!(findings.is_ok(), "{:?}", findings.problems);
    assert_eq!((findings.gone, findings.unverifiable, findings.checked), (32, 32, 4 + 18));
    scribe.finish(Status::Complete);
    assert_eq!(read_all(&later, stored_by_task), (2 * 2, 16 * 2), "closing the dump removes nothing");
}

#[test]
fn a_reader_never_reads_a_hole_while_the_window_moves() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    (0..16).for_each(|task| scribe.task(0, task, 5000));
    let mut whole = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for task in 16..1000 {
                scribe.task(0, task, 5000);
                scribe.writer.free_before_window().unwrap();
            }
            scribe
        });
        while !writer.is_finished() {
            let dump = Dump::open(dir.path()).unwrap();
            assert_eq!(dump.tail(), Tail::Open, "a dump that is being written is open");
            whole += read_all(&dump, stored_by_task).0;
            let findings = verify(&dump).unwrap();
            assert!(findings.is_ok(), "{:?}", findings.problems);
        }
        // The writer holds the lock until the last reader has finished.
        drop(writer.join().unwrap());
    });
    assert!(whole > 0, "no payload was read");
}

#[test]
fn remaining_shared_payloads_count_as_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = scribe(dir.path(), false);
    let shared = content(5, 6000);
    let first = scribe.stored(0, BEFORE, Role::Input, 0, &shared);
    let (offset, bytes) = first.stored_range().unwrap();
    scribe.append(0, &[IndexRecord::plain(&task_fields(0, 1, 1, 0)), first]);
    for task in 1..60 {
        let fields = tensor_fields(task, BEFORE, Role::Input, 0, &shared);
        let again = IndexRecord::tensor(&fields, Payload::Deduplicated { offset, bytes });
        scribe.append(0, &[IndexRecord::plain(&task_fields(task, 1, task * 10, 0)), again]);
        scribe.writer.free_before_window().unwrap();
    }
    let footer = scribe.finish(Status::Complete);
    assert_eq!((footer.totals.stored_bytes, footer.totals.deduplicated_bytes), (6000, 7 * 6000));
    let said = manifest(dir.path());
    assert_eq!((&said["stored_bytes"], &said["deduplicated_bytes"]), (&6000.into(), &(7 * 6000).into()));
    assert_whole(dir.path());
    fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
    assert_whole(dir.path());
}
