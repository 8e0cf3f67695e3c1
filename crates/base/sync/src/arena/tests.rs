//! Behavior of the arena's cursors.

use std::thread;
use std::vec::Vec;

use proptest::prelude::*;

use super::{ArenaCursors, Consumer, NextPiece, Space};
use crate::cursor::{CursorError, ReadError};
use crate::testing::{ROUNDS, cases, insist};
use crate::{CachePadded, SharedU64};

#[derive(Default)]
struct Words {
    written: CachePadded<SharedU64>,
    consumed: CachePadded<SharedU64>,
}

impl Words {
    fn cursors(&self) -> ArenaCursors<'_> {
        ArenaCursors { written: &self.written, consumed: &self.consumed }
    }
}

const BYTES: u64 = 512;

#[test]
fn a_piece_that_would_straddle_the_end_starts_after_it() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES);
    assert_eq!(space.reserve(400, 64), Some(0));
    assert_eq!(space.next_piece(64), NextPiece { position: 448, to_end: 64 });
    assert_eq!(space.reserve(65, 64), None, "the skipped end and the piece need 177 bytes, 112 are free");
    words.consumed.set(100);
    assert_eq!(space.reserve(65, 64), Some(512));
    assert_eq!((space.written(), space.in_use_hint(), words.written.get()), (577, 300 + 65, 577));
}

#[test]
fn a_piece_that_ends_with_the_arena_is_not_moved() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES);
    assert_eq!(space.reserve(64, 64), Some(0));
    assert_eq!(space.reserve(BYTES - 64, 64), Some(64));
    assert_eq!(space.reserve(0, 64), Some(512));
    assert_eq!(space.reserve(1, 1), None);
}

#[test]
fn a_piece_larger_than_the_arena_never_fits() {
    let words = Words::default();
    assert_eq!(Space::new(words.cursors(), BYTES).reserve(BYTES + 1, 1), None);
    assert_eq!(Space::overwriting(words.cursors(), BYTES).reserve(BYTES + 1, 1), None);
}

#[test]
fn an_overwriting_space_never_waits() {
    let words = Words::default();
    let mut space = Space::overwriting(words.cursors(), BYTES);
    let positions: Vec<_> = (0..4).map(|_| space.reserve(384, 128)).collect();
    assert_eq!(positions, [Some(0), Some(512), Some(1024), Some(1536)]);
}

#[test]
fn an_impossible_consumed_cursor_frees_nothing() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES);
    space.reserve(BYTES, 64).unwrap();
    words.consumed.set(BYTES + 1);
    assert_eq!(space.reserve(1, 1), None);
    words.consumed.set(256);
    assert_eq!(space.in_use(), 256);
    words.consumed.set(255);
    assert_eq!(space.in_use(), 256);
}

#[test]
fn the_consumer_rejects_impossible_cursors() {
    let words = Words::default();
    let mut consumer = Consumer::new(words.cursors(), BYTES);
    words.written.set(BYTES);
    assert_eq!(consumer.poll(), Ok(BYTES));
    words.written.set(2 * BYTES + 1);
    let past_two_laps = CursorError::TooFar { from: BYTES, to: 2 * BYTES + 1, most: 2 * BYTES };
    assert_eq!(consumer.poll(), Err(ReadError::Damaged(past_two_laps)));
    words.written.set(BYTES - 1);
    assert_eq!(
        consumer.poll(),
        Err(ReadError::Damaged(CursorError::MovedBack { from: BYTES, to: BYTES - 1 }))
    );

    assert_eq!(consumer.release_to(100), Ok(()));
    assert_eq!(
        consumer.release_to(99),
        Err(ReadError::Damaged(CursorError::MovedBack { from: 100, to: 99 }))
    );
    let past_written = ReadError::Damaged(CursorError::TooFar { from: 100, to: BYTES + 1, most: BYTES });
    assert_eq!(consumer.release_to(BYTES + 1), Err(past_written));
    assert_eq!((consumer.consumed(), words.consumed.get()), (100, 100));
    words.written.set(BYTES + 100);
    assert_eq!(consumer.poll(), Ok(BYTES + 100));
}

#[test]
fn the_consumer_follows_an_overwriting_producer_without_limit() {
    let words = Words::default();
    let mut consumer = Consumer::overwritten(words.cursors(), BYTES);
    words.written.set(10 * BYTES);
    assert_eq!(consumer.poll(), Ok(10 * BYTES));
    words.written.set(9 * BYTES);
    let back = CursorError::MovedBack { from: 10 * BYTES, to: 9 * BYTES };
    assert_eq!(consumer.poll(), Err(ReadError::Damaged(back)));
}

#[test]
fn a_consumer_restarts_at_its_released_position() {
    let words = Words::default();
    let mut consumer = Consumer::new(words.cursors(), BYTES);
    words.written.set(300);
    consumer.poll().unwrap();
    consumer.release_to(100).unwrap();
    words.written.set(200);
    assert!(consumer.poll().is_err());
    consumer.forget_seen();
    assert_eq!((consumer.poll(), consumer.seen()), (Ok(200), 200));
    words.consumed.set(7);
    let Ok(()) = consumer.restate();
    assert_eq!(words.consumed.get(), 100);
}

