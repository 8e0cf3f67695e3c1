//! Well-behaved programs.

use std::collections::BTreeSet;

use tensortap::format::{Dump, Status};

use crate::program::RECORDS_PER_TASK;
use crate::{Bench, check_closed, stderr};

#[test]
fn every_record_of_four_processes_with_eight_threads_each_is_in_the_dump_of_its_process() {
    let bench = Bench::new();
    let output = bench.recorded("", "tree 8 40").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = bench.run_file();
    assert_eq!((run.processes.len(), run.status.as_str(), run.exit_code), (4, "complete", Some(0)));
    let notes = bench.notes();
    let pids: BTreeSet<u32> = run.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, notes.keys().copied().collect(), "every process has a dump");
    for process in &run.processes {
        let dump = check_closed(&bench.path("run").join(&process.folder));
        let counted = 8 * 40 * RECORDS_PER_TASK;
        assert_eq!(notes[&process.pid], [format!("recorded {counted}")], "no record was lost");
        assert_eq!(dump.len(), counted);
        assert_eq!(process.counts.as_ref().unwrap().records, counted);
        assert_eq!((process.status.as_str(), dump.status()), ("complete", Some(Status::Complete)));
        assert_eq!(process.folder, format!("pid-{}", process.pid));
        let info = dump.info();
        assert_eq!((info.runtime.as_str(), info.platform.as_str()), ("record", "host"));
    }
    assert!(stderr(&output).contains("recorded 4 processes, 3,840 records"), "{}", stderr(&output));
    bench.assert_no_socket();
}

#[test]
fn folders_are_named_by_rank_and_every_session_has_its_own() {
    let bench = Bench::new();
    let output = bench.recorded("", "again 4").env("PMI_RANK", "3").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = bench.run_file();
    let folders: Vec<&str> = run.processes.iter().map(|process| process.folder.as_str()).collect();
    assert_eq!(folders, ["rank-3".to_owned(), format!("rank-3_pid-{}", run.pid)]);
    for folder in folders {
        assert_eq!(check_closed(&bench.path("run").join(folder)).len(), 4 * RECORDS_PER_TASK);
    }
    assert_eq!(run.environment.get("PMI_RANK").map(String::as_str), Some("3"));
    assert!(run.processes.iter().all(|process| process.rank == Some(3) && process.pid == run.pid));
}

#[test]
fn dump_options_reach_every_process() {
    let bench = Bench::new();
    let options = "--dump-tensor=hash --dump-stage after --dump-first 5 --dump-arena 1MiB --dump-policy drop --env HOME";
    let output = bench.recorded(options, "tasks 1 20").env("HOME", "/here").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = bench.run_file();
    let dump = tensortap::format::Dump::open(&bench.path("run").join(&run.processes[0].folder)).unwrap();
    assert_eq!((dump.len(), dump.info().dump_level, dump.info().dump_policy.as_str()), (5, 4, "drop"));
    assert_eq!(run.processes[0].counts.as_ref().unwrap().bytes_captured, 0);
    assert_eq!(run.environment.get("HOME").map(String::as_str), Some("/here"));
}

#[test]
fn arguments_that_could_not_be_captured_are_losses() {
    let bench = Bench::new();
    let output = bench.recorded("", "outside").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the dumps are incomplete: 2 arguments not captured"), "{said}");
    assert!(said.contains("  losses    2 arguments not captured\n"), "{said}");
    assert_eq!(bench.run_file().processes[0].counts.as_ref().unwrap().uncaptured, 2);
}

#[test]
fn the_arena_of_a_program_grows_while_it_waits_and_the_report_says_so() {
    // Syncing makes the recorder slower than the program.
    for (options, grows) in [("--dump-sync", true), ("--dump-sync --dump-arena 4MiB", false)] {
        let bench = Bench::new();
        let output = bench.recorded(options, "burst 48").output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let run = bench.run_file();
        let [process] = &run.processes[..] else { panic!("{run:?}") };
        let (largest, grown) = (process.arena_bytes, process.arena_grown_bytes);
        let is_larger = largest.is_some_and(|bytes| bytes >= 8 << 20 && bytes == grown + (4 << 20));
        assert_eq!((is_larger, grown > 0), (grows, grows), "{process:?}");
        assert_eq!((largest.is_some(), said.contains(", arena grown to ")), (grows, grows), "{said}");
        let dump = Dump::open(&bench.path("run").join(&process.folder)).unwrap();
        let findings = tensortap::format::verify(&dump).unwrap();
        assert!(findings.is_ok() && findings.checked == 48, "{:?}", findings.problems);
    }
}

#[test]
fn rejected_threads_and_calls_are_losses() {
    let bench = Bench::new();
    let output = bench.recorded("--dump-threads 1", "too_many").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let losses = "2 times a thread could not record because too many threads record at once (--dump-threads N), 1 call rejected, the first because: argument 65535: \
                a task has at most 65535 arguments, counted from 0";
    assert!(said.contains(&format!("the dumps are incomplete: {losses}")), "{said}");
    assert!(said.contains(&format!("  losses    {losses}\n")), "{said}");
    let run = bench.run_file();
    assert_eq!((run.processes[0].threads_refused, run.processes[0].calls_refused), (2, 1));
    assert!(run.processes[0].first_refusal.as_ref().unwrap().starts_with("argument 65535"), "{run:?}");
    let output = bench.recorder("--dump-threads 1025").arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn two_hundred_processes_that_attach_at_once_are_all_recorded() {
    let bench = Bench::new();
    let output = bench.recorded("--dump-arena 64KiB", "crowd 200").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (run, notes) = (bench.run_file(), bench.notes());
    let pids: BTreeSet<u32> = run.processes.iter().map(|process| process.pid).collect();
    assert_eq!((pids.len(), run.problems.len()), (200, 0), "{:?}", run.problems);
    assert_eq!(pids, notes.into_keys().collect(), "every process has a dump");
    for process in &run.processes {
        assert_eq!(check_closed(&bench.path("run").join(&process.folder)).len(), 2 * RECORDS_PER_TASK);
    }
}
