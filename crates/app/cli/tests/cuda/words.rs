//! `tensortap` reports what cannot be captured, and the program runs as without recording.

use tensortap::{
    DumpStage,
    abi::{Role, UncapturedReason},
    format::{PayloadState, Record},
};

use crate::{
    Bench, built,
    plan::{Part, World, content, printed},
    succeeded,
};

fn reasons(bench: &Bench, run: &str) -> Vec<UncapturedReason> {
    bench.dump(run).uncaptured().unwrap().iter().map(|argument| argument.reason).collect()
}

#[test]
fn ranges_are_limited_to_the_requested_size() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nput 0 0 100 7 50 0\n";
    succeeded(&bench.program(plan, Some(("run", "--max-range 400"))).output().unwrap());
    let dump = bench.dump("run");
    let sizes: Vec<u64> = dump
        .records()
        .map(Result::unwrap)
        .filter(|record| !record.shape().is_empty())
        .map(|record| record.shape()[0])
        .collect();
    assert_eq!(sizes, [400, 400]);
    let output = bench.program(plan, Some(("none", "--max-range 0"))).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn launches_after_a_gate_are_submitted_without_room_and_reported() {
    let bench = Bench::new();
    // Each launch needs two slices of 12,032 bytes. Only the program opens the gate.
    let mut plan = String::from("stream 1 1\nalloc 0 3000\nwrite 0 0 0 3000 5 1\ngate 1\n");
    (0..6).for_each(|turn| plan += &format!("put 1 0 0 {turn} 3000 {turn}\n"));
    plan += "open 0\nread 1 0 0 3000 0\n";
    let mut command = bench.program(&plan, Some(("run", "")));
    let output = command.env("TENSORTAP_CUDA_RING", "50000").output().unwrap();
    assert_eq!(succeeded(&output), printed(&(5..3005).collect::<Vec<u32>>()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said.matches("the staging memory is full").count(),
        1,
        "the note must be printed once: {said}"
    );
    let dump = bench.dump("run");
    let hash_of = |words: Vec<u32>| {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        Some(tensortap::values::content_hash(&bytes))
    };
    let is_range = |record: &Record| record.shape() == [12_000];
    let ranges: Vec<Record> = dump.records().map(Result::unwrap).filter(is_range).collect();
    let lost = ranges.iter().filter(|record| record.payload == PayloadState::Dropped).count();
    assert!((1..12).contains(&lost), "those that find no room, and no others: {lost}");
    let mut puts: Vec<&Record> = ranges
        .iter()
        .filter(|record| record.stage == DumpStage::AfterCompletion && record.role == Role::InOut)
        .collect();
    puts.sort_by_key(|record| record.task_id);
    assert_eq!(puts.len(), 6);
    for (turn, record) in (0..).zip(puts) {
        assert_eq!(record.hash, hash_of((turn..turn + 3000).collect()), "what put {turn} left, by its hash");
    }
    let tasks = dump.tasks().unwrap();
    assert_eq!(tasks.iter().filter(|task| task.facts().operation.name() == "kernel").count(), 6);
    assert!(tasks.iter().all(|task| task.facts().completed_ns.is_some()), "all tasks must have ended");
}

#[test]
fn launches_after_a_gate_are_submitted_without_device_code() {
    let bench = Bench::new();
    let mut plan = String::from("stream 1 1\nalloc 0 3000\nwrite 0 0 0 3000 5 1\ngate 1\n");
    (0..6).for_each(|turn| plan += &format!("put 1 0 0 {turn} 3000 {turn}\n"));
    plan += "open 0\nread 1 0 0 3000 0\n";
    let mut command = bench.program(&plan, Some(("run", "")));
    let output = command.env("TENSORTAP_CUDA_RING", "50000").env("FAKE_LOADS_NOTHING", "1").output().unwrap();
    assert_eq!(succeeded(&output), printed(&(5..3005).collect::<Vec<u32>>()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (said.matches("the staging memory is full").count(), said.matches("status 218").count()),
        (1, 1),
        "the note must be printed once: {said}"
    );
    let libraries = bench.dump("run").footer().unwrap().extra["libraries"].clone();
    let driver = &libraries.as_array().unwrap()[0];
    assert!(
        driver["kind"] == "cuda_driver" && driver["path"].as_str().unwrap().contains("libcuda.so.1"),
        "{libraries}"
    );
    let reasons = reasons(&bench, "run");
    assert!(
        reasons.len() >= 6 && reasons.iter().all(|reason| *reason == UncapturedReason::NoRoom),
        "{reasons:?}"
    );
}

#[test]
fn a_blocking_copy_is_captured_before_the_program_continues() {
    let bench = Bench::new();
    let mut plan = String::from("stream 1 1\nalloc 0 3000\n");
    // The second stream does not wait for the first. The program does.
    (0..30).for_each(|turn| plan += &format!("write 0 0 0 3000 {turn} 1\nput 1 0 0 7 3000 0\nsync 1\n"));
    succeeded(&bench.program(&plan, Some(("run", ""))).output().unwrap());
    let dump = bench.dump("run");
    let written = dump.records().map(Result::unwrap).filter(|record| record.role == Role::Output);
    let mut contents: Vec<(u64, Vec<u8>)> =
        written.map(|record| (record.task_id, dump.payload(&record).unwrap().to_vec())).collect();
    contents.sort_unstable();
    assert_eq!(contents.len(), 30);
    for (turn, (_, bytes)) in (0..).zip(contents) {
        let words: Vec<u8> = content(turn, 3000).into_iter().flat_map(u32::to_le_bytes).collect();
        assert!(bytes == words, "write {turn}");
    }
}

#[test]
fn virtual_memory_is_captured_once_its_device_has_access() {
    let bench = Bench::new();
    // The fake driver ends the program if it reads memory without access rights.
    let plan = "alloc 3 256\nmap 3 256\nput 0 3 0 1 256 0\nsyncall\naccess 3 256\nput 0 3 0 9 256 0\n";
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    assert_eq!(reasons(&bench, "run"), [UncapturedReason::NoAccess]);
    let dump = bench.dump("run");
    let records = dump.records().map(Result::unwrap);
    let contents: Vec<Vec<u8>> = records
        .filter(|record| record.shape() == [1024])
        .map(|record| dump.payload(&record).unwrap().to_vec())
        .collect();
    let words = |from: u32| (from..from + 256).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    assert_eq!(contents, [words(1), words(9)]);
}

#[test]
fn a_refused_launch_is_recorded_without_effect() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nrefused 0 4\nwrite 0 0 0 3000 2 0\n";
    assert_eq!(succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap()), "1\n");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let operations: Vec<&str> = tasks.iter().map(|task| task.facts().operation.name()).collect();
    assert_eq!(operations, ["barrier", "host_write"]);
}

