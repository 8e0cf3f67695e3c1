//! Reserve, fill and commit as separate steps.

use std::vec;
use std::vec::Vec;

use tensortap_abi::{DeviceRange, DumpBufferState, DumpGeometry, DumpPolicy};
use tensortap_abi::{DumpCollect, DumpFilter, DumpLevel};

use super::*;
use crate::region::{Memory, PartTable, StateWords};
use crate::{SetupOptions, setup_bytes};

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 1, buffers: 2, records: 3, arena_bytes: 4096 };

#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine([u8; 64]);

/// Memory with a fresh region that has one lane.
struct Rig {
    lines: Vec<CacheLine>,
}

impl Rig {
    fn new() -> Rig {
        Rig::of(GEOMETRY)
    }

    fn of(geometry: DumpGeometry) -> Rig {
        Rig { lines: vec![CacheLine([0; 64]); usize::try_from(geometry.bytes()).unwrap() / 64] }
    }

    fn lane(&mut self) -> (Lane<'_>, StateWords<'_>) {
        self.limited(GEOMETRY, 0)
    }

    /// A lane whose host allows only `limit` bytes of its arena.
    fn limited(&mut self, geometry: DumpGeometry, limit: u64) -> (Lane<'_>, StateWords<'_>) {
        let base = self.lines.as_mut_ptr().expose_provenance() as u64;
        let options = SetupOptions {
            base,
            run_id: 1,
            level: DumpLevel::Full,
            policy: DumpPolicy::Block,
            collect: DumpCollect::Live,
            liveness_ms: 0,
            filter: DumpFilter::ALL,
            of_process: false,
        };
        let mut setup = setup_bytes(geometry, &options).unwrap();
        setup.state.arena_limit = limit;
        setup.write(|offset, bytes| {
            for (at, &byte) in (usize::try_from(offset).unwrap()..).zip(bytes) {
                self.lines[at / 64].0[at % 64] = byte;
            }
        });
        // Exposed again, because the writes above used a reference.
        let base = self.lines.as_mut_ptr().expose_provenance() as u64;
        #[expect(unsafe_code, reason = "the memory is at hand")]
        // SAFETY: the lines are borrowed for as long as the lane is, and nothing else uses them.
        let memory = unsafe { Memory::new(DeviceRange { addr: base, bytes: geometry.bytes() }) };
        let table = PartTable {
            states: base + geometry.states_offset(),
            queues: base + geometry.queues_offset(),
            queue_stride: geometry.queue_bytes(),
            buffers: base + geometry.buffers_offset(),
            buffers_stride: u64::from(geometry.buffers) * geometry.buffer_bytes(),
            buffer_count: geometry.buffers,
            records: geometry.records,
            arenas: base + geometry.arenas_offset(),
            arena_bytes: geometry.arena_bytes,
        };
        let parts = Parts::lease(&memory, &table, 0).unwrap();
        let state = parts.state;
        (Lane::new(parts, 1, 0, false), state)
    }

    /// Task id of a record in the first buffer.
    fn record_task(&self, place: usize) -> u64 {
        let at = usize::try_from(GEOMETRY.buffers_offset()).unwrap() + 64 + place * 192;
        u64::from_le_bytes(self.lines[at / 64].0[8..16].try_into().unwrap())
    }

    fn committed(&self) -> u64 {
        let at = usize::try_from(GEOMETRY.buffers_offset()).unwrap();
        u64::from_le_bytes(self.lines[at / 64].0[24..32].try_into().unwrap())
    }
}

fn record(task_id: u64) -> DumpRecord {
    DumpRecord { task_id, ..DumpRecord::default() }
}

const NEED: Option<SpaceRequest> = Some(SpaceRequest::whole(100, 64));

#[test]
fn several_fills_can_be_open_and_records_appear_in_the_order_of_reservation() {
    let mut rig = Rig::new();
    let (mut lane, state) = rig.lane();
    let [first, second, third] = [NEED, None, NEED].map(|need| lane.reserve(need).unwrap());
    assert_eq!([first.position(), third.position()], [0, 128]);
    assert_eq!(lane.reserve(None), Err(ReserveRefusal::CommitFirst));
    // Filled in a different order than reserved.
    for (reservation, value) in [(&third, 3), (&first, 1)] {
        lane.payload(reservation).fill(MaybeUninit::new(value));
    }
    assert_eq!(state.ready_pushed().get(), 0);
    lane.commit(first, &record(11));
    lane.commit(second, &record(12));
    assert_eq!((state.ready_pushed().get(), state.current_buffer().get()), (0, 1));
    lane.commit(third, &record(13));
    assert_eq!((state.ready_pushed().get(), state.current_buffer().get()), (1, 0));
    assert!(lane.reserve(None).is_ok(), "the second buffer");
    assert_eq!(([0, 1, 2].map(|place| rig.record_task(place)), rig.committed()), ([11, 12, 13], 3));
}

#[test]
#[should_panic(expected = "in the order of reservation")]
fn committing_out_of_order_panics() {
    let mut rig = Rig::new();
    let (mut lane, _) = rig.lane();
    let _first = lane.reserve(None).unwrap();
    let second = lane.reserve(None).unwrap();
    lane.commit(second, &record(2));
}

