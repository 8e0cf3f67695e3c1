//! Tests inexact tasks: they are refused with argument and reason, or graded.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tensortap::format::{BIN_FILE, Dump};
use tensortap::{DeviceMode, DumpConfig, DumpLevel, Grade, Outcome, Selection};

use crate::{capture, executable, only, replay, replay_of, small};

#[test]
fn missing_payloads_are_refused_or_graded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = small("vector_example");
    config.dump =
        Some(DumpConfig { max_bytes: Some(300_000), dedup: false, ..DumpConfig::new(DumpLevel::Full) });
    capture(config, &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    let report = replay(&config);
    assert_eq!(report.count(|o| *o == Outcome::BitExact), 1);
    let refused: Vec<_> = report.tasks.iter().filter(|t| matches!(t.outcome, Outcome::Refused(_))).collect();
    assert_eq!(refused.len(), 4);
    for task in &refused {
        let reason = task.outcome.reason().expect("refused");
        assert!(reason.starts_with("argument ") && reason.contains("was not captured"), "{reason}");
        assert!(reason.contains("--allow-inexact") && task.runs == 0, "{reason}");
    }
    assert!(!report.passed());
    config.allow_inexact = true;
    let report = replay(&config);
    assert_eq!(report.count(|o| matches!(o, Outcome::Unchecked(_))), 4);
    let mul = report.tasks.iter().find(|t| t.kernels == ["mul"]).expect("there is one");
    let grades: Vec<Grade> = mul.args.iter().map(|a| a.grade).collect();
    assert_eq!((grades, mul.runs), (vec![Grade::Zero, Grade::Zero, Grade::Zero, Grade::Exact], 1));
}

#[test]
fn refuses_arguments_without_a_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = small("vector_example");
    config.dump = Some(DumpConfig { args: vec![0, 2], ..DumpConfig::new(DumpLevel::Full) });
    capture(config, &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.allow_inexact = true;
    for task in &replay(&config).tasks {
        let reason = task.outcome.reason().expect("refused");
        assert!(reason.starts_with("argument 1: ") && reason.contains("no record of it"), "{reason}");
    }
}

#[test]
fn refuses_only_tasks_with_corrupt_payloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = small("vector_example");
    config.dump = Some(DumpConfig { dedup: false, ..DumpConfig::new(DumpLevel::Full) });
    capture(config, &folder.path().join("dump"));
    let dump = Dump::open(folder.path()).expect("a dump");
    let record = dump.records().map(|r| r.expect("readable")).find(|r| r.arg_index == 1).expect("a tensor");
    let bin = OpenOptions::new().read(true).write(true).open(dump.dir().join(BIN_FILE)).expect("writable");
    let mut byte = [0];
    bin.read_exact_at(&mut byte, record.bin_offset + 77).expect("there");
    bin.write_all_at(&[byte[0] ^ 1], record.bin_offset + 77).expect("writable");
    let report = replay(&replay_of(folder.path()));
    let refused: Vec<_> = report.tasks.iter().filter(|t| !t.outcome.passed()).collect();
    assert_eq!(refused.iter().map(|t| t.task_id).collect::<Vec<_>>(), [record.task_id]);
    let reason = refused[0].outcome.reason().expect("refused");
    assert!(reason.contains("argument 1") && reason.contains("hash"), "{reason}");
    bin.set_len(record.bin_offset + 10).expect("shorter");
    let report = replay(&replay_of(folder.path()));
    let reason = report.tasks.iter().find(|t| t.task_id == record.task_id).and_then(|t| t.outcome.reason());
    assert!(reason.is_some_and(|r| r.contains("is missing from the payload file")), "{reason:?}");
}

#[test]
fn unfinished_tasks_are_refused_or_fail_again() {
    for (scene, word) in [("crash_segv", "SIGSEGV"), ("hang", "no progress")] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = small(scene);
        config.stall_timeout = Some(Duration::from_millis(300));
        capture(config, &folder.path().join("dump"));
        let mut config = replay_of(folder.path());
        config.device_mode = DeviceMode::Process;
        config.stall_timeout = Some(Duration::from_millis(300));
        let refused = replay(&config);
        let reason = refused.tasks.iter().find_map(|t| t.outcome.reason()).expect("one is refused");
        assert!(reason.contains("had not completed"), "{reason}");
        config.allow_inexact = true;
        let report = replay(&config);
        let wrong: Vec<_> = report.tasks.iter().filter(|t| !t.outcome.passed()).collect();
        assert_eq!((wrong.len(), report.tasks.len()), (1, 5), "{scene}");
        assert!(
            matches!(&wrong[0].outcome, Outcome::Failed(reason) if reason.contains(word)),
            "{:?}",
            wrong[0]
        );
    }
}

#[test]
fn reports_replaced_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let mut config = replay_of(folder.path());
    config.funcs = vec!["mul".into()];
    config.set_args = vec![(0, "3.5".into()), (1, "2".into())];
    let reason = only(&replay(&config)).outcome.reason().expect("refused").to_string();
    assert!(reason.contains("argument 0 is overridden"), "{reason}");
    config.allow_inexact = true;
    let report = replay(&config);
    let task = only(&report);
    let grades: Vec<Grade> = task.args.iter().map(|a| a.grade).collect();
    assert_eq!(grades, [Grade::Overridden, Grade::Overridden, Grade::Exact, Grade::Exact]);
    let first = task.outputs[0].first.as_ref().expect("another result");
    assert_eq!((first.here.as_str(), task.outputs[0].different), ("7.0", 16384), "{:?}", task.outcome);
    for (slot, value, word) in [(9, "1", "arguments 0 to 3"), (0, "x", "a number"), (3, "-1", "whole number")]
    {
        config.set_args = vec![(slot, value.into())];
        let error = tensortap::replay(&config).expect_err("refused");
        assert!(error.is_usage() && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn errors_list_the_valid_names() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let empty = tempfile::tempdir().expect("a folder");
    let error = tensortap::replay(&replay_of(empty.path())).expect_err("nothing there");
    assert!(
        error.is_usage() && error.to_string().contains("not a dump, a case or a folder of cases"),
        "{error}"
    );
    let mut config = replay_of(folder.path());
    config.select = Selection::Tasks(vec![99.into()]);
    let error = tensortap::replay(&config).expect_err("no such task");
    assert!(
        error
            .to_string()
            .contains("has no task 0x63; it has 5 tasks, such as 0x0; `tensortap list` shows them"),
        "{error}"
    );
    config.select = Selection::All;
    config.platform = Some("a6sim".into());
    let error = tensortap::replay(&config).expect_err("no such platform");
    assert!(error.to_string().contains("there are: a2a3sim, a5sim"), "{error}");
    config.platform = None;
    config.registry = tensortap::scene::Registry::default();
    let error = tensortap::replay(&config).expect_err("no such scene");
    assert!(error.to_string().contains("its scene `vector_example` is not in this executable"), "{error}");
}

#[test]
fn notes_kernels_built_from_different_code() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    // This test executable is a different build than the device that captured.
    let config = replay_of(folder.path());
    assert_eq!(config.device_executable, Some(executable()));
    let report = replay(&config);
    let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    assert!(
        note.contains("built from different code than the captured ones: `add`, `add_scalar`, `mul`"),
        "{note}"
    );
    assert!(report.passed(), "a note is not a failure");
}