#[test]
fn code_is_stored_once_and_named_after_its_kernels() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nput 0 0 0 1 9 0\nput 0 0 0 2 9 1\nfold 0 0 0 0 100 3 5 0\n";
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let dump = bench.dump("run");
    let modules = dump.modules();
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["put", "fold"]);
}

#[test]
fn without_cupti_the_program_runs_and_the_reason_is_reported() {
    let bench = Bench::new();
    let mut world = World::new();
    let part = Part { buffer: 0, at: 0, words: 3000 };
    world.run(crate::plan::DeviceCommand::Write { to: part, seed: 4, waits: true });
    let plan = "alloc 0 3000\nwrite 0 0 0 3000 4 1\nread 0 0 0 3000 1\n";
    let cases = [
        ("FAKE_SUBSCRIBED", "1".into(), "another tool has subscribed"),
        ("TENSORTAP_CUPTI", "/nowhere/libcupti.so".into(), "libcupti was not found"),
        ("CUDA_INJECTION64_PATH", built().join("libcuda.so.1").into_os_string(), ""),
    ];
    for (number, (variable, value, why)) in cases.into_iter().enumerate() {
        let mut command = bench.program(plan, Some((&format!("run{number}"), "")));
        let output = command.env(variable, value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if why.is_empty() {
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(
                said.contains("CUDA_INJECTION64_PATH is already set") && said.contains("--no-cuda"),
                "{said}"
            );
            continue;
        }
        assert_eq!(succeeded(&output), printed(&content(4, 3000)));
        assert!(said.contains(why), "{said}");
    }
    // With --no-cuda, the library is not loaded.
    let output = bench.program(plan, Some(("not", "--no-cuda"))).output().unwrap();
    assert_eq!(succeeded(&output), printed(&content(4, 3000)));
    assert!(!bench.path("not").join("tensor_dump.idx").exists());
}

#[test]
fn levels_without_content_record_ranges() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nput 0 0 8 1 9 0\n";
    succeeded(&bench.program(plan, Some(("run", "--dump-tensor=meta"))).output().unwrap());
    let dump = bench.dump("run");
    let shapes: Vec<Vec<u64>> = dump
        .records()
        .map(Result::unwrap)
        .filter(|record| !record.shape().is_empty())
        .map(|record| record.shape().to_vec())
        .collect();
    assert_eq!(shapes, [[11_968], [11_968]]);
}

