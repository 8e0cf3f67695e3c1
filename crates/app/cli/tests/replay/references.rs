//! Tests replays against references: a wrong kernel fails and a repaired one passes. Against a capture of the
//! wrong kernel it is the opposite.

use std::path::Path;

use tensortap::scene::{FaultKind, KernelDef};
use tensortap::{
    Check, ExpectedSource, ExtractConfig, Grade, Outcome, PLATFORMS, ReplayConfig, ReplayReport,
};

use crate::cases::{edit, extract, task_of, tiny_case};
use crate::command_line::call;
use crate::{capture, failed, listed_scenes, only, replay, replay_of, small};

/// Calls `check` for every kernel of two scenes with a fault that keeps values finite, and a capture of a run
/// with it.
fn each_fault(check: impl Fn(&Path, &KernelDef, FaultKind)) {
    for scene in ["vector_example", "paged_attention"] {
        for kernel in tensortap_cli::scenes().find(scene).expect("built in").kernels() {
            for kind in [FaultKind::Sign, FaultKind::Last, FaultKind::Shift] {
                if !kernel.faults.contains(&kind) {
                    continue;
                }
                let folder = tempfile::tempdir().expect("a folder");
                let mut config = small(scene);
                config.inject_fault = Some((kernel.name.into(), kind));
                capture(config, &folder.path().join("dump"));
                check(&folder.path().join("dump"), kernel, kind);
            }
        }
    }
}

/// Replays the tasks of one kernel, with or without a fault.
fn again(source: &Path, kernel: &KernelDef, fault: Option<FaultKind>, reference: bool) -> ReplayReport {
    let mut config = replay_of(source);
    config.funcs = vec![kernel.name.into()];
    config.inject_fault = fault.map(|kind| (kernel.name.into(), kind));
    config.reference = reference;
    replay(&config)
}

#[test]
fn the_capture_expects_the_fault_and_references_its_repair() {
    each_fault(|dump, kernel, kind| {
        let passes = |fault, reference| again(dump, kernel, fault, reference).passed();
        let (broken, repaired) = (Some(kind), None);
        let found = [(broken, false), (broken, true), (repaired, false), (repaired, true)]
            .map(|(fault, reference)| passes(fault, reference));
        assert_eq!(found, [true, false, false, true], "{kind} in {}", kernel.name);
    });
}

#[test]
fn a_case_with_reference_outputs_passes_only_for_the_right_kernel() {
    each_fault(|dump, kernel, kind| {
        // A task that the fault affects. `sign` does not affect zeros, for example.
        let report = again(dump, kernel, Some(kind), true);
        let id = failed(&report)[0];
        let plain = tensortap::extract(&extract(dump, id, &dump.with_file_name("plain"))).expect("extracted");
        let outside = plain.outside.expect("the captured output is wrong");
        assert!(outside.contains("outside the rule, worst at ["), "{outside}");
        for name in ["right", "right.safetensors"] {
            let out = dump.with_file_name(name);
            let config = ExtractConfig { expect: ExpectedSource::Reference, ..extract(dump, id, &out) };
            let report = tensortap::extract(&config).expect("extracted");
            assert_eq!((report.expect, report.outside), (ExpectedSource::Reference, None));
            for platform in PLATFORMS {
                let outcome = |fault: Option<FaultKind>, reference| {
                    let mut config = replay_of(&out);
                    config.platform = Some(platform.name().into());
                    config.inject_fault = fault.map(|kind| (kernel.name.into(), kind));
                    config.reference = reference;
                    let report = replay(&config);
                    let check = if reference { Check::Reference } else { Check::CaseReference };
                    assert_eq!(only(&report).check, check);
                    only(&report).outcome.name()
                };
                for reference in [false, true] {
                    assert_eq!(outcome(None, reference), "within_rule", "{}", kernel.name);
                    assert_eq!(outcome(Some(kind), reference), "failed", "{kind} in {}", kernel.name);
                }
            }
        }
    });
}

#[test]
fn every_task_of_every_scene_agrees_with_its_references() {
    for scene in listed_scenes() {
        let folder = tempfile::tempdir().expect("a folder");
        let dump = folder.path().join("dump");
        capture(small(scene), &dump);
        let mut config = replay_of(&dump);
        config.reference = true;
        let report = replay(&config);
        for task in &report.tasks {
            assert_eq!(task.outcome, Outcome::WithinRule, "{scene}: {}", task.name());
        }
        let cases = folder.path().join("cases");
        for kernel in tensortap_cli::scenes().find(scene).expect("built in").kernels() {
            let Some(task) = report.tasks.iter().find(|t| t.kernels.iter().any(|k| k == kernel.name)) else {
                continue;
            };
            let out = cases.join(kernel.name);
            let config =
                ExtractConfig { expect: ExpectedSource::Reference, ..extract(&dump, task.task_id, &out) };
            tensortap::extract(&config).unwrap_or_else(|error| panic!("{scene}, {}: {error}", kernel.name));
            let captured = ExtractConfig { expect: ExpectedSource::Captured, ..config };
            let captured = ExtractConfig { out: folder.path().join(kernel.name), ..captured };
            assert_eq!(tensortap::extract(&captured).expect("extracted").outside, None, "{}", kernel.name);
        }
        let report = replay(&replay_of(&cases));
        assert!(report.passed(), "{scene}: {:?}", report.tasks);
    }
}

