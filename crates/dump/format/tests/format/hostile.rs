//! Damaged and forged files cause errors, and never a panic, a hang or unbounded memory.

use std::{fs, os::unix::fs::FileExt, path::Path};

use crate::common::*;
use proptest::{prelude::*, sample::Index};
use tensortap_abi::{RECORD_HAS_PAYLOAD, RECORD_HAS_STATS, RECORD_TRUNCATED, Role, TensorRecord};
use tensortap_format::{Dump, FormatError, Status, Tail, repair, verify};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};
use zerocopy::IntoBytes;

/// Reads everything. The results do not matter.
fn read_all(dir: &Path) {
    let Ok(dump) = Dump::open(dir) else { return };
    for record in dump.records().flatten() {
        let _ = dump.payload(&record);
        let _ = serde_json::to_string(&record);
        let _ = (record.to_string(), record.is_contiguous(), record.value());
    }
    let _ = (
        dump.tasks(),
        dump.edges(),
        dump.uncaptured(),
        dump.dispatches(),
        dump.orchestration_args(),
        verify(&dump),
    );
}

/// An index built from the documented byte tables, with valid checksums around arbitrary content.
struct ForgedIndex {
    run_id: u64,
    bytes: Vec<u8>,
}

impl ForgedIndex {
    fn new(info_json: &str) -> ForgedIndex {
        let run_id = 77;
        let mut padded = info_json.as_bytes().to_vec();
        padded.resize(padded.len().next_multiple_of(8), b' ');
        let mut header = Vec::new();
        header.extend(b"TAPINDEX");
        header.extend(2u32.to_le_bytes());
        header.extend(u32::try_from(64 + padded.len()).unwrap().to_le_bytes());
        header.extend(u64::to_le_bytes(run_id));
        header.extend((info_json.len() as u64).to_le_bytes());
        header.extend([0; 24]);
        let mut hash = Xxh3::with_seed(run_id);
        hash.update(&header);
        hash.update(&padded);
        header.extend(hash.digest().to_le_bytes());
        header.extend(padded);
        ForgedIndex { run_id, bytes: header }
    }

    fn frame(&mut self, magic: &[u8; 4], thread: u32, count: u32, seq: [u64; 2], body: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend(magic);
        self.bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        self.bytes.extend(thread.to_le_bytes());
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend(seq[0].to_le_bytes());
        self.bytes.extend(seq[1].to_le_bytes());
        self.bytes.extend(body);
        let checksum = xxh3_64_with_seed(&self.bytes[start..], self.run_id);
        self.bytes.extend(checksum.to_le_bytes());
    }

    fn records(mut self, count: u32, body: &[u8]) -> ForgedIndex {
        self.frame(b"TFRM", 0, count, [0, count.into()], body);
        self
    }

    fn write(&self, dir: &Path) {
        fs::write(dir.join("tensor_dump.idx"), &self.bytes).unwrap();
    }
}

/// A tensor with one dimension in the index's form.
fn encoded(fields: &TensorRecord) -> Vec<u8> {
    let mut bytes = fields.as_bytes()[..64].to_vec();
    bytes.extend(fields.shape[0].to_le_bytes());
    bytes.extend(fields.strides[0].to_le_bytes());
    bytes
}

fn stored_fields() -> TensorRecord {
    let mut fields = tensor_fields(1, BEFORE, Role::Input, 0, &[9; 16]);
    fields.flags |= RECORD_HAS_PAYLOAD;
    fields
}

#[test]
fn a_dump_built_only_from_the_byte_tables_opens() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tensor_dump.bin"), [9; 16]).unwrap();
    ForgedIndex::new("{\"scene\": \"forged\", \"new\": 1}")
        .records(1, &encoded(&stored_fields()))
        .write(dir.path());
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!((dump.info().scene.as_str(), dump.len()), ("forged", 1));
    assert_eq!(dump.payload(&dump.record(0).unwrap()).unwrap(), [9; 16]);
    repair(dir.path()).unwrap();
    assert!(verify(&Dump::open(dir.path()).unwrap()).unwrap().is_ok());
}

