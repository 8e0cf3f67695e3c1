//! Files next to a manifest: tasks, dependencies and names. The first byte of the input selects the file,
//! the rest is its content.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

const OURS: &str = r#"{"schema_version": 1, "status": "complete", "bin_file": null, "tensors": [{"task_id": "0x0",
    "stage": "before_dispatch", "arg_index": 0, "role": "input", "dtype": "float32", "shape": [1], "payload": "none"}]}"#;
const THEIRS: &str = r#"{"dump_args_level": 3, "bin_file": null, "args": [{"task_id": "0x0", "func_id": [-1],
    "stage": "before_dispatch", "arg_index": 0, "role": "input", "dtype": "FLOAT32", "shape": [1]}]}"#;

fuzz_target!(|input: &[u8]| {
    let Some((which, file)) = input.split_first() else { return };
    let (manifest, name) = match which % 3 {
        0 => (OURS, "graph.json"),
        1 => (THEIRS, "deps.json"),
        _ => (THEIRS, "name_map.json"),
    };
    let dir = tensortap_fuzz::folder();
    fs::write(dir.path().join("args_dump.json"), manifest).expect("the file can be written");
    fs::write(dir.path().join(name), file).expect("the file can be written");
    let dump = tensortap_format::Dump::open(dir.path()).expect("the manifest is valid");
    assert_eq!(dump.len(), 1, "a file next to the manifest affects no record");
    tensortap_fuzz::read_dump(dir.path());
});
