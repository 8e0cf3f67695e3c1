//! Content between the device and the dump: stored, lost, referred to, or still in flight when its process
//! ends.

use std::collections::HashMap;

use tensortap::{
    DumpStage,
    format::{Dump, PayloadState, Record},
};

use crate::{Bench, plan::content, succeeded};

/// The output of `mix` with the number 1.
fn mixed(x: &[u32], y: &[u32]) -> Vec<u32> {
    x.iter().zip(y).map(|(x, y)| y.wrapping_mul(3).wrapping_add(*x).wrapping_add(1)).collect()
}

/// Checks that the ranges of a launch of `mix` are stored with the right content, before and after it.
#[track_caller]
fn are_stored(dump: &Dump, ranges: &[Record], [x, y]: [&[u32]; 2]) {
    let expected = [x, y, x, &mixed(x, y)].map(|words| bytes(words.iter().copied()));
    assert_eq!(ranges.len(), expected.len(), "{ranges:?}");
    for (record, expected) in ranges.iter().zip(expected) {
        assert_eq!(record.payload, PayloadState::Stored, "{record:?}");
        assert!(dump.payload(record).unwrap().to_vec() == expected, "{record:?}");
    }
}

/// The ranges of launches, by task, before and after each.
fn ranges(dump: &Dump) -> Vec<Record> {
    let is_range = |record: &Record| record.shape().first().is_some_and(|size| *size > 32);
    let mut ranges: Vec<Record> = dump.records().map(Result::unwrap).filter(is_range).collect();
    ranges.sort_by_key(|record| (record.task_id, record.stage as u8, record.arg_index));
    ranges
}

fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn content_without_room_is_stored_when_it_occurs_again() {
    let bench = Bench::new();
    // The ring has room for one content. While the gate is closed, the input of the first launch takes it,
    // and its output finds none.
    let plan = "stream 1 1\nalloc 0 3000\nwrite 1 0 0 3000 5 0\nsync 1\nrest 0\ngate 1\nput 1 0 0 7 3000 0\nopen 0\nsync 1\nrest 0\n\
                put 1 0 0 7 3000 0\nsync 1\nrest 0\nput 1 0 0 7 3000 0\n";
    let mut command = bench.program(plan, Some(("run", "")));
    succeeded(&command.env("TENSORTAP_CUDA_RING", "13000").output().unwrap());
    let dump = bench.dump("run");
    let ranges = ranges(&dump);
    let left = bytes(7..3007);
    let hash = Some(tensortap::values::content_hash(&left));
    let states: Vec<PayloadState> =
        ranges.iter().filter(|record| record.hash == hash).map(|record| record.payload).collect();
    assert_eq!(states[0], PayloadState::Dropped, "{states:?}");
    assert!(states[1..].contains(&PayloadState::Stored), "it was lost once, and not for good: {states:?}");
    for record in ranges.iter().filter(|record| record.hash == hash && record.payload == PayloadState::Stored)
    {
        assert!(dump.payload(record).unwrap().to_vec() == left);
    }
    let first = &ranges[0];
    assert_eq!(dump.payload(first).unwrap().to_vec(), bytes(content(5, 3000)));
}

#[test]
fn shared_memory_is_stored_if_a_filter_accepts_only_the_second_argument() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\nmix 1 0 0 0 0 5 3000 0\nsync 1\n";
    succeeded(&bench.program(plan, Some(("run", "--dump-arg 1 --dump-func mix"))).output().unwrap());
    let dump = bench.dump("run");
    let ranges = ranges(&dump);
    let states: Vec<_> = ranges.iter().map(|record| (record.arg_index, record.payload)).collect();
    assert_eq!(states, [(1, PayloadState::Stored); 2]);
    assert!(dump.payload(&ranges[0]).unwrap().to_vec() == bytes(3..3003));
    assert!(dump.payload(&ranges[1]).unwrap().to_vec() == bytes((3..3003).map(|word| 4 * word + 5)));
}

#[test]
fn content_left_out_by_a_filter_is_stored_when_it_occurs_next() {
    let bench = Bench::new();
    // The input of each launch is the output of the one before it, which is filtered out; and the other way
    // round.
    let plan = "stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\nput 1 0 0 4 3000 0\nput 1 0 0 5 3000 0\nput 1 0 0 4 3000 0\nsync 1\n";
    let fresh = vec![0xA5; 12_000];
    for (stage, contents) in [
        ("before", [fresh, bytes(3..3003), bytes(4..3004), bytes(5..3005)]),
        ("after", [bytes(3..3003), bytes(4..3004), bytes(5..3005), bytes(4..3004)]),
    ] {
        let options = format!("--dump-stage {stage}");
        let output = bench.program(plan, Some((stage, &options))).output().unwrap();
        succeeded(&output);
        let dump = bench.dump(stage);
        let stored: Vec<Vec<u8>> = ranges(&dump)
            .iter()
            .map(|record| {
                assert_eq!(record.payload, PayloadState::Stored, "{stage}: {record:?}");
                dump.payload(record).unwrap().to_vec()
            })
            .collect();
        assert!(stored == contents, "{stage}");
        let manifest = std::fs::read_to_string(dump.dir().join("tensor_dump.json")).unwrap();
        assert!(manifest.contains("\"dropped_records\": 0"), "{stage}: {manifest}");
    }
}

