//! Failing kernels of scene folders: injected faults, crashes and hangs.

use serde_json::Value;
use tensortap::scene::FaultKind;

use crate::common;
use crate::folders::{HALVE, WEIGH, WorkFolder, halves, has_compilers};

/// Kernels of the tasks with the label wrong_here.
fn wrong_here(said: &Value) -> Vec<String> {
    let tasks = said["tasks"].as_array().expect("tasks").iter();
    let wrong = tasks.filter(|task| task["label"] == "wrong_here");
    wrong.map(|task| task["kernels"][0].as_str().expect("a kernel").to_owned()).collect()
}

#[test]
fn blame_finds_every_fault_of_a_c_kernel() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    assert_eq!(shop.call(&["run", "halves", "--dump-tensor", "--out", "good"]).code, Some(0));
    for kind in FaultKind::ALL.into_iter().filter(|kind| *kind != FaultKind::Race) {
        let fault = format!("weigh={kind}");
        let out = format!("bad-{kind}");
        let run = shop.call(&["run", "halves", "--inject-fault", &fault, "--dump-tensor", "--out", &out]);
        assert_eq!(run.code, Some(1), "{kind}: {run:?}");
        for against in [&["--golden", "good"][..], &["--reference"]] {
            let (code, said) = shop.json(&[&["blame", &out][..], against].concat());
            assert_eq!(
                (code, wrong_here(&said)),
                (Some(1), vec!["weigh".to_owned()]),
                "{kind} {against:?}: {said}"
            );
        }
        // Without the fault, the replay is correct. With it, the replay reproduces the captured output, unless that was stale.
        assert_eq!(shop.call(&["replay", &out, "--task", "weigh"]).code, Some(1), "{kind}");
        let again = shop.call(&["replay", &out, "--task", "weigh", "--inject-fault", &fault]);
        let expected = i32::from(kind == FaultKind::Stale);
        assert_eq!(again.code, Some(expected), "{kind}: {again:?}");
    }
    let race = shop.call(&["run", "halves", "--inject-fault", "halve=race"]);
    assert!(race.code == Some(2) && race.stderr.contains("has no effect"), "{race:?}");
    // Without a reference, a kernel is unknown, never wrong.
    let (code, said) = shop.json(&["blame", "good", "--reference"]);
    let halve = said["tasks"].as_array().expect("tasks").iter().find(|t| t["kernels"][0] == "halve").cloned();
    let halve = halve.expect("its task");
    assert_eq!((code, &halve["label"]), (Some(0), &"unknown".into()), "{said}");
    let output = shop.call(&["blame", "good", "--reference"]).stdout;
    assert!(
        output.starts_with("PASS: no judged task is wrong; 1 task has no reference: halve 1; judged "),
        "{output}"
    );
    assert!(halve["reason"].as_str().is_some_and(|why| why.contains("halve has no reference")), "{halve}");
    // If the run failed its golden and all other kernels are right, only this kernel remains.
    shop.call(&["run", "halves", "--inject-fault", "halve=sign", "--dump-tensor", "--out", "halved"]);
    let output = shop.call(&["blame", "halved", "--reference"]);
    let said = common::unwrapped(&output.stdout);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        said.starts_with("FAIL: the run's own golden failed, but every kernel with a reference matches it"),
        "{said}"
    );
    assert!(said.contains("suspect the kernels without one: halve 1"), "{said}");
}

/// The statement that replaces the halving, and the expected report.
const MISBEHAVING: &[(&str, &str, &[&str])] = &[
    ("std::exit(7);", "", &["exit in kernel `halve`", "code 7"]),
    (
        "throw std::runtime_error(\"no halves today\");",
        "",
        &["kernel `halve`", "std::runtime_error: no halves today"],
    ),
    ("throw 3;", "", &["kernel `halve`", "not a std::exception"]),
    ("std::abort();", "", &["crash in kernel `halve`", "SIGABRT"]),
    (
        "volatile int depth = deep(1); (void)depth;",
        "static int deep(int n) { volatile char room[4096]; room[0] = (char)n; return deep(n + 1) + room[0]; }\n",
        &["crash in kernel `halve`", "SIGSEGV"],
    ),
    ("for (volatile int i = 0;; i = i + 1) {}", "", &["hang in kernel `halve`"]),
    (
        "args.in<double>(0);",
        "",
        &["kernel `halve`", "std::invalid_argument: argument 0 has a different dtype"],
    ),
];

