//! Model checks of the queue.

use std::sync::Arc;

use loom::thread;

use super::{Consumer, Producer, QueueCells, QueueWords};
use crate::atomic::Ordering;
use crate::model::{CopiedWord, RACE, RaceChecked, UnfencedWord, holds, refuted, weakened};
use crate::orderings::{ProvenOrderings, SpscOrderings};
use crate::{SharedU32, SharedU64, Word};

weakened! {
    PushRelaxed: SpscOrderings { PUSH = Relaxed }
    SeePushedRelaxed: SpscOrderings { SEE_PUSHED = Relaxed }
    PopRelaxed: SpscOrderings { POP = Relaxed }
    SeePoppedRelaxed: SpscOrderings { SEE_POPPED = Relaxed }
}

/// A queue of one entry, and the buffer that the entry names.
struct SpscModel {
    pushed: SharedU64,
    popped: SharedU64,
    cells: [SharedU32; 1],
    buffer: RaceChecked<u32>,
}

impl SpscModel {
    fn words(&self) -> QueueCells<'_> {
        QueueCells { pushed: &self.pushed, popped: &self.popped, cells: &self.cells }
    }
}

/// The queue of a host that only copies.
struct CopyingWords<'m, W>(&'m SpscModel, fn(&'m SharedU64) -> W);

impl<W: Word<Error = core::convert::Infallible>> QueueWords for CopyingWords<'_, W> {
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
enum HostAccess {
    Maps,
    ConsumesByCopies,
    ProducesByCopies,
    ConsumesWithoutFences,
    ProducesWithoutFences,
}

fn two_entries<O: SpscOrderings + 'static>(host: HostAccess) {
    let shared = Arc::new(SpscModel {
        pushed: SharedU64::new(START),
        popped: SharedU64::new(START),
        cells: [SharedU32::new(0)],
        buffer: RaceChecked::new(0),
    });
    let consumer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || match host {
            HostAccess::ConsumesByCopies => consume::<_, O>(&shared, CopyingWords(&shared, CopiedWord)),
            HostAccess::ConsumesWithoutFences => {
                consume::<_, O>(&shared, CopyingWords(&shared, UnfencedWord))
            }
            _ => consume::<_, O>(&shared, shared.words()),
        }
    });
    match host {
        HostAccess::ProducesByCopies => produce::<_, O>(&shared, CopyingWords(&shared, CopiedWord)),
        HostAccess::ProducesWithoutFences => produce::<_, O>(&shared, CopyingWords(&shared, UnfencedWord)),
        _ => produce::<_, O>(&shared, shared.words()),
    }
    consumer.join().unwrap();
}

fn produce<W: QueueWords<Error = core::convert::Infallible>, O: SpscOrderings>(shared: &SpscModel, words: W) {
    let mut producer = Producer::<_, O>::with_orderings(words, START, START);
    for entry in ENTRIES {
        while !producer.has_room().unwrap() {
            thread::yield_now();
        }
        shared.buffer.write(entry);
        assert_eq!(producer.push(entry), Ok(()));
    }
}

fn consume<W: QueueWords<Error = core::convert::Infallible>, O: SpscOrderings>(shared: &SpscModel, words: W) {
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
fn the_two_counts_order_an_entry_and_its_buffer() {
    holds(|| two_entries::<ProvenOrderings>(HostAccess::Maps));
}

#[test]
fn the_two_counts_order_an_entry_and_its_buffer_for_a_copying_host() {
    holds(|| two_entries::<ProvenOrderings>(HostAccess::ConsumesByCopies));
    holds(|| two_entries::<ProvenOrderings>(HostAccess::ProducesByCopies));
}

#[test]
fn copies_without_fences_are_refuted() {
    refuted(RACE, || two_entries::<ProvenOrderings>(HostAccess::ConsumesWithoutFences));
    refuted(RACE, || two_entries::<ProvenOrderings>(HostAccess::ProducesWithoutFences));
}

#[test]
fn push_without_release_is_refuted() {
    refuted(RACE, || two_entries::<PushRelaxed>(HostAccess::Maps));
    refuted(RACE, || two_entries::<PushRelaxed>(HostAccess::ConsumesByCopies));
}

#[test]
fn peek_without_acquire_is_refuted() {
    refuted(RACE, || two_entries::<SeePushedRelaxed>(HostAccess::Maps));
    refuted(RACE, || two_entries::<SeePushedRelaxed>(HostAccess::ProducesByCopies));
}

#[test]
fn pop_without_release_is_refuted() {
    refuted(RACE, || two_entries::<PopRelaxed>(HostAccess::Maps));
    refuted(RACE, || two_entries::<PopRelaxed>(HostAccess::ProducesByCopies));
}

#[test]
fn push_without_acquire_is_refuted() {
    refuted(RACE, || two_entries::<SeePoppedRelaxed>(HostAccess::Maps));
    refuted(RACE, || two_entries::<SeePoppedRelaxed>(HostAccess::ConsumesByCopies));
}