#[test]
fn filtered_launches_are_counted_and_order_is_kept_across_them() {
    let bench = Bench::new();
    // In the second stream, a launch waits for an event that follows a filtered launch.
    let plan = "stream 1 1\nstream 2 1\nalloc 0 3000\nalloc 1 3000\nput 1 0 0 1 9 0\nmix 1 0 0 1 0 2 9 0\nput 1 0 0 2 9 1\n\
                record 1 0\nwait 2 0\nput 2 0 0 3 9 2\nput 2 0 0 4 9 0\nmix 2 0 0 1 0 2 9 1\nread 2 1 0 9\n";
    let alone = succeeded(&bench.program(plan, None).output().unwrap());
    let output = bench.program(plan, Some(("run", "--dump-func put"))).output().unwrap();
    assert_eq!(succeeded(&output), alone);
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let kernels: Vec<u64> = tasks.iter().map(|task| task.key().task_id).collect();
    assert_eq!(kernels.len(), 4, "launches of `put`; the read has no kernel");
    let manifest = std::fs::read_to_string(dump.dir().join("tensor_dump.json")).unwrap();
    // Two launches with four parameters each, and the one range of the read.
    assert!(manifest.contains("\"filtered_records\": 9"), "{manifest}");
    let mut edges: Vec<(u64, u64)> = dump.edges().unwrap().iter().map(|edge| (edge.from, edge.to)).collect();
    edges.retain(|(from, to)| kernels.contains(from) && kernels.contains(to));
    edges.sort_unstable();
    assert_eq!(edges, [(kernels[0], kernels[1]), (kernels[1], kernels[2]), (kernels[2], kernels[3])]);
    succeeded(&bench.program(plan, Some(("first", "--dump-first 2"))).output().unwrap());
    assert_eq!(bench.dump("first").tasks().unwrap().iter().count(), 2);
}

#[test]
fn snapshots_overlap_only_each_other_and_not_with_filters() {
    let bench = Bench::new();
    let run = |name: &str, plan: &str, options: &str| {
        let mut command = bench.program(plan, Some((name, options)));
        let output = command.env("FAKE_COUNTS_EARLY", "1").output().unwrap();
        succeeded(&output);
        crate::truth::early_launches(&output)
    };
    let begin = "stream 1 1\nstream 2 1\nalloc 0 3000\nalloc 1 3000\nput 1 0 0 1 9 0\n";
    let hash = "--dump-tensor=hash";
    let next = format!("{begin}put 1 0 0 2 9 0\n");
    assert_eq!(run("next", &next, hash), 1);
    assert_eq!(run("filtered", &next, "--dump-tensor=hash --dump-func put"), 0);
    assert_eq!(run("first", &next, "--dump-tensor=hash --dump-first 5"), 0);
    assert_eq!(run("argument", &next, "--dump-tensor=hash --dump-arg 0"), 1);
    // The fake driver fails if a launch overlaps with a launch of the program.
    assert_eq!(run("gate", &format!("{begin}gate 1\nopen 0\nput 1 0 0 2 9 0\n"), hash), 0);
    let waits = format!("{begin}put 2 1 0 1 9 0\nrecord 2 0\nwait 1 0\nput 1 0 0 2 9 0\n");
    assert_eq!(run("waits", &waits, hash), 0);
    // Such a launch must not overlap with a snapshot either, although it may begin early and has no ranges to
    // capture.
    assert_eq!(run("early", &format!("{begin}early 1 0 0\nput 1 0 0 2 9 0\n"), hash), 0);
    assert_eq!(run("early_seen", &format!("{begin}early 1 0 9\nput 1 0 0 2 9 0\n"), hash), 2);
    assert_eq!(run("other_stream", &format!("{begin}put 2 1 0 2 9 0\nput 1 0 0 3 9 0\n"), hash), 1);
}

