//! Behavior of the queue.

use std::thread;
use std::vec::Vec;

use proptest::prelude::*;

use super::{Consumer, Producer, PushError, QueueCells};
use crate::cursor::{CursorError, ReadError};
use crate::testing::{ROUNDS, cases, insist};
use crate::{CachePadded, SharedU32, SharedU64};

struct Words<const N: usize> {
    pushed: CachePadded<SharedU64>,
    popped: CachePadded<SharedU64>,
    cells: CachePadded<[SharedU32; N]>,
}

impl<const N: usize> Words<N> {
    fn starting_at(count: u64) -> Self {
        Self {
            pushed: CachePadded::new(SharedU64::new(count)),
            popped: CachePadded::new(SharedU64::new(count)),
            cells: CachePadded::new([const { SharedU32::new(0) }; N]),
        }
    }

    fn cells(&self) -> QueueCells<'_> {
        QueueCells { pushed: &self.pushed, popped: &self.popped, cells: &self.cells[..] }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn entries_come_out_in_order_and_never_more_than_fit(
        pushes in prop::collection::vec(any::<bool>(), 0..60),
        start in any::<u32>(),
    ) {
        let words = Words::<3>::starting_at(start.into());
        let mut producer = Producer::new(words.cells(), start.into(), start.into());
        let mut consumer = Consumer::new(words.cells(), start.into(), start.into());
        let mut expected = Vec::new();
        for (entry, pushes) in (0..).zip(pushes) {
            if pushes {
                let room = expected.len() < 3;
                prop_assert_eq!(producer.has_room(), Ok(room));
                prop_assert_eq!(producer.push(entry), if room { Ok(()) } else { Err(PushError::Full) });
                expected.extend(room.then_some(entry));
            } else {
                let oldest = (!expected.is_empty()).then(|| expected.remove(0));
                prop_assert_eq!(consumer.peek(), Ok(oldest));
                prop_assert_eq!(consumer.take(), Ok(oldest));
            }
            prop_assert_eq!(consumer.waiting(), Ok(expected.len() as u64));
        }
        prop_assert_eq!(producer.pushed() - consumer.popped(), expected.len() as u64);
    }
}

#[test]
fn a_consumer_created_late_finds_earlier_entries() {
    let words = Words::<2>::starting_at(0);
    Producer::new(words.cells(), 0, 0).push(9).unwrap();
    assert_eq!(Consumer::new(words.cells(), 0, 0).take(), Ok(Some(9)));
    // A free queue starts like this: the host filled it before either side made a handle.
    assert_eq!(Consumer::new(words.cells(), 1, 0).take(), Ok(Some(9)));
}

#[test]
fn an_impossible_producer_count_is_rejected_and_nothing_is_read() {
    let words = Words::<2>::starting_at(5);
    let mut consumer = Consumer::new(words.cells(), 5, 5);
    words.pushed.set(8);
    assert_eq!(consumer.peek(), Err(ReadError::Damaged(CursorError::TooFar { from: 5, to: 8, most: 7 })));
    words.pushed.set(4);
    assert_eq!(consumer.take(), Err(ReadError::Damaged(CursorError::MovedBack { from: 5, to: 4 })));
    words.pushed.set(6);
    assert_eq!(consumer.waiting(), Ok(1));
}

#[test]
fn an_impossible_consumer_count_is_rejected() {
    let words = Words::<1>::starting_at(0);
    let mut producer = Producer::new(words.cells(), 0, 0);
    producer.push(1).unwrap();
    words.popped.set(2);
    let past_all_pushed = CursorError::TooFar { from: 0, to: 2, most: 1 };
    assert_eq!(producer.push(2), Err(PushError::Damaged(past_all_pushed)));
}

#[test]
fn every_entry_crosses_once_between_threads() {
    let words = Words::<4>::starting_at(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = Producer::new(words.cells(), 0, 0);
            (0..ROUNDS).for_each(|entry| insist(|| producer.push(entry).ok()));
        });
        let mut consumer = Consumer::new(words.cells(), 0, 0);
        for entry in 0..ROUNDS {
            assert_eq!(insist(|| consumer.take().unwrap()), entry);
        }
    });
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "peek must return one first")]
fn popping_nothing_is_caught() {
    let _ = Consumer::new(Words::<1>::starting_at(0).cells(), 0, 0).pop();
}
