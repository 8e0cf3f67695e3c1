use std::fs;

use serde_json::Value;

use crate::dumps::{Folder, cut, vector_example};
use crate::json::{document, keys};

fn total(folder: &Folder) -> Value {
    document(&folder.good("list d --json"))["total"].clone()
}

/// Checks that every reader considers the dump complete.
fn assert_complete(folder: &Folder) {
    folder.good("verify d");
    assert_eq!(document(&folder.good("list d --json"))["state"], "closed");
    let again = document(&folder.good("repair d --json"));
    assert_eq!(again["changed"], false, "a second repair does nothing: {again}");
}

#[test]
fn does_not_change_a_complete_dump() {
    let folder = vector_example();
    let before = fs::read(folder.path("d/tensor_dump.idx")).unwrap();
    assert_eq!(folder.good("repair d").stdout, "d: no repair needed, 18 records, complete\n");
    assert_eq!(fs::read(folder.path("d/tensor_dump.idx")).unwrap(), before);
}

#[test]
fn reports_records_with_changed_bytes() {
    let folder = vector_example();
    let path = folder.path("d/tensor_dump.bin");
    let mut payloads = fs::read(&path).unwrap();
    payloads[0] ^= 1;
    fs::write(&path, &payloads).unwrap();
    let named = |problem: &Value| problem["index"].as_u64().expect("a record");
    let verified = document(&folder.tensortap("verify d --json"));
    let bad: Vec<u64> = verified["problems"].as_array().unwrap().iter().map(named).collect();
    assert!(!bad.is_empty(), "{verified}");
    let said = folder.tensortap("repair d");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.starts_with("d: cannot be repaired, 18 records"), "{said:?}");
    assert!(said.stdout.contains(&format!("record {} (task ", bad[0])), "{said:?}");
    // Repairs what is possible, and still reports the rest.
    fs::remove_file(folder.path("d/graph.json")).unwrap();
    let said = folder.tensortap("repair d --json");
    let report = document(&said);
    assert_eq!((said.code, &report["verdict"], &report["changed"]), (Some(1), &"bad".into(), &true.into()));
    let problems: Vec<u64> = report["problems"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(problems, bad);
    assert!(folder.path("d/graph.json").is_file());
    assert_eq!(fs::read(&path).unwrap(), payloads, "payloads stay as they are");
}

#[test]
fn cuts_and_closes_a_torn_index() {
    let folder = vector_example();
    let length = fs::metadata(folder.path("d/tensor_dump.idx")).unwrap().len();
    cut(&folder.path("d/tensor_dump.idx"), length / 4);
    fs::remove_file(folder.path("d/tensor_dump.json")).unwrap();
    let left = total(&folder);
    let said = folder.good("repair d").stdout;
    for part in [
        "d: repaired, ",
        ", killed\n",
        "of the index",
        "wrote the end of the index, tensor_dump.json and graph.json",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(folder.manifest("d")["total_tensors"], left);
    assert_eq!(folder.manifest("d")["status"], "killed");
    assert_complete(&folder);
}

#[test]
fn prefers_a_complete_manifest_to_a_truncated_index() {
    let folder = vector_example();
    let (before, manifest) = (total(&folder), fs::read(folder.path("d/tensor_dump.json")).unwrap());
    let index = fs::File::options().write(true).open(folder.path("d/tensor_dump.idx")).unwrap();
    index.set_len(1500).unwrap();
    drop(index);
    assert_eq!(total(&folder), before, "every record is still read");
    let said = folder.good("repair d").stdout;
    for part in [
        "d: repaired, 18 records, complete\n",
        "read from tensor_dump.json",
        "kept as d/tensor_dump.idx.old\n",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(fs::read(folder.path("d/tensor_dump.json")).unwrap(), manifest);
    assert_eq!(fs::metadata(folder.path("d/tensor_dump.idx.old")).unwrap().len(), 1500);
    assert_eq!(total(&folder), before);
    folder.good("verify d");
    folder.good("blame d --reference");
}

#[test]
fn marks_missing_payloads_as_lost_and_counts_them() {
    let folder = vector_example();
    cut(&folder.path("d/tensor_dump.bin"), 1);
    let done = document(&folder.good("repair d --json"));
    assert_eq!(
        keys(&done),
        [
            "changed",
            "cut_bytes",
            "dump",
            "kept",
            "lost_payloads",
            "missing_records",
            "more_problems",
            "problems",
            "records",
            "set_aside",
            "status",
            "verdict"
        ]
    );
    assert_eq!((&done["changed"], &done["records"], &done["dump"]), (&true.into(), &18.into(), &"d".into()));
    let lost = done["lost_payloads"].as_u64().unwrap();
    assert!(lost > 0, "{done}");
    let manifest = folder.manifest("d");
    let dropped =
        manifest["tensors"].as_array().unwrap().iter().filter(|r| r["payload"] == "dropped").count();
    assert_eq!(dropped as u64, lost);
    assert_complete(&folder);
    assert!(folder.good("list d").stdout.contains("payload_missing"));
}

#[test]
fn restores_a_missing_manifest() {
    let folder = vector_example();
    let before = folder.manifest("d");
    fs::remove_file(folder.path("d/tensor_dump.json")).unwrap();
    assert!(folder.good("repair d").stdout.starts_with("d: repaired, 18 records, complete\n"));
    assert_eq!(folder.manifest("d"), before);
    assert_complete(&folder);
}

#[test]
fn a_missing_payload_file_needs_without_payloads() {
    let folder = vector_example();
    let bin = folder.path("d/tensor_dump.bin");
    let kept = fs::read(&bin).unwrap();
    fs::remove_file(&bin).unwrap();
    let index = fs::read(folder.path("d/tensor_dump.idx")).unwrap();

    let verdict = folder.tensortap("verify d");
    assert_eq!(verdict.code, Some(1), "{verdict:?}");
    let problems: Vec<&str> = verdict.stdout.lines().skip(2).collect();
    assert!(
        matches!(problems[..], [line] if line.contains("d/tensor_dump.bin is missing") && line.contains("copy it")),
        "{problems:?}"
    );

    let refused = folder.tensortap("repair d");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("`tensortap repair --without-payloads d`"), "{refused:?}");
    assert_eq!(fs::read(folder.path("d/tensor_dump.idx")).unwrap(), index, "nothing was marked as lost");

    fs::write(&bin, kept).unwrap();
    assert_complete(&folder);
    fs::remove_file(&bin).unwrap();
    let done = document(&folder.good("repair d --without-payloads --json"));
    assert_eq!(done["lost_payloads"], 13, "{done}");
    let shown = folder.good("show d mul/after/2").stdout;
    assert!(shown.contains("marked as lost by repair") && !shown.contains("no room"), "{shown}");
    assert_complete(&folder);
}

#[test]
fn the_hint_for_a_short_payload_file_names_the_folder() {
    let folder = vector_example();
    cut(&folder.path("d/tensor_dump.bin"), 1);
    let verdict = folder.tensortap("verify d").stdout;
    for line in verdict.lines().skip(2) {
        assert_eq!(
            (line.matches("record ").count(), line.matches("tensortap repair d").count()),
            (1, 1),
            "{line}"
        );
    }
    assert!(verdict.lines().count() > 2, "{verdict}");
}