#[test]
fn reports_and_contains_a_kernel_that_does_not_return() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    for (body, before, expected) in MISBEHAVING {
        let source = HALVE.replace("TT_KERNEL", &format!("#include <cstdlib>\n{before}TT_KERNEL"));
        shop.write("halves/halve.cpp", &source.replace("    auto sum", &format!("    {body}\n    auto sum")));
        let said = shop.call(&["run", "halves", "--stall-timeout", "1", "--dump-tensor"]);
        assert_eq!(said.code, Some(3), "{body}: {said:?}");
        for part in *expected {
            assert!(said.stderr.contains(part), "{body}: no `{part}` in {}", said.stderr);
        }
    }
}

#[test]
fn reports_and_contains_a_crashing_golden_or_reference() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let crash = "*(volatile int *)0 = 1;";
    let crashing =
        WEIGH.replace("void golden(uint64_t *args)\n{", &format!("void golden(uint64_t *args)\n{{ {crash}"));
    shop.write("halves/weigh.c", &crashing);
    let said = shop.call(&["run", "halves", "--dump-tensor", "--out", "dump"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stdout.contains("the golden function failed: it crashed") && said.stdout.contains("SIGSEGV"),
        "{said:?}"
    );
    let exiting = WEIGH.replace(
        "void weigh_reference(uint64_t *args)\n{",
        "#include <stdlib.h>\nvoid weigh_reference(uint64_t *args)\n{ exit(3);",
    );
    shop.write("halves/weigh.c", &exiting);
    let (code, said) = shop.json(&["blame", "dump", "--reference"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.to_string().contains("it called exit, with code 3"), "{said}");
}

#[test]
fn replay_reports_a_different_build_and_accepts_a_moved_folder() {
    if !has_compilers() {
        return;
    }
    let shop: WorkFolder = halves();
    assert_eq!(shop.call(&["run", "halves", "--dump-tensor", "--out", "dump"]).code, Some(0));
    let same = shop.call(&["replay", "dump", "--all"]);
    assert!(
        same.code == Some(0) && !same.stderr.contains("different code than the captured ones"),
        "{same:?}"
    );
    shop.write("halves/halve.cpp", &HALVE.replace("sum[i] / 2", "sum[i] * 0.25f * 2"));
    let other = shop.call(&["replay", "dump", "--all"]);
    assert!(
        other.code == Some(0)
            && other.stderr.contains("built from different code than the captured ones: `halve`"),
        "{other:?}"
    );
    shop.write("halves/halve.cpp", &HALVE.replace("sum[i] / 2", "sum[i] / 3"));
    let wrong = shop.call(&["replay", "dump", "--task", "halve"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    shop.write("halves/halve.cpp", HALVE);
    let case = shop.call(&["extract", "dump", "--task", "weigh", "--out", "case"]);
    assert_eq!(case.code, Some(0), "{case:?}");
    assert_eq!(shop.call(&["replay", "case"]).code, Some(0));
    // A dump may name a scene folder that the user has not named.
    std::fs::remove_dir_all(shop.path("cache/named")).expect("a folder was named");
    for words in [&["replay", "dump", "--all"][..], &["blame", "dump", "--reference"]] {
        let unnamed = shop.call(words);
        assert!(
            unnamed.code == Some(2) && unnamed.stderr.contains("was not approved by you before"),
            "{unnamed:?}"
        );
    }
    std::fs::rename(shop.path("halves"), shop.path("moved")).expect("renamed");
    let lost = shop.call(&["replay", "dump", "--all"]);
    assert!(
        lost.code == Some(2) && lost.stderr.contains("pass its current location with --scene DIR"),
        "{lost:?}"
    );
    assert_eq!(shop.call(&["replay", "dump", "--all", "--scene", "moved"]).code, Some(0));
    // The case contains the code, which runs only if the user names it.
    assert_eq!(shop.call(&["replay", "case"]).code, Some(2));
    assert_eq!(shop.call(&["replay", "case", "--scene", "case/scene"]).code, Some(0));
    assert_eq!(shop.call(&["blame", "dump", "--reference", "--scene", "moved"]).code, Some(0));
    assert_eq!(shop.call(&["diff", "dump", "--scene-golden", "--scene", "moved"]).code, Some(0));
}
