//! Selectors of the command line: one line of the input per selector, applied to a small dump.
#![no_main]

use std::fs;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tensortap::format::Dump;
use tensortap_query::{HashPrefix, RecordName, Selectors, ShapePattern, Slice, SortKey, ids};

const MANIFEST: &str = r#"{"schema_version": 1, "status": "complete", "bin_file": null, "tensors": [
  {"task_id": "0x0", "func_id": [0], "stage": "before_dispatch", "arg_index": 0, "role": "input", "dtype": "float32",
   "shape": [4, 2], "strides": [2, 1], "payload": "none", "scope": "lane 1", "task_name": "a, b", "arg_name": "x"},
  {"task_id": "0x100000002", "func_id": [0], "stage": "after_completion", "arg_index": 1, "role": "output", "dtype": "float32",
   "shape": [], "payload": "none"}]}"#;

fn dump() -> &'static Dump {
    static DUMP: OnceLock<Dump> = OnceLock::new();
    DUMP.get_or_init(|| {
        let dir = tensortap_fuzz::folder();
        fs::write(dir.path().join("tensor_dump.json"), MANIFEST).expect("the file can be written");
        Dump::open(dir.path()).expect("the manifest is valid")
    })
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or("");
    let list = |text: &str| ids::split_list(text).unwrap_or_default();
    let selectors = Selectors {
        task: list(line()).iter().filter_map(|word| ids::parse_task_choice(word).ok()).collect(),
        index: list(line()).iter().filter_map(|word| ids::parse_range(word).ok()).collect(),
        func: list(line()),
        scope: list(line()),
        arg: list(line()).iter().filter_map(|word| ids::parse_arg_choice(word).ok()).collect(),
        shape: list(line()).iter().filter_map(|word| ShapePattern::parse(word).ok()).collect(),
        hash: list(line()).iter().filter_map(|word| HashPrefix::parse(word).ok()).collect(),
        ..Selectors::default()
    };
    if let Ok(selection) = selectors.selection(dump(), &|_, _| {}) {
        assert!(selection.records(dump()).count() <= 2);
        let _ = (selection.why_empty(dump()), selection.doubt());
    }
    let _ = SortKey::parse(line());
    if let Ok(view) = Slice::parse(line()).and_then(|slice| slice.view(&[4, 2])) {
        assert!(view.numel() <= 8);
    }
    let _ = RecordName::parse(line());
    // An escaped name is parsed back as one word of a list.
    let name = line();
    if !name.is_empty() {
        assert_eq!(ids::split_list(&ids::escaped(name)).ok(), Some(vec![name.to_string()]));
    }
});
