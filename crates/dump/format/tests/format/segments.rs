//! Dumps with several payload files.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use crate::common::*;
use serde_json::{Value, json};
use tensortap_format::{
    Dump, DumpWriter, FormatError, IndexRecord, PayloadState, Record, Status, Tail, WriterOptions, repair,
    repair_without_payloads, split_position, verify,
};

const LARGE: usize = 70_000;

/// A writer that spreads large payloads over three files, after one task with small payloads.
fn spread(dir: &Path, options: WriterOptions) -> TestWriter {
    let mut scribe = TestWriter::over(DumpWriter::create_with(dir, &info(), options).unwrap());
    scribe.task(0, 0, 100);
    scribe.writer.spread_over(3);
    scribe
}

fn finished_spread(dir: &Path) {
    let mut scribe = spread(dir, WriterOptions::default());
    (1..5).for_each(|task| scribe.task(0, task, LARGE));
    scribe.finish(Status::Complete);
}

/// The payload that [`TestWriter::task`] stored.
fn stored_by_task(record: &Record) -> Vec<u8> {
    let bytes = usize::try_from(record.bin_size).unwrap();
    content(2 * record.task_id + u64::from(record.stage == AFTER), bytes)
}

/// Checks every payload and returns the numbers of the files that contain them.
fn read_all(dump: &Dump) -> BTreeSet<usize> {
    let records: Vec<Record> = dump.records().map(Result::unwrap).filter(|r| r.bin_size > 0).collect();
    for record in &records {
        assert!(dump.payload(record).unwrap() == stored_by_task(record), "{record}");
        dump.check_payload(record).unwrap();
    }
    records.iter().map(|record| split_position(record.bin_offset).0).collect()
}

fn problems(dir: &Path) -> Vec<String> {
    let findings = verify(&Dump::open(dir).unwrap()).unwrap();
    findings.problems.iter().map(ToString::to_string).collect()
}

fn version(dir: &Path) -> u32 {
    let mut version = [0; 4];
    fs::File::open(dir.join("tensor_dump.idx")).unwrap().read_exact_at(&mut version, 8).unwrap();
    u32::from_le_bytes(version)
}

/// The first large record in a file.
fn first_in(dump: &Dump, number: usize) -> Record {
    let mut records = dump.records().map(Result::unwrap);
    records.find(|r| r.bin_size > 0 && split_position(r.bin_offset).0 == number).unwrap()
}

#[test]
fn small_payloads_stay_in_one_file_of_the_earlier_version_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, spread) = (folder.path().join("plain/d"), folder.path().join("spread/d"));
    for (dir, files) in [(&plain, 1), (&spread, 8)] {
        let mut scribe = TestWriter::new(dir, &info());
        scribe.writer.spread_over(files);
        (0..20).for_each(|task| scribe.task(0, task, 3000));
        scribe.finish(Status::Complete);
    }
    assert_eq!(version(&spread), 3);
    for name in ["tensor_dump.idx", "tensor_dump.bin", "tensor_dump.json", "graph.json"] {
        assert!(fs::read(plain.join(name)).unwrap() == fs::read(spread.join(name)).unwrap(), "{name}");
    }
    assert_eq!(fs::read_dir(&spread).unwrap().count(), 4);
}

#[test]
fn large_payloads_are_spread_and_every_reader_finds_them() {
    let dir = tempfile::tempdir().unwrap();
    finished_spread(dir.path());
    assert_eq!(version(dir.path()), 4);
    let manifest = manifest(dir.path());
    assert_eq!(manifest["schema_version"], 3);
    assert_eq!(manifest["bin_files"], json!(["tensor_dump.bin", "tensor_dump.1.bin", "tensor_dump.2.bin"]));
    let by_index = Dump::open(dir.path()).unwrap();
    assert_eq!(read_all(&by_index), [0, 1, 2].into());
    assert_eq!(problems(dir.path()), [""; 0]);
    let second = first_in(&by_index, 1);
    let (path, offset) = by_index.payload_place(&second);
    assert_eq!((path, offset), (dir.path().join("tensor_dump.1.bin"), 0));
    assert!(!repair(dir.path()).unwrap().changed);

    // One task of it as a separate dump, which has one file.
    let cut = tempfile::tempdir().unwrap();
    let tasks = by_index.tasks().unwrap();
    let third = tasks.iter().find(|task| task.task_id == 3).unwrap();
    by_index.cut_task(third, cut.path()).unwrap();
    assert_eq!((version(cut.path()), read_all(&Dump::open(cut.path()).unwrap())), (3, [0].into()));
    assert_eq!(problems(cut.path()), [""; 0]);

    // Without the index.
    fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
    let by_manifest = Dump::open(dir.path()).unwrap();
    assert_eq!(read_all(&by_manifest), [0, 1, 2].into());
    assert_eq!(problems(dir.path()), [""; 0]);
}

