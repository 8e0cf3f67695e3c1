//! What repair refuses to change, and that a repaired dump verifies.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::common::*;
use tensortap_format::{Dump, Footer, FormatError, Status, repair, repair_without_payloads, verify};

const FILES: [&str; 4] = ["tensor_dump.idx", "tensor_dump.bin", "tensor_dump.json", "graph.json"];

fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = FILES.map(|name| (name.to_owned(), fs::read(dir.join(name)).unwrap_or_default()));
    files.into()
}

/// A dump that was not closed.
fn torn(dir: &Path) {
    let mut scribe = TestWriter::new(dir, &info());
    (0..3).for_each(|task| scribe.task(0, task, 500));
}

#[test]
fn a_link_instead_of_a_file_is_reported_and_its_target_is_not_changed() {
    for name in FILES {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        finished(ours.path(), 2, 500);
        if name == "tensor_dump.idx" {
            torn(other.path())
        } else {
            finished(other.path(), 2, 500)
        }
        let before = snapshot(other.path());
        fs::remove_file(ours.path().join(name)).unwrap();
        symlink(other.path().join(name), ours.path().join(name)).unwrap();
        for repaired in [repair(ours.path()), repair_without_payloads(ours.path())] {
            let error = repaired.unwrap_err();
            assert!(
                matches!(&error, FormatError::NotAPlainFile { path, what: "a symbolic link" } if path.ends_with(name)),
                "{error}"
            );
        }
        assert!(snapshot(other.path()) == before, "repair changed the target of {name}");
    }
}

#[test]
fn a_folder_instead_of_a_file_is_reported_and_no_payload_is_dropped() {
    for name in ["tensor_dump.bin", "tensor_dump.json", "graph.json"] {
        let dir = tempfile::tempdir().unwrap();
        finished(dir.path(), 2, 500);
        fs::remove_file(dir.path().join(name)).unwrap();
        fs::create_dir(dir.path().join(name)).unwrap();
        let before = snapshot(dir.path());
        for repaired in [repair(dir.path()), repair_without_payloads(dir.path())] {
            let error = repaired.unwrap_err();
            assert!(
                matches!(&error, FormatError::NotAPlainFile { path, what: "a folder" } if path.ends_with(name)),
                "{error}"
            );
        }
        assert!(snapshot(dir.path()) == before, "{name}");
    }
}

#[test]
fn a_footer_that_contradicts_the_index_is_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    (0..3).for_each(|task| scribe.task(0, task, 500));
    // Numbers 5 to 9 are missing, and no loss lists them.
    let late = scribe.stored(9, BEFORE, tensortap_abi::Role::Input, 0, &content(3, 500));
    scribe.writer.append(4, 10..11, &[late]).unwrap();
    scribe.writer.finish(&Footer::new(Status::Complete)).unwrap();
    assert!(!verify(&Dump::open(dir.path()).unwrap()).unwrap().is_ok(), "missing records are not reported");
    let done = repair(dir.path()).unwrap();
    assert!(
        done.changed
            && done.missing_records == 10
            && done.kept.iter().any(|path| path.ends_with("tensor_dump.idx.old")),
        "{done:?}"
    );
    let findings = verify(&Dump::open(dir.path()).unwrap()).unwrap();
    assert!(findings.is_ok(), "{:?}", findings.problems);
    assert!(!repair(dir.path()).unwrap().changed, "a second repair changes nothing");
}
