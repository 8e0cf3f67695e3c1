//! `diff` and `blame`: text, JSON, CSV and errors.

use serde_json::Value;

use crate::assert_snapshot;
use crate::dumps::Folder;
use crate::folders::{WorkFolder, has_compilers};

/// A folder with the dumps of a correct run and of a wrong one, in which the last element of the output of `mul` is wrong.
fn right_and_wrong() -> Folder {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor --platform a5sim --runtime host_build_graph", "right");
    let wrong = folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    folder
}

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), ""), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

#[test]
fn blame_prints_the_verdict_and_the_culprit() {
    let folder = right_and_wrong();
    for (name, line) in
        [("blame_golden", "blame wrong --golden right"), ("blame_reference", "blame wrong --reference")]
    {
        let outcome = folder.tensortap(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
        assert!(
            outcome.stdout.starts_with("FAIL: task 0x100000002 (inner / t3: mul) is wrong here\n"),
            "{outcome:?}"
        );
        assert_snapshot(name, &outcome.stdout);
    }
    let good = folder.good("blame right --golden right");
    assert_snapshot("blame_good", &good.stdout);
    let all = folder.good("blame right --golden right --all");
    assert_eq!(all.stdout.matches("\n  ok ").count(), 5, "{all:?}");
    folder.good("blame right --reference --quiet");
}

#[test]
fn blame_prints_json() {
    let folder = right_and_wrong();
    let found = document(&folder, "blame wrong --golden right --json", 1);
    assert_eq!(
        (&found["verdict"], &found["compared"], &found["of"]),
        (&"fail".into(), &18.into(), &18.into())
    );
    let labels: Vec<&str> =
        found["tasks"].as_array().unwrap().iter().map(|t| t["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["ok", "ok", "ok", "wrong_here", "inherited"]);
    assert_eq!(found["first_wrong"], serde_json::json!(["0x0000000100000002"]));
    assert_eq!(found["tasks"][3]["kernels"], serde_json::json!(["mul"]));
    assert_eq!(found["culprits"][0]["chain"][1], "0x0000000100000003");
    let worst = &found["culprits"][0]["records"][0]["detail"]["worst"][0];
    assert_eq!(worst["coordinate"], serde_json::json!([16383]));
    let passed = document(&folder, "blame right --reference --json", 0);
    assert_eq!((&passed["verdict"], &passed["compared"]), (&"pass".into(), &5.into()));
}

#[test]
fn blame_needs_a_golden_and_names_an_unknown_scene() {
    let folder = right_and_wrong();
    let neither = folder.tensortap("blame wrong");
    assert_eq!(neither.code, Some(2), "{neither:?}");
    assert!(neither.stderr.contains("--golden"), "{neither:?}");
    let both = folder.tensortap("blame wrong --golden right --reference");
    assert_eq!(both.code, Some(2), "{both:?}");
    let missing = folder.tensortap("blame wrong --golden nowhere");
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

#[test]
fn diff_lists_only_failures_with_the_worst_first() {
    let folder = right_and_wrong();
    let outcome = folder.tensortap("diff wrong right");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert_snapshot("diff", &outcome.stdout);
    let good = folder.good("diff wrong right --func add_scalar");
    assert!(good.stdout.starts_with("PASS: every record is within its rule\n"), "{good:?}");
    let table = folder.good("diff right right --all --stage after");
    assert_eq!(table.stdout.matches(" pass ").count(), 5, "{table:?}");
    let empty = folder.good("diff wrong right --dtype int8");
    assert!(!empty.stdout.contains("PASS"), "{empty:?}");
}

#[test]
fn diff_sorts_first_errors_first_by_default() {
    let folder = Folder::new();
    folder.record("tiny_llm --dump-tensor", "right");
    let wrong = folder.tensortap("run tiny_llm --dump-tensor --out wrong --inject-fault softmax=last");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let table = folder.tensortap("diff wrong right --limit 5").stdout;
    let rows: Vec<&str> =
        table.lines().skip_while(|line| !line.starts_with("RECORD")).skip(1).take(5).collect();
    assert!(rows[0].contains("/after/") && rows[0].contains(" softmax "), "{table}");
    assert!(table.contains("Order: records outside their rule first; outputs before inputs"), "{table}");
    assert!(table.contains("(--limit N lists more"), "{table}");
    let errors = document(&folder, "diff wrong right --sort error --limit 50 --json", 1);
    let errors: Vec<f64> =
        errors["records"].as_array().unwrap().iter().map(|r| r["max_abs_err"].as_f64().unwrap()).collect();
    assert!(errors.len() == 50 && errors.is_sorted_by(|a, b| a >= b) && errors[0] > errors[49], "{errors:?}");
    for (key, value) in [("share", "failing_share"), ("ulps", "max_ulps")] {
        let rows = document(&folder, &format!("diff wrong right --sort {key} --limit 50 --json"), 1);
        let of = |row: &Value| match value {
            "failing_share" => row["failing"].as_f64().unwrap() / numel(row),
            _ => row[value].as_f64().unwrap(),
        };
        let values: Vec<f64> = rows["records"].as_array().unwrap().iter().map(of).collect();
        assert!(values.is_sorted_by(|a, b| a >= b), "{key}: {values:?}");
    }
    assert_eq!(folder.tensortap("diff wrong right --limit 5 --csv").stdout.lines().count(), 6);
    assert_eq!(folder.tensortap("diff wrong right --sort size").code, Some(2));
}

#[expect(clippy::cast_precision_loss, reason = "small tensors")]
fn numel(row: &Value) -> f64 {
    row["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product::<u64>() as f64
}

#[test]
fn reports_different_scenes_and_parameters_first() {
    let folder = right_and_wrong();
    folder.record("bgemm --dump-tensor --param dtype=f16", "f16");
    folder.record("bgemm --dump-tensor", "f32");
    let params = folder.tensortap("diff f16 f32").stdout;
    let lines: Vec<&str> = params.lines().collect();
    assert!(lines[0].ends_with("tasks or records have no counterpart"), "{params}");
    assert_eq!(lines[1], "  different parameters: dtype is f16 in the dump, f32 in the golden");
    let scenes = folder.tensortap("diff f16 right").stdout;
    assert!(
        scenes.contains("\n  different scenes: bgemm in the dump, vector_example in the golden\n"),
        "{scenes}"
    );
    let same = document(&folder, "diff wrong right --json", 1);
    assert_eq!(same["unlike"], Value::Null);
    let other = document(&folder, "diff f16 f32 --json", 1);
    assert!(other["unlike"].as_str().is_some_and(|words| words.contains("dtype is f16")), "{other}");
}

#[test]
fn a_golden_of_the_first_tasks_takes_a_few_lines() {
    let folder = Folder::new();
    folder.record("paged_attention --dump-tensor=hash", "d");
    folder.record("paged_attention --dump-tensor=hash --dump-first 16", "first");
    let refused = folder.tensortap("diff d first");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let (_, below) = refused.stdout.split_once("\nwithout a counterpart:\n").expect("a list");
    let lines: Vec<&str> = below.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 4, "{below}");
    // Four kernels have tasks without a counterpart, each with a different reason.
    assert!(lines[..2].iter().all(|line| line.starts_with("  the dump's task ") && line.contains(" more: ")));
    assert!(lines[2].ends_with(" further tasks or records for 2 other reasons"), "{below}");
    assert_eq!(lines[3], "--allow-unmatched ignores them, --all lists them");
    let all = folder.tensortap("diff d first --all").stdout;
    assert_eq!(all.matches("the dump's task ").count(), 100, "{all}");
}

#[test]
fn lists_missing_counterparts_by_reason_and_counts_allowed_ones() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    folder.good("export d --format npy --func mul --stage after --out one");
    let refused = folder.tensortap("diff d one");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.starts_with("FAIL: every record that could be compared is within its rule, "));
    assert!(refused.stdout.contains(", 17 tasks or records have no counterpart\n"), "{refused:?}");
    let lines = |text: &str| text.matches("the golden has no array for this record").count();
    assert_eq!(lines(&refused.stdout), 1, "{refused:?}");
    for part in
        [" and 16 more: the golden has no array", "\n--allow-unmatched ignores them, --all lists them\n"]
    {
        assert!(refused.stdout.contains(part), "no {part} in {refused:?}");
    }
    assert!(lines(&folder.tensortap("diff d one --all").stdout) >= 17, "--all lists each");
    let allowed = folder.good("diff d one --allow-unmatched").stdout;
    assert!(allowed.contains("\n17 tasks or records have no counterpart, which is allowed"), "{allowed}");
    assert!(!allowed.contains("the golden has no array for this record"), "{allowed}");
}

#[test]
fn diff_prints_json_and_csv() {
    let folder = right_and_wrong();
    let found = document(&folder, "diff wrong right --json", 1);
    let counts = ["compared", "of", "unmatched"].map(|key| found[key].as_u64().unwrap());
    assert_eq!((found["verdict"].as_str(), counts), (Some("fail"), [18, 18, 0]));
    let first = &found["records"][0];
    assert_eq!((&first["verdict"], &first["failing"]), (&"fail".into(), &1.into()));
    assert!(first["max_abs_err"].as_f64().unwrap() > 1.0 && first["rmse"].is_f64(), "{first}");
    let csv = folder.tensortap("diff wrong right --csv");
    assert_eq!((csv.code, csv.stdout.lines().count()), (Some(1), 19), "{csv:?}");
    assert!(csv.stdout.starts_with("index,task_id,kernels,"), "{csv:?}");
}

#[test]
fn rules_and_tolerances_set_the_verdict() {
    let folder = right_and_wrong();
    folder.good("diff wrong right --rtol 10 --atol 1000");
    std::fs::write(folder.path("rules.toml"), "[[rule]]\nfunc = 'mul|add'\nrtol = 10\natol = 1000\n")
        .unwrap();
    folder.good("diff wrong right --rules rules.toml");
    folder.good("blame wrong --golden right --rules rules.toml");
    std::fs::write(folder.path("rules.toml"), "[[rule]]\nfunc = '('\nulps = 1\n").unwrap();
    let bad = folder.tensortap("diff wrong right --rules rules.toml");
    assert!(bad.code == Some(2) && bad.stderr.contains("rules.toml: line 2"), "{bad:?}");
    folder.good("diff right right --profile bitexact");
}

#[test]
fn array_files_match_records_by_name() {
    let folder = right_and_wrong();
    // The same runtime, so that task ids are equal.
    folder.record("vector_example --dump-tensor", "again");
    for format in ["npy", "npz", "safetensors"] {
        folder.good(&format!("export again --format {format} --out {format}"));
        let good = folder.good(&format!("diff again {format}"));
        assert!(good.stdout.contains("compared 18 of 18"), "{format}: {good:?}");
        let bad = folder.tensortap(&format!("diff wrong {format}"));
        assert_eq!(bad.code, Some(1), "{format}: {bad:?}");
        assert!(
            bad.stdout.contains("2 records are outside") || bad.stdout.contains("3 records are outside"),
            "{bad:?}"
        );
    }
    folder.good("export again --format npy --out some --func mul");
    let missing = folder.tensortap("diff again some");
    assert!(missing.code == Some(1) && missing.stdout.contains("without a counterpart"), "{missing:?}");
    folder.good("diff again some --allow-unmatched");
    let nothing = folder.tensortap("diff again outputs");
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[test]
fn repeat_check_reports_different_outputs_for_equal_inputs() {
    let folder = right_and_wrong();
    let repeated = folder.good("diff --repeat-check right right");
    assert!(
        repeated.stdout.starts_with("PASS: tasks with equal inputs have equal outputs\n"),
        "{repeated:?}"
    );
    let found = document(&folder, "diff --repeat-check right wrong --json", 1);
    assert_eq!(found["differing"][0]["kernels"], serde_json::json!(["mul"]));
    let alone = folder.tensortap("diff --repeat-check right");
    assert!(alone.code == Some(1) && alone.stdout.contains("nothing could be compared"), "{alone:?}");
}

/// A scene whose two tasks have no inputs, but write different values by nature: a part of the address of their output.
const STAMPS: &str = r#"
name = "stamps"
about = "each task stamps its output with its address"
[[tensor]]
name = "one"
dtype = "float32"
shape = [64]
role = "out"
[[tensor]]
name = "other"
dtype = "float32"
shape = [64]
role = "out"
[[kernel]]
name = "stamp"
source = "stamp.c"
args = ["out to"]
[[task]]
kernel = "stamp"
args = ["one"]
[[task]]
kernel = "stamp"
args = ["other"]
"#;
const STAMP: &str = r"
#include <tensortap.h>
void kernel_entry(uint64_t *args)
{
    float *to = tt_f32(args, 0);
    for (int i = 0; i < 64; i++)
        to[i] = (float)((uint64_t)to / 64 % 65536);
}
";

#[test]
fn repeat_check_passes_if_tasks_with_equal_inputs_differ_by_nature() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    shop.write("stamps/scene.toml", STAMPS);
    shop.write("stamps/stamp.c", STAMP);
    for out in ["one", "other"] {
        let run = shop.call(&["run", "stamps", "--dump-tensor", "--out", out]);
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    let (code, found) = shop.json(&["diff", "--repeat-check", "one", "other"]);
    assert_eq!((code, &found["differing"], &found["groups"]), (Some(0), &serde_json::json!([]), &1.into()));
    // One run does not show that the difference is expected.
    let (code, found) = shop.json(&["diff", "--repeat-check", "one"]);
    assert_eq!((code, found["differing"].as_array().map(Vec::len)), (Some(1), Some(1)), "{found}");
}

#[test]
fn unrelated_dumps_fail_and_list_missing_counterparts() {
    let folder = right_and_wrong();
    folder.record("scalar_data --dump-tensor", "other");
    for line in ["diff right other", "blame right --golden other", "diff right other --allow-unmatched"] {
        let outcome = folder.tensortap(line);
        assert!(
            outcome.code == Some(1) && outcome.stdout.contains("nothing could be compared"),
            "{outcome:?}"
        );
    }
    let blamed = folder.tensortap("blame right --golden other");
    let said = "the dump is of scene vector_example, the golden of scalar_data";
    let words: Vec<&str> = blamed.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains(said), "{blamed:?}");
}

#[test]
fn remarks_different_parameters_and_requires_a_golden() {
    let folder = right_and_wrong();
    folder.record("vector_example --param seed=7 --dump-tensor", "seeded");
    let seeded = folder.tensortap("blame right --golden seeded");
    assert!(seeded.stdout.contains("the golden ran with different parameters: seed 7, not "), "{seeded:?}");
    let none = folder.tensortap("blame right");
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("use --reference or --rerun, or --golden"), "{none:?}");
}

#[test]
fn remarks_a_wrong_golden_and_a_golden_that_is_the_dump() {
    let folder = right_and_wrong();
    for verb in ["blame", "blame --json", "report -o page.html"] {
        let turned = folder.tensortap(&format!("{verb} right --golden wrong"));
        let said = "the golden is itself wrong: it ran with the injected fault ";
        assert!(turned.stdout.contains(said) || page(&folder).contains(said), "{turned:?}");
        let same = folder.tensortap(&format!("{verb} right --golden right"));
        let said = "the dump is compared with itself";
        assert!(same.stdout.contains(said) || page(&folder).contains(said), "{same:?}");
    }
}

/// The page that `report` wrote.
fn page(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path("page.html")).unwrap_or_default()
}

