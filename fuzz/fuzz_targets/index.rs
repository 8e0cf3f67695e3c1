//! Indexes. If the first byte is odd, the rest of the input is the file. If it is even, the rest is the
//! content of frames with a valid header and valid checksums, so that later checks run. A dump that repair
//! reports as complete must be complete.
#![no_main]

use std::{fs, path::Path};

use libfuzzer_sys::fuzz_target;
use tensortap_format::{Dump, SEGMENTED_INDEX_VERSION, Tail, repair, verify};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

const RUN_ID: u64 = 77;

fuzz_target!(|input: &[u8]| {
    let Some((how, rest)) = input.split_first() else { return };
    let file = if how % 2 == 1 { rest.to_vec() } else { forged(rest) };
    let dir = tensortap_fuzz::folder();
    fs::write(dir.path().join("tensor_dump.idx"), file).expect("the file can be written");
    fs::write(dir.path().join("tensor_dump.bin"), [9; 64]).expect("the file can be written");
    tensortap_fuzz::read_dump(dir.path());
    check_repair(dir.path());
});

fn check_repair(dir: &Path) {
    if repair(dir).is_err() {
        return;
    }
    let dump = Dump::open(dir).expect("a repaired dump opens");
    assert_eq!(dump.tail(), Tail::Closed);
    let findings = verify(&dump).expect("the files do not change");
    // The forged payloads need not match the hashes in forged records.
    let wrong = findings
        .problems
        .iter()
        .find(|problem| !problem.what.contains("hashes to") && !problem.what.contains("overlap"));
    assert!(wrong.is_none(), "{wrong:?}");
    assert!(!repair(dir).expect("a complete dump can be repaired").changed);
}

/// An index with frames from the input: count, thread and length of the body in one byte each, lengths in
/// units of 8 bytes.
fn forged(mut input: &[u8]) -> Vec<u8> {
    let mut file = header();
    let mut seq = 0;
    while let [count, thread, words, rest @ ..] = input {
        let bytes = (usize::from(*words) * 8).min(rest.len() / 8 * 8);
        let (body, after) = rest.split_at(bytes);
        let is_footer = *thread == 255;
        let magic: &[u8; 4] = if is_footer { b"TEND" } else { b"TFRM" };
        let count = if is_footer { 0 } else { u64::from(*count) };
        let thread = if is_footer { 0 } else { u32::from(thread % 4) };
        frame(&mut file, magic, thread, count, seq, body);
        seq += count;
        input = after;
    }
    file
}

fn header() -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(b"TAPINDEX");
    header.extend(SEGMENTED_INDEX_VERSION.to_le_bytes());
    header.extend(72u32.to_le_bytes());
    header.extend(RUN_ID.to_le_bytes());
    header.extend(2u64.to_le_bytes());
    header.extend([0; 24]);
    let info = b"{}      ";
    let mut hash = Xxh3::with_seed(RUN_ID);
    hash.update(&header);
    hash.update(info);
    header.extend(hash.digest().to_le_bytes());
    header.extend(info);
    header
}

fn frame(file: &mut Vec<u8>, magic: &[u8; 4], thread: u32, count: u64, seq: u64, body: &[u8]) {
    let start = file.len();
    file.extend(magic);
    file.extend(u32::try_from(body.len()).expect("at most 2 KiB").to_le_bytes());
    file.extend(thread.to_le_bytes());
    file.extend(u32::try_from(count).expect("one byte").to_le_bytes());
    file.extend(seq.to_le_bytes());
    file.extend((seq + count).to_le_bytes());
    file.extend(body);
    let checksum = xxh3_64_with_seed(&file[start..], RUN_ID);
    file.extend(checksum.to_le_bytes());
}
