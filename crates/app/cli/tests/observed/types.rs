//! Bytes of unknown type, read with a given type.

use std::process::Command;

use tensortap::abi::MemorySpace;

use crate::program::{Program, Range, on};
use crate::{common, document};

#[test]
fn bytes_of_unknown_type_are_read_with_the_given_type() {
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
    let remedy = "has 16 bytes, but float32[5] has 20; choose sizes whose product is 4, or only `float32`";
    assert!(common::unwrapped(&said).contains(remedy), "{said}");
    std::fs::write(dir.path().join("types.toml"), "[set]\n\n0 = 'float32[3]'\n").unwrap();
    let said = refused(&["list", dump, "--types", "types.toml"]);
    assert!(said.contains("types.toml, line 3") && said.contains("float32[3] has 12"), "{said}");
    std::fs::write(dir.path().join("types.toml"), "[set]\n0 = 'float33'\n").unwrap();
    assert!(refused(&["list", dump, "--types", "types.toml"]).contains("types.toml, line 2"));
}

/// The fenced block of a page that contains a line, without the fences.
fn block<'p>(page: &'p str, fence: &str, containing: &str) -> &'p str {
    let blocks = page.split(fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.into_iter().find(|block| block.contains(containing)).expect("the page has it")
}

#[test]
fn the_example_of_the_documentation_works() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new(&dir.path().join("wrong"));
    let [x, y] = [0; 2].map(|_| program.buffer(&[0; 64], MemorySpace::Host));
    program.launch("saxpy", on("one"), &[Range(x, 0, 64), Range(y, 0, 64)], |memory| {
        let nan = f32::NAN.to_le_bytes();
        memory[y][..4].copy_from_slice(&nan);
    });
    program.end();
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/reference/recording-cuda.md"
    ))
    .unwrap();
    std::fs::write(dir.path().join("types.toml"), block(&page, "```toml\n", "[saxpy]")).unwrap();
    let lines = block(&page, "```console\n", "--types types.toml").lines();
    let lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix("$ tensortap ")).collect();
    assert_eq!(lines.len(), 3);
    let run = |line: &str| {
        let mut command = Command::new(common::executable());
        let output = command.current_dir(dir.path()).args(line.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap())
    };
    let [listed, noted] = run(lines[0]);
    assert!(listed.contains("float32") && listed.contains("4x4") && !listed.contains("uint8"), "{listed}");
    assert!(noted.contains("types.toml, line 6: the dump has no kernel `*gemm*`; it has saxpy"), "{noted}");
    assert!(run(lines[1])[0].contains("saxpy"), "the NaN is found");
    run(lines[2]);
    let files = std::fs::read_dir(dir.path().join("arrays")).unwrap().map(|file| file.unwrap().path());
    assert_eq!(files.filter(|file| file.extension().is_some_and(|ext| ext == "npy")).count(), 4);
    let shown = page.split("`show ").skip(1).filter_map(|rest| rest.split('`').next());
    let shown = shown.into_iter().find(|shown| shown.contains("--as ")).expect("the page has it");
    assert!(run(&format!("show wrong {shown}"))[0].contains("float32"));
}
