//! Choosing, creating and finding dump folders.

use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use crate::common::*;
use tensortap_format::{Dump, DumpWriter, FormatError, RunInfo, choose_dir, find_newest, timestamp};

#[test]
fn a_taken_name_gets_a_number() {
    let root = tempfile::tempdir().unwrap();
    let outputs = root.path().join("outputs");
    let started = UNIX_EPOCH + Duration::from_secs(1_776_248_100);
    let names: Vec<String> = (0..3)
        .map(|_| {
            choose_dir(None, &outputs, started).unwrap().file_name().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        names,
        ["tensor_dump_20260415_101500", "tensor_dump_20260415_101500_2", "tensor_dump_20260415_101500_3"]
    );
}

#[test]
fn times_of_all_kinds_of_years_are_right() {
    let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(at(0), "1970-01-01T00:00:00.000000000Z");
    assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000000Z");
    assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000000Z");
    assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.000000000Z");
    assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59.000000000Z");
    assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000000Z");
}

#[test]
fn an_explicit_folder_must_be_new_or_empty() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    assert_eq!(choose_dir(Some(&dir), Path::new("unused"), UNIX_EPOCH).unwrap(), dir);
    assert_eq!(choose_dir(Some(&dir), Path::new("unused"), UNIX_EPOCH).unwrap(), dir);
    fs::write(dir.join("x"), "").unwrap();
    let refused = choose_dir(Some(&dir), Path::new("unused"), UNIX_EPOCH);
    assert!(matches!(refused, Err(FormatError::OutputNotEmpty { .. })));
}

#[test]
fn a_dump_never_overwrites_another() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 8);
    let index = fs::read(dir.path().join("tensor_dump.idx")).unwrap();
    assert!(matches!(DumpWriter::create(dir.path(), &info()), Err(FormatError::Exists { .. })));
    assert!(fs::read(dir.path().join("tensor_dump.idx")).unwrap() == index);
}

#[test]
fn a_dump_is_found_by_its_files_its_folder_and_a_parent_folder() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("outputs/run");
    finished(&dir, 1, 8);
    let names = ["outputs/run/tensor_dump.json", "outputs/run/tensor_dump.bin", "outputs/run", "outputs", ""];
    for name in names {
        let dump = Dump::open(&root.path().join(name)).unwrap();
        assert_eq!(dump.dir(), dir, "{name}");
    }
    assert!(matches!(Dump::open(&root.path().join("nowhere")), Err(FormatError::Io { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Dump::open(empty.path()), Err(FormatError::NoDump { .. })));
}

#[test]
fn the_newest_dump_is_the_one_started_last_whatever_its_name() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(find_newest(&root.path().join("absent")), Err(FormatError::NoDump { .. })));
    for (name, second) in [("z", 1), ("a", 5), ("m", 3), ("same_9", 5), ("same_10", 5)] {
        let started_at = timestamp(UNIX_EPOCH + Duration::from_secs(second));
        drop(DumpWriter::create(&root.path().join(name), &RunInfo { started_at, ..info() }).unwrap());
    }
    fs::create_dir(root.path().join("zz_no_dump")).unwrap();
    fs::create_dir(root.path().join("zz_damaged")).unwrap();
    fs::write(root.path().join("zz_damaged/tensor_dump.idx"), "no").unwrap();
    assert_eq!(find_newest(root.path()).unwrap(), root.path().join("same_10"));
}
