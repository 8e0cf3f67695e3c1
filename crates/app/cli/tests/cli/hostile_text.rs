//! A dump whose texts contain terminal control sequences: no verb prints them unescaped.

use std::path::Path;

use serde_json::json;
use tensortap::abi::{MAX_DIMS, NO_KERNEL, RECORD_HAS_HASH, Role, ScopeRecord, TaskRecord, TensorRecord};
use tensortap::format::{
    DumpWriter, Footer, InFlightTask, IndexRecord, KernelInfo, Loss, Payload, RunInfo, Status,
};
use tensortap::{DType, DumpStage};

use crate::dumps::Folder;

/// Sets the title, clears the screen in two ways, reverses the line, and ends it in three ways.
const HOSTILE: &str =
    "\x1b]0;owned\x07\x1b[2J\u{9b}2J\u{202e}\u{2066}\u{2028}\u{2029}\u{feff}\r\x08\x7f\nerror: forged";

fn hostile(word: &str) -> String {
    format!("{word}{HOSTILE}")
}

fn info() -> RunInfo {
    let kernel = KernelInfo {
        func_id: 0,
        name: hostile("kernel"),
        core_type: hostile("AIV"),
        signature: vec!["IN".into(), hostile("OUT")],
        code: hostile("code"),
        arg_names: vec![hostile("in"), hostile("out")],
        version: hostile("1"),
        build_id: hostile("gnu:1"),
        ..KernelInfo::default()
    };
    let mut info = RunInfo {
        run_id: 77,
        run_dir: hostile("run"),
        started_at: hostile("2026"),
        scene: hostile("scene"),
        platform: hostile("platform"),
        runtime: hostile("runtime"),
        dump_policy: hostile("block"),
        dump_collect: hostile("live"),
        dump_level: 2,
        kernels: vec![kernel],
        inject_fault: Some(hostile("fault")),
        bin_file: hostile("payloads"),
        ..RunInfo::default()
    };
    info.params.insert(hostile("param"), json!(hostile("value")));
    info.extra.insert(hostile("unknown"), json!(hostile("thing")));
    info
}

