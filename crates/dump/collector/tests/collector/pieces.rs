//! Payloads that arrive in several records.

use std::{mem::offset_of, os::unix::fs::MetadataExt};

use tensortap_abi::{
    DumpBufferState, FilledRecord, RECORD_FILLED_LATER, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD,
    RECORD_TRUNCATED, TensorRecord,
};
use tensortap_format::PayloadState;
use zerocopy::IntoBytes;

use crate::{
    RegionMemory,
    device::{FakeLane, content_hash, tensor_of},
    rig::{GEOMETRY, Rig, content, finish},
    testing::TestMemory,
};

type Collector = tensortap_collector::Collector<TestMemory, tensortap_format::DumpWriter>;

/// Sends a payload in pieces of at most `piece` bytes. Drains the region whenever there is no space.
fn send(device: &mut FakeLane, collector: &mut Collector, task: u64, bytes: &[u8], piece: usize) {
    let mut look = |done: bool| {
        if !done {
            assert!(collector.step().unwrap().records > 0, "a full region can be drained");
        }
        done
    };
    while !look(device.begin(task, bytes.len() as u64)) {}
    for (start, part) in (0u64..).step_by(piece).zip(bytes.chunks(piece)) {
        while !look(device.piece(task, start, part)) {}
    }
    while !look(device.end(task, bytes, 0)) {}
}

#[test]
fn a_payload_larger_than_the_arena_arrives_whole() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        let large = content(1, 5 * GEOMETRY.arena_bytes as usize + 77);
        assert!(device.tensor(0, 0, &content(0, 10)));
        send(&mut device, &mut collector, 1, &large, 12_000);
        while !device.tensor(2, 0, &content(2, 10)) {
            collector.step().unwrap();
        }
        let summary = finish(collector);
        let dump = rig.verified();
        assert_eq!(dump.len(), 3);
        let record = dump.record(1).unwrap();
        assert_eq!((record.payload, record.task_id), (PayloadState::Stored, 1));
        assert!(dump.payload(&record).unwrap() == large);
        assert_eq!(
            (summary.counters.tensors, summary.counters.corrupt_records, summary.counters.dropped_records),
            (3, 0, 0)
        );
        assert_eq!(summary.lanes[0].acknowledged, device.seq);
        assert!(dump.gaps().is_empty());
    }
}

#[test]
fn pieces_release_space_at_once_and_are_acknowledged_at_their_end() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    let bytes = content(1, 40_000);
    assert!(device.tensor(0, 0, &content(0, 10)));
    assert!(device.begin(1, 40_000));
    assert!(device.piece(1, 0, &bytes[..16_000]));
    collector.step().unwrap();
    let acknowledged = offset_of!(DumpBufferState, acknowledged);
    assert_eq!(rig.state(0, offset_of!(DumpBufferState, consumed_cursor)), device.cursor);
    assert_eq!(rig.state(0, acknowledged), 1, "the open payload is not acknowledged");
    assert_eq!(rig.dump().len(), 1);
    assert!(device.piece(1, 16_000, &bytes[16_000..]));
    assert!(device.end(1, &bytes, 0));
    collector.step().unwrap();
    assert_eq!(rig.state(0, acknowledged), 5);
    finish(collector);
    assert!(rig.verified().payload(&rig.dump().record(1).unwrap()).unwrap() == bytes);
}

#[test]
fn a_payload_that_never_ends_is_not_in_the_dump() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    let bytes = content(1, 40_000);
    assert!(device.tensor(0, 0, &content(0, 10)));
    assert!(device.begin(1, 40_000));
    assert!(device.piece(1, 0, &bytes[..16_000]));
    collector.step().unwrap();
    // The device dies here.
    let summary = finish(collector);
    let dump = rig.verified();
    assert_eq!(dump.len(), 1);
    assert_eq!(summary.counters.dropped_records, 1);
    assert_eq!(summary.lanes[0].losses[0].reason, "unfinished");
    assert_eq!(dump.payload_path().metadata().unwrap().len(), 10, "unreferenced bytes are cut off");
}

#[test]
fn the_received_part_of_a_truncated_payload_is_stored() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    let bytes = content(1, 40_000);
    assert!(device.begin(1, 40_000));
    assert!(device.piece(1, 0, &bytes[..16_000]));
    assert!(device.end(1, &bytes, RECORD_TRUNCATED));
    let summary = finish(collector);
    let dump = rig.verified();
    let record = dump.record(0).unwrap();
    assert_eq!(
        (record.payload, record.hash),
        (PayloadState::Truncated, Some(u128::from_le_bytes(content_hash(&bytes)))),
        "the hash of the whole content"
    );
    assert!(dump.payload(&record).unwrap() == bytes[..16_000]);
    assert_eq!((summary.counters.truncated_tensors, summary.counters.bytes_captured), (1, 16_000));
}

#[test]
fn a_duplicate_in_pieces_is_stored_once_and_its_file_range_freed() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    let large = content(1, 1 << 20);
    send(&mut device, &mut collector, 1, &large, 16_000);
    send(&mut device, &mut collector, 2, &large, 15_000);
    while !device.tensor(3, 0, &content(3, 100)) {
        collector.step().unwrap();
    }
    let summary = finish(collector);
    let dump = rig.verified();
    let [first, second] = [0, 1].map(|index| dump.record(index).unwrap());
    assert_eq!(first.bin_offset, second.bin_offset);
    assert!(dump.payload(&second).unwrap() == large);
    assert_eq!(summary.counters.deduplicated_bytes, 1 << 20);
    assert!(dump.record(2).unwrap().bin_offset >= 2 << 20);
    let file = dump.payload_path().metadata().unwrap();
    assert!(file.blocks() * 512 < 3 << 19, "{} blocks", file.blocks());
}

