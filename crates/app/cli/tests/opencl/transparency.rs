//! A program gets the same answers from OpenCL whether or not it is recorded.

use crate::{Bench, WAYS, succeeded};

#[test]
fn events_programs_and_memory_answer_as_without_recording() {
    let Some(mut bench) = Bench::new() else { return };
    let plain = bench.program(None, "events.py").output().unwrap();
    succeeded(&plain);
    assert!(
        plain.stdout.iter().filter(|&&byte| byte == b'\n').count() > 20,
        "the program must print many answers"
    );
    for way in &WAYS[..2] {
        answers_as(bench.with_snapshots_by(way), &plain.stdout, way);
    }
}

fn answers_as(bench: &Bench, plain: &[u8], run: &str) {
    let recorded = bench.program(Some((run, "")), "events.py").output().unwrap();
    succeeded(&recorded);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&recorded.stdout), text(plain), "{run}");

    let dump = bench.dump(run);
    let tasks = dump.tasks().unwrap();
    // Three launches were submitted, one of which never ran. Three more commands were refused, one of them a
    // read.
    let launches: Vec<_> = tasks.iter().filter(|task| task.kernel_names() == ["add"]).collect();
    assert_eq!(launches.len(), 3);
    assert_eq!(launches.iter().filter(|task| task.is_unfinished()).count(), 1, "its wait failed");
    let notes = text(&recorded.stderr);
    assert!(notes.contains("recorded 1 process") && !notes.contains("without closing"), "{notes}");
}

#[test]
fn without_the_layer_or_a_recorder_the_program_runs_unrecorded() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.program(Some(("run", "--no-opencl")), "events.py").output().unwrap();
    succeeded(&output);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("nothing was recorded") || notes.contains("recorded 0 processes"), "{notes}");
    // Without a recording process, the layer passes every call on.
    let layer = crate::common::executable().with_file_name("libtensortap_opencl.so");
    let layer = if layer.exists() {
        layer
    } else {
        crate::common::executable().with_file_name("deps/libtensortap_opencl.so")
    };
    let output = bench.program(None, "events.py").env("OPENCL_LAYERS", layer).output().unwrap();
    succeeded(&output);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("tensortap"));
}

#[test]
fn an_unrecorded_thread_still_waits_for_its_blocking_reads() {
    let Some(mut bench) = Bench::new() else { return };
    for way in &WAYS[..2] {
        let run = Some((*way, "--dump-threads 1"));
        let output = bench.with_snapshots_by(way).program(run, "threads.py").output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(said(&output.stdout), "wrong []\n", "{}", said(&output.stderr));
        assert!(said(&output.stderr).contains("could not record"), "{}", said(&output.stderr));
    }
}
