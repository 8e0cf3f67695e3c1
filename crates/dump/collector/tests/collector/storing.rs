//! Stored data equals recorded data.

use std::mem::offset_of;

use proptest::prelude::*;
use tensortap_abi::{
    DType, DumpBufferState, DumpGeometry, DumpStage, EdgeCause, EdgeRecord, RECORD_ALREADY_STORED,
    RECORD_HAS_HASH, RECORD_HAS_STATS, RECORD_PAYLOAD_DROPPED, Role, ScalarRecord, TaskRecord, TensorRecord,
    TensorStats, UncapturedReason, UncapturedRecord,
};
use tensortap_collector::PayloadPath;
use tensortap_format::{PayloadState, Status, WriterOptions, split_position};
use zerocopy::IntoBytes;

use crate::{
    RegionMemory,
    device::{content_hash, tensor_of},
    rig::{GEOMETRY, Rig, content, finish},
};

#[test]
fn payloads_in_the_file_equal_those_in_the_arena() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (mut collector, mut device) = (rig.collector(), rig.lane(1));
        let contents: Vec<_> = (0..500).map(|seed| content(seed, 1 + seed as usize * 37 % 5000)).collect();
        for (task, bytes) in (0u64..).zip(&contents) {
            while !device.tensor(task, 3, bytes) {
                collector.step().unwrap();
            }
        }
        let summary = finish(collector);
        let dump = rig.verified();
        assert_eq!(dump.len(), 500);
        for (record, bytes) in dump.records().zip(&contents) {
            let record = record.unwrap();
            assert_eq!(dump.payload(&record).unwrap(), *bytes, "task {}", record.task_id);
            assert_eq!((record.thread, record.arg_index), (1, 3));
        }
        let total = contents.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        assert_eq!(
            (summary.counters.entries, summary.counters.tensors, summary.counters.bytes_captured),
            (500, 500, total)
        );
        assert_eq!((summary.counters.bytes_written, summary.counters.deduplicated_bytes), (total, 0));
        assert_eq!((summary.counters.dropped_records, summary.counters.corrupt_records), (0, 0));
        assert_eq!(summary.status, Status::Complete);
        assert_eq!(summary.lanes[1].acknowledged, 500);
        assert!(rig.heard().is_empty(), "{:?}", rig.heard());
    }
}

