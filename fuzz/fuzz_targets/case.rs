//! Cases: the input is the single file of a case. The target opens it and writes it again unchanged,
//! redacted, and with references.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use tensortap::{ExpectedSource, ExtractConfig};

fuzz_target!(|input: &[u8]| {
    let dir = tensortap_fuzz::folder();
    let source = dir.path().join("case.safetensors");
    fs::write(&source, input).expect("the file can be written");
    for (place, (expect, redact)) in [
        (ExpectedSource::Captured, None),
        (ExpectedSource::Captured, Some(1)),
        (ExpectedSource::Reference, None),
    ]
    .into_iter()
    .enumerate()
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
            load_kernels: None,
            registry: tensortap::builtin(),
            program: "tensortap".into(),
        };
        let written = tensortap::extract(&config).is_ok();
        assert!(written || !out.exists(), "a rejected case leaves no files");
        // The written file is a case that opens.
        let again = ExtractConfig {
            source: out,
            out: dir.path().join(format!("twice-{place}.safetensors")),
            ..config
        };
        assert!(!written || tensortap::extract(&again).is_ok());
    }
});
