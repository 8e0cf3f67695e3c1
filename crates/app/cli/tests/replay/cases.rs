//! Tests cases: a task extracted from a dump is small, complete, and replays anywhere.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::format::{Dump, verify};
use tensortap::{ExpectedSource, ExtractConfig, Grade, Outcome, RunConfig};

use crate::{capture, only, replay, replay_of, small};

pub fn extract(dump: &Path, task: u64, out: &Path) -> ExtractConfig {
    ExtractConfig {
        source: dump.into(),
        task: Some(task.into()),
        steps: Vec::new(),
        out: out.into(),
        expect: ExpectedSource::Captured,
        redact: None,
        allow_inexact: false,
        scene_folder: None,
        open_folder: None,
        kernels: Vec::new(),
        block_num: None,
        load_kernels: None,
        registry: tensortap_cli::scenes(),
        program: "tensortap".into(),
    }
}

/// The first task of a kernel.
pub fn task_of(dump: &Path, kernel: &str) -> u64 {
    *tasks_of(dump, kernel).first().expect("a task of that kernel")
}

fn tasks_of(dump: &Path, kernel: &str) -> Vec<u64> {
    let dump = Dump::open(dump).expect("a dump");
    let info = dump.info();
    let tasks = dump.tasks().expect("tasks");
    let of_kernel =
        |t: &tensortap::format::Task<'_>| t.func_id.iter().any(|id| info.kernel_name(*id) == kernel);
    tasks.iter().filter(of_kernel).map(|t| t.task_id).collect()
}

fn size(path: &Path) -> u64 {
    let meta = fs::metadata(path).expect("there");
    if meta.is_file() {
        return meta.len();
    }
    fs::read_dir(path).expect("a folder").map(|e| size(&e.expect("readable").path())).sum()
}

#[test]
fn a_case_of_tiny_llm_is_small_and_replays_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(RunConfig::new("tiny_llm"), &dump);
    let elsewhere = tempfile::tempdir().expect("an empty folder");
    for kernel in ["softmax", "project_bf16", "argmax", "append_kv"] {
        for name in [kernel.to_string(), format!("{kernel}.safetensors")] {
            let out = folder.path().join(&name);
            let report =
                tensortap::extract(&extract(&dump, task_of(&dump, kernel), &out)).expect("extracted");
            assert_eq!((report.bytes, report.kernels), (size(&out), vec![kernel.to_string()]));
            assert!(size(&out) * 20 < size(&dump), "{name}: {} of {} bytes", size(&out), size(&dump));
            fs::rename(&out, elsewhere.path().join(&name)).expect("moved");
        }
    }
    fs::remove_dir_all(&dump).expect("the dump is removed");
    for platform in ["a2a3sim", "a5sim"] {
        let mut config = replay_of(elsewhere.path());
        config.platform = Some(platform.into());
        let report = replay(&config);
        assert_eq!(report.tasks.len(), 8);
        for task in &report.tasks {
            assert_eq!((&task.outcome, task.grade()), (&Outcome::BitExact, Grade::Exact), "{}", task.name());
            assert!(task.case.is_some());
        }
    }
}

#[test]
fn a_case_describes_its_content_and_can_become_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("dump_tensor_example"), &dump);
    let tasks = Dump::open(&dump).expect("a dump").tasks().expect("tasks");
    let out = folder.path().join("case");
    let report = tensortap::extract(&extract(&dump, tasks.at(0).task_id, &out)).expect("extracted");
    let manifest = manifest(&out);
    assert_eq!(
        (&manifest["scene"], &manifest["case"]["from"]),
        (&"dump_tensor_example".into(), &"dump".into())
    );
    assert_eq!(manifest["tensors"].as_array().map(Vec::len), Some(3));
    assert!(manifest["kernels"][0]["code"].as_str().is_some_and(|code| code.starts_with("builtin ")));
    let readme = fs::read_to_string(out.join("README.md")).expect("there");
    assert!(
        readme.contains("tensortap replay case")
            && readme.contains("| 2 | after_completion | output | float32 |"),
        "{readme}"
    );
    // a and b are different constants, c is their sum.
    assert_eq!(report.payloads, 3);
    // A case can be written again as one file, with the same result.
    let again = ExtractConfig { task: None, ..extract(&out, 0, &folder.path().join("again.safetensors")) };
    assert_eq!(tensortap::extract(&again).expect("written again").payloads, 3);
    assert!(replay(&replay_of(&again.out)).passed());
    let error = tensortap::extract(&again).expect_err("taken");
    assert!(error.is_usage() && error.to_string().contains("already exists"), "{error}");
}

#[test]
fn equal_payloads_are_stored_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("stream"), &dump);
    let tasks = Dump::open(&dump).expect("a dump").tasks().expect("tasks");
    let case = folder.path().join("case");
    tensortap::extract(&extract(&dump, tasks.at(0).task_id, &case)).expect("extracted");
    // The output has the content of the input.
    edit(&case, |json| share_payload(json, 0, 1));
    let one =
        tensortap::extract(&ExtractConfig { task: None, ..extract(&case, 0, &folder.path().join("one")) });
    assert_eq!(one.expect("extracted").payloads, 1);
}

