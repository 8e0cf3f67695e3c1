//! Dispatches with their arguments on their way into the index, and how damaged ones are handled.

use tensortap_abi::{
    ARG_SLOTS, BlockContext, DType, DispatchRecord, DispatchWords, DumpGeometry, RECORD_HAS_HASH,
    RECORD_HAS_PAYLOAD, RECORD_PAYLOAD_DROPPED, SubtaskContext, TensorDesc,
};
use tensortap_format::{DispatchArg, PayloadState};
use zerocopy::IntoBytes;

use crate::{
    RegionMemory,
    device::{FakeLane, content_hash},
    rig::{GEOMETRY, Rig, finish},
};

/// The words of a kernel with one tensor and one scalar.
fn words(task: u64) -> DispatchWords {
    let mut args = [0; ARG_SLOTS];
    (args[0], args[1]) = (0x1000 + task, u64::MAX - task);
    let (block, subtask) = (BlockContext { block_idx: 0, block_num: 1 }, SubtaskContext::default());
    let mut words = DispatchWords::new(&args, 1, 1, block, subtask);
    words.scalar_dtype(0, DType::UInt64.tag());
    words.tensor(&TensorDesc { buffer_addr: 0x2000 + task, ..TensorDesc::default() });
    words
}

fn record(task_id: u64, words: &[u64]) -> DispatchRecord {
    DispatchRecord {
        task_id,
        words_bytes: u32::try_from(words.len() * 8).unwrap(),
        hash: content_hash(words.as_bytes()),
        stage: 1,
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        func_id: 3,
        core_id: 4,
        subtask_id: 1,
        subtask_count: 1,
        block_idx: 0,
        block_num: 1,
        tensor_count: 1,
        scalar_count: 1,
        ..DispatchRecord::default()
    }
}

/// Puts a dispatch into the arena.
fn put(device: &mut FakeLane, record: DispatchRecord, words: &[u64]) -> bool {
    let (arena, bytes) = (device.geometry.arena_bytes, words.len() as u64 * 8);
    let mut position = device.cursor.next_multiple_of(64);
    if position % arena + bytes > arena {
        position = position.next_multiple_of(arena);
    }
    device.move_cursor(position + bytes);
    device.memory.write(device.arena(position), words.as_bytes()).unwrap();
    device.commit(DispatchRecord { words_pos: position, ..record }.as_bytes())
}

#[test]
fn dispatches_reach_the_index_with_their_arguments_and_no_payload_file() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        for task in 0..300 {
            assert!(put(&mut device, record(task, words(task).words()), words(task).words()));
            collector.step().unwrap();
        }
        let summary = finish(collector);
        assert_eq!(
            (summary.counters.dispatches, summary.counters.entries, summary.counters.corrupt_records),
            (300, 300, 0)
        );
        let dispatches = rig.verified().dispatches().unwrap();
        assert_eq!(dispatches.len(), 300);
        for (task, dispatch) in (0_u64..).zip(&dispatches) {
            assert_eq!((dispatch.task_id, dispatch.payload), (task, PayloadState::Stored));
            let [DispatchArg::Tensor { desc_addr, desc, .. }, DispatchArg::Scalar { bits, dtype, .. }] =
                dispatch.args[..]
            else {
                panic!("{dispatch:?}")
            };
            assert_eq!((desc_addr, desc.buffer_addr), (0x1000 + task, 0x2000 + task));
            assert_eq!((bits, dtype), (u64::MAX - task, Some(DType::UInt64)));
        }
        assert!(!rig.dump_dir().join("tensor_dump.bin").exists());
    }
}

#[test]
fn damaged_arguments_are_counted_and_skipped() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    let good = words(1);
    let good = good.words();
    let mut scribbled = good.to_vec();
    scribbled[0] ^= 1;
    // One is overwritten after it was hashed, one has a valid hash but the wrong number of words, one is
    // intact.
    assert!(put(&mut device, record(1, good), &scribbled));
    assert!(put(&mut device, record(2, &good[1..]), &good[1..]));
    assert!(put(&mut device, record(3, good), good));
    collector.step().unwrap();
    let summary = finish(collector);
    assert_eq!((summary.counters.dispatches, summary.counters.corrupt_records), (1, 2));
    let dispatches = rig.verified().dispatches().unwrap();
    assert_eq!(dispatches.iter().map(|d| d.task_id).collect::<Vec<_>>(), [3]);
    assert!(rig.heard()[0].contains("Dispatch"), "{:?}", rig.heard());
}

#[test]
fn lost_arguments_are_counted_and_the_dispatch_is_kept() {
    let rig = Rig::batch(DumpGeometry { lanes: 1, buffers: 8, records: 8, arena_bytes: 4096 });
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    let bytes = words(0).words().len() as u64 * 8;
    let fit = 4096 / bytes.next_multiple_of(64);
    for task in 0..fit + 10 {
        assert!(put(&mut device, record(task, words(task).words()), words(task).words()));
    }
    let dropped = DispatchRecord { flags: RECORD_PAYLOAD_DROPPED, ..record(99, words(99).words()) };
    assert!(device.commit(dropped.as_bytes()));
    let summary = finish(collector);
    let dump = rig.verified();
    let dispatches = dump.dispatches().unwrap();
    let of = |state| dispatches.iter().filter(|d| d.payload == state).count() as u64;
    assert_eq!((of(PayloadState::Overwritten), of(PayloadState::Dropped)), (10, 1));
    assert_eq!((summary.counters.dropped_overwrite, dump.totals().dropped_overwrite), (10, 10));
    assert_eq!((summary.counters.dispatches, dump.totals().dispatch_args), (fit + 11, 2 * fit));
    assert!(dispatches.iter().all(|d| d.args.is_empty() == (d.payload != PayloadState::Stored)));
}
