//! `run --live`.

use crate::dumps::Folder;
use crate::folders::{halves, has_compilers};
use crate::json::document;

#[test]
fn passes_if_the_run_agrees_and_names_the_wrong_task_otherwise() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=hash", "golden");
    let agrees = document(&folder.good("run vector_example --live golden --out same --json"));
    let live = &agrees["dump"]["live"];
    assert_eq!((&live["verdict"], &live["judged"], &live["of"]), (&"pass".into(), &5.into(), &5.into()));
    assert_eq!(agrees["dump"]["bytes_written"], 0);

    let outcome =
        folder.tensortap("run vector_example --inject-fault mul=sign --live golden --out differs --json");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let live = &document(&outcome)["dump"]["live"];
    assert_eq!((&live["verdict"], &live["differing"]), (&"fail".into(), &2.into()));
    assert_eq!(live["wrong_here"], serde_json::json!(["0x0000000100000002"]));

    let people = folder.tensortap("run vector_example --inject-fault mul=sign --live golden --out again");
    for said in [
        "FAIL, compared 5 of 5 tasks with golden",
        "2 tasks, 1 of them although its inputs agree: 0x100000002 (inner / t3: mul)\n",
    ] {
        assert!(people.stdout.contains(said), "{said}: {}", people.stdout);
    }
}

#[test]
fn rejects_conflicting_options() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=hash", "golden");
    for (line, said) in [
        ("run vector_example --stop-at-first", "--live"),
        ("run vector_example --live golden --dump-tensor=hash", "--live needs level full, not hash"),
        ("run bgemm --live golden", "its scene is `vector_example`"),
        ("run vector_example --live nowhere", "nowhere"),
    ] {
        let outcome = folder.tensortap(line);
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn stop_at_first_after_the_end_of_the_run() {
    let folder = Folder::new();
    let scene = "run tiny_llm --param layers=1 --param tokens=4 --param prompt=2";
    folder.good(&format!("{scene} --dump-tensor=hash --out golden"));
    // The dump is read after the run, so that nothing is found earlier.
    let late = "--dump-collect batch --live golden --stop-at-first --inject-fault softmax=last";
    let outcome = folder.tensortap(&format!("{scene} {late} --out late --json"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let run = document(&outcome);
    assert_eq!((&run["status"], &run["golden"]), (&"complete".into(), &"fail".into()));
    let live = &run["dump"]["live"];
    assert_eq!((&live["stop_found"], &live["stopped"]), (&true.into(), &false.into()));
    assert_eq!((&live["judged"], &live["of"]), (&run["tasks"], &run["tasks"]));
    assert_eq!(live["first_wrong"]["kernels"], serde_json::json!(["softmax"]));

    let people = folder.tensortap(&format!("{scene} {late} --out again"));
    for said in ["golden    FAIL", "    stop    at task 0x", "softmax), but the run had already completed\n"]
    {
        assert!(people.stdout.contains(said), "{said}: {}", people.stdout);
    }
    assert!(!people.stdout.contains("status"), "{}", people.stdout);
}

#[test]
fn a_stopped_run_reports_its_progress() {
    let folder = Folder::new();
    let scene = "run stream --param tasks=20000 --param bytes=4096";
    folder.good(&format!("{scene} --dump-tensor=hash --out golden"));
    let people = folder
        .tensortap(&format!("{scene} --live golden --stop-at-first --inject-fault advance=last --out first"));
    assert_eq!(people.code, Some(1), "{people:?}");
    let line = people.stdout.lines().find(|line| line.starts_with("    stop ")).expect("a line about stop");
    assert!(line.contains(" / advance), after ") && line.contains(" of 20,000 tasks had run and "), "{line}");
    assert!(people.stdout.contains("status    interrupted"), "{}", people.stdout);
}

#[test]
fn compares_a_scene_folder_live() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    assert_eq!(shop.json(&["run", "halves", "--dump-tensor=hash", "--out", "golden"]).0, Some(0));
    let live = ["run", "halves", "--live", "golden", "--out"];
    let (code, agrees) = shop.json(&[&live[..], &["same"]].concat());
    let result = &agrees["dump"]["live"];
    assert_eq!(
        (code, &result["verdict"], &result["judged"]),
        (Some(0), &"pass".into(), &2.into()),
        "{agrees}"
    );
    let (code, differs) = shop.json(&[&live[..], &["differs", "--inject-fault", "weigh=sign"]].concat());
    let result = &differs["dump"]["live"];
    assert_eq!(
        (code, &result["verdict"], &result["differing"]),
        (Some(1), &"fail".into(), &2.into()),
        "{differs}"
    );
    assert_eq!(result["wrong_here"], serde_json::json!(["0x0000000000000000"]), "{differs}");
}