pub fn manifest(case: &Path) -> Value {
    let text = fs::read(case.join("tensor_dump.json")).expect("there");
    serde_json::from_slice(&text).expect("JSON")
}

/// Changes the manifest of a case, which is then read instead of its index.
pub fn edit(case: &Path, change: impl FnOnce(&mut Value)) {
    let mut json = manifest(case);
    change(&mut json);
    fs::write(case.join("tensor_dump.json"), serde_json::to_vec(&json).expect("JSON")).expect("writable");
    let _ = fs::remove_file(case.join("tensor_dump.idx"));
}

/// Makes the payload of a record that of another one.
fn share_payload(manifest: &mut Value, from: usize, to: usize) {
    for key in ["bin_offset", "bin_size", "hash"] {
        manifest["tensors"][to][key] = manifest["tensors"][from][key].clone();
    }
}

/// Replaces the payload of a record of a case, without its hash.
fn set_payload(case: &Path, record: usize, payload: &[u8]) {
    edit(case, |json| {
        let record = &mut json["tensors"][record];
        record["hash"] = Value::Null;
        let at = record["bin_offset"].as_u64().expect("a number");
        let file = fs::File::options().write(true).open(case.join("tensor_dump.bin")).expect("there");
        file.write_all_at(payload, at).expect("writable");
    });
}

/// Copies the files of a folder.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("there").flatten() {
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

/// A case of `mul` with 16 elements, and its folder.
pub fn tiny_case() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(RunConfig::new("vector_example").param("n", 16), &dump);
    let case = folder.path().join("case");
    tensortap::extract(&extract(&dump, task_of(&dump, "mul"), &case)).expect("extracted");
    (folder, case)
}

#[test]
fn a_truncated_payload_is_partial_and_compared_up_to_its_end() {
    let (_folder, case) = tiny_case();
    edit(&case, |json| {
        for record in [0, 2] {
            let record = &mut json["tensors"][record];
            (record["payload"], record["truncated"]) = ("truncated".into(), true.into());
            (record["bin_size"], record["hash"]) = (40.into(), Value::Null);
        }
    });
    let mut config = replay_of(&case);
    let report = replay(&config);
    let reason = only(&report).outcome.reason().expect("refused");
    assert!(reason.contains("argument 0 is partial") && reason.contains("40 of 64 bytes"), "{reason}");
    config.allow_inexact = true;
    let report = replay(&config);
    let task = only(&report);
    let grades: Vec<Grade> = task.args.iter().map(|a| a.grade).collect();
    assert_eq!(grades, [Grade::Partial, Grade::Exact, Grade::Partial, Grade::Exact]);
    assert_eq!(task.outcome, Outcome::BitExact);
    assert_eq!((task.outputs[0].compared, task.outputs[0].elements), (10, 16));
}

#[test]
fn repeating_detects_reads_of_uninitialized_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("paged_attention"), &dump);
    let case = folder.path().join("case");
    // The first block of a sequence does not read its accumulators; the last one does.
    let id = *tasks_of(&dump, "online_update").iter().max().expect("there are some");
    tensortap::extract(&extract(&dump, id, &case)).expect("extracted");
    let mut config = replay_of(&case);
    config.repeat = 3;
    let report = replay(&config);
    assert_eq!((only(&report).runs, only(&report).distinct_results), (3, 1));
    assert!(report.passed());
    edit(&case, |json| {
        // An accumulator declared as an output: the kernel reads it anyway.
        let records = json["tensors"].as_array_mut().expect("a list");
        let slot =
            records.iter().find(|r| r["role"] == "inout").expect("it accumulates")["arg_index"].clone();
        records.retain(|r| r["arg_index"] != slot || r["stage"] == "after_completion");
        let output = records.iter_mut().find(|r| r["arg_index"] == slot);
        output.expect("it is recorded twice")["role"] = "output".into();
    });
    let report = replay(&config);
    assert!(only(&report).nondeterministic() && !report.passed(), "{:?}", only(&report));
}

#[test]
fn the_captured_platform_compares_bits_and_another_one_a_rule() {
    let (_folder, case) = tiny_case();
    let twos: Vec<u8> = [2.0_f32; 16].iter().flat_map(|v| v.to_le_bytes()).collect();
    let expected = |last: f32| -> Vec<u8> {
        let values = (0..16).map(|i| if i == 15 { last } else { 4.0 });
        values.flat_map(f32::to_le_bytes).collect()
    };
    set_payload(&case, 0, &twos);
    set_payload(&case, 1, &twos);
    for (last, here, elsewhere) in [
        (4.0_f32, "bitexact", "bitexact"),
        (4.0_f32.next_up(), "failed", "within_rule"),
        (4.1, "failed", "failed"),
    ] {
        set_payload(&case, 2, &expected(last));
        let outcome = |platform: &str| {
            let mut config = replay_of(&case);
            config.platform = Some(platform.into());
            let report = replay(&config);
            assert_eq!(report.passed(), only(&report).outcome.passed());
            only(&report).outcome.name()
        };
        assert_eq!((outcome("a2a3sim"), outcome("a5sim")), (here, elsewhere), "{last}");
    }
}

