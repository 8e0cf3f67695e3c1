//! Dumps of older versions stay readable. `tests/data` has dumps that version 2 wrote: of a scene with 3
//! tasks, and of a C program with a task inside of another and an allocation.

use std::fs;
use std::path::{Path, PathBuf};

use tensortap_format::{Dump, DumpFormat, FormatError, Tail, TaskKey, repair, verify};

/// A copy of a dump in `tests/data`.
fn copy_of(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    for file in fs::read_dir(&from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let path = dir.path().to_owned();
    (dir, path)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Checks what the C program recorded.
fn check_program(dump: &Dump) {
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    let contents: Vec<_> = records.iter().map(|record| floats(&dump.payload(record).unwrap())).collect();
    let x: Vec<f32> = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    assert_eq!(contents, [x.clone(), x.iter().map(|x| 2.0 * x).collect()]);
    let tasks = dump.tasks().unwrap();
    assert_eq!((tasks.len(), tasks.renewed().len()), (2, 2));
    let details = dump.details().unwrap();
    let inner = details.of(TaskKey { step: 0, task_id: 2 });
    assert_eq!((inner.parent, inner.queue, inner.source), (Some(1), Some("stream 1"), Some(("old.c", 20))));
}

#[test]
fn dumps_of_version_2_open_and_verify() {
    let (_scene, scene) = copy_of("version_2_scene");
    let dump = Dump::open(&scene).unwrap();
    assert_eq!((dump.format(), dump.tail(), dump.len()), (DumpFormat::Indexed, Tail::Closed, 9));
    let findings = verify(&dump).unwrap();
    assert_eq!((findings.word(), findings.checked), ("ok", 9), "{:#?}", findings.problems);

    let (_program, program) = copy_of("version_2_program");
    let dump = Dump::open(&program).unwrap();
    check_program(&dump);
    let findings = verify(&dump).unwrap();
    assert_eq!((findings.word(), findings.checked), ("ok", 2), "{:#?}", findings.problems);
}

#[test]
fn a_torn_dump_of_version_2_is_repaired() {
    let (_dir, dir) = copy_of("version_2_program");
    let index = dir.join("tensor_dump.idx");
    let bytes = fs::read(&index).unwrap();
    // Cut within the footer.
    fs::write(&index, &bytes[..bytes.len() - 40]).unwrap();
    for file in ["tensor_dump.json", "graph.json"] {
        fs::remove_file(dir.join(file)).unwrap();
    }
    assert!(matches!(Dump::open(&dir).unwrap().tail(), Tail::Torn { .. }));
    repair(&dir).unwrap();
    let dump = Dump::open(&dir).unwrap();
    check_program(&dump);
    assert_eq!(verify(&dump).unwrap().word(), "ok");
}

#[test]
fn versions_other_than_2_to_4_are_refused_by_number() {
    let (_dir, dir) = copy_of("version_2_scene");
    let index = dir.join("tensor_dump.idx");
    let bytes = fs::read(&index).unwrap();
    fs::remove_file(dir.join("tensor_dump.json")).unwrap();
    for version in [0_u32, 1, 5, u32::MAX] {
        let mut changed = bytes.clone();
        changed[8..12].copy_from_slice(&version.to_le_bytes());
        fs::write(&index, changed).unwrap();
        match Dump::open(&dir) {
            Err(FormatError::Version { found, known: 4, .. }) => assert_eq!(found, version),
            other => panic!("{:?}", other.map(|dump| dump.len())),
        }
    }
}
