//! A full disk: errors are typed, and everything written before opens.

use std::{fs, path::Path, process::Command};

use crate::common::*;
use tensortap_abi::DType;
use tensortap_format::{Dump, DumpWriter, Footer, FormatError, IndexRecord, Status, Tail, repair, verify};

const FOLDER: &str = "TENSORTAP_FORMAT_FULL_DISK";
/// Maximum size of a file in half-kilobyte blocks, as the shell counts them.
const LIMIT_BLOCKS: u32 = 64;

/// The second half of the test below, in a process with a limit on file sizes.
#[test]
#[ignore = "started by a_full_disk_leaves_a_dump_that_opens"]
fn write_until_the_disk_is_full() {
    let Some(dir) = std::env::var_os(FOLDER) else { return };
    let mut writer = DumpWriter::create(Path::new(&dir), &info()).unwrap();
    let payload = writer.write_payload(0, &[1; 1 << 20]).unwrap_err();
    assert!(payload.is_disk_full() && payload.to_string().contains("tensor_dump.bin"), "{payload}");
    let mut records = 0;
    let error = loop {
        let scalar = IndexRecord::plain(&scalar_fields(records, 0, DType::UInt64, records));
        match writer.append(0, records..records + 1, &[scalar]) {
            Ok(()) => records += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_disk_full() && matches!(error, FormatError::Io { .. }), "{error}");
    fs::write(Path::new(&dir).join("count"), records.to_string()).unwrap();
    let ended = writer.finish(&Footer::new(Status::DumpFailed));
    assert!(ended.unwrap_err().is_disk_full());
}

#[test]
fn a_full_disk_leaves_a_dump_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    // An ignored signal stays ignored in the program that replaces the shell.
    let script = format!(
        "trap '' XFSZ; ulimit -f {LIMIT_BLOCKS}; exec \"$0\" --ignored --exact disk_full::write_until_the_disk_is_full"
    );
    let child = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let written: u64 = fs::read_to_string(dir.path().join("count")).unwrap().parse().unwrap();
    assert!(written > 100);
    let dump = Dump::open(dir.path()).unwrap();
    assert_eq!(dump.len(), written, "the dump contains every accepted record");
    match dump.tail() {
        Tail::Torn { lost_bytes, .. } => assert_eq!(lost_bytes, 0, "the incomplete frame was cut off"),
        other => panic!("{other:?}"),
    }
    repair(dir.path()).unwrap();
    assert!(verify(&Dump::open(dir.path()).unwrap()).unwrap().is_ok());
}
