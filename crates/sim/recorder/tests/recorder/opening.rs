//! A device only opens regions that a host has set up.

use core::mem::offset_of;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_abi::*;
use tensortap_recorder::*;

use crate::host::FakeHost;
use crate::link::ScriptedLink;
use crate::rig::{RUN_ID, Rig, SMALL, input};

fn set_up() -> Rig {
    let rig = Rig::new(DumpGeometry { lanes: 2, ..SMALL });
    rig.write_setup(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    rig
}

/// The error of opening after one header field was overwritten.
fn refusal(offset: usize, bytes: &[u8]) -> RegionError {
    let rig = set_up();
    rig.write(offset as u64, bytes);
    rig.reopen(rig.addr(0)).expect_err("a damaged header is rejected")
}

macro_rules! refusal {
    ($($field:ident).+ = $value:expr) => {
        refusal(offset_of!(DumpSetupHeader, $($field).+), &$value.to_le_bytes())
    };
}

fn field(error: RegionError) -> &'static str {
    match error {
        RegionError::BadField { field, .. } => field,
        RegionError::BadPart { part, .. } => part,
        RegionError::NotFresh { field, .. } => field,
        other => panic!("{other}"),
    }
}

#[test]
fn a_valid_region_opens_and_reports_its_settings() {
    let rig = set_up();
    let region = rig.reopen(rig.addr(0)).unwrap();
    assert_eq!((region.lanes(), region.level(), region.run_id()), (2, DumpLevel::Full, RUN_ID));
}

#[test]
fn memory_without_setup_is_not_a_region() {
    let rig = Rig::new(SMALL);
    assert!(matches!(rig.reopen(rig.addr(0)), Err(RegionError::BadMagic { magic: 0xa5a5_a5a5 })));
}

#[test]
fn an_address_outside_memory_or_off_a_cache_line_is_rejected() {
    let rig = set_up();
    for addr in [0, rig.addr(8), rig.addr(0) - 64, rig.range().end() - 64, u64::MAX - 63] {
        assert_eq!(rig.reopen(addr).unwrap_err(), RegionError::NotInMemory { addr });
    }
}

#[test]
fn every_invalid_header_field_is_rejected_by_name() {
    assert_eq!(refusal!(magic = 1_u32), RegionError::BadMagic { magic: 1 });
    assert_eq!(refusal!(layout_version = 7_u32), RegionError::BadVersion { version: 7, known: 4 });
    assert_eq!(field(refusal!(level = 5_u32)), "level");
    assert_eq!(field(refusal!(policy = 2_u32)), "policy");
    assert_eq!(field(refusal!(collect = 2_u32)), "collect");
    assert_eq!(field(refusal!(lane_count = 0_u32)), "lane_count");
    assert_eq!(field(refusal!(lane_count = 1025_u32)), "lane_count");
    assert_eq!(field(refusal!(lane_count = 3_u32)), "states");
    assert_eq!(field(refusal!(records_per_buffer = 0_u32)), "records_per_buffer");
    assert_eq!(field(refusal!(records_per_buffer = 5_u32)), "buffers");
    assert_eq!(field(refusal!(records_per_buffer = u32::MAX)), "buffers");
    assert_eq!(field(refusal!(buffers_per_lane = 0_u32)), "buffers_per_lane");
    assert_eq!(field(refusal!(buffers_per_lane = u32::MAX)), "queues");
    assert_eq!(field(refusal!(arena_bytes = 0_u64)), "arena_bytes");
    assert_eq!(field(refusal!(arena_bytes = 4095_u64)), "arena_bytes");
    assert_eq!(field(refusal!(arena_bytes = (1_u64 << 63))), "arenas");
    assert_eq!(field(refusal!(filter.task_ranges = 17_u64)), "filter.task_ranges");
}

#[test]
fn parts_outside_memory_misaligned_or_overlapping_are_rejected() {
    let base = |rig: &Rig, offset: u64| rig.addr(offset).to_le_bytes();
    let moved = |at: usize, to: fn(&Rig) -> u64| {
        let rig = set_up();
        rig.write(at as u64, &base(&rig, to(&rig)));
        field(rig.reopen(rig.addr(0)).unwrap_err())
    };
    assert_eq!(moved(offset_of!(DumpSetupHeader, arenas.addr), |rig| rig.range().bytes), "arenas");
    assert_eq!(
        moved(offset_of!(DumpSetupHeader, arenas.addr), |rig| rig.geometry.buffers_offset()),
        "arenas"
    );
    assert_eq!(
        moved(offset_of!(DumpSetupHeader, buffers.addr), |rig| rig.geometry.queues_offset()),
        "buffers"
    );
    assert_eq!(
        moved(offset_of!(DumpSetupHeader, buffers.addr), |rig| rig.geometry.buffers_offset() - 32),
        "buffers"
    );
    assert_eq!(
        moved(offset_of!(DumpSetupHeader, queues.addr), |rig| rig.geometry.states_offset() + 64),
        "queues"
    );
    assert_eq!(moved(offset_of!(DumpSetupHeader, states.addr), |_| 0), "states");
    // There is room after the region, so only the alignment is wrong.
    assert_eq!(moved(offset_of!(DumpSetupHeader, arenas.addr), |rig| rig.geometry.bytes() + 32), "arenas");
    assert_eq!(moved(offset_of!(DumpSetupHeader, states.addr), |rig| rig.geometry.bytes() + 8), "states");
    assert_eq!(field(refusal!(states.addr = 64_u64)), "states");
    assert_eq!(field(refusal!(arenas.bytes = u64::MAX)), "arenas");
}