#[test]
fn an_invalid_record_ends_the_dump_at_its_position() {
    let good = stored_fields();
    let with = |change: fn(&mut TensorRecord)| {
        let mut fields = good;
        change(&mut fields);
        encoded(&fields)
    };
    let cases: Vec<(&str, u32, Vec<u8>)> = vec![
        ("kind 0", 1, with(|f| f.kind = 0)),
        ("kind piece", 1, with(|f| f.kind = 6)),
        ("stage", 1, with(|f| f.stage = 3)),
        ("role", 1, with(|f| f.role = 0)),
        ("dtype", 1, with(|f| f.dtype = 99)),
        ("dimensions", 1, with(|f| f.ndims = 200)),
        ("too few bytes", 1, with(|f| f.ndims = 8)),
        ("memory space", 1, with(|f| f.space = 4)),
        ("bytes stored cut", 1, with(|f| f.flags |= RECORD_TRUNCATED)),
        ("huge", 1, with(|f| f.shape[0] = u64::MAX)),
        ("offset", 1, with(|f| f.payload_pos = u64::MAX - 3)),
        ("stride", 1, with(|f| f.strides[0] = i64::MIN)),
        ("statistics cut", 1, with(|f| f.flags = RECORD_HAS_STATS)),
        ("trailing bytes", 1, [encoded(&good), vec![0; 8]].concat()),
        ("count too low", 0, encoded(&good)),
        ("all zero", 1, vec![0; 80]),
    ];
    for (name, count, body) in cases {
        let dir = tempfile::tempdir().unwrap();
        let forgery = ForgedIndex::new("{}").records(1, &encoded(&good));
        let end = forgery.bytes.len() as u64;
        let mut forgery = forgery;
        forgery.frame(b"TFRM", 0, count, [1, 2], &body);
        forgery.write(dir.path());
        let dump = Dump::open(dir.path()).unwrap();
        assert_eq!(dump.len(), 1, "{name}");
        assert!(
            matches!(dump.tail(), Tail::Torn { offset, .. } if offset == end),
            "{name}: {:?}",
            dump.tail()
        );
    }
}

#[test]
fn contradicting_frames_end_the_dump_at_their_position() {
    let body = encoded(&stored_fields());
    for (thread, count, seq, records) in
        [(0, 1, [0, 1], 1), (0, 1, [5, 4], 1), (0, 3, [1, 4], 1), (0, u32::MAX, [1, 2], 1), (9, 1, [3, 4], 2)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut forgery = ForgedIndex::new("{}").records(1, &body);
        forgery.frame(b"TFRM", thread, count, seq, &body);
        forgery.write(dir.path());
        assert_eq!(
            Dump::open(dir.path()).unwrap().len(),
            records,
            "thread {thread}, {count} records, {seq:?}"
        );
    }
}

#[test]
fn a_forged_length_allocates_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut forgery = ForgedIndex::new("{\"dump_args\": true}");
    forgery.bytes.extend(b"TFRM");
    forgery.bytes.extend((16u32 << 20).to_le_bytes());
    forgery.bytes.extend([0; 24]);
    forgery.write(dir.path());
    assert!(Dump::open(dir.path()).unwrap().is_empty());
    let path = dir.path().join("tensor_dump.idx");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
    let dump = Dump::open(dir.path()).unwrap();
    assert!(matches!(dump.tail(), Tail::Torn { lost_bytes, .. } if lost_bytes > 1 << 41));
    assert!(repair(dir.path()).unwrap().cut_bytes > 1 << 41);
}

#[test]
fn a_payload_larger_than_memory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = 1u64 << 43;
    let mut fields = stored_fields();
    fields.shape[0] = bytes;
    ForgedIndex::new("{}").records(1, &encoded(&fields)).write(dir.path());
    let bin = fs::File::create(dir.path().join("tensor_dump.bin")).unwrap();
    assert!(matches!(payload_error(dir.path()), FormatError::PayloadShort { .. }));
    bin.set_len(bytes).unwrap();
    bin.write_all_at(b"end", bytes - 3).unwrap();
    // More address space than any process has.
    fields.shape[0] = 1 << 50;
    ForgedIndex::new("{}").records(1, &encoded(&fields)).write(dir.path());
    if bin.set_len(1 << 50).is_ok() {
        assert!(matches!(payload_error(dir.path()), FormatError::NoMemory { .. }));
    } else {
        assert!(matches!(payload_error(dir.path()), FormatError::PayloadShort { .. }));
    }
}

fn payload_error(dir: &Path) -> FormatError {
    let dump = Dump::open(dir).unwrap();
    dump.payload(&dump.record(0).unwrap()).unwrap_err()
}

#[test]
fn a_payload_file_outside_the_folder_is_rejected() {
    for name in ["../secret", "/etc/passwd", "a/b", "", ".", "..", "a\\u0000b", "./x", "x/"] {
        let dir = tempfile::tempdir().unwrap();
        ForgedIndex::new(&format!("{{\"bin_file\": \"{name}\"}}")).write(dir.path());
        let refused = Dump::open(dir.path());
        assert!(matches!(refused, Err(FormatError::BadBinFile { .. })), "{name}");
        assert!(matches!(repair(dir.path()), Err(FormatError::BadBinFile { .. })), "{name}");
    }
}

#[test]
fn a_pipe_instead_of_a_file_is_rejected_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 1, 16);
    let bin = dir.path().join("tensor_dump.bin");
    fs::remove_file(&bin).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &bin, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(payload_error(dir.path()), FormatError::NotADump { .. }));
}

