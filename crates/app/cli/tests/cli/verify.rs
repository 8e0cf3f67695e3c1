use std::fs;

use crate::dumps::{cut, flip, vector_example};
use crate::json::{document, keys};

const KEYS: [&str; 9] =
    ["checked", "dump", "gone", "more_problems", "problems", "records", "state", "unverifiable", "verdict"];

#[test]
fn checks_every_record_of_a_good_dump() {
    let folder = vector_example();
    assert_eq!(folder.good("verify d").stdout, "d: OK\n  18 records, 18 checked\n");
    let verdict = document(&folder.good("verify d --json"));
    assert_eq!(keys(&verdict), KEYS);
    assert_eq!((&verdict["verdict"], &verdict["state"]), (&"ok".into(), &"closed".into()));
    assert_eq!((&verdict["records"], &verdict["checked"]), (&18.into(), &18.into()));
    assert_eq!((&verdict["unverifiable"], &verdict["problems"]), (&0.into(), &serde_json::json!([])));
}

#[test]
fn reports_records_without_payload_as_unchecked() {
    let folder = crate::dumps::Folder::new();
    folder.record("vector_example --dump-tensor=hash", "d");
    let said = folder.good("verify d").stdout;
    assert!(said.contains("18 records, 5 checked, 13 without a stored payload"), "{said}");
}

#[test]
fn a_flipped_bit_names_the_records_and_the_remedy() {
    let folder = vector_example();
    let manifest = folder.manifest("d");
    let records = manifest["tensors"].as_array().unwrap();
    let task = "0x0000000100000002";
    let damaged = records
        .iter()
        .position(|r| r["task_id"] == task && r["stage"] == "after_completion")
        .expect("the product is recorded");
    let offset = records[damaged]["bin_offset"].as_u64().unwrap();
    flip(&folder.path("d/tensor_dump.bin"), offset + 1234);
    let sharing = records.iter().filter(|r| r["kind"] == "tensor" && r["bin_offset"] == offset).count();

    let outcome = folder.tensortap("verify d");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert!(outcome.stdout.starts_with("d: BAD\n"), "{outcome:?}");
    let named = format!(
        "  record {damaged} (task {task}, after_completion, argument 2): hash mismatch: its payload has "
    );
    let line = outcome.stdout.lines().find(|line| line.starts_with(&named)).expect("the record is named");
    assert!(line.contains("record it again"), "{line}");

    let outcome = folder.tensortap("verify d --json");
    assert_eq!(outcome.code, Some(1));
    let verdict = document(&outcome);
    assert_eq!((keys(&verdict), &verdict["verdict"]), (KEYS.to_vec(), &"bad".into()));
    let problems = verdict["problems"].as_array().unwrap();
    assert_eq!(problems.len(), sharing, "{verdict}");
    let problem = problems.iter().find(|p| p["index"] == damaged).expect("the record is named");
    assert_eq!((&problem["task_id"], &problem["arg_index"]), (&task.into(), &2.into()));
    assert_eq!(keys(problem), ["arg_index", "index", "remedy", "stage", "task_id", "what"]);
}

#[test]
fn a_torn_index_a_short_payload_file_and_a_changed_manifest_are_bad() {
    let folder = vector_example();
    cut(&folder.path("d/tensor_dump.idx"), 100);
    let outcome = folder.tensortap("verify d");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stdout.contains("lost: ") && outcome.stdout.contains("`tensortap repair d`"),
        "{outcome:?}"
    );

    let folder = vector_example();
    cut(&folder.path("d/tensor_dump.bin"), 1);
    let outcome = folder.tensortap("verify d");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stdout.contains("  record ") && outcome.stdout.contains("tensor_dump.bin"),
        "{outcome:?}"
    );

    let folder = vector_example();
    let manifest = folder.path("d/tensor_dump.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let changed = text.replacen("\"scalars\": 5", "\"scalars\": 6", 1);
    assert_ne!(text, changed);
    fs::write(&manifest, changed).unwrap();
    assert_eq!(folder.tensortap("verify d").code, Some(1));
}

#[test]
fn rejects_an_index_without_a_header() {
    let folder = vector_example();
    fs::write(folder.path("d/tensor_dump.idx"), "nothing").unwrap();
    fs::remove_file(folder.path("d/tensor_dump.json")).unwrap();
    for verb in ["list", "verify", "repair"] {
        let outcome = folder.tensortap(&format!("{verb} d"));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{verb}: {outcome:?}");
        assert!(outcome.stderr.contains("tensor_dump.idx"), "{verb}: {outcome:?}");
    }
}
