//! Every verb reads a dump with several payload files as it reads one with a single file.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::dumps::{Folder, flip};
use crate::json::document;

const RUN: &str = "run stream --param tasks=8 --param bytes=100000 --param lanes=1 --blocks 1 --device-memory 1GiB --dump-tensor \
                   --runtime host_build_graph --quiet";

/// The same run twice: `one` with one payload file, `three` with three.
fn both(options: &str) -> Folder {
    let folder = Folder::new();
    folder.good(&format!("{RUN} {options} --dump-files 1 --out one"));
    folder.good(&format!("{RUN} {options} --dump-files 3 --out three"));
    folder
}

/// The records of a dump without the position of their payloads.
fn records(folder: &Folder, dump: &str) -> Vec<Value> {
    let manifest = folder.manifest(dump);
    let mut records = manifest["tensors"].as_array().unwrap().clone();
    records.iter_mut().for_each(|record| record["bin_offset"] = Value::Null);
    records
}

fn payload_files(folder: &Folder, dump: &str) -> Vec<String> {
    let names = fs::read_dir(folder.path(dump)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".bin")).collect();
    names.sort();
    names
}

fn files_below(folder: &Folder, name: &str) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder.path(name)).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "npy"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn every_verb_gives_the_same_answers_for_one_and_for_several_files() {
    let folder = both("");
    assert_eq!(payload_files(&folder, "one"), ["tensor_dump.bin"]);
    let three = ["tensor_dump.1.bin", "tensor_dump.2.bin", "tensor_dump.bin"];
    assert_eq!(payload_files(&folder, "three"), three);
    let (one, many) = (folder.manifest("one"), folder.manifest("three"));
    assert_eq!((&one["schema_version"], &many["schema_version"]), (&json!(2), &json!(3)));
    assert_eq!(one["stored_bytes"], many["stored_bytes"]);
    assert!(records(&folder, "one") == records(&folder, "three"));

    for (line, key) in [("verify", "verdict"), ("verify", "checked"), ("stats", "total")] {
        let [one, many] =
            ["one", "three"].map(|dump| document(&folder.good(&format!("{line} {dump} --json"))));
        assert_eq!(one[key], many[key], "{line}");
    }
    let statistics = |dump: &str| {
        let all = document(&folder.good(&format!("stats {dump} --json")));
        let all = all["records"].as_array().unwrap().clone();
        all.iter().map(|record| record["stats"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(statistics("one"), statistics("three"));
    assert_eq!(document(&folder.good("diff three one --json"))["verdict"], "pass");
    assert_eq!(document(&folder.good("blame three --golden one --json"))["verdict"], "pass");
    assert_eq!(document(&folder.good("replay three --all --json"))["verdict"], "pass");
    for dump in ["one", "three"] {
        folder.good(&format!("export {dump} --format npy --out npy_{dump}"));
    }
    let exported = files_below(&folder, "npy_three");
    assert!(!exported.is_empty() && exported == files_below(&folder, "npy_one"));
    folder.good("report three -o report.html");
    folder.good("extract three --task 5 --out case");
    assert_eq!(payload_files(&folder, "case"), ["tensor_dump.bin"]);
    assert_eq!(document(&folder.good("replay case --json"))["verdict"], "pass");
    assert_eq!(document(&folder.good("repair three --json"))["changed"], false);
}

#[test]
fn a_record_is_shown_with_its_own_file_and_damage_is_found_there() {
    let folder = both("");
    let manifest = folder.manifest("three");
    let tensors = manifest["tensors"].as_array().unwrap();
    let place = |record: &Value| record["bin_offset"].as_u64().unwrap();
    let second = tensors.iter().position(|record| place(record) >> 44 == 1).unwrap();
    let offset = place(&tensors[second]) % (1 << 44);
    let shown = folder.good(&format!("show three {second}")).stdout;
    let size = "100,000 bytes";
    assert!(shown.contains(&format!("{size} at {offset} of tensor_dump.1.bin")), "{shown}");

    flip(&folder.path("three/tensor_dump.1.bin"), offset + 4567);
    let verified = folder.tensortap("verify three --json");
    let found = document(&verified);
    assert_eq!((verified.code, &found["verdict"]), (Some(1), &json!("bad")));
    let problems = found["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["index"] == second), "{problems:?}");

    fs::remove_file(folder.path("three/tensor_dump.2.bin")).unwrap();
    let refused = folder.tensortap("repair three");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("tensor_dump.2.bin"), "{refused:?}");
}

#[test]
fn limits_and_windows_apply_to_all_files_together() {
    for (options, kept) in
        [("--dump-max-bytes 450000", None), ("--dump-last 3", Some(3)), ("--no-dedup --dump-sync", Some(8))]
    {
        let folder = both(options);
        assert!(records(&folder, "one") == records(&folder, "three"), "{options}");
        let (one, many) = (folder.manifest("one"), folder.manifest("three"));
        for key in ["stored_bytes", "filtered_bytes", "filtered_records", "deduplicated_bytes"] {
            assert_eq!(one[key], many[key], "{options}: {key}");
        }
        let tasks: std::collections::BTreeSet<&str> =
            many["tensors"].as_array().unwrap().iter().map(|r| r["task_id"].as_str().unwrap()).collect();
        assert!(kept.is_none_or(|kept| kept == tasks.len()), "{options}: {tasks:?}");
        assert_eq!(document(&folder.good("verify three --json"))["verdict"], "ok", "{options}");
        assert!(payload_files(&folder, "three").len() > 1, "{options}");
    }
}
