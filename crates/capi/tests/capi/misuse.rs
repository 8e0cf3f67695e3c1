//! Programs that do what they should not, and are told so.

use crate::{
    compile::program,
    host::{Recorded, record},
};

/// Runs `misuse.c`, which finds every answer as it expects it; what it said, and what was recorded.
fn run(mode: &[&str], dies: bool) -> Option<(tempfile::TempDir, Vec<Recorded>, String)> {
    let built = tempfile::tempdir().unwrap();
    let (dir, output, recorded) = record(&program("misuse.c", built.path(), &[])?, mode, dies);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    Some((dir, recorded, said))
}

#[test]
fn handles_that_were_closed_say_so_ever_after() {
    let Some((_dir, recorded, said)) = run(&["closed"], false) else { return };
    assert_eq!((said.as_str(), recorded.len()), ("", 1));
    assert!(recorded[0].said_goodbye);
    assert_eq!(recorded[0].dump().tasks().unwrap().iter().count(), 2);
}

#[test]
fn views_that_leave_their_buffers_are_refused_counted_and_in_the_dump() {
    let Some((_dir, recorded, said)) = run(&["views"], false) else { return };
    assert_eq!((said.as_str(), recorded[0].summary.counters.uncaptured), ("", 9));
    let dump = recorded[0].dump();
    let args: Vec<(u64, u16)> =
        dump.uncaptured().unwrap().iter().map(|arg| (arg.task_id, arg.arg_index)).collect();
    // Argument 3 twice: it was reserved for, too. Task 2 is what was said to be written at no address.
    assert_eq!(args, [(1, 0), (1, 1), (1, 2), (1, 3), (1, 3), (1, 4), (1, 5), (1, 7), (2, 0)]);
    let good: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!((good.len(), good[0].arg_index, dump.payload(&good[0]).unwrap()), (1, 6, vec![0; 8]));
    assert!(dump.tasks().unwrap().iter().all(|task| !task.is_unfinished()), "task 2 has its end");
}

#[test]
fn what_no_dump_can_hold_is_refused_at_the_call_and_counted() {
    let Some((_dir, recorded, said)) = run(&["refused"], false) else { return };
    let counters = &recorded[0].summary.counters;
    assert_eq!((said.as_str(), counters.uncaptured, counters.corrupt_records), ("", 4, 0));
    let complaints = &recorded[0].complaints;
    assert_eq!((complaints.calls_refused, complaints.threads_refused), (5, 0));
    let first = "argument 65535: a task has 65535 arguments at most, counted from 0";
    assert_eq!(complaints.first.as_deref(), Some(first));
    let dump = recorded[0].dump();
    let args: Vec<u16> = dump.uncaptured().unwrap().iter().map(|arg| arg.arg_index).collect();
    assert_eq!((args, dump.len()), (vec![1, 1, 2, 3], 1));
}

#[test]
fn a_recorder_that_died_is_missed_soon_by_every_thread_although_there_is_room() {
    let Some((_dir, recorded, said)) = run(&["gone"], true) else { return };
    let once = "tensortap: the recorder is gone: nothing more is recorded of this process, which goes on without it\n";
    assert_eq!((said.as_str(), recorded.len()), (once, 0));
}

#[test]
fn what_was_dropped_for_want_of_room_has_a_text() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_dir, _, said)) = run(&["slow", dir.path().join("dump").to_str().unwrap()], false) else {
        return;
    };
    assert_eq!(said, "");
}
