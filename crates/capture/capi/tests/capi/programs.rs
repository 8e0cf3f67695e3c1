//! Tests programs that record.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use tensortap_format::{ArgumentKind, Dump, PayloadState, Record};
use tensortap_record::{DType, DumpStage, ModuleKind, Role, UncapturedReason};
use tensortap_sync::lease::Tenancy;

use crate::{
    compile::{installed, program, the_program},
    host::{RecordedProcess, record},
};

/// Element `i` of a tensor, as in the programs.
fn byte_at(seed: u64, i: u64) -> u8 {
    (seed * 131 + i * 7 + i / 256).to_le_bytes()[0]
}

fn bytes(seed: u64, count: u64) -> Vec<u8> {
    (0..count).map(|i| byte_at(seed, i)).collect()
}

/// The elements of a matrix with 4 columns, read from its last row up.
fn from_the_last_row_up(bits: u64, seed: u64, row_step: u64) -> Vec<u8> {
    let nibbles: Vec<u8> = bytes(seed, 12 * 16).iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect();
    let elements = (0..4).flat_map(|column| (0..3).map(move |row| 8 + column - row * row_step));
    let read: Vec<u8> = elements
        .flat_map(|element| {
            let width = bits / 4;
            (element * width..(element + 1) * width).map(|nibble| nibbles[usize::try_from(nibble).unwrap()])
        })
        .collect();
    read.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect()
}

fn run(mode: &[&str], dies: bool) -> Option<(tempfile::TempDir, Vec<RecordedProcess>, String)> {
    let (dir, output, recorded) = record(the_program()?, mode, dies);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && output.stdout.is_empty(), "{:?}: {said}", output.status);
    Some((dir, recorded, said))
}

fn find(dump: &Dump, task_id: u64, arg: u16, stage: DumpStage) -> Record {
    let mut found = dump
        .records()
        .map(Result::unwrap)
        .filter(|record| (record.task_id, record.arg_index, record.stage) == (task_id, arg, stage));
    let record = found.next().unwrap_or_else(|| panic!("argument {arg} of {task_id} was recorded"));
    assert!(found.next().is_none());
    record
}

fn check_views(dump: &Dump) {
    for dtype in DType::ALL {
        let (tag, bits) = (u64::from(dtype.tag()), u64::from(dtype.bits()));
        let input = find(dump, 100 + tag, 0, DumpStage::BeforeDispatch);
        assert_eq!(
            (input.dtype, input.shape(), input.strides(), input.start_offset),
            (dtype, &[4, 3][..], &[1, -4][..], 8)
        );
        assert_eq!(dump.payload(&input).unwrap(), from_the_last_row_up(bits, tag, 4), "{dtype:?}");
        let output = find(dump, 100 + tag, 2, DumpStage::AfterCompletion);
        assert_eq!(dump.payload(&output).unwrap(), from_the_last_row_up(bits, tag + 1000, 0), "{dtype:?}");
        let both = find(dump, 100 + tag, 3, DumpStage::AfterCompletion);
        assert_eq!((dump.payload(&both).unwrap(), both.role), (bytes(tag + 1000, 7), Role::InOut));
        let names = dump.names(&input);
        assert_eq!((names.arg_name, names.scope), (Some("x"), Some("outer / inner")));
        assert_eq!(names.task_name, Some(&*format!("dtype {tag}")));
        assert_eq!(dump.names(&output).arg_name, Some("scores"));
        let scalar = find(dump, 100 + tag, 1, DumpStage::BeforeDispatch);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let half = (0.5 * tag as f64).to_bits();
        assert_eq!((scalar.kind, scalar.scalar_bits), (ArgumentKind::Scalar, Some(half)));
    }
    // The program sets ids of its own, so ids that the library assigns follow 2^62.
    let wrote = find(dump, (1 << 62) + 1, 0, DumpStage::AfterCompletion);
    assert_eq!(dump.payload(&wrote).unwrap(), bytes(1022, 192));
    assert_eq!(dump.names(&wrote).task_name, Some("from a file"));
    let tasks = dump.tasks().unwrap();
    assert!(tasks.iter().all(|task| !task.is_unfinished()));
    let [module] = &dump.modules()[..] else { panic!("{:?}", dump.modules()) };
    assert_eq!((&module.name[..], &module.options[..], module.kind), ("libk.so", "-O2", ModuleKind::Cubin));
    let code: Vec<u8> = (0..5000).map(|i| byte_at(77, i)).collect();
    assert!(module.image(dump.dir()).unwrap() == code);
    assert_eq!(tasks.iter().filter(|task| task.kernel_names() == ["gather"]).count(), DType::ALL.len());
    let counts = (tasks.iter().count(), dump.edges().unwrap().len());
    assert_eq!(counts, (DType::ALL.len() + 1, DType::ALL.len() - 1));
}