#[test]
fn a_used_region_is_rejected_until_it_is_set_up_again() {
    let rig = set_up();
    let options = rig.options(DumpLevel::Full, DumpPolicy::Block);
    let region = rig.reopen(rig.addr(0)).unwrap();
    let mut recorder = region.recorder(1, ScriptedLink::never()).unwrap();
    recorder.tensor(&input(0, &rig.tensor(10)));
    drop((recorder, region));
    let not_fresh = RegionError::NotFresh { lane: 1, field: "write_cursor", value: 10, fresh: 0 };
    assert_eq!(rig.reopen(rig.addr(0)).unwrap_err(), not_fresh);

    // The second run sees nothing of the first: same buffers, same arena, different content.
    let region = rig.open(&options);
    let mut recorder = region.recorder(1, ScriptedLink::never()).unwrap();
    let desc = rig.tensor(20);
    recorder.tensor(&input(7, &desc));
    let mut host = FakeHost::new(&rig, 1);
    host.drain();
    assert_eq!(host.taken.len(), 1);
    assert_eq!((host.taken[0].record.task_id, &host.taken[0].payload), (7, &Some(rig.content(&desc))));
    assert_eq!(recorder.counters().records, 1);
}

#[test]
fn every_word_of_a_state_that_a_run_starts_from_is_checked() {
    let words = [
        offset_of!(DumpBufferState, write_cursor),
        offset_of!(DumpBufferState, current_buffer),
        offset_of!(DumpBufferState, ready_pushed),
        offset_of!(DumpBufferState, free_popped),
        offset_of!(DumpBufferState, leases),
        offset_of!(DumpBufferState, consumed_cursor),
        offset_of!(DumpBufferState, ready_popped),
        offset_of!(DumpBufferState, free_pushed),
    ];
    for offset in words {
        let rig = set_up();
        rig.word(rig.geometry.states_offset() + 256 + offset as u64).add(1);
        let refused = rig.reopen(rig.addr(0)).unwrap_err();
        assert!(matches!(refused, RegionError::NotFresh { lane: 1, .. }), "{refused}");
    }
}

#[test]
fn a_lane_has_one_recorder_until_it_is_flushed() {
    let rig = set_up();
    let region = rig.reopen(rig.addr(0)).unwrap();
    let mut first = region.recorder(1, ScriptedLink::never()).unwrap();
    let second = |lane| region.recorder(lane, ScriptedLink::never()).map(drop);
    assert_eq!(second(1), Err(RegionError::LaneTaken { lane: 1 }));
    assert_eq!(second(2), Err(RegionError::NoSuchLane { lane: 2, lanes: 2 }));
    first.flush();
    assert_eq!(second(1), Ok(()));
    // Dropped without a flush: its thread may record more.
    assert_eq!(second(1), Err(RegionError::LaneTaken { lane: 1 }));
    assert!(region.lease(ScriptedLink::never()).is_ok());
    let full = region.lease(ScriptedLink::never()).map(drop);
    assert_eq!(full, Err(RegionError::NoLaneFree { lanes: 2 }));
}

#[test]
fn a_new_holder_of_a_lane_continues_after_the_last_one() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut host = FakeHost::new(&rig, 0);
    let mut contents = Vec::new();
    // Four records per buffer, three buffers. The holders stop in the middle of a buffer, at its end, and
    // after it.
    for (tenant, records) in [1, 3, 5, 2, 9, 4, 1].into_iter().enumerate() {
        let mut recorder = region.lease(ScriptedLink::never()).unwrap();
        assert_eq!(recorder.counters().records, host.kinds.len() as u64, "tenant {tenant}");
        for _ in 0..records {
            let desc = rig.tensor(700);
            assert_eq!(recorder.tensor(&input(contents.len() as u64, &desc)), Outcome::Recorded);
            contents.push(rig.content(&desc));
            host.drain();
        }
        recorder.flush();
    }
    host.drain();
    assert_eq!(host.taken.len(), contents.len());
    for (taken, (task, content)) in host.taken.iter().zip((0..).zip(&contents)) {
        assert_eq!((taken.record.task_id, taken.payload.as_ref()), (task, Some(content)));
    }
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 10 } else { 2000 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_region_of_garbage_is_rejected(garbage in prop::collection::vec(any::<u8>(), 2000)) {
        let rig = Rig::new(SMALL);
        rig.write(0, &garbage);
        prop_assert!(rig.reopen(rig.addr(0)).is_err());
        // Get past the first checks.
        rig.write(0, &[DUMP_MAGIC, DUMP_LAYOUT_VERSION].map(u32::to_le_bytes).concat());
        prop_assert!(rig.reopen(rig.addr(0)).is_err());
    }

    #[test]
    fn a_header_hit_by_a_stray_write_opens_harmlessly_or_not_at_all(
        at in 0..640u64,
        bytes in prop::collection::vec(any::<u8>(), 1..16),
    ) {
        let rig = set_up();
        rig.write(at, &bytes);
        if let Ok(region) = rig.reopen(rig.addr(0)) {
            // With the queues elsewhere, no buffer may be found. The wait for one ends because there is no
            // heartbeat.
            let mut recorder = region.recorder(0, ScriptedLink::new(|_| {})).unwrap();
            recorder.task(&TaskRecord::default());
            assert!(recorder.counters().records <= 1);
        }
    }
}