#[test]
fn a_changed_byte_in_any_file_is_found() {
    for number in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        finished_spread(dir.path());
        let dump = Dump::open(dir.path()).unwrap();
        let record = first_in(&dump, number);
        let (path, offset) = dump.payload_place(&record);
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
        let found = problems(dir.path());
        let name = format!("record {} ", record.index);
        assert!(found.len() == 1 && found[0].contains(&name) && found[0].contains("hash"), "{found:?}");
    }
}

#[test]
fn a_kill_at_any_moment_loses_no_appended_record() {
    for tasks in 1..12 {
        let dir = tempfile::tempdir().unwrap();
        let mut scribe = spread(dir.path(), WriterOptions { keep_last_tasks: None, sync: tasks % 2 == 0 });
        (1..tasks).for_each(|task| scribe.task(0, task, LARGE));
        // Reserved and written, but never appended.
        let position = scribe.writer.reserve(LARGE as u64);
        scribe.writer.write_payload(position, &content(99, LARGE)).unwrap();
        drop(scribe);
        let torn = Dump::open(dir.path()).unwrap();
        assert!(matches!(torn.tail(), Tail::Torn { .. }));
        assert_eq!(torn.len(), 3 * tasks);
        read_all(&torn);
        assert!(repair(dir.path()).unwrap().is_whole());
        assert_eq!(problems(dir.path()), [""; 0]);
        assert_eq!(version(dir.path()), if tasks < 2 { 3 } else { 4 }, "{tasks} tasks");
        let repaired = Dump::open(dir.path()).unwrap();
        assert_eq!((repaired.tail(), repaired.len()), (Tail::Closed, 3 * tasks));
        read_all(&repaired);
    }
}

#[test]
fn a_truncated_file_loses_only_its_own_payloads() {
    let dir = tempfile::tempdir().unwrap();
    finished_spread(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    let lost = first_in(&dump, 2);
    let file = fs::OpenOptions::new().write(true).open(dir.path().join("tensor_dump.2.bin")).unwrap();
    file.set_len(9).unwrap();
    let error = dump.payload(&lost).unwrap_err();
    assert!(matches!(&error, FormatError::PayloadShort { offset: 0, have: 9, .. }), "{error:?}");
    assert!(error.to_string().contains("tensor_dump.2.bin"), "{error}");
    let found = problems(dir.path());
    assert!(found.iter().all(|problem| problem.contains("tensor_dump.2.bin")), "{found:?}");
    let shown = Dump::open(dir.path()).unwrap().record(lost.index).unwrap();
    assert_eq!(shown.payload, PayloadState::Missing);

    let report = repair(dir.path()).unwrap();
    assert_eq!(report.lost_payloads, found.len() as u64);
    assert!(report.is_whole() && version(dir.path()) == 4);
    assert_eq!(read_all(&Dump::open(dir.path()).unwrap()), [0, 1].into());
    assert_eq!(manifest(dir.path())["bin_files"], json!(["tensor_dump.bin", "tensor_dump.1.bin"]));
}

#[test]
fn a_missing_file_is_named_and_only_its_payloads_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    finished_spread(dir.path());
    fs::remove_file(dir.path().join("tensor_dump.1.bin")).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    let lost = dump.records().map(Result::unwrap).filter(|r| r.payload == PayloadState::Missing).count();
    assert!(lost > 0);
    let found = problems(dir.path());
    let stated = format!("tensor_dump.1.bin is missing, which contains the payloads of {lost} records");
    assert!(found.len() == 1 && found[0].contains(&stated), "{found:?}");
    let refused = repair(dir.path()).unwrap_err();
    assert!(
        matches!(&refused, FormatError::PayloadFileMissing { path, .. } if path.ends_with("tensor_dump.1.bin"))
    );
    let report = repair_without_payloads(dir.path()).unwrap();
    assert!(report.is_whole() && report.lost_payloads == lost as u64, "{report:?}");
    assert_eq!(read_all(&Dump::open(dir.path()).unwrap()), [0, 2].into());
}

