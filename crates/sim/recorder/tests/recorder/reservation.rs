//! Content that comes later: reserve, fill, commit.

use std::cell::RefCell;

use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_values::content_hash;

use crate::host::FakeHost;
use crate::link::ScriptedLink;
use crate::rig::{Rig, input};

/// Arenas of two pages: at most a quarter, 2048 bytes, can be reserved at a time.
const TWO: DumpGeometry = DumpGeometry { lanes: 2, buffers: 3, records: 4, arena_bytes: 8192 };
const MOST: u64 = 2048;

fn described(bytes: u64) -> TensorDesc {
    let mut desc = TensorDesc {
        buffer_addr: 0x7000,
        buffer_bytes: bytes,
        dtype: DType::UInt8.tag(),
        ndims: 1,
        ..TensorDesc::default()
    };
    (desc.shape[0], desc.strides[0]) = (bytes, 1);
    desc
}

fn fill<H: HostLink>(lane: &mut LaneRecorder<'_, H>, reserved: &PayloadReservation, content: &[u8]) {
    lane.space(reserved).write_copy_of_slice(content);
}

fn content(seed: u8, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7).to_le_bytes()[0].wrapping_add(seed)).collect()
}

#[test]
fn later_content_arrives_with_a_computed_or_passed_hash() {
    let rig = Rig::new(TWO);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::never();
    let (mut beside, mut later) = (region.recorder(0, &link).unwrap(), region.recorder(1, &link).unwrap());
    let desc = described(1000);
    let first = later.reserve_tensor(&input(1, &desc), &mut beside).unwrap();
    let second = later.reserve_tensor(&input(2, &desc), &mut beside).unwrap();
    assert_eq!((first.bytes(), later.space(&first).len()), (1000, 1000));
    // Filled in any order; nothing is visible before its commit.
    fill(&mut later, &second, &content(2, 1000));
    fill(&mut later, &first, &content(1, 1000));
    let mut host = FakeHost::new(&rig, 1);
    assert_eq!(host.take(usize::MAX), 0);
    assert_eq!(later.commit_reserved(first, None), Outcome::Recorded);
    assert_eq!(later.commit_reserved(second, Some(0x1234)), Outcome::Recorded);
    host.drain();
    let taken: Vec<_> =
        host.taken.iter().map(|taken| (taken.payload.clone().unwrap(), taken.tensor())).collect();
    assert_eq!(taken[0].0, content(1, 1000));
    assert_eq!(taken[0].1.hash, content_hash(&content(1, 1000)).to_le_bytes());
    assert_eq!((&taken[1].0, taken[1].1.hash), (&content(2, 1000), 0x1234_u128.to_le_bytes()));
    assert_eq!((later.counters().payload_bytes, beside.counters().records), (2000, 0));
}

#[test]
fn a_reservation_that_needs_the_callers_own_commit_fails_at_once() {
    let rig = Rig::new(TWO);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let link = ScriptedLink::never();
    let (mut beside, mut later) = (region.recorder(0, &link).unwrap(), region.recorder(1, &link).unwrap());
    let desc = described(MOST);
    // Four reservations of a quarter each fill the arena.
    let mut held: Vec<_> =
        (0..4).map(|task| later.reserve_tensor(&input(task, &desc), &mut beside).unwrap()).collect();
    let mut refused = || later.reserve_tensor(&input(9, &desc), &mut beside).unwrap_err();
    assert_eq!([refused(), refused()], [ReserveError::CommitFirst; 2]);
    // The same for record slots: a buffer has four.
    let nothing = described(0);
    assert_eq!(
        later.reserve_tensor(&input(9, &nothing), &mut beside).unwrap_err(),
        ReserveError::CommitFirst
    );
    for reserved in held.drain(..) {
        fill(&mut later, &reserved, &content(3, MOST));
        assert_eq!(later.commit_reserved(reserved, None), Outcome::Recorded);
    }
    let mut host = FakeHost::new(&rig, 1);
    host.drain();
    let again = later.reserve_tensor(&input(9, &desc), &mut beside).unwrap();
    assert_eq!(later.cancel_reserved(again), Outcome::Dropped(DropReason::NoSpace));
}

