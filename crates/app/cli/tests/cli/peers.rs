//! Dumps of the public project `simpler`: a small one written here, and real ones if they are available.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

use crate::dumps::Folder;
use crate::json::document;

/// A third-generation dump in `d`: a tensor without payload, a scalar, and a tensor with payload.
fn third(folder: &Folder) {
    let tensor = |stage: &str, role: &str, size: u64| {
        json!({"task_id": "0x0000000100000000", "func_id": [3], "arg_index": 0, "role": role, "stage": stage,
               "kind": "tensor", "dtype": "FLOAT32", "shape": [2], "strides": [1], "start_offset": 0, "numel": 2,
               "bin_offset": 0, "bin_size": size, "truncated": false, "overwritten": false})
    };
    let scalar = json!({"task_id": "0x0000000100000000", "func_id": [3], "arg_index": 1, "role": "input",
                        "stage": "before_dispatch", "kind": "scalar", "dtype": "INT32", "value": -3, "shape": [],
                        "strides": [], "arg_index_ambiguous": true});
    let manifest = json!({"run_dir": "args_dump", "dump_args_level": 3, "total_args": 3, "before_dispatch": 2,
                          "after_completion": 1, "bin_file": "args.bin",
                          "args": [tensor("before_dispatch", "input", 0), scalar, tensor("after_completion", "output", 8)]});
    let write =
        |name: &str, bytes: &[u8]| fs::write(folder.path("d").join(name), bytes).expect("it can be written");
    fs::create_dir(folder.path("d")).expect("a new folder");
    write("args_dump.json", manifest.to_string().as_bytes());
    write("args.bin", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    write("name_map.json", br#"{"level": 2, "callable_id_to_name": {"3": "softmax"}}"#);
}

#[test]
fn lists_shows_and_verifies_a_dump_of_another_project() {
    let folder = Folder::new();
    third(&folder);
    let list = document(&folder.good("list d --func softmax --json"));
    assert_eq!((&list["total"], &list["selected"]), (&json!(3), &json!(3)));
    assert_eq!(list["records"][1]["value"], -3);
    assert_eq!(list["records"][2]["dtype"], "float32");
    let table = folder.good("list d").stdout;
    assert!(table.contains("simpler, third generation"), "{table}");
    let verdict = document(&folder.good("verify d/args_dump.json --json"));
    assert_eq!((&verdict["verdict"], &verdict["unverifiable"]), (&json!("unverifiable"), &json!(3)));
    assert!(verdict["reason"].as_str().expect("why").contains("no content hashes"), "{verdict}");
    let said = folder.good("verify d").stdout;
    assert!(said.contains("d: UNVERIFIABLE\n") && said.contains("nothing could be checked: "), "{said}");
    let shown = folder.good("show d 1").stdout;
    assert!(shown.contains("arg_index_ambiguous"), "unknown keys are shown: {shown}");
}

#[test]
fn missing_information_is_not_printed_as_an_empty_name() {
    let folder = Folder::new();
    third(&folder);
    let head = |line: &str| folder.good(line).stdout.lines().next().map(str::to_owned);
    assert_eq!(head("list d").as_deref(), Some("d: simpler, third generation, level meta"));
    assert_eq!(head("stats d").as_deref(), Some("d: simpler, third generation"));
    let refused = folder.tensortap("replay d --all");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("does not name its scene")
            && refused.stderr.contains("--abi simpler --kernel NAME=LIB")
            && !refused.stderr.contains("``"),
        "{refused:?}"
    );
}

#[test]
fn the_content_of_a_dump_of_another_project_decides_its_level() {
    for (number, stored, level) in
        [(2, false, "meta"), (3, false, "meta"), (2, true, "full"), (3, true, "full")]
    {
        let folder = Folder::new();
        third(&folder);
        let path = folder.path("d/args_dump.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).expect("there")).expect("JSON");
        manifest["dump_args_level"] = number.into();
        if stored {
            manifest["args"][0]["bin_size"] = 8.into();
        }
        fs::write(&path, manifest.to_string()).expect("it can be written");
        let table = folder.good("list d").stdout;
        assert!(table.contains(&format!("generation, level {level}\n")), "{number}: {table}");
    }
}

#[test]
fn describes_a_dump_of_only_orchestration_arguments() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor --dump-args", "d");
    fs::create_dir(folder.path("lone")).expect("a new folder");
    fs::copy(folder.path("d/args_dump.json"), folder.path("lone/args_dump.json")).expect("it can be copied");
    for line in ["list lone", "list lone/args_dump.json"] {
        let refused = folder.tensortap(line);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("only contains the orchestration's own arguments"), "{refused:?}");
    }
}

#[test]
fn repair_rejects_a_dump_of_another_project_and_verify_finds_a_truncated_payload() {
    let folder = Folder::new();
    third(&folder);
    let refused = folder.tensortap("repair d");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("simpler, third generation"), "{refused:?}");
    fs::write(folder.path("d/args.bin"), [0; 5]).expect("it can be cut");
    let verdict = folder.tensortap("verify d");
    assert_eq!(verdict.code, Some(1), "{verdict:?}");
    assert!(verdict.stdout.contains("has only 5 bytes"), "{verdict:?}");
}

/// The folder of real dumps; `None`, with a notice, if it is missing.
pub fn peer_dumps() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/peer-dumps");
    let dir = env::var_os("TENSORTAP_PEER_DUMPS").map_or(default, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("skipped: no real dumps in {}; name their folder in TENSORTAP_PEER_DUMPS", dir.display());
    None
}

#[test]
fn lists_as_many_records_as_each_real_manifest_has() {
    let Some(peers) = peer_dumps() else { return };
    let folder = Folder::new();
    let mut seen = 0;
    for dir in fs::read_dir(peers).expect("readable").map(|entry| entry.expect("readable").path()) {
        if !dir.is_dir() {
            continue;
        }
        let inner = dir.join("args_dump");
        let dir = if inner.is_dir() { inner } else { dir };
        let mut files = fs::read_dir(&dir).expect("readable").map(|entry| entry.expect("readable").path());
        let manifest = files.find(|path| path.extension().is_some_and(|e| e == "json")).expect("a manifest");
        let said: Value = serde_json::from_slice(&fs::read(&manifest).expect("readable")).expect("JSON");
        let total = said.get("total_tensors").unwrap_or(&said["total_args"]);
        let list = document(&folder.good(&format!("list {} --json", manifest.display())));
        assert_eq!((&list["total"], &list["selected"]), (total, total), "{}", manifest.display());
        assert_eq!(json!(list["records"].as_array().map(Vec::len)), *total, "{}", manifest.display());
        seen += 1;
    }
    assert!(seen > 0, "there is a dump in the folder");
}
