//! The keyed hash of a dump's files.

use std::fs;
use std::path::Path;

use crate::common::*;
use tensortap_abi::{ModuleKind, ModuleRecord};
use tensortap_format::{Dump, FormatError, ImageWriter, IndexRecord, Status};

const KEY: [u8; 32] = [7; 32];
const IMAGE: &[u8] = b"an image";

/// A dump with a payload and a module.
fn dump(dir: &Path) -> String {
    let mut scribe = TestWriter::new(dir, &info());
    let hash = tree4k(IMAGE);
    let mut image = ImageWriter::create(dir, ModuleKind::Cubin, hash, IMAGE.len() as u64, (0, 0)).unwrap();
    image.write(IMAGE).unwrap();
    assert!(image.finish(false).unwrap());
    let module = ModuleRecord {
        id: 1,
        bytes: IMAGE.len() as u64,
        hash: hash.to_le_bytes(),
        flags: tensortap_abi::RECORD_EXTENDED | tensortap_abi::RECORD_HAS_PAYLOAD,
        image_kind: ModuleKind::Cubin as u8,
        ..ModuleRecord::default()
    };
    scribe.append(0, &[IndexRecord::plain(&module)]);
    scribe.task(1, 1, 5000);
    scribe.finish(Status::Complete);
    let modules = Dump::open(dir).unwrap().modules();
    modules[0].file().unwrap().display().to_string()
}

fn hash_of(dir: &Path) -> [u8; 32] {
    Dump::open(dir).unwrap().keyed_hash(&KEY).unwrap()
}

#[test]
fn every_file_that_decides_what_runs_counts_and_payloads_count_by_their_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    let image = dump(&dir);
    let whole = hash_of(&dir);
    assert_eq!(whole, hash_of(&dir));
    assert_ne!(whole, Dump::open(&dir).unwrap().keyed_hash(&[8; 32]).unwrap());
    // Opened before a change: what counts is the file at the time of the call.
    let opened = Dump::open(&dir).unwrap();
    for name in ["tensor_dump.idx", "tensor_dump.json", "graph.json", &image] {
        let (path, before) = (dir.join(name), fs::read(dir.join(name)).unwrap());
        let mut changed = before.clone();
        *changed.last_mut().unwrap() ^= 1;
        for other in [&changed[..], &before[..before.len() - 1], b""] {
            fs::write(&path, other).unwrap();
            assert_ne!(opened.keyed_hash(&KEY).unwrap(), whole, "{name}");
        }
        fs::remove_file(&path).unwrap();
        assert_ne!(opened.keyed_hash(&KEY).unwrap(), whole, "{name} is missing");
        fs::write(&path, before).unwrap();
        assert_eq!(opened.keyed_hash(&KEY).unwrap(), whole, "{name}");
    }
    fs::write(dir.join("tensor_dump.bin"), b"other payloads").unwrap();
    fs::write(dir.join("modules/unnamed.cubin"), b"no record names it").unwrap();
    assert_eq!(hash_of(&dir), whole);
    fs::write(dir.join("args_dump.json"), b"{}").unwrap();
    assert_ne!(opened.keyed_hash(&KEY).unwrap(), whole, "an added file");
}

#[test]
fn bytes_that_move_from_one_file_to_the_next_change_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    dump(folder.path());
    let opened = Dump::open(folder.path()).unwrap();
    let write = |manifest: &str, graph: &str| {
        fs::write(folder.path().join("tensor_dump.json"), manifest).unwrap();
        fs::write(folder.path().join("graph.json"), graph).unwrap();
        opened.keyed_hash(&KEY).unwrap()
    };
    assert_ne!(write("ab", "c"), write("a", "bc"));
}

#[test]
fn a_link_in_place_of_a_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    let image = dump(&dir);
    for name in ["graph.json", &image] {
        let opened = Dump::open(&dir).unwrap();
        let (path, elsewhere) = (dir.join(name), folder.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let refused = opened.keyed_hash(&KEY).unwrap_err();
        assert!(matches!(refused, FormatError::NotADump { .. } | FormatError::Io { .. }), "{refused}");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
    }
}
