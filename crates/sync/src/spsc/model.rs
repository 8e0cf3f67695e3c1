//! Model checks of the queue.

use std::sync::Arc;

use loom::thread;

use super::{Consumer, Producer, QueueWords};
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::model::{Guarded, RACE, holds, refuted, weakened};
use crate::orderings::{Proven, SpscOrderings};

weakened! {
    PushRelaxed: SpscOrderings { PUSH = Relaxed }
    SeePushedRelaxed: SpscOrderings { SEE_PUSHED = Relaxed }
    PopRelaxed: SpscOrderings { POP = Relaxed }
    SeePoppedRelaxed: SpscOrderings { SEE_POPPED = Relaxed }
}

/// A queue of one entry, and the buffer that the entry stands for.
struct Shared {
    pushed: AtomicU64,
    popped: AtomicU64,
    cells: [AtomicU32; 1],
    buffer: Guarded<u32>,
}

impl QueueWords for Shared {
    fn pushed(&self) -> &AtomicU64 {
        &self.pushed
    }

    fn popped(&self) -> &AtomicU64 {
        &self.popped
    }

    fn cells(&self) -> &[AtomicU32] {
        &self.cells
    }
}

/// Starts at a count other than zero.
const START: u64 = 3;
const ENTRIES: [u32; 2] = [70, 80];

fn two_entries<O: SpscOrderings + 'static>() {
    let shared = Arc::new(Shared {
        pushed: AtomicU64::new(START),
        popped: AtomicU64::new(START),
        cells: [AtomicU32::new(0)],
        buffer: Guarded::new(0),
    });
    let consumer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || consume::<O>(&shared)
    });
    let mut producer = Producer::<_, O>::with_orderings(&*shared, START, START);
    for entry in ENTRIES {
        while !producer.has_room().unwrap() {
            thread::yield_now();
        }
        shared.buffer.write(entry);
        assert_eq!(producer.push(entry), Ok(()));
    }
    consumer.join().unwrap();
}

fn consume<O: SpscOrderings>(shared: &Shared) {
    let mut consumer = Consumer::<_, O>::with_orderings(shared, START, START);
    for entry in ENTRIES {
        let found = loop {
            match consumer.peek().unwrap() {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        assert_eq!((found, shared.buffer.read()), (entry, entry));
        consumer.pop();
    }
}

#[test]
fn an_entry_and_what_it_stands_for_are_ordered_by_the_two_counts() {
    holds(two_entries::<Proven>);
}

#[test]
fn push_without_release_is_refuted() {
    refuted(RACE, two_entries::<PushRelaxed>);
}

#[test]
fn peek_without_acquire_is_refuted() {
    refuted(RACE, two_entries::<SeePushedRelaxed>);
}

#[test]
fn pop_without_release_is_refuted() {
    refuted(RACE, two_entries::<PopRelaxed>);
}

#[test]
fn push_without_acquire_is_refuted() {
    refuted(RACE, two_entries::<SeePoppedRelaxed>);
}