#[test]
fn a_failed_reservation_takes_nothing() {
    let mut rig = Rig::new();
    let (mut lane, state) = rig.lane();
    let all = Some(SpaceRequest::whole(4096, 64));
    let whole = lane.reserve(all).unwrap();
    assert_eq!(lane.reserve(NEED), Err(ReserveRefusal::NoSpace));
    lane.commit(whole, &record(0));
    assert_eq!(lane.reserve(NEED), Err(ReserveRefusal::NoSpace));
    assert_eq!(lane.free_places(), 5);
    for task in 0..5 {
        let reservation = lane.reserve(None).unwrap();
        lane.commit(reservation, &record(task));
    }
    assert_eq!(
        (lane.reserve(NEED), lane.reserve(None)),
        (Err(ReserveRefusal::NoPlace), Err(ReserveRefusal::NoPlace))
    );
    assert_eq!((lane.free_places(), state.write_cursor().get()), (0, 4096));
}

#[test]
fn the_predicted_number_of_pieces_is_the_actual_one() {
    let mut rig = Rig::new();
    let (mut lane, state) = rig.lane();
    for written in [0_u64, 64, 1000, 1024, 4000, 4095] {
        for bytes in [1_u64, 1023, 1024, 1025, 4096, 5000, 20_000] {
            let start = written.next_multiple_of(64);
            let (mut at, mut left, mut pieces) = (start, bytes, 0);
            while left > 0 {
                let piece = left.min(1024).min(4096 - at % 4096);
                (at, left, pieces) = (at + piece, left - piece, pieces + 1);
            }
            assert_eq!(lane.pieces_of(bytes, start), pieces, "{bytes} bytes from {start}");
        }
    }
    // The lane itself must agree, from its current position.
    let need = lane.next_piece(5000, 64);
    assert_eq!(need.bytes, 1024);
    let reservation = lane.reserve(Some(SpaceRequest::whole(3500, 64))).unwrap();
    lane.commit(reservation, &record(0));
    assert_eq!(lane.next_piece(5000, 64).bytes, 4096 - 3520);
    assert_eq!(state.write_cursor().get(), 3500);
}

#[test]
fn a_payload_is_routed_by_its_size_and_the_arenas_end() {
    let mut rig = Rig::new();
    let (mut lane, _) = rig.lane();
    assert_eq!(
        [lane.route(0), lane.route(1024), lane.route(1025)],
        [Route::Whole, Route::Whole, Route::Pieces]
    );
    let reservation = lane.reserve(Some(SpaceRequest::whole(3500, 64))).unwrap();
    lane.commit(reservation, &record(0));
    assert_eq!([lane.route(576), lane.route(577)], [Route::Whole, Route::Pieces]);
}

#[test]
fn state_words_are_at_their_layout_offsets() {
    assert_eq!(size_of::<DumpBufferState>(), 256);
    let mut rig = Rig::new();
    let (_, state) = rig.lane();
    state.filtered_bytes().set(0x1234);
    state.consumed_cursor().set(0x56);
    let states = usize::try_from(GEOMETRY.states_offset()).unwrap() / 64;
    assert_eq!(rig.lines[states + 3].0[8..10], [0x34, 0x12]);
    assert_eq!(rig.lines[states + 1].0[0], 0x56);
}

#[test]
fn a_lane_without_space_asks_for_more_of_its_arena_and_uses_what_it_gets() {
    let geometry = DumpGeometry { lanes: 1, buffers: 2, records: 64, arena_bytes: 1 << 20 };
    let mut rig = Rig::of(geometry);
    let (mut lane, state) = rig.limited(geometry, 128 << 10);
    let whole = lane.largest_whole();
    assert_eq!((whole, lane.arena_range().bytes), (32 << 10, 128 << 10));
    let need = Some(SpaceRequest::whole(whole, 4096));
    let fill = |lane: &mut Lane<'_>| std::iter::from_fn(|| lane.reserve(need).ok()).count();
    assert_eq!((fill(&mut lane), state.arena_wanted().get()), (4, 128 << 10));
    assert_eq!(lane.check(need), Err(ReserveRefusal::NoSpace));
    // The host allows more.
    state.arena_limit().set(256 << 10);
    assert_eq!(lane.check(need), Ok(()));
    assert_eq!((fill(&mut lane), state.arena_wanted().get()), (4, 256 << 10));
    assert_eq!((lane.arena_range().bytes, lane.largest_whole()), (256 << 10, 64 << 10));
    // A stray write: too little, not a multiple of a page, or more than there is.
    for (word, used) in [(8, 256 << 10), ((300 << 10) + 1, 300 << 10), (u64::MAX, 1 << 20), (0, 1 << 20)] {
        state.arena_limit().set(word);
        let _ = lane.check(Some(SpaceRequest::whole(1 << 20, 4096)));
        assert_eq!(lane.arena_range().bytes, used, "{word}");
    }
}

#[test]
fn a_damaged_limit_leaves_a_new_holder_some_space() {
    let geometry = DumpGeometry { lanes: 1, buffers: 2, records: 64, arena_bytes: 1 << 20 };
    for (word, used) in [(1, 64 << 10), (4095, 64 << 10), (0, 1 << 20), (u64::MAX, 1 << 20)] {
        let mut rig = Rig::of(geometry);
        assert_eq!(rig.limited(geometry, word).0.arena_range().bytes, used, "{word}");
    }
}