#[test]
fn a_launch_with_an_unordered_neighbor_is_not_captured() {
    let bench = Bench::new();
    let plan =
        "stream 1 1\nalloc 0 3000\nput 1 0 0 1 9 0\npair 1 0 7 3000\nput 1 0 0 2 9 0\nread 1 0 0 3000\n";
    let alone = succeeded(&bench.program(plan, None).output().unwrap());
    assert_eq!(succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap()), alone);
    let dump = bench.dump("run");
    let ids: Vec<u64> = {
        let tasks = dump.tasks().unwrap();
        let mut ids: Vec<u64> = tasks.iter().map(|task| task.key().task_id).collect();
        assert!(tasks.iter().all(|task| task.facts().completed_ns.is_some()), "all tasks must have ended");
        ids.sort_unstable();
        ids
    };
    // The order of the two is unknown and is not recorded. All other commands are before both or after both.
    let mut edges: Vec<(u64, u64)> = dump.edges().unwrap().iter().map(|edge| (edge.from, edge.to)).collect();
    edges.sort_unstable();
    let place = |id: u64| ids.iter().position(|known| *known == id).unwrap();
    let edges: Vec<_> = edges.into_iter().map(|(from, to)| (place(from), place(to))).collect();
    assert_eq!(edges, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
    // The third launch passes the second. The output of the second, and everything of the third, is unknown.
    let unseen = dump.uncaptured().unwrap();
    let mut unseen: Vec<_> = unseen.iter().map(|unseen| (unseen.task_id, unseen.reason)).collect();
    unseen.sort_unstable_by_key(|(task, ..)| *task);
    let (before, after) = (tensortap::DumpStage::BeforeDispatch, tensortap::DumpStage::AfterCompletion);
    let reason = UncapturedReason::NoProbe;
    assert_eq!(unseen, [(ids[1], reason), (ids[2], reason)]);
    let mut seen: Vec<_> = dump
        .records()
        .map(Result::unwrap)
        .filter(|record| !record.shape().is_empty())
        .map(|record| (record.task_id, record.stage))
        .collect();
    seen.sort_unstable_by_key(|(task, stage)| (*task, *stage as u8));
    let expected = [
        (ids[0], before),
        (ids[0], after),
        (ids[1], before),
        (ids[3], before),
        (ids[3], after),
        (ids[4], before),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_short_program_loses_nothing_if_pinning_is_slow() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nput 0 0 0 1 3000 0\nput 0 0 0 2 3000 0\n";
    let mut command = bench.program(plan, Some(("run", "")));
    succeeded(&command.env("FAKE_PINS_SLOWLY", "1").output().unwrap());
    let dump = bench.dump("run");
    let records = dump.records().map(Result::unwrap).filter(|record| !record.shape().is_empty());
    let mut seen: Vec<_> = records
        .map(|record| (record.task_id, record.stage as u8, dump.payload(&record).unwrap().to_vec()))
        .collect();
    seen.sort_unstable();
    let words = |from: u32| (from..from + 3000).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let contents: Vec<Vec<u8>> = seen.into_iter().map(|(.., content)| content).collect();
    assert!(contents == [vec![0xA5; 12_000], words(1), words(1), words(2)]);
}

#[test]
fn a_stream_is_ordered_by_its_own_context() {
    let bench = Bench::new();
    // Stream 1 is a blocking stream of another context, and stream 2 is of the current one. Copies are their
    // first use. Between them, a fill of the legacy stream waits only for the streams of its own context.
    let plan = "stream 1 16\nstream 2 0\nalloc 0 3000\nalloc 1 3000\nalloc 2 3000\nwrite 1 0 0 3000 5 0\nwrite 2 1 0 3000 6 0\n\
                fill 0 2 0 7 3000\ncopy 1 0 0 0 1500 100 0\ncopy 2 1 0 1 1500 100 0\nsync 1\nsync 2\n";
    succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap());
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let mut ids: Vec<u64> = tasks.iter().map(|task| task.key().task_id).collect();
    ids.sort_unstable();
    let place = |id: u64| ids.iter().position(|known| *known == id).unwrap();
    let mut edges: Vec<_> =
        dump.edges().unwrap().iter().map(|edge| (place(edge.from), place(edge.to))).collect();
    edges.sort_unstable();
    // The two commands of stream 1; the fill after the command of stream 2; and the command after the fill.
    assert_eq!(edges, [(0, 3), (1, 2), (1, 4), (2, 4)]);
    let lane = |at: usize| {
        let task = tasks.iter().find(|task| task.key().task_id == ids[at]).unwrap();
        dump.queue_name(task.facts().queue).map(ToOwned::to_owned)
    };
    assert_eq!(lane(0).as_deref(), Some("stream 1 (other device)"));
    assert_eq!(lane(1).as_deref(), Some("stream 2 (fake device)"));
    // Everything is captured nevertheless.
    assert!(dump.uncaptured().unwrap().is_empty());
    let written = dump.records().map(Result::unwrap).find(|record| record.task_id == ids[0]).unwrap();
    let expected: Vec<u8> = content(5, 3000).into_iter().flat_map(u32::to_le_bytes).collect();
    assert!(dump.payload(&written).unwrap() == expected);
}
