//! Losses when the host is too slow, and that each one is counted.

use core::mem::offset_of;
use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_values::content_hash;

use crate::host::{DrainedRecord, FakeHost, in_arena, state_offset};
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

const NO_BUFFER: Outcome = Outcome::Dropped(DropReason::NoBuffer);
const NO_SPACE: Outcome = Outcome::Dropped(DropReason::NoSpace);
const NO_HOST: Outcome = Outcome::Dropped(DropReason::NoHost);
const LOSSES: u32 = RECORD_PAYLOAD_DROPPED | RECORD_TRUNCATED;

fn batch(rig: &Rig) -> SetupOptions {
    SetupOptions { collect: DumpCollect::Batch, ..rig.options(DumpLevel::Full, DumpPolicy::Block) }
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 3 } else { 400 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn under_drop_every_request_has_one_outcome_and_arrived_data_is_right(
        sizes in prop::collection::vec(prop_oneof![3 => 0..600u64, 1 => 0..20_000u64], 1..60),
        drains in prop::collection::vec(0..8usize, 1..10),
        buffers in 1..4u32,
        records in 1..6u32,
    ) {
        let rig = Rig::new(DumpGeometry { lanes: 1, buffers, records, arena_bytes: 8192 });
        let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
        let mut host = FakeHost::new(&rig, 0);
        let link = ScriptedLink::never();
        let mut recorder = region.recorder(0, &link).unwrap();
        let mut outcomes = Vec::new();
        let mut contents = Vec::new();
        for (&bytes, &drain) in sizes.iter().zip(drains.iter().cycle()) {
            let desc = rig.tensor(bytes);
            outcomes.push(recorder.tensor(&input(contents.len() as u64, &desc)));
            contents.push(rig.content(&desc));
            rig.forget_tensors();
            match drain {
                0 => host.drain(),
                1 => {
                    host.take(3);
                }
                2 => host.free_arena(),
                3 => host.return_buffers(),
                _ => {}
            }
        }
        host.drain();
        host.drain();

        let counters = recorder.counters();
        let whole = host.taken.iter().filter(|taken| taken.record.flags & LOSSES == 0).count() as u64;
        let dropped = counters.dropped_no_buffer + counters.dropped_no_space + counters.dropped_no_host;
        prop_assert_eq!(whole + dropped, sizes.len() as u64);
        let count = |outcome| outcomes.iter().filter(|&&got| got == outcome).count() as u64;
        prop_assert_eq!(count(Outcome::Recorded), whole);
        prop_assert_eq!(count(NO_BUFFER), counters.dropped_no_buffer);
        prop_assert_eq!(count(NO_SPACE), counters.dropped_no_space);
        let lost_bytes: u64 = sizes.iter().zip(&outcomes).filter(|(_, o)| **o != Outcome::Recorded).map(|(b, _)| b).sum();
        prop_assert_eq!(counters.dropped_bytes, lost_bytes);
        prop_assert_eq!(counters.payload_bytes + lost_bytes, sizes.iter().sum::<u64>());
        for taken in &host.taken {
            let (record, payload) = (taken.tensor(), &taken.payload);
            let content = &contents[usize::try_from(record.task_id).unwrap()];
            prop_assert_eq!(taken.content_bytes(), content.len() as u64);
            if record.flags & RECORD_PAYLOAD_DROPPED == 0 {
                prop_assert_eq!(payload.as_ref(), Some(content));
                prop_assert_eq!(record.hash, content_hash(content).to_le_bytes());
            } else {
                prop_assert_eq!(record.flags, RECORD_PAYLOAD_DROPPED);
            }
        }
        prop_assert_eq!(host.state(state_offset!(dropped_no_space)), counters.dropped_no_space);
        prop_assert_eq!(host.state(state_offset!(dropped_no_buffer)), counters.dropped_no_buffer);
        prop_assert_eq!(host.state(state_offset!(dropped_bytes)), counters.dropped_bytes);
        prop_assert_eq!(host.state(state_offset!(records)), host.kinds.len() as u64);
    }

    #[test]
    fn in_batch_mode_nothing_waits_and_payloads_not_yet_overwritten_are_whole(
        sizes in prop::collection::vec(prop_oneof![3 => 0..600u64, 1 => 0..9000u64], 1..60),
    ) {
        let rig = Rig::new(DumpGeometry { lanes: 1, buffers: 4, records: 8, arena_bytes: 8192 });
        let region = rig.open(&batch(&rig));
        let link = ScriptedLink::never();
        let mut recorder = region.recorder(0, &link).unwrap();
        let mut contents = Vec::new();
        let mut outcomes = Vec::new();
        for &bytes in &sizes {
            let desc = rig.tensor(bytes);
            outcomes.push(recorder.tensor(&input(contents.len() as u64, &desc)));
            contents.push(rig.content(&desc));
            rig.forget_tensors();
        }
        prop_assert_eq!(link.wakes.get(), 0);
        // The host reads once, after the run, so payloads are read at the end.
        let records = read_batch(&rig);
        let host = FakeHost::new(&rig, 0);
        let written = host.state(state_offset!(write_cursor));
        let mut intact = 0;
        for record in records.iter().filter(|record| record.flags & RECORD_HAS_PAYLOAD != 0) {
            let (position, bytes) = in_arena(record).unwrap();
            if position + 8192 < written {
                continue;
            }
            intact += 1;
            let content = &contents[usize::try_from(record.task_id).unwrap()];
            let start = record.get().map_or(0, |piece: &PieceRecord| piece.offset);
            let expected = &content[usize::try_from(start).unwrap()..][..usize::try_from(bytes).unwrap()];
            prop_assert_eq!(host.read_arena(position, bytes), expected);
        }
        prop_assert!(intact > 0 || written == 0);
        let counters = recorder.counters();
        prop_assert_eq!(counters.records, records.len() as u64);
        prop_assert_eq!(counters.dropped_no_space + counters.dropped_no_host, 0);
        let dropped = outcomes.iter().filter(|outcome| **outcome == NO_BUFFER).count() as u64;
        prop_assert_eq!(counters.dropped_no_buffer, dropped);
    }
}

