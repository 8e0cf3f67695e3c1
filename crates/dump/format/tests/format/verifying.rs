//! Verify finds and names every kind of contradiction.

use std::{fs, os::unix::fs::FileExt, path::Path};

use crate::common::*;
use serde_json::{Value, json};
use tensortap_abi::{RECORD_HAS_HASH, Role, TensorRecord};
use tensortap_format::{Dump, Findings, IndexRecord, Payload, Status, repair, verify};

fn check(dir: &Path) -> Findings {
    verify(&Dump::open(dir).unwrap()).unwrap()
}

fn only_problem(dir: &Path) -> String {
    let findings = check(dir);
    assert_eq!(findings.problems.len(), 1, "{:?}", findings.problems);
    assert!(!findings.is_ok());
    findings.problems[0].to_string()
}

#[test]
fn a_flipped_bit_in_any_payload_is_found_and_its_record_named() {
    for bytes in [1, 4096, 4097, 70_000, 1 << 20, (1 << 20) + 1] {
        let dir = tempfile::tempdir().unwrap();
        finished(dir.path(), 2, bytes);
        let record = Dump::open(dir.path()).unwrap().record(5).unwrap();
        let bin =
            fs::OpenOptions::new().read(true).write(true).open(dir.path().join("tensor_dump.bin")).unwrap();
        for at in [record.bin_offset, record.bin_offset + record.bin_size - 1] {
            let mut byte = [0];
            bin.read_exact_at(&mut byte, at).unwrap();
            bin.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            let problem = only_problem(dir.path());
            let named = "record 5 (task 0x0000000000000001, after_completion, argument 1)";
            assert!(problem.contains(named), "{problem}");
            bin.write_all_at(&byte, at).unwrap();
        }
        assert!(check(dir.path()).is_ok(), "{bytes} bytes, restored");
    }
}

#[test]
fn the_verdict_is_one_json_document() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 10);
    let good = serde_json::to_value(check(dir.path())).unwrap();
    assert_eq!(
        (&good["verdict"], &good["records"], &good["problems"]),
        (&json!("ok"), &json!(3), &json!([]))
    );
    fs::write(dir.path().join("tensor_dump.bin"), content(99, 74)).unwrap();
    let bad = serde_json::to_value(check(dir.path())).unwrap();
    assert_eq!(
        (&bad["verdict"], &bad["checked"], &bad["unverifiable"]),
        (&json!("bad"), &json!(3), &json!(0))
    );
    let first = &bad["problems"][0];
    let named = (&first["index"], &first["task_id"], &first["stage"], &first["arg_index"]);
    assert_eq!(named, (&json!(0), &hex64(0), &json!("before_dispatch"), &json!(0)));
}

#[test]
fn overlapping_payloads_that_are_not_identical_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let first = scribe.stored(0, BEFORE, Role::Input, 0, &[5; 128]);
    let fields = |arg, bytes: &[u8]| TensorRecord {
        flags: RECORD_HAS_HASH,
        ..tensor_fields(0, BEFORE, Role::Input, arg, bytes)
    };
    let same = IndexRecord::tensor(&fields(1, &[5; 128]), Payload::Deduplicated { offset: 0, bytes: 128 });
    let inside = IndexRecord::tensor(&fields(2, &[5; 64]), Payload::Stored { offset: 64, bytes: 64 });
    scribe.append(0, &[first, same, inside]);
    scribe.finish(Status::Complete);
    let problem = only_problem(dir.path());
    assert!(problem.contains("overlap") && problem.contains("2 (bytes 64..128)"), "{problem}");
    // Nothing decides which of the two is right, so repair cannot fix it and reports that.
    let repaired = repair(dir.path()).unwrap();
    assert!(!repaired.is_whole() && !repaired.changed, "{repaired:?}");
    assert_eq!(repaired.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
}

#[test]
fn a_hash_that_differs_between_records_of_one_payload_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let first = scribe.stored(0, BEFORE, Role::Input, 0, &[5; 128]);
    let liar = TensorRecord { hash: [1; 16], ..tensor_fields(0, BEFORE, Role::Input, 1, &[5; 128]) };
    scribe.append(0, &[first, IndexRecord::tensor(&liar, Payload::Deduplicated { offset: 0, bytes: 128 })]);
    scribe.finish(Status::Complete);
    assert!(only_problem(dir.path()).contains("record 1 "));
}

fn change_manifest(dir: &Path, change: impl FnOnce(&mut Value)) {
    let mut manifest = manifest(dir);
    change(&mut manifest);
    fs::write(dir.join("tensor_dump.json"), serde_json::to_vec_pretty(&manifest).unwrap()).unwrap();
}

#[test]
fn a_manifest_with_the_same_meaning_is_valid_in_any_formatting() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 2, 10);
    change_manifest(dir.path(), |m| {
        m["added"] = json!(1);
        m["tensors"][0]["added"] = json!([]);
        m["tensors"][1]["value"] = json!(1);
    });
    assert!(check(dir.path()).is_ok(), "{:?}", check(dir.path()).problems);
}

#[test]
fn a_missing_json_file_of_a_closed_dump_is_reported() {
    for name in ["tensor_dump.json", "graph.json"] {
        let dir = tempfile::tempdir().unwrap();
        finished(dir.path(), 1, 10);
        fs::remove_file(dir.path().join(name)).unwrap();
        let problem = only_problem(dir.path());
        assert!(problem.starts_with(&format!("{name} is missing; `tensortap repair ")), "{problem}");
        assert!(tensortap_format::repair(dir.path()).unwrap().changed);
        assert!(check(dir.path()).is_ok());
    }
}

