//! `tensortap test`: the trials, the reports of failures, and the JSON and JUnit documents.

use std::path::Path;

use crate::folders::{SCENE, halves, has_compilers};
use crate::json::document;
use crate::{Outcome, command, outcome, tensortap};

/// Calls `test` in a folder.
fn test_in(folder: &Path, line: &str) -> Outcome {
    let words: Vec<&str> = ["test"].into_iter().chain(line.split_whitespace()).collect();
    let mut command = command(&words);
    command.current_dir(folder);
    outcome(command)
}

#[test]
fn tries_every_platform_and_runtime_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let tested = test_in(folder.path(), "vector_example --json");
    assert_eq!((tested.code, tested.stderr.as_str()), (Some(0), ""), "{tested:?}");
    let suite = document(&tested);
    assert_eq!((&suite["verdict"], &suite["pass"]), (&"pass".into(), &6.into()), "{suite}");
    let trials = suite["trials"].as_array().unwrap();
    let mut tried: Vec<String> =
        trials.iter().map(|trial| format!("{} {}", trial["platform"], trial["runtime"])).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 6, "{tried:?}");
    assert!(trials.iter().all(|trial| trial["tasks"] == 5 && trial["dump"].is_null()), "{suite}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn names_a_wrong_kernel_in_text_json_and_junit() {
    let folder = tempfile::tempdir().unwrap();
    let line = "vector_example scalar_data --runtime host_build_graph --platform a5sim --out failed --junit results.xml --json";
    // `scalar_data` has no kernel `mul`, so the fault is rejected before the run.
    let refused = test_in(folder.path(), &format!("{line} --inject-fault mul=sign"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let line = line.replace(" scalar_data", "");
    let tested = test_in(folder.path(), &format!("{line} --inject-fault mul=sign"));
    assert_eq!(tested.code, Some(1), "{tested:?}");
    let suite = document(&tested);
    let trial = &suite["trials"][0];
    assert_eq!((&trial["verdict"], &trial["culprit_count"]), (&"fail".into(), &1.into()), "{suite}");
    let culprit = &trial["culprits"][0];
    assert_eq!((&culprit["kernels"][0], &culprit["label"]), (&"mul".into(), &"wrong_here".into()), "{suite}");
    let dump = folder.path().join(trial["dump"].as_str().unwrap());
    assert_eq!(tensortap(&format!("verify {} --quiet", dump.display())).code, Some(0));

    let xml = std::fs::File::open(folder.path().join("results.xml")).unwrap();
    let read = junit_parser::from_reader(std::io::BufReader::new(xml)).expect("JUnit XML");
    assert_eq!((read.tests, read.failures, read.errors), (1, 1, 0));
    let [case] = read.suites[0].cases.as_slice() else { panic!("{read:?}") };
    assert_eq!(case.classname.as_deref(), Some("vector_example"));
    // The parser puts the class before the name.
    assert_eq!(case.name, "vector_example::default on a5sim, host_build_graph");
    let failure = case.status.failure_as_ref();
    assert_eq!(failure.message, "f: 16,384 of 16,384 elements wrong");
    assert!(
        failure.text.contains("t3: mul) is wrong here") && failure.text.contains("blame failed/"),
        "{failure:?}"
    );
}

#[test]
fn names_a_crashing_kernel_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let tested =
        test_in(folder.path(), "crash_segv vector_example --platform a2a3sim --runtime aicpu_build_graph");
    assert_eq!(tested.code, Some(1), "{tested:?}");
    let output = &tested.stdout;
    assert!(output.contains("crash in kernel `segv`, task 0x0000000000000004"), "{output}");
    assert!(output.contains("--task 0x4 --allow-inexact"), "{output}");
    assert!(output.contains("PASS  vector_example  1 of 1 trial"), "{output}");
    assert!(output.contains("FAIL: 1 of 2 trials passed"), "{output}");
}

#[test]
fn records_passing_trials_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "dump_tensor_example --platform a5sim --runtime host_build_graph --dump-tensor --out all --json";
    let tested = test_in(folder.path(), line);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    let dump = folder.path().join("all/dump_tensor_example-default-a5sim-host_build_graph");
    assert_eq!(tensortap(&format!("blame {} --reference --quiet", dump.display())).code, Some(0));
}

#[test]
fn rejects_unknown_names_and_used_folders_before_the_trials() {
    let folder = tempfile::tempdir().unwrap();
    for (line, said) in [
        ("vector_exampel", "did you mean `vector_example`?"),
        ("vector_example --case odd", "there is no case `odd`; there are: default"),
        ("vector_example --platform a6sim", "there is no platform `a6sim`"),
        ("vector_example --runtime host", "there is no runtime `host`"),
        ("vector_example --param n=oh", "n"),
    ] {
        let refused = test_in(folder.path(), line);
        assert_eq!(refused.code, Some(2), "{line}: {refused:?}");
        assert!(refused.stderr.contains(said), "{line}: {}", refused.stderr);
    }
    std::fs::write(folder.path().join("full"), "").unwrap();
    let taken = test_in(folder.path(), "vector_example --out .");
    assert_eq!(taken.code, Some(2), "{taken:?}");
    let nowhere = test_in(folder.path(), "vector_example --junit no/such/folder.xml");
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(nowhere.stderr.contains("cannot create no/such/folder.xml"), "{nowhere:?}");
}

#[test]
fn reports_a_scene_without_golden_as_only_run() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let (before, _) = SCENE.split_once("[golden]").expect("it has one");
    shop.write("halves/scene.toml", before);
    let line = [
        "test",
        "halves",
        "--runtime",
        "host_build_graph",
        "--platform",
        "a2a3sim",
        "--junit",
        "results.xml",
    ];
    let text = shop.call(&line);
    assert!(text.code == Some(0) && text.stdout.contains(" (no golden: ran only)\n"), "{text:?}");
    let xml = std::fs::read_to_string(shop.path("results.xml")).expect("written");
    assert!(xml.contains("<system-out>no golden: ran only</system-out>"), "{xml}");
    assert_eq!(shop.json(&line).1["trials"][0]["golden"], "none");
    shop.write("halves/scene.toml", SCENE);
    let text = shop.call(&line);
    assert!(text.code == Some(0) && !text.stdout.contains("ran only"), "{text:?}");
    assert_eq!(shop.json(&line).1["trials"][0]["golden"], "pass");
}