/// All records of lane 0, from its buffers in the order in which they were taken from the free queue.
fn read_batch(rig: &Rig) -> Vec<DumpRecord> {
    use zerocopy::FromBytes;
    let mut records = Vec::new();
    let popped = FakeHost::new(rig, 0).state(state_offset!(free_popped));
    for buffer in 0..popped {
        let at = rig.geometry.buffers_offset() + buffer * rig.geometry.buffer_bytes();
        let header = DumpBufferHeader::read_from_bytes(&rig.read(at, 64)).unwrap();
        assert_eq!(header.first_seq, records.len() as u64);
        for place in 0..header.committed {
            records.push(DumpRecord::read_from_bytes(&rig.read(at + 64 + place * 192, 192)).unwrap());
        }
    }
    records
}

#[test]
fn under_drop_a_payload_without_space_keeps_its_metadata() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let outcomes =
        [2048, 2048, 2048, 2048, 1].map(|bytes| recorder.tensor(&input(bytes, &rig.tensor(bytes))));
    assert_eq!(
        outcomes,
        [Outcome::Recorded, Outcome::Recorded, Outcome::Recorded, Outcome::Recorded, NO_SPACE]
    );
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let DrainedRecord { record, payload, .. } = &host.taken[4];
    assert_eq!((record.flags, host.taken[4].content_bytes(), payload), (RECORD_PAYLOAD_DROPPED, 1, &None));
    assert_eq!(recorder.tensor(&input(0, &rig.tensor(1))), Outcome::Recorded, "room again");
}

