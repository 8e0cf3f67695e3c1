//! Arguments of dispatches and of the orchestration. The first byte of the input selects the file and
//! whether a manifest is next to it; the rest is the file's content.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = r#"{"schema_version": 1, "status": "complete", "bin_file": null, "tensors": [{"task_id": "0x0",
    "stage": "before_dispatch", "arg_index": 0, "role": "input", "dtype": "float32", "shape": [1], "payload": "none"}]}"#;

fuzz_target!(|input: &[u8]| {
    let Some((which, file)) = input.split_first() else { return };
    let dir = tensortap_fuzz::folder();
    let name = if which & 1 == 0 { "kernel_args_dump.json" } else { "args_dump.json" };
    fs::write(dir.path().join(name), file).expect("the file can be written");
    if which & 2 != 0 {
        fs::write(dir.path().join("tensor_dump.json"), MANIFEST).expect("the file can be written");
    }
    tensortap_fuzz::read_dump(dir.path());
});
