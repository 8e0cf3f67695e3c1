//! How `run` reports its dump.

use std::process::{Command, Stdio};

use crate::dumps::Folder;
use crate::json::{document, keys};
use crate::{Outcome, assert_snapshot};

#[test]
fn summarizes_a_dump_with_the_next_command() {
    let folder = Folder::new();
    let outcome = folder.good("run vector_example --blocks 2 --dump-tensor --out d");
    assert_snapshot("run_dump", &outcome.stdout);
    let outcome = folder.good("run vector_example --dump-tensor");
    assert!(outcome.stdout.ends_with("    next    tensortap list\n"), "{outcome:?}");
    assert_eq!(folder.good("list").code, Some(0));
}

#[test]
fn a_wrong_result_suggests_blame() {
    let folder = Folder::new();
    let outcome =
        folder.tensortap("run vector_example --dump-tensor --out d --inject-fault mul=last --dump-func mul");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert!(outcome.stdout.contains("    filters removed 14 arguments\n"), "{outcome:?}");
    let (_, next) = outcome.stdout.split_once("next    tensortap ").expect("a next command");
    assert_eq!(next, "blame d --reference\n");
    let blamed = folder.tensortap(next);
    assert_eq!(blamed.code, Some(1), "{blamed:?}");
    assert!(
        blamed.stdout.starts_with("FAIL: task 0x100000002 (inner / t3: mul) is wrong here"),
        "{blamed:?}"
    );
}

#[test]
fn an_empty_dump_reports_that_nothing_is_marked() {
    let outcome = Folder::new().good("run vector_example --dump-tensor=marked");
    let said = "dump      empty, level marked: the orchestration marks no arguments with dump(..)";
    assert!(outcome.stdout.contains(said), "{outcome:?}");
    let marked = Folder::new().good("run paged_attention --dump-tensor=marked");
    assert!(marked.stdout.contains("8 records, level marked: 8 tensors, 0 scalars"), "{marked:?}");
}

#[test]
fn the_document_has_every_key_of_a_dump() {
    let folder = Folder::new();
    let run = document(&folder.good("run vector_example --dump-tensor --json --out d"));
    let dump = &run["dump"];
    assert_eq!(
        keys(dump),
        [
            "bytes_captured",
            "bytes_written",
            "closing_s",
            "corrupt_records",
            "deduplicated_bytes",
            "dir",
            "dispatches",
            "dropped_overwrite",
            "dropped_records",
            "dump_args",
            "entries",
            "filtered_bytes",
            "filtered_records",
            "folder_bytes",
            "held_up_s",
            "level",
            "live",
            "losses",
            "problem",
            "records",
            "scalars",
            "tensors",
            "truncated_tensors",
            "uncaptured",
        ]
    );
    assert_eq!((&dump["records"], &dump["tensors"], &dump["scalars"]), (&18.into(), &13.into(), &5.into()));
    let files = std::fs::read_dir(folder.path("d")).expect("it is there").map(|file| file.expect("a file"));
    let sum: u64 = files.map(|file| file.metadata().expect("a size").len()).sum();
    assert_eq!(dump["folder_bytes"], sum);
    assert!(sum > dump["bytes_written"].as_u64().expect("a number"), "{dump}");
    assert_eq!((&dump["dir"], &dump["level"], &dump["problem"]), (&"d".into(), &"full".into(), &().into()));
    assert!(dump["held_up_s"].as_f64() > Some(0.0) && dump["losses"] == serde_json::json!([]), "{dump}");
}