#[test]
fn equal_content_is_stored_once_or_every_time_as_requested() {
    let bench = Bench::new();
    let mut plan = String::from("alloc 0 3000\nalloc 1 3000\n");
    (0..12).for_each(|turn| plan += &format!("put 0 {} 0 {} 3000 0\n", turn % 2, turn / 4));
    for (run, options, copies) in
        [("once", "", 1..=1), ("each", "--no-dedup", 2..=24), ("last", "--dump-last 5", 1..=24)]
    {
        succeeded(&bench.program(&plan, Some((run, options))).output().unwrap());
        let dump = bench.dump(run);
        let ranges = ranges(&dump);
        assert_eq!(ranges.len(), if run == "last" { 10 } else { 24 }, "{run}");
        let mut places: HashMap<u128, Vec<u64>> = HashMap::new();
        for record in &ranges {
            assert_eq!(record.payload, PayloadState::Stored, "{run}: {record:?}");
            let places = places.entry(record.hash.unwrap()).or_default();
            if !places.contains(&record.bin_offset) {
                places.push(record.bin_offset);
            }
        }
        let most = places.values().map(Vec::len).max().unwrap();
        assert!(copies.contains(&most), "{run}: {most} copies");
        let k = |record: &Record| u32::try_from(record.task_id.saturating_sub(1) / 4).unwrap();
        for record in ranges.iter().filter(|record| record.stage == DumpStage::AfterCompletion) {
            assert!(
                dump.payload(record).unwrap().to_vec() == bytes(k(record)..k(record) + 3000),
                "{run}: {record:?}"
            );
        }
    }
}

#[test]
fn a_program_can_exit_with_running_commands_and_they_are_reported() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\nsync 1\ngate 1\nput 1 0 0 7 3000 0\nleave 0\n";
    let output = bench.program(plan, Some(("run", ""))).output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("still running when the process ended").count(), 1, "{said}");
    let words = "in flight 1 task had not completed when the run ended: task 0x2 (put)";
    assert!(said.contains("complete, ") && said.contains(words), "{said}");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let mut ended: Vec<(u64, bool)> =
        tasks.iter().map(|task| (task.key().task_id, task.facts().completed_ns.is_some())).collect();
    ended.sort_unstable();
    assert_eq!(ended.iter().map(|task| task.1).collect::<Vec<_>>(), [true, false]);
    let contents: Vec<Vec<u8>> =
        ranges(&dump).iter().map(|record| dump.payload(record).unwrap().to_vec()).collect();
    assert_eq!(contents, [vec![0xA5; 12_000], bytes(3..3003)]);
    assert_eq!(dump.uncaptured().unwrap().len(), 2, "the input and output of the other launch");
}

#[test]
fn content_beyond_a_limit_is_left_out_once_and_counted() {
    let bench = Bench::new();
    let plan = "alloc 0 3000\nput 0 0 0 3 3000 0\nput 0 0 0 7 3000 0\n";
    let output = bench.program(plan, Some(("run", "--dump-max-bytes 13000"))).output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The first input is within the limit. Three more contents of 12,000 bytes, two of them equal, are beyond
    // it.
    assert!(said.contains("  filtered  35.2 KiB of content, by filters and limits"), "{said}");
    assert!(said.contains(" complete, 8 records, ") && said.contains("  losses    none"), "{said}");
    let dump = bench.dump("run");
    let stored: Vec<bool> =
        ranges(&dump).iter().map(|record| record.payload == PayloadState::Stored).collect();
    assert_eq!(stored.iter().filter(|stored| **stored).count(), 1, "{stored:?}");
    assert!(ranges(&dump).iter().all(|record| record.hash.is_some()), "hashes must be recorded");
}

#[test]
fn a_killed_program_keeps_its_recorded_snapshots() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\nsync 1\nput 1 0 0 4 3000 0\ngate 1\nput 1 0 0 7 3000 0\nrest 0\ndie 0\n";
    for level in ["full", "hash"] {
        let options = format!("--dump-tensor={level}");
        let output = bench.program(plan, Some((level, &options))).output().unwrap();
        assert_eq!(output.status.code(), Some(128 + 9));
        let dump = bench.dump(level);
        let hashes: Vec<Option<u128>> = ranges(&dump).iter().map(|record| record.hash).collect();
        let of = |bytes: &[u8]| Some(tensortap::values::content_hash(bytes));
        let (three, four) = (of(&bytes(3..3003)), of(&bytes(4..3004)));
        assert_eq!(hashes, [of(&[0xA5; 12_000]), three, three, four], "{level}");
        assert_eq!(dump.tasks().unwrap().len(), 3, "the last task must still be running");
    }
}