#[test]
fn compares_a_single_dispatch_with_its_part_of_the_reference() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.reference = true;
    let task = task_of(folder.path(), "mul");
    config.select = tensortap::Selection::Dispatch(tensortap::format::dispatch_id(task, 1, 0));
    assert_eq!(only(&replay(&config)).outcome, Outcome::WithinRule);
    config.inject_fault = Some(("mul".into(), FaultKind::Last));
    assert_eq!(only(&replay(&config)).outcome.name(), "failed");
}

#[test]
fn references_need_no_captured_output_and_take_replaced_arguments() {
    let (_folder, case) = tiny_case();
    edit(&case, |json| {
        let output = &mut json["tensors"][2];
        (output["payload"], output["hash"], output["bin_size"]) =
            ("none".into(), serde_json::Value::Null, 0.into());
        json["case"]["contents"] =
            serde_json::json!([{"arg_index": 2, "stage": "after_completion", "reason": "it crashed"}]);
    });
    let mut config = replay_of(&case);
    let refused = replay(&config);
    assert!(only(&refused).outcome.reason().is_some_and(|why| why.contains("it crashed")), "{refused:?}");
    config.reference = true;
    let report = replay(&config);
    assert_eq!((&only(&report).outcome, only(&report).grade()), (&Outcome::WithinRule, Grade::Exact));
    config.set_args = vec![(0, "3.5".into())];
    assert_eq!(only(&replay(&config)).outcome.name(), "refused", "not what was captured");
    config.allow_inexact = true;
    assert_eq!(only(&replay(&config)).outcome, Outcome::WithinRule, "3.5 times what was captured");
    config.set_args = vec![(0, "Infinity".into())];
    config.inject_fault = Some(("mul".into(), FaultKind::Sign));
    let report = replay(&config);
    let reason = only(&report).outcome.reason().expect("not decided").to_string();
    assert!(reason.contains("where kernel and reference may differ"), "{:?}", only(&report).outcome);
}

#[test]
fn extracting_a_case_again_keeps_its_expected_outputs() {
    let (folder, case) = tiny_case();
    let right = folder.path().join("right");
    let config = ExtractConfig { task: None, expect: ExpectedSource::Reference, ..extract(&case, 0, &right) };
    tensortap::extract(&config).expect("from a case, too");
    let again = ExtractConfig { task: None, ..extract(&right, 0, &folder.path().join("again")) };
    assert_eq!(tensortap::extract(&again).expect("written again").expect, ExpectedSource::Reference);
    let readme = std::fs::read_to_string(again.out.join("README.md")).expect("there");
    assert!(readme.contains("outputs it should produce") && readme.contains("not bit by bit"), "{readme}");
    let redacted = ExtractConfig { redact: Some(1), out: folder.path().join("noise"), ..config };
    let error = tensortap::extract(&redacted).expect_err("no outputs to expect");
    assert!(error.is_usage() && error.to_string().contains("--expect reference"), "{error}");
    edit(&right, |json| json["case"]["expected"] = "perfection".into());
    let error = tensortap::replay(&ReplayConfig { ..replay_of(&right) }).expect_err("refused");
    assert!(
        error.to_string().contains("unknown variant `perfection`, expected `captured` or `reference`"),
        "{error}"
    );
}

#[test]
fn text_and_json_name_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = small("vector_example");
    config.inject_fault = Some(("mul".into(), FaultKind::Sign));
    capture(config, &folder.path().join("dump"));
    let run = |line: &str| call(folder.path(), line);
    let (code, out, _) = run("replay dump --all --inject-fault mul=sign");
    assert!(code == Some(0) && out.contains("PASS\n  check      reproduces the captured outputs"), "{out}");
    let (code, out, _) = run("replay dump --all");
    assert!(
        code == Some(1) && out.contains("FAIL\n  check      does not reproduce the captured outputs"),
        "{out}"
    );
    let (code, out, _) = run("replay dump --all --reference");
    assert!(code == Some(0) && out.contains("PASS\n  check      agrees with the f64 references"), "{out}");
    let (code, out, _) = run("replay dump --all --reference --inject-fault mul=sign --json");
    let json: serde_json::Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, &json["check"], &json["verdict"]), (Some(1), &"reference".into(), &"fail".into()));
    let wrong = json["results"].as_array().expect("a list").iter().find(|r| r["outcome"] == "failed");
    let worst = &wrong.expect("mul is wrong")["outputs"][0]["worst_outside"];
    assert!(worst["coordinate"][0] == worst["element"] && worst["expected"].is_string(), "{worst}");
    let (code, out, err) = run("extract dump --task 1:2 --out cases/plain");
    assert!(code == Some(0) && out.contains("expects    the captured output"), "{out}");
    assert!(
        err.contains("differs from the kernel's reference") && err.contains("--expect reference"),
        "{err}"
    );
    let (code, out, err) = run("extract dump --task 1:2 --out cases/right --expect reference --json");
    let json: serde_json::Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, &json["expect"], err.as_str()), (Some(0), &"reference".into(), ""));
    let (code, out, _) = run("replay cases");
    assert!(code == Some(1) && out.contains("test cases/right ... ok"), "{out}");
    assert!(
        out.contains("1 compared with the captured outputs, 1 compared with their reference outputs"),
        "{out}"
    );
}
