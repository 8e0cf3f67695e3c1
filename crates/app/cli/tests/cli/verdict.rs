//! The verdict of `blame`, which command, document and report share: what fails, what passes, and what `--strict`
//! requires.

use serde_json::{Value, json};

use crate::dumps::Folder;

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), ""), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

/// The first line of `blame` without PASS or FAIL, the headline of its document, and the sentence of the report.
fn sentences(folder: &Folder, options: &str, code: i32) -> [String; 3] {
    let text = folder.tensortap(&format!("blame {options}"));
    assert_eq!(text.code, Some(code), "{options}: {text:?}");
    // The text of a terminal is wrapped: the second paragraph line starts with `  compared`.
    let lines: Vec<&str> = text.stdout.lines().take_while(|line| !line.starts_with("  compared ")).collect();
    let line = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let said = document(folder, &format!("blame {options} --json"), code);
    let report = document(folder, &format!("report {options} -o page.html --json"), code);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    [line[6..].to_owned(), text(&said["headline"]), text(&report["sentence"])]
}

fn vector(folder: &Folder, options: &str, out: &str, code: i32) {
    let line = format!("run vector_example --dump-tensor --out {out} {options}");
    let ran = folder.tensortap(&line);
    assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
}

#[test]
fn command_document_and_report_share_one_sentence() {
    let folder = Folder::new();
    vector(&folder, "", "right", 0);
    vector(&folder, "--inject-fault mul=last", "wrong", 1);
    for (options, code, sentence) in [
        ("wrong --golden right", 1, "task 0x100000002 (inner / t3: mul) is wrong here"),
        ("wrong --reference", 1, "task 0x100000002 (inner / t3: mul) is wrong here"),
        ("right --golden right", 0, "no task is wrong; judged 5 of 5 tasks"),
    ] {
        assert_eq!(sentences(&folder, options, code), [sentence; 3]);
    }
}

#[test]
fn tasks_that_were_not_judged_fail_only_with_strict() {
    let folder = Folder::new();
    vector(&folder, "", "right", 0);
    vector(&folder, "--dump-func mul", "filtered", 0);
    let all = document(&folder, "blame right --golden filtered --json", 0);
    assert_eq!(
        (&all["verdict"], &all["judged"], &all["judged_of"]),
        (&json!("pass"), &json!(1), &json!(5)),
        "{all}"
    );
    assert_eq!((&all["failure"], all["labels"]["unknown"].as_u64()), (&Value::Null, Some(4)), "{all}");
    assert_eq!(all["headline"], "no judged task is wrong; judged 1 of 5 tasks", "{all}");
    let strict = document(&folder, "blame right --golden filtered --json --strict", 1);
    assert_eq!((&strict["verdict"], &strict["labels"]), (&json!("fail"), &all["labels"]), "{strict}");
    assert!(["unjudged", "unmatched"].iter().any(|name| strict["failure"] == *name), "{strict}");
    document(&folder, "blame right --golden right --json --strict", 0);
}

#[test]
fn a_task_of_only_one_run_passes_if_everything_else_is_right() {
    let folder = Folder::new();
    for (tasks, out) in [(5, "five"), (6, "six")] {
        folder.good(&format!("run stream -p tasks={tasks} -p bytes=4096 --dump-tensor --out {out}"));
    }
    for (options, words) in [
        ("six --golden five", "1 task is only in the dump"),
        ("five --golden six", "1 task is only in the golden"),
    ] {
        let said = document(&folder, &format!("blame {options} --json"), 0);
        assert!(said["remarks"].to_string().contains(words), "{said}");
        let strict = document(&folder, &format!("blame {options} --json --strict"), 1);
        assert_eq!(strict["failure"], "unmatched", "{strict}");
        assert_eq!(strict["headline"], format!("{words}, and --strict requires a counterpart"));
        document(&folder, &format!("blame {options} --json --strict --allow-unmatched"), 0);
    }
}

#[test]
fn a_wrong_record_fails_even_if_no_task_can_be_named() {
    let folder = Folder::new();
    vector(&folder, "--dump-stage before", "right", 0);
    vector(&folder, "--dump-stage before --inject-fault mul=last", "wrong", 1);
    let said = document(&folder, "blame wrong --golden right --json", 1);
    assert_eq!(
        (&said["failure"], &said["first_wrong"], &said["judged"]),
        (&json!("outside"), &json!([]), &json!(0))
    );
    let headline = said["headline"].as_str().expect("text");
    assert!(
        headline.contains(" is outside its rule before the task, but no task can be named as the cause: "),
        "{said}"
    );
    // Nothing is outside, but nothing was judged either.
    let said = document(&folder, "blame right --golden right --json", 1);
    assert_eq!((&said["failure"], &said["judged"]), (&json!("nothing_judged"), &json!(0)), "{said}");
    assert!(said["compared"].as_u64().is_some_and(|compared| compared > 0), "{said}");
}

#[test]
fn a_crashed_run_fails_although_everything_captured_is_right() {
    let folder = Folder::new();
    let ran = folder.tensortap("run crash_segv --dump-tensor --out crashed");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let said = document(&folder, "blame crashed --reference --json", 1);
    assert_eq!((&said["failure"], &said["first_wrong"]), (&json!("crashed"), &json!([])), "{said}");
    assert!(said["headline"].as_str().expect("text").starts_with("the run crashed: "), "{said}");
}

#[test]
fn damaged_contents_that_differ_do_not_pass() {
    let folder = Folder::new();
    vector(&folder, "", "right", 0);
    vector(&folder, "--inject-fault mul=last", "wrong", 1);
    // Contents with equal hashes are not read.
    let damage = |name: &str| {
        let path = folder.path(name).join("tensor_dump.bin");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(path, bytes).unwrap();
    };
    damage("wrong");
    let said = document(&folder, "blame wrong --golden right --json", 1);
    assert_eq!((&said["verdict"], &said["failure"]), (&json!("undecided"), &json!("undecided")), "{said}");
    let headline = said["headline"].as_str().unwrap();
    assert!(headline.contains("differs, but its content cannot be compared: the payload of"), "{headline}");
    assert!(headline.contains("tensortap verify"), "{headline}");
    damage("right");
    document(&folder, "blame right --golden right --json", 0);
}
