//! `blame` gives the right answer from less than two full dumps, and says what it rests on.

use serde_json::Value;

use crate::dumps::Folder;

const MUL_IS_WRONG: &str = "FAIL: task 0x100000002 (inner / t3: mul) is wrong here\n";

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

fn labels(document: &Value) -> Vec<&str> {
    document["tasks"].as_array().unwrap().iter().map(|task| task["label"].as_str().unwrap()).collect()
}

fn wrong(folder: &Folder, line: &str) {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(1), "{line}: {outcome:?}");
}

#[test]
fn a_golden_needs_no_payloads_and_neither_does_the_dump() {
    let folder = Folder::new();
    for level in ["full", "hash"] {
        folder.good(&format!("run vector_example --dump-tensor={level} --out right-{level}"));
        wrong(
            &folder,
            &format!("run vector_example --dump-tensor={level} --out wrong-{level} --inject-fault mul=last"),
        );
    }
    for (dump, golden) in [("full", "hash"), ("hash", "full"), ("hash", "hash"), ("full", "full")] {
        let line = format!("blame wrong-{dump} --golden right-{golden}");
        let outcome = folder.tensortap(&line);
        assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{line}: {outcome:?}");
        assert!(outcome.stdout.contains("5 tasks: 1 wrong_here, 1 inherited, 3 ok"), "{line}: {outcome:?}");
        folder.good(&format!("blame right-{dump} --golden right-{golden}"));
    }
}

#[test]
fn a_live_dump_is_judged_although_it_dropped_what_agreed() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor --out right");
    folder.good("run vector_example --live right --out live");
    wrong(&folder, "run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    // The payloads that the live dump dropped are those of the golden that it names.
    let outcome = folder.tensortap("blame wrong --golden live");
    assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{outcome:?}");
    let passed = folder.good("blame live --reference");
    assert!(passed.stdout.starts_with("PASS: no task is wrong\n"), "{passed:?}");
    assert!(passed.stdout.contains("5 tasks agreed with the golden while running"), "{passed:?}");
    wrong(&folder, "run vector_example --live right --out live-wrong --inject-fault mul=last");
    let outcome = folder.tensortap("blame live-wrong --reference");
    assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{outcome:?}");
}

#[test]
fn outputs_alone_are_enough_against_a_golden_and_labels_say_what_they_rest_on() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor --out right");
    for runtime in ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"] {
        let line = format!(
            "run vector_example --dump-tensor --dump-stage after --runtime {runtime} --out {runtime}"
        );
        wrong(&folder, &format!("{line} --inject-fault mul=last"));
        let outcome = folder.tensortap(&format!("blame {runtime} --golden right"));
        assert!(outcome.stdout.contains("mul) is wrong here\n"), "{runtime}: {outcome:?}");
        assert!(outcome.stdout.contains("2 labels rest on the edges of the dump"), "{runtime}: {outcome:?}");
        let found = document(&folder, &format!("blame {runtime} --golden right --json"), 1);
        assert_eq!(labels(&found).iter().filter(|label| **label == "ok").count(), 3, "{runtime}: {found}");
        assert!(labels(&found).contains(&"inherited") && !labels(&found).contains(&"unknown"), "{runtime}");
    }
}

#[test]
fn the_wrong_kernel_inside_a_mix_task_is_named() {
    let folder = Folder::new();
    folder.good("run mixed_example --dump-tensor --out right");
    for kernel in ["turn", "fold", "step"] {
        wrong(
            &folder,
            &format!("run mixed_example --dump-tensor --out {kernel} --inject-fault {kernel}=last"),
        );
        for against in ["--golden right", "--reference"] {
            let found = document(&folder, &format!("blame {kernel} {against} --json"), 1);
            let first = found["first_wrong"][0].as_str().unwrap();
            let tasks = found["tasks"].as_array().unwrap();
            let task = tasks.iter().find(|task| task["task_id"] == first).unwrap();
            assert_eq!(task["kernels"].as_array().unwrap().len(), 3, "{kernel} {against}: {task}");
            assert_eq!(task["wrong_kernels"], serde_json::json!([kernel]), "{kernel} {against}: {task}");
            assert!(
                tasks
                    .iter()
                    .all(|t| t["label"] == "wrong_here" || t["wrong_kernels"] == serde_json::json!([]))
            );
            let text = folder.tensortap(&format!("blame {kernel} {against}")).stdout;
            assert!(text.contains(&format!("in {kernel}")), "{text}");
            assert!(text.contains(&format!("the wrong kernel inside: {kernel}\n")), "{text}");
        }
    }
}

#[test]
fn lines_fit_eighty_columns_and_a_race_names_both_tasks() {
    let folder = Folder::new();
    folder.good("run mixed_example --dump-tensor --out right");
    wrong(&folder, "run mixed_example --dump-tensor --out wrong --inject-fault fold=sign");
    for line in ["blame wrong --golden right", "blame wrong --reference", "blame wrong --golden right --all"]
    {
        let text = folder.tensortap(line).stdout;
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{line}");
    }
    wrong(&folder, "run vector_example --dump-tensor --out raced --inject-fault mul=race");
    let text = folder.tensortap("blame raced --reference").stdout;
    let words: Vec<&str> = text.split_whitespace().collect();
    let both =
        "FAIL: task 0x100000003 (inner / t4: add) raced with task 0x100000002 (inner / t3: mul) compared";
    assert!(words.join(" ").starts_with(both), "{text}");
}

#[test]
fn the_first_of_equal_culprits_is_the_same_in_every_run() {
    let folder = Folder::new();
    let mut firsts = Vec::new();
    for (turn, options) in
        ["", "--schedulers 2", "--blocks 5", "--device-mode thread", "--schedulers 3"].iter().enumerate()
    {
        wrong(
            &folder,
            &format!(
                "run vector_example --dump-tensor --out {turn} --inject-fault add_scalar=last {options}"
            ),
        );
        firsts.push(document(&folder, &format!("blame {turn} --reference --json"), 1)["first_wrong"].clone());
    }
    assert_eq!(firsts[0], serde_json::json!(["0x0000000100000000", "0x0000000100000001"]));
    assert!(firsts.iter().all(|first| *first == firsts[0]), "{firsts:?}");
}
