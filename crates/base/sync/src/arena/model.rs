//! Model checks of the arena's cursors.

use std::sync::Arc;

use loom::thread;

use super::{ArenaCursors, ArenaWords, Consumer, Space};
use crate::atomic::Ordering;
use crate::commit::{Observer, Publisher};
use crate::model::{CopiedWord, RACE, RaceChecked, UnfencedWord, holds, refuted, weakened};
use crate::orderings::{ArenaOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

weakened! {
    ReleaseRelaxed: ArenaOrderings { RELEASE = Relaxed }
    SeeReleasedRelaxed: ArenaOrderings { SEE_RELEASED = Relaxed }
}

/// An arena of two bytes whose bytes are published by a count of committed records.
struct ArenaModel {
    written: SharedU64,
    consumed: SharedU64,
    committed: SharedU64,
    bytes: [RaceChecked<u64>; 2],
}

impl ArenaModel {
    fn byte(&self, position: u64) -> &RaceChecked<u64> {
        &self.bytes[usize::from(position % 2 == 1)]
    }

    fn cursors(&self) -> ArenaCursors<'_> {
        ArenaCursors { written: &self.written, consumed: &self.consumed }
    }
}

/// The host's words. The second field chooses how the host reaches them: mapped, copied, or copied without
/// fences.
struct HostWords<'m, W>(&'m ArenaModel, fn(&'m SharedU64) -> W);

impl<W: Word> ArenaWords for HostWords<'_, W> {
    type Error = W::Error;

    fn written(&self) -> impl Word<Error = W::Error> {
        (self.1)(&self.0.written)
    }

    fn consumed(&self) -> impl Word<Error = W::Error> {
        (self.1)(&self.0.consumed)
    }
}

const PIECES: u64 = 3;

#[derive(Clone, Copy)]
enum HostAccess {
    Mapped,
    Copied,
    CopiedWithoutFences,
}

fn a_byte_is_reused<O: ArenaOrderings + 'static>(reach: HostAccess) {
    let shared = Arc::new(ArenaModel {
        written: SharedU64::new(0),
        consumed: SharedU64::new(0),
        committed: SharedU64::new(0),
        bytes: [RaceChecked::new(0), RaceChecked::new(0)],
    });
    let producer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || produce::<O>(&shared)
    });
    match reach {
        HostAccess::Mapped => consume::<_, O>(&shared, |word| word),
        HostAccess::Copied => consume::<_, O>(&shared, CopiedWord),
        HostAccess::CopiedWithoutFences => consume::<_, O>(&shared, UnfencedWord),
    }
    producer.join().unwrap();
}

fn consume<'m, W, O>(shared: &'m ArenaModel, word: fn(&'m SharedU64) -> W)
where
    W: Word<Error = core::convert::Infallible>,
    O: ArenaOrderings,
{
    let mut consumer = Consumer::<_, O>::with_orderings(HostWords(shared, word), 2, false);
    let mut observer = Observer::new(word(&shared.committed), PIECES);
    while !observer.is_taken() {
        let records = observer.poll(PIECES).unwrap();
        if !records.is_empty() {
            let written = consumer.poll().unwrap();
            assert!(written >= records.end, "a committed record is past the cursor");
            for position in records.clone() {
                assert_eq!(shared.byte(position).read(), 40 + position);
            }
            consumer.release_to(records.end).unwrap();
        }
        thread::yield_now();
    }
}

fn produce<O: ArenaOrderings>(shared: &ArenaModel) {
    let mut space = Space::<_, O>::with_orderings(shared.cursors(), 2, false);
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
fn bytes_are_overwritten_only_after_release() {
    holds(|| a_byte_is_reused::<ProvenOrderings>(HostAccess::Mapped));
}

#[test]
fn bytes_are_overwritten_only_after_release_by_a_copying_host() {
    holds(|| a_byte_is_reused::<ProvenOrderings>(HostAccess::Copied));
}

#[test]
fn copies_without_fences_are_refuted() {
    refuted(RACE, || a_byte_is_reused::<ProvenOrderings>(HostAccess::CopiedWithoutFences));
}

#[test]
fn releasing_bytes_without_release_ordering_is_refuted() {
    refuted(RACE, || a_byte_is_reused::<ReleaseRelaxed>(HostAccess::Mapped));
}

#[test]
fn reserving_without_acquire_is_refuted() {
    refuted(RACE, || a_byte_is_reused::<SeeReleasedRelaxed>(HostAccess::Mapped));
    refuted(RACE, || a_byte_is_reused::<SeeReleasedRelaxed>(HostAccess::Copied));
}

/// An arena of four bytes. While the consumer keeps up, the producer uses only two of them. Each record
/// states the position of its byte.
struct ShortLaps {
    written: SharedU64,
    consumed: SharedU64,
    committed: SharedU64,
    positions: [RaceChecked<u64>; BYTES_SENT],
    bytes: [RaceChecked<u64>; 4],
}

const BYTES_SENT: usize = 4;

impl ShortLaps {
    fn byte(&self, position: u64) -> &RaceChecked<u64> {
        &self.bytes[usize::try_from(position % 4).unwrap()]
    }

    fn cursors(&self) -> ArenaCursors<'_> {
        ArenaCursors { written: &self.written, consumed: &self.consumed }
    }
}

/// Depending on the consumer's speed, a lap ends early, continues after the bytes of the last lap, or
/// continues to the arena's end.
fn laps_are_short<O: ArenaOrderings + 'static>(forgets_last_lap: bool) {
    let shared = Arc::new(ShortLaps {
        written: SharedU64::new(0),
        consumed: SharedU64::new(0),
        committed: SharedU64::new(0),
        positions: std::array::from_fn(|_| RaceChecked::new(0)),
        bytes: std::array::from_fn(|_| RaceChecked::new(0)),
    });
    let producer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || send::<O>(&shared, forgets_last_lap)
    });
    let mut consumer = Consumer::<_, O>::with_orderings(shared.cursors(), 4, false);
    let mut observer = Observer::new(&shared.committed, BYTES_SENT as u64);
    while !observer.is_taken() {
        for record in observer.poll(1).unwrap() {
            let position = shared.positions[usize::try_from(record).unwrap()].read();
            assert!(consumer.poll().unwrap() > position, "a committed record is past the cursor");
            assert_eq!(shared.byte(position).read(), 40 + record);
            consumer.release_to(position + 1).unwrap();
        }
        thread::yield_now();
    }
    producer.join().unwrap();
}

