//! Cases: the whole input is the one file of a case. It is opened, and written again as it is, redacted and with references.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use tensortap::{Expect, ExtractConfig};

fuzz_target!(|input: &[u8]| {
    let dir = tensortap_fuzz::folder();
    let source = dir.path().join("case.safetensors");
    fs::write(&source, input).expect("there is room for a file");
    for (place, (expect, redact)) in
        [(Expect::Captured, None), (Expect::Captured, Some(1)), (Expect::Reference, None)].into_iter().enumerate()
    {
        let out = dir.path().join(format!("again-{place}.safetensors"));
        let config = ExtractConfig {
            source: source.clone(),
            task: None,
            steps: Vec::new(),
            out: out.clone(),
            expect,
            redact,
            allow_inexact: true,
            scene_folder: None,
            open_folder: None,
            kernels: Vec::new(),
            block_num: None,
            give_kernels: None,
            registry: tensortap::builtin(),
            program: "tensortap".into(),
        };
        let written = tensortap::extract(&config).is_ok();
        assert!(written || !out.exists(), "what is refused leaves nothing");
        // What was written is a case that opens.
        let again = ExtractConfig { source: out, out: dir.path().join(format!("twice-{place}.safetensors")), ..config };
        assert!(!written || tensortap::extract(&again).is_ok());
    }
});
