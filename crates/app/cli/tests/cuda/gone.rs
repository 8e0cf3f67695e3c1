//! After contexts and streams are destroyed, new ones with the same handles are recorded correctly.

use tensortap::format::{Dump, PayloadState, Record};

use crate::{Bench, plan::content, succeeded};

const WORDS: u32 = 3000;

/// The content of the ranges of launches and copies, by task, before and after each. All content must be
/// stored.
fn contents(dump: &Dump) -> Vec<Vec<u8>> {
    assert!(dump.uncaptured().unwrap().is_empty(), "{:?}", dump.uncaptured().unwrap().first());
    let is_range = |record: &Record| record.shape() == [u64::from(WORDS) * 4];
    let mut ranges: Vec<Record> = dump.records().map(Result::unwrap).filter(is_range).collect();
    ranges.sort_by_key(|record| (record.task_id, record.stage as u8));
    let content = |record: &Record| {
        assert_eq!(record.payload, PayloadState::Stored, "{record:?}");
        dump.payload(record).unwrap().to_vec()
    };
    ranges.iter().map(content).collect()
}

fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The output of `put`.
fn put(k: u32) -> Vec<u8> {
    bytes(k..k + WORDS)
}

#[test]
fn a_context_reset_forgets_its_streams_and_events() {
    let bench = Bench::new();
    // Streams get the same handles each time. The fake driver ends the program if anything of a destroyed
    // context is used.
    let mut plan = String::new();
    let mut expected = Vec::new();
    for round in 0..3 {
        plan += &format!("alloc 0 {WORDS}\nstream 1 1\nwrite 1 0 0 {WORDS} {} 0\n", 50 + round);
        expected.push(bytes(content(50 + round, 3000)));
        for turn in 0..5 {
            let k = 100 * round + turn;
            plan += &format!("put 1 0 0 {k} {WORDS} 0\n");
            expected.extend([expected.last().unwrap().clone(), put(k)]);
        }
        // Snapshots are stored before the next context is created.
        plan += if round < 2 { "sync 1\nrest 0\nreset 0\n" } else { "sync 1\n" };
    }
    for level in ["full", "hash"] {
        let options = format!("--dump-tensor={level}");
        let mut command = bench.program(&plan, Some((level, &options)));
        succeeded(&command.env("TENSORTAP_CUDA_RING", "1000000").output().unwrap());
    }
    let dump = bench.dump("full");
    assert!(contents(&dump) == expected);
    // Streams that have the same handle one after the other are different queues.
    let mut queues: Vec<_> = dump.tasks().unwrap().iter().map(|task| task.facts().queue).collect();
    queues.dedup();
    assert_eq!(queues.len(), 3, "{queues:?}");
}

#[test]
fn content_is_stored_if_the_driver_cannot_record_events() {
    let bench = Bench::new();
    let mut plan = format!("alloc 0 {WORDS}\nstream 1 1\nwrite 1 0 0 {WORDS} 9 0\n");
    let mut expected = vec![bytes(content(9, 3000))];
    for k in 0..20 {
        plan += &format!("put 1 0 0 {k} {WORDS} 0\n");
        expected.extend([expected.last().unwrap().clone(), put(k)]);
    }
    let mut command = bench.program(&plan, Some(("run", "")));
    succeeded(&command.env("FAKE_RECORDS_NO_EVENTS", "1").output().unwrap());
    assert!(contents(&bench.dump("run")) == expected);
}

#[test]
fn short_lived_streams_are_captured() {
    let bench = Bench::new();
    // More memory than a device has at a time.
    let mut plan = format!("alloc 0 {WORDS}\nwrite 0 0 0 {WORDS} 9 1\n");
    let mut expected = vec![bytes(content(9, 3000))];
    for k in 0..200 {
        plan += &format!("stream 1 1\nput 1 0 0 {k} {WORDS} 0\nsync 1\nstream_gone 1\n");
        expected.extend([expected.last().unwrap().clone(), put(k)]);
    }
    succeeded(&bench.program(&plan, Some(("run", ""))).output().unwrap());
    assert!(contents(&bench.dump("run")) == expected);
}
