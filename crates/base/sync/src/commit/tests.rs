//! Behavior of committing.

use std::thread;

use super::{Current, Observer, Publisher, current};
use crate::SharedU64;
use crate::cursor::{CursorError, ReadError};
use crate::testing::{ROUNDS, insist};

#[test]
fn each_record_is_reported_once() {
    let word = SharedU64::new(77);
    let mut publisher = Publisher::begin(&word);
    let mut observer = Observer::new(&word, 3);
    assert_eq!(observer.poll(10), Ok(0..0));
    assert_eq!([publisher.publish(), publisher.publish()], [1, 2]);
    assert_eq!([observer.poll(10), observer.poll(10)], [Ok(0..2), Ok(2..2)]);
    assert!(!observer.is_taken());
    publisher.publish();
    assert_eq!(observer.poll(10), Ok(2..3));
    assert!(observer.is_taken());
    assert_eq!(publisher.count(), 3);
}

#[test]
fn poll_respects_its_limit_and_takes_no_record_twice() {
    let word = SharedU64::new(5);
    let mut observer = Observer::new(&word, 5);
    assert_eq!([observer.poll(2), observer.poll(2)], [Ok(0..2), Ok(2..4)]);
    // Records that are already known to be visible need no new read of the word.
    word.set(9);
    assert_eq!([observer.poll(2), observer.poll(2)], [Ok(4..5), Ok(5..5)]);
}

#[test]
fn a_count_past_the_buffer_or_below_the_last_is_rejected() {
    let word = SharedU64::new(2);
    let mut observer = Observer::new(&word, 3);
    assert_eq!(observer.poll(10), Ok(0..2));
    word.set(4);
    assert_eq!(observer.poll(10), Err(ReadError::Damaged(CursorError::TooFar { from: 2, to: 4, most: 3 })));
    word.set(1);
    assert_eq!(observer.poll(10), Err(ReadError::Damaged(CursorError::MovedBack { from: 2, to: 1 })));
}

#[test]
fn no_buffer_is_current_before_the_first_and_after_closing() {
    let word = SharedU64::new(0);
    let mut filling = Current::new(&word);
    assert_eq!(current(&word), Ok(None));
    filling.open(0);
    assert_eq!(current(&word), Ok(Some(0)));
    filling.open(u32::MAX);
    assert_eq!(current(&word), Ok(Some(u32::MAX.into())));
    filling.close();
    assert_eq!(current(&word), Ok(None));
}

#[test]
fn writes_before_a_commit_are_visible_after_it() {
    let (word, record) = (SharedU64::new(0), SharedU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut publisher = Publisher::begin(&word);
            for count in 1..=u64::from(ROUNDS) {
                record.set(count);
                publisher.publish();
            }
        });
        let mut observer = Observer::new(&word, ROUNDS.into());
        while !observer.is_taken() {
            let seen = insist(|| Some(observer.poll(10).unwrap()).filter(|seen| !seen.is_empty()));
            assert!(record.get() >= seen.end);
        }
    });
}
