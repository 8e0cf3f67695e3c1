//! Dumps whose writer died, whose files were truncated, or that are still being written.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use crate::common::*;
use serde_json::{Value, json};
use tensortap_abi::{DType, Role, ScopeRecord, TaskRecord};
use tensortap_format::{
    Dump, DumpWriter, Footer, FormatError, IndexRecord, Loss, PayloadState, SkipReason, Status, Tail, repair,
    repair_without_payloads, verify,
};

fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn copy_dump(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn verified(dir: &Path) -> Vec<String> {
    let verdict = verify(&Dump::open(dir).unwrap()).unwrap();
    verdict.problems.iter().map(ToString::to_string).collect()
}

/// Every file of a dump, by name.
fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Three records in separate frames of a dump that is never closed. Returns the offset of the first of
/// these frames.
fn unfinished(dir: &Path) -> u64 {
    let mut scribe = TestWriter::new(dir, &info());
    scribe.task(0, 0, 100);
    let start = scribe.writer.index_bytes();
    for arg in 0..3 {
        let record = scribe.stored(9, BEFORE, Role::Input, arg, &content(arg.into(), 80));
        scribe.append(0, &[record]);
    }
    start
}

#[test]
fn a_cut_at_any_byte_of_the_last_three_records_loses_no_more_than_those() {
    let source = tempfile::tempdir().unwrap();
    let start = unfinished(source.path());
    let index = source.path().join("tensor_dump.idx");
    let whole = fs::metadata(&index).unwrap().len();
    let frame = (whole - start) / 3;
    for bytes in start..=whole {
        let dir = tempfile::tempdir().unwrap();
        copy_dump(source.path(), dir.path());
        cut(&dir.path().join("tensor_dump.idx"), bytes);
        let survivors = 3 + (bytes - start) / frame;
        let dump = Dump::open(dir.path()).unwrap();
        assert_eq!((dump.len(), dump.status()), (survivors, Some(Status::Killed)), "cut at {bytes}");
        let offset = start + (survivors - 3) * frame;
        match dump.tail() {
            Tail::Torn { offset: at, lost_bytes, .. } => {
                assert_eq!((at, lost_bytes), (offset, bytes - offset))
            }
            other => panic!("cut at {bytes}: {other:?}"),
        }
        assert_eq!(verified(dir.path()).len(), 1, "a torn dump has one problem until it is repaired");

        let report = repair(dir.path()).unwrap();
        assert_eq!((report.changed, report.status, report.records), (true, Status::Killed, survivors));
        assert_eq!(report.cut_bytes, bytes - offset);
        assert_eq!(verified(dir.path()), [""; 0], "cut at {bytes}");
        let manifest = manifest(dir.path());
        assert_eq!((&manifest["status"], &manifest["total_tensors"]), (&json!("killed"), &json!(survivors)));
        assert_eq!(manifest["tensors"].as_array().unwrap().len() as u64, survivors);
        let before = snapshot(dir.path());
        assert!(!repair(dir.path()).unwrap().changed);
        assert!(snapshot(dir.path()) == before, "a second repair changes nothing");
    }
}

#[test]
fn a_cut_at_any_byte_of_the_footer_is_repaired() {
    let source = tempfile::tempdir().unwrap();
    finished(source.path(), 2, 100);
    let index = fs::read(source.path().join("tensor_dump.idx")).unwrap();
    let footer = index.windows(4).rposition(|w| w == b"TEND").unwrap();
    for bytes in footer..index.len() {
        let dir = tempfile::tempdir().unwrap();
        copy_dump(source.path(), dir.path());
        cut(&dir.path().join("tensor_dump.idx"), bytes as u64);
        let dump = Dump::open(dir.path()).unwrap();
        assert!(matches!(dump.tail(), Tail::Torn { .. }), "cut at {bytes}");
        assert_eq!(dump.len(), 6);
        // Without its footer, the index does not contain how the run ended. The manifest does, and it is
        // trusted.
        assert_eq!(dump.status(), Some(Status::Complete), "cut at {bytes}");
        let before = manifest(dir.path());
        let report = repair(dir.path()).unwrap();
        assert_eq!((report.status, report.records), (Status::Complete, 6), "cut at {bytes}");
        assert_eq!((verified(dir.path()), report.set_aside), (vec![], None));
        assert_eq!(manifest(dir.path()), before);
        if index.len() - bytes <= 16 {
            assert!(fs::read(dir.path().join("tensor_dump.idx")).unwrap() == index);
        }
    }
}

/// Records, tasks and end of a dump.
fn content_of(dump: &Dump) -> (Vec<Value>, usize, usize, Option<Status>) {
    let records = dump.records().map(|record| serde_json::to_value(record.unwrap()).unwrap()).collect();
    (records, dump.tasks().unwrap().len(), dump.edges().unwrap().len(), dump.status())
}

#[test]
fn a_complete_manifest_replaces_a_truncated_index_and_repair_keeps_it() {
    let source = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(source.path(), &info());
    (0..2).for_each(|task| scribe.task(0, task, 100));
    // The last record, which no argument depends on.
    scribe.append(0, &[IndexRecord::plain(&edge_fields(0, 1, 1, 0))]);
    scribe.finish(Status::Complete);
    let whole = content_of(&Dump::open(source.path()).unwrap());
    assert_eq!((whole.0.len(), whole.1, whole.2), (6, 2, 1));
    let index = fs::read(source.path().join("tensor_dump.idx")).unwrap();
    let footer = index.windows(4).rposition(|w| w == b"TEND").unwrap();
    for bytes in (0..footer).step_by(37) {
        let dir = tempfile::tempdir().unwrap();
        copy_dump(source.path(), dir.path());
        let path = dir.path().join("tensor_dump.idx");
        cut(&path, bytes as u64);
        let dump = Dump::open(dir.path()).unwrap();
        assert_eq!(content_of(&dump), whole, "cut at {bytes}");
        let passed_over = dump.passed_over().expect("the index has fewer records");
        let SkipReason::Damaged { records, .. } = passed_over.why else { panic!("{passed_over:?}") };
        assert!(passed_over.path == path && records <= 6, "{passed_over:?}");
        let problems = verified(dir.path());
        assert!(problems.len() == 1 && problems[0].contains("tensor_dump.idx is damaged"), "{problems:?}");

        let json = ["tensor_dump.json", "graph.json"].map(|name| fs::read(dir.path().join(name)).unwrap());
        let report = repair(dir.path()).unwrap();
        let old = dir.path().join("tensor_dump.idx.old");
        assert_eq!((report.changed, report.records, report.status), (true, 6, Status::Complete));
        assert_eq!((report.set_aside, &report.kept), (Some(records), &vec![old.clone()]), "cut at {bytes}");
        assert!(fs::read(&old).unwrap() == index[..bytes], "the index is kept unchanged");
        let after = ["tensor_dump.json", "graph.json"].map(|name| fs::read(dir.path().join(name)).unwrap());
        assert!(after == json, "cut at {bytes}: a more complete file is never replaced");
        assert_eq!(
            (verified(dir.path()), content_of(&Dump::open(dir.path()).unwrap())),
            (vec![], whole.clone())
        );
    }
}

#[test]
fn a_manifest_of_another_run_or_an_inconsistent_one_does_not_replace_a_torn_index() {
    for (key, value) in [("run_id", json!("0x0000000000000bad")), ("total_tensors", json!(7))] {
        let dir = tempfile::tempdir().unwrap();
        finished(dir.path(), 2, 100);
        let path = dir.path().join("tensor_dump.idx");
        let index = fs::read(&path).unwrap();
        let frames: Vec<usize> = (0..index.len() - 4).filter(|at| &index[*at..at + 4] == b"TFRM").collect();
        cut(&path, frames[2] as u64);
        let mut other = manifest(dir.path());
        other[key] = value;
        let other = other.to_string();
        fs::write(dir.path().join("tensor_dump.json"), &other).unwrap();
        let dump = Dump::open(dir.path()).unwrap();
        assert_eq!((dump.len(), dump.passed_over()), (3, None), "{key}");
        let report = repair(dir.path()).unwrap();
        assert_eq!((report.records, report.set_aside), (3, None), "{key}");
        let old = dir.path().join("tensor_dump.json.old");
        assert!(report.kept.contains(&old), "{key}: {report:?}");
        assert_eq!(fs::read_to_string(old).unwrap(), other, "the replaced file is kept");
        assert_eq!(verified(dir.path()), [""; 0], "{key}");
    }
}

#[test]
fn repair_reports_missing_payloads_next_to_a_damaged_index() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 2, 100);
    cut(&dir.path().join("tensor_dump.idx"), 100);
    cut(&dir.path().join("tensor_dump.bin"), 10);
    let before = snapshot(dir.path());
    let refused = repair(dir.path()).unwrap_err();
    assert!(matches!(refused, FormatError::NotRepairable { .. }), "{refused}");
    assert!(snapshot(dir.path()) == before);
    assert_eq!(Dump::open(dir.path()).unwrap().len(), 6);
}