/// Replays a series of reservations and releases. Each step is `(bytes, alignment, release after it)`;
/// pieces are released in order.
fn pieces_in_use(
    mut space: Space<ArenaCursors<'_>>,
    words: &Words,
    steps: Vec<(u64, u32, bool)>,
    mut refused: impl FnMut(&mut Space<ArenaCursors<'_>>, u64, u64, u64) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut consumer = Consumer::new(words.cursors(), BYTES);
    let mut in_use: Vec<(u64, u64)> = Vec::new();
    for (bytes, align_log, consumes) in steps {
        if consumes && !in_use.is_empty() {
            let (position, bytes) = in_use.remove(0);
            consumer.poll().unwrap();
            consumer.release_to(position + bytes).unwrap();
            continue;
        }
        let align = 1 << (2 * align_log);
        let fits = space.fits(bytes, align);
        let Some(position) = space.reserve_near(bytes, align) else {
            prop_assert!(!fits, "fits() returned true, but reserve() refused");
            refused(&mut space, words.consumed.get(), bytes, align)?;
            continue;
        };
        prop_assert_eq!(position % align, 0);
        prop_assert_eq!(space.offset_of(position), position % BYTES);
        prop_assert!(position % BYTES + bytes <= space.limit(), "the piece is past the bytes in use");
        for &(other, len) in &in_use {
            let (here, there) = (position % BYTES, other % BYTES);
            prop_assert!(here + bytes <= there || there + len <= here || bytes == 0 || len == 0);
        }
        in_use.push((position, bytes));
        let used: u64 = in_use.iter().map(|&(_, len)| len).sum();
        prop_assert!(space.in_use() >= used, "{} bytes are in use", used);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn pieces_in_use_never_share_a_byte_and_fit_whenever_there_is_room(
        steps in prop::collection::vec((0..300u64, 0..4u32, any::<bool>()), 1..80),
    ) {
        let words = Words::default();
        pieces_in_use(Space::new(words.cursors(), BYTES), &words, steps, |space, consumed, bytes, align| {
            let NextPiece { position, to_end } = space.next_piece(align);
            let skipped = position - space.written() + if bytes > to_end { to_end } else { 0 };
            prop_assert!(skipped + bytes + (space.written() - consumed) > BYTES, "reserve() refused although the piece fits");
            Ok(())
        })?;
    }

    #[test]
    fn pieces_in_use_never_share_a_byte_in_short_laps(
        short_lap in 1..BYTES,
        steps in prop::collection::vec((0..100u64, 0..4u32, any::<bool>()), 1..200),
    ) {
        let words = Words::default();
        let space = Space::new(words.cursors(), BYTES).with_short_laps(short_lap);
        pieces_in_use(space, &words, steps, |space, consumed, bytes, align| {
            // With nothing in use, every piece fits, except into the bytes after the last byte of a
            // shortened lap.
            prop_assert!(consumed < space.written() || bytes + align > BYTES / 2, "an empty arena refuses");
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn pieces_in_use_never_share_a_byte_while_the_limit_is_raised(
        (limit, short_lap) in (1..BYTES / 64).prop_flat_map(|limit| (Just(limit * 64), 1..BYTES)),
        raise in prop::collection::vec(0..BYTES / 64, 1..20),
        steps in prop::collection::vec((0..100u64, 0..4u32, any::<bool>()), 1..200),
    ) {
        let words = Words::default();
        let space = Space::new(words.cursors(), BYTES).with_short_laps(short_lap).with_limit(limit);
        let mut raise = raise.into_iter();
        pieces_in_use(space, &words, steps, |space, consumed, bytes, align| {
            let empty = consumed == space.written();
            prop_assert!(!empty || bytes + align > space.limit() / 2, "an empty arena refuses");
            let (before, wanted) = (space.limit(), raise.next().unwrap_or(0) * 64);
            prop_assert_eq!(space.raise_limit(wanted), wanted > before);
            prop_assert_eq!(space.limit(), wanted.max(before), "it never shrinks");
            Ok(())
        })?;
    }
}

#[test]
fn a_raised_limit_continues_the_lap() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES).with_limit(128);
    assert_eq!(space.next_piece(64), NextPiece { position: 0, to_end: 128 });
    assert_eq!([space.reserve(96, 32), space.reserve(64, 32)], [Some(0), None]);
    assert_eq!((space.reserve(129, 1), space.reserve(32, 32)), (None, Some(96)));
    assert_eq!(space.next_piece(64), NextPiece { position: BYTES, to_end: 128 });
    assert!(space.raise_limit(256) && !space.raise_limit(192) && space.limit() == 256);
    assert_eq!(space.next_piece(64), NextPiece { position: 128, to_end: 128 });
    assert_eq!([space.reserve(128, 64), space.reserve(1, 1)], [Some(128), None]);
    // The next lap begins at the arena's size, whatever the limit was.
    words.consumed.set(100);
    assert_eq!(space.reserve(64, 64), Some(BYTES));
    assert!(space.raise_limit(10 * BYTES) && space.limit() == BYTES);
    assert_eq!(Space::overwriting(words.cursors(), BYTES).with_limit(1).limit(), BYTES);
}

#[test]
fn a_new_holder_continues_with_the_raised_limit() {
    let words = Words::default();
    let mut before = Space::new(words.cursors(), BYTES).with_limit(128);
    assert_eq!(before.reserve(128, 64), Some(0));
    assert!(before.raise_limit(256));
    assert_eq!(before.reserve(64, 64), Some(128));
    let mut space = Space::new(words.cursors(), BYTES).with_limit(256);
    assert_eq!([space.reserve(64, 64), space.reserve(64, 64)], [Some(192), None]);
}

#[test]
fn a_payload_in_pieces_fits_as_a_whole_only_before_the_limit() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES).with_limit(256);
    assert!(space.reaches(256) && !space.reaches(257), "after the limit there is a gap");
    assert_eq!(space.reserve(200, 8), Some(0));
    words.consumed.set(200);
    assert!(space.reaches(256) && !space.reaches(BYTES + 1));
    assert!(space.raise_limit(BYTES) && space.reaches(BYTES + 200));
}

#[test]
fn a_fast_consumer_keeps_the_lap_short_and_a_slow_one_lets_it_grow() {
    let words = Words::default();
    let (mut space, mut consumer) =
        (Space::new(words.cursors(), BYTES).with_short_laps(128), Consumer::new(words.cursors(), BYTES));
    for piece in 0..100 {
        let position = space.reserve_near(32, 32).unwrap();
        assert!(position % BYTES < 128 + 32, "piece {piece} is at {position}");
        assert_eq!(consumer.poll(), Ok(position + 32));
        consumer.release_to(position + 32).unwrap();
    }
    let room = (0..).take_while(|_| space.reserve_near(32, 32).is_some()).count();
    assert_eq!(room as u64, BYTES / 32, "nothing is in use, so all bytes are free");
    assert_eq!((space.in_use(), space.reserve(1, 1)), (BYTES, None));
}

#[test]
fn unreleased_bytes_of_the_last_lap_are_skipped() {
    let words = Words::default();
    let mut space = Space::new(words.cursors(), BYTES).with_short_laps(128);
    assert_eq!([64, 64].map(|bytes| space.reserve_near(bytes, 64)), [Some(0), Some(64)]);
    words.consumed.set(64);
    assert_eq!([64, 64].map(|bytes| space.reserve_near(bytes, 64)), [Some(BYTES), Some(BYTES + 128)]);
    assert_eq!(space.in_use(), 64 + 192);
    assert!(space.reaches(2 * BYTES) && !space.reaches(2 * BYTES + 1));
    assert_eq!(space.reserve(BYTES - 192, 64), Some(BYTES + 192));
    assert_eq!((space.reserve(1, 1), space.in_use()), (None, BYTES + 64), "skipped bytes count as in use");
    words.consumed.set(BYTES + 64);
    assert_eq!(space.reserve(64, 64), Some(2 * BYTES));
}

#[test]
fn a_new_holder_does_not_skip_bytes_of_a_lap_that_another_holder_ended() {
    let words = Words::default();
    let mut before = Space::new(words.cursors(), BYTES).with_short_laps(128);
    assert_eq!([64, 64].map(|bytes| before.reserve_near(bytes, 64)), [Some(0), Some(64)]);
    words.consumed.set(64);
    assert_eq!(before.reserve_near(64, 64), Some(BYTES));
    let mut space = Space::new(words.cursors(), BYTES).with_short_laps(128);
    assert_eq!(space.reserve(1, 1), None, "the end of the last lap is not known");
    words.consumed.set(BYTES + 64);
    assert_eq!(space.reserve(64, 64), Some(BYTES + 64));
}

#[test]
fn a_stream_larger_than_the_arena_passes_through_it() {
    let words = Words::default();
    let bytes: Vec<SharedU64> = (0..8).map(|_| SharedU64::new(0)).collect();
    let committed = SharedU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut space = Space::new(words.cursors(), 8);
            for piece in 0..u64::from(ROUNDS) {
                let position = insist(|| space.reserve(1, 1));
                bytes[usize::try_from(position % 8).unwrap()].set(piece);
                committed.publish(piece + 1);
            }
        });
        let mut consumer = Consumer::new(words.cursors(), 8);
        for piece in 0..u64::from(ROUNDS) {
            insist(|| (committed.see() > piece).then_some(()));
            assert!(consumer.poll().unwrap() > piece);
            assert_eq!(bytes[usize::try_from(piece % 8).unwrap()].get(), piece);
            consumer.release_to(piece + 1).unwrap();
        }
    });
}
