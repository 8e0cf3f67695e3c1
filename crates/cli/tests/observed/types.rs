//! Bytes of an unknown type, read as told.

use std::process::Command;

use tensortap::abi::MemorySpace;

use crate::program::{Program, Range, on};
use crate::{common, document};

#[test]
fn bytes_of_an_unknown_type_are_read_as_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new(&dir.path().join("dump"));
    let buffer = program.buffer(&[0; 16], MemorySpace::Host);
    let values = [1.5_f32, -2.0, 0.25, 8.0];
    program.launch("set", on("one"), &[Range(buffer, 0, 16)], |memory| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        memory[buffer].iter_mut().zip(bytes).for_each(|(byte, value)| *byte = value);
    });
    let dump = program.end();
    let dump = dump.to_str().unwrap();
    let shown = document(dir.path(), &["show", dump, "set/after/0", "--as", "float32[2,2]"]);
    let record = &shown["record"];
    assert_eq!((&record["dtype"], &record["shape"]), (&"float32".into(), &serde_json::json!([2, 2])));
    assert_eq!(shown["values"]["elements"], serde_json::json!([1.5, -2.0, 0.25, 8.0]), "{shown:#}");
    std::fs::write(dir.path().join("types.toml"), "['s*']\n0 = 'float32'\n").unwrap();
    let stats = document(dir.path(), &["stats", dump, "--types", "types.toml", "--stage", "after"]);
    let record = &stats["records"][0];
    assert_eq!((&record["dtype"], &record["shape"]), (&"float32".into(), &serde_json::json!([4])));
    assert_eq!((&record["stats"]["min"], &record["stats"]["max"]), (&(-2.0).into(), &8.0.into()));
    let refused = |line: &[&str]| {
        let output = Command::new(common::executable()).current_dir(dir.path()).args(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["show", dump, "set/after/0", "--as", "float32[5]"]);
    assert!(said.contains("has 16 bytes, and float32[5] is 20"), "{said}");
    std::fs::write(dir.path().join("types.toml"), "[set]\n\n0 = 'float32[3]'\n").unwrap();
    let said = refused(&["list", dump, "--types", "types.toml"]);
    assert!(said.contains("types.toml, line 3") && said.contains("float32[3] is 12"), "{said}");
    std::fs::write(dir.path().join("types.toml"), "[set]\n0 = 'float33'\n").unwrap();
    assert!(refused(&["list", dump, "--types", "types.toml"]).contains("types.toml, line 2"));
}
