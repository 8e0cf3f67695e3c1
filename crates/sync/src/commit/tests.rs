//! Behaviour of committing.

use std::thread;

use super::{Current, Observer, Publisher, current};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::cursor::CursorError;
use crate::testing::{ROUNDS, insist};

#[test]
fn each_record_is_reported_once() {
    let word = AtomicU64::new(77);
    let mut publisher = Publisher::begin(&word);
    let mut observer = Observer::new(&word, 3);
    assert_eq!(observer.poll(), Ok(0..0));
    assert_eq!([publisher.publish(), publisher.publish()], [1, 2]);
    assert_eq!([observer.poll(), observer.poll()], [Ok(0..2), Ok(2..2)]);
    assert!(!observer.is_full());
    publisher.publish();
    assert_eq!(observer.poll(), Ok(2..3));
    assert!(observer.is_full());
    assert_eq!(publisher.count(), 3);
}

#[test]
fn a_count_past_the_buffer_or_below_the_last_is_refused() {
    let word = AtomicU64::new(2);
    let mut observer = Observer::new(&word, 3);
    assert_eq!(observer.poll(), Ok(0..2));
    word.store(4, Relaxed);
    assert_eq!(observer.poll(), Err(CursorError::TooFar { from: 2, to: 4, most: 3 }));
    word.store(1, Relaxed);
    assert_eq!(observer.poll(), Err(CursorError::MovedBack { from: 2, to: 1 }));
}

#[test]
fn no_buffer_is_current_before_the_first_and_after_closing() {
    let word = AtomicU64::new(0);
    let mut filling = Current::new(&word);
    assert_eq!(current(&word), None);
    filling.open(0);
    assert_eq!(current(&word), Some(0));
    filling.open(u32::MAX);
    assert_eq!(current(&word), Some(u32::MAX.into()));
    filling.close();
    assert_eq!(current(&word), None);
}

#[test]
fn what_was_written_before_a_commit_is_seen_after_it() {
    let (word, record) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut publisher = Publisher::begin(&word);
            for count in 1..=u64::from(ROUNDS) {
                record.store(count, Relaxed);
                publisher.publish();
            }
        });
        let mut observer = Observer::new(&word, ROUNDS.into());
        while !observer.is_full() {
            let seen = insist(|| Some(observer.poll().unwrap()).filter(|seen| !seen.is_empty()));
            assert!(record.load(Relaxed) >= seen.end);
        }
    });
}
