//! Manifests of every generation: the input is the file.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let dir = tensortap_fuzz::folder();
    fs::write(dir.path().join("tensor_dump.json"), input).expect("the file can be written");
    for bin in ["tensor_dump.bin", "args.bin"] {
        fs::write(dir.path().join(bin), [7; 64]).expect("the file can be written");
    }
    tensortap_fuzz::read_dump(dir.path());
});
