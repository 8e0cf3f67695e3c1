//! Behavior of the mailbox.

use std::thread;

use super::{MailboxWords, Poster, Receiver, reset};
use crate::CachePadded;
use crate::SharedU64;
use crate::testing::{ROUNDS, insist};

#[derive(Default)]
struct Words {
    posted: CachePadded<SharedU64>,
    done: CachePadded<SharedU64>,
}

impl MailboxWords for Words {
    fn posted(&self) -> &SharedU64 {
        &self.posted
    }

    fn done(&self) -> &SharedU64 {
        &self.done
    }
}

#[test]
fn done_is_reported_once_per_message() {
    let words = Words::default();
    let (mut poster, mut receiver) = (Poster::new(&words, 0), Receiver::new(&words, 0));
    assert!(poster.is_idle() && !poster.poll_done());
    for number in 1..=3 {
        assert_eq!(poster.post(), number);
        assert!(!poster.is_idle() && !poster.poll_done());
        assert_eq!(receiver.poll(), Some(number));
        assert!(receiver.is_busy() && !poster.poll_done());
        receiver.finish();
        assert!(!receiver.is_busy());
        assert_eq!([poster.poll_done(), poster.poll_done()], [true, false]);
        assert!(poster.is_idle());
        assert_eq!(receiver.poll(), None);
    }
}

#[test]
fn a_receiver_created_late_finds_the_first_message() {
    let words = Words::default();
    reset(&words, 41);
    assert_eq!(Poster::new(&words, 41).post(), 42);
    assert_eq!(Receiver::new(&words, 41).poll(), Some(42));
}

#[test]
fn reset_clears_the_counts_of_an_interrupted_run() {
    let words = Words::default();
    Poster::new(&words, 0).post();
    reset(&words, 0);
    let (mut poster, mut receiver) = (Poster::new(&words, 0), Receiver::new(&words, 0));
    assert_eq!(receiver.poll(), None);
    assert_eq!(poster.post(), 1);
    assert_eq!(receiver.poll(), Some(1));
}

#[test]
fn each_message_gets_its_own_result_across_threads() {
    let words = Words::default();
    let (message, result) = (SharedU64::new(0), SharedU64::new(0));
    let run_core = || {
        let mut receiver = Receiver::new(&words, 0);
        for number in 1..=u64::from(ROUNDS) {
            assert_eq!(insist(|| receiver.poll()), number);
            result.set(message.get() * 3);
            receiver.finish();
        }
    };
    thread::scope(|scope| {
        scope.spawn(run_core);
        let mut poster = Poster::new(&words, 0);
        for round in 0..u64::from(ROUNDS) {
            message.set(round);
            poster.post();
            insist(|| poster.poll_done().then_some(()));
            assert_eq!(result.get(), round * 3);
        }
    });
}

#[cfg(debug_assertions)]
mod misuse {
    use super::*;

    #[test]
    #[should_panic(expected = "wait for poll_done")]
    fn posting_twice_is_caught() {
        let words = Words::default();
        let mut poster = Poster::new(&words, 0);
        poster.post();
        poster.post();
    }

    #[test]
    #[should_panic(expected = "call finish first")]
    fn polling_while_busy_is_caught() {
        let words = Words::default();
        Poster::new(&words, 0).post();
        let mut receiver = Receiver::new(&words, 0);
        receiver.poll();
        receiver.poll();
    }

    #[test]
    #[should_panic(expected = "finish without a message")]
    fn finishing_nothing_is_caught() {
        Receiver::new(&Words::default(), 0).finish();
    }

    #[test]
    #[should_panic(expected = "call mailbox::reset")]
    fn a_poster_of_a_dirty_mailbox_is_caught() {
        let words = Words::default();
        reset(&words, 3);
        let _ = Poster::new(&words, 0);
    }

    #[test]
    #[should_panic(expected = "call mailbox::reset")]
    fn a_receiver_of_a_dirty_mailbox_is_caught() {
        let words = Words::default();
        reset(&words, 3);
        let _ = Receiver::new(&words, 0);
    }
}
