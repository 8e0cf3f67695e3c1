//! Arguments of dispatches and of the orchestration: the first byte of the input says which file, and whether a manifest lies
//! beside it; the rest is the file.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = r#"{"schema_version": 1, "status": "complete", "bin_file": null, "tensors": [{"task_id": "0x0",
    "stage": "before_dispatch", "arg_index": 0, "role": "input", "dtype": "float32", "shape": [1], "payload": "none"}]}"#;

fuzz_target!(|input: &[u8]| {
    let Some((which, file)) = input.split_first() else { return };
    let dir = tensortap_fuzz::folder();
    let name = if which & 1 == 0 { "kernel_args_dump.json" } else { "args_dump.json" };
    fs::write(dir.path().join(name), file).expect("there is room for a file");
    if which & 2 != 0 {
        fs::write(dir.path().join("tensor_dump.json"), MANIFEST).expect("there is room for a file");
    }
    tensortap_fuzz::read_dump(dir.path());
});