#[test]
fn counts_dispatches_with_and_without_tensors() {
    let folder = Folder::new();
    let alone = folder.good("run vector_example --dump-args --out a");
    assert!(alone.stdout.contains("  dump      arguments of 5 dispatches\n"), "{alone:?}");
    assert!(alone.stdout.contains("    next    tensortap list a\n"), "{alone:?}");
    let list = folder.good("list a");
    assert!(list.stdout.contains("18 records: 13 tensors with 832 KiB, 5 scalars\n"), "{list:?}");
    assert!(
        list.stdout.contains("They are the arguments of 5 dispatches (recorded with only --dump-args)"),
        "{list:?}"
    );
    let verified = document(&folder.good("verify a --json"));
    assert_eq!((&verified["verdict"], &verified["records"]), (&"ok".into(), &18.into()));
    let both = folder.good("run vector_example --dump-args --dump-tensor --out b");
    assert!(
        both.stdout.contains("18 records, level full")
            && both.stdout.contains("    args    of 5 dispatches\n")
    );
    let run = document(&folder.good("run vector_example --dump-args --dump-func mul --json --out c"));
    let (dump, names) = (&run["dump"], ["dispatches", "filtered_records", "records", "bytes_written"]);
    assert_eq!(names.map(|name| dump[name].as_u64()), [Some(1), Some(4), Some(0), Some(0)]);
    assert_eq!((&dump["level"], &dump["dump_args"]), (&"off".into(), &true.into()));
}

#[test]
fn losses_are_a_warning_but_no_failure() {
    // A payload of 1 MiB never fits into 64 KiB, so every payload is dropped.
    let lossy = "run stream --param tasks=4 --dump-tensor --dump-policy drop --dump-arena 64KiB";
    let outcome = Folder::new().tensortap(lossy);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = "8 records dropped (no_space 8)";
    assert!(outcome.stdout.contains(&format!("losses  {said}\n")), "{outcome:?}");
    assert_eq!(outcome.stderr, format!("warning: the dump is incomplete: {said}\n"));
    let run = document(&Folder::new().tensortap(&format!("{lossy} --json")));
    assert_eq!((&run["dump"]["dropped_records"], &run["status"]), (&8.into(), &"complete".into()));
    assert_eq!(run["dump"]["losses"][0]["reason"], "no_space", "{run}");
}

#[test]
fn counts_payloads_overwritten_in_batch_mode() {
    let line = "run stream --param tasks=8 --dump-tensor --dump-collect batch --dump-arena 1MiB";
    let outcome = Folder::new().tensortap(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.starts_with("warning: ") && outcome.stderr.contains("overwritten"), "{outcome:?}");
}

#[test]
fn a_failed_run_keeps_its_dump() {
    let folder = Folder::new();
    let outcome = folder.tensortap("run crash_segv --dump-tensor --out d");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stdout.contains("next    tensortap list d\n"), "{outcome:?}");
    let listed = folder.good("list d --func segv").stdout;
    assert!(listed.contains("crashed") && listed.contains("in_flight"), "{listed}");
    folder.good("verify d");
}

/// A run whose files may not exceed 40 MiB, as on a full disk. Device memory counts as a file.
fn on_a_full_disk(folder: &Folder, options: &str) -> Outcome {
    let script = "ulimit -f 81920; trap '' XFSZ; exec \"$@\"";
    let line = "run stream --param tasks=40 --device-memory 38MiB --ring-slots 16 --ring-heap 4MiB --dump-arena 1MiB \
                --dump-buffers 2 --dump-records 64 --dump-tensor --out d";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tensortap")]);
    command.args(line.split_whitespace().chain(options.split_whitespace()));
    command.current_dir(folder.path("")).stdin(Stdio::null());
    crate::outcome(command)
}

#[test]
fn a_full_disk_ends_the_dump_but_not_the_run() {
    let folder = Folder::new();
    let outcome = on_a_full_disk(&folder, "");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stdout.contains("golden    PASS"), "the run itself went on: {outcome:?}");
    for part in ["warning: ", "the run continues without its dump", "error: the dump failed: ", "hint: "] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
    assert!(folder.good("list d --kind tensor").stdout.contains("dump_failed"));
    folder.good("verify d");
}

#[test]
fn a_failed_dump_takes_precedence_over_a_failed_golden() {
    let folder = Folder::new();
    let outcome = on_a_full_disk(&folder, "--inject-fault advance=last --json");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let run = document(&outcome);
    assert_eq!((&run["status"], &run["golden"]), (&"dump_failed".into(), &"fail".into()));
    assert!(run["dump"]["problem"].is_string(), "{run}");
}