#[test]
fn equal_content_is_stored_once_over_all_files() {
    let mut rig = Rig::new(DumpGeometry { arena_bytes: 1 << 20, ..GEOMETRY }, true);
    rig.options.files = 3;
    let (mut collector, mut devices) = (rig.collector(), [rig.lane(0), rig.lane(1)]);
    // Five contents, each recorded by both lanes and twice by each, and a small one after each of them.
    for round in 0..2 {
        for seed in 0..5 {
            for device in &mut devices {
                for (arg, bytes) in [(0, content(seed, 70_000)), (1, content(seed, 300))] {
                    while !device.tensor(round * 10 + seed, arg, &bytes) {
                        collector.step().unwrap();
                    }
                }
            }
        }
    }
    let summary = finish(collector);
    assert_eq!((summary.counters.tensors, summary.counters.bytes_written), (40, 5 * 70_300));
    let dump = rig.verified();
    let mut places = std::collections::HashMap::new();
    for record in dump.records().map(Result::unwrap) {
        let bytes = dump.payload(&record).unwrap();
        assert!(bytes == content(record.task_id % 10, if record.arg_index == 0 { 70_000 } else { 300 }));
        assert_eq!(*places.entry(bytes).or_insert(record.bin_offset), record.bin_offset, "{record}");
    }
    let files: std::collections::BTreeSet<usize> =
        places.values().map(|position| split_position(*position).0).collect();
    assert_eq!((places.len(), files), (10, [0, 1, 2].into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Two lanes, any sizes, drains at any time: everything arrives in each lane's order.
    #[test]
    fn nothing_is_lost_however_late_the_host_drains(
        sizes in prop::collection::vec((0u32..2, 0usize..9000, any::<bool>()), 1..120),
        mapped in any::<bool>(),
        direct in any::<bool>(),
        buffers in 1u32..4,
        records in 1u32..6,
    ) {
        let mut rig = Rig::new(DumpGeometry { buffers, records, ..GEOMETRY }, mapped);
        rig.options.payload_path = if direct { PayloadPath::Direct } else { PayloadPath::Buffered };
        let mut collector = rig.collector();
        let mut devices = [rig.lane(0), rig.lane(1)];
        let mut expected = [Vec::new(), Vec::new()];
        for (task, (lane, bytes, look)) in (0u64..).zip(sizes) {
            let bytes = content(task, bytes);
            while !devices[lane as usize].tensor(task, 0, &bytes) {
                prop_assert!(collector.step().unwrap().records > 0, "a full region can be drained");
            }
            expected[lane as usize].push((task, bytes));
            if look {
                collector.step().unwrap();
            }
        }
        finish(collector);
        let dump = rig.verified();
        let mut found = [Vec::new(), Vec::new()];
        for record in dump.records() {
            let record = record.unwrap();
            found[record.thread as usize].push((record.task_id, dump.payload(&record).unwrap()));
        }
        prop_assert!(found == expected);
    }
}

#[test]
fn space_and_buffers_are_released_only_after_the_bytes_are_in_the_files() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    for task in 0..4 {
        assert!(device.tensor(task, 0, &content(task, 1000)));
    }
    let given = |field| rig.state(0, field);
    assert_eq!(given(offset_of!(DumpBufferState, consumed_cursor)), 0);
    collector.step().unwrap();
    assert_eq!(given(offset_of!(DumpBufferState, consumed_cursor)), device.cursor);
    assert_eq!(given(offset_of!(DumpBufferState, acknowledged)), 4);
    assert_eq!(given(offset_of!(DumpBufferState, ready_popped)), 1);
    assert_eq!(given(offset_of!(DumpBufferState, free_pushed)), u64::from(GEOMETRY.buffers) + 1);
    assert!(rig.memory.wakes() > 0);
    // A reader that opens the dump now, before it is closed, finds everything.
    let dump = rig.dump();
    assert_eq!(dump.len(), 4);
    for record in dump.records() {
        let record = record.unwrap();
        assert_eq!(dump.payload(&record).unwrap(), content(record.task_id, 1000));
    }
    drop(dump);
    finish(collector);
}

#[test]
fn equal_content_is_stored_once_unless_deduplication_is_off() {
    for dedup_entries in [1 << 10, 0] {
        let mut rig = Rig::new(GEOMETRY, true);
        rig.options.dedup_entries = dedup_entries;
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        for task in 0..30 {
            while !device.tensor(task, 0, &content(task % 3, 1000)) {
                collector.step().unwrap();
            }
        }
        let summary = finish(collector);
        let dump = rig.verified();
        for record in dump.records() {
            let record = record.unwrap();
            assert_eq!(dump.payload(&record).unwrap(), content(record.task_id % 3, 1000));
        }
        let stored_once = dedup_entries > 0;
        assert_eq!(summary.counters.bytes_written, if stored_once { 3000 } else { 30_000 });
        assert_eq!(summary.counters.deduplicated_bytes, if stored_once { 27_000 } else { 0 });
        assert_eq!(dump.totals().deduplicated_bytes, summary.counters.deduplicated_bytes);
        assert_eq!(summary.counters.bytes_captured, 30_000);
    }
}

#[test]
fn a_small_table_misses_duplicates_and_counts_them() {
    let mut rig = Rig::new(GEOMETRY, true);
    rig.options.dedup_entries = 2;
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    for task in 0..30 {
        while !device.tensor(task, 0, &content(task % 10, 100)) {
            collector.step().unwrap();
        }
    }
    let summary = finish(collector);
    rig.verified();
    assert_eq!(summary.counters.deduplicated_bytes, 0);
    assert!(
        summary.missed_duplicates > 0 && summary.missed_duplicates <= 20,
        "{}",
        summary.missed_duplicates
    );
}

#[test]
fn content_reported_as_stored_is_found_or_counts_as_dropped() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    let bytes = content(1, 300);
    assert!(device.tensor(0, 0, &bytes));
    for (task, known) in [(1, &bytes), (2, &content(2, 300))] {
        let record = TensorRecord {
            hash: content_hash(known),
            flags: RECORD_ALREADY_STORED | RECORD_HAS_HASH,
            ..tensor_of(task, 0, 300, device.address())
        };
        assert!(device.commit(record.as_bytes()));
    }
    finish(collector);
    let dump = rig.verified();
    assert_eq!(dump.payload(&dump.record(1).unwrap()).unwrap(), bytes);
    assert_eq!(dump.record(2).unwrap().payload, PayloadState::Dropped);
}

