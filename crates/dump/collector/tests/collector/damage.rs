//! A region that a kernel has overwritten.

use std::{mem::offset_of, time::Duration};

use proptest::prelude::*;
use tensortap_abi::{
    DumpBufferHeader, DumpBufferState, DumpGeometry, DumpSetupHeader, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD,
    TensorRecord,
};
use tensortap_collector::{Collector, CollectorOptions, RunEnd};
use tensortap_format::{DumpWriter, RunInfo, Status, verify};
use zerocopy::IntoBytes;

use crate::{
    RegionMemory,
    device::tensor_of,
    rig::{GEOMETRY, RUN_ID, Rig, content, finish},
    testing::TestMemory,
};

#[test]
fn a_byte_that_changes_before_it_is_drained_is_found() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (collector, mut device) = (rig.collector(), rig.lane(0));
        for task in 0..3 {
            assert!(device.tensor(task, 0, &content(task, 6000)));
        }
        // Task 1's payload starts at the next multiple of 64.
        let target = device.arena(6016 + 5999);
        let mut byte = [0];
        rig.memory.read(target, &mut byte).unwrap();
        rig.memory.write(target, &[byte[0] ^ 1]).unwrap();
        finish(collector);
        let verdict = verify(&rig.dump()).unwrap();
        assert_eq!(verdict.problems.len(), 1, "{:?}", verdict.problems);
        assert_eq!(verdict.problems[0].record.unwrap().task_id, 1);
    }
}

#[test]
fn a_payload_damaged_in_the_arena_does_not_affect_equal_ones() {
    for (mapped, look_between) in [(true, true), (true, false), (false, true), (false, false)] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        let right = content(9, 3000);
        assert!(device.tensor(0, 0, &right));
        rig.memory.write(device.arena(0) + 2999, &[!right[2999]]).unwrap();
        for task in 1..4 {
            if look_between {
                collector.step().unwrap();
            }
            assert!(device.tensor(task, 0, &right));
        }
        let summary = finish(collector);
        let dump = rig.dump();
        for (task, record) in dump.records().enumerate() {
            let record = record.unwrap();
            assert_eq!(dump.payload(&record).is_ok_and(|bytes| bytes == right), task > 0, "task {task}");
        }
        // The damaged copy, a good one, and two records that refer to the good one.
        assert_eq!((summary.counters.bytes_written, summary.counters.deduplicated_bytes), (6000, 6000));
    }
}

#[test]
fn a_damaged_record_is_counted_and_the_others_arrive() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    assert!(device.tensor(0, 0, &content(0, 100)));
    let beyond = TensorRecord {
        payload_pos: device.cursor + 64,
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        ..tensor_of(1, 0, 100, device.address())
    };
    let bad = [beyond, TensorRecord { kind: 77, ..beyond }, TensorRecord { address: 3, ..beyond }];
    for record in bad {
        assert!(device.commit(record.as_bytes()));
    }
    assert!(device.tensor(2, 0, &content(2, 100)));
    collector.step().unwrap();
    let summary = finish(collector);
    let dump = rig.verified();
    assert_eq!(dump.records().map(|r| r.unwrap().task_id).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((summary.counters.corrupt_records, summary.counters.dropped_records), (3, 0));
    assert_eq!(dump.footer().unwrap().corrupt_records, 3);
    assert!(dump.gaps().is_empty(), "rejected records are accounted for");
    let heard = rig.heard();
    assert_eq!(heard.len(), 1, "only the first is reported");
    assert!(heard[0].contains("lane: 0, seq: 1, fault: Position"), "{heard:?}");
}

#[test]
fn space_named_only_by_damaged_records_is_released() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    // Almost the whole arena, for a record that does not name it.
    assert!(device.reserve(60_000, 64).is_some());
    assert!(device.commit(TensorRecord { kind: 77, ..TensorRecord::default() }.as_bytes()));
    let bytes = content(5, 30_000);
    let mut steps = 0;
    while !device.tensor(1, 0, &bytes) {
        collector.step().unwrap();
        steps += 1;
        assert!(steps < 10, "the device would wait forever");
    }
    finish(collector);
    let dump = rig.verified();
    assert!(dump.payload(&dump.record(0).unwrap()).unwrap() == bytes);
}

