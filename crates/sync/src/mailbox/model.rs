//! Model checks of the mailbox.

use std::sync::Arc;

use loom::thread;

use super::{MailboxWords, Poster, Receiver};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{Guarded, RACE, holds, refuted, weakened};
use crate::orderings::{MailboxOrderings, Proven};

weakened! {
    PostRelaxed: MailboxOrderings { POST = Relaxed }
    ReceiveRelaxed: MailboxOrderings { RECEIVE = Relaxed }
    FinishRelaxed: MailboxOrderings { FINISH = Relaxed }
    SeeDoneRelaxed: MailboxOrderings { SEE_DONE = Relaxed }
}

struct Shared {
    posted: SharedU64,
    done: SharedU64,
    message: Guarded<u64>,
    result: Guarded<u64>,
}

impl MailboxWords for Shared {
    fn posted(&self) -> &SharedU64 {
        &self.posted
    }

    fn done(&self) -> &SharedU64 {
        &self.done
    }
}

/// Starts at a count other than zero, as the second run in a process does.
const START: u64 = 5;

fn two_messages<O: MailboxOrderings + 'static>() {
    let shared = Arc::new(Shared {
        posted: SharedU64::new(START),
        done: SharedU64::new(START),
        message: Guarded::new(0),
        result: Guarded::new(0),
    });
    let mut poster = Poster::<_, O>::with_orderings(Arc::clone(&shared), START);
    let core = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            for number in [START + 1, START + 2] {
                run_one(&shared, &mut Receiver::<_, O>::with_orderings(&*shared, number - 1), number);
            }
        }
    });
    for message in [30, 40] {
        shared.message.write(message);
        poster.post();
        while !poster.poll_done() {
            thread::yield_now();
        }
        assert_eq!(shared.result.read(), message + 1);
    }
    assert!(poster.is_idle() && !poster.poll_done());
    core.join().unwrap();
}

fn run_one<W: MailboxWords, O: MailboxOrderings>(
    shared: &Shared,
    receiver: &mut Receiver<W, O>,
    number: u64,
) {
    loop {
        match receiver.poll() {
            Some(posted) => break assert_eq!(posted, number),
            None => thread::yield_now(),
        }
    }
    shared.result.write(shared.message.read() + 1);
    receiver.finish();
}

#[test]
fn message_and_result_are_ordered_by_the_two_words() {
    holds(two_messages::<Proven>);
}

#[test]
fn post_without_release_is_refuted() {
    refuted(RACE, two_messages::<PostRelaxed>);
}

#[test]
fn poll_without_acquire_is_refuted() {
    refuted(RACE, two_messages::<ReceiveRelaxed>);
}

#[test]
fn finish_without_release_is_refuted() {
    refuted(RACE, two_messages::<FinishRelaxed>);
}

#[test]
fn poll_done_without_acquire_is_refuted() {
    refuted(RACE, two_messages::<SeeDoneRelaxed>);
}