#[test]
fn a_live_dump_lists_culprits_first_and_counts_agreement() {
    let folder = Folder::new();
    folder.record("paged_attention --dump-tensor=hash", "golden");
    folder.tensortap("run paged_attention --live golden --out live --inject-fault softmax=last");
    let blamed = folder.tensortap("blame live --reference");
    assert_eq!(blamed.code, Some(1), "{blamed:?}");
    let (head, list) =
        blamed.stdout.split_once("tasks in dependency order, wrong ones first").expect("listed");
    let sentence = crate::common::unwrapped(head);
    assert!(sentence.starts_with("FAIL: task 0x") && sentence.contains("(sequence "), "{head}");
    assert!(sentence.contains(" is wrong here; in all, 29 tasks are wrong here, all softmax"), "{head}");
    assert!(list.lines().nth(1).is_some_and(|row| row.starts_with("  wrong_here")), "{list}");
    assert!(head.contains("matched the golden during the run"), "{head}");
    assert!(!list.contains("is not stored") && !list.contains("unknown"), "{list}");
    let wide = list.lines().find(|line| line.len() > 80);
    assert_eq!(wide, None);

    folder.good("run paged_attention --live golden --out same");
    let same = folder.good("blame same --reference");
    assert!(same.stdout.contains("116 tasks matched the golden during the run"), "{same:?}");
}

