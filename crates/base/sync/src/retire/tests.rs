//! Behavior of reclaiming.

use core::num::NonZeroU32;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;

use super::{RetireRing, SlotRing};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::ready::ReadyQueue;
use crate::testing::{ROUNDS, cases, insist};

fn ring(slots: u32) -> RetireRing {
    RetireRing::new(NonZeroU32::new(slots).unwrap())
}

#[test]
fn the_tail_waits_for_the_oldest_then_passes_all_retired() {
    let ring = ring(4);
    let mut claims = SlotRing::new(&ring);
    while claims.try_claim().is_some() {}
    assert_eq!([3, 1, 2].map(|local| ring.retire(local)), [false; 3]);
    assert_eq!((ring.tail(), claims.free()), (0, 0));
    assert!(ring.retire(0));
    assert_eq!((ring.tail(), claims.free()), (4, 4));
}

#[test]
fn a_mark_of_the_previous_generation_does_not_count() {
    let ring = ring(2);
    let mut claims = SlotRing::new(&ring);
    for local in 0..2 {
        assert_eq!(claims.try_claim(), Some(local));
        assert!(ring.retire(local));
    }
    assert_eq!((claims.try_claim(), claims.try_claim()), (Some(2), Some(3)));
    assert!(!ring.retire(3));
    assert_eq!(ring.tail(), 2);
}

#[test]
fn handles_may_own_the_ring_or_borrow_it() {
    let shared = Arc::new(ring(1));
    let mut claims = SlotRing::new(Arc::clone(&shared));
    assert_eq!((claims.try_claim(), claims.try_claim(), claims.head()), (Some(0), None, 1));
    shared.retire(0);
    assert_eq!((claims.ring().slots(), claims.try_claim()), (1, Some(1)));
}

proptest! {
    #![proptest_config(cases())]

    /// Any ring size (not only powers of two), and any order of claims and retirements.
    #[test]
    fn the_tail_is_the_oldest_task_in_use(slots in 1..8_u32, steps in prop::collection::vec(any::<Option<prop::sample::Index>>(), 0..200)) {
        let ring = ring(slots);
        let mut claims = SlotRing::new(&ring);
        let mut in_use = BTreeSet::new();
        let mut tail = 0;
        for step in steps {
            match step {
                None => {
                    let expected = (claims.head() - tail < u64::from(slots)).then_some(claims.head());
                    prop_assert_eq!(claims.try_claim(), expected);
                    in_use.extend(expected);
                }
                Some(index) if !in_use.is_empty() => {
                    let local = *in_use.iter().nth(index.index(in_use.len())).unwrap();
                    in_use.remove(&local);
                    prop_assert_eq!(ring.retire(local), local == tail);
                    tail = in_use.first().copied().unwrap_or(claims.head());
                }
                Some(_) => {}
            }
            prop_assert_eq!(ring.tail(), tail);
            prop_assert_eq!(claims.free(), u64::from(slots) - (claims.head() - tail));
        }
    }
}

const RETIRING: u64 = 2;
const IN_USE: u64 = u64::MAX;

/// Takes tasks by slot, checks that the slot holds the task, clears the slot and retires the task.
fn retire_share(ring: &RetireRing, contents: &[AtomicU64], queue: &ReadyQueue) {
    for _ in 0..u64::from(ROUNDS) / RETIRING {
        let slot = insist(|| queue.pop());
        let local = contents[slot as usize].swap(IN_USE, Relaxed);
        assert_eq!(local % ring.slots(), u64::from(slot));
        contents[slot as usize].store(0, Relaxed);
        ring.retire(local);
    }
}

#[test]
fn under_threads_every_task_is_reclaimed_and_no_slot_is_used_twice() {
    for slots in [1, 3, 8] {
        let ring = ring(slots);
        let contents: Vec<AtomicU64> = (0..slots).map(|_| AtomicU64::new(0)).collect();
        let queue = ReadyQueue::new(slots);
        thread::scope(|scope| {
            for _ in 0..RETIRING {
                scope.spawn(|| retire_share(&ring, &contents, &queue));
            }
            let mut claims = SlotRing::new(&ring);
            for _ in 0..ROUNDS {
                let local = insist(|| claims.try_claim());
                let slot = u32::try_from(local % u64::from(slots)).unwrap();
                assert_eq!(contents[slot as usize].swap(local, Relaxed), 0, "slot {slot} was still in use");
                insist(|| queue.push(slot).ok());
            }
        });
        assert_eq!(ring.tail(), u64::from(ROUNDS), "ring of {slots}");
    }
}

#[cfg(debug_assertions)]
mod misuse {
    use super::*;

    #[test]
    #[should_panic(expected = "retired twice or never claimed")]
    fn retiring_twice_before_the_tail_is_caught() {
        let ring = ring(4);
        ring.retire(1);
        ring.retire(1);
    }

    #[test]
    #[should_panic(expected = "retired twice or never claimed")]
    fn retiring_a_task_before_the_tail_is_caught() {
        let ring = ring(4);
        ring.retire(0);
        ring.retire(0);
    }

    #[test]
    #[should_panic(expected = "retired twice or never claimed")]
    fn retiring_an_unclaimed_task_is_caught() {
        ring(4).retire(4);
    }
}