#[test]
fn under_drop_a_payload_in_pieces_is_sent_whole_or_not_at_all() {
    // 6000 bytes need a begin record, three pieces (four around the arena's end) and a commit record.
    let rig = Rig::new(DumpGeometry { buffers: 1, records: 13, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let mut host = FakeHost::new(&rig, 0);
    let mut ask = |bytes| recorder.tensor(&input(0, &rig.tensor(bytes)));
    assert_eq!(ask(6000), Outcome::Recorded);
    assert_eq!(ask(6000), NO_SPACE, "2192 bytes are left");
    host.take(usize::MAX);
    host.free_arena();
    assert_eq!(ask(6000), Outcome::Recorded);
    assert_eq!(ask(2100), NO_BUFFER, "one slot is left, four are needed");
    host.take(usize::MAX);
    assert_eq!(host.taken.iter().map(|taken| taken.pieces).collect::<Vec<_>>(), [3, 0, 4, 0]);
    assert_eq!(ask(1), NO_BUFFER, "no slot is left for the metadata");
    host.take(usize::MAX);
    assert_eq!(host.taken.len(), 4);
    assert_eq!(recorder.counters().dropped_bytes, 6000 + 2100 + 1);
}

#[test]
fn when_the_files_are_full_everything_is_discarded_without_waiting() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    FakeHost::discard(&rig);
    let desc = rig.tensor(9000);
    let args = [7; 4];
    assert_eq!(recorder.tensor(&input(0, &desc)), NO_HOST);
    assert_eq!(recorder.tensor(&input(0, &rig.tensor(10))), NO_HOST);
    assert_eq!(recorder.task(&TaskRecord::default()), NO_HOST);
    let edge = EdgeCapture { consumer: 1, producer: 0, cause: EdgeCause::Explicit, arg_index: 0 };
    assert_eq!(recorder.edge(&edge), NO_HOST);
    let dispatch = DispatchCapture {
        task_id: 0,
        func_id: 0,
        core_id: 0,
        subtask_id: 0,
        subtask_count: 1,
        block: BlockContext { block_idx: 0, block_num: 1 },
        tensor_count: 0,
        scalar_count: 0,
        handed_ns: 0,
    };
    assert_eq!(recorder.dispatch(&dispatch, &args), NO_HOST);
    let counters = recorder.counters();
    assert_eq!((counters.dropped_no_host, counters.dropped_bytes, counters.records), (5, 9042, 0));
}

#[test]
fn at_level_hash_discarding_reads_no_tensor() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Hash, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    FakeHost::discard(&rig);
    assert_eq!(recorder.tensor(&input(0, &rig.tensor(100))), NO_HOST);
    assert_eq!((recorder.counters().payload_bytes, recorder.counters().dropped_no_host), (0, 1));
}

#[test]
fn at_level_hash_without_space_the_hash_is_kept() {
    let rig = Rig::new(DumpGeometry { records: 100, arena_bytes: 4096, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Hash, DumpPolicy::Drop));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let desc = rig.tensor(100);
    let outcomes: Vec<Outcome> = (0..65).map(|task| recorder.tensor(&input(task, &desc))).collect();
    assert!(outcomes[..64].iter().all(|outcome| *outcome == Outcome::Recorded));
    assert_eq!(outcomes[64], NO_SPACE);
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let DrainedRecord { record, payload, .. } = &host.taken[64];
    assert_eq!((record.flags, payload), (RECORD_HAS_HASH | RECORD_PAYLOAD_DROPPED, &None));
    assert_eq!(host.taken[64].tensor().hash, content_hash(&rig.content(&desc)).to_le_bytes());
    assert_eq!(recorder.counters().dropped_no_space, 1);
}

#[test]
fn files_that_fill_up_during_a_wait_end_it() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::new(|pauses| {
        if pauses == 3 {
            FakeHost::discard(&rig);
        }
    });
    let mut recorder = region.recorder(0, &link).unwrap();
    // Larger than the arena: the thread waits in the middle.
    assert_eq!(recorder.tensor(&input(0, &rig.tensor(20_000))), NO_HOST);
    assert_eq!(link.pauses.get(), 3);
    assert_eq!(*link.waiting.borrow(), [true, false]);
    let counters = recorder.counters();
    assert_eq!((counters.dropped_no_host, counters.payload_bytes + counters.dropped_bytes), (1, 20_000));
    let mut host = FakeHost::new(&rig, 0);
    host.take(usize::MAX);
    assert!(host.taken.is_empty(), "a payload without its commit is unreferenced");
}

