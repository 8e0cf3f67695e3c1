//! Tests programs that misuse the library and get errors.

use crate::{
    compile::program,
    host::{RecordedProcess, record},
};

/// Runs `misuse.c`, which checks every status. Returns its standard error and its recordings.
fn run(mode: &[&str], dies: bool) -> Option<(tempfile::TempDir, Vec<RecordedProcess>, String)> {
    let built = tempfile::tempdir().unwrap();
    let (dir, output, recorded) = record(&program("misuse.c", built.path(), &[])?, mode, dies);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    Some((dir, recorded, said))
}

#[test]
fn closed_handles_return_closed() {
    let Some((_dir, recorded, said)) = run(&["closed"], false) else { return };
    assert_eq!((said.as_str(), recorded.len()), ("", 1));
    assert!(recorded[0].said_goodbye);
    assert_eq!(recorded[0].dump().tasks().unwrap().iter().count(), 2);
}

#[test]
fn refuses_counts_and_records_views_that_exceed_their_buffers() {
    let Some((_dir, recorded, said)) = run(&["views"], false) else { return };
    assert_eq!((said.as_str(), recorded[0].summary.counters.uncaptured), ("", 9));
    let dump = recorded[0].dump();
    let args: Vec<(u64, u16)> =
        dump.uncaptured().unwrap().iter().map(|arg| (arg.task_id, arg.arg_index)).collect();
    // Argument 3 is there twice, because it was also reserved. Task 2 is the write at address 0.
    assert_eq!(args, [(1, 0), (1, 1), (1, 2), (1, 3), (1, 3), (1, 4), (1, 5), (1, 7), (2, 0)]);
    let good: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!((good.len(), good[0].arg_index, dump.payload(&good[0]).unwrap()), (1, 6, vec![0; 8]));
    assert!(dump.tasks().unwrap().iter().all(|task| !task.is_unfinished()), "task 2 has ended");
}

#[test]
fn refuses_and_counts_calls_beyond_the_limits() {
    let Some((_dir, recorded, said)) = run(&["refused"], false) else { return };
    let counters = &recorded[0].summary.counters;
    assert_eq!((said.as_str(), counters.uncaptured, counters.corrupt_records), ("", 4, 0));
    let complaints = &recorded[0].complaints;
    assert_eq!((complaints.calls_refused, complaints.threads_refused), (5, 0));
    let first = "argument 65535: a task has at most 65535 arguments, counted from 0";
    assert_eq!(complaints.first.as_deref(), Some(first));
    let dump = recorded[0].dump();
    let args: Vec<u16> = dump.uncaptured().unwrap().iter().map(|arg| arg.arg_index).collect();
    assert_eq!((args, dump.len()), (vec![1, 1, 2, 3], 1));
}

#[test]
fn every_thread_notices_a_dead_recorder_although_there_is_space() {
    let Some((_dir, recorded, said)) = run(&["gone"], true) else { return };
    let once = "tensortap: the recorder has exited: this process continues without recording\n";
    assert_eq!((said.as_str(), recorded.len()), (once, 0));
}

#[test]
fn dropped_records_have_an_error_text() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_dir, _, said)) = run(&["slow", dir.path().join("dump").to_str().unwrap()], false) else {
        return;
    };
    assert_eq!(said, "");
}
