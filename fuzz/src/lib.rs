//! Shared parts of the fuzz targets: folders in memory, and functions that read everything that a file
//! refers to.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use tempfile::TempDir;
use tensortap_format::{Dump, verify};
use tensortap_interchange::NamedArrays;

/// A new folder, in memory if the system has a memory file system.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("the folder can be created")
}

/// Opens a dump and reads everything. Only the absence of panics and hangs matters.
pub fn read_dump(dir: &Path) {
    let Ok(dump) = Dump::open(dir) else { return };
    let mut payload = Vec::new();
    for record in dump.records() {
        let record = record.expect("the files do not change");
        let _ = dump.payload_into(&record, &mut payload);
        let _ = (serde_json::to_string(&record), record.to_string(), record.value(), record.is_contiguous());
        let _ = dump.unknown(&record);
    }
    assert_eq!(dump.records().count() as u64, dump.len());
    let _ = (dump.tasks(), dump.edges(), dump.uncaptured(), dump.dispatches());
    let _ = verify(&dump);
}

/// Opens a file of arrays under a name and reads everything.
pub fn read_arrays(name: &str, bytes: &[u8]) {
    let dir = folder();
    let path = dir.path().join(name);
    fs::write(&path, bytes).expect("the file can be written");
    let Ok(opened) = NamedArrays::open(&path) else { return };
    for array in opened.arrays() {
        if let Ok(content) = array.content() {
            assert_eq!(content.len() as u64, array.bytes());
        }
    }
}
