//! What `tensortap` reports about unusual launches and programs.

use std::fs;
use std::process::{Command, Output};

use tensortap::{DType, DumpStage, record::UncapturedReason};

use crate::{Bench, common, succeeded};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn call(bench: &Bench, args: &[&str]) -> String {
    let output: Output =
        Command::new(common::executable()).args(args).current_dir(bench.path("")).output().unwrap();
    succeeded(&output);
    text(&output.stdout)
}

#[test]
fn vectors_local_memory_refused_launches_and_forked_children_are_reported() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.program(Some(("run", "")), "odd.py").output().unwrap();
    succeeded(&output);
    let notes = text(&output.stderr);
    assert!(notes.contains("are not recorded: it was forked from a recorded process"), "{notes}");

    let dump = bench.dump("run");
    let libraries = &dump.footer().unwrap().extra["libraries"];
    let paths = |kind: &str| -> Vec<&str> {
        let all = libraries.as_array().unwrap().iter().filter(|library| library["kind"] == kind);
        all.map(|library| library["path"].as_str().unwrap()).collect()
    };
    let [loader] = paths("opencl_loader")[..] else { panic!("{libraries}") };
    assert!(std::path::Path::new(loader).is_absolute() && loader.contains("libOpenCL"), "{loader}");
    assert!(!paths("opencl_driver").is_empty() && paths("cuda_driver").is_empty(), "{libraries}");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(dump.dir().join("tensor_dump.json")).unwrap()).unwrap();
    assert_eq!(&manifest["libraries"], libraries);
    let launched = dump.tasks().unwrap().iter().find(|task| task.kernel_names() == ["turned"]).unwrap().key();
    let of_launch = |arg: u16| {
        let mut records = dump.records().map(Result::unwrap);
        let record = records.find(|record| record.task_id == launched.task_id && record.arg_index == arg);
        record.unwrap_or_else(|| panic!("argument {arg}"))
    };
    let (memory, by, c) = (of_launch(0), of_launch(1), of_launch(2));
    assert_eq!((memory.dtype, memory.shape()), (DType::Float32, &[32, 2][..]));
    assert_eq!((by.dtype, by.shape()), (DType::Float32, &[2][..]));
    assert_eq!(dump.payload(&by).unwrap(), [1_f32, 2.0].map(f32::to_le_bytes).concat());
    assert_eq!((c.dtype, c.shape()), (DType::Float32, &[4][..]), "a vector of three has room for four");
    assert_eq!(dump.payload(&c).unwrap()[..12], [3_f32, 4.0, 5.0].map(f32::to_le_bytes).concat());
    assert_eq!((of_launch(4).dtype, of_launch(4).scalar_bits), (DType::Int8, Some(7)));

    let shown = call(&bench, &["show", "run", &format!("{:#x}", launched.task_id)]);
    assert!(shown.contains("argument 3 (room), local memory of 96 bytes"), "{shown}");
    let listed = call(&bench, &["list", "run"]);
    assert!(listed.contains(" local ") && listed.contains("96 bytes"), "{listed}");
    let tasks = dump.tasks().unwrap();
    assert_eq!(
        tasks.iter().filter(|task| task.kernel_names() == ["turned"]).count(),
        1,
        "the other launch was refused"
    );
    let refused = "turned, refused by the driver with status -54";
    assert_eq!(tasks.iter().filter(|task| task.task_name() == Some(refused)).count(), 1);
    let of_refused = listed.lines().filter(|line| line.contains("0x0000000000000003"));
    let is_named =
        |line: &str| line.contains(", refused by the driver with status -54") && line.contains(" turned ");
    assert!(of_refused.clone().count() >= 4 && of_refused.clone().all(is_named), "{listed}");
    let shown = call(&bench, &["show", "run", "0x3"]);
    assert!(
        shown.starts_with(&format!(
            "task 0x3: {refused}
"
        )),
        "{shown}"
    );
    let graph: serde_json::Value =
        serde_json::from_slice(&fs::read(dump.dir().join("graph.json")).unwrap()).unwrap();
    assert!(graph["tasks"].as_array().unwrap().iter().any(|task| task["task_name"] == refused), "{graph}");
}

#[test]
fn unknown_kernels_in_a_filter_are_reported() {
    let Some(bench) = Bench::new() else { return };
    let notes = |funcs: &str, run: &str| {
        let options = format!("--dump-func {funcs}");
        let output = bench.program(Some((run, &options)), "odd.py").output().unwrap();
        succeeded(&output);
        text(&output.stderr)
    };
    let missing = notes("turned,nosuch,tw*", "missing");
    let said = "the program has no kernel `nosuch`, `tw*` (--dump-func): it has turned";
    assert!(missing.contains(said), "{missing}");
    assert!(!notes("tu*", "there").contains("has no kernel"));
}