#[test]
fn a_truncated_payload_file_is_an_error_with_the_record_and_repair_drops_the_payload() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 3, 1000);
    let bin = dir.path().join("tensor_dump.bin");
    let dump = Dump::open(dir.path()).unwrap();
    let last = dump.record(8).unwrap();
    cut(&bin, last.bin_offset + 999);
    // The file was truncated while the dump was open: an error, not a crash.
    let error = dump.payload(&last).unwrap_err();
    assert!(matches!(error, FormatError::PayloadShort { bytes: 1000, .. }));
    let message = error.to_string();
    assert!(message.contains("tensor_dump.bin") && message.contains("record 8"), "{message}");
    assert!(dump.payload(&dump.record(0).unwrap()).is_ok());
    let problems = verified(dir.path());
    assert!(problems.len() == 1 && problems[0].contains("record 8"), "{problems:?}");

    let report = repair(dir.path()).unwrap();
    assert_eq!((report.lost_payloads, report.records, report.status), (1, 9, Status::Complete));
    assert_eq!(verified(dir.path()), [""; 0]);
    let repaired = Dump::open(dir.path()).unwrap().record(8).unwrap();
    assert_eq!((repaired.payload, repaired.hash, repaired.bin_size), (PayloadState::Dropped, last.hash, 0));
    let manifest = manifest(dir.path());
    let loss = json!([{"thread": 0, "reason": "payload_missing", "records": 1, "bytes": 1000}]);
    assert_eq!((&manifest["losses"], &manifest["dropped_records"]), (&loss, &json!(1)));
    assert!(!repair(dir.path()).unwrap().changed);
}

