//! Payloads that changed after the capture: no task is blamed for them, and every verb reports them.

use crate::dumps::{Folder, flip, vector_example};
use crate::json::document;

const PRODUCT: &str = "0x0000000100000002";

/// Changes the exponent of one value that `mul` wrote. Returns the index of the record.
fn damage(folder: &Folder, dump: &str) -> usize {
    damage_after(folder, dump, PRODUCT)
}

/// The same for the output of any task.
fn damage_after(folder: &Folder, dump: &str, task: &str) -> usize {
    let manifest = folder.manifest(dump);
    let records = manifest["tensors"].as_array().expect("records");
    let wrote = |r: &serde_json::Value| r["task_id"] == task && r["stage"] == "after_completion";
    let place = records.iter().position(wrote).expect("the product is recorded");
    let offset = records[place]["bin_offset"].as_u64().expect("an offset");
    flip(&folder.path(dump).join("tensor_dump.bin"), offset + 1235);
    place
}

/// Two dumps `d` and `g` with different products. With equal hashes, no byte would be compared.
fn two_different_dumps() -> Folder {
    let folder = vector_example();
    let outcome = folder.tensortap("run vector_example --dump-tensor --out g --inject-fault mul=last");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    folder
}

#[test]
fn a_damaged_payload_makes_no_task_wrong() {
    let folder = two_different_dumps();
    let place = damage(&folder, "d");
    // Against a golden, the tasks that received the other product differ. Against references, only the damage does.
    for (line, code, verdict) in [
        ("blame d --reference", 1, "undecided"),
        ("blame d --golden g", 1, "fail"),
        ("blame g --golden d", 1, "fail"),
    ] {
        let outcome = folder.tensortap(&format!("{line} --json"));
        assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
        let blame = document(&outcome);
        let expected = (&verdict.into(), &serde_json::json!([]));
        assert_eq!((&blame["verdict"], &blame["first_wrong"]), expected, "{line}");
        let tasks = blame["tasks"].as_array().expect("tasks");
        let product = tasks.iter().find(|t| t["task_id"] == PRODUCT).expect("the task is there");
        assert_eq!(product["label"], "unknown", "{line}: {product}");
        let reason = product["reason"].as_str().expect("a reason");
        assert!(reason.contains(&format!("record {place} ")), "{line}: {reason}");
        assert!(reason.contains("damaged") && reason.contains("`tensortap verify d`"), "{line}: {reason}");
    }
}

#[test]
fn a_damaged_payload_is_not_a_difference() {
    let folder = two_different_dumps();
    let place = damage(&folder, "g");
    for line in ["diff d g --json", "diff g d --json"] {
        let outcome = folder.tensortap(line);
        assert_eq!(outcome.code, Some(1), "{line}: {outcome:?}");
        let diff = document(&outcome);
        let rows = diff["records"].as_array().expect("rows");
        let row =
            rows.iter().find(|r| r["task_id"] == PRODUCT && r["stage"] == "after_completion").expect("a row");
        assert_eq!(row["verdict"], "unknown", "{line}: {row}");
        let reason = row["reason"].as_str().expect("a reason");
        assert!(
            reason.contains(&format!("record {place} ")) && reason.contains("`tensortap verify g`"),
            "{reason}"
        );
    }
}

#[test]
fn show_reports_a_damaged_payload() {
    let folder = vector_example();
    assert_eq!(document(&folder.good("show d mul/after/2 --json"))["damaged"], false);
    damage(&folder, "d");
    let shown = folder.good("show d mul/after/2");
    assert!(shown.stdout.contains("damaged: ") && shown.stdout.contains("`tensortap verify d`"), "{shown:?}");
    assert_eq!(document(&folder.good("show d mul/after/2 --json"))["damaged"], true);
    assert!(!folder.good("show d mul/before/0").stdout.contains("damaged"));
}

#[test]
fn a_damaged_payload_is_not_exported() {
    let folder = vector_example();
    let place = damage(&folder, "d");
    for format in ["npy", "npz", "safetensors", "csv", "txt", "raw"] {
        let outcome =
            folder.tensortap(&format!("export d --format {format} --func mul --stage after --out {format}"));
        assert_eq!(outcome.code, Some(2), "{format}: {outcome:?}");
        let said = &outcome.stderr;
        assert!(
            said.contains(&format!("record {place} ")) && said.contains("`tensortap verify d`"),
            "{format}: {said}"
        );
        let left: Vec<_> = std::fs::read_dir(folder.path(format)).expect("a folder").flatten().collect();
        let named = |name: &str| left.iter().any(|e| e.file_name().to_string_lossy().ends_with(name));
        assert!(!named(&format!(".{format}")), "{format}: {left:?}");
    }
}