#[test]
fn records_out_of_order_are_rejected_and_the_others_are_stored() {
    let bytes = content(1, 3000);
    type Script = fn(&mut FakeLane, &[u8]);
    let scripts: [(&str, u64, u64, Script); 6] = [
        ("a piece without a begin record", 1, 0, |device, bytes| {
            device.piece(1, 0, bytes);
        }),
        ("a commit without a begin record", 1, 0, |device, bytes| {
            device.end(1, bytes, 0);
        }),
        ("a gap between pieces", 2, 1, |device, bytes| {
            device.begin(1, 3000);
            device.piece(1, 1, &bytes[1..]);
            device.end(1, bytes, 0);
        }),
        ("more than was announced", 2, 1, |device, bytes| {
            device.begin(1, 2999);
            device.piece(1, 0, bytes);
            device.end(1, bytes, 0);
        }),
        ("a commit too early", 1, 1, |device, bytes| {
            device.begin(1, 3000);
            device.piece(1, 0, &bytes[..1000]);
            device.end(1, bytes, 0);
        }),
        ("begun twice", 3, 1, |device, bytes| {
            device.begin(1, 3000);
            device.begin(1, 3000);
            device.piece(1, 0, bytes);
            device.end(1, bytes, 0);
        }),
    ];
    for (what, corrupt, unfinished, script) in scripts {
        let rig = Rig::new(GEOMETRY, true);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        script(&mut device, &bytes);
        collector.step().unwrap();
        assert!(device.tensor(2, 0, &bytes), "{what}");
        let summary = finish(collector);
        let dump = rig.verified();
        assert_eq!(dump.len(), 1, "{what}");
        assert!(dump.payload(&dump.record(0).unwrap()).unwrap() == bytes, "{what}");
        assert_eq!(
            (summary.counters.corrupt_records, summary.counters.dropped_records),
            (corrupt, unfinished),
            "{what}"
        );
    }
}

#[test]
fn several_payloads_may_be_open_and_other_records_come_between() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        let (one, two) = (content(1, 3000), content(2, 5000));
        assert!(device.begin(1, 3000) && device.begin(2, 5000));
        assert!(device.piece(2, 0, &two[..2000]) && device.piece(1, 0, &one[..1000]));
        assert!(device.tensor(3, 0, &content(3, 100)));
        collector.step().unwrap();
        assert!(device.piece(1, 1000, &one[1000..]) && device.piece(2, 2000, &two[2000..]));
        assert!(device.end(2, &two, 0));
        collector.step().unwrap();
        let acknowledged = offset_of!(DumpBufferState, acknowledged);
        assert_eq!(device.read_state(acknowledged), 0, "the first record is not acknowledged yet");
        assert!(device.end(1, &one, 0));
        let summary = finish(collector);
        assert_eq!((summary.counters.corrupt_records, summary.counters.dropped_records), (0, 0));
        let dump = rig.verified();
        let payloads: Vec<(u64, Vec<u8>)> = dump
            .records()
            .map(|record| record.map(|r| (r.task_id, dump.payload(&r).unwrap())).unwrap())
            .collect();
        assert_eq!(payloads, [(3, content(3, 100)), (2, two), (1, one)]);
    }
}

/// A record whose payload comes later, and the payload.
fn later(device: &mut FakeLane, task: u64, bytes: u64) -> u64 {
    let seq = device.seq;
    let record = TensorRecord { flags: RECORD_FILLED_LATER, ..tensor_of(task, 0, bytes, device.address()) };
    assert!(device.commit(record.as_bytes()));
    seq
}

fn fill(device: &mut FakeLane, task_id: u64, record_seq: u64, content: &[u8]) {
    let bytes = content.len() as u64;
    let payload_pos = device.reserve(bytes, 64).unwrap();
    device.memory.write(device.arena(payload_pos), content).unwrap();
    let filled = FilledRecord {
        task_id,
        stage: 1,
        record_seq,
        hash: content_hash(content),
        payload_pos,
        payload_bytes: bytes,
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        ..FilledRecord::default()
    };
    assert!(device.commit(filled.as_bytes()));
}

#[test]
fn a_later_payload_joins_its_record_and_a_missing_one_counts_as_dropped() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut collector, mut device) = (rig.collector(), rig.lane(0));
    let (one, two) = (content(1, 300), content(2, 400));
    let [first, second, _] =
        [(1, 300), (2, 400), (3, 500)].map(|(task, bytes)| later(&mut device, task, bytes));
    collector.step().unwrap();
    fill(&mut device, 2, second, &two);
    fill(&mut device, 1, first, &one);
    let summary = finish(collector);
    assert_eq!((summary.counters.corrupt_records, summary.counters.dropped_records), (0, 1));
    assert_eq!(summary.lanes[0].losses[0].reason, "unfinished");
    let dump = rig.verified();
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(records.iter().map(|record| record.task_id).collect::<Vec<_>>(), [2, 1, 3]);
    assert_eq!(dump.payload(&records[0]).unwrap(), two);
    assert_eq!(dump.payload(&records[1]).unwrap(), one);
    assert_eq!((records[2].payload, records[2].hash), (PayloadState::Dropped, None));
}

#[test]
fn a_payload_for_a_record_that_waits_for_none_is_rejected() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    let seq = later(&mut device, 1, 300);
    fill(&mut device, 2, seq, &content(1, 300));
    let summary = finish(collector);
    assert_eq!((summary.counters.corrupt_records, summary.counters.dropped_records), (1, 1));
    assert_eq!(rig.verified().record(0).unwrap().payload, PayloadState::Dropped);
}