#[test]
fn the_host_restores_its_overwritten_words_for_a_waiting_device() {
    let consumed = offset_of!(DumpBufferState, consumed_cursor);
    let free = offset_of!(DumpBufferState, free_pushed);
    for (field, damaged) in [(consumed, 0), (free, 3)] {
        let rig = Rig::new(GEOMETRY, true);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        for task in 0..12 {
            assert!(device.tensor(task, 0, &content(task, 5000)));
        }
        collector.step().unwrap();
        scribble(&rig, field, damaged);
        assert!(!device.tensor(12, 0, &content(12, 5000)), "it waits");
        collector.step().unwrap();
        assert!(device.tensor(12, 0, &content(12, 5000)));
        finish(collector);
        assert_eq!(rig.verified().len(), 13);
    }
}

/// Writes a word of lane 0 while lane 1 continues.
fn scribble(rig: &Rig, field: usize, value: u64) {
    rig.memory.write_u64(rig.lane(0).state_word(field), value).unwrap();
}

#[test]
fn a_damaged_lane_ends_with_a_reason_and_the_others_continue() {
    type Damage = fn(&Rig);
    let damages: [(&str, Damage); 7] = [
        ("write cursor", |rig| scribble(rig, offset_of!(DumpBufferState, write_cursor), 1)),
        ("write cursor", |rig| {
            scribble(rig, offset_of!(DumpBufferState, write_cursor), 100_000_000);
        }),
        ("ready queue", |rig| scribble(rig, offset_of!(DumpBufferState, ready_pushed), 0)),
        ("ready queue", |rig| scribble(rig, offset_of!(DumpBufferState, ready_pushed), u64::MAX)),
        ("ReadyEntry", |rig| {
            let entry = rig.options.geometry.queues_offset() + (3 + 1) * 4;
            rig.memory.write(entry, &2u32.to_le_bytes()).unwrap();
        }),
        ("committed", |rig| {
            let committed = rig.lane(0).buffer(1) + offset_of!(DumpBufferHeader, committed) as u64;
            rig.memory.write_u64(committed, 5).unwrap();
        }),
        ("run_id", |rig| {
            rig.memory
                .write_u64(rig.lane(0).buffer(1) + offset_of!(DumpBufferHeader, run_id) as u64, 1)
                .unwrap();
        }),
    ];
    for (what, damage) in damages {
        let rig = Rig::new(GEOMETRY, true);
        let mut collector = rig.collector();
        let mut devices = [rig.lane(0), rig.lane(1)];
        for task in 0..4 {
            assert!(devices[0].tensor(task, 0, &content(task, 100)));
        }
        collector.step().unwrap();
        for task in 4..8 {
            assert!(devices[0].tensor(task, 0, &content(task, 100)));
        }
        damage(&rig);
        for task in 100..400 {
            while !devices[1].tensor(task, 0, &content(task, 100)) {
                collector.step().unwrap();
            }
        }
        let summary = finish(collector);
        let dump = rig.verified();
        let of_lane = |lane| dump.records().map(Result::unwrap).filter(move |r| r.thread == lane).count();
        assert_eq!((of_lane(0), of_lane(1)), (4, 300), "{what}");
        let ended = summary.lanes[0].ended.as_ref().unwrap_or_else(|| panic!("{what} is damaged"));
        assert!(format!("{ended:?} {ended}").contains(what), "{what}: {ended}");
        assert_eq!(summary.lanes[1].ended, None);
        assert_eq!(summary.counters.dropped_records, 4, "{what}");
        assert_eq!(rig.heard().len(), 1, "{what}");
    }
}

#[test]
fn a_returned_buffer_that_was_never_taken_ends_its_lane_with_a_reason() {
    for (what, free_popped) in [("NeverTaken", 1), ("free queue", 0), ("free queue", u64::MAX)] {
        let rig = Rig::new(GEOMETRY, true);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        for task in 0..8 {
            assert!(device.tensor(task, 0, &content(task, 100)));
            if task == 3 {
                collector.step().unwrap();
            }
        }
        scribble(&rig, offset_of!(DumpBufferState, free_popped), free_popped);
        collector.step().unwrap();
        let discard = offset_of!(tensortap_abi::DumpSetupHeader, discard) as u64;
        assert_eq!(rig.memory.read_u64(discard).unwrap(), 1, "{what}: the lane might wait forever");
        let summary = finish(collector);
        assert_eq!(rig.verified().len(), 8, "{what}: committed records are kept");
        let ended = summary.lanes[0].ended.as_ref().unwrap_or_else(|| panic!("{what} is damaged"));
        assert!(format!("{ended:?} {ended}").contains(what), "{what}: {ended}");
    }
}

