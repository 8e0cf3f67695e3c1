//! Model checks of committing records and of reusing a buffer.

use std::sync::Arc;

use loom::thread;

use super::{Current, Observer, Publisher, current_with};
use crate::atomic::{AtomicU64, Ordering};
use crate::model::{Guarded, RACE, holds, refuted, weakened};
use crate::orderings::{CommitOrderings, Proven};

weakened! {
    PublishRelaxed: CommitOrderings { PUBLISH = Relaxed }
    SeeRelaxed: CommitOrderings { SEE = Relaxed }
}

const RECORDS: usize = 2;

struct Buffer {
    committed: AtomicU64,
    records: [Guarded<u64>; RECORDS],
}

fn records_of_a_buffer<O: CommitOrderings + 'static>() {
    let buffer =
        Arc::new(Buffer { committed: AtomicU64::new(0), records: [Guarded::new(0), Guarded::new(0)] });
    let producer = thread::spawn({
        let buffer = Arc::clone(&buffer);
        move || {
            let mut publisher = Publisher::<_, O>::with_orderings(&buffer.committed);
            for (record, value) in buffer.records.iter().zip(5..) {
                record.write(value);
                publisher.publish();
            }
        }
    });
    let mut observer = Observer::<_, O>::with_orderings(&buffer.committed, RECORDS as u64);
    while !observer.is_full() {
        for place in observer.poll().unwrap() {
            assert_eq!(buffer.records[usize::from(place == 1)].read(), 5 + place);
        }
        thread::yield_now();
    }
    producer.join().unwrap();
}

/// The only buffer of a thread: filled, handed over, given back and filled again.
struct Reused {
    current: AtomicU64,
    committed: AtomicU64,
    first_seq: Guarded<u64>,
    record: Guarded<u64>,
    /// Times handed over, and times given back.
    ready: AtomicU64,
    free: AtomicU64,
}

fn fill_twice<O: CommitOrderings>(shared: &Reused, closes: bool) {
    let mut current = Current::<O>::with_orderings(&shared.current);
    for seq in 0..2 {
        while shared.free.load(Ordering::Acquire) < seq {
            thread::yield_now();
        }
        shared.first_seq.write(seq);
        let mut publisher = Publisher::<_, O>::with_orderings(&shared.committed);
        current.open(0);
        shared.record.write(seq);
        publisher.publish();
        if closes {
            current.close();
        }
        shared.ready.store(seq + 1, Ordering::Release);
    }
}

/// Takes the first filling from the queue and gives it back, then looks at what is current.
fn reuse<O: CommitOrderings + 'static>(closes: bool) {
    let shared = Arc::new(Reused {
        current: AtomicU64::new(0),
        committed: AtomicU64::new(0),
        first_seq: Guarded::new(0),
        record: Guarded::new(0),
        ready: AtomicU64::new(0),
        free: AtomicU64::new(0),
    });
    let producer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || fill_twice::<O>(&shared, closes)
    });
    while shared.ready.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    assert_eq!((shared.first_seq.read(), shared.record.read()), (0, 0));
    shared.free.store(1, Ordering::Release);
    if current_with::<O>(&shared.current).is_some() {
        let mut observer = Observer::<_, O>::with_orderings(&shared.committed, 1);
        let fresh = observer.poll().unwrap();
        assert_eq!(shared.first_seq.read(), 1, "{STALE}");
        assert!(fresh.is_empty() || shared.record.read() == 1, "{STALE}");
    }
    producer.join().unwrap();
}

const STALE: &str = "the header is that of the filling before";

#[test]
fn a_record_is_visible_once_counted() {
    holds(records_of_a_buffer::<Proven>);
}

#[test]
fn what_is_current_was_never_given_back() {
    holds(|| reuse::<Proven>(true));
}

#[test]
fn publish_without_release_is_refuted() {
    refuted(RACE, records_of_a_buffer::<PublishRelaxed>);
    refuted(RACE, || reuse::<PublishRelaxed>(true));
}

#[test]
fn poll_without_acquire_is_refuted() {
    refuted(RACE, records_of_a_buffer::<SeeRelaxed>);
    refuted(RACE, || reuse::<SeeRelaxed>(true));
}

#[test]
fn handing_over_without_closing_is_refuted() {
    refuted(STALE, || reuse::<Proven>(false));
}