#[test]
fn a_manifest_that_contradicts_the_index_is_found() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 7] = [
        ("`scalars`", |m| m["scalars"] = json!(7)),
        ("`status`", |m| drop(m.as_object_mut().unwrap().remove("status"))),
        ("record 1 ", |m| m["tensors"][1]["value"] = json!(2.0)),
        ("record 2 ", |m| m["tensors"][2]["hash"] = Value::Null),
        ("more records", |m| m["tensors"].as_array_mut().unwrap().push(json!({}))),
        ("lacks the last 1 records", |m| drop(m["tensors"].as_array_mut().unwrap().pop())),
        ("`tensors`", |m| drop(m.as_object_mut().unwrap().remove("tensors"))),
    ];
    for (expected, change) in cases {
        let dir = tempfile::tempdir().unwrap();
        finished(dir.path(), 1, 10);
        change_manifest(dir.path(), change);
        let problem = only_problem(dir.path());
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 10);
    fs::write(dir.path().join("tensor_dump.json"), "{\"status\": ").unwrap();
    assert!(only_problem(dir.path()).contains("cannot be read"));
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 10);
    let text = fs::read_to_string(dir.path().join("tensor_dump.json")).unwrap();
    fs::write(dir.path().join("tensor_dump.json"), text + "more").unwrap();
    assert!(only_problem(dir.path()).contains("cannot be read"));
}

#[test]
fn files_that_the_writer_is_about_to_write_are_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 10);
    fs::remove_file(dir.path().join("graph.json")).unwrap();
    let writer = fs::File::open(dir.path().join("tensor_dump.idx")).unwrap();
    writer.lock().unwrap();
    assert!(check(dir.path()).is_ok(), "the footer is written and its writer is alive");
    drop(writer);
    assert!(only_problem(dir.path()).contains("graph.json is missing"));
}

#[test]
fn unlisted_missing_records_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    scribe.task(0, 0, 10);
    scribe.writer.append(0, 9..9, &[]).unwrap();
    scribe.finish(Status::Complete);
    assert!(only_problem(dir.path()).contains("thread 0: 4 records are missing"));
}

#[test]
fn counters_of_the_footer_are_checked_against_the_index() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 10);
    fs::remove_file(dir.path().join("tensor_dump.json")).unwrap();
    let path = dir.path().join("tensor_dump.idx");
    let index = fs::read(&path).unwrap();
    let footer = index.windows(4).rposition(|w| w == b"TEND").unwrap();
    let mut tail = index[footer..index.len() - 24].to_vec();
    let place = tail.windows(12).position(|w| w == b"\"scalars\":1,").unwrap();
    tail[place + 10] = b'4';
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&tail, info().run_id).to_le_bytes();
    fs::write(&path, [&index[..footer], &tail, &checksum, &index[index.len() - 16..]].concat()).unwrap();
    let problems = check(dir.path()).problems;
    let problem = problems[0].to_string();
    assert!(problem.contains("scalars = 4") && problem.contains("the index has 1"), "{problem}");
}

/// A dump that uses every feature of its files: names, a scope, edges, arguments of dispatches, statistics.
fn write_full_dump(dir: &Path) {
    let mut info = info();
    info.dump_args = true;
    let mut scribe = TestWriter::new(dir, &info);
    (0..3).for_each(|task| scribe.task(0, task, 100));
    let edges = [edge_fields(0, 1, 1, 0), edge_fields(1, 2, 0, 0)];
    scribe.append(0, &edges.map(|edge| IndexRecord::plain(&edge)));
    scribe.finish(Status::Complete);
}

/// The meaning of a JSON file, ignoring white space.
fn meaning(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

#[test]
fn any_changed_byte_in_any_file_is_found_or_has_no_meaning() {
    let dir = tempfile::tempdir().unwrap();
    write_full_dump(dir.path());
    assert!(check(dir.path()).is_ok(), "{:?}", check(dir.path()).problems);
    let payloads: Vec<_> = {
        let dump = Dump::open(dir.path()).unwrap();
        dump.records().map(Result::unwrap).map(|r| r.bin_offset..r.bin_offset + r.bin_size).collect()
    };
    let mut files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 6, "{files:?}");
    for path in files {
        let good = fs::read(&path).unwrap();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let mut found = 0;
        // Every byte would take minutes. These bytes, spread over the file, change only when the format
        // does.
        for at in (0..good.len()).step_by((good.len() / 400).max(1)) {
            let mut bad = good.clone();
            bad[at] ^= [0x01, 0x02, 0x10, 0x20][found % 4];
            let means_the_same = is_json && meaning(&bad) == meaning(&good);
            let is_padding = path.ends_with("tensor_dump.bin")
                && !payloads.iter().any(|range| range.contains(&(at as u64)));
            if means_the_same || is_padding {
                continue;
            }
            fs::write(&path, &bad).unwrap();
            let is_found =
                Dump::open(dir.path()).and_then(|dump| verify(&dump)).map_or(true, |found| !found.is_ok());
            assert!(
                is_found,
                "{} at byte {at}: {:?} for {:?}",
                path.display(),
                bad[at] as char,
                good[at] as char
            );
            found += 1;
        }
        fs::write(&path, &good).unwrap();
        assert!(found > 100, "{}: {found} damages", path.display());
    }
    assert!(check(dir.path()).is_ok());
}