#[test]
fn a_missing_payload_file_only_affects_the_payloads() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 100);
    drop(scribe);
    fs::remove_file(dir.path().join("tensor_dump.bin")).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert!(matches!(dump.payload(&dump.record(0).unwrap()), Err(FormatError::PayloadMissing { .. })));
    let refused = repair(dir.path()).unwrap_err();
    assert!(matches!(refused, FormatError::PayloadFileMissing { payloads: 2, .. }), "{refused}");
    let report = repair_without_payloads(dir.path()).unwrap();
    assert_eq!((report.lost_payloads, report.records), (2, 3));
    assert_eq!(verified(dir.path()), [""; 0]);
    assert!(!repair(dir.path()).unwrap().changed, "dropped payloads are no longer reported as missing");
}

#[test]
fn a_dump_that_is_being_written_opens_grows_and_is_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 100);
    let early = Dump::open(dir.path()).unwrap();
    assert_eq!((early.tail(), early.status(), early.len()), (Tail::Open, None, 3));
    assert!(matches!(repair(dir.path()), Err(FormatError::StillWritten { .. })));
    scribe.task(0, 1, 100);
    let later = Dump::open(dir.path()).unwrap();
    assert_eq!((later.tail(), later.len(), early.len()), (Tail::Open, 6, 3));
    assert!(verify(&later).unwrap().is_ok());
    assert_eq!(early.payload(&early.record(0).unwrap()).unwrap(), content(0, 100));
    scribe.finish(Status::Complete);
    assert_eq!(early.records().count(), 3, "an open dump does not change");
    assert_eq!(Dump::open(dir.path()).unwrap().tail(), Tail::Closed);
}

#[test]
fn a_frame_half_written_by_a_living_writer_is_not_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 100);
    let whole = scribe.writer.index_bytes();
    scribe.task(0, 1, 100);
    cut(&dir.path().join("tensor_dump.idx"), whole + 33);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.tail(), dump.len()), (Tail::Open, 3));
}

#[test]
fn missing_sequence_numbers_are_losses() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = DumpWriter::create(dir.path(), &info()).unwrap();
    let scalar = |task| IndexRecord::plain(&scalar_fields(task, 0, DType::Int8, 3));
    writer.append(0, 0..1, &[scalar(0)]).unwrap();
    writer.append(4, 2..3, &[scalar(1)]).unwrap();
    writer.append(0, 6..9, &[scalar(2)]).unwrap();
    drop(writer);
    let dump = Dump::open(dir.path()).unwrap();
    let gaps: Vec<_> = dump.gaps().iter().map(|g| (g.thread, g.first_seq, g.records)).collect();
    assert_eq!(gaps, [(4, 0, 2), (0, 1, 5)]);
    let report = repair(dir.path()).unwrap();
    assert_eq!(report.missing_records, 7);
    let footer = Dump::open(dir.path()).unwrap().footer().unwrap().clone();
    let losses: Vec<_> = footer.losses.iter().map(|l| (l.thread, l.reason.as_str(), l.records)).collect();
    assert_eq!(losses, [(0, Loss::MISSING, 5), (4, Loss::MISSING, 2)]);
    assert_eq!(verified(dir.path()), [""; 0], "listed losses are not a problem");
    assert!(!repair(dir.path()).unwrap().changed);
    // Torn again: the same records are missing, not twice as many.
    let index = dir.path().join("tensor_dump.idx");
    fs::write(&index, [&fs::read(&index).unwrap()[..], b"rubbish!"].concat()).unwrap();
    assert!(repair(dir.path()).unwrap().changed);
    assert_eq!(Dump::open(dir.path()).unwrap().footer().unwrap(), &footer);
}

