//! What becomes of content on its way from a device: kept, lost, referred to, or under way when its process ends.

use std::collections::HashMap;

use tensortap::{
    DumpStage,
    format::{Dump, PayloadState, Record},
};

use crate::{Bench, plan::content, succeeded};

/// Ranges of launches, in the order of their tasks, before and behind each.
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
fn content_that_found_no_room_is_stored_when_it_comes_again() {
    let bench = Bench::new();
    // A ring for one content. Behind the gate, the first launch's input takes it, and what it leaves has none.
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
fn equal_content_is_stored_once_or_each_time_as_asked() {
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
fn a_program_that_leaves_with_work_under_way_does_so_and_the_work_is_named() {
    let bench = Bench::new();
    let plan = "stream 1 1\nalloc 0 3000\nput 1 0 0 3 3000 0\nsync 1\ngate 1\nput 1 0 0 7 3000 0\nleave 0\n";
    let output = bench.program(plan, Some(("run", ""))).output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("under way when the process ended").count(), 1, "{said}");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let mut ended: Vec<(u64, bool)> =
        tasks.iter().map(|task| (task.key().task_id, task.facts().completed_ns.is_some())).collect();
    ended.sort_unstable();
    assert_eq!(ended.iter().map(|task| task.1).collect::<Vec<_>>(), [true, false]);
    let contents: Vec<Vec<u8>> =
        ranges(&dump).iter().map(|record| dump.payload(record).unwrap().to_vec()).collect();
    assert_eq!(contents, [vec![0xA5; 12_000], bytes(3..3003)]);
}

#[test]
fn what_was_seen_of_a_program_that_is_killed_is_there() {
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
        assert_eq!(dump.tasks().unwrap().len(), 3, "the last is under way");
    }
}
