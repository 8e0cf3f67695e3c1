//! Model checks of parking. A lost wake-up is a deadlock.

use std::sync::Arc;

use loom::thread;

use super::Parker;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::model::{DEADLOCK, Steps, holds, refuted};
use crate::orderings::{ParkOrderings, ProvenOrderings};
use crate::ready::ReadyQueue;

struct SleeperWithoutFence;
impl ParkOrderings for SleeperWithoutFence {
    fn flag_then_look() {}
}

struct WakerWithoutFence;
impl ParkOrderings for WakerWithoutFence {
    fn work_then_look() {}
}

struct WeakFences;
impl ParkOrderings for WeakFences {
    fn flag_then_look() {
        fence(Ordering::AcqRel);
    }

    fn work_then_look() {
        fence(Ordering::AcqRel);
    }
}

struct ParkModel<O> {
    parker: Parker<O>,
    work: [AtomicU32; 2],
    steps: Steps,
}

impl<O: ParkOrderings + 'static> ParkModel<O> {
    fn new() -> Arc<Self> {
        let work = [AtomicU32::new(0), AtomicU32::new(0)];
        Arc::new(Self { parker: Parker::with_orderings(0, 0), work, steps: Steps::new() })
    }

    /// Relaxed, so that only the parker's fences can order it.
    fn publish(&self, index: usize) {
        self.steps.mark();
        self.work[index].store(1, Ordering::Relaxed);
        self.parker.wake();
    }

    fn await_work(&self, index: usize) {
        self.steps.mark();
        self.parker.wait(|| self.work[index].load(Ordering::Relaxed) == 0);
    }
}

fn one_waker<O: ParkOrderings + 'static>() {
    let shared = ParkModel::<O>::new();
    let waker = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.publish(0)
    });
    shared.await_work(0);
    waker.join().unwrap();
}

/// The sleeper needs both wakers; one of them may find the flag already cleared by the other.
fn two_wakers<O: ParkOrderings + 'static>() {
    let shared = ParkModel::<O>::new();
    let wakers = [0, 1].map(|index| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.publish(index))
    });
    shared.await_work(0);
    shared.await_work(1);
    for waker in wakers {
        waker.join().unwrap();
    }
}

/// The ready queue's hint is reliable enough for sleeping: after two pushes, the sleeper leaves with both
/// slots.
fn queue_of_work<O: ParkOrderings + 'static>() {
    let shared = Arc::new((Parker::<O>::with_orderings(0, 0), ReadyQueue::new(2)));
    let pusher = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            for slot in [0, 1] {
                shared.1.push(slot).unwrap();
                shared.0.wake();
            }
        }
    });
    for slot in [0, 1] {
        shared.0.wait(|| shared.1.is_empty_hint());
        while shared.1.pop().map(|popped| assert_eq!(popped, slot)).is_none() {
            thread::yield_now();
        }
    }
    pusher.join().unwrap();
}

#[test]
fn sleeping_on_an_empty_queue_loses_no_push() {
    holds(queue_of_work::<ProvenOrderings>);
}

#[test]
fn a_wake_after_publishing_is_never_lost() {
    holds(one_waker::<ProvenOrderings>);
}

#[test]
fn two_wakers_and_two_waits_lose_nothing() {
    holds(two_wakers::<ProvenOrderings>);
}

#[test]
fn sleeping_without_the_fence_is_refuted() {
    refuted(DEADLOCK, one_waker::<SleeperWithoutFence>);
    refuted(DEADLOCK, two_wakers::<SleeperWithoutFence>);
}

#[test]
fn waking_without_the_fence_is_refuted() {
    refuted(DEADLOCK, one_waker::<WakerWithoutFence>);
    refuted(DEADLOCK, two_wakers::<WakerWithoutFence>);
}

#[test]
fn weaker_fences_are_refuted() {
    refuted(DEADLOCK, one_waker::<WeakFences>);
    refuted(DEADLOCK, two_wakers::<WeakFences>);
    refuted(DEADLOCK, queue_of_work::<WeakFences>);
}
