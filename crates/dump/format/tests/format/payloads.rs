//! Payload bytes: in parts, as a stream, shared by threads, and from files that changed.

use std::{fs, io::Read, os::unix::fs::symlink};

use crate::common::*;
use tensortap_format::{Dump, FormatError};

fn dump_of(bytes: usize) -> (tempfile::TempDir, Dump) {
    let dir = tempfile::tempdir().unwrap();
    finished(dir.path(), 2, bytes);
    let dump = Dump::open(dir.path()).unwrap();
    (dir, dump)
}

#[test]
fn chunks_and_stream_give_the_same_bytes_as_the_whole() {
    for bytes in [0, 1, 4095, 4096, 10_000] {
        let (_dir, dump) = dump_of(bytes);
        let record = dump.record(0).unwrap();
        assert_eq!(dump.payload(&record).unwrap(), content(0, bytes));
        for chunk in [0, 1, 4096, 1 << 20] {
            if chunk < 2 && bytes > 4096 {
                continue;
            }
            let mut gathered = Vec::new();
            let mut chunks = dump.payload_chunks(&record, chunk).unwrap();
            while let Some(piece) = chunks.next_chunk().unwrap() {
                assert!(!piece.is_empty() && piece.len() <= chunk.max(1));
                gathered.extend_from_slice(piece);
            }
            assert_eq!(gathered, content(0, bytes), "chunks of {chunk}");
            assert!(chunks.next_chunk().unwrap().is_none(), "no piece follows the last one");
        }
        let mut streamed = Vec::new();
        dump.payload_reader(&record).unwrap().read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed, content(0, bytes));
    }
}

#[test]
fn memory_is_reused_for_payloads_of_any_size() {
    let (_small_dir, small) = dump_of(10);
    let (_large_dir, large) = dump_of(5_000);
    let mut buffer = Vec::new();
    for (dump, bytes) in [(&large, 5_000), (&small, 10), (&large, 5_000)] {
        dump.payload_into(&dump.record(0).unwrap(), &mut buffer).unwrap();
        assert_eq!(buffer, content(0, bytes));
    }
    assert_eq!(buffer.capacity(), 5_000);
}

#[test]
fn threads_share_a_dump() {
    let (_dir, dump) = dump_of(50_000);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    dump.records().map(|r| dump.payload(&r.unwrap()).map_or(0, |p| p.len())).sum::<usize>()
                })
            })
            .collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 4 * 50_000);
        }
    });
}

#[test]
fn a_file_truncated_during_a_read_is_an_error_with_both_sizes() {
    let (dir, dump) = dump_of(10_000);
    let record = dump.record(0).unwrap();
    let mut chunks = dump.payload_chunks(&record, 4096).unwrap();
    let mut stream = dump.payload_reader(&record).unwrap();
    assert_eq!(chunks.next_chunk().unwrap().unwrap().len(), 4096);
    stream.read_exact(&mut [0; 100]).unwrap();
    let bin = fs::OpenOptions::new().write(true).open(dir.path().join("tensor_dump.bin")).unwrap();
    bin.set_len(6_000).unwrap();
    let error = chunks.next_chunk().unwrap_err();
    assert!(
        matches!(error, FormatError::PayloadShort { bytes: 10_000, have: 6_000, .. }),
        "no short piece: {error}"
    );
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("has only 6000 bytes"), "no short stream: {error}");
}

#[test]
fn a_payload_file_that_is_a_link_is_rejected() {
    let (dir, dump) = dump_of(100);
    let bin = dir.path().join("tensor_dump.bin");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(&bin, elsewhere.path().join("secret")).unwrap();
    symlink(elsewhere.path().join("secret"), &bin).unwrap();
    let error = dump.payload(&dump.record(0).unwrap()).unwrap_err();
    assert!(matches!(error, FormatError::NotADump { .. }), "{error}");
    assert!(error.to_string().contains("symbolic link"), "{error}");
}