fn tensor(stage: DumpStage, role: Role, arg_index: u16, bytes: &[u8]) -> TensorRecord {
    let (mut shape, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
    (shape[0], strides[0]) = (bytes.len() as u64 / 4, 1);
    TensorRecord {
        task_id: 3,
        stage: stage as u8,
        role: role.tag(),
        dtype: DType::Float32.tag(),
        ndims: 1,
        shape,
        strides,
        arg_index,
        name: 3,
        flags: RECORD_HAS_HASH,
        hash: tensortap::values::content_hash(bytes).to_le_bytes(),
        ..TensorRecord::default()
    }
}

/// One task with an input and an output. `first` is the first element of the output.
fn written(dir: &Path, first: f32) {
    let mut writer = DumpWriter::create(dir, &info()).expect("a new dump");
    let mut records = vec![
        IndexRecord::string(1, &hostile("task")),
        IndexRecord::string(2, &hostile("scope")),
        IndexRecord::string(3, &hostile("arg")),
        IndexRecord::plain(&ScopeRecord { id: 1, name: 2, ..ScopeRecord::default() }),
    ];
    for (stage, role, arg, value) in [
        (DumpStage::BeforeDispatch, Role::Input, 0, 1.0),
        (DumpStage::AfterCompletion, Role::Output, 1, first),
    ] {
        let completed_ns = if stage == DumpStage::AfterCompletion { 2 } else { 0 };
        records.push(IndexRecord::plain(&TaskRecord {
            task_id: 3,
            func_id: [NO_KERNEL, 0, NO_KERNEL],
            block_num: 1,
            started_ns: 1,
            completed_ns,
            tensor_count: 2,
            name: 1,
            scope: 1,
            ..TaskRecord::default()
        }));
        let bytes: Vec<u8> = [value, 2.0].into_iter().flat_map(f32::to_le_bytes).collect();
        let offset = writer.reserve(8);
        writer.write_payload(offset, &bytes).expect("written");
        records.push(IndexRecord::tensor(
            &tensor(stage, role, arg, &bytes),
            Payload::Stored { offset, bytes: 8 },
        ));
    }
    writer.append(0, 0..records.len() as u64, &records).expect("appended");
    let mut footer = Footer::new(Status::Crashed);
    footer.message = Some(hostile("message"));
    footer.finished_at = Some(hostile("2026"));
    footer.losses = vec![Loss { thread: 0, reason: hostile("reason"), records: 3, bytes: 1 }];
    footer.in_flight = Some(vec![InFlightTask { task_id: 3, func_id: vec![0], block_num: 1 }]);
    footer.extra.insert(hostile("more"), json!(hostile("word")));
    writer.finish(&footer).expect("closed");
}

/// The first control character other than a line break.
fn acts(text: &str) -> Option<char> {
    let turns = |c: char| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    text.chars().find(|c| *c != '\n' && (c.is_control() || turns(*c)))
}

fn check(folder: &Folder, args: &[&str]) {
    for form in [&[][..], &["--json"]] {
        let line: Vec<&str> = args.iter().chain(form).copied().collect();
        if line.contains(&"--json") && line.contains(&"--csv") {
            continue;
        }
        let outcome = folder.tensortap_args(&line);
        assert!(outcome.code.is_some_and(|code| code < 100), "{line:?}: {outcome:?}");
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_eq!(acts(text), None, "{line:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("error: forged")), "{line:?}: {text:?}");
        }
        if line.contains(&"--json") {
            serde_json::from_str::<serde_json::Value>(&outcome.stdout)
                .unwrap_or_else(|error| panic!("{line:?}: {error}: {}", outcome.stdout));
        }
    }
}

#[test]
fn no_verb_prints_control_characters_of_a_dump() {
    let folder = Folder::new();
    let (a, b) = (hostile("a"), hostile("b"));
    written(&folder.path(&a), 5.0);
    written(&folder.path(&b), 6.0);
    let (a, b) = (a.as_str(), b.as_str());
    let (task, scope, kernel) = (hostile("task"), hostile("scope"), hostile("kernel"));
    let lines: &[&[&str]] = &[
        &["list", a],
        &["list", a, "--csv"],
        &["list", a, "--csv", "--columns", "name,kernel,arg_name,task_name,scope"],
        &["list", a, "--func", "nothing"],
        &["list", a, "--task", "nothing"],
        &["list", a, "--scope", "nothing"],
        &["list", a, "--arg", "nothing"],
        &["list", a, "--func", &kernel],
        &["list", a, "--task", &task],
        &["list", a, "--scope", &scope],
        &["list", &hostile("nowhere")],
        &["show", a, "0"],
        &["show", a, "3"],
        &["show", a, "nothing"],
        &["show", a, &task],
        &["stats", a],
        &["stats", a, "--csv"],
        &["verify", a],
        &["repair", a],
        &["diff", a, b],
        &["diff", a, b, "--all"],
        &["diff", a, b, "--csv"],
        &["diff", a, "--scene-golden"],
        &["blame", a, "--golden", b],
        &["blame", a],
        &["replay", a, "--task", "3"],
        &["extract", a, "--task", "3", "--out", "case"],
        &["export", a, "--format", "npy", "--out", "npy"],
        &["export", a, "--format", "csv", "--out", "csv"],
        &["export", a, "--format", "npy", "--out", a],
    ];
    lines.iter().for_each(|line| check(&folder, line));
    // A changed payload, and a manifest that contradicts the index.
    let (dir, bin) = (folder.path(a), hostile("payloads"));
    std::fs::write(dir.join(&bin), [7; 80]).expect("damaged");
    let manifest = dir.join("tensor_dump.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replace("kernel", "k\u{202e}ernel")).expect("damaged");
    let damaged: &[&[&str]] =
        &[&["verify", a], &["show", a, "0"], &["diff", a, b], &["blame", a, "--golden", b]];
    damaged.iter().for_each(|line| check(&folder, line));
    std::fs::remove_file(dir.join(&bin)).expect("removed");
    std::fs::remove_file(dir.join("tensor_dump.idx")).expect("removed");
    let without: &[&[&str]] =
        &[&["list", a], &["show", a, "0"], &["stats", a], &["verify", a], &["repair", a]];
    without.iter().for_each(|line| check(&folder, line));
}