#[test]
fn only_the_last_tasks_of_a_long_queue_are_kept() {
    let Some(bench) = Bench::new() else { return };
    let kept = |options: &str, run: &str| -> Vec<u64> {
        let output = bench.program(Some((run, options)), "queued.py").output().unwrap();
        succeeded(&output);
        let dump = bench.dump(run);
        let mut ids: Vec<u64> = dump.records().map(|record| record.unwrap().task_id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let all = kept("", "all");
    assert!(all.len() > 400, "{}", all.len());
    assert_eq!(kept("--dump-last 5", "last"), all[all.len() - 5..]);
}

#[test]
fn filtered_records_are_counted_and_an_empty_dump_is_explained() {
    let Some(bench) = Bench::new() else { return };
    let notes = |options: &str, run: &str| {
        let output = bench.program(Some((run, options)), "odd.py").output().unwrap();
        succeeded(&output);
        text(&output.stderr)
    };
    let marked = notes("--dump-tensor=marked", "marked");
    assert!(marked.contains("records only marked arguments"), "{marked}");
    let some = notes("--dump-task 0x2", "some");
    let line = some.lines().find(|line| line.trim_start().starts_with("filtered "));
    assert!(line.is_some_and(|line| line.contains(" records, by filters and limits")), "{some}");
    let notes = notes("--dump-task 0x7777", "run");
    assert!(notes.contains("the filters removed every record: "), "{notes}");
    assert!(notes.contains("by filters and limits (--dump-…)"), "{notes}");
}

#[test]
fn a_crashing_launch_is_reported_and_later_launches_have_not_begun() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.program(Some(("run", "")), "queued.py").arg("crash").output().unwrap();
    assert!(!output.status.success());
    let notes = text(&output.stdout) + &text(&output.stderr);
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let wild = tasks.iter().find(|task| task.kernel_names() == ["wild"]).unwrap().task_id;
    let words = format!(
        "1 task had not completed when the run ended: task {wild:#x} (wild); 4 tasks that wait for them had not started"
    );
    assert!(notes.contains(&words), "{notes}");
    assert!(call(&bench, &["summary", "run"]).contains(&words));
    let later = call(&bench, &["show", "run", &format!("{:#x}", wild + 2)]);
    assert!(later.contains("it had not started when the run ended; it was waiting for"), "{later}");
    assert!(!later.contains("  started"), "{later}");
}

#[test]
fn program_scope_variables_are_reported_and_make_replays_inexact() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.program(Some(("run", "")), "variables.py").output().unwrap();
    succeeded(&output);
    if output.stdout.is_empty() {
        eprintln!("skipped: the device has no variables of programs");
        return;
    }
    assert_eq!(text(&output.stdout), "3\n4\n5\n");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let launches: Vec<_> = tasks.iter().filter(|task| task.kernel_names() == ["count"]).collect();
    assert_eq!(launches.len(), 3);
    for launch in &launches {
        assert_eq!(launch.uncaptured(1), Some(UncapturedReason::Variables));
        let shown = call(&bench, &["show", "run", &format!("{:#x}", launch.task_id)]);
        assert!(shown.contains("variables of the program"), "{shown}");
    }
    let (code, said, stderr) = bench.call(&["replay", "run", "--all"]);
    assert_eq!(code, Some(1), "{said} {stderr}");
    let refused = said["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 3, "{said}");
    for refused in refused {
        let reason = refused["reason"].as_str().unwrap();
        assert!(reason.contains("variables of the program"), "{reason}");
    }
    // Replayed by itself, the third launch starts with the initial value, as the first did.
    let third = format!("{:#x}", launches[2].task_id);
    let (code, said, stderr) = bench.call(&["replay", "run", "--task", &third, "--allow-inexact"]);
    assert_eq!((code, &said["bitexact"]), (Some(1), &0.into()), "{said} {stderr}");
}

#[test]
fn snapshots_in_flight_are_limited_and_the_program_continues() {
    let Some(mut bench) = Bench::new() else { return };
    let mut program = bench.with_snapshots_by("device").program(Some(("run", "")), "queued.py");
    // Two snapshots for each launch, and the launch after 32 others has only the one before it. The program opens the gate
    // when all 400 launches are in the queue.
    let output = program.env("TENSORTAP_OPENCL_BACKLOG", "65").output().unwrap();
    succeeded(&output);
    let notes = text(&output.stderr);
    assert_eq!(notes.matches("the staging memory on the device is full").count(), 1, "{notes}");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let launches: Vec<_> = tasks.iter().filter(|task| task.kernel_names() == ["add"]).collect();
    assert_eq!(launches.len(), 400);
    let (seen, unseen): (Vec<_>, Vec<_>) =
        (0_u16..).zip(launches).partition(|(_, task)| task.argument(0).is_some());
    assert_eq!((seen.len(), seen.last().map(|(at, _)| *at)), (33, Some(32)));
    for (at, task) in seen {
        let content = |stage| {
            let record = task.argument(0).unwrap().captured(stage)?.record;
            Some(dump.payload(&dump.record(record).unwrap()).unwrap().to_vec())
        };
        let sum = |last: u16| f32::from((0..last).sum::<u16>()).to_le_bytes().repeat(64);
        assert_eq!(content(DumpStage::BeforeDispatch), Some(sum(at)), "{at}");
        assert_eq!(content(DumpStage::AfterCompletion), (at < 32).then(|| sum(at + 1)), "{at}");
        assert!(task.facts().completed_ns.is_some(), "{at}");
    }
    for (at, task) in unseen {
        assert_eq!(task.uncaptured(0), Some(UncapturedReason::NoRoom), "{at}");
        assert!(task.facts().completed_ns.is_some(), "{at}");
    }
}
