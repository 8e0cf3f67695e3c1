//! `blame` finds the right answer with less than two full dumps, and states its evidence.

use serde_json::Value;

use crate::common;
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
fn a_live_dump_is_judged_without_its_dropped_payloads() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.good("run vector_example --live right --out live");
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=last", "wrong");
    // The live dump names the golden that contains its dropped payloads.
    let outcome = folder.tensortap("blame wrong --golden live");
    assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{outcome:?}");
    let passed = folder.good("blame live --reference");
    assert!(passed.stdout.starts_with("PASS: no task is wrong; judged "), "{passed:?}");
    assert!(passed.stdout.contains("5 tasks matched the golden during the run"), "{passed:?}");
    wrong(&folder, "run vector_example --live right --out live-wrong --inject-fault mul=last");
    let outcome = folder.tensortap("blame live-wrong --reference");
    assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{outcome:?}");
}

#[test]
fn with_only_outputs_the_headline_reports_the_first_wrong_one_and_accuses_no_task() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    for runtime in ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"] {
        let line = format!(
            "run vector_example --dump-tensor --dump-stage after --runtime {runtime} --out {runtime}"
        );
        wrong(&folder, &format!("{line} --inject-fault mul=last"));
        let outcome = folder.tensortap(&format!("blame {runtime} --golden right"));
        let found = document(&folder, &format!("blame {runtime} --golden right --json"), 1);
        assert_eq!(labels(&found).iter().filter(|label| **label == "ok").count(), 3, "{runtime}: {found}");
        let headline = "mul) is outside its rule after the task, but no task can be named as the cause:";
        let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.split_once(" compared ").is_some_and(|(first, _)| first.contains(headline)), "{text}");
        // Only edges that the runtime derived show that an input came from a wrong output.
        let is_derived = runtime == "tensormap_and_ringbuffer";
        let inherited = labels(&found).iter().filter(|label| **label == "inherited").count();
        assert_eq!(inherited, usize::from(is_derived), "{runtime}: {found}");
        assert!(!labels(&found).contains(&"wrong_here"), "{runtime}: {found}");
        let basis = outcome.stdout.contains("1 label is based on the edges of the dump");
        assert_eq!(basis, is_derived, "{runtime}: {outcome:?}");
    }
}

#[test]
fn a_golden_of_only_outputs_separates_wrong_inherited_and_raced() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor --dump-stage after", "outputs");
    for level in ["full", "hash"] {
        let run = format!("run vector_example --dump-tensor={level}");
        folder.good(&format!("{run} --out right-{level}"));
        wrong(&folder, &format!("{run} --out wrong-{level} --inject-fault mul=last"));
        wrong(&folder, &format!("{run} --out raced-{level} --inject-fault mul=race"));
        folder.good(&format!("blame right-{level} --golden outputs"));
        let found = by_task(&document(&folder, &format!("blame wrong-{level} --golden outputs --json"), 1));
        let words: Vec<(&str, &Value)> = found.iter().map(|(_, label, on)| (label.as_str(), on)).collect();
        let (none, on) = (&Value::Null, &Value::from("producers"));
        let expected = [("ok", none), ("ok", none), ("ok", none), ("wrong_here", on), ("inherited", on)];
        assert_eq!(words, expected, "{level}");
        // The last task read something other than the correct output of `mul`.
        let found = by_task(&document(&folder, &format!("blame raced-{level} --golden outputs --json"), 1));
        assert_eq!((found[3].1.as_str(), found[4].1.as_str()), ("ok", "raced"), "{level}");
    }
}

#[test]
fn only_inputs_prove_no_task_right() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    wrong(
        &folder,
        "run vector_example --dump-tensor --dump-stage before --out before --inject-fault mul=last",
    );
    for against in ["--golden right", "--golden before", "--reference"] {
        let found = document(&folder, &format!("blame before {against} --json"), 1);
        assert_eq!(labels(&found), ["unknown"; 5], "{against}: {found}");
        let reason = found["tasks"][0]["reason"].as_str().unwrap();
        assert_eq!(reason, "none of the task's outputs were captured", "{against}");
    }
}

