//! Damaged descriptors, and region words that a stray write has changed.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_abi::*;
use tensortap_recorder::*;
use zerocopy::{FromBytes, IntoBytes};

use crate::host::{FakeHost, state_offset};
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

#[test]
fn a_damaged_descriptor_is_recorded_as_uncaptured_and_never_followed() {
    let rig = Rig::new(DumpGeometry { records: 20, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let good = rig.view(DType::Float32, &[10, 10], &[10, 1], 0, 400);
    let shape_of = |first| [first, 10, 0, 0, 0, 0, 0, 0];
    let damaged = [
        TensorDesc { dtype: 0, ..good },
        TensorDesc { dtype: 99, ..good },
        TensorDesc { ndims: 9, ..good },
        TensorDesc { buffer_bytes: 399, ..good },
        TensorDesc { start_offset: 1, ..good },
        TensorDesc { start_offset: u64::MAX, ..good },
        TensorDesc { shape: shape_of(u64::MAX), ..good },
        TensorDesc { strides: [-10, 1, 0, 0, 0, 0, 0, 0], ..good },
        TensorDesc { shape: shape_of(1 << 62), strides: [0; 8], ..good },
        TensorDesc { buffer_addr: 0, ..good },
        TensorDesc { buffer_addr: u64::MAX - 100, ..good },
        TensorDesc { buffer_addr: rig.range().end() - 399, ..good },
        TensorDesc { buffer_bytes: u64::MAX, ..good },
    ];
    for desc in &damaged {
        let capture = TensorCapture { role: Role::InOut, arg_index: 6, ..input(3, desc) };
        assert_eq!(recorder.tensor(&capture), Outcome::Uncaptured, "{desc:?}");
    }
    recorder.tensor(&input(4, &good));
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let expected = UncapturedRecord {
        task_id: 3,
        reason: UncapturedReason::BadDescriptor as u8,
        stage: 1,
        role: 3,
        arg_index: 6,
        ..UncapturedRecord::default()
    };
    for (taken, desc) in host.taken.iter().zip(&damaged) {
        // Whatever is wrong otherwise, the record has no room for these dimensions.
        let reason = if desc.ndims > 8 {
            UncapturedReason::TooManyDimensions
        } else {
            UncapturedReason::BadDescriptor
        };
        assert_eq!(taken.record, UncapturedRecord { reason: reason as u8, ..expected }.into());
    }
    assert_eq!(host.taken[damaged.len()].payload, Some(rig.content(&good)));
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 10 } else { 2000 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_descriptor_of_random_bytes_is_handled(
        mut bytes in prop::collection::vec(any::<u8>(), 192),
        keep in any::<[bool; 4]>(),
    ) {
        let rig = Rig::new(SMALL);
        let region = rig.open(&rig.options(DumpLevel::Hash, DumpPolicy::Drop));
        let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
        let good = rig.view(DType::Int16, &[4, 4], &[4, 1], 0, 32);
        // Mostly valid bytes, so that later checks run too.
        for (part, keep) in [0..16, 16..64, 64..128, 128..192].into_iter().zip(keep) {
            if keep {
                bytes[part.clone()].copy_from_slice(&good.as_bytes()[part]);
            }
        }
        let desc = TensorDesc::read_from_bytes(&bytes).unwrap();
        // Broadcasts may be too large for a test, although they are valid.
        prop_assume!(desc.dims().iter().try_fold(1_u64, |n, &d| n.checked_mul(d)).is_none_or(|n| n < 1 << 20));
        recorder.tensor(&input(0, &desc));
        prop_assert_eq!(recorder.counters().records, 1);
    }

    #[test]
    fn random_host_words_cause_neither_crash_nor_hang(
        words in prop::collection::vec((0..32u64, prop_oneof![any::<u64>(), 0..20u64, Just(u64::MAX)]), 1..30),
        entries in prop::collection::vec((0..6u64, any::<u32>()), 0..6),
    ) {
        let rig = Rig::new(SMALL);
        let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
        let host = FakeHost::new(&rig, 0);
        let link = ScriptedLink::new(|_| {});
        let mut recorder = region.recorder(0, &link).unwrap();
        let mut asked = 0;
        for (word, value) in words {
            rig.word(host.state_at(word * 8)).set(value);
            for &(entry, value) in &entries {
                rig.half_word(rig.geometry.queues_offset() + entry * 4).set(value);
            }
            recorder.tensor(&input(0, &rig.tensor(700)));
            recorder.task(&TaskRecord::default());
            asked += 2;
        }
        let c = recorder.counters();
        prop_assert!(c.records + c.dropped_no_buffer + c.dropped_no_space + c.dropped_no_host >= asked);
    }
}

#[test]
fn an_invalid_number_in_the_free_queue_loses_no_buffer() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    rig.half_word(rig.geometry.queues_offset()).set(3);
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let places = rig.geometry.buffers * rig.geometry.records;
    for _ in 0..places {
        assert_eq!(recorder.task(&TaskRecord::default()), Outcome::Recorded);
    }
    let outcome = recorder.task(&TaskRecord::default());
    assert_eq!(outcome, Outcome::Dropped(DropReason::NoBuffer));
}

/// Each of these words could keep the host from finding anything to release, so that the device would wait
/// forever.
#[test]
fn a_waiting_device_restores_its_overwritten_words() {
    let words = [
        state_offset!(current_buffer),
        state_offset!(write_cursor),
        state_offset!(free_popped),
        state_offset!(ready_pushed),
    ];
    for hit in words {
        let rig = Rig::new(SMALL);
        let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
        let host = RefCell::new(FakeHost::new(&rig, 0));
        let scribbled = rig.word(host.borrow().state_at(hit));
        let link = ScriptedLink::new(|pause| {
            FakeHost::beat(&rig);
            assert!(pause < 100, "the device waits forever");
            if pause == 1 {
                scribbled.set(0);
            } else {
                host.borrow_mut().drain();
            }
        });
        let mut recorder = region.recorder(0, &link).unwrap();
        let tensors: Vec<_> = (0..9).map(|_| rig.tensor(1500)).collect();
        for (task, desc) in (0..).zip(&tensors) {
            assert_eq!(recorder.tensor(&input(task, desc)), Outcome::Recorded);
        }
        host.borrow_mut().drain();
        let contents: Vec<_> =
            host.borrow().taken.iter().map(|taken| taken.payload.clone().unwrap()).collect();
        assert_eq!(contents, tensors.iter().map(|desc| rig.content(desc)).collect::<Vec<_>>());
        let waits = host.borrow().state(state_offset!(waits));
        assert!(waits > 1 && waits == link.pauses.get(), "{waits}");
    }
}

#[test]
fn a_consumed_cursor_past_the_arena_frees_nothing() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let host = RefCell::new(FakeHost::new(&rig, 0));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    (0..4).for_each(|_| assert_eq!(recorder.tensor(&input(0, &rig.tensor(2048))), Outcome::Recorded));
    rig.word(host.borrow().state_at(state_offset!(consumed_cursor))).set(1 << 40);
    let outcome = recorder.tensor(&input(0, &rig.tensor(2048)));
    assert_eq!(outcome, Outcome::Dropped(DropReason::NoSpace));
}