#[test]
fn the_output_of_the_last_launch_is_captured_without_further_calls() {
    let bench = Bench::new();
    for (run, end, status) in [("killed", "rest 0\ndie 0", 128 + 9), ("left", "leave 0", 0)] {
        let plan = format!("stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\n{end}\n");
        let output = bench.program(&plan, Some((run, ""))).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let dump = bench.dump(run);
        let hashes: Vec<Option<u128>> = ranges(&dump).iter().map(|record| record.hash).collect();
        let of = |bytes: &[u8]| Some(tensortap::values::content_hash(bytes));
        assert_eq!(hashes, [of(&[0xA5; 12_000]), of(&bytes(3..3003))], "{run}");
    }
}

#[test]
fn streams_with_the_same_content_in_different_order_do_not_deadlock() {
    let bench = Bench::new();
    // Each stream finds one content first that the other one finds second and treats as stored.
    let mut plan = String::from("stream 1 1\nstream 2 1\n");
    for (buffer, seed) in [(0, 5), (1, 6), (2, 6), (3, 5)] {
        plan += &format!("alloc {buffer} 3000\nwrite 1 {buffer} 0 3000 {seed} 1\n");
    }
    plan += "gate 1\ngate 2\nmix 1 0 0 1 0 1 3000 0\nmix 2 2 0 3 0 1 3000 0\nopen 0\nsyncall\n";
    let mut command = bench.program(&plan, Some(("run", "--dump-func mix")));
    let said = succeeded(&command.env("FAKE_FINDS_SLOWLY", "1").output().unwrap());
    assert!(!said.contains("under way"), "{said}");
    let dump = bench.dump("run");
    let ranges = ranges(&dump);
    let (one, other) = (content(5, 3000), content(6, 3000));
    assert_eq!(ranges.len(), 8);
    are_stored(&dump, &ranges[..4], [&one, &other]);
    are_stored(&dump, &ranges[4..], [&other, &one]);
}

#[test]
fn lost_content_is_canceled_while_other_streams_work() {
    let bench = Bench::new();
    // The device knows the first input, but it is never reported: its copy is refused.
    let mut plan = String::from("stream 1 1\nstream 2 1\n");
    for buffer in 0..4 {
        plan += &format!("alloc {buffer} 3000\nwrite 1 {buffer} 0 3000 {buffer} 1\n");
    }
    plan += "mix 1 0 0 1 0 1 3000 0\n";
    (0..8).for_each(|_| plan += "mix 2 2 0 3 0 1 3000 0\nrest 0\n");
    plan += "mix 1 0 0 1 0 1 3000 0\n";
    let mut command = bench.program(&plan, Some(("run", "--dump-func mix")));
    succeeded(&command.env("FAKE_REFUSES_A_COPY", "1").output().unwrap());
    let dump = bench.dump("run");
    let ranges = ranges(&dump);
    // No input of the first launch, and everything of the nine others.
    assert_eq!(ranges.len(), 2 + 9 * 4);
    assert_eq!(dump.uncaptured().unwrap().len(), 2);
    let (x, y) = (content(0, 3000), content(1, 3000));
    let left = mixed(&x, &y);
    assert_eq!(ranges[0].payload, PayloadState::Dropped);
    assert_eq!(ranges[0].hash, Some(tensortap::values::content_hash(&bytes(x.iter().copied()))));
    assert_eq!(dump.payload(&ranges[1]).unwrap().to_vec(), bytes(left.iter().copied()));
    are_stored(&dump, &ranges[34..], [&x, &left]);
}

#[test]
fn content_missing_at_process_end_is_recorded_by_its_hash() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nalloc 1 3000\nwrite 1 0 0 3000 0 1\nwrite 1 1 0 3000 1 1\n\
                mix 1 0 0 1 0 1 3000 0\nmix 1 0 0 1 0 1 3000 0\n";
    let mut command = bench.program(plan, Some(("run", "--dump-func mix")));
    succeeded(&command.env("FAKE_REFUSES_A_COPY", "1").output().unwrap());
    let dump = bench.dump("run");
    let ranges = ranges(&dump);
    let x = content(0, 3000);
    let once = mixed(&x, &content(1, 3000));
    let twice = mixed(&x, &once);
    // The device treats `x` as stored each time. The output of each launch is new.
    let expected = [&x, &once, &x, &once, &x, &twice].map(|words| bytes(words.iter().copied()));
    assert_eq!(ranges.len(), expected.len());
    for (place, (record, expected)) in ranges.iter().zip(expected).enumerate() {
        assert_eq!(record.hash, Some(tensortap::values::content_hash(&expected)), "{place}");
        let payload = if place % 2 == 0 { PayloadState::Dropped } else { PayloadState::Stored };
        assert_eq!(record.payload, payload, "{place}");
        assert!(place % 2 == 0 || dump.payload(record).unwrap().to_vec() == expected, "{place}");
    }
}