#[test]
fn the_task_window_frees_space_in_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = spread(dir.path(), WriterOptions { keep_last_tasks: Some(8), sync: false });
    let disk_bytes = || {
        let files = fs::read_dir(dir.path()).unwrap().flatten();
        files.map(|file| file.metadata().unwrap().blocks() * 512).sum::<u64>()
    };
    let mut most = 0;
    for task in 1..200 {
        scribe.task(0, task, LARGE);
        scribe.writer.free_before_window().unwrap();
        most = most.max(disk_bytes());
    }
    let bound = (8 + 16 + 1) * 2 * 18 * 4096 + (256 << 10);
    assert!(most <= bound, "{most} of {bound} bytes");
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((read_all(&dump), dump.len()), ([0, 1, 2].into(), 24));
    assert_eq!(problems(dir.path()), [""; 0]);
    assert!(disk_bytes() <= 8 * 2 * 18 * 4096 + (128 << 10), "{}", disk_bytes());
}

#[test]
fn a_reader_finds_a_sound_dump_while_the_second_file_is_added() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut scribe = spread(dir.path(), WriterOptions::default());
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                (1..40).for_each(|task| scribe.task(0, task, LARGE));
                scribe
            });
            while !writer.is_finished() {
                let dump = Dump::open(dir.path()).unwrap();
                assert_eq!(dump.tail(), Tail::Open);
                read_all(&dump);
            }
            drop(writer.join().unwrap());
        });
    }
}

#[test]
fn numbers_of_files_that_no_writer_uses_are_missing_payloads() {
    for number in [3_u64, 63, 64, 511] {
        let dir = tempfile::tempdir().unwrap();
        let mut scribe = spread(dir.path(), WriterOptions::default());
        (1..3).for_each(|task| scribe.task(0, task, LARGE));
        let bytes = content(1, LARGE);
        let hostile =
            tensortap_format::Payload::Stored { offset: (number << 44) + 4096, bytes: LARGE as u64 };
        let fields = tensor_fields(9, BEFORE, tensortap_abi::Role::Input, 0, &bytes);
        scribe.append(0, &[IndexRecord::tensor(&fields, hostile)]);
        drop(scribe);
        let dump = Dump::open(dir.path()).unwrap();
        let record = dump.record(dump.len() - 1).unwrap();
        assert!(matches!(dump.payload(&record), Err(FormatError::PayloadMissing { .. })), "{number}");
        let found = problems(dir.path());
        assert!(found.iter().any(|what| what.contains(&format!("tensor_dump.{number}.bin"))), "{found:?}");
        assert!(matches!(repair(dir.path()), Err(FormatError::PayloadFileMissing { .. })));
        assert_eq!(repair_without_payloads(dir.path()).unwrap().lost_payloads, 1);
    }
}

#[test]
fn a_link_in_place_of_a_payload_file_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    finished_spread(dir.path());
    let (path, secret) = (dir.path().join("tensor_dump.1.bin"), dir.path().join("secret"));
    fs::rename(&path, &secret).unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert!(matches!(dump.payload(&first_in(&dump, 1)), Err(FormatError::NotADump { .. })));
    assert!(matches!(repair(dir.path()), Err(FormatError::NotAPlainFile { .. })));
}

#[test]
fn a_manifest_of_a_later_version_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    finished_spread(dir.path());
    fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
    let mut changed: Value = manifest(dir.path());
    changed["schema_version"] = 4.into();
    fs::write(dir.path().join("tensor_dump.json"), changed.to_string()).unwrap();
    assert!(matches!(Dump::open(dir.path()), Err(FormatError::SchemaVersion { found: 4, known: 3, .. })));
}
