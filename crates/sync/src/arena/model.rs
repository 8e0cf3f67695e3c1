//! Model checks of the arena's cursors.

use std::sync::Arc;

use loom::thread;

use super::{ArenaWords, Consumer, Space};
use crate::atomic::{AtomicU64, Ordering};
use crate::commit::{Observer, Publisher};
use crate::model::{Guarded, RACE, holds, refuted, weakened};
use crate::orderings::{ArenaOrderings, Proven};

weakened! {
    ReleaseRelaxed: ArenaOrderings { RELEASE = Relaxed }
    SeeReleasedRelaxed: ArenaOrderings { SEE_RELEASED = Relaxed }
}

/// An arena of two bytes; records commit them.
struct Shared {
    written: AtomicU64,
    consumed: AtomicU64,
    committed: AtomicU64,
    bytes: [Guarded<u64>; 2],
}

impl Shared {
    fn byte(&self, position: u64) -> &Guarded<u64> {
        &self.bytes[usize::from(position % 2 == 1)]
    }
}

impl ArenaWords for Shared {
    fn written(&self) -> &AtomicU64 {
        &self.written
    }

    fn consumed(&self) -> &AtomicU64 {
        &self.consumed
    }
}

const PIECES: u64 = 3;

fn a_byte_is_reused<O: ArenaOrderings + 'static>() {
    let shared = Arc::new(Shared {
        written: AtomicU64::new(0),
        consumed: AtomicU64::new(0),
        committed: AtomicU64::new(0),
        bytes: [Guarded::new(0), Guarded::new(0)],
    });
    let producer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || produce::<O>(&shared)
    });
    let mut consumer = Consumer::<_, O>::with_orderings(&*shared, 2);
    let mut observer = Observer::new(&shared.committed, PIECES);
    while !observer.is_full() {
        let records = observer.poll().unwrap();
        if !records.is_empty() {
            let written = consumer.poll().unwrap();
            assert!(written >= records.end, "a committed record lies past the cursor");
            for position in records.clone() {
                assert_eq!(shared.byte(position).read(), 40 + position);
            }
            consumer.release_to(records.end).unwrap();
        }
        thread::yield_now();
    }
    producer.join().unwrap();
}

fn produce<O: ArenaOrderings>(shared: &Shared) {
    let mut space = Space::<_, O>::with_orderings(shared, 2, false);
    let mut publisher = Publisher::begin(&shared.committed);
    for piece in 0..PIECES {
        let position = loop {
            match space.reserve(1, 1) {
                Some(position) => break position,
                None => thread::yield_now(),
            }
        };
        assert_eq!(position, piece);
        shared.byte(position).write(40 + piece);
        publisher.publish();
    }
}

#[test]
fn bytes_are_overwritten_only_after_they_were_given_back() {
    holds(a_byte_is_reused::<Proven>);
}

#[test]
fn giving_back_without_release_is_refuted() {
    refuted(RACE, a_byte_is_reused::<ReleaseRelaxed>);
}

#[test]
fn reserving_without_acquire_is_refuted() {
    refuted(RACE, a_byte_is_reused::<SeeReleasedRelaxed>);
}