fn send<O: ArenaOrderings>(shared: &ShortLaps, forgets_last_lap: bool) {
    let mut space = Space::<_, O>::with_orderings(shared.cursors(), 4, false).with_short_laps(2);
    let mut publisher = Publisher::begin(&shared.committed);
    for record in 0..BYTES_SENT {
        let position = loop {
            match space.reserve_near(1, 1) {
                Some(position) => break position,
                None => thread::yield_now(),
            }
        };
        if forgets_last_lap {
            space.last_lap_end = 0;
        }
        shared.byte(position).write(40 + record as u64);
        shared.positions[record].write(position);
        publisher.publish();
    }
}

#[test]
fn short_laps_overwrite_only_released_bytes() {
    holds(|| laps_are_short::<ProvenOrderings>(false));
}

#[test]
fn a_producer_that_forgets_where_its_last_lap_ended_is_refuted() {
    refuted(RACE, || laps_are_short::<ProvenOrderings>(true));
}

#[test]
fn short_laps_without_acquire_or_release_are_refuted() {
    refuted(RACE, || laps_are_short::<SeeReleasedRelaxed>(false));
    refuted(RACE, || laps_are_short::<ReleaseRelaxed>(false));
}

/// As [`ShortLaps`], with a limit that the consumer raises at any time.
struct Growing {
    laps: ShortLaps,
    limit: SharedU64,
}

fn an_arena_grows<O: ArenaOrderings + 'static>() {
    let laps = ShortLaps {
        written: SharedU64::new(0),
        consumed: SharedU64::new(0),
        committed: SharedU64::new(0),
        positions: std::array::from_fn(|_| RaceChecked::new(0)),
        bytes: std::array::from_fn(|_| RaceChecked::new(0)),
    };
    let shared = Arc::new(Growing { laps, limit: SharedU64::new(1) });
    let producer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || send_beyond_limit::<O>(&shared)
    });
    let Growing { laps, limit } = &*shared;
    let mut consumer = Consumer::<_, O>::with_orderings(laps.cursors(), 4, false);
    let mut observer = Observer::new(&laps.committed, RAISED as u64);
    while !observer.is_taken() {
        for record in observer.poll(1).unwrap() {
            limit.set(2);
            let position = laps.positions[usize::try_from(record).unwrap()].read();
            assert!(consumer.poll().unwrap() > position, "a committed record is past the cursor");
            assert_eq!(laps.byte(position).read(), 40 + record);
            consumer.release_to(position + 1).unwrap();
        }
        thread::yield_now();
    }
    producer.join().unwrap();
}

/// Enough for a lap before and after the limit is raised.
const RAISED: usize = 3;

fn send_beyond_limit<O: ArenaOrderings>(Growing { laps, limit }: &Growing) {
    let mut space = Space::<_, O>::with_orderings(laps.cursors(), 4, false).with_limit(1);
    let mut publisher = Publisher::begin(&laps.committed);
    for record in 0..RAISED {
        let position = loop {
            match space.reserve_near(1, 1) {
                Some(position) => break position,
                None if space.raise_limit(limit.get()) => {}
                None => thread::yield_now(),
            }
        };
        assert!(position % 4 < space.limit());
        laps.byte(position).write(40 + record as u64);
        laps.positions[record].write(position);
        publisher.publish();
    }
}

#[test]
fn a_raised_limit_overwrites_only_released_bytes() {
    holds(an_arena_grows::<ProvenOrderings>);
}

#[test]
fn a_raised_limit_without_acquire_or_release_is_refuted() {
    refuted(RACE, an_arena_grows::<SeeReleasedRelaxed>);
    refuted(RACE, an_arena_grows::<ReleaseRelaxed>);
}