/// Labels by task, with their evidence.
fn by_task(document: &Value) -> Vec<(String, String, Value)> {
    let word = |task: &Value, key: &str| task[key].as_str().unwrap_or_default().to_owned();
    let tasks = document["tasks"].as_array().unwrap().iter();
    let mut all: Vec<_> =
        tasks.map(|t| (word(t, "task_id"), word(t, "label"), t["rests_on"].clone())).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn references_judge_only_outputs_if_the_views_of_inputs_are_recorded() {
    let folder = Folder::new();
    for runtime in ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"] {
        let line =
            format!("run vector_example --dump-tensor --dump-args --dump-stage after --runtime {runtime}");
        wrong(&folder, &format!("{line} --out {runtime} --inject-fault mul=last"));
        let outcome = folder.tensortap(&format!("blame {runtime} --reference"));
        assert!(outcome.stdout.contains("mul) is wrong here\n"), "{runtime}: {outcome:?}");
        assert!(
            outcome.stdout.contains("4 labels are based on what the producers of inputs wrote"),
            "{outcome:?}"
        );
        assert!(outcome.stdout.contains("worst at [16383]"), "{outcome:?}");
        let found = document(&folder, &format!("blame {runtime} --reference --json"), 1);
        let judged: Vec<_> = by_task(&found).into_iter().filter(|(_, label, _)| label != "unknown").collect();
        assert_eq!(judged.len(), 4, "{runtime}: {found}");
        assert!(judged.iter().all(|(_, _, rests_on)| rests_on == "producers"), "{runtime}: {found}");
        // The first task reads inputs of the run, which no task wrote.
        let unknown = found["tasks"].as_array().unwrap().iter().find(|t| t["label"] == "unknown").unwrap();
        assert_eq!((&unknown["task_name"], &unknown["rests_on"]), (&"t0".into(), &Value::Null));
        let reason = unknown["reason"].as_str().unwrap();
        assert!(
            reason.contains(
                "argument 0 was not captured, and no captured task wrote it; record with --dump-stage both"
            ),
            "{reason}"
        );
    }
}

#[test]
fn labels_from_producers_equal_those_of_a_full_dump() {
    let folder = Folder::new();
    let run = "run paged_attention --dump-tensor --inject-fault softmax=last";
    wrong(&folder, &format!("{run} --out full"));
    wrong(&folder, &format!("{run} --out after --dump-args --dump-stage after"));
    let full = by_task(&document(&folder, "blame full --reference --json", 1));
    let after = by_task(&document(&folder, "blame after --reference --json", 1));
    let mut judged = 0;
    for ((id, label, _), (same, rests, _)) in full.iter().zip(&after) {
        assert_eq!(id, same);
        assert!(label == rests || rests == "unknown", "{id}: {label}, {rests}");
        judged += usize::from(rests != "unknown");
    }
    // Each block has four tasks. QK and PV read keys and values, which are inputs of the run, and the first update of each of
    // four sequences reads accumulators that no task wrote. Every softmax and every later update can be judged.
    assert_eq!(judged, full.len() / 4 * 2 - 4, "of {}", full.len());
    assert!(after.iter().any(|(_, label, _)| label == "wrong_here"));
}

#[test]
fn missing_views_are_reported_with_the_option_that_records_them() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor --dump-stage after", "bare");
    let found = document(&folder, "blame bare --reference --json", 1);
    for task in found["tasks"].as_array().unwrap() {
        let reason = task["reason"].as_str().unwrap();
        assert!(
            task["label"] == "unknown" && reason.contains("record with --dump-args for the views"),
            "{reason}"
        );
    }
    // If a filter removes the output of a task, no inputs can be derived from it.
    folder.record("vector_example --dump-tensor --dump-args --dump-stage after --dump-func mul", "some");
    let found = document(&folder, "blame some --reference --json", 1);
    let mul = found["tasks"].as_array().unwrap().iter().find(|t| t["kernels"][0] == "mul").unwrap();
    let reason = mul["reason"].as_str().unwrap();
    assert!(
        mul["label"] == "unknown"
            && reason.contains("filters removed other records, too; record with --dump-stage both"),
        "{reason}"
    );
}

