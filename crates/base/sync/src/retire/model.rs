//! Model checks of reclaiming.

use core::num::NonZeroU32;
use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::{RetireRing, SlotRing};
use crate::atomic::{Ordering, fence};
use crate::model::{RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{ProvenOrderings, RetireOrderings};

weakened! {
    RetireRelaxed: RetireOrderings { RETIRE = Relaxed }
    SeeRetiredRelaxed: RetireOrderings { SEE_RETIRED = Relaxed }
    AdvanceRelaxed: RetireOrderings { ADVANCE = Relaxed }
    SeeTailRelaxed: RetireOrderings { SEE_TAIL = Relaxed }
}

struct WithoutFence;
impl RetireOrderings for WithoutFence {
    fn mark_then_look() {}
}

struct WeakFence;
impl RetireOrderings for WeakFence {
    fn mark_then_look() {
        fence(Ordering::AcqRel);
    }
}

/// A ring, and the contents of the used slots.
struct RetireModel<O> {
    ring: RetireRing<O>,
    slots: [RaceChecked<u64>; 2],
    steps: Steps,
}

impl<O: RetireOrderings + 'static> RetireModel<O> {
    fn new() -> Arc<Self> {
        let two = NonZeroU32::new(2).unwrap();
        let slots = [RaceChecked::new(0), RaceChecked::new(0)];
        Arc::new(Self { ring: RetireRing::with_orderings(two), slots, steps: Steps::new() })
    }

    fn use_slot(&self, local: u64) {
        self.slots[usize::from(local % 2 == 1)].write(local);
    }

    fn spawn_retire(self: &Arc<Self>, local: u64) -> JoinHandle<bool> {
        let shared = Arc::clone(self);
        thread::spawn(move || {
            shared.steps.mark();
            shared.use_slot(local);
            shared.ring.retire(local)
        })
    }
}

const STUCK: &str = "all tasks are retired, but the tail has not moved past them";

fn neighbours<O: RetireOrderings + 'static>() {
    let shared = RetireModel::<O>::new();
    let mut claims = SlotRing::new(&shared.ring);
    let retiring = [claims.try_claim(), claims.try_claim()].map(|local| shared.spawn_retire(local.unwrap()));
    let moved = retiring.map(|thread| thread.join().unwrap());
    assert_eq!(shared.ring.tail(), 2, "{STUCK}");
    assert!(moved.contains(&true));
}

/// The middle thread may pass over a slot that one neighbor marked and miss the mark of the other.
fn three<O: RetireOrderings + 'static>() {
    let ring = Arc::new(RetireRing::<O>::with_orderings(NonZeroU32::new(3).unwrap()));
    let retiring = [0, 2].map(|local| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || ring.retire(local))
    });
    ring.retire(1);
    for thread in retiring {
        thread.join().unwrap();
    }
    assert_eq!(ring.tail(), 3, "{STUCK}");
}

fn reuse<O: RetireOrderings + 'static>() {
    let shared = RetireModel::<O>::new();
    let mut claims = SlotRing::new(&shared.ring);
    let retiring = [claims.try_claim(), claims.try_claim()].map(|local| shared.spawn_retire(local.unwrap()));
    shared.steps.mark();
    // Every slot claimed here was retired by one thread, and possibly passed over by the other.
    while let Some(local) = claims.try_claim() {
        shared.use_slot(local);
    }
    for thread in retiring {
        thread.join().unwrap();
    }
}

/// One task retires after an earlier task of the same slot was reclaimed: the old mark must not count.
fn next_generation<O: RetireOrderings + 'static>() {
    let shared = RetireModel::<O>::new();
    let mut claims = SlotRing::new(&shared.ring);
    for local in [0, 1] {
        assert_eq!(claims.try_claim(), Some(local));
        assert!(shared.ring.retire(local));
    }
    assert_eq!((claims.try_claim(), claims.try_claim()), (Some(2), Some(3)));
    let later = shared.spawn_retire(3);
    shared.steps.mark();
    shared.use_slot(2);
    shared.ring.retire(2);
    later.join().unwrap();
    assert_eq!(shared.ring.tail(), 4, "{STUCK}");
}

#[test]
fn neighbors_that_retire_together_are_both_reclaimed() {
    holds(neighbours::<ProvenOrderings>);
}

#[test]
fn three_that_retire_together_are_all_reclaimed() {
    holds(three::<ProvenOrderings>);
}

#[test]
fn a_slot_is_claimed_again_only_after_its_last_use() {
    holds(reuse::<ProvenOrderings>);
}

#[test]
fn the_second_generation_of_a_slot_is_reclaimed_like_the_first() {
    holds(next_generation::<ProvenOrderings>);
}

#[test]
fn retire_without_the_fence_is_refuted() {
    refuted(STUCK, neighbours::<WithoutFence>);
    refuted(STUCK, three::<WithoutFence>);
    refuted(STUCK, next_generation::<WithoutFence>);
}

#[test]
fn retire_with_a_weaker_fence_is_refuted() {
    refuted(STUCK, neighbours::<WeakFence>);
    refuted(STUCK, three::<WeakFence>);
}

#[test]
fn retire_without_release_is_refuted() {
    refuted(RACE, reuse::<RetireRelaxed>);
}

#[test]
fn passing_over_without_acquire_is_refuted() {
    refuted(RACE, reuse::<SeeRetiredRelaxed>);
}

#[test]
fn advance_without_release_is_refuted() {
    refuted(RACE, reuse::<AdvanceRelaxed>);
}

#[test]
fn tail_without_acquire_is_refuted() {
    refuted(RACE, reuse::<SeeTailRelaxed>);
}