#[test]
fn a_lane_that_cannot_be_followed_is_never_left_waiting() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    assert!(device.tensor(0, 0, &content(0, 100)));
    // The header of a different run: its records cannot be identified, but the cursors are valid.
    rig.memory.write_u64(device.buffer(0), 1).unwrap();
    collector.step().unwrap();
    for task in 1..500 {
        while !device.tensor(task, 0, &content(task, 5000)) {
            let before = rig.memory.wakes();
            collector.step().unwrap();
            assert!(rig.memory.wakes() > before);
        }
    }
    let discard = offset_of!(DumpSetupHeader, discard) as u64;
    assert_eq!(rig.memory.read_u64(discard).unwrap(), 0, "other lanes are not affected");
    scribble(&rig, offset_of!(DumpBufferState, write_cursor), u64::MAX);
    collector.step().unwrap();
    assert_eq!(rig.memory.read_u64(discard).unwrap(), 1, "it could wait forever");
    finish(collector);
}

const LOOK: Duration = Duration::from_millis(50);

/// Steps until `done` while thread 0 waits. Returns how long that took.
fn stand_still(
    collector: &mut Collector<TestMemory, DumpWriter>,
    rig: &Rig,
    done: impl Fn() -> bool,
) -> Duration {
    let mut still = Duration::ZERO;
    while !done() {
        rig.lane(0).wait();
        assert_eq!(collector.step().unwrap().records, 0);
        collector.idle(LOOK).unwrap();
        still += LOOK;
        assert!(still < Duration::from_secs(60), "host and device wait for each other forever");
    }
    still
}

#[test]
fn the_lane_of_a_stuck_thread_ends_and_names_the_impossible_word() {
    for mapped in [true, false] {
        let mut rig = Rig::new(GEOMETRY, mapped);
        rig.options.liveness = Duration::from_secs(5);
        let mut collector = rig.collector();
        let mut devices = [rig.lane(0), rig.lane(1)];
        assert!(devices[0].tensor(0, 0, &content(0, 100)));
        collector.step().unwrap();
        for task in 1..5 {
            assert!(devices[0].tensor(task, 0, &content(task, 13_000)));
        }
        // No word names the fifth record, the first one of the second buffer.
        scribble(&rig, offset_of!(DumpBufferState, current_buffer), 0);
        collector.step().unwrap();
        assert!(!devices[0].tensor(5, 0, &content(5, 45_000)), "it waits");
        let still = stand_still(&mut collector, &rig, || !rig.heard().is_empty());
        assert_eq!(still, Duration::from_secs(5));
        assert!(devices[0].tensor(5, 0, &content(5, 45_000)), "written bytes are released unread");
        for task in 6..40 {
            while !devices[1].tensor(task, 0, &content(task, 5000)) {
                collector.step().unwrap();
            }
        }
        let discard = offset_of!(DumpSetupHeader, discard) as u64;
        assert_eq!(rig.memory.read_u64(discard).unwrap(), 0, "other lanes are not affected");
        let summary = finish(collector);
        let ended = summary.lanes[0].ended.as_ref().expect("the lane ended").to_string();
        let word = "the word current_buffer is 0, expected 2: 2 buffers were taken and 1 handed over";
        assert!(ended.contains(word), "{ended}");
        assert_eq!(rig.verified().len(), 4 + 34, "visible committed records are kept");
        assert_eq!(rig.heard().len(), 1);
    }
}

#[test]
fn a_thread_that_still_waits_is_released() {
    let mut rig = Rig::new(GEOMETRY, true);
    rig.options.liveness = Duration::from_secs(2);
    let mut collector = rig.collector();
    let discard = offset_of!(DumpSetupHeader, discard) as u64;
    let let_go = || rig.memory.read_u64(discard).unwrap() == 1;
    // The thread waits forever, although everything is free.
    assert_eq!(stand_still(&mut collector, &rig, let_go), Duration::from_secs(3));
    let summary = finish(collector);
    let ended = summary.lanes[0].ended.as_ref().expect("the lane ended").to_string();
    assert!(ended.contains("all 3 buffers and the whole arena are free"), "{ended}");
}

#[test]
fn a_lane_of_an_idle_thread_does_not_end() {
    let mut rig = Rig::new(GEOMETRY, true);
    rig.options.liveness = Duration::from_secs(1);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    assert!(device.tensor(0, 0, &content(0, 100)));
    for look in 0..1000 {
        collector.step().unwrap();
        collector.idle(LOOK).unwrap();
        if look % 10 == 0 {
            // Sometimes it waits for a moment, like a thread whose buffers are returned late.
            device.wait();
            assert!(device.tensor(look, 0, &content(look, 100)));
        }
    }
    assert_eq!(finish(collector).lanes[0].ended, None);
}