#[test]
fn a_write_outside_of_the_outputs_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("reaching").param("what", 4), &dump);
    // Among other tasks, only this task fails.
    let report = replay(&replay_of(&dump));
    assert_eq!(
        report.tasks.iter().map(|t| t.outcome.name()).collect::<Vec<_>>(),
        ["bitexact", "failed", "bitexact"]
    );
    let reason = report.tasks[1].outcome.reason().expect("failed");
    assert!(reason.contains("bytes outside of its outputs, the first at captured address 0x"), "{reason}");
}

#[test]
fn refuses_an_output_declared_as_an_input() {
    let (_folder, case) = tiny_case();
    assert!(replay(&replay_of(&case)).passed());
    edit(&case, |json| {
        json["tensors"][2]["role"] = "input".into();
        json["tensors"][2]["stage"] = "before_dispatch".into();
    });
    let mut config = replay_of(&case);
    config.allow_inexact = true;
    let report = replay(&config);
    let reason = only(&report).outcome.reason().expect("refused");
    assert!(reason.contains("declared as an output but submitted as an input"), "{reason}");
}

#[test]
fn overlapping_arguments_must_have_equal_content() {
    let (_folder, case) = tiny_case();
    edit(&case, |json| json["tensors"][1]["address"] = json["tensors"][0]["address"].clone());
    let report = replay(&replay_of(&case));
    let reason = only(&report).outcome.reason().expect("refused").to_string();
    assert!(
        reason.contains("argument 0 overlaps another argument, and their captured bytes differ"),
        "{reason}"
    );
    // With the same content it is accepted: a square.
    edit(&case, |json| share_payload(json, 0, 1));
    let report = replay(&replay_of(&case));
    assert!(
        matches!(only(&report).outcome, Outcome::Failed(_)),
        "it ran, and a square is no product: {report:?}"
    );
}

#[test]
fn a_redacted_case_contains_no_content_and_is_unchecked() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump_dir = folder.path().join("dump");
    capture(small("vector_example"), &dump_dir);
    let (id, case) = (task_of(&dump_dir, "mul"), folder.path().join("case"));
    let config = ExtractConfig { redact: Some(7), ..extract(&dump_dir, id, &case) };
    assert!(tensortap::extract(&config).expect("extracted").redacted);
    let dump = Dump::open(&dump_dir).expect("a dump");
    let stored = fs::read(case.join("tensor_dump.bin")).expect("there");
    let text = fs::read_to_string(case.join("tensor_dump.json")).expect("there");
    for record in dump.records().map(|r| r.expect("readable")).filter(|r| r.task_id == id && r.bin_size > 0) {
        let payload = dump.payload(&record).expect("stored");
        assert!(!stored.windows(64).any(|window| window == &payload[..64]), "content of {record}");
        assert!(
            text.contains(&format!("{:#034x}", record.hash.expect("hashed"))),
            "the hash of {record} stays"
        );
    }
    let json = manifest(&case);
    assert_eq!(json["case"]["redacted"]["seed"], 7);
    assert!(json["case"]["contents"][0]["stats"]["max"].as_f64().is_some());
    assert!(json["tensors"][3]["scalar_value"].is_string(), "scalars stay");
    let findings = verify(&Dump::open(&case).expect("a dump")).expect("readable");
    assert_eq!((findings.word(), findings.checked, findings.unverifiable), ("ok", 3, 1), "{findings:?}");
    let mut config = replay_of(&case);
    assert!(matches!(only(&replay(&config)).outcome, Outcome::Refused(_)));
    config.allow_inexact = true;
    let report = replay(&config);
    assert!(
        matches!(&only(&report).outcome, Outcome::Unchecked(why) if why.contains("redacted")),
        "{report:?}"
    );
    assert_eq!(only(&report).args[0].grade, Grade::Overridden);
    assert!(!report.passed() && report.nothing_compared());
}

#[test]
fn a_folder_of_cases_counts_each_kind_of_outcome() {
    let (folder, case) = tiny_case();
    let cases = folder.path().join("cases");
    ["good", "wrong", "unreadable"].iter().for_each(|name| copy(&case, &cases.join(name)));
    // Expects its input as output.
    edit(&cases.join("wrong"), |json| share_payload(json, 0, 2));
    edit(&cases.join("unreadable"), |json| *json = serde_json::json!({}));
    let report = replay(&replay_of(&cases));
    let outcome = |name: &str| {
        let task = report.tasks.iter().find(|t| t.case.as_ref().is_some_and(|c| c.ends_with(name)));
        task.expect(name).outcome.name()
    };
    assert_eq!(["good", "wrong", "unreadable"].map(outcome), ["bitexact", "failed", "refused"]);
    assert!(!report.passed());
}