#[test]
fn reserving_waits_only_for_space_that_the_host_can_release() {
    let rig = Rig::new(DumpGeometry { records: 8, ..TWO });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let host = RefCell::new(FakeHost::new(&rig, 1));
    let link = ScriptedLink::new(|_| host.borrow_mut().drain());
    let (mut beside, mut later) = (region.recorder(0, &link).unwrap(), region.recorder(1, &link).unwrap());
    let desc = described(MOST);
    let mut reserved: Vec<_> =
        (0..4).map(|task| later.reserve_tensor(&input(task, &desc), &mut beside).unwrap()).collect();
    // One of four is committed: the host releases its quarter when it drains.
    assert_eq!(later.commit_reserved(reserved.remove(0), Some(1)), Outcome::Recorded);
    let small = described(MOST);
    reserved.push(later.reserve_tensor(&input(4, &small), &mut beside).unwrap());
    assert!(link.pauses.get() > 0, "the call waited");
    let pauses = link.pauses.get();
    assert_eq!(later.reserve_tensor(&input(5, &small), &mut beside).unwrap_err(), ReserveError::CommitFirst);
    assert_eq!(link.pauses.get(), pauses, "the host has nothing left to release");
    for reserved in reserved {
        later.cancel_reserved(reserved);
    }
    host.borrow_mut().drain();
    assert_eq!(later.counters().dropped_bytes, 4 * MOST);
    let lost = host.borrow().taken.iter().filter(|t| t.record.flags & RECORD_PAYLOAD_DROPPED != 0).count();
    assert_eq!(lost, 4);
    assert!(later.reserve_tensor(&input(6, &small), &mut beside).is_ok(), "their space was released");
}

#[test]
fn impossible_or_needless_reservations_fail_at_once() {
    let rig = Rig::new(TWO);
    let options = rig.options(DumpLevel::Full, DumpPolicy::Block);
    let filter = DumpFilter { max_bytes: 100, ..DumpFilter::ALL };
    let reserve = |options: &SetupOptions, desc: &TensorDesc| {
        let region = rig.open(options);
        let (mut beside, mut later) = (
            region.recorder(0, ScriptedLink::never()).unwrap(),
            region.recorder(1, ScriptedLink::never()).unwrap(),
        );
        let refused = later.reserve_tensor(&input(1, desc), &mut beside).unwrap_err();
        (refused, beside.counters().records)
    };
    let too_large = ReserveError::TooLarge { bytes: MOST + 1, most: MOST };
    assert_eq!(reserve(&options, &described(MOST + 1)), (too_large, 0));
    let recorded = ReserveError::Done(Outcome::Recorded);
    let meta = SetupOptions { level: DumpLevel::Meta, ..options };
    assert_eq!(reserve(&meta, &described(MOST + 1)), (recorded, 1));
    let marked = SetupOptions { level: DumpLevel::Marked, ..options };
    assert_eq!(reserve(&marked, &described(8)), (ReserveError::Done(Outcome::NotWanted), 0));
    assert_eq!(reserve(&SetupOptions { filter, ..options }, &described(101)), (recorded, 1));
    let damaged = TensorDesc { dtype: 99, ..described(8) };
    assert_eq!(reserve(&options, &damaged), (ReserveError::Done(Outcome::Uncaptured), 1));
}

#[test]
fn at_level_hash_only_statistics_of_later_content_are_recorded() {
    let rig = Rig::new(TWO);
    let region = rig.open(&rig.options(DumpLevel::Hash, DumpPolicy::Block));
    let link = ScriptedLink::never();
    let (mut beside, mut later) = (region.recorder(0, &link).unwrap(), region.recorder(1, &link).unwrap());
    for (task, bytes) in [(1, 3), (2, 200)] {
        let desc = described(bytes as u64);
        let reserved = later.reserve_tensor(&input(task, &desc), &mut beside).unwrap();
        fill(&mut later, &reserved, &vec![5; bytes]);
        assert_eq!(later.commit_reserved(reserved, None), Outcome::Recorded);
    }
    let mut host = FakeHost::new(&rig, 1);
    host.drain();
    for (taken, bytes) in host.taken.iter().zip([3_usize, 200]) {
        let stats = taken.payload.as_ref().unwrap();
        let value = |at: usize| f64::from_le_bytes(stats[at..at + 8].try_into().unwrap());
        assert_eq!((value(0), value(8), value(16)), (5.0, 5.0, 5.0));
        assert_eq!(stats[56..64], (bytes as u64).to_le_bytes());
        assert_eq!(taken.tensor().hash, content_hash(&vec![5; bytes]).to_le_bytes());
    }
    assert_eq!(host.taken.len(), 2);
}