#[test]
fn impossible_counters_are_rejected_by_name() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    assert!(device.tensor(0, 0, &content(0, 100)));
    scribble(&rig, offset_of!(DumpBufferState, records), u64::MAX);
    scribble(&rig, offset_of!(DumpBufferState, dropped_no_space), 1 << 53);
    scribble(&rig, offset_of!(DumpBufferState, filtered_bytes), u64::MAX);
    scribble(&rig, offset_of!(DumpBufferState, dropped_no_host), 7);
    let summary = finish(collector);
    assert_eq!(summary.lanes[0].damaged_counters, ["records", "dropped_no_space", "filtered_bytes"]);
    assert_eq!(
        (summary.counters.dropped_records, summary.counters.filtered_bytes),
        (7, 0),
        "the other counters are unknown"
    );
    let message = rig.verified().footer().unwrap().message.clone().unwrap_or_default();
    let said = "the counters records, dropped_no_space, filtered_bytes of lane 0 are damaged";
    assert!(message.contains(said), "{message}");
    assert!(rig.heard().iter().any(|heard| heard.contains("DamagedCounters")), "{:?}", rig.heard());
}

#[test]
fn a_payload_in_pieces_is_no_larger_than_the_device() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    // One byte, repeated so often that its content would need half a tebibyte of the file.
    let repeated = TensorRecord { strides: [0; 8], ..tensor_of(1, 0, 1 << 39, device.address()) };
    assert!(device.commit(tensortap_abi::BeginRecord::new(&repeated, 1).as_bytes()));
    assert!(device.tensor(2, 0, &content(2, 100)));
    let summary = finish(collector);
    assert_eq!(summary.counters.corrupt_records, 1);
    assert_eq!(rig.verified().record(0).unwrap().bin_offset, 0, "no range is reserved for it");
}

#[test]
fn records_missing_in_the_sequence_are_a_loss() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    for task in 0..4 {
        assert!(device.tensor(task, 0, &content(task, 100)));
    }
    device.seq += 10;
    for task in 4..8 {
        assert!(device.tensor(task, 0, &content(task, 100)));
        collector.step().unwrap();
    }
    let summary = finish(collector);
    let dump = rig.verified();
    assert_eq!(dump.len(), 8);
    assert_eq!(dump.gaps().len(), 1);
    assert_eq!(
        (summary.counters.dropped_records, summary.lanes[0].losses[0].reason.as_str()),
        (10, "missing")
    );
}

#[test]
fn data_of_an_earlier_run_in_the_region_is_not_taken() {
    let mut rig = Rig::new(GEOMETRY, true);
    for run in 0..3 {
        rig.setup.run_id = RUN_ID + run;
        rig.options.run_id = RUN_ID + run;
        rig.dir = tempfile::TempDir::new().unwrap();
        rig.set_up();
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        assert_eq!(collector.step().unwrap().records, 0);
        let tasks = 5 + 3 * run;
        for task in 0..tasks {
            while !device.tensor(task, 0, &content(100 * run + task, 9000)) {
                collector.step().unwrap();
            }
        }
        let summary = finish(collector);
        assert_eq!((summary.counters.entries, summary.counters.corrupt_records), (tasks, 0));
        let dump = rig.verified();
        for record in dump.records() {
            let record = record.unwrap();
            assert!(dump.payload(&record).unwrap() == content(100 * run + record.task_id, 9000));
        }
    }
}

#[test]
fn an_invalid_region_is_rejected() {
    for (geometry, what) in [
        (DumpGeometry { buffers: 0, ..GEOMETRY }, "no buffers"),
        (DumpGeometry { records: 0, ..GEOMETRY }, "no records"),
        (DumpGeometry { arena_bytes: 4097, ..GEOMETRY }, "multiple of 4096"),
    ] {
        let rig = Rig::new(GEOMETRY, true);
        let options = CollectorOptions { geometry, ..rig.options.clone() };
        let writer = rig.writer(tensortap_format::WriterOptions::default());
        let refused = Collector::new(rig.memory.clone(), writer, &options, rig.listener());
        let message = refused.err().expect("refused").to_string();
        assert!(message.contains(what), "{message}");
    }
}

const SMALL: DumpGeometry = DumpGeometry { lanes: 2, buffers: 2, records: 3, arena_bytes: 4096 };