#[test]
fn records_without_payload_arrive_with_their_fields() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (collector, mut device) = (rig.collector(), rig.lane(0));
        let metadata = tensor_of(7, 1, 50, device.address());
        assert!(device.task(7));
        let scalar = ScalarRecord {
            task_id: 7,
            stage: 1,
            bits: 0x3f80_0000,
            dtype: DType::Float32.tag(),
            arg_index: 2,
            ..ScalarRecord::default()
        };
        assert!(device.commit(scalar.as_bytes()));
        assert!(device.commit(metadata.as_bytes()));
        let dropped = TensorRecord { flags: RECORD_PAYLOAD_DROPPED, arg_index: 3, ..metadata };
        assert!(device.commit(dropped.as_bytes()));
        let stats = TensorStats { min: -1.5, max: 9.0, numel: 50, nan: 3, ..TensorStats::default() };
        let position = device.reserve(64, 64).unwrap();
        rig.memory.write(device.arena(position), stats.as_bytes()).unwrap();
        let flags = RECORD_HAS_STATS | RECORD_HAS_HASH;
        let summed = TensorRecord { payload_pos: position, flags, hash: [7; 16], arg_index: 4, ..metadata };
        assert!(device.commit(summed.as_bytes()));
        let uncaptured = UncapturedRecord {
            task_id: 7,
            reason: UncapturedReason::Contradiction as u8,
            arg_index: 5,
            ..UncapturedRecord::default()
        };
        assert!(device.commit(uncaptured.as_bytes()));
        let edge = EdgeRecord::new(6, 7, EdgeCause::ReadAfterWrite, 0);
        assert!(device.commit(edge.as_bytes()));
        let summary = finish(collector);
        assert_eq!((summary.counters.entries, summary.counters.tensors, summary.counters.scalars), (7, 3, 1));
        assert_eq!((summary.counters.corrupt_records, summary.counters.bytes_written), (0, 0));

        let dump = rig.verified();
        let records: Vec<_> = dump.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 4);
        assert!(records.iter().all(|record| record.func_ids().eq([0])));
        assert_eq!(records[0].scalar_bits, Some(0x3f80_0000));
        assert_eq!((records[1].payload, records[1].hash), (PayloadState::None, None));
        assert_eq!(records[2].payload, PayloadState::Dropped);
        assert_eq!(records[3].stats, Some(stats));
        assert_eq!(records[3].hash, Some(u128::from_le_bytes([7; 16])));
        assert_eq!(dump.uncaptured().unwrap()[0].reason, UncapturedReason::Contradiction);
        assert_eq!(dump.edges().unwrap().len(), 1);
        assert!(!dump.payload_path().exists());
    }
}

#[test]
fn only_the_newest_tasks_are_kept_with_a_window() {
    let rig = Rig::new(GEOMETRY, true);
    let options = WriterOptions { keep_last_tasks: Some(10), ..WriterOptions::default() };
    let (mut collector, mut device) = (rig.collector_with(rig.writer(options)), rig.lane(0));
    let common = content(u64::MAX, 5000);
    for task in 0..200 {
        while !device.task(task) {
            collector.step().unwrap();
        }
        // One payload of its own, one that all tasks share, one that repeats after its first copy is gone.
        for (arg, bytes) in [(0, &content(task, 5000)), (1, &common), (2, &content(1000 + task % 50, 5000))] {
            while !device.tensor(task, arg, bytes) {
                collector.step().unwrap();
            }
        }
    }
    finish(collector);
    let dump = rig.verified();
    let tasks: Vec<_> = dump.records().map(|record| record.unwrap().task_id).collect();
    let expected: Vec<u64> = (190..200).flat_map(|task| [task; 3]).collect();
    assert_eq!(tasks, expected);
    for record in dump.records() {
        let record = record.unwrap();
        let expected = match record.arg_index {
            0 => content(record.task_id, 5000),
            1 => common.clone(),
            _ => content(1000 + record.task_id % 50, 5000),
        };
        assert!(dump.payload(&record).unwrap() == expected);
    }
}

#[test]
fn the_host_can_store_data_from_the_memory_of_a_dead_device() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    assert!(device.tensor(1, 0, &content(1, 100)));
    collector.step().unwrap();
    let task = TaskRecord {
        task_id: 2,
        func_id: [5, u32::MAX, u32::MAX],
        flags: tensortap_abi::RECORD_IN_FLIGHT,
        ..TaskRecord::default()
    };
    collector.record_task(&task).unwrap();
    let output = TensorRecord {
        stage: DumpStage::AfterCompletion as u8,
        role: Role::Output.tag(),
        flags: tensortap_abi::RECORD_IN_FLIGHT,
        ..tensor_of(2, 0, 100, device.address())
    };
    collector.record_tensor(&output, &content(2, 100)).unwrap();
    collector.record_tensor(&output, &content(1, 100)).unwrap();
    let summary = finish(collector);
    assert_eq!(
        (summary.counters.entries, summary.counters.tensors, summary.counters.bytes_captured),
        (4, 3, 300)
    );
    assert_eq!(summary.counters.bytes_written, 200);
    let dump = rig.verified();
    let found = dump.record(1).unwrap();
    assert!(found.in_flight && found.func_ids().eq([5]));
    assert_eq!(dump.payload(&found).unwrap(), content(2, 100));
    assert_eq!(dump.payload(&dump.record(2).unwrap()).unwrap(), content(1, 100));
}