#[test]
fn a_newer_version_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut forgery = ForgedIndex::new("{\"dump_args\": true}");
    forgery.bytes[8] = 5;
    forgery.write(dir.path());
    assert!(matches!(Dump::open(dir.path()), Err(FormatError::Version { found: 5, known: 4, .. })));
}

#[test]
fn deeply_nested_run_information_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let deep = format!("{{\"args\": [{}{}]}}", "[".repeat(100_000), "]".repeat(100_000));
    ForgedIndex::new(&deep).write(dir.path());
    assert!(matches!(Dump::open(dir.path()), Err(FormatError::HeaderDamaged { .. })));
}

#[test]
fn a_flipped_bit_never_causes_a_panic_and_repair_restores_the_rest() {
    let source = tempfile::tempdir().unwrap();
    finished(source.path(), 1, 40);
    let index = fs::read(source.path().join("tensor_dump.idx")).unwrap();
    for place in 0..index.len() {
        let dir = tempfile::tempdir().unwrap();
        let mut damaged = index.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(dir.path().join("tensor_dump.idx"), &damaged).unwrap();
        fs::copy(source.path().join("tensor_dump.bin"), dir.path().join("tensor_dump.bin")).unwrap();
        read_all(dir.path());
        match Dump::open(dir.path()) {
            // Only a damaged header may keep a dump from opening.
            Err(_) => assert!(place < 64 + 2048, "byte {place}"),
            Ok(dump) => {
                assert!(!verify(&dump).unwrap().is_ok(), "byte {place} was flipped without any finding")
            }
        }
        if repair(dir.path()).is_ok() {
            let dump = Dump::open(dir.path()).unwrap();
            let verdict = verify(&dump).unwrap();
            assert!(verdict.is_ok(), "byte {place}: {:?}", verdict.problems);
            assert!(!repair(dir.path()).unwrap().changed, "byte {place}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_after_a_valid_header_are_handled(
        count in 0u32..6,
        mut body in prop::collection::vec(any::<u8>(), 0..700),
        kinds in prop::collection::vec((any::<Index>(), 0u8..12), 0..4),
        good_first in any::<bool>(),
    ) {
        body.truncate(body.len() / 8 * 8);
        if body.len() > 64 {
            // Likely kinds and tags, so that later checks run too.
            for (place, kind) in kinds {
                let at = place.index(body.len() - 64) / 16 * 16;
                body[at + 56..at + 64].copy_from_slice(&[kind, 1, 1, 2, 1, 1, 0, 0]);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let mut forgery = ForgedIndex::new("{\"dump_args\": true}");
        if good_first {
            forgery = forgery.records(1, &encoded(&stored_fields()));
        }
        forgery.frame(b"TFRM", 1, count, [0, count.into()], &body);
        forgery.frame(b"TEND", 0, 0, [0, 0], b"{\"status\":\"complete\",\"losses\":[]}       ");
        forgery.write(dir.path());
        read_all(dir.path());
        if repair(dir.path()).is_ok() {
            let verdict = verify(&Dump::open(dir.path()).unwrap()).unwrap();
            prop_assert!(verdict.is_ok(), "{:?}", verdict.problems);
        }
    }

    #[test]
    fn any_number_of_changed_bytes_is_handled(
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20),
        cut in prop::option::of(any::<Index>()),
        bin_bytes in 0u64..500,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut scribe = TestWriter::new(dir.path(), &info());
        scribe.task(0, 0, 100);
        scribe.task(1, 1, 100);
        scribe.finish(Status::Complete);
        let path = dir.path().join("tensor_dump.idx");
        let mut index = fs::read(&path).unwrap();
        let header = index.windows(4).position(|w| w == b"TFRM").unwrap();
        let frames = index.len() - header;
        for (place, byte) in changes {
            index[header + place.index(frames)] = byte;
        }
        if let Some(cut) = cut {
            index.truncate(header + cut.index(frames));
        }
        fs::write(&path, &index).unwrap();
        let bin = fs::OpenOptions::new().write(true).open(dir.path().join("tensor_dump.bin")).unwrap();
        bin.set_len(bin_bytes).unwrap();
        read_all(dir.path());
        if let Err(refused) = repair(dir.path()) {
            // The manifest has more records than the index, and payloads are missing: neither is dropped
            // for the other.
            prop_assert!(matches!(refused, FormatError::NotRepairable { .. }), "{}", refused);
            prop_assert_eq!(Dump::open(dir.path()).unwrap().len(), 6);
            return Ok(());
        }
        let dump = Dump::open(dir.path()).unwrap();
        prop_assert_eq!(dump.tail(), Tail::Closed);
        let problems = verify(&dump).unwrap().problems;
        prop_assert!(problems.is_empty(), "{:?}", problems);
    }
}