#[test]
fn scene_golden_compares_the_outputs_of_the_run() {
    let folder = right_and_wrong();
    let outcome = folder.tensortap("diff wrong --scene-golden");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert_snapshot("diff_scene_golden", &outcome.stdout);
    let good = folder.good("diff right --scene-golden");
    assert!(good.stdout.starts_with("PASS: every output is within its rule\n"), "{good:?}");
    let found = document(&folder, "diff wrong --scene-golden --json", 1);
    assert_eq!((&found["verdict"], &found["compared"], &found["of"]), (&"fail".into(), &1.into(), &1.into()));
    let row = &found["records"][0];
    assert_eq!(
        (&row["output"], &row["stage"], &row["verdict"]),
        (&"f".into(), &"after_completion".into(), &"fail".into())
    );
    // The last task wrote it, although another task is wrong. Only blame finds that one.
    assert_eq!((&row["task_id"], &row["kernels"][0]), (&"0x0000000100000003".into(), &"add".into()));
    assert_eq!((&row["failing"], &row["worst"]["coordinate"][0]), (&1.into(), &16383.into()));
    let csv = folder.tensortap("diff wrong --scene-golden --csv");
    assert_eq!((csv.code, csv.stdout.lines().count()), (Some(1), 2), "{csv:?}");
    assert!(csv.stdout.lines().nth(1).expect("a row").starts_with("f,float32,16384,fail,"), "{csv:?}");
    folder.good("diff wrong --scene-golden --rtol 10 --atol 1000");
}

