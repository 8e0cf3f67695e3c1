//! Names of tasks, scopes and arguments in real runs: every view has them, also after failures.

use std::fs;

use serde_json::{Value, json};

use crate::dumps::Folder;
use crate::json::document;

/// Task, scope and argument of each record of a list.
fn names(folder: &Folder, line: &str) -> Vec<[Option<String>; 3]> {
    let list = document(&folder.good(line));
    let text = |record: &Value, key: &str| record[key].as_str().map(String::from);
    let records = list["records"].as_array().expect("records").iter();
    records.map(|record| ["task_name", "scope", "arg_name"].map(|key| text(record, key))).collect()
}

#[test]
fn a_run_keeps_long_names_commas_and_control_characters() {
    let folder = Folder::new();
    let long = "é".repeat(127) + "!";
    let control = "red \u{1b}[31m\nnext line";
    for options in ["", "--runtime aicpu_build_graph", "--runtime host_build_graph"] {
        let out = format!("d{}", options.len());
        folder.good(&format!("run odd_names --dump-tensor --out {out} {options}"));
        let mut tasks: Vec<_> = names(&folder, &format!("list {out} --stage after --json"));
        tasks.sort();
        let below = format!("heads 0,1 / {long}");
        let some = |text: &str| Some(text.to_string());
        let mut expected = [
            [some(control), some("heads 0,1"), some("to")],
            [some("say \"a,b\""), some(&below), some("to")],
            [some(&long), some(&below), some("to")],
        ];
        expected.sort();
        assert_eq!(tasks, expected, "{options}");
        folder.good(&format!("verify {out}"));
    }
    for line in ["list d0", "stats d0", "show d0 0", "blame d0 --reference --all", "replay d0 --all"] {
        let text = folder.good(line).stdout;
        let acted_upon = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(acted_upon) && !text.contains("\nnext line"), "{line}: {text}");
    }
    // A comma in a name: in quotes, or after a backslash.
    let count = |args: &[&str]| document(&folder.tensortap_args(args))["selected"].clone();
    for scope in ["\"heads 0,1\"", "heads 0\\,1"] {
        assert_eq!(count(&["list", "d0", "--scope", scope, "--json"]), 6, "{scope}");
    }
    assert_eq!(count(&["list", "d0", "--task", "say \\\"a\\,b\\\"", "--json"]), 2);
    let replayed = folder.tensortap_args(&["replay", "d0", "--task", "\"say \\\"a,b\\\"\"", "--json"]);
    assert_eq!(document(&replayed)["tasks"], 1, "{replayed:?}");
    let open = folder.tensortap_args(&["list", "d0", "--scope", "\"heads 0"]);
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(open.stderr.contains("a quote is not closed"), "{open:?}");
}

#[test]
fn shows_an_argument_by_name() {
    let folder = crate::dumps::vector_example();
    let index = |args: &[&str]| {
        let line: Vec<&str> =
            ["show", "d"].into_iter().chain(args.iter().copied()).chain(["--json"]).collect();
        document(&folder.tensortap_args(&line))["record"]["index"].clone()
    };
    let product =
        document(&folder.good("list d --task t3 --arg product --json"))["records"][0]["index"].clone();
    for words in
        [["mul", "product"].as_slice(), &["t3", "product"], &["mul/after/product"], &["0x100000002", "2"]]
    {
        assert_eq!(index(words), product, "{words:?}");
    }
    let unknown = folder.tensortap("show d mul/after/produkt");
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("mul/after/produkt"), "{unknown:?}");
}

#[test]
fn names_survive_losses_and_a_window_of_tasks() {
    let folder = Folder::new();
    let full = "run tiny_llm --dump-tensor=hash --out full --param tokens=1 --param layers=1";
    folder.good(full);
    let all: Vec<_> = names(&folder, "list full --json");
    assert!(all.iter().all(|[_, scope, arg]| scope.is_some() && arg.is_some()), "{all:?}");
    assert!(all.iter().any(|[task, ..]| task.as_deref() == Some("k_proj")), "{all:?}");
    let lossy = full.replace(
        "=hash --out full",
        " --dump-policy drop --dump-arena 64KiB --dump-buffers 2 --dump-records 16 --out lossy",
    );
    folder.tensortap(&lossy);
    let last = full.replace("--out full", "--dump-last 5 --out last");
    folder.good(&last);
    for dump in ["lossy", "last"] {
        let kept = names(&folder, &format!("list {dump} --json"));
        assert!(!kept.is_empty() && kept.len() <= all.len(), "{dump}: {}", kept.len());
        // The record of a task was dropped and only an argument is left, so its name is unknown.
        let nameless = [None, None, None];
        let others: Vec<_> =
            kept.iter().filter(|names| **names != nameless && !all.contains(names)).collect();
        assert!(others.is_empty(), "{dump}: {others:?}");
    }
    assert!(names(&folder, "list last --json").len() < all.len());
}

#[test]
fn the_task_in_flight_of_a_dead_run_has_its_names() {
    let folder = Folder::new();
    let crashed = folder.tensortap("run crash_segv --param tasks=4 --dump-tensor --out d");
    assert_eq!(crashed.code, Some(3), "{crashed:?}");
    let named = |manifest: &Value| {
        let task = &manifest["in_flight"][0];
        [&task["task_name"], &task["scope"], &task["kernels"][0]].map(Value::clone)
    };
    let expected = [json!("goes wrong"), json!("the end"), json!("segv")];
    assert_eq!(named(&folder.manifest("d")), expected);
    let shown = names(&folder, "list d --task segv --json");
    assert!(
        !shown.is_empty() && shown.iter().all(|names| names[0].as_deref() == Some("goes wrong")),
        "{shown:?}"
    );
}

#[test]
fn live_comparison_and_scene_golden_name_the_task() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    let wrong = "run vector_example --dump-tensor --live right --inject-fault mul=sign --out wrong";
    let output = folder.tensortap(wrong).stdout;
    assert!(output.contains("0x100000002 (inner / t3: mul)"), "{output}");
    fs::remove_dir_all(folder.path("wrong")).expect("a dump");
    let output = document(&folder.tensortap(&format!("{wrong} --json")));
    let first = &output["dump"]["live"]["first_wrong"];
    assert_eq!((&first["scope"], &first["task_name"]), (&json!("inner"), &json!("t3")), "{output}");
    folder.tensortap("run vector_example --dump-tensor --inject-fault add=last --out last");
    let output = folder.tensortap("diff last --scene-golden").stdout;
    assert!(output.contains("(inner / t4: add), argument 2 (sum)"), "{output}");
    let output = document(&folder.tensortap("diff last --scene-golden --json"));
    let row = &output["records"][0];
    let named = [&row["scope"], &row["task_name"], &row["arg_name"]];
    assert_eq!(named, [&json!("inner"), &json!("t4"), &json!("sum")], "{output}");
}
