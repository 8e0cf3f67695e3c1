//! Model checks of the host's signals.

use std::sync::Arc;

use loom::thread;

use super::{discards, order_discard};
use crate::SharedU64;
use crate::model::{LIVELOCK, holds, refuted};

/// A device thread that waits for space that no other thread will release.
fn waits_without_a_host(host_gives_up: bool) {
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
    holds(|| waits_without_a_host(true));
}

#[test]
fn a_host_that_stops_without_an_order_is_refuted() {
    refuted(LIVELOCK, || waits_without_a_host(false));
}