#[test]
fn rejects_scene_golden_with_a_reason() {
    let folder = right_and_wrong();
    for (line, reason) in [
        ("diff right --scene-golden --func add", "selectors cannot choose among them"),
        ("diff right wrong --scene-golden", "`diff` compares one dump with one other"),
        ("diff right --scene-golden --golden-dtype", "cannot be used with"),
        ("diff --scene-golden", "there is no folder outputs/ here"),
    ] {
        let refused = folder.tensortap(line);
        assert!(refused.code == Some(2) && refused.stderr.contains(reason), "{line}: {refused:?}");
    }
    // The manifest does not record the addresses of the outputs.
    std::fs::remove_file(folder.path("right/tensor_dump.idx")).unwrap();
    let refused = folder.tensortap("diff right --scene-golden");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("does not record where the outputs"),
        "{refused:?}"
    );
}

#[test]
fn an_unreadable_golden_is_not_called_missing() {
    let folder = crate::dumps::vector_example();
    folder.good("export d --format npy --out arrays");
    let bad = "task_0x0000000100000002_after_out2.npy";
    std::fs::write(folder.path("arrays").join(bad), "junk").unwrap();
    let outcome = folder.tensortap("diff d arrays");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains(bad) && !outcome.stderr.contains("no tensor dump"), "{outcome:?}");
}

#[test]
fn a_file_next_to_the_manifest_is_not_a_dump() {
    let folder = crate::dumps::vector_example();
    std::fs::write(folder.path("d/notes.txt"), "mine").unwrap();
    for file in ["d/graph.json", "d/notes.txt"] {
        let outcome = folder.tensortap(&format!("diff d {file}"));
        assert_eq!(outcome.code, Some(2), "{file}: {outcome:?}");
        assert!(
            outcome.stderr.contains(file) && outcome.stderr.contains("not a manifest"),
            "{file}: {outcome:?}"
        );
    }
    folder.good("diff d d/tensor_dump.json");
}
