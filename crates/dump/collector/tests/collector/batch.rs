//! A region that is read once, after the run.

use std::mem::offset_of;

use proptest::prelude::*;
use tensortap_abi::{DumpBufferState, DumpGeometry, RECORD_HAS_HASH, RECORD_HAS_PAYLOAD, TensorRecord};
use tensortap_format::PayloadState;
use zerocopy::IntoBytes;

use crate::{
    RegionMemory,
    device::{FakeLane, content_hash, tensor_of},
    rig::{Rig, content, finish},
};

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 1, buffers: 8, records: 8, arena_bytes: 8192 };

/// Records without ever waiting for space.
fn overwrite(device: &mut FakeLane, task: u64, bytes: &[u8]) -> bool {
    let arena = device.geometry.arena_bytes;
    let mut position = device.cursor.next_multiple_of(64);
    if position % arena + bytes.len() as u64 > arena {
        position = position.next_multiple_of(arena);
    }
    let record = TensorRecord {
        payload_pos: position,
        hash: content_hash(bytes),
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        ..tensor_of(task, 0, bytes.len() as u64, device.address())
    };
    device.move_cursor(position + bytes.len() as u64);
    device.memory.write(device.arena(position), bytes).unwrap();
    device.commit(record.as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn exactly_the_payloads_still_in_the_arena_are_stored(
        sizes in prop::collection::vec(0usize..3000, 1..70),
    ) {
        let rig = Rig::batch(GEOMETRY);
        let (mut collector, mut device) = (rig.collector(), rig.lane(0));
        let mut starts = Vec::new();
        for (task, &bytes) in (0u64..).zip(&sizes) {
            let before = device.cursor;
            if !overwrite(&mut device, task, &content(task, bytes)) {
                device.cursor = before;
                break;
            }
            starts.push(device.cursor - bytes as u64);
            prop_assert_eq!(collector.step().unwrap().records, 0, "nothing is taken while the device runs");
        }
        let end = rig.state(0, offset_of!(DumpBufferState, write_cursor));
        let summary = finish(collector);
        let dump = rig.verified();
        prop_assert_eq!(dump.len(), starts.len() as u64);
        let mut overwritten = 0;
        for (record, &start) in dump.records().zip(&starts) {
            let record = record.unwrap();
            let bytes = content(record.task_id, sizes[record.task_id as usize]);
            let gone = !bytes.is_empty() && start + GEOMETRY.arena_bytes < end;
            overwritten += u64::from(gone);
            if gone {
                prop_assert_eq!(record.payload, PayloadState::Overwritten);
                prop_assert_eq!(record.hash, Some(u128::from_le_bytes(content_hash(&bytes))), "metadata stays");
            } else {
                prop_assert_eq!(dump.payload(&record).unwrap(), bytes);
            }
        }
        prop_assert_eq!(summary.counters.dropped_overwrite, overwritten);
        prop_assert_eq!(dump.totals().dropped_overwrite, overwritten);
    }
}

#[test]
fn a_payload_is_overwritten_by_the_first_byte_that_reuses_its_space() {
    for (last, expected) in [(64, PayloadState::Stored), (65, PayloadState::Overwritten)] {
        let rig = Rig::batch(GEOMETRY);
        let (collector, mut device) = (rig.collector(), rig.lane(0));
        // The third payload reaches the arena's end, so the last one starts where the first was.
        for (task, bytes) in [(0, 64), (1, 64), (2, 8192 - 128), (3, last)] {
            assert!(overwrite(&mut device, task, &content(task, bytes)));
        }
        finish(collector);
        let dump = rig.verified();
        assert_eq!(dump.record(0).unwrap().payload, PayloadState::Overwritten);
        assert_eq!(dump.record(1).unwrap().payload, expected);
    }
}

#[test]
fn a_payload_in_pieces_is_overwritten_when_any_piece_is() {
    for (later, expected) in [(2000, PayloadState::Stored), (6000, PayloadState::Overwritten)] {
        let rig = Rig::batch(GEOMETRY);
        let (collector, mut device) = (rig.collector(), rig.lane(0));
        let bytes = content(1, 4000);
        assert!(device.begin(1, 4000));
        assert!(device.piece(1, 0, &bytes[..2000]));
        assert!(device.piece(1, 2000, &bytes[2000..]));
        assert!(device.end(1, &bytes, 0));
        assert!(overwrite(&mut device, 2, &content(2, later)));
        let summary = finish(collector);
        let dump = rig.verified();
        assert_eq!(dump.record(0).unwrap().payload, expected);
        assert_eq!(dump.record(1).unwrap().payload, PayloadState::Stored);
        assert_eq!(summary.counters.dropped_overwrite, u64::from(later == 6000));
    }
}