#[test]
fn calls_wait_for_a_silent_host_up_to_the_limit_and_only_once() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::new(|_| {});
    let mut recorder = region.recorder(0, &link).unwrap();
    for task in 0..4 {
        assert_eq!(recorder.tensor(&input(task, &rig.tensor(2048))), Outcome::Recorded);
    }
    assert_eq!(recorder.tensor(&input(4, &rig.tensor(10))), NO_HOST);
    let waited_ms = link.now_ns.get() / 1_000_000;
    assert!((1000..1100).contains(&waited_ms), "waited {waited_ms} ms of the script's clock");
    let pauses = link.pauses.get();

    // The host stays gone even if its heartbeat returns. No call waits, and data that fits is still
    // recorded.
    FakeHost::beat(&rig);
    assert_eq!(recorder.tensor(&input(5, &rig.tensor(10))), NO_HOST);
    assert_eq!(recorder.task(&TaskRecord::default()), Outcome::Recorded);
    assert_eq!(link.pauses.get(), pauses);
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let flags: Vec<u32> =
        host.taken.iter().map(|taken| taken.record.flags & RECORD_PAYLOAD_DROPPED).collect();
    assert_eq!(flags, [0, 0, 0, 0, RECORD_PAYLOAD_DROPPED, RECORD_PAYLOAD_DROPPED, 0]);
    assert_eq!(recorder.counters().dropped_no_host, 2);
}

#[test]
fn calls_wait_for_a_slow_live_host_without_limit() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|pauses| match pauses {
        5000 => host.borrow_mut().drain(),
        _ => FakeHost::beat(&rig),
    });
    let mut recorder = region.recorder(0, &link).unwrap();
    for task in 0..5 {
        assert_eq!(recorder.tensor(&input(task, &rig.tensor(2048))), Outcome::Recorded);
    }
    assert_eq!(link.pauses.get(), 5000);
    assert_eq!(*link.waiting.borrow(), [true, false]);
}

#[test]
fn a_payload_truncated_by_the_hosts_death_is_flagged_and_keeps_the_full_hash() {
    let rig = Rig::new(DumpGeometry { records: 40, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::new(|_| {});
    let mut recorder = region.recorder(0, &link).unwrap();
    let desc = rig.tensor(20_000);
    assert_eq!(recorder.tensor(&input(0, &desc)), NO_HOST);
    let mut host = FakeHost::new(&rig, 0);
    host.take(usize::MAX);
    let content = rig.content(&desc);
    let DrainedRecord { record, payload, pieces } = &host.taken[0];
    assert_eq!((*pieces, payload.as_deref()), (4, Some(&content[..8192])));
    assert_eq!(record.flags, RECORD_HAS_HASH | RECORD_TRUNCATED);
    assert_eq!(host.taken[0].tensor().hash, content_hash(&content).to_le_bytes());
    let counters = recorder.counters();
    assert_eq!((counters.dropped_no_host, counters.dropped_bytes), (1, 20_000 - 8192));
}

#[test]
fn a_payload_without_a_slot_for_its_commit_is_lost_as_a_whole() {
    // A begin record and three pieces fill the only buffer.
    let rig = Rig::new(DumpGeometry { buffers: 1, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::new(|_| {})).unwrap();
    assert_eq!(recorder.tensor(&input(0, &rig.tensor(6000))), NO_HOST);
    let counters = recorder.counters();
    assert_eq!((counters.dropped_no_host, counters.dropped_bytes, counters.records), (1, 6000, 4));
    let mut host = FakeHost::new(&rig, 0);
    host.take(usize::MAX);
    assert!(host.taken.is_empty(), "a payload without its commit is unreferenced");
}

#[test]
fn in_batch_mode_a_full_pool_drops_new_records() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&batch(&rig));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let desc = rig.tensor(1000);
    let outcomes: Vec<Outcome> = (0..15).map(|task| recorder.tensor(&input(task, &desc))).collect();
    let recorded = outcomes.iter().filter(|outcome| **outcome == Outcome::Recorded).count();
    assert!(outcomes[recorded..].iter().all(|outcome| *outcome == NO_BUFFER));
    assert_eq!((recorded, recorder.counters().dropped_no_buffer), (12, 3));
}

#[test]
fn under_drop_a_definition_waits_where_another_record_is_dropped() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|_| {
        FakeHost::beat(&rig);
        host.borrow_mut().drain();
    });
    let mut recorder = region.recorder(0, &link).unwrap();
    let outcomes: Vec<Outcome> = (0..13).map(|_| recorder.task(&TaskRecord::default())).collect();
    assert_eq!((outcomes[11], outcomes[12]), (Outcome::Recorded, NO_BUFFER));
    assert_eq!(recorder.define_string(7, "layer 1"), Outcome::Recorded);
    assert!(link.pauses.get() > 0);
    let long = "x".repeat(3000);
    assert_eq!(recorder.define_string(8, &long), Outcome::Recorded, "cut to a quarter of the arena");
    assert_eq!(recorder.counters().dropped_no_buffer, 1);
    let mut host = host.borrow_mut();
    host.drain();
    let strings: Vec<StringRecord> =
        host.taken.iter().filter_map(|taken| taken.record.get().copied()).collect();
    assert_eq!(strings.iter().map(|s| (s.id, s.text_bytes)).collect::<Vec<_>>(), [(7, 7), (8, 2048)]);
    assert_eq!(&strings[0].text[..7], b"layer 1");
    assert_eq!(host.taken.last().unwrap().payload.as_deref(), Some(&long.as_bytes()[..2048]));
}

