//! Model checks of the signs.

use std::sync::Arc;

use loom::thread;

use super::{discards, order_discard};
use crate::SharedU64;
use crate::model::{LIVELOCK, holds, refuted};

/// A device thread that waits for space nobody will give back.
fn waits_for_nobody(host_gives_up: bool) {
    let discard = Arc::new(SharedU64::new(0));
    let host = thread::spawn({
        let discard = Arc::clone(&discard);
        move || {
            if host_gives_up {
                order_discard(&*discard).unwrap();
            }
        }
    });
    while !discards(&discard) {
        thread::yield_now();
    }
    host.join().unwrap();
}

#[test]
fn an_order_to_discard_ends_every_wait() {
    holds(|| waits_for_nobody(true));
}

#[test]
fn a_host_that_gives_up_in_silence_is_refuted() {
    refuted(LIVELOCK, || waits_for_nobody(false));
}
