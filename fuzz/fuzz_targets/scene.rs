//! Descriptions of scene folders: the input is `scene.toml`.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tensortap_scene_folder::Definition;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for runtimes in [None, Some(&["tensormap_and_ringbuffer"][..])] {
        match Definition::parse(text, Path::new("scene.toml"), runtimes) {
            Err(mistake) => {
                let lines = text.split('\n').count();
                assert!((1..=lines).contains(&mistake.line), "line {} of {lines}: {mistake}", mistake.line);
                assert!(!mistake.problem.is_empty() && !mistake.remedy.is_empty());
            }
            Ok(definition) => {
                for (tensor, _) in definition.args() {
                    for value in [0, 1, 7, u64::MAX] {
                        let _ = tensor.sizes(&|_| Some(value));
                    }
                }
            }
        }
    }
});