#[test]
fn reads_the_manifest_if_the_index_is_damaged() {
    let folder = vector_example();
    let index = folder.path("d/tensor_dump.idx");
    std::fs::File::options().write(true).open(&index).unwrap().set_len(500).unwrap();
    let listed = folder.good("list d").stdout;
    assert!(listed.contains("18 records") && listed.contains("d/tensor_dump.idx is damaged"), "{listed}");
    assert!(listed.contains("`tensortap repair d` moves the damaged index aside."), "{listed}");
    folder.good("show d 3");
    folder.good("blame d --reference");
    let verdict = folder.tensortap("verify d");
    assert!(verdict.code == Some(1) && verdict.stdout.contains("tensor_dump.idx is damaged"), "{verdict:?}");
    // Without index and manifest, nothing can be read.
    std::fs::remove_file(folder.path("d/tensor_dump.json")).unwrap();
    let refused = folder.tensortap("list d");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("copy it again, or record it again"),
        "{refused:?}"
    );
}

#[test]
fn ignores_an_index_of_an_older_version_with_a_note() {
    let folder = vector_example();
    let index = folder.path("d/tensor_dump.idx");
    let mut bytes = std::fs::read(&index).unwrap();
    // The version follows eight bytes of magic.
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    std::fs::write(&index, bytes).unwrap();
    let listed = folder.good("list d").stdout;
    assert!(listed.contains("18 records"), "{listed}");
    assert!(listed.contains("d/tensor_dump.idx has the unsupported version 1 and is ignored"), "{listed}");
}

#[test]
fn a_truncated_payload_file_loses_only_the_records_after_the_cut() {
    let folder = vector_example();
    let bin = folder.path("d/tensor_dump.bin");
    let whole = std::fs::metadata(&bin).unwrap().len();
    // The last payload is the output of the last task.
    std::fs::File::options().write(true).open(&bin).unwrap().set_len(whole - 1).unwrap();
    let list = document(&folder.good("list d --json"));
    let records = list["records"].as_array().unwrap();
    let missing: Vec<_> = records.iter().filter(|r| r["payload"] == "missing").collect();
    assert!(matches!(missing[..], [only] if only["stage"] == "after_completion"), "{missing:?}");

    let stats = document(&folder.good("stats d --json"));
    let measured = stats["records"].as_array().unwrap().iter().filter(|r| !r["stats"].is_null()).count();
    assert_eq!(measured, 17, "{stats}");
    assert!(folder.good("stats d").stdout.contains("1 record without content to measure"));

    let exported = document(&folder.good("export d --format npy --out x --json"));
    assert_eq!((&exported["tensors"], &exported["scalars"]), (&12.into(), &5.into()), "{exported}");
    assert_eq!(exported["skipped"].as_array().map(Vec::len), Some(1), "{exported}");

    let tasks = document(&folder.good("blame d --reference --json"))["tasks"].clone();
    let label = |label: &str| tasks.as_array().unwrap().iter().filter(|t| t["label"] == label).count();
    assert_eq!((label("ok"), label("unknown")), (4, 1), "{tasks}");
    assert_eq!(folder.tensortap("blame d --reference --strict").code, Some(1));
}

#[test]
fn a_damaged_payload_makes_no_output_of_the_run_wrong() {
    let folder = Folder::new();
    // In the first scene, one task writes the whole output; in the second, many tasks write parts of it.
    for scene in ["vector_example", "bgemm"] {
        folder.good(&format!("run {scene} --dump-tensor --out {scene}"));
        let line = format!("diff {scene} --scene-golden --json");
        let last = document(&folder.good(&line))["records"][0]["task_id"].clone();
        let place = damage_after(&folder, scene, last.as_str().expect("who wrote it last"));
        let outcome = folder.tensortap(&line);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let row = &document(&outcome)["records"][0];
        assert_eq!(row["verdict"], "unknown", "{row}");
        let reason = row["reason"].as_str().expect("a reason");
        assert!(reason.contains(&format!("record {place} ")) && reason.contains("damaged"), "{reason}");
    }
}
