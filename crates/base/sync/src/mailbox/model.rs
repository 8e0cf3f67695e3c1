//! Model checks of the mailbox.

use std::sync::Arc;

use loom::thread;

use super::{MailboxWords, Poster, Receiver};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{RACE, RaceChecked, holds, refuted, weakened};
use crate::orderings::{MailboxOrderings, ProvenOrderings};

weakened! {
    PostRelaxed: MailboxOrderings { POST = Relaxed }
    ReceiveRelaxed: MailboxOrderings { RECEIVE = Relaxed }
    FinishRelaxed: MailboxOrderings { FINISH = Relaxed }
    SeeDoneRelaxed: MailboxOrderings { SEE_DONE = Relaxed }
}

struct MailboxModel {
    posted: SharedU64,
    done: SharedU64,
    message: RaceChecked<u64>,
    result: RaceChecked<u64>,
}

impl MailboxWords for MailboxModel {
    fn posted(&self) -> &SharedU64 {
        &self.posted
    }

    fn done(&self) -> &SharedU64 {
        &self.done
    }
}

/// The counts start above zero, as in the second run of a process.
const START: u64 = 5;

fn two_messages<O: MailboxOrderings + 'static>() {
    let shared = Arc::new(MailboxModel {
        posted: SharedU64::new(START),
        done: SharedU64::new(START),
        message: RaceChecked::new(0),
        result: RaceChecked::new(0),
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
    shared: &MailboxModel,
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
    holds(two_messages::<ProvenOrderings>);
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
