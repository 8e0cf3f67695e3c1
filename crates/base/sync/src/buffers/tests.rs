//! Behavior of circulating buffers.

use std::convert::Infallible;
use std::thread;
use std::vec::Vec;

use proptest::prelude::*;

use super::{BufferWords, Damage, DrainError, Drainer, Filler, RecordRange};
use crate::cursor::CursorError;
use crate::spsc::QueueCells;
use crate::testing::{ROUNDS, cases, insist};
use crate::{SharedU32, SharedU64};

struct Lane {
    counts: [SharedU64; 4],
    entries: [Vec<SharedU32>; 2],
    current: SharedU64,
    committed: Vec<SharedU64>,
    records: u32,
}

impl Lane {
    fn new(buffers: u32, records: u32) -> Lane {
        let entries = || (0..buffers).map(SharedU32::new).collect();
        Lane {
            counts: [buffers.into(), 0, 0, 0].map(SharedU64::new),
            entries: [entries(), entries()],
            current: SharedU64::new(0),
            committed: (0..buffers).map(|_| SharedU64::new(77)).collect(),
            records,
        }
    }

    fn halves(&self) -> (Filler<&Lane>, Drainer<&Lane>) {
        (Filler::new(self), Drainer::new(self))
    }

    fn free_popped(&self) -> &SharedU64 {
        &self.counts[1]
    }

    fn ready_pushed(&self) -> &SharedU64 {
        &self.counts[2]
    }
}

impl<'m> BufferWords for &'m Lane {
    type Error = Infallible;
    type Word = &'m SharedU64;
    type Queue = QueueCells<'m>;

    fn free(&self) -> QueueCells<'m> {
        QueueCells { pushed: &self.counts[0], popped: &self.counts[1], cells: &self.entries[0] }
    }

    fn ready(&self) -> QueueCells<'m> {
        QueueCells { pushed: &self.counts[2], popped: &self.counts[3], cells: &self.entries[1] }
    }

    fn current(&self) -> &'m SharedU64 {
        &self.current
    }

    fn committed(&self, number: u32) -> &'m SharedU64 {
        &self.committed[number as usize]
    }

    fn buffers(&self) -> u32 {
        u32::try_from(self.committed.len()).unwrap()
    }

    fn records(&self) -> u32 {
        self.records
    }
}

fn taken(number: u32, places: core::ops::Range<u64>) -> Option<RecordRange> {
    Some(RecordRange { number, places })
}

fn fill(filler: &mut Filler<&Lane>, records: u32) {
    for _ in 0..records {
        assert!(filler.filling().is_some() || filler.begin(|_| ()));
        filler.publish();
    }
}

#[test]
fn records_are_taken_early_and_the_full_buffer_is_returned_afterwards() {
    let lane = Lane::new(2, 3);
    let (mut filler, mut drainer) = lane.halves();
    assert_eq!(drainer.open(), Ok(None));
    assert_eq!(drainer.poll(9), Ok(None));
    fill(&mut filler, 2);
    assert_eq!((drainer.open(), drainer.open()), (Ok(Some(0)), Ok(None)));
    assert_eq!(drainer.poll(9), Ok(taken(0, 0..2)));
    assert_eq!(drainer.give_back(), Ok(false));
    fill(&mut filler, 1);
    assert_eq!((filler.filling(), filler.free()), (None, 1));
    assert_eq!(drainer.give_back(), Ok(false), "one record is not taken yet");
    assert_eq!(drainer.poll(9), Ok(taken(0, 2..3)));
    assert_eq!((drainer.give_back(), filler.free()), (Ok(true), 2));
}

#[test]
fn a_filler_without_free_buffers_waits() {
    let lane = Lane::new(1, 1);
    let (mut filler, mut drainer) = lane.halves();
    fill(&mut filler, 1);
    assert!(!filler.begin(|_| ()));
    drainer.open().unwrap();
    drainer.poll(1).unwrap();
    drainer.give_back().unwrap();
    assert!(filler.begin(|number| assert_eq!(number, 0)));
}

#[test]
fn cells_of_the_free_queue_may_hold_anything() {
    let lane = Lane::new(2, 1);
    let (mut filler, mut drainer) = lane.halves();
    for round in 0..6 {
        lane.entries[0].iter().for_each(|cell| cell.set(7 - round));
        assert!(filler.begin(|number| assert_eq!(number, round % 2)));
        filler.publish();
        assert_eq!(drainer.open(), Ok(Some(round % 2)));
        assert_eq!(drainer.poll(9), Ok(taken(round % 2, 0..1)));
        assert_eq!(drainer.give_back(), Ok(true));
    }
}

#[test]
fn damaged_consumer_words_do_not_delay_a_full_buffer() {
    let lane = Lane::new(2, 1);
    let (mut filler, mut drainer) = lane.halves();
    for round in 0..6 {
        lane.counts[3].set(u64::MAX);
        fill(&mut filler, 1);
        assert_eq!(drainer.open(), Ok(Some(round % 2)));
        assert_eq!(drainer.poll(9), Ok(taken(round % 2, 0..1)));
        assert_eq!(drainer.give_back(), Ok(true));
    }
}