#[test]
fn the_replay_command_of_blame_reproduces_an_injected_fault() {
    let folder = Folder::new();
    for kind in ["last", "sign", "nan"] {
        wrong(&folder, &format!("run vector_example --dump-tensor --out {kind} --inject-fault mul={kind}"));
        let found = document(&folder, &format!("blame {kind} --reference --json"), 1);
        let replay = found["culprits"][0]["replay"].as_str().unwrap().strip_prefix("tensortap ").unwrap();
        let again = folder.good(replay);
        assert!(again.stdout.contains("PASS"), "{kind}: {again:?}");
        wrong(&folder, &format!("{replay} --reference"));
        let text = folder.tensortap(&format!("blame {kind} --reference")).stdout;
        assert!(text.contains(&format!(" --inject-fault mul={kind}\n")), "{text}");
    }
    // The task of a race is right when it runs by itself, whatever fault is injected into another task.
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=race", "raced");
    let found = document(&folder, "blame raced --reference --json", 1);
    let replay = found["culprits"][0]["replay"].as_str().unwrap().strip_prefix("tensortap ").unwrap();
    assert!(!replay.contains("inject"), "{replay}");
    folder.good(replay);
}

#[test]
fn names_the_wrong_kernel_of_a_mix_task() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-tensor", "right");
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
            assert!(text.contains(&format!("wrong kernel of the mix task: {kernel}\n")), "{text}");
        }
    }
}

#[test]
fn lines_fit_eighty_columns_and_a_race_names_both_tasks() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-tensor", "right");
    folder.record_wrong("mixed_example --dump-tensor --inject-fault fold=sign", "wrong");
    for line in ["blame wrong --golden right", "blame wrong --reference", "blame wrong --golden right --all"]
    {
        let text = folder.tensortap(line).stdout;
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{line}");
    }
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=race", "raced");
    let text = folder.tensortap("blame raced --reference").stdout;
    let words: Vec<&str> = text.split_whitespace().collect();
    let both =
        "FAIL: task 0x100000003 (inner / t4: add) raced with task 0x100000002 (inner / t3: mul) compared";
    assert!(words.join(" ").starts_with(both), "{text}");
}

#[test]
fn further_raced_tasks_are_not_called_wrong() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.record_wrong("vector_example --dump-tensor --inject-fault add=race", "raced");
    for line in ["blame raced --golden right", "blame raced --reference"] {
        let text = common::unwrapped(&folder.tensortap(line).stdout);
        let more = "1 more task raced with task 0x0 (t0: add), which had not completed: add_scalar 1";
        assert!(text.contains(more) && !text.contains("although"), "{line}: {text}");
    }
}

#[test]
fn the_first_of_equal_culprits_is_deterministic() {
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

#[test]
fn all_views_agree_on_the_first_wrong_task() {
    let folder = Folder::new();
    folder.record("tiny_llm --param tokens=6 --dump-tensor", "right");
    folder.record_wrong("tiny_llm --param tokens=6 --dump-tensor --inject-fault softmax=last", "wrong");
    let text = folder.tensortap("blame wrong --golden right").stdout;
    let text = common::unwrapped(&text);
    let after = |words: &str| {
        let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words} in {text}"));
        rest.split_whitespace().next().expect("an id").to_owned()
    };
    let first = after("FAIL: task ");
    assert_eq!(after("without tasks that are ok: wrong_here task "), first, "{text}");
    let shown = folder.good("show wrong softmax --golden right").stdout;
    assert!(shown.starts_with(&format!("task {first}: softmax\n")), "{shown}");
    // Reports sort by depth, then by id, not by time.
    let listed = document(&folder, "blame wrong --golden right --json --only wrong_here", 1);
    let listed: Vec<&str> =
        listed["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].as_str().unwrap()).collect();
    let firsts = document(&folder, "blame wrong --golden right --json --limit 0", 1);
    let firsts: Vec<&str> =
        firsts["first_wrong"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(firsts.len() > 1 && listed.starts_with(&firsts), "{firsts:?} {listed:?}");
}