/// A region with some valid words and random data everywhere else.
fn garbage(seed: u64, sound: u32) -> TestMemory {
    let memory = TestMemory::new(SMALL.bytes() + 4096, seed.is_multiple_of(2));
    let mut random = fastrand::Rng::with_seed(seed);
    for offset in (0..memory.range().bytes).step_by(8) {
        let value = match random.u32(..100) {
            0..30 => random.u64(..),
            30..60 => random.u64(..10),
            60..80 => random.u64(..5000),
            80..90 => memory.range().addr + random.u64(..SMALL.bytes()),
            _ => RUN_ID,
        };
        memory.write_u64(offset, value).unwrap();
    }
    for lane in 0..SMALL.lanes {
        let device = crate::device::FakeLane::new(memory.clone(), SMALL, lane, RUN_ID);
        for bit in 0..7 {
            if sound >> bit & 1 == 0 {
                continue;
            }
            let word = |field| device.state_word(field);
            let header = device.buffer(0);
            let (offset, value) = match bit {
                0 => (word(offset_of!(DumpBufferState, current_buffer)), 1),
                1 => (word(offset_of!(DumpBufferState, ready_pushed)), random.u64(..3)),
                2 => (word(offset_of!(DumpBufferState, write_cursor)), random.u64(..4097)),
                3 => (header + offset_of!(DumpBufferHeader, run_id) as u64, RUN_ID),
                4 => (header + offset_of!(DumpBufferHeader, first_seq) as u64, 0),
                5 => (header + offset_of!(DumpBufferHeader, lane) as u64, lane.into()),
                _ => (header + offset_of!(DumpBufferHeader, committed) as u64, random.u64(..4)),
            };
            memory.write_u64(offset, value).unwrap();
        }
        let queue = SMALL.queues_offset() + u64::from(lane) * SMALL.queue_bytes();
        memory.write(queue + 8, &[0, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    }
    memory
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Stray writes anywhere into a region in use: everything in the index is really there.
    #[test]
    fn stray_writes_only_affect_the_records_they_hit(
        seed in any::<u64>(),
        strays in prop::collection::vec((0u64..1_000_000, prop_oneof![any::<u64>(), 0u64..100]), 1..6),
        looked in any::<bool>(),
    ) {
        let rig = Rig::new(DumpGeometry { arena_bytes: 16 << 10, ..GEOMETRY }, seed.is_multiple_of(2));
        let mut collector = rig.collector();
        for lane in 0..2 {
            let mut device = rig.lane(lane);
            for task in 0..5 {
                prop_assert!(device.tensor(task, 0, &content(seed ^ task, 1500)));
            }
            if looked {
                collector.step().unwrap();
            }
            prop_assert!(device.begin(9, 1000));
            prop_assert!(device.piece(9, 0, &content(9, 1000)));
            prop_assert!(device.end(9, &content(9, 1000), 0));
        }
        // Not the arenas, where every value is valid content.
        let words = rig.options.geometry.arenas_offset() / 8;
        for (place, value) in strays {
            rig.memory.write_u64(place % words * 8, value).unwrap();
        }
        let summary = finish(collector);
        prop_assert_eq!(&summary.failure, &None);
        let dump = rig.dump();
        prop_assert_eq!(dump.len(), summary.counters.tensors + summary.counters.scalars);
        for problem in verify(&dump).unwrap().problems {
            prop_assert!(problem.what.contains("hash"), "{problem}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The collector neither crashes nor hangs, and the dump opens.
    #[test]
    fn a_garbage_region_ends_in_a_readable_dump(
        seed in any::<u64>(),
        sound in prop_oneof![any::<u32>(), Just(u32::MAX)],
        batch in any::<bool>(),
    ) {
        let memory = garbage(seed, sound);
        let dir = tempfile::TempDir::new().unwrap();
        let writer = DumpWriter::create(dir.path(), &RunInfo::default()).unwrap();
        let mut options = CollectorOptions::new(SMALL, RUN_ID, memory.range());
        if batch {
            options.collect = tensortap_abi::DumpCollect::Batch;
        }
        let mut collector = Collector::new(memory, writer, &options, Box::new(|_| ())).unwrap();
        for _ in 0..3 {
            collector.step().unwrap();
        }
        let summary = collector.finish(&RunEnd::new(Status::Complete)).unwrap();
        prop_assert_eq!(summary.failure, None);
        let dump = tensortap_format::Dump::open(dir.path()).unwrap();
        for record in dump.records() {
            let record = record.unwrap();
            if record.bin_size > 0 {
                prop_assert_eq!(dump.payload(&record).unwrap().len() as u64, record.bin_size);
            }
        }
    }
}