#[test]
fn a_waiting_filler_restores_its_overwritten_words() {
    let lane = Lane::new(2, 3);
    let (mut filler, mut drainer) = lane.halves();
    fill(&mut filler, 2);
    for word in [&lane.current, &lane.committed[0], lane.free_popped(), lane.ready_pushed()] {
        word.set(0);
    }
    assert_eq!(drainer.open(), Ok(None), "no word names a buffer");
    filler.restate();
    assert_eq!((drainer.open(), drainer.poll(9)), (Ok(Some(0)), Ok(taken(0, 0..2))));
    fill(&mut filler, 1);
    lane.ready_pushed().set(0);
    filler.restate();
    assert_eq!((drainer.poll(9), drainer.give_back()), (Ok(taken(0, 2..3)), Ok(true)));
    assert_eq!((lane.current.get(), lane.free_popped().get()), (0, 1), "no buffer is being filled");
}

#[test]
fn damage_is_reported_and_buffers_can_still_be_returned() {
    let lane = Lane::new(2, 1);
    let (mut filler, mut drainer) = lane.halves();
    fill(&mut filler, 2);
    lane.entries[1][0].set(1);
    assert_eq!(drainer.open(), Err(DrainError::Damaged(Damage::Entry { found: 1, due: 0 })));
    assert_eq!((drainer.give_back_unread(), filler.free()), (Ok(()), 2));

    lane.ready_pushed().set(5);
    let error = CursorError::TooFar { from: 2, to: 5, most: 4 };
    assert_eq!(drainer.open(), Err(DrainError::Damaged(Damage::Ready(error))));
    assert_eq!(drainer.give_back_unread(), Err(DrainError::Damaged(Damage::Ready(error))));
    lane.ready_pushed().set(2);
    fill(&mut filler, 1);
    assert_eq!(drainer.open(), Ok(Some(0)));
    lane.committed[0].set(2);
    let error = CursorError::TooFar { from: 0, to: 2, most: 1 };
    assert_eq!(drainer.poll(1), Err(DrainError::Damaged(Damage::Committed(error))));
}

#[test]
fn a_returned_buffer_that_was_never_taken_is_reported() {
    let lane = Lane::new(1, 1);
    let (mut filler, mut drainer) = lane.halves();
    fill(&mut filler, 1);
    lane.free_popped().set(0);
    assert_eq!(drainer.open(), Ok(Some(0)));
    drainer.poll(1).unwrap();
    assert_eq!(drainer.give_back(), Err(DrainError::Damaged(Damage::NeverTaken)));
    assert_eq!(
        drainer.give_back_unread(),
        Err(DrainError::Damaged(Damage::NeverTaken)),
        "the buffer is not lost"
    );
    lane.free_popped().set(2);
    let error = CursorError::TooFar { from: 0, to: 2, most: 1 };
    assert_eq!(drainer.give_back_unread(), Err(DrainError::Damaged(Damage::Free(error))));
    lane.free_popped().set(1);
    assert_eq!((drainer.give_back_unread(), filler.free()), (Ok(()), 1));
}

#[test]
fn the_drainer_restores_its_overwritten_counts() {
    let lane = Lane::new(2, 1);
    let (mut filler, mut drainer) = lane.halves();
    fill(&mut filler, 1);
    drainer.open().unwrap();
    drainer.poll(1).unwrap();
    drainer.give_back().unwrap();
    let before: Vec<u64> = lane.counts.iter().map(SharedU64::get).collect();
    lane.counts[0].set(1 << 40);
    lane.counts[3].set(1 << 40);
    let Ok(()) = drainer.restate();
    assert_eq!(lane.counts.iter().map(SharedU64::get).collect::<Vec<_>>(), before);
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever the words contain, the consumer returns an error or takes a bounded number of records. It
    /// never panics and never loops forever.
    #[test]
    fn random_words_cause_an_error_or_a_bounded_number_of_records(
        scribbles in prop::collection::vec((0..8usize, prop_oneof![0..6u64, any::<u64>()]), 0..12),
    ) {
        let lane = Lane::new(2, 3);
        let (mut filler, mut drainer) = lane.halves();
        for (word, value) in scribbles {
            if filler.filling().is_some() || filler.begin(|_| ()) {
                filler.publish();
            }
            match word {
                0..4 => lane.counts[word].set(value),
                4 => lane.current.set(value),
                5 => lane.committed[usize::from(value % 2 == 1)].set(value),
                _ => lane.entries[word - 6][0].set(u32::try_from(value & 7).unwrap()),
            }
            for _ in 0..3 {
                let _ = drainer.open();
                if let Ok(Some(RecordRange { number, places: records })) = drainer.poll(2) {
                    prop_assert!(number < 2 && records.end <= 3 && records.end - records.start <= 2);
                }
                let _ = drainer.give_back();
            }
            let _ = drainer.give_back_unread();
        }
    }
}

#[test]
fn every_record_crosses_once_between_threads() {
    let lane = Lane::new(3, 4);
    let records: Vec<SharedU64> = (0..12).map(|_| SharedU64::new(0)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut filler = Filler::new(&lane);
            let mut first = 0;
            for seq in 0..u64::from(ROUNDS) {
                if filler.filling().is_none() {
                    insist(|| filler.begin(|number| first = number as usize * 4).then_some(()));
                }
                records[first + usize::try_from(seq % 4).unwrap()].set(seq);
                filler.publish();
            }
        });
        let mut drainer = Drainer::new(&lane);
        let mut seq = 0;
        while seq < u64::from(ROUNDS) {
            drainer.give_back().unwrap();
            drainer.open().unwrap();
            let Some(RecordRange { number, places }) = drainer.poll(3).unwrap() else {
                thread::yield_now();
                continue;
            };
            for place in places {
                assert_eq!(records[number as usize * 4 + usize::try_from(place).unwrap()].get(), seq);
                seq += 1;
            }
        }
    });
}
