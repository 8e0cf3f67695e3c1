//! Under `block` everything arrives, in order and with its content, however the host drains.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_abi::*;
use tensortap_recorder::{Outcome, ScalarCapture};
use tensortap_values::content_hash;

use crate::host::{DrainedRecord, FakeHost};
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

/// One step of the host.
#[derive(Clone, Copy, Debug)]
enum HostStep {
    Take(usize),
    FreeArena,
    ReturnBuffers,
    Drain,
}

fn play(host: &mut FakeHost<'_>, turn: HostStep) {
    match turn {
        HostStep::Take(limit) => {
            host.take(limit);
        }
        HostStep::FreeArena => host.free_arena(),
        HostStep::ReturnBuffers => host.return_buffers(),
        HostStep::Drain => host.drain(),
    }
}

fn turns() -> impl Strategy<Value = HostStep> {
    prop_oneof![
        (1..6usize).prop_map(HostStep::Take),
        Just(HostStep::FreeArena),
        Just(HostStep::ReturnBuffers),
        Just(HostStep::Drain)
    ]
}

/// One recording call of the device.
#[derive(Clone, Debug)]
enum RecordStep {
    Tensor { desc: TensorShape },
    Scalar(u64),
}

#[derive(Clone, Debug)]
struct TensorShape {
    dtype: DType,
    rows: u64,
    cols: u64,
    transposed: bool,
}

fn asks() -> impl Strategy<Value = RecordStep> {
    let tensor = |rows: core::ops::Range<u64>, cols: core::ops::Range<u64>| {
        (prop::sample::select(&DType::ALL[..]), rows, cols, any::<bool>()).prop_map(
            |(dtype, rows, cols, transposed)| RecordStep::Tensor {
                desc: TensorShape { dtype, rows, cols, transposed },
            },
        )
    };
    prop_oneof![
        3 => tensor(0..20, 0..20),
        1 => tensor(1..100, 1..100),
        1 => any::<u64>().prop_map(RecordStep::Scalar),
    ]
}

fn describe(rig: &Rig, shape: &TensorShape) -> TensorDesc {
    let &TensorShape { dtype, rows, cols, transposed } = shape;
    let bytes = dtype.packed_bytes(rows * cols).unwrap();
    let strides = if transposed { [1, rows.cast_signed()] } else { [cols.cast_signed(), 1] };
    rig.view(dtype, &[rows, cols], &strides, 0, bytes)
}

fn check_tensor(taken: &DrainedRecord, task_id: u64, desc: &TensorDesc, content: &[u8]) {
    let DrainedRecord { record: _, payload, pieces } = taken;
    let record = taken.tensor();
    assert_eq!(payload.as_deref(), Some(content));
    let begin_has_no_payload = if *pieces == 0 { RECORD_HAS_PAYLOAD } else { 0 };
    let expected = TensorRecord {
        task_id,
        payload_pos: record.payload_pos,
        hash: content_hash(content).to_le_bytes(),
        start_offset: desc.start_offset,
        address: desc.buffer_addr,
        stage: 1,
        role: 1,
        dtype: desc.dtype,
        ndims: desc.ndims,
        flags: RECORD_HAS_HASH | begin_has_no_payload,
        arg_index: 0,
        shape: desc.shape,
        strides: desc.strides,
        ..TensorRecord::default()
    };
    assert_eq!(record, expected);
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 3 } else { 400 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn everything_arrives_in_order_with_its_content(
        asks in prop::collection::vec(asks(), 1..40),
        script in prop::collection::vec(turns(), 1..60),
        eager in any::<bool>(),
        buffers in 1..4u32,
        records in 1..5u32,
        arena_pages in 1..6u64,
    ) {
        let geometry = DumpGeometry { lanes: 1, buffers, records, arena_bytes: arena_pages * 4096 };
        let rig = Rig::new(geometry);
        let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
        let host = RefCell::new(FakeHost::new(&rig, 0));
        let script = RefCell::new(script.into_iter().cycle());
        let turn = || play(&mut host.borrow_mut(), script.borrow_mut().next().unwrap());
        let link = ScriptedLink::new(|pauses| {
            // A script without a useful step would run forever.
            if pauses % 20 == 0 { host.borrow_mut().drain() } else { turn() }
            FakeHost::beat(&rig);
        });
        let mut recorder = region.recorder(0, &link).unwrap();
        let mut expected = Vec::new();
        for (task_id, ask) in (0..).zip(&asks) {
            if eager {
                turn();
            }
            match ask {
                RecordStep::Tensor { desc } => {
                    let desc = describe(&rig, desc);
                    prop_assert_eq!(recorder.tensor(&input(task_id, &desc)), Outcome::Recorded);
                    expected.push((task_id, Some((desc, rig.content(&desc))), 0));
                    rig.forget_tensors();
                }
                &RecordStep::Scalar(bits) => {
                    let (stage, dtype) = (DumpStage::BeforeDispatch, DType::UInt64);
                    let scalar = ScalarCapture { task_id, stage, arg_index: 3, dtype, bits, is_local: false, marked: false, name: 0 };
                    prop_assert_eq!(recorder.scalar(&scalar), Outcome::Recorded);
                    expected.push((task_id, None, bits));
                }
            }
        }
        recorder.flush();
        drop(link.waiting.take());
        let counters = recorder.counters();
        let mut host = host.borrow_mut();
        host.drain();
        prop_assert_eq!(host.state(crate::host::state_offset!(leases)), 2);
        prop_assert_eq!(host.taken.len(), expected.len());
        for (taken, (task_id, tensor, bits)) in host.taken.iter().zip(&expected) {
            match tensor {
                Some((desc, content)) => check_tensor(taken, *task_id, desc, content),
                None => {
                    let scalar: &ScalarRecord = taken.record.get().unwrap();
                    prop_assert_eq!((scalar.task_id, scalar.bits), (*task_id, *bits));
                }
            }
        }
        let bytes: usize = expected.iter().filter_map(|(_, tensor, _)| tensor.as_ref()).map(|(_, c)| c.len()).sum();
        prop_assert_eq!((counters.records, counters.payload_bytes), (host.kinds.len() as u64, bytes as u64));
        prop_assert_eq!(counters.dropped_no_buffer + counters.dropped_no_space + counters.dropped_no_host, 0);
    }
}