#[test]
fn a_damaged_frame_ends_the_dump_and_the_footer_still_has_the_status_and_the_losses() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 4, 50);
    fs::remove_file(dir.path().join("tensor_dump.json")).unwrap();
    let path = dir.path().join("tensor_dump.idx");
    let mut index = fs::read(&path).unwrap();
    let frames: Vec<usize> = (0..index.len() - 4).filter(|at| &index[*at..at + 4] == b"TFRM").collect();
    index[frames[4] + 50] ^= 1;
    fs::write(&path, &index).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.len(), dump.status()), (6, Some(Status::Complete)));
    assert!(matches!(dump.tail(), Tail::Torn { offset, .. } if offset == frames[4] as u64));
    let report = repair(dir.path()).unwrap();
    // Two tasks of five records each.
    assert_eq!((report.status, report.records, report.missing_records), (Status::Complete, 6, 10));
    assert_eq!(verified(dir.path()), [""; 0]);
    assert_eq!(manifest(dir.path())["dropped_records"], 10);
    let before = snapshot(dir.path());
    assert!(!repair(dir.path()).unwrap().changed);
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn bytes_after_the_end_are_found_and_cut() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 50);
    let path = dir.path().join("tensor_dump.idx");
    let index = fs::read(&path).unwrap();
    fs::write(&path, [&index[..], b"rubbish!"].concat()).unwrap();
    assert!(matches!(Dump::open(dir.path()).unwrap().tail(), Tail::Torn { .. }));
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.status, report.records), (Status::Complete, 3));
    assert!(fs::read(&path).unwrap() == index);
}

#[test]
fn repair_writes_json_files_that_are_missing_or_wrong_and_removes_leftovers() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 2, 50);
    let before = snapshot(dir.path());
    fs::remove_file(dir.path().join("tensor_dump.json")).unwrap();
    fs::write(dir.path().join("graph.json"), "{").unwrap();
    fs::write(dir.path().join("tensor_dump.json.tmp"), "half").unwrap();
    fs::write(dir.path().join("tensor_dump.idx.tmp"), "half").unwrap();
    let report = repair(dir.path()).unwrap();
    let old = dir.path().join("graph.json.old");
    assert_eq!((report.changed, &report.kept), (true, &vec![old.clone()]));
    assert_eq!(fs::read_to_string(&old).unwrap(), "{", "the replaced file is kept");
    fs::remove_file(old).unwrap();
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn tasks_in_flight_when_the_host_was_killed_are_found_in_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 16);
    let task = TaskRecord { name: 1, scope: 1, step: 4, ..task_fields(1, 2, 5000, 0) };
    let scope = ScopeRecord { id: 1, name: 2, ..ScopeRecord::default() };
    let strings = [IndexRecord::string(1, "k_proj"), IndexRecord::string(2, "layer 1")];
    scribe.append(0, &[IndexRecord::plain(&task), IndexRecord::plain(&scope)]);
    scribe.append(0, &strings);
    drop(scribe);
    repair(dir.path()).unwrap();
    let in_flight = json!([{"task_id": hex64(1), "func_id": [2], "kernels": ["mul"], "block_num": 1,
        "task_name": "k_proj", "scope": "layer 1", "step": 4}]);
    assert_eq!(manifest(dir.path())["in_flight"], in_flight);
}

#[test]
fn an_index_with_an_incomplete_header_is_rejected_by_name() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 16);
    fs::remove_file(dir.path().join("tensor_dump.json")).unwrap();
    let path = dir.path().join("tensor_dump.idx");
    let index = fs::read(&path).unwrap();
    for bytes in [0, 1, 63, 64, 100] {
        fs::write(&path, &index[..bytes]).unwrap();
        let message = Dump::open(dir.path()).err().unwrap().to_string();
        assert!(message.contains("tensor_dump.idx"), "{message}");
        assert!(repair(dir.path()).is_err());
    }
}

#[test]
fn an_empty_dump_closes_and_verifies() {
    let dir = tempfile::tempdir().unwrap();
    DumpWriter::create(dir.path(), &info()).unwrap().finish(&Footer::new(Status::Interrupted)).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert!(dump.is_empty());
    assert_eq!(dump.status(), Some(Status::Interrupted));
    assert_eq!(verified(dir.path()), [""; 0]);
}
