//! Model checks of the queue.

use std::sync::Arc;

use loom::thread;

use super::{Consumer, Producer, QueueCells, QueueWords};
use crate::atomic::Ordering;
use crate::model::{Copied, CopiedWithoutFences, Guarded, RACE, holds, refuted, weakened};
use crate::orderings::{Proven, SpscOrderings};
use crate::{SharedU32, SharedU64, Word};

weakened! {
    PushRelaxed: SpscOrderings { PUSH = Relaxed }
    SeePushedRelaxed: SpscOrderings { SEE_PUSHED = Relaxed }
    PopRelaxed: SpscOrderings { POP = Relaxed }
    SeePoppedRelaxed: SpscOrderings { SEE_POPPED = Relaxed }
}

/// A queue of one entry, and the buffer that the entry stands for.
struct Shared {
    pushed: SharedU64,
    popped: SharedU64,
    cells: [SharedU32; 1],
    buffer: Guarded<u32>,
}

impl Shared {
    fn words(&self) -> QueueCells<'_> {
        QueueCells { pushed: &self.pushed, popped: &self.popped, cells: &self.cells }
    }
}

/// The queue as a host has it that copies only.
struct Copies<'m, W>(&'m Shared, fn(&'m SharedU64) -> W);

impl<W: Word<Error = core::convert::Infallible>> QueueWords for Copies<'_, W> {
    type Error = core::convert::Infallible;

    fn pushed(&self) -> impl Word<Error = Self::Error> {
        (self.1)(&self.0.pushed)
    }

    fn popped(&self) -> impl Word<Error = Self::Error> {
        (self.1)(&self.0.popped)
    }

    fn capacity(&self) -> u64 {
        1
    }

    fn entry(&self, cell: u64) -> Result<u32, Self::Error> {
        self.0.words().entry(cell)
    }

    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), Self::Error> {
        self.0.words().set_entry(cell, entry)
    }
}

const START: u64 = 5;
const ENTRIES: [u32; 2] = [31, 32];

/// Which side is a host, and how it reaches the queue.
#[derive(Clone, Copy, PartialEq)]
enum Host {
    Maps,
    ConsumesByCopies,
    ProducesByCopies,
    ConsumesWithoutFences,
    ProducesWithoutFences,
}

fn two_entries<O: SpscOrderings + 'static>(host: Host) {
    let shared = Arc::new(Shared {
        pushed: SharedU64::new(START),
        popped: SharedU64::new(START),
        cells: [SharedU32::new(0)],
        buffer: Guarded::new(0),
    });
    let consumer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || match host {
            Host::ConsumesByCopies => consume::<_, O>(&shared, Copies(&shared, Copied)),
            Host::ConsumesWithoutFences => consume::<_, O>(&shared, Copies(&shared, CopiedWithoutFences)),
            _ => consume::<_, O>(&shared, shared.words()),
        }
    });
    match host {
        Host::ProducesByCopies => produce::<_, O>(&shared, Copies(&shared, Copied)),
        Host::ProducesWithoutFences => produce::<_, O>(&shared, Copies(&shared, CopiedWithoutFences)),
        _ => produce::<_, O>(&shared, shared.words()),
    }
    consumer.join().unwrap();
}

fn produce<W: QueueWords<Error = core::convert::Infallible>, O: SpscOrderings>(shared: &Shared, words: W) {
    let mut producer = Producer::<_, O>::with_orderings(words, START, START);
    for entry in ENTRIES {
        while !producer.has_room().unwrap() {
            thread::yield_now();
        }
        shared.buffer.write(entry);
        assert_eq!(producer.push(entry), Ok(()));
    }
}

fn consume<W: QueueWords<Error = core::convert::Infallible>, O: SpscOrderings>(shared: &Shared, words: W) {
    let mut consumer = Consumer::<_, O>::with_orderings(words, START, START);
    for entry in ENTRIES {
        let found = loop {
            match consumer.peek().unwrap() {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        assert_eq!((found, shared.buffer.read()), (entry, entry));
        let Ok(()) = consumer.pop();
    }
}

#[test]
fn an_entry_and_what_it_stands_for_are_ordered_by_the_two_counts() {
    holds(|| two_entries::<Proven>(Host::Maps));
}

#[test]
fn so_they_are_for_a_host_that_copies() {
    holds(|| two_entries::<Proven>(Host::ConsumesByCopies));
    holds(|| two_entries::<Proven>(Host::ProducesByCopies));
}

#[test]
fn copies_without_fences_are_refuted() {
    refuted(RACE, || two_entries::<Proven>(Host::ConsumesWithoutFences));
    refuted(RACE, || two_entries::<Proven>(Host::ProducesWithoutFences));
}

#[test]
fn push_without_release_is_refuted() {
    refuted(RACE, || two_entries::<PushRelaxed>(Host::Maps));
    refuted(RACE, || two_entries::<PushRelaxed>(Host::ConsumesByCopies));
}

#[test]
fn peek_without_acquire_is_refuted() {
    refuted(RACE, || two_entries::<SeePushedRelaxed>(Host::Maps));
    refuted(RACE, || two_entries::<SeePushedRelaxed>(Host::ProducesByCopies));
}

#[test]
fn pop_without_release_is_refuted() {
    refuted(RACE, || two_entries::<PopRelaxed>(Host::Maps));
    refuted(RACE, || two_entries::<PopRelaxed>(Host::ProducesByCopies));
}

#[test]
fn push_without_acquire_is_refuted() {
    refuted(RACE, || two_entries::<SeePoppedRelaxed>(Host::Maps));
    refuted(RACE, || two_entries::<SeePoppedRelaxed>(Host::ConsumesByCopies));
}