#[test]
fn a_payload_larger_than_the_arena_streams_through_it() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|_| host.borrow_mut().drain());
    let mut recorder = region.recorder(0, &link).unwrap();
    let desc = rig.tensor(100_000);
    assert_eq!(recorder.tensor(&input(1, &desc)), Outcome::Recorded);
    host.borrow_mut().drain();
    let host = host.borrow();
    check_tensor(&host.taken[0], 1, &desc, &rig.content(&desc));
    assert_eq!(host.taken[0].pieces, 100_000_u32.div_ceil(2048));
    assert!(link.pauses.get() > 10);
}

#[test]
fn a_payload_that_meets_the_end_of_the_arena_goes_in_pieces_on_both_sides_of_it() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut host = FakeHost::new(&rig, 0);
    let link = ScriptedLink::never();
    let mut recorder = region.recorder(0, &link).unwrap();
    for bytes in [2000, 2000, 2000, 1000] {
        recorder.tensor(&input(0, &rig.tensor(bytes)));
    }
    host.drain();
    let desc = rig.tensor(2000);
    recorder.tensor(&input(1, &desc));
    host.drain();
    let last = host.taken.last().unwrap();
    assert_eq!(last.pieces, 2);
    check_tensor(last, 1, &desc, &rig.content(&desc));
    assert_eq!(
        host.kinds[4..],
        [RecordKind::Begin, RecordKind::Piece, RecordKind::Piece, RecordKind::Commit]
    );
}

#[test]
fn a_large_payload_passes_through_an_arena_too_small_for_its_alignment() {
    let rig = Rig::new(DumpGeometry { arena_bytes: 4096, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let link = ScriptedLink::new(|_| host.borrow_mut().drain());
    let mut recorder = region.recorder(0, &link).unwrap();
    // From here the next page is almost a whole arena away.
    recorder.tensor(&input(0, &rig.tensor(1)));
    let desc = rig.tensor(70_000);
    assert_eq!(recorder.tensor(&input(1, &desc)), Outcome::Recorded);
    host.borrow_mut().drain();
    check_tensor(&host.borrow().taken[1], 1, &desc, &rig.content(&desc));
}

#[test]
fn large_payloads_are_page_aligned() {
    let rig = Rig::new(DumpGeometry { arena_bytes: 1 << 20, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut host = FakeHost::new(&rig, 0);
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    for bytes in [100, 65_536, 65_535, 70_000] {
        assert_eq!(recorder.tensor(&input(0, &rig.tensor(bytes))), Outcome::Recorded);
    }
    host.drain();
    let positions: Vec<u64> = host.taken.iter().map(|taken| taken.tensor().payload_pos).collect();
    assert_eq!(positions, [0, 4096, 69_632, 135_168]);
}

/// More than the recorder uses of an arena while the host keeps up.
const ROOMY: DumpGeometry = DumpGeometry { lanes: 1, buffers: 8, records: 64, arena_bytes: 4 << 20 };

#[test]
fn only_a_slow_host_makes_the_lane_use_the_whole_arena() {
    let rig = Rig::new(ROOMY);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let link = ScriptedLink::never();
    let mut recorder = region.recorder(0, &link).unwrap();
    let mut host = FakeHost::new(&rig, 0);
    let desc = rig.tensor(50_000);
    let content = rig.content(&desc);
    for task_id in 0..100 {
        assert_eq!(recorder.tensor(&input(task_id, &desc)), Outcome::Recorded);
        host.drain();
    }
    let offsets = host.taken.iter().map(|taken| taken.tensor().payload_pos % ROOMY.arena_bytes);
    let most = offsets.max().unwrap() + 50_000;
    assert!((900_000..1 << 20).contains(&most), "{most} bytes were touched");
    assert!(host.taken.iter().all(|taken| taken.payload.as_ref() == Some(&content)));
    assert!(
        link.wakes.get() < 10,
        "a host that takes everything at once need not be woken: {}",
        link.wakes.get()
    );

    // Now the host does not drain.
    let held = (100..).take_while(|&task_id| recorder.tensor(&input(task_id, &desc)) == Outcome::Recorded);
    let held = held.count() as u64;
    assert!((held + 1) * 50_048 > ROOMY.arena_bytes - 64_000, "{held} tensors fill the arena");
    host.drain();
    let all = host.taken.iter().filter(|taken| taken.payload.as_ref() == Some(&content)).count() as u64;
    assert_eq!(all, 100 + held);
}