#[test]
fn records_every_dtype_and_unusual_strides_from_c() {
    let Some((_dir, recorded, said)) = run(&["views"], false) else { return };
    assert_eq!((said.as_str(), recorded.len()), ("", 1));
    assert!(recorded[0].said_goodbye);
    check_views(&recorded[0].dump());
}

#[test]
fn a_linked_program_records_with_and_without_a_recorder() {
    let built = tempfile::tempdir().unwrap();
    let Some(program) = program("program.c", built.path(), &["-DTT_LINKED"]) else { return };
    let (_dir, output, recorded) = record(&program, &["views"], false);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    check_views(&recorded[0].dump());

    let folder = built.path().join("own");
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(args)
            .env("LD_LIBRARY_PATH", installed())
            .env_remove("TENSORTAP_SOCKET")
            .output()
            .unwrap()
    };
    let output = run(&["views"]);
    assert!(output.status.success() && output.stderr.is_empty(), "it runs silently without a recorder");
    let output = run(&["folder", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dump = Dump::open(&folder).unwrap();
    assert_eq!(dump.payload(&dump.record(0).unwrap()).unwrap(), bytes(1, 64));
    assert_eq!(dump.info().runtime, "record");
}

#[test]
fn short_lived_threads_in_c_lose_nothing() {
    let Some((_dir, recorded, said)) = run(&["threads"], false) else { return };
    assert_eq!(said, "");
    let dump = recorded[0].dump();
    assert_eq!((dump.len(), recorded[0].summary.counters.dropped_records), (24 * 40, 0));
    for record in dump.records().map(Result::unwrap) {
        assert_eq!(dump.payload(&record).unwrap(), bytes(record.task_id, 500));
    }
    let lanes = recorded[0].summary.lanes.iter();
    assert!(lanes.clone().all(|lane| lane.tenancy != Some(Tenancy::Leased)), "every lane was returned");
    assert!(lanes.filter(|lane| lane.tenancy == Some(Tenancy::Returned)).count() <= 4, "four at a time");
}

#[test]
fn a_forked_child_records_in_its_own_session() {
    let Some((_dir, recorded, said)) = run(&["forks"], false) else { return };
    assert_eq!((said.as_str(), recorded.len()), ("", 2));
    let tasks = |recorded: &RecordedProcess| -> Vec<(u64, Vec<u8>)> {
        let dump = recorded.dump();
        dump.records()
            .map(Result::unwrap)
            .map(|record| (record.task_id, dump.payload(&record).unwrap()))
            .collect()
    };
    assert_eq!(tasks(&recorded[0]), [(1, bytes(1, 64)), (3, bytes(3, 64))]);
    assert_eq!(tasks(&recorded[1]), [(2, bytes(2, 64))]);
    assert!(recorded[0].pid != recorded[1].pid && recorded.iter().all(|recorded| recorded.said_goodbye));
}

#[test]
fn commits_deferred_content_in_reverse_order_in_c() {
    let Some((_dir, recorded, said)) = run(&["later"], false) else { return };
    assert_eq!(said, "");
    let dump = recorded[0].dump();
    for arg in 0..5 {
        let record = find(&dump, 9, arg, DumpStage::AfterCompletion);
        assert_eq!(record.address, 0x7000);
        if arg == 0 {
            assert_eq!(record.payload, PayloadState::Dropped);
        } else {
            assert_eq!(dump.payload(&record).unwrap(), bytes(arg.into(), 3000));
        }
    }
    // One was canceled, two were never committed.
    assert_eq!(recorded[0].summary.counters.dropped_records, 3);
}

#[test]
fn a_program_continues_when_its_recorder_dies() {
    let Some((_dir, recorded, said)) = run(&["gone"], true) else { return };
    assert!(recorded.is_empty());
    let once = "tensortap: the recorder has exited: this process continues without recording\n";
    assert_eq!(said, once);
}

#[test]
fn several_threads_record_without_a_race() {
    let built = tempfile::tempdir().unwrap();
    let probe = built.path().join("probe.cpp");
    std::fs::write(&probe, "int main() { return 0; }\n").unwrap();
    let sanitized = built.path().join("probe");
    let tsan = crate::compile::compile("c++", &["-fsanitize=thread"], &probe, &sanitized);
    let runs = |program: &Path| Command::new(program).status().is_ok_and(|status| status.success());
    if !matches!(tsan, Some(Ok(()))) || !runs(&sanitized) {
        eprintln!("skipped: programs under ThreadSanitizer cannot be built or run here");
        return;
    }
    let Some(program) = program("threads.cpp", built.path(), &["-fsanitize=thread"]) else { return };
    let (_dir, output, recorded) = record(&program, &[], false);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert_eq!((recorded.len(), recorded[0].dump().len()), (1, 6 * 50), "one session for all threads");
}

#[test]
fn destructors_of_threads_and_of_the_program_can_record() {
    let built = tempfile::tempdir().unwrap();
    let Some(program) = program("ending.cpp", built.path(), &[]) else { return };
    let (_dir, output, recorded) = record(&program, &[], false);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{:?}: {said}", output.status);
    assert_eq!((recorded.len(), recorded[0].said_goodbye), (1, true));
    let dump = recorded[0].dump();
    for id in 1..=6_u64 {
        let content = [id, !id].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let record = find(&dump, id, 0, DumpStage::AfterCompletion);
        assert_eq!(dump.payload(&record).unwrap(), content, "task {id}");
    }
}

/// The arguments of task 1 of `classes.cpp`: argument, stage, dtype, shape, content.
fn check_arguments_of_classes(dump: &Dump) {
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let doubles = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (before, after) = (DumpStage::BeforeDispatch, DumpStage::AfterCompletion);
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for (arg, stage, dtype, shape, content) in [
        (0, before, DType::Float32, &[6][..], floats(&x)),
        (1, before, DType::Float32, &[2, 3], floats(&x)),
        (2, before, DType::Float32, &[2, 3], floats(&[1.0, 3.0, 5.0, 2.0, 4.0, 6.0])),
        (3, before, DType::Float32, &[3], floats(&[6.0, 4.0, 2.0])),
        (4, before, DType::Float64, &[3], doubles(&[1.0, 2.0, 3.0])),
        (4, after, DType::Float64, &[3], doubles(&[4.0, 5.0, 6.0])),
        (5, after, DType::Int16, &[4], [1_i16, 2, 3, -4].map(i16::to_le_bytes).concat()),
        (6, before, DType::BFloat16, &[2], vec![0x80, 0x3f, 0x80, 0x3f]),
        (7, before, DType::Int4, &[3], vec![0x00, 0x00]),
        (8, before, DType::Complex64, &[2], floats(&[1.0, 2.0, 3.0, -4.0])),
    ] {
        let record = find(dump, 1, arg, stage);
        assert_eq!((record.dtype, record.shape()), (dtype, shape), "argument {arg}");
        assert_eq!(dump.payload(&record).unwrap(), content, "argument {arg}");
    }
    let roles = [(4, Role::InOut), (5, Role::Output), (0, Role::Input)];
    let of = |arg| dump.records().map(Result::unwrap).find(|r| (r.task_id, r.arg_index) == (1, arg)).unwrap();
    roles.into_iter().for_each(|(arg, role)| assert_eq!(of(arg).role, role));
    assert_eq!(dump.names(&of(4)).arg_name, Some("state"));
    let scalars = [
        (9, DType::Float32, 0x4020_0000),
        (10, DType::Int8, 0xfd),
        (11, DType::Complex64, 0xc000_0000_3fc0_0000),
    ];
    for (arg, dtype, bits) in scalars {
        assert_eq!((of(arg).dtype, of(arg).scalar_bits), (dtype, Some(bits)));
    }
    assert_eq!(dump.names(&of(10)).arg_name, Some("step"));
}

fn check_classes(dump: &Dump) {
    check_arguments_of_classes(dump);
    let output = |task, content: [i32; 2]| {
        let record = find(dump, task, 0, DumpStage::AfterCompletion);
        assert_eq!(dump.payload(&record).unwrap(), content.map(i32::to_le_bytes).concat(), "task {task}");
    };
    output(3, [9, 8]);
    output(2, [9, 10]);
    let tasks = dump.tasks().unwrap();
    assert!(tasks.iter().all(|task| !task.is_unfinished()), "destructors end tasks");
    let arguments =
        |task_id: u64| dump.records().map(Result::unwrap).filter(move |r| r.task_id == task_id).count();
    assert_eq!(
        (arguments(4), arguments(5)),
        (1, 1),
        "no output of a task that threw, and no refused argument"
    );
    let uncaptured = dump.uncaptured().unwrap();
    let reasons: Vec<_> = uncaptured.iter().map(|one| (one.task_id, one.arg_index, one.reason)).collect();
    let expected = [(5, 0, UncapturedReason::BadDescriptor), (5, 1, UncapturedReason::TooManyDimensions)];
    assert_eq!(reasons, expected);
    let copied = dump.records().map(Result::unwrap).find(|r| r.task_id == 8).unwrap();
    assert_eq!(dump.names(&copied).scope, Some("outer / inner"));
    let graph = std::fs::read(dump.dir().join("graph.json")).unwrap();
    let graph: serde_json::Value = serde_json::from_slice(&graph).unwrap();
    let of = |list: &str, id: &str| {
        graph[list].as_array().unwrap().iter().find(|one| one["task_id"] == id).cloned()
    };
    let inside = of("tasks", "0x0000000000000007").unwrap();
    assert_eq!(inside["parent"], "0x0000000000000006", "{inside}");
    let id = inside["task_id"].clone();
    let collective = json!({"task_id": id, "group": "dp", "sequence": "3", "kind": "all_gather"});
    assert_eq!(graph["collectives"], json!([collective]));
    let generator = json!({"task_id": id, "name": "generator", "type": "uncaptured", "value": "Generator"});
    assert_eq!(of("attributes", "0x0000000000000007"), Some(generator));
    let events = graph["allocations"].as_array().unwrap().iter().map(|event| {
        json!([
            event["freed"],
            event["bytes"],
            event["space"],
            event["storage"],
            event["pool"],
            event["queue"],
            event["after_task"]
        ])
    });
    let expected = json!([
        [false, 4, "host", "0x0000000000000005", "cache", null, null],
        [true, 4, "host", "0x0000000000000005", "cache", null, null],
        [false, 64, "device", null, null, 1, id],
        [true, 4, "host", null, null, null, null],
    ]);
    assert_eq!(Value::from_iter(events), expected);
    let entries =
        graph["attributes"].as_array().unwrap().iter().filter(|one| one["task_id"] == "0x0000000000000006");
    let values: Vec<String> = entries.map(|one| format!("{}={}", one["name"], one["value"])).collect();
    let list = r#"[{"type":"int","value":"2"},{"type":"text","value":"x"},{"type":"float","value":1.5}]"#;
    let expected = [
        r#""axis"="-1""#,
        r#""eps"=0.5"#,
        r#""mode"="sum""#,
        r#""causal"=true"#,
        r#""out"="bfloat16""#,
        r#""mask"=null"#,
        &format!(r#""shape"={list}"#),
    ];
    assert_eq!(values, expected);
}

#[test]
fn classes_of_cpp_record_the_same() {
    let built = tempfile::tempdir().unwrap();
    let strict = ["-Wconversion", "-Wshadow", "-Wold-style-cast"];
    let Some(program) = program("classes.cpp", built.path(), &strict) else { return };
    let (_dir, output, recorded) = record(&program, &[], false);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{:?}: {said}", output.status);
    check_classes(&recorded[0].dump());
    let alone = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && said.is_empty(), "without `tensortap record`: {said}");
    let linked = ["-DTT_LINKED", "-fno-rtti"];
    let linked = crate::compile::program("classes.cpp", built.path(), &linked).unwrap();
    let folder = built.path().join("folder");
    let mut command = Command::new(&linked);
    let output = command.arg(&folder).env("LD_LIBRARY_PATH", installed()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_classes(&Dump::open(&folder).unwrap());
}
