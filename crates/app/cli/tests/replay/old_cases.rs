//! Tests cases of version 1, as `extract` of tensortap 0.1.0 wrote them: `case.json` with `tensors.safetensors`, or one file.

use std::path::{Path, PathBuf};

use tensortap::format::{Dump, verify};
use tensortap::{ExpectedSource, ExtractConfig, Grade, Outcome};

use crate::cases::{copy, extract};
use crate::command_line::call;
use crate::{only, replay, replay_of};

fn written() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/old_cases")
}

/// A copy of one of them.
pub fn old_case(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&written().join(name), folder.path());
    folder
}

#[test]
fn old_cases_replay_and_become_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, outcome, grade) in [
        ("plain", "bitexact", Grade::Exact),
        ("right", "within_rule", Grade::Exact),
        ("noise", "unchecked", Grade::Zero),
        ("single.safetensors", "bitexact", Grade::Exact),
    ] {
        let old = written().join(name);
        let again = |source: &Path, out: &str| {
            let out = folder.path().join(out);
            let config = ExtractConfig { task: None, allow_inexact: true, ..extract(source, 0, &out) };
            tensortap::extract(&config).unwrap_or_else(|error| panic!("{name}: {error}")).out
        };
        let (new, one) = (again(&old, name), again(&old, &format!("one_{name}.safetensors")));
        let second = again(&one, &format!("second_{name}"));
        for case in [&old, &new, &one, &second] {
            let mut config = replay_of(case);
            config.allow_inexact = true;
            let report = replay(&config);
            let task = only(&report);
            assert_eq!((task.outcome.name(), task.grade(), task.task_id), (outcome, grade, 0x1_0000_0002));
            assert_eq!(report.source, case.display().to_string());
            let dump = Dump::open(case).expect("a dump");
            let findings = verify(&dump).expect("readable");
            assert_eq!((findings.word(), findings.records), ("ok", 4), "{}: {findings:?}", case.display());
            assert_eq!(dump.tasks().expect("tasks").at(0).kernel_names(), ["mul"]);
        }
    }
}

#[test]
fn an_old_case_keeps_its_reasons_hashes_and_statistics() {
    let mut config = replay_of(&written().join("crashed"));
    let report = replay(&config);
    let refused = only(&report).outcome.reason().expect("refused").to_string();
    assert!(
        refused.contains("its content after the task is unknown: the task had not completed"),
        "{refused}"
    );
    config.source = written().join("noise");
    let report = replay(&config);
    assert!(matches!(&only(&report).outcome, Outcome::Refused(why) if why.contains("redacted and replaced")));
    let (folder, noise) = (tempfile::tempdir().expect("a folder"), written().join("noise"));
    let out = folder.path().join("noise");
    let config = ExtractConfig { task: None, allow_inexact: true, ..extract(&noise, 0, &out) };
    let report = tensortap::extract(&config).expect("written again");
    assert_eq!((report.redacted, report.expect), (true, ExpectedSource::Captured));
    let contents = &crate::cases::manifest(&out)["case"]["contents"];
    assert_eq!(contents[0]["hash"], "0xb2955bb6802df088eac460961e7f1ddf");
    assert_eq!(contents[0]["stats"]["max"], 1.976_866_483_688_354_5);
    assert_eq!(contents[2]["reason"], "the case is redacted");
}

#[test]
fn every_verb_opens_old_cases_by_each_of_their_names() {
    let folder = old_case("plain");
    for name in ["", "case.json", "tensors.safetensors"] {
        let (code, out, err) = call(folder.path(), &format!("list ./{name} --json"));
        match name {
            // Arrays without a description.
            "tensors.safetensors" => assert!(code == Some(2) && err.contains("is not a case"), "{err}"),
            _ => assert!(code == Some(0) && out.contains("\"arg_name\":\"product\""), "{name}: {out} {err}"),
        }
    }
    for verb in ["show . 2", "stats .", "summary .", "verify .", "blame . --reference", "diff . ."] {
        let (code, _, err) = call(folder.path(), verb);
        assert_eq!(code, Some(0), "{verb}: {err}");
    }
}