#[test]
fn a_definition_does_not_wait_when_the_host_is_gone() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let link = ScriptedLink::new(|_| {});
    let mut recorder = region.recorder(0, &link).unwrap();
    (0..12).for_each(|_| assert_eq!(recorder.task(&TaskRecord::default()), Outcome::Recorded));
    assert_eq!(recorder.define_scope(1, 2, 0), NO_HOST);
    assert_eq!(recorder.counters().dropped_no_host, 1);
}

#[test]
fn a_thread_waits_up_to_its_limit_and_counts_what_it_drops() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let beat = |pauses: u64| rig.word(offset_of!(DumpSetupHeader, heartbeat) as u64).publish(pauses);
    let link = ScriptedLink::new(beat);
    let mut recorder = region.recorder(0, &link).unwrap();
    recorder.set_max_wait(Some(core::time::Duration::from_millis(5)));
    let desc = rig.tensor(2000);
    for _ in 0..4 {
        assert_eq!(recorder.tensor(&input(1, &desc)), Outcome::Recorded);
    }
    for asks in 1..4 {
        let before = link.now_ns.get();
        assert_eq!(recorder.tensor(&input(1, &desc)), NO_SPACE);
        assert_eq!(link.now_ns.get() - before, 5_000_000, "every wait has the same limit");
        assert_eq!(recorder.counters().dropped_no_space, asks);
    }
    // A definition waits no longer either.
    let mut host = FakeHost::new(&rig, 0);
    while recorder.scalar(&scalar()) == Outcome::Recorded {}
    assert_eq!(recorder.define_string(1, "name"), NO_BUFFER);
    host.drain();
    assert_eq!(
        recorder.define_string(1, "name"),
        Outcome::Recorded,
        "a short limit does not stop later calls"
    );
}

fn scalar() -> ScalarCapture {
    ScalarCapture {
        task_id: 1,
        stage: DumpStage::BeforeDispatch,
        arg_index: 0,
        dtype: DType::UInt8,
        bits: 1,
        is_local: false,
        marked: false,
        name: 0,
    }
}

#[test]
fn settle_succeeds_once_the_host_has_acknowledged_everything() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let acknowledge =
        |upto: u64| rig.word(rig.geometry.states_offset() + state_offset!(acknowledged)).publish(upto);
    let link = ScriptedLink::new(acknowledge);
    let mut recorder = region.recorder(0, &link).unwrap();
    assert!(recorder.settle(), "nothing was recorded");
    for _ in 0..3 {
        recorder.scalar(&scalar());
    }
    assert!(recorder.settle());
    assert_eq!(link.pauses.get(), 3, "one record for each pause");
    recorder.scalar(&scalar());
    region.discard();
    assert!(!recorder.settle(), "a host that discards acknowledges nothing");
}
